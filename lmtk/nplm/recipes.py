"""Settings of a training run: ours, chosen by experiments, and those of Bengio et al. 2003, section 4."""

from dataclasses import replace

from lmtk.clock import UNLIMITED
from lmtk.nplm import running
from lmtk.nplm.layers import LAYERS
from lmtk.nplm.objectives import ESTIMATED
from lmtk.nplm.training import Settings

OURS = {
    "epochs": 5, "rate": 0.02, "decay": None, "weight_decay": 3e-5, "feature_rate": 4.0, "minibatch": 256,
    "objective": None,
}  # fmt: skip
# for layers that carry their state
CARRYING = {"epochs": 8, "rate": 0.03, "weight_decay": 0.0, "feature_rate": 1.0, "minibatch": 1024}
# section 4, one example an update; 10 to 20 epochs for the Brown corpus, with early stopping by the held-out text
PAPER = {
    "epochs": 20, "rate": 1e-3, "decay": 1e-8, "weight_decay": 1e-4, "feature_rate": 1.0, "minibatch": 1,
    "objective": "full", "paper": True,
}  # fmt: skip
FEW = 2000  # with a vocabulary of at most this size, an update trains the outputs of all words
SAMPLES, SHORTLIST = 250, 2000


def make_settings(options, paper, V):
    """Fill in the settings for a vocabulary of V words.

    options: the user's settings by name, None for those not set; paper: whether section 4 of the paper provides the
    rest.
    """
    options = {name: value for name, value in options.items() if value is not None}
    if any(name in options for name in ("samples", "proposal", "effective_samples")):
        options.setdefault("objective", "sampled")
    layer = LAYERS[options.get("model") or "nplm"]
    ours = OURS | CARRYING if layer.carries else OURS
    values = (PAPER if paper else ours) | ({"epochs": UNLIMITED} if "minutes" in options else {}) | options
    values["objective"] = values["objective"] or ("full" if V <= FEW else "sampled")
    values.setdefault("order", layer.order)
    # if the rate falls to 0, a worse epoch says little: most of the gain comes at the end
    values.setdefault("patience", 0 if values["decay"] is None else 3)
    if values["objective"] in ESTIMATED:
        values.setdefault("samples", SAMPLES)
    if values["objective"] == "shortlist":
        values.setdefault("shortlist", SHORTLIST)
    settings = Settings(**values)
    return replace(settings, minibatch=running.minibatch_size(settings)) if layer.carries else settings
