import os
import sys
from typing import Annotated

from lmtk.commands.options import needed, one_stdin, option


def command(
    lm: Annotated[
        list[str] | None,
        option("lm", "A file of any kind (several): models, checkpoints, counts, word lists.", "FILE", group="Data"),
    ] = None,
    words: Annotated[int, option("words", "Show the first N words.", "N", min=0, group="Output")] = 10,
):
    """Describe files: kind, sizes, settings, vocabulary.

    \b
    Example: lmtk info model.lm
    """
    from lmtk.errors import LmtkError, name_of
    from lmtk.files.registry import describe

    one_stdin(*needed(lm, "lm"))
    told, failures = 0, []
    for path in lm:
        try:
            lines, vocabulary = describe(path, words)
        except OSError as e:
            failures.append(f"{name_of(path)}: {e.strerror or e}")
            continue
        except LmtkError as e:
            failures.append(str(e))
            continue
        if os.path.isfile(path):
            lines.insert(1, ("size on disk", rounded(os.path.getsize(path))))
        shown = vocabulary[:words]
        if shown:
            lines = [*lines, ("first words", b" ".join(shown).decode("utf-8", "surrogateescape"))]
        sys.stdout.write("\n" * (told > 0) + f"file {path}\n")
        told += 1
        # a table begins on a line of its own
        sys.stdout.writelines(f"{name}: {value}\n".replace(": \n", ":\n", 1) for name, value in lines)
    for failure in failures[:-1]:
        sys.stderr.write(f"lmtk info: {failure}\n")
    if failures:
        raise LmtkError(failures[-1])


def rounded(size):
    """A number of bytes to two digits: 850 bytes, 31 kB, 1.2 GB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 999.5 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 9.95 else f"{size:.1f} {unit}"
        size /= 1000
