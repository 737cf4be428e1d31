import os
from dataclasses import dataclass

from lmtk.commands.options import option, shared, takes
from lmtk.jobs.rules import build, check, check_outputs, one_stdin
from lmtk.jobs.texts import FIELD_RULES, Reading, convert_texts

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


@dataclass(frozen=True)
class NormalizeJob:
    """Normalize texts. field: as in texts.Reading. proper_list: a file of words that become <name>."""

    text: tuple[str, ...] = ()
    field: str | None = None
    tokenize: bool = False
    tolower: bool = False
    numbers: bool = False
    proper: bool = False
    proper_list: str | None = None
    write: str = "-"

    def __post_init__(self):
        check(self, FIELD_RULES)
        object.__setattr__(self, "text", self.text or ("-",))
        one_stdin(*self.text, self.proper_list)
        convert_texts(self, Reading(self.field))


@takes(NormalizeJob, OPTIONS)
def command(**options):
    """Normalize text: separate punctuation from words, convert to lower case, replace numbers and names by symbols.

    \b
    Example: echo 'Ann paid 1,234.5 crowns.' | lmtk normalize -tokenize -tolower -numbers
    """
    from lmtk.files.decoding import blocks
    from lmtk.files.outputs import open_out
    from lmtk.text.normalize import normalize
    from lmtk.text.vocab import read_vocab

    job = build(NormalizeJob, options)
    for path in job.text:
        if path != "-":
            os.stat(path)  # raises OSError for a missing text before anything is written
    check_outputs(job.write, inputs=[job.proper_list])
    names = set(read_vocab(job.proper_list)) if job.proper_list else None
    with open_out(job.write) as out:
        for path in job.text:
            for block in blocks(path, eager=True, as_is=True):
                out.write(normalize(block, job.tolower, job.numbers, job.proper, names, job.tokenize))
                out.flush()
