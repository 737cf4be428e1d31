"""How to train: our settings, found by trials, and those of Bahdanau et al. 2015, appendix B."""

from lmtk.nmt.training import Settings

OURS = {"minibatch": 40, "rate": 0.001, "dropout": 0.3, "smoothing": 0.1}
PAPER = {"minibatch": 80, "rate": None, "dropout": 0.0, "smoothing": 0.0}  # no rate: Adadelta finds its own
ALIGNMENT = 256
SHARE = 20  # sentences of a minibatch for which a thread pays


def settings(given, paper):
    """Settings; given: those of the user, by name, None where there is none."""
    return Settings(**(PAPER if paper else OURS) | {name: value for name, value in given.items() if value is not None})
