"""What was counted -> a back-off model.

A large job goes through `buckets`, which run the kernels of `engine` on n-grams in suffix order: in one bucket in
memory, or in many where memory is bounded or ranks share the work. `smoothing` goes from counts to a model in numpy.
This spares small jobs the kernels, which take longer to load than such a job. `smoothing` also does what is not worth a
kernel: order 1, n-grams with sentence marks in the middle, and contexts with counts of their own.
"""

from lmtk.machine.large import pays
from lmtk.machine.parallel import ALONE
from lmtk.ngram.counting.collection import Text
from lmtk.ngram.counting.counts import Counts
from lmtk.ngram.counting.runs import Spilled
from lmtk.ngram.estimate import smoothing
from lmtk.text.vocab import EOS


def estimate(counts, vocab, recipe, form="nodes", memory=None, comm=ALONE, show=lambda share, task: None):
    """Estimates a model. Returns (the model, the methods with their discounts). counts: Counts, a collection.Text or
    runs.Spilled. The caller should not keep them, so that their memory becomes free. The model is a Backoff for few
    Counts, otherwise Buckets. form: what the model is for, "lines" of an ARPA file or the "nodes" of a Backoff; with
    "discounts" it is None. memory, comm, show: as for `buckets.estimating.count`. Raises NoDiscount, and LmtkError if
    nothing is counted.
    """
    if not is_shelved(counts):
        counts = in_suffix_order(counts, vocab, recipe)
        if isinstance(counts, Counts):
            model, methods = smoothing.estimate(counts, vocab, recipe)
            return model if form != "discounts" else None, methods
    from lmtk.ngram.estimate.buckets import estimating

    buckets = estimating.count(counts, vocab, recipe, memory, comm, show, form == "nodes")
    del counts  # the last reference
    return estimating.estimate(buckets) if form != "discounts" else None, buckets.methods


def is_shelved(counts):
    """Whether the n-grams of the model are dealt to several buckets, on disk or to ranks."""
    return isinstance(counts, Spilled) or (isinstance(counts, Text) and not counts.is_in_memory)


def in_suffix_order(counts, vocab, recipe):
    """The suffix.Suffixes of a Text, or of many Counts if `engine` can estimate from them; else the Counts."""
    order = len(recipe.methods)
    if isinstance(counts, Text):
        from lmtk.ngram.estimate.suffix import suffix_order

        return suffix_order(counts.parts(vocab), int(counts.counts.sum()), order, len(vocab.words) - 1, counts.marks)
    counts = counts.up_to(order)
    suits = order > 1 and not recipe.trusting and vocab.predicts(EOS)
    if suits and pays("ngrams", sum(len(level.keys) for level in counts.levels)):
        from lmtk.ngram.estimate.leaves import suffixes_of

        return suffixes_of(counts, vocab) or counts
    return counts
