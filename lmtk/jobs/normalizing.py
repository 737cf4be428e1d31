"""Normalized texts."""

import os
from dataclasses import dataclass

from lmtk.jobs.rules import check, check_outputs, one_stdin
from lmtk.jobs.texts import FIELD_RULES, Reading, convert_texts


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


def write_normalized(job):
    """Runs a NormalizeJob."""
    from lmtk.files.decoding import blocks
    from lmtk.files.outputs import open_out
    from lmtk.text.normalize import normalize
    from lmtk.text.vocab import read_vocab

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
