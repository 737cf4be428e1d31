import os
from typing import Annotated

from lmtk.commands.options import Tolower, Write, check_outputs, one_stdin, option


def command(
    text: Annotated[
        list[str] | None, option("text", "Text to read (several; default: stdin).", "FILE", group="Data")
    ] = None,
    tokenize: Annotated[
        bool, option("tokenize", "A blank between words and punctuation: it's (3.5) -> it's ( 3.5 ).", group="Words")
    ] = False,
    tolower: Tolower = False,
    numbers: Annotated[
        bool, option("numbers", "Numeric forms to <num>: 1,234.5 -45 3rd 1960s 12:30 50%.", group="Words")
    ] = False,
    proper: Annotated[bool, option("proper", "Capitalised words inside a sentence to <name>.", group="Words")] = False,
    proper_list: Annotated[
        str | None, option("proper-list", "The words of this list to <name>.", "FILE", group="Words")
    ] = None,
    write: Write = "-",
):
    """Normalize text: punctuation apart from words, lower case, numbers and proper nouns to one symbol each.

    \b
    Example: echo 'Ann paid 1,234.5 crowns.' | lmtk normalize -tokenize -tolower -numbers
    """
    from lmtk.files.decoding import blocks
    from lmtk.files.outputs import open_out
    from lmtk.text.normalize import normalize
    from lmtk.text.vocab import read_vocab

    one_stdin(*(text or ["-"]), proper_list)
    for path in text or []:
        if path != "-":
            os.stat(path)  # all or none: what is missing is told before anything is written
    check_outputs(write, inputs=[proper_list])
    names = set(read_vocab(proper_list)) if proper_list else None
    with open_out(write) as out:
        for path in text or ["-"]:
            for block in blocks(path, eager=True, as_is=True):
                out.write(normalize(block, tolower, numbers, proper, names, tokenize))
                out.flush()
