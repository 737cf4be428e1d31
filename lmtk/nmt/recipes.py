"""How to train: our settings, found by trials, and those of Bahdanau et al. 2015, appendix B."""

import math

from lmtk.nmt.training import Settings

OURS = {"minibatch": 40, "rate": None, "dropout": 0.3, "smoothing": 0.1}
PAPER = {"minibatch": 80, "rate": None, "dropout": 0.0, "smoothing": 0.0}  # no rate: Adadelta finds its own
ALIGNMENT, MAXOUT = 256, 128
SHARE = 20  # sentences of a minibatch for which a thread pays


def settings(given, paper):
    """Settings; given: those of the user, by name, None where there is none."""
    return Settings(**(PAPER if paper else OURS) | {name: value for name, value in given.items() if value is not None})


def rate(updates):
    """Adam's rate at the start of a run of so many updates: the fewer they are, the farther each has to go."""
    return float(f"{0.001 * min(4.0, max(1.0, math.sqrt(4000 / updates))):.2g}")
