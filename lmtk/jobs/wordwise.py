"""The steps of an EditJob that change a model for scoring alone: several models mixed word by word, a cache, words that
are joined, and words of probability 0.
"""

import math
import os

from lmtk.errors import LmtkError, UsageError


def mix_for_scoring(job, models, weights):
    """The model that an EditJob scores with, made of one or more models, with their weights."""
    from lmtk.joint import dynamic, zeros
    from lmtk.joint.multiwords import Multiwords
    from lmtk.lm import kind_of_model
    from lmtk.ngram.edit import vocabulary
    from lmtk.ngram.model.backoff import Backoff
    from lmtk.text.vocab import lower

    model = models[0]
    if (job.multiwords or job.skipoovs) and not isinstance(model, Backoff):
        option = "-multiwords" if job.multiwords else "-skipoovs"
        needed = f"{option} needs a back-off n-gram"
        raise LmtkError(f"{job.name}: {needed}, but the kind of the model is {kind_of_model(model)}")
    instead = os.fsencode(job.zeroprob_word) if job.zeroprob_word else None
    if instead:
        instead = lower(instead) if job.scoring.tolower else instead
        models = [vocabulary.add_words(m, [instead]) if isinstance(m, Backoff) else m for m in models]
    parts = dynamic.of_one_vocabulary(models) if len(models) > 1 else models
    if job.skipoovs:
        parts = [zeros.Skipping(part, min((job.order or model.order) - 1, 2)) for part in parts]
    model = Multiwords(parts[0], os.fsencode(job.multi_char)) if job.multiwords else parts[0]
    if len(models) > 1:
        mix = dynamic.LogLinear if job.loglinear_mix else dynamic.Bayes
        more = (job.unk,) if job.loglinear_mix else (job.bayes, job.bayes_scale, job.unk)
        model = mix(parts, weights, *more)
    model = dynamic.Cached(model, job.cache, job.cache_lambda, job.unk) if job.cache else model
    return replace_zeros(job, model, instead)


def replace_zeros(job, model, instead):
    """The model with -unk-prob and -zeroprob-word. instead: the word of the latter, or None."""
    from lmtk.joint.zeros import Nonzero
    from lmtk.lm import LN10
    from lmtk.ngram.model.nodes import ZERO

    if instead is None and job.unk_prob is None:
        return model
    index = getattr(model, "index", model.vocab.index)
    if instead is not None and instead not in index and index is model.vocab.index:
        raise UsageError(f"-zeroprob-word {job.zeroprob_word}: the model has no such word")
    unknown = None if job.unk_prob is None else -math.inf if job.unk_prob == ZERO else job.unk_prob * LN10
    return Nonzero(model, None if instead is None else index[instead], unknown)
