from lmtk.commands.options import option, shared, takes
from lmtk.jobs.following import SampleJob, sample
from lmtk.jobs.rules import build

OPTIONS = {
    "Sentences": {
        "lm": option("Model of any kind.", "FILE"),
        "count": option("Print N sentences (default: 10).", "N", low=0),
        "prefixes": option("Print each line of this file with a random continuation.", "FILE"),
        "temperature": option("Divide log p by X; values below 1 give more probable sentences (default: 1).", "X"),
        "most": option("Draw at most N words for a sentence (default: 1000).", "N", low=1),
        "unk": option("Allow <unk> to be drawn."),
        **shared("field tokenizer encode normalize seed"),
    },
    "Output": {"write": option("Write the sentences (-: stdout).", "FILE")},
}


@takes(SampleJob, OPTIONS)
def command(**options):
    """Print random sentences of a model of any kind.

    Example: lmtk sample -lm nplm.bin -count 3 -temperature 0.8
    """
    sample(build(SampleJob, options))
