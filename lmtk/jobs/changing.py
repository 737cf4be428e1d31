"""The steps of an EditJob that make a model: reading, cutting, limiting, merging, renormalizing, expanding, pruning."""

import math
import os
import sys
import warnings
from dataclasses import dataclass

from lmtk.errors import FormatError, LmtkError, LmtkWarning
from lmtk.jobs.pruning import prune_model, sizes_line
from lmtk.jobs.rules import complete_weights, names_of


@dataclass(frozen=True)
class Words:
    """The words and classes that an EditJob names. vocab: those of -vocab. rows: the lines of -classes. names, members:
    its classes, and the words in them.
    """

    vocab: list
    rows: list
    names: dict
    members: dict


def words_of(job):
    """The Words of a job."""
    from lmtk.files.decoding import lines
    from lmtk.joint.expansions import names_in_file
    from lmtk.text.vocab import read_vocab

    vocab = read_vocab(job.vocab) if job.vocab else []
    if job.multiwords:  # their parts are words too
        letter = os.fsencode(job.multi_char)
        vocab = list(dict.fromkeys([*vocab, *(part for w in vocab for part in w.split(letter) if part)]))
    rows = [*lines(job.classes)] if job.classes else []
    return Words(vocab, rows, *names_in_file(rows))


def change(job, home=None, threshold=None):
    """Runs the steps before scoring and writing: (the model, the models that are mixed with it word by word, the
    weights of all these models).

    home: as for `registry.load`. threshold: one of the values of -prune, if there are several; otherwise unused.
    """
    from lmtk.jobs.loglinear import interpolate
    from lmtk.ngram.edit import contexts, prune, vocabulary
    from lmtk.ngram.model.backoff import Backoff

    words = words_of(job)
    files, orders, weights = parts_of(job)
    merging = len(files) > 1 and not job.by_word
    models = [read(job, words, path, order, home, not merging) for path, order in zip(files, orders)]
    if job.vocab or job.unk:
        added = [w for w in words.vocab if w not in words.members]
        models = [vocabulary.add_words(m, added, job.unk) if isinstance(m, Backoff) else m for m in models]
    # as in SRILM, <unk> is not a word of a model that was limited, unless -unk says so
    hides_unk = job.limit_vocab and not (job.unk or job.by_word or job.is_product)
    hides_unk = hides_unk and any(m.vocab.predicts(m.vocab.unk) for m in models)
    if hides_unk:
        models = [vocabulary.predict_unknown(m, False) for m in models]
    if merging and job.is_product:
        names = names_of(files)
        models = [report_sizes(job, "-loglinear-mix", interpolate(job, models, names, weights))]
    elif merging:
        mix = vocabulary.merge if job.read_mix_lms else vocabulary.merge_in_turn
        models = [report_sizes(job, "-mix-lm", mix(models, weights, may_reuse=job.may_reuse))]
    if job.renorm:
        models[0] = renormalize_model(models[0], hides_unk or job.unk or job.by_word, job.may_reuse)
    model, *others = add_classes(job, words, files[: len(models)], models) if job.classes else models
    threshold = threshold if job.is_table else job.prune[0] if job.prune else None
    if threshold or job.prune_to or job.prune_to_size:
        context = None
        if job.prune_history_lm:
            history = read(job, words, job.prune_history_lm, model.order - 1, home, True)
            context = contexts.context_probabilities(model, history)
        elif not job.is_table:
            warn_of_kneser_ney(job, model)
        pruned, done = prune_model(job, job.model_files, model, threshold, context, job.may_reuse)
        model = report_sizes(job, done, pruned)
    if job.prune_lowprobs:
        model = report_sizes(job, "-prune-lowprobs", prune.prune_low(model, job.minprune))
    return vocabulary.predict_unknown(model, True) if hides_unk else model, others, weights


def warn_of_kneser_ney(job, model):
    """Warns that pruning harms a model that looks like one of Kneser-Ney smoothing."""
    from lmtk.ngram.mass import is_far_from_text

    if is_far_from_text(model):
        option = "prune" if job.prune else "prune-to" if job.prune_to else "prune-to-size"
        warnings.warn(
            f"{job.name}: this looks like a Kneser-Ney model; -{option} removes the wrong n-grams of such a model, "
            f"because its 1-grams are not word frequencies; prune in ngram-count (-{option}), or add "
            "-prune-history-lm with a Good-Turing model",
            LmtkWarning,
            stacklevel=2,
        )


def parts_of(job):
    """(the models' files, the order of each, their weights)."""
    if job.read_mix_lms:
        return zip(*listed_models(job.lm))
    files = job.lm, *job.mix_lm
    return files, [job.order] * len(files), complete_weights(job.weight, len(files), job.is_product)


def listed_models(path):
    """What -read-mix-lms reads: for each model its file, order and weight; the weights are made to sum to one."""
    from lmtk.files.decoding import lines

    models = []
    for number, line in lines(path):
        name, *words = os.fsdecode(line).split() or [""]
        options = dict(zip(words[::2], words[1::2]))
        try:
            if name:
                models.append((name, int(options.pop("-order", 3)), float(options.pop("-weight", 1))))
            if options or len(words) % 2 or (name and not (models[-1][1] > 0 and 0 <= models[-1][2] < math.inf)):
                raise ValueError
        except ValueError:
            raise FormatError(path, "expected a model's file, then -weight X and -order N", number) from None
    total = sum(weight for _, _, weight in models)
    if not total:
        raise FormatError(path, "no models in it; each line is a model's file, -weight X and -order N")
    return [(name, order, weight / total) for name, order, weight in models]


def read(job, words, path, order, home, linked):
    """The model of a file, or in memory, after -map-unk, -order, -limit-vocab and, for a class model, -expand-classes.

    home, linked: as for `registry.load`. Raises LmtkError if the job needs a back-off model and this is another kind.
    """
    from lmtk.files.registry import load, load_strictly
    from lmtk.jobs.bar import reading_bar
    from lmtk.joint.classes import ClassModel
    from lmtk.joint.mixture import lowered
    from lmtk.ngram.edit import vocabulary
    from lmtk.ngram.model.backoff import Backoff

    model, name = path, job.name
    if isinstance(path, str):
        name = path
        with reading_bar([path], f"reading {os.path.basename(path)}"):
            model = (load_strictly if job.strict else load)(path, home=home, linked=linked)
    changed = job.is_changed or job.needs_ngrams or job.map_unk
    if isinstance(model, ClassModel) and job.expand_classes is not None:
        return expand(job, name, lowered(model, order or model.order))
    if changed or job.write_bin:
        model = merge_parts(model)
    if not isinstance(model, Backoff):
        if changed or (job.write_bin and not isinstance(model, ClassModel)):
            check_kind(name, model)
        return lowered(model, order) if order and hasattr(model, "lower") else model
    if job.expand_classes is not None and not (job.classes or job.mix_lm or job.read_mix_lms):
        raise LmtkError(f"{name}: not a class model, so -expand-classes needs -classes FILE")
    model = model.lower(min(order or model.order, model.order))
    model = model if job.classes else report_sizes(job, name, model)
    model = vocabulary.rename_unknown(model, os.fsencode(job.map_unk)) if job.map_unk else model
    if job.limit_vocab:
        model = report_sizes(job, "-limit-vocab", vocabulary.limit(model, [*words.vocab, *words.names]))
    return model


def check_kind(name, model):
    """Raises LmtkError if a model is not a back-off model. name: the name of its file."""
    from lmtk.errors import name_of
    from lmtk.joint.classes import ClassModel
    from lmtk.joint.expansions import Expanding
    from lmtk.joint.mixture import Mixture
    from lmtk.kenlm.hashed import NO_WORDS, Hashed
    from lmtk.lm import kind_of_model
    from lmtk.ngram.model.backoff import Backoff

    if isinstance(model, Backoff):
        return
    remedy = "; lmtk ppl, mix, next and sample take models of any kind"
    if isinstance(model, Mixture):
        remedy = about_mixture(model)
    elif isinstance(model, ClassModel | Expanding):
        remedy = "; lmtk ngram -expand-classes converts a class model if its classes are small"
    elif isinstance(model, Hashed):
        remedy = f", which {NO_WORDS}"
    expected = "expected a back-off n-gram model, but its kind is"
    raise LmtkError(f"{name_of(name)}: {expected} {kind_of_model(model)}{remedy}")


def about_mixture(model):
    """How a Mixture can become a back-off model, or why it cannot, as the end of a message."""
    from lmtk.joint.mixture import Mixture
    from lmtk.ngram.model.backoff import Backoff

    if model.binned is not None:
        return "; its weights depend on the context (mix -bins), so it cannot be converted"
    others = [name for name, part in zip(model.names, model.parts) if not isinstance(part, Backoff | Mixture)]
    if others:
        return f"; it cannot be converted, because {os.path.basename(others[0])} is not a back-off model"
    return "; lmtk ngram -write-lm makes one back-off model of it"


def merge_parts(model):
    """One back-off model of a mixture of back-off models with the same weights in all contexts; else the model."""
    from lmtk.joint.mixture import Mixture
    from lmtk.ngram.edit import vocabulary
    from lmtk.ngram.model.backoff import Backoff

    if not isinstance(model, Mixture) or model.binned is not None:
        return model
    parts = [merge_parts(part) for part in model.parts]
    if not all(isinstance(part, Backoff) for part in parts):
        return model
    return vocabulary.merge(parts, model.weights[0].tolist())


def renormalize_model(model, whole, may_reuse):
    """The model renormalized. Unless `whole`, <unk> gets none of the left-over unigram mass."""
    from lmtk.ngram.edit import renormalize, vocabulary

    apart = not whole and model.vocab.predicts(model.vocab.unk) and renormalize.leaves_mass(model)
    result = renormalize.renormalize(vocabulary.predict_unknown(model, False) if apart else model, may_reuse=may_reuse)
    return vocabulary.predict_unknown(result, True) if apart else result


def add_classes(job, words, paths, models):
    """The models with -classes and -expand-classes, all over the same words. If there are several models, a model that
    does not predict any class is a model of words and does not get classes. paths: the models' files, for messages.
    """
    from lmtk.joint.classes import ClassModel, class_model
    from lmtk.ngram.edit import vocabulary

    classed = [any(map(model.vocab.predicts, words.names)) for model in models]
    every = vocabulary.unite_vocabularies([model.vocab for model in models])
    members = [w for w in [*every.words[: every.V], *words.members] if w not in words.names]
    for i, path in enumerate(paths):
        if len(models) > 1:
            unclassed = [w for w in members if not classed[i] or w not in words.members]
            models[i] = vocabulary.add_words(models[i], unclassed, every.predicts(every.unk))
        if classed[i] or not any(classed):
            models[i] = class_model(models[i], path, job.classes, simple=job.simple_classes, rows=words.rows)
            models[i] = models[i] if job.expand_classes is None else expand(job, path, models[i])
    changed = job.is_pruned or job.prune_lowprobs or job.needs_ngrams
    if changed or (job.write_bin and not isinstance(models[0], ClassModel)):
        check_kind(paths[0], models[0])
    return models


def expand(job, path, model):
    """-expand-classes of a class model. path: its file, for messages."""
    from lmtk.joint import classes, expansions
    from lmtk.joint.classes import ClassModel
    from lmtk.joint.mixture import lowered

    if isinstance(model, ClassModel):
        model = lowered(model, min(model.order, job.expand_classes or model.order))
        return report_sizes(job, path, classes.expanded(model, job.expand_most, path))
    longest, exact = job.expand_classes, job.expand_exact
    return report_sizes(job, path, expansions.expanded(model, longest, exact, job.expand_most, path))


def report_sizes(job, step, model):
    """Returns the model. With -debug, prints `step` and the model's number of n-grams of each order."""
    if job.debug and not job.scores:
        sys.stderr.write(sizes_line(step, model))
    return model
