"""lmtk: a command-line language-modelling toolkit.

`lmtk.load(path)` reads any model that the commands write.
"""

__version__ = "0.1.0"


def load(path):
    """Read a model of any kind (n-gram, interpolated, neural, mixture) from a file or "-".

    Returns a `lmtk.lm.LanguageModel`. Raises `lmtk.errors.FormatError` where the file is not a whole model.
    """
    from lmtk.files.registry import load as read

    return read(path)
