"""The jobs of the commands as functions: `lmtk.estimate`, `lmtk.prune` and so on.

A function makes a job of its arguments and runs it, as the command does, with the same errors. `options` are fields of
the job: the options of the command, with "_" for "-". A text is the name of a file, or sentences, an iterable of str or
bytes. A model is the name of a file, or a `lmtk.Model`. An argument of another kind is a UsageError that names it.
"""

import io
import math
import os
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real

import numpy as np

from lmtk.api import Model
from lmtk.arguments import (
    are_numbers,
    checked_weights,
    in_file,
    in_json_lines,
    inner_model,
    inner_models,
    is_iterable,
    is_name,
    mismatch,
    plain,
    run_of,
)
from lmtk.errors import LmtkError, UsageError
from lmtk.files.declared import MAX_ORDER
from lmtk.files.outputs import is_written_in_place, open_out

# name -> the option that chooses the method; "" for the default method
METHODS = {
    "gt": "", "wb": "wbdiscount", "n": "ndiscount", "cd": "cdiscount", "add": "addsmooth", "ukn": "ukndiscount",
    "kn": "kndiscount",
}  # fmt: skip
WITH_NUMBER = "cd", "add"  # the methods whose options take a number


def estimate(text=None, order=3, smoothing="kn", interpolate=True, vocab=None, unk=True, sources=(), **options):
    """Estimate a back-off n-gram model of a text, as `lmtk ngram-count -lm` does. Return a Model; its method `write`
    writes a file.

        lmtk.estimate("train.txt", order=5, fallback=(0.5, 1, 1.5), prune=1e-8)
        lmtk.estimate(sources=["train.txt", "pool.txt"], heldout="valid.txt")

    text: the name of a file, or an iterable of sentences (str or bytes).
    smoothing: "kn" (modified Kneser-Ney), "ukn" (original Kneser-Ney), "gt" (Katz), "wb" (Witten-Bell), "n" (natural),
    or a pair of a name and a parameter: ("cd", D) for absolute discounting, ("add", delta) for additive smoothing.
    interpolate: whether each order is interpolated with the order below, if the method allows it.
    vocab: a list of words (str or bytes), or the name of a word list; other words become <unk>. None: all words.
    unk: whether <unk> is predicted.
    sources: several texts instead of `text`. Their weights are learned on the text of the option heldout.
    options: three options of this function, and the fields of `lmtk.jobs.estimating.EstimateJob` and of its records
    CountJob and Smoothing. The three options are:
    heldout: the name of a file, or an iterable of sentences. The discounts, and the weights of `sources`, are learned
    on this text.
    minimum: n-grams with a count below this number are left out. A list has a number for each order; its last number
    is used for all higher orders.
    fallback: the discounts (D1, D2, D3+) of an order whose Kneser-Ney discounts cannot be computed. Small texts often
    need them.

    Raises LmtkError if nothing is counted or the discounts cannot be computed, UsageError, OSError.
    """
    from lmtk.jobs.estimating import EstimateJob
    from lmtk.jobs.estimating import estimate as run
    from lmtk.ngram.estimate.methods import NoDiscount

    minimum, fallback = options.pop("minimum", 1), options.pop("fallback", None)
    least = [minimum] if isinstance(minimum, Real) else minimum
    check_estimate(order, least, fallback, vocab, unk=unk, interpolate=interpolate)
    chosen = method_options(smoothing) | {"gtmin": None}
    if not sources or [*least] != [1]:
        chosen["gtmin_n"] = {k: least[min(k, len(least)) - 1] for k in range(1, order + 1)}
    chosen["discount_fallback"] = None if fallback is None else tuple(fallback)
    if is_name(sources) or not is_iterable(sources):
        raise UsageError(f"sources must be a list of texts, not {sources!r}")
    with ExitStack() as files:
        paths = [files.enter_context(in_file(one, "a text in sources")) for one in sources]
        path = files.enter_context(in_file(text, needed=not paths))
        held = files.enter_context(in_file(options.pop("heldout", None), "heldout", needed=False))
        words = files.enter_context(in_file(vocab, "vocab", needed=False, items="words"))
        arguments = {"text": (path,) if path else (), "sources": tuple(paths), "order": order, "vocab": words}
        arguments |= chosen | {"unk": unk, "keep": True, "interpolate": interpolate, "heldout": held}
        names = {name: name for name in ("smoothing", "minimum", "sources")}  # for hints about wrong names
        for name, option in METHODS.items():
            names[option] = "the parameter of smoothing" if name in WITH_NUMBER else f'smoothing="{name}"'
        names |= {"discount-fallback": "fallback", "gtmin": "minimum"}
        with run_of(EstimateJob, arguments, options, names) as job:
            try:
                return Model(run(job))
            except NoDiscount as e:
                instead = "" if job.count.kenlm else ', or use smoothing="wb"'
                raise LmtkError(f"{e.cause}; add fallback=(0.5, 1, 1.5){instead}") from None


def check_estimate(order, minimum, fallback, vocab, **switches):
    """Raise UsageError for a wrong argument of `estimate`. minimum: a list."""
    for name, value in switches.items():
        if wanted := mismatch(plain(value), bool):
            raise UsageError(f"{name} must be {wanted}, not {value!r}")
    if not isinstance(order, Integral) or not 1 <= order <= MAX_ORDER:
        raise UsageError(f"order must be a whole number from 1 to {MAX_ORDER}, not {order!r}")
    if not are_numbers(minimum) or not len(minimum) or not all(0 <= count < math.inf for count in minimum):
        raise UsageError(f"minimum must be a count, or a list with a count for each order, not {minimum!r}")
    if fallback is not None and not (are_numbers(fallback) and len(fallback) == 3):
        raise UsageError(f"fallback must be the three numbers D1, D2 and D3+, not {fallback!r}")
    if not (vocab is None or is_name(vocab) or is_iterable(vocab)):
        raise UsageError(f"vocab must be a list of words or the name of a word list, not {vocab!r}")


def method_options(smoothing):
    """The options of a smoothing method. Raises UsageError."""
    name, *parameters = smoothing if isinstance(smoothing, (list, tuple)) and smoothing else [smoothing]
    if not isinstance(name, str) or name not in METHODS:
        raise UsageError(f"smoothing {name!r} does not exist; choose one of {', '.join(METHODS)}")
    if len(parameters) != (name in WITH_NUMBER) or not are_numbers(parameters):
        with_number = " and ".join(map('"{}"'.format, WITH_NUMBER))
        raise UsageError(f'smoothing: only {with_number} take a number, and they need it, as in ("cd", 0.5)')
    options = {option: False for other, option in METHODS.items() if option and other not in WITH_NUMBER}
    return options | ({METHODS[name]: parameters[0] if parameters else True} if METHODS[name] else {})


def prune(model, threshold=None, **options):
    """Prune a back-off model, as `lmtk ngram -prune` does. Return a Model.

        small = lmtk.prune("big.arpa.gz", 1e-8, minprune=3)
        small = lmtk.prune("big.arpa.gz", prune_to=100_000)

    threshold: n-grams are removed whose removal raises the perplexity of the model by less than this fraction.
    prune_to, an option: remove n-grams until at most this number of n-grams remains.
    options: the fields of `lmtk.jobs.editing.EditJob`.

    Raises LmtkError, OSError.
    """
    if threshold is None and options.get("prune_to", options.get("prune_to_size")) is None:
        raise UsageError("give a threshold, or the option prune_to=N for at most N n-grams")
    if not isinstance(threshold, Real | None):
        raise UsageError(f"threshold must be a number, not {threshold!r}")
    arguments = {"prune": () if threshold is None else (threshold,)}
    return edit_model(inner_model(model), arguments, options, {"prune": "threshold", "lm": "model"})


def merge(models, weights=(), **options):
    """Merge back-off models into one that approximates their mixture, as `lmtk ngram -mix-lm` does. Return a Model.

        lmtk.merge(["news.arpa", "talks.arpa"], [0.3, 0.7])

    weights: a weight for each model; the last may be left out. Without weights, all models have the same weight.
    options: the fields of `lmtk.jobs.editing.EditJob`.

    Raises LmtkError, OSError.
    """
    first, *others = inner_models(models)
    if not others:
        raise UsageError("models has one model; give at least two")
    arguments = {"mix_lm": tuple(others), "weight": checked_weights(weights)}
    return edit_model(first, arguments, options, {"lambda": "weights", "lm": "models", "mix-lm": "models"})


def edit_model(model, arguments, options, names):
    """The Model that an EditJob makes of `model`, the name of a file or a model in memory. names: as in `run_of`."""
    from lmtk.jobs.editing import EditJob, edit

    with run_of(EditJob, {"lm": model, "keep": True} | arguments, options, names) as job:
        return Model(edit(job))


def mix(models, weights=(), heldout=None, **options):
    """Mix models of any kind, as `lmtk mix` does. Return a Model that computes the exact mixture.

        lmtk.mix(["kn.arpa", "nplm.bin"], heldout="valid.txt")

    weights: a weight for each model; the last may be left out. Without weights and heldout, all models have the same
    weight.
    heldout: a text on which the weights are learned.
    options: the fields of `lmtk.jobs.mixing.MixJob`.

    Raises LmtkError, OSError.
    """
    from lmtk.jobs.mixing import MixJob
    from lmtk.jobs.mixing import mix as run
    from lmtk.joint.mixture import OtherWords

    arguments = {"lm": inner_models(models), "weight": checked_weights(weights)}
    with in_file(heldout, "heldout", needed=False) as path:
        arguments["heldout"] = path
        with run_of(MixJob, arguments, options, {"lambda": "weights", "lm": "models"}) as job:
            try:
                return Model(run(job))
            except OtherWords as e:
                raise LmtkError(f"{e.cause}; make both models with the same vocab and unk, or use lmtk.merge") from None


def classes(text, number, **options):
    """Sort the words of a text into `number` classes, as `lmtk ngram-class` does. Return a dictionary from each word to
    its class.

    options: the fields of `lmtk.jobs.classing.ClassJob`.

    Raises LmtkError, OSError.
    """
    from lmtk.jobs.classing import ClassJob, sort_words

    if not isinstance(number, Integral):
        raise UsageError(f"number must be a whole number, not {number!r}")
    with in_file(text) as path:
        arguments = {"text": (path,), "numclasses": number, "quiet": True}
        with run_of(ClassJob, arguments, options, {"numclasses": "number"}) as job:
            result = sort_words(job)
    return {os.fsdecode(word): os.fsdecode(name) for word, (name, _) in result.items()}


@dataclass(frozen=True)
class Perplexity:
    """The figures of a text under a model.

    sentences, words: the numbers of sentences and of words.
    oovs: the number of unknown words, if the model does not predict <unk>.
    zeroprobs: the number of other words with probability 0.
    log10p: log10 p of the text, without the oovs and the zeroprobs.
    """

    sentences: int
    words: int
    oovs: int
    zeroprobs: int
    log10p: float

    def __str__(self):
        return f"{self.sentences} sentences, {self.words} words, {self.oovs} OOVs, ppl {self.ppl:.7g}"

    @property
    def ppl(self):
        """The perplexity of the words and of </s>, without oovs and zeroprobs; nan if none remain."""
        return self._perplexity(self.sentences)

    @property
    def ppl1(self):
        """Like ppl, but log10p is divided by the number of words only, without </s>, as in SRILM."""
        return self._perplexity(0)

    def _perplexity(self, n_ends):
        count = self.words - self.oovs - self.zeroprobs + n_ends
        try:
            return 10 ** (-self.log10p / count) if count > 0 else float("nan")
        except OverflowError:
            return float("inf")


def perplexity(model, text, **options):
    """Compute the figures that `lmtk ppl` reports for a text, under a model of any kind. Return a Perplexity.

        lmtk.perplexity("model.lm", "test.txt", tolower=True).ppl

    options: the fields of `lmtk.jobs.scoring.ScoreJob` and of its record Scoring.

    Raises LmtkError, OSError.
    """
    from lmtk.jobs.scoring import ScoreJob, score

    if options.get("format") == "kenlm" or options.get("escape") is not None or options.get("counts"):
        more = "leave out format, escape and counts"
        raise UsageError(f"perplexity returns the figures of SRILM's report of a text; {more}")
    with in_file(text) as path:
        arguments = {"lm": inner_model(model), "text": (path,), "write": None}
        with run_of(ScoreJob, arguments, options, {"lm": "model"}) as job:
            (tally,) = score(job)
    return Perplexity(tally.sentences, tally.words, tally.oovs, tally.zeroprobs, float(tally.log10p))


def surprisal(model, text, **options):
    """Make the table of `lmtk surprisal`. Return a list with a dictionary for each word and each end of a sentence. The
    keys of a dictionary are the names of the columns.

        rows = lmtk.surprisal("model.arpa", ["the cat sat"])
        rows[0]["word"], rows[0]["surprisal"]

    model: one model, or a list of models.
    options: the fields of `lmtk.jobs.measuring.SurprisalJob`.

    Raises LmtkError, OSError.
    """
    from lmtk.jobs.measuring import SurprisalJob, check_files, measure, write_table

    models = inner_models(model) if isinstance(model, (list, tuple)) else (inner_model(model),)
    with in_file(text) as path:
        arguments, rows = {"lm": models, "text": (path,), "quiet": True, "write": None}, []
        with run_of(SurprisalJob, arguments, options, {"lm": "model"}) as job:
            check_files(job)
            parts = [*measure(job)]
            if job.write:
                write_table(job.write, parts)
    for columns in parts:
        names = [column.name for column in columns]
        values = zip(*(map(column.form.value, column.values) for column in columns))
        rows += [dict(zip(names, row)) for row in values]
    return rows


@dataclass(frozen=True)
class Documents:
    """The figures of D documents, as numpy arrays of the shape (D,).

    perplexity, log10p: nan for a document without words.
    words, oovs: the numbers of words, and of words that the model does not have.
    kept: whether the document is kept, as the options max, min and keep decide.
    bucket: the number of the document's bucket, from 0; -1 if the document is in no bucket.
    """

    perplexity: object
    words: object
    oovs: object
    log10p: object
    kept: object
    bucket: object

    def __repr__(self):
        return f"<figures of {len(self.words)} documents, {self.kept.sum()} kept>"


def score_documents(model, documents, **options):
    """Compute the figures of documents under a model of any kind, as `lmtk ppl -jsonl` does. Return a
    `lmtk.functions.Documents`, which has an array for each figure.

        scored = lmtk.score_documents("en.bin", texts, tokenizer="en.sp.model", normalize="ccnet", keep=0.7)
        kept = [text for text, keep in zip(texts, scored.kept) if keep]
        lmtk.score_documents("en.bin", "docs.jsonl", add=["perplexity"], max=500, write="kept.jsonl.gz")

    documents: the name of a JSONL file, or an iterable of texts (str) or of documents (dictionaries).
    write, an option: the file to write the documents to. Without this option nothing is written.
    options: the fields of `lmtk.jobs.documents.Documents`, of `lmtk.jobs.scoring.ScoreJob` and of its record Scoring.

    Raises LmtkError, OSError.
    """
    from lmtk.jobs.scoring import ScoreJob, score

    names = ("add", "buckets")
    options |= {name: options[name].split(",") for name in names if isinstance(options.get(name), str)}
    with in_json_lines(documents, options.get("field") or "text") as path:
        arguments = {"lm": inner_model(model), "jsonl": path, "write": None, "quiet": True, "collect": True}
        with run_of(ScoreJob, arguments, options, {"lm": "model", "jsonl": "documents"}) as job:
            measured = score(job)
    perplexity, words, oovs, log10p = measured.figures
    whole = [np.nan_to_num(x).astype(np.int64) for x in (words, oovs)]
    return Documents(perplexity, *whole, log10p, measured.kept, measured.bucket)


def select(text, models, keep, **options):
    """Select the sentences of a text that are most similar to a domain, as `lmtk select` does. Return a list of str, in
    the order of the text.

        lmtk.select("pool.txt", ["domain.bin", "general.bin"], keep=0.2)

    models: two models: the model of the domain, then the model of general text.
    keep: the number of sentences to keep; a number below 1 is the fraction to keep.
    options: the fields of `lmtk.jobs.selecting.SelectJob`.

    Raises LmtkError, OSError.
    """
    from lmtk.jobs.selecting import SelectJob, selected_lines
    from lmtk.jobs.selecting import select as run
    from lmtk.joint.mixture import OtherWords

    if not isinstance(keep, Real):
        raise UsageError(f"keep must be a number, not {keep!r}")
    arguments = {"lm": inner_models(models), "keep": keep, "write": None, "quiet": True}
    with in_file(text) as path, run_of(SelectJob, arguments | {"text": (path,)}, options, {"lm": "models"}) as job:
        try:
            selection, (side,) = run(job)
        except OtherWords as e:
            raise LmtkError(f"{e.cause}; make both models with the same vocab and unk") from None
        lines = b"".join(selected_lines(side, selection.chosen))
    return [os.fsdecode(line) for line in lines.split(b"\n")[:-1]]


def train(text, path, heldout=None, vocab=None, **options):
    """Train a neural language model, as `lmtk nplm-train` does, and write it to the file `path`. Return the Model.

        lmtk.train("train.txt", "nplm.bin", heldout="valid.txt", hidden=50)

    vocab: a list of words (str or bytes), or the name of a word list; other words become <unk>. None: all words.
    options: the fields of `lmtk.jobs.training.TrainJob`.

    Raises LmtkError, OSError. Raises KeyboardInterrupt if the training is interrupted; a new call with resume=True
    continues it.
    """
    from lmtk.jobs.training import TrainJob
    from lmtk.jobs.training import train as run

    if not is_name(path) or is_written_in_place(os.fsdecode(path)):
        raise UsageError(f"path must be the name of a file, not {path!r}")
    optional = partial(in_file, needed=False)
    with optional(heldout, "heldout") as held, optional(vocab, "vocab", items="words") as words, in_file(text) as text:
        arguments = {"text": text, "lm": os.fsdecode(path), "heldout": held, "vocab": words, "quiet": True}
        with run_of(TrainJob, arguments, options, {"lm": "path"}) as job:
            run(job)
    return Model(path)


def translate(model, text, **options):
    """Translate a text, as `lmtk translate` does. Return a list with the translation of each sentence, as str.

        lmtk.translate("en-fr.bin", ["a dog runs"], beam=5)

    model: the file of a translation model; or a list of files, whose models are used as an ensemble.
    options: the fields of `lmtk.jobs.translating.TranslateJob`.

    Raises LmtkError, OSError.
    """
    from lmtk.jobs.translating import TranslateJob
    from lmtk.jobs.translating import translate as run

    models = [model] if is_name(model) else [*model] if is_iterable(model) else [None]
    if not models or not all(map(is_name, models)):
        raise UsageError(f"model must be the file of a translation model, or a list of files, not {model!r}")
    out = io.BytesIO()
    with in_file(text) as path:
        arguments = {"model": tuple(map(os.fsdecode, models)), "text": path, "write": None, "quiet": True}
        with run_of(TranslateJob, arguments, options) as job:
            run(job, out)
            if job.write:
                with open_out(job.write) as file:
                    file.write(out.getvalue())
    return [os.fsdecode(line) for line in out.getvalue().split(b"\n")[:-1]]
