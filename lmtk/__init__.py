"""lmtk: a command-line language-modelling toolkit.

`lmtk.load(path)` reads any model that the commands write. `lmtk.functions` has the jobs of the commands, and
`lmtk.kenlm_module` the names of KenLM's module; all of these are names of `lmtk` too.
"""

import os

__version__ = "0.1.0"


FUNCTIONS = "estimate", "prune", "merge", "mix", "classes", "perplexity", "train", "translate"


def __getattr__(name):
    """The functions of lmtk.functions, and the names of KenLM's module; neither is imported before it is used."""
    if name.startswith("__"):
        raise AttributeError(name)
    from importlib import import_module

    if name == "errors":
        return import_module("lmtk.errors")
    if name in FUNCTIONS:
        return getattr(import_module("lmtk.functions"), name)
    kenlm_module = import_module("lmtk.kenlm_module")
    if name not in kenlm_module.__all__:
        raise AttributeError(f"module 'lmtk' has no attribute '{name}'")
    return getattr(kenlm_module, name)


def __dir__():
    """The names for users; help(lmtk) shows their documentation."""
    from lmtk.kenlm_module import __all__ as kenlm

    return sorted({"load", "errors", "__version__", *FUNCTIONS, *kenlm})


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
