from lmtk.commands.options import option, shared, takes
from lmtk.commands.spelling import Option, checked
from lmtk.jobs.rules import build
from lmtk.jobs.selecting import SelectJob, select

TWO = "the model of the domain, then the model of general text"


def size_kept(text):
    """The value of -keep, an int or a float: 1 is one sentence, but 1.0 could also be all of them."""
    if text is None:
        return None
    checked("-keep", text, Option("one", number=float))
    return int(text) if text.isdecimal() else float(text)


OPTIONS = {
    "Data": {
        "text": option("The text to select from, called the pool, one sentence per line (-: stdin).", "FILE"),
        "lm": option(f"Two models: {TWO}.", "DOMAIN GENERAL"),
        "source": option("One side of the pool, if it is a bitext.", "FILE"),
        "target": option("The other side of the bitext, line by line.", "FILE"),
        "source_lm": option(f"Two models for -source: {TWO}.", "DOMAIN GENERAL"),
        "target_lm": option(f"Two models for -target: {TWO}.", "DOMAIN GENERAL"),
        **shared("tolower field tokenizer encode normalize"),
    },
    "Output": {
        "keep": option("The number of sentences to keep, or a fraction of them such as 0.2.", "N", parse=size_kept),
        "write": option("Output file for the selected sentences (-: stdout).", "FILE"),
        "write_source": option("Output file for the selected lines of -source.", "FILE"),
        "write_target": option("Output file for the selected lines of -target.", "FILE"),
        "write_scores": option("Output file for the score of each line of the pool.", "FILE"),
        **shared("quiet debug"),
    },
    "Parallel": shared("threads"),
}


@takes(SelectJob, OPTIONS)
def command(**options):
    """Select the sentences of a large text that are most similar to a domain, by two language models.

    The score of a sentence is its cross-entropy per word under the model of the domain, minus its cross-entropy under
    the model of general text. The sentences with the lowest scores are kept.

    Example: lmtk select -text pool.txt -lm domain.lm general.lm -keep 0.2 -write selected.txt
    """
    select(build(SelectJob, options))
