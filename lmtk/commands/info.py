import sys
from typing import Annotated

from lmtk.commands.options import needed, one_stdin, option


def command(
    lm: Annotated[
        list[str] | None, option("lm", "A file of any kind (several): models, checkpoints, counts, word lists.", "FILE")
    ] = None,
    words: Annotated[int, option("words", "Show the first N words.", "N", min=0)] = 10,
):
    """Describe files: kind, sizes, settings, vocabulary.

    \b
    Example: lmtk info model.lm
    """
    from lmtk.files.registry import describe

    one_stdin(*needed(lm, "lm"))
    for i, path in enumerate(lm):
        lines, vocabulary = describe(path)
        shown = vocabulary[:words]
        if shown:
            lines = [*lines, ("first words", b" ".join(shown).decode("utf-8", "surrogateescape"))]
        sys.stdout.write("\n" * (i > 0) + f"file {path}\n")
        # a table begins on a line of its own
        sys.stdout.writelines(f"{name}: {value}\n".replace(": \n", ":\n", 1) for name, value in lines)
