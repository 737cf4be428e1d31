"""lmtk: a command-line language-modelling toolkit.

`lmtk.load(path)` reads any model that the commands write.
"""

__version__ = "0.1.0"


def load(path):
    """Read a model of any kind (n-gram, interpolated, neural, mixture) from a file or "-" (stdin).

    Returns a `lmtk.api.Model`: score(sentence), full_scores(sentence), perplexity(sentence), "word" in model, order;
    all logarithms are to base 10. Raises OSError where the file can't be read, `lmtk.errors.FormatError` where it is
    no whole model.
    """
    from lmtk.api import Model
    from lmtk.files.registry import load as read

    path = str(path)
    return Model(read(path), path)
