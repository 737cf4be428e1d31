import sys

from lmtk.commands.options import MODELS, UNK_AS_IS, option, shared, takes
from lmtk.jobs.mixing import MixJob, mix
from lmtk.jobs.rules import build, check, wrong

READ = "no_sos no_eos stream tolower field tokenizer encode normalize"
OPTIONS = {
    "Data": {"lm": MODELS, **shared("heldout"), "unk": UNK_AS_IS, **shared(READ)},
    "Weights": {
        "weight": option(
            "A weight for each model; the last may be left out. EM on -heldout starts from these (default: equal).",
            "X",
        ),
        "bins": option("Learn separate weights for each range of context frequencies; needs a model of ngram-interp."),
    },
    "Output": {
        "write": option("Write the mixture, which can be used like any model (-: stdout).", "FILE"),
        **shared("debug"),
    },
    "Training": shared("iterations tolerance"),
    "Parallel": shared("threads"),
}


def weights_missing(job):
    """The message about missing weights, or None. It lists the models, since a text may be one of them by mistake."""
    if job.heldout or job.weight:
        return None
    weights = f"the weights of the models {', '.join(job.lm)} are missing"
    return f"{weights}; give -heldout FILE to learn them, or -lambda X ... and -write FILE"


RULES = (
    wrong(
        lambda job: job.weight and not (job.heldout or job.write),
        "-lambda alone writes nothing; add -write FILE to write the mixture, or -heldout FILE to learn weights",
    ),
    weights_missing,
)


@takes(MixJob, OPTIONS)
def command(unk, **options):
    """Mix models of any kind, with the weights of -lambda or with weights learned on held-out text by EM.

    The learned weights are printed in the form of SRILM's compute-best-mix; -debug 1 also prints the weights of each
    iteration. The file of -write contains the names of the model files, relative to its folder; move them together.

    Example: lmtk mix -lm interp.lm -lm nplm.bin -heldout valid.txt -write mix.lm
    """
    job = build(MixJob, options)
    check(job, RULES)
    mix(job, (sys.stderr if job.write == "-" else sys.stdout).write)
