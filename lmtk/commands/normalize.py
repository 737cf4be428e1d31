from lmtk.commands.options import option, shared, takes
from lmtk.jobs.normalizing import NormalizeJob, write_normalized
from lmtk.jobs.rules import build

OPTIONS = {
    "Data": {"text": option("Text to read (default: stdin).", "FILE"), **shared("tolower field")},
    "Words": {
        "tokenize": option("Separate punctuation from words: it's (3.5) -> it's ( 3.5 )."),
        "numbers": option("Replace numbers by <num>: 1,234.5 -45 3rd 1960s 12:30 50%."),
        "proper": option("Replace capitalized words inside a sentence by <name>."),
        "proper_list": option("Replace the words of this list by <name>.", "FILE"),
    },
    "Output": {"write": option("Write the text (-: stdout).", "FILE")},
}


@takes(NormalizeJob, OPTIONS)
def command(**options):
    """Normalize text: separate punctuation from words, convert to lower case, replace numbers and names by symbols.

    Example: echo 'Ann paid 1,234.5 crowns.' | lmtk normalize -tokenize -tolower -numbers
    """
    write_normalized(build(NormalizeJob, options))
