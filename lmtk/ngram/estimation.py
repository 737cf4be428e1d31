"""What was counted -> a back-off model: by the `engine`, in suffix order, or by `smoothing`.

`smoothing` is a page of numpy from counts to a model. It is the reference that the engine is tested against, it spares
small jobs the kernels, whose loading would take longer than they do, and it does what is not worth a kernel: order 1,
and n-grams with sentence marks in the middle.
"""

from lmtk.machine.large import pays
from lmtk.ngram import smoothing
from lmtk.ngram.collection import Positions


def estimate(counted, vocab, recipe, marks, types=True):
    """collection.Counts or Positions, which is taken from the list `counted`, -> (an engine.Estimate or a Backoff, the
    methods with their discounts). recipe: a methods.Recipe. types: wanted by engine.backoff_of.
    """
    ngrams, suffixes, order = counted.pop(), None, len(recipe.methods)
    if isinstance(ngrams, Positions):
        from lmtk.ngram import suffix

        suffixes = suffix.suffix_order(ngrams.of(vocab), order, len(vocab.words) - 1, marks)
    else:
        ngrams = ngrams.up_to(order)
        if order > 1 and pays("ngrams", sum(len(level.keys) for level in ngrams.levels)):
            from lmtk.ngram import leaves

            suffixes = leaves.suffixes_of(ngrams, vocab)
    if suffixes is None:
        return smoothing.estimate(ngrams, vocab, recipe)
    del ngrams  # its memory serves the engine
    from lmtk.ngram import engine

    return engine.estimate(suffixes, vocab, recipe, marks, types)
