"""The jobs of the commands as functions: `lmtk.estimate`, `lmtk.prune` and so on.

A function makes a job of its arguments and runs it, as the command does, with the same errors. `options` are fields of
the job: the options of the command, with "_" for "-". A text is the name of a file, or sentences, an iterable of str or
bytes. A model is the name of a file, or a `lmtk.Model`.
"""

import io
import os
from contextlib import contextmanager
from dataclasses import dataclass

from lmtk.api import BLANKS, Model, as_bytes
from lmtk.errors import LmtkError
from lmtk.jobs.rules import build

METHODS = {
    "gt": {},
    "wb": {"wbdiscount": True},
    "n": {"ndiscount": True},
    "cd": "cdiscount",
    "add": "addsmooth",
    "ukn": {"ukndiscount": True},
    "kn": {"kndiscount": True},
}


def estimate(text, order=3, smoothing="kn", interpolate=True, vocab=None, unk=True, **options):
    """A back-off n-gram model of a text, as `lmtk ngram-count -lm` makes it. Its `write` makes a file of it.

        lmtk.estimate("train.txt", order=5, fallback=(0.5, 1, 1.5), prune=1e-8)

    smoothing: "kn" (modified Kneser-Ney), "ukn" (the original one), "gt" (Katz), "wb" (Witten-Bell), "n" (natural); or
    a name and its parameter, ("cd", D) for absolute discounting, ("add", delta) for additive smoothing.
    interpolate: whether lower orders are added in, where the method knows how.
    vocab: a list of words, str or bytes; other words become <unk>. None: all words of the text.
    unk: whether <unk> is predicted.
    options: minimum, n-grams counted less are left out: a number, or one for each order, the last of them for all
    above; fallback, D1, D2, D3+ for an order whose counts give Kneser-Ney no discounts, as those of a small text; and
    fields of `lmtk.jobs.estimating.EstimateJob`, its CountJob and its Smoothing.

    Raises LmtkError if nothing is counted or the counts give no discounts, OSError, ValueError.
    """
    from lmtk.jobs.estimating import EstimateJob
    from lmtk.jobs.estimating import estimate as run
    from lmtk.ngram.estimate.methods import NoDiscount

    minimum, fallback = options.pop("minimum", 1), options.pop("fallback", None)
    least = [minimum] if isinstance(minimum, (int, float)) else [*minimum]
    for is_wrong, why in (
        (order < 1, f"order must be 1 or more, not {order}"),
        (not least, "minimum is a number, or one for each order"),
        (fallback is not None and len(fallback) != 3, "fallback is D1, D2 and D3+"),
        (isinstance(vocab, (str, bytes)), "vocab is a list of words, not a text"),
    ):
        if is_wrong:
            raise ValueError(why)
    chosen = method_options(smoothing)
    chosen["gtmin_n"] = {k: least[min(k, len(least)) - 1] for k in range(1, order + 1)}
    chosen["discount_fallback"] = fallback and tuple(fallback)
    words = None if vocab is None else tuple(map(as_bytes, vocab))
    with in_file(text) as path:
        source = None if is_name(text) else "the text"
        own = {"text": (path,), "order": order, "vocab": words, "unk": unk, "keep": True, "source": source}
        job = build(EstimateJob, own | chosen | {"interpolate": interpolate} | plain_options(options))
        try:
            return Model(run(job))
        except NoDiscount as e:
            raise LmtkError(f'{e.cause}; add fallback=(0.5, 1, 1.5), or use smoothing="wb"') from None


def method_options(smoothing):
    """The options of a smoothing method. Raises ValueError."""
    name, *parameters = [smoothing] if isinstance(smoothing, str) else smoothing
    if name not in METHODS:
        raise ValueError(f"unknown method {name!r}; choose one of {', '.join(METHODS)}")
    if len(parameters) != (name in ("cd", "add")):
        raise ValueError('only "cd" and "add" take a parameter, and they need one')
    return {METHODS[name]: parameters[0]} if parameters else dict(METHODS[name])


def prune(model, threshold, **options):
    """A back-off model without the n-grams whose removal raises the model's own perplexity by a smaller share than
    `threshold`, as `lmtk ngram -prune` makes it.

        small = lmtk.prune("big.arpa.gz", 1e-8, minprune=3)

    options: fields of `lmtk.jobs.editing.EditJob`. Raises LmtkError, OSError.
    """
    return edit_model(model, {"prune": (threshold,)} | options)


def merge(models, weights=(), **options):
    """A back-off model that approximates the mixture of several, as `lmtk ngram -mix-lm` makes it.

        lmtk.merge(["news.arpa", "talks.arpa"], [0.3, 0.7])

    weights: of the models; the last may be left out; none: equal ones. options: fields of
    `lmtk.jobs.editing.EditJob`. Raises LmtkError, OSError.
    """
    first, *others = models
    return edit_model(first, {"mix_lm": tuple(map(inner_model, others)), "weight": tuple(weights)} | options)


def edit_model(model, options):
    """The Model that an EditJob makes of a model."""
    from lmtk.jobs.editing import EditJob, edit

    return Model(edit(build(EditJob, {"lm": inner_model(model), "keep": True} | plain_options(options))))


def mix(models, weights=(), heldout=None, **options):
    """The mixture of models of any kind, as `lmtk mix` makes it.

        lmtk.mix(["kn.arpa", "nplm.bin"], heldout="valid.txt")

    weights: of the models; the last may be left out; none: equal ones. heldout: a text on which the weights are
    learned. options: fields of `lmtk.jobs.mixing.MixJob`. Raises LmtkError, OSError.
    """
    from lmtk.jobs.mixing import MixJob
    from lmtk.jobs.mixing import mix as run

    own = {"lm": tuple(map(inner_model, models)), "weight": tuple(weights)}
    with in_file(heldout) as path:
        return Model(run(build(MixJob, own | {"heldout": path} | plain_options(options))))


def classes(text, number, **options):
    """{word: its class} of the words of a text, as `lmtk ngram-class` sorts them into `number` classes.

    options: fields of `lmtk.jobs.classing.ClassJob`. Raises LmtkError, OSError.
    """
    from lmtk.jobs.classing import ClassJob, sort_words

    with in_file(text) as path:
        own = {"text": (path,), "numclasses": number, "quiet": True}
        result = sort_words(build(ClassJob, own | plain_options(options)))
    names = [*result.names]
    return {os.fsdecode(word): os.fsdecode(names[c]) for word, (c, *_) in result.members.items()}


@dataclass(frozen=True)
class Perplexity:
    """The figures of a text: numbers of sentences, words, oovs (words without a probability, <unk> having none) and
    zeroprobs (other words of probability 0), and log10p, which leaves out both.
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
        """The perplexity of the words and of the ends of sentences, nan without any."""
        return self._perplexity(self.sentences)

    @property
    def ppl1(self):
        """The perplexity of the words alone."""
        return self._perplexity(0)

    def _perplexity(self, more):
        count = self.words - self.oovs - self.zeroprobs + more
        try:
            return 10 ** (-self.log10p / count) if count > 0 else float("nan")
        except OverflowError:
            return float("inf")


def perplexity(model, text, **options):
    """The Perplexity of a text under a model of any kind, as `lmtk ppl` reports it.

        lmtk.perplexity("model.lm", "test.txt", tolower=True).ppl

    options: fields of `lmtk.jobs.scoring.ScoreJob` and its Scoring. Raises LmtkError, OSError.
    """
    from lmtk.jobs.scoring import ScoreJob, score

    with in_file(text) as path:
        own = {"lm": inner_model(model), "text": (path,), "write": None}
        (tally,) = score(build(ScoreJob, own | plain_options(options)))
    return Perplexity(tally.sentences, tally.words, tally.oovs, tally.zeroprobs, float(tally.log10p))


def select(text, models, keep, **options):
    """The sentences of a text that are most like a domain, as `lmtk select` chooses them: a list of str, in the order
    of the text.

        lmtk.select("pool.txt", ["domain.bin", "general.bin"], keep=0.2)

    models: of the domain and of general text. keep: how many sentences, or if it is below 1, which share of them.
    options: fields of `lmtk.jobs.selecting.SelectJob`. Raises LmtkError, OSError.
    """
    from lmtk.jobs.selecting import SelectJob, selected_lines, sides_of
    from lmtk.jobs.selecting import select as run

    with in_file(text) as path:
        own = {"text": (path,), "lm": tuple(map(inner_model, models)), "keep": keep, "write": None, "quiet": True}
        job = build(SelectJob, own | plain_options(options))
        selection = run(job)
        lines = b"".join(selected_lines(*sides_of(job), selection.chosen))
    return [os.fsdecode(line) for line in lines.split(b"\n")[:-1]]


def train(text, path, heldout=None, **options):
    """Trains a neural language model, as `lmtk nplm-train` does, and writes it to the file `path`. Returns the Model.

        lmtk.train("train.txt", "nplm.bin", heldout="valid.txt", unk=True, hidden=50)

    options: fields of `lmtk.jobs.training.TrainJob`. Raises LmtkError, OSError; SystemExit if it is interrupted, and
    then `resume=True` goes on.
    """
    from lmtk.jobs.training import TrainJob
    from lmtk.jobs.training import train as run

    with in_file(text) as training, in_file(heldout) as held:
        own = {"text": training, "lm": os.fsdecode(path), "heldout": held, "quiet": True}
        run(build(TrainJob, own | plain_options(options)))
    return Model(path)


def translate(model, text, **options):
    """The translations of a text by a translation model, as `lmtk translate` writes them: a list of str, one for each
    sentence.

        lmtk.translate("en-fr.bin", ["a dog runs"], beam=5)

    model: a file, or a list of files, an ensemble. options: fields of `lmtk.jobs.translating.TranslateJob`. Raises
    LmtkError, OSError.
    """
    from lmtk.jobs.translating import TranslateJob
    from lmtk.jobs.translating import translate as run

    if isinstance(model, Model):
        raise TypeError("expected a file of a translation model, or a list of files, not a Model")
    models = [model] if is_name(model) else model
    out = io.BytesIO()
    with in_file(text) as path:
        own = {"model": tuple(map(os.fsdecode, models)), "text": path, "write": None}
        run(build(TranslateJob, own | plain_options(options)), out)
    return [os.fsdecode(line) for line in out.getvalue().split(b"\n")[:-1]]


def plain_options(options):
    """Options with tuples for lists and strings for paths, as jobs have them."""
    plain = lambda x: os.fsdecode(x) if isinstance(x, os.PathLike) else x
    return {name: tuple(map(plain, x)) if isinstance(x, list) else plain(x) for name, x in options.items()}


def inner_model(model):
    """A model as a job has it: the name of a file, or the model inside a Model."""
    if is_name(model):
        return os.fsdecode(model)
    return model.lm if isinstance(model, Model) else model


def is_name(value):
    return isinstance(value, (str, bytes, os.PathLike))


@contextmanager
def in_file(text):
    """The name of a file with a text's sentences, a line each: that of `text` itself where it is a name, None for
    None.
    """
    from lmtk.machine.memory import named_file

    if text is None:
        yield None
    elif is_name(text):
        yield os.fsdecode(text)
    else:
        with named_file() as (file, name):
            file.writelines(as_bytes(sentence).translate(BLANKS) + b"\n" for sentence in text)
            file.flush()
            yield name
