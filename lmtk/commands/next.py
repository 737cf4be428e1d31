from lmtk.commands.options import option, shared, takes
from lmtk.jobs.following import NextJob, print_next_words
from lmtk.jobs.rules import build

OPTIONS = {
    "Data": {
        "lm": option("Model of any kind.", "FILE"),
        "text": option("Contexts, one per line (default: stdin).", "FILE"),
        **shared("tolower field tokenizer encode normalize"),
        "no_sos": option("Do not add <s> before a context."),
    },
    "Output": {
        "top": option("Print N words for each context (default: 10).", "N", low=1),
        "unk": option("Print <unk> too, if the model predicts it."),
        "write": option("Write the output to this file (-: stdout).", "FILE"),
    },
}


@takes(NextJob, OPTIONS)
def command(**options):
    """Print the most probable next words after each context, with log10 p and p.

    Example: echo 'the cat' | lmtk next -lm model.arpa -top 5
    """
    print_next_words(build(NextJob, options))
