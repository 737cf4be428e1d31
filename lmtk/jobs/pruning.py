"""Prunes a back-off model by a threshold, to a number of n-grams, or to the size of a file.

The jobs of lmtk ngram and lmtk ngram-count share these options. `edit.prune` computes for each n-gram the highest
threshold that keeps it, so a threshold for a given number of n-grams is found without trials.
"""

import os
import tempfile
import warnings
from dataclasses import replace

from lmtk.errors import LmtkError, LmtkWarning, counted
from lmtk.jobs.model_files import write_files
from lmtk.jobs.rules import excludes, wrong

ENOUGH = 0.99  # of the wanted size; a file from this size on is accepted
ROUNDS = 8  # files that are written to come near the wanted size; more if all of them are too large
GUESS = 25  # bytes of an n-gram, for the first file

PRUNING_RULES = (
    excludes("prune_to prune_to_size", "prune"),
    excludes("prune_to", "prune_to_size"),
    wrong(
        lambda job: job.prune_to_size and len(job.model_files.paths) != 1,
        "-prune-to-size needs exactly one model file, such as -write-bin FILE",
    ),
    wrong(
        lambda job: any(size is not None and size < 1 for size in (job.prune_to, job.prune_to_size)),
        "-prune-to and -prune-to-size must be 1 or more",
    ),
)


def sizes_line(step, model):
    """The line that -debug prints after a step: what was done, and the number of n-grams of each order."""
    return f"{step}: {', '.join(f'{size} {k}-grams' for k, size in enumerate(model.sizes, 1))}\n"


def prune_model(job, files, model, threshold, context, may_reuse):
    """Prunes a Backoff. Returns (the model, an option with a threshold that has the same result).

    files: the ModelFiles, for -prune-to-size. threshold: of -prune, if neither -prune-to nor -prune-to-size is given.
    context, may_reuse: as for `edit.prune.find_limits`. Raises LmtkError if the size cannot be reached.
    """
    from lmtk.ngram.edit import prune

    if not (job.prune_to or job.prune_to_size):
        if threshold > 1:
            meaning = "-prune takes the fraction by which removing an n-gram may raise the perplexity, such as 1e-8"
            size = f"; to keep {threshold:.0f} n-grams, give -prune-to {threshold:.0f}" if threshold < 1e12 else ""
            warnings.warn(f"{meaning}, not {threshold:g}{size}", LmtkWarning, stacklevel=1)
        return prune.prune(model, threshold, job.minprune, context, may_reuse), f"-prune {threshold:g}"
    model, limits = prune.find_limits(model, job.minprune, context, may_reuse)

    def cut_to(most):
        """(the model with at most `most` n-grams, the threshold)."""
        wanted = most
        while True:
            limit = prune.threshold_for(limits, wanted)
            pruned = prune.cut(model, prune.mark_kept(limits, limit))
            excess = sum(pruned.sizes) - most  # prefixes without a probability, which longer n-grams need
            if excess <= 0 or limit == float("inf"):
                return pruned, limit
            wanted = max(wanted - excess, 0)

    pruned, limit = fit(job, files, sum(map(len, limits)), cut_to)
    return pruned, f"-prune {max(limit, 0):.9g}"


def prune_kneser(job, files, whole):
    """`prune_model` by revised Kneser pruning. whole: the kneser.KneserNey of the model."""

    def cut_to(most):
        marks, limit = whole.fit(most, job.minprune, job.prune_kneser)
        return whole.cut(*marks), limit

    if not (job.prune_to or job.prune_to_size):
        return whole.cut(*whole.mark(job.prune_kneser, job.minprune)), f"-prune-kneser {job.prune_kneser:g}"
    pruned, limit = fit(job, files, sum(map(len, whole.counts)), cut_to)
    return pruned, f"-prune-kneser {limit:.9g}"


def fit(job, files, total, cut_to):
    """(the model of the wanted size, the threshold).

    cut_to(n): (the model with at most n n-grams, the threshold, which is inf if more than n n-grams have to stay).
    files, total: as in `fit_to_size`. Raises LmtkError.
    """
    if job.prune_to:
        pruned, limit = cut_to(job.prune_to)
        if limit == float("inf"):
            number = sum(pruned.sizes)
            floor = f"{counted(number, 'n-gram')} cannot be removed, among them all 1-grams"
            raise LmtkError(f"-prune-to {job.prune_to} is too low: {floor}; give {number} or more")
        return pruned, limit
    return fit_to_size(job, files, total, cut_to)


def fit_to_size(job, files, total, cut_to):
    """(the largest model whose file has at most the bytes of -prune-to-size, the threshold).

    The number of n-grams is found from the sizes of a few files. files: ModelFiles with one file. total: the number of
    n-grams of the whole model. cut_to: as in `fit`. Raises LmtkError.
    """
    ((form, name),) = files.paths.items()
    best, rounds = None, 0
    low, high = 0, total + 1  # numbers of n-grams: so far, the most that fit and the fewest that do not
    most = min(max(job.prune_to_size // GUESS, 1), total)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, os.path.basename(name) if name != "-" else "model")
        while best is None or (low + 1 < high and rounds < ROUNDS):
            pruned, limit = cut_to(most)
            write_files(pruned, replace(files, **{form: path}))
            size, number, rounds = os.path.getsize(path), sum(pruned.sizes), rounds + 1
            if size <= job.prune_to_size:
                best, low = (pruned, limit), most
                if most == total or size >= ENOUGH * job.prune_to_size:
                    break
            elif limit == float("inf") or most == 1:
                raise LmtkError(
                    f"-prune-to-size is too low: the {counted(number, 'n-gram')} that cannot be removed take {size} "
                    "bytes; give a larger size"
                )
            else:
                high = most
            # the size is almost proportional to the number of n-grams; if this does not converge, bisect
            most = int(number * (job.prune_to_size / size)) if rounds < ROUNDS else (low + high) // 2
            most = min(max(most, low + 1), high - 1)
    return best
