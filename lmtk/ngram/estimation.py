"""What was counted -> a back-off model: by the `engine`, in suffix order, or by `smoothing`.

`smoothing` is a page of numpy from counts to a model. It is the reference that the engine is tested against, it spares
small jobs the kernels, whose loading would take longer than they do, and it does what is not worth a kernel: order 1,
and n-grams with sentence marks in the middle.
"""

from lmtk.machine.large import pays
from lmtk.ngram import smoothing
from lmtk.ngram.collection import Positions


def estimate(counted, vocab, order, methods, marks, *given, heldout=None, types=True):
    """collection.Counts or Positions, which is taken from the list `counted`, -> (an engine.Estimate or a Backoff, the
    methods with their discounts). given, heldout: as in smoothing.estimate. types: wanted by engine.backoff_of.
    """
    ngrams, suffixes = counted.pop(), None
    if isinstance(ngrams, Positions):
        from lmtk.ngram import suffix

        suffixes = suffix.suffix_order(ngrams.of(vocab), order, len(vocab.words) - 1, marks)
    else:
        ngrams = ngrams.up_to(order)
        if order > 1 and pays("ngrams", sum(len(level.keys) for level in ngrams.levels)):
            from lmtk.ngram import leaves

            suffixes = leaves.suffixes_of(ngrams, vocab)
    if suffixes is None:
        return smoothing.estimate(ngrams, vocab, order, methods, *given, heldout=heldout)
    del ngrams  # its memory serves the engine
    from lmtk.ngram import engine

    return engine.estimate(suffixes, vocab, methods, marks, *given, heldout=heldout, types=types)
