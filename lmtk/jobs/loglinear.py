"""The log-linear interpolation of an EditJob's models as one back-off model, with given or learned weights."""

import sys
import warnings

from lmtk.errors import LmtkError, LmtkWarning, name_of
from lmtk.jobs.rules import format_weights


def interpolate(job, models, names, weights):
    """The Backoff of back-off models that are interpolated log-linearly. names: of the models. weights: one for each
    model, which are learned instead if the job has a held-out text; then a command prints them. A Python program, which
    keeps the model, prints them with debug only.
    """
    from lmtk.joint import loglinear

    united = unite(models, names)
    if job.heldout:
        job.scoring.reading.check_models(models, names)
        weights, words = learn_weights(job, united)
        if job.debug or not job.keep:
            out = sys.stderr if job.keep or "-" in job.outputs else sys.stdout
            out.write(f"{words} non-oov words, best lambda ({format_weights(weights)})\n")
            out.flush()
    return loglinear.interpolate(united, weights)


def unite(models, names):
    """The loglinear.United of back-off models. Warns of models without a probability for unknown words. Raises
    LmtkError if one of the models is of another kind.
    """
    from lmtk.jobs.changing import check_kind
    from lmtk.joint.loglinear import unite_models

    for model, name in zip(models, names):
        check_kind(name, model)
    return unite_models(models, [*map(name_of, names)], lambda text: warnings.warn(text, LmtkWarning, stacklevel=2))


def learn_weights(job, united):
    """(the weights under which the held-out text of an EditJob is most likely, the number of its known words)."""
    from lmtk.files.curve import perplexity
    from lmtk.joint.loglinear import tune
    from lmtk.text.corpus import whole_corpus

    steps = 0

    def tell(weights, logp):
        nonlocal steps
        steps += 1
        if job.debug:
            sys.stderr.write(f"iteration {steps}, lambda = ({format_weights(weights)}), ppl = {perplexity(logp):.6g}\n")

    corpus = whole_corpus(job.heldout, united.vocab, job.scoring.marks)
    try:
        weights, words, _ = tune(united, corpus, tell)
    except LmtkError as e:
        raise LmtkError(f"{name_of(job.heldout)}: {e}; is it the right text?") from None
    return weights.tolist(), words
