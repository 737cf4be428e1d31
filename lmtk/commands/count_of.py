from lmtk.commands.options import option, shared, takes
from lmtk.jobs.indexing import CountOfJob, print_counts
from lmtk.jobs.rules import build

OPTIONS = {
    "Data": {
        "index": option("The index, made by lmtk index.", "FILE"),
        "text": option("Phrases, one per line (default: stdin).", "FILE"),
        **shared("field tokenizer encode normalize"),
    },
    "Output": {"write": option("Write the table to this file (-: stdout).", "FILE")},
}


@takes(CountOfJob, OPTIONS)
def command(**options):
    """Count phrases of any length in a corpus: the number of occurrences, and the number of documents with the phrase.

    A row also has the unbounded n-gram probability of the phrase's last word: its log10 p after the longest context
    that occurs in the corpus, and the number of words in this context.

    Example: lmtk count-of -index corpus.index -text phrases.txt
    """
    print_counts(build(CountOfJob, options))
