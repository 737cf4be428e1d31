"""How to train: our settings, found by trials, and those of Bengio et al. 2003, section 4."""

from lmtk.nplm.layers import LAYERS
from lmtk.nplm.training import Settings

OURS = {
    "epochs": 5, "rate": 0.02, "decay": None, "weight_decay": 3e-5, "feature_rate": 4.0, "minibatch": 256,
    "objective": None,
}  # fmt: skip
# of layers that carry their state
RUNNING = {"epochs": 8, "rate": 0.03, "weight_decay": 0.0, "feature_rate": 1.0, "minibatch": 1024}
# section 4, one example an update; 10 to 20 epochs for the Brown corpus, with early stopping by the held-out text
PAPER = {
    "epochs": 20, "rate": 1e-3, "decay": 1e-8, "weight_decay": 1e-4, "feature_rate": 1.0, "minibatch": 1,
    "objective": "full",
}  # fmt: skip
FEW = 2000  # words up to which an update may as well see all of them
DRAWN = "sampled", "nce"  # objectives that draw words
SAMPLES, SHORTLIST = 250, 2000


def settings(given, paper, V):
    """Settings for a vocabulary of V words; given: the user's, by name, None where there is none; paper: those of
    section 4 for the rest.
    """
    given = {name: value for name, value in given.items() if value is not None}
    if any(name in given for name in ("samples", "proposal", "effective_samples")):
        given.setdefault("objective", "sampled")
    layer = LAYERS[given.get("model") or "nplm"]
    ours = OURS | RUNNING if layer.carries else OURS
    made = (PAPER if paper else ours) | given
    made["objective"] = made["objective"] or ("full" if V <= FEW else "sampled")
    made.setdefault("order", layer.order)
    # while the rate still falls to 0 a worse epoch says little: most of the gain comes at the end
    made.setdefault("patience", made["epochs"] if made["decay"] is None else 3)
    if made["objective"] in DRAWN:
        made.setdefault("samples", SAMPLES)
    if made["objective"] == "shortlist":
        made.setdefault("shortlist", SHORTLIST)
    return Settings(**made)
