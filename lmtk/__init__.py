"""lmtk: a command-line language-modelling toolkit.

`lmtk.load(path)` reads any model that the commands write.
"""

import os

__version__ = "0.1.0"


def __getattr__(name):
    """The names of KenLM's module."""
    if name.startswith("__"):
        raise AttributeError(name)
    from importlib import import_module

    kenlm_module = import_module("lmtk.kenlm_module")
    if name not in kenlm_module.__all__:
        raise AttributeError(f"module 'lmtk' has no attribute '{name}'")
    return getattr(kenlm_module, name)


def load(path, check=False):
    """Read a model of any kind (n-gram, interpolated, neural, mixture) from a file (str, bytes or os.PathLike) or "-".

    A binary file is mapped. The checksums of one above 16 MB are looked at with `check` only; others always are.
    Returns a `lmtk.api.Model`: score(sentence), full_scores(sentence), perplexity(sentence), "word" in model, order;
    all logarithms are to base 10. Raises OSError where the file can't be read, `lmtk.errors.FormatError` where it is
    no whole model.
    """
    from lmtk.api import Model
    from lmtk.files.registry import load as read

    path = os.fsdecode(path)
    model = Model(read(path, sums="now" if check else "never"))
    model.path = os.fsencode(path)
    return model


def estimate(text, order=3, smoothing="kn", interpolate=True, vocab=None, unk=True, minimum=1, fallback=None):
    """A back-off n-gram model of a text, as `lmtk ngram-count -lm` makes it: a `lmtk.api.Model`, whose `write` makes a
    file of it.

    text: the name of a file, a sentence a line; or sentences, an iterable of str or bytes.
    smoothing: "kn" (modified Kneser-Ney), "ukn" (the original one), "gt" (Katz), "wb" (Witten-Bell), "n" (natural); or
    a name and its parameter, ("cd", D) for absolute discounting, ("add", delta) for additive smoothing.
    interpolate: whether lower orders are added in, where the method knows how.
    vocab: the words, str or bytes, others being <unk>; None: those of the text. unk: whether <unk> is predicted.
    minimum: n-grams counted less are left out; a number, or one for each order, the last of them for all above.
    fallback: D1, D2, D3+ for an order whose counts give Kneser-Ney no discounts, as those of a small text.

    Raises LmtkError where there is nothing to count or there are no discounts, OSError, ValueError.
    """
    from lmtk.api import Model, estimated

    return Model(estimated(text, order, smoothing, interpolate, vocab, unk, minimum, fallback))
