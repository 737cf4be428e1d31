"""Mixing models of any kind, with weights that are given or learned on held-out text."""

import os
import sys
import warnings
from dataclasses import dataclass, field

from lmtk.errors import LmtkError, LmtkWarning, name_of
from lmtk.jobs.rules import (
    check,
    check_outputs,
    complete_weights,
    format_weights,
    marks_of,
    names_of,
    needs,
    one_stdin,
    option_named,
    required,
    wrong,
)
from lmtk.jobs.texts import LOWERED_RULES, Reading, convert_texts, needs_text


@dataclass(frozen=True)
class MixJob:
    """Mix models with given weights, or learn the weights on held-out text by EM.

    lm: files of models, or models in memory. weight: a weight for each model; the last may be left out.
    heldout: the text on which weights are learned. bins: learn weights for each bin of context frequencies.
    write: the file of the mixture.
    iterations: the largest number of iterations of EM. tolerance: EM stops when an iteration changes no weight by more.
    threads: the number of threads for neural models.
    """

    lm: tuple[str, ...] = ()
    weight: tuple[float, ...] = option_named("lambda", ())
    heldout: str | None = None
    bins: bool = False
    write: str | None = None
    iterations: int = 1000
    tolerance: float = 0.001
    no_sos: bool = False
    no_eos: bool = False
    stream: bool = False
    tolower: bool = False
    threads: int | None = None
    debug: int = 0
    reading: Reading = field(default_factory=Reading)

    def __post_init__(self):
        check(self, RULES)
        convert_texts(self, self.reading, "heldout")
        one_stdin(*self.lm, self.heldout)
        complete_weights(self.weight, len(self.lm))


RULES = (
    required("lm"),
    needs("bins", "heldout"),
    wrong(
        lambda job: job.write and "-" in job.lm,
        "a mixture refers to the files of its models, so these cannot be stdin (-)",
    ),
    wrong(
        lambda job: job.write and not all(isinstance(path, str) for path in job.lm),
        "a mixture refers to the files of its models, but some models are in memory; first write the models to files",
    ),
    wrong(
        lambda job: job.write and any(os.path.realpath(path) == os.path.realpath(job.write) for path in job.lm),
        "-write {write} would replace a model that the mixture refers to; choose another name",
    ),
    *LOWERED_RULES,
    needs_text("heldout"),
)


def mix(job, tell=lambda line: None):
    """The joint.mixture.Mixture of a MixJob, which is written if the job names a file for it.

    tell: is called with the lines of SRILM's compute-best-mix about the learned weights.
    """
    import numpy as np

    from lmtk.files.outputs import open_out
    from lmtk.files.registry import load
    from lmtk.joint import mixture
    from lmtk.lm import find_running_text
    from lmtk.machine.threads import use

    check_outputs(job.write, texts=[job.heldout], inputs=[*job.lm, job.reading.tokenizer])
    use(job.threads)
    parts = [load(path) if isinstance(path, str) else path for path in job.lm]
    names = names_of(job.lm)
    mixture.check_vocabularies(parts, names)
    if job.heldout:
        job.reading.check_models(parts, names)
        if clause := find_running_text(parts, marks_of(job), names):
            remedy = "mix models of sentences, or models that were all trained with -stream"
            warnings.warn(f"{clause}; {remedy}", LmtkWarning, stacklevel=1)
    binned = mixture.binned_part(parts) if job.bins else None
    start = complete_weights(job.weight, len(parts))
    weights = np.array([start] * (len(parts[binned].alpha) if job.bins else 1))
    if job.heldout:
        weights = learn_weights(job, parts, binned, weights, tell)
    mixed = mixture.Mixture(parts, weights, binned, names)
    if job.write:
        with open_out(job.write) as out:
            mixture.write_text(out, mixed, job.write)
    return mixed


def learn_weights(job, parts, binned, weights, tell):
    """The weights, (bins, parts), under which the held-out text is most likely. binned: the number of the part whose
    bins are used, or None. weights: the weights to start from.
    """
    from lmtk.em import estimate_weights, fill_unvisited
    from lmtk.files.curve import perplexity

    logp, bin_of = heldout_scores(job, parts, binned)

    def tell_iteration(iteration, weights, L):
        lambdas = f"lambda = ({format_weights(weights[0])}), " if not job.bins else ""
        sys.stderr.write(f"iteration {iteration}, {lambdas}ppl = {perplexity(L / len(logp)):.6g}\n")

    weights = estimate_weights(
        logp, bin_of, weights, job.iterations, job.tolerance, tell_iteration if job.debug else None
    )
    if job.bins:
        weights = fill_unvisited(weights, bin_of)
    tell_best(weights, bin_of, job.bins, tell)
    return weights


def heldout_scores(job, parts, binned):
    """ln p of each held-out token under each part, (N, parts), and the bin of the token's context, (N,). Tokens to
    which all parts give probability 0 are left out.
    """
    import numpy as np

    from lmtk.joint import mixture
    from lmtk.text.corpus import read_corpus

    marks = marks_of(job)
    logps, bins = [], []
    for corpus in read_corpus(job.heldout, parts[0].vocab, marks, max(part.order for part in parts)):
        logp, bin_of, *_ = mixture.part_scores(parts, corpus, binned)
        has_p = corpus.scored & (logp > -np.inf).any(axis=1)
        logps.append(logp[has_p])
        bins.append(bin_of[has_p])
    if not sum(map(len, logps)):
        raise LmtkError(f"{name_of(job.heldout)}: the models predict none of its words; is it the right text?")
    return np.concatenate(logps), np.concatenate(bins)


def tell_best(weights, bin_of, bins, tell):
    """Prints the weights by `tell`: the lines of SRILM's compute-best-mix or, with bins, a line for each bin."""
    if bins:
        for i, row in enumerate(weights):
            tell(f"bin {i}: {(bin_of == i).sum()} non-oov words, best lambda ({format_weights(row)})\n")
        return
    best = weights[0]
    cumulative = [w / sum(best[: i + 1]) if sum(best[: i + 1]) else 0 for i, w in enumerate(best)]
    tell(f"{len(bin_of)} non-oov words, best lambda ({format_weights(best)})\n")
    tell(f"pairwise cumulative lambda ({format_weights([1, *cumulative[1:]])})\n")
