from lmtk.commands.options import option, shared, takes
from lmtk.jobs.indexing import IndexJob, write_index
from lmtk.jobs.rules import build

OPTIONS = {
    "Data": {
        **shared("text"),
        "documents": option(
            "The unit that is a document; blank lines separate paragraphs (default: lines; with -field, records).",
            "lines|paragraphs|files|records",
        ),
        **shared("tolower field tokenizer encode normalize"),
    },
    "Output": {"write": option("Output file for the index.", "FILE"), **shared("quiet")},
}


@takes(IndexJob, OPTIONS)
def command(**options):
    """Make an index of a corpus, in which lmtk count-of counts phrases of any length.

    Example: lmtk index -text corpus.txt -write corpus.index
    """
    write_index(build(IndexJob, options))
