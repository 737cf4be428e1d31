"""Counts or a text's positions -> a back-off model: by the `engine`, in suffix order, or by `smoothing`.

`smoothing` goes from counts to a model in numpy. It has three uses. It is the reference for the tests of the engine. It
spares small jobs the kernels, which take longer to load than such a job. And it does what is not worth a kernel: order
1, n-grams with sentence marks in the middle, and contexts with counts of their own.
"""

from lmtk.machine.large import pays
from lmtk.ngram.counting.collection import Positions
from lmtk.ngram.estimate import smoothing


def estimate(counted, vocab, recipe, marks, types=True):
    """(Buckets with one bucket in memory, or a Backoff; the methods with their discounts) from the one Counts or
    collection.Positions in the list `counted`. The list is emptied, so that its memory is free for the engine. recipe:
    a methods.Recipe. types: whether `buckets.assembly.backoff_of` may follow. Raises NoDiscount, and LmtkError if
    nothing is counted.
    """
    ngrams, suffixes, order = counted.pop(), None, len(recipe.methods)
    if isinstance(ngrams, Positions):
        from lmtk.ngram.estimate import suffix

        suffixes = suffix.suffix_order(ngrams.of(vocab), order, len(vocab.words) - 1, marks)
    else:
        ngrams = ngrams.up_to(order)
        if order > 1 and not recipe.trusting and pays("ngrams", sum(len(level.keys) for level in ngrams.levels)):
            from lmtk.ngram.estimate import leaves

            suffixes = leaves.suffixes_of(ngrams, vocab)
    if suffixes is None:
        return smoothing.estimate(ngrams, vocab, recipe)
    del ngrams  # the last reference
    from lmtk.ngram.estimate.buckets import estimating

    job = estimating.estimate(estimating.count(suffixes, vocab, recipe, marks, types=types))
    return job, job.methods
