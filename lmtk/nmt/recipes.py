"""Settings of a training run: ours, chosen by experiments, and those of Bahdanau et al. 2015, appendix B."""

import math

from lmtk.clock import UNLIMITED
from lmtk.nmt.training import Settings, count_steps

OURS = {"minibatch": 40, "dropout": 0.3, "smoothing": 0.1}
PAPER = {"minibatch": 80, "rate": None, "dropout": 0.0, "smoothing": 0.0}  # Adadelta needs no rate
OUR_SIZES = {"embedding": 256, "hidden": 256, "alignment": 256, "maxout": 128}
PAPER_SIZES = {"embedding": 620, "hidden": 1000, "alignment": 1000, "maxout": 500}  # A.2.3
EPOCHS = 16
SHARE = 20  # sentences of a minibatch that are enough work for a thread


def make_settings(options, paper, pairs):
    """Fill in the settings. options: the user's settings by name, None for those not set; paper: whether appendix B of
    the paper provides the rest; pairs: the number of sentence pairs of the training text.
    """
    options = {name: value for name, value in options.items() if value is not None}
    options.setdefault("epochs", UNLIMITED if "minutes" in options else EPOCHS)
    values = (PAPER if paper else OURS) | options
    if "rate" not in values:
        values["rate"] = first_rate(min(values["epochs"], EPOCHS) * count_steps(pairs, values["minibatch"]))
    return Settings(**values)


def first_rate(updates):
    """Adam's learning rate at the start of a run of this many updates. It is higher for fewer updates."""
    return float(f"{0.001 * min(4.0, max(1.0, math.sqrt(4000 / updates))):.2g}")
