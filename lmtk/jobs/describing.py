"""What files are: their kind, sizes, settings and vocabulary."""

import os
import sys
from dataclasses import dataclass

from lmtk.errors import LmtkError, name_of
from lmtk.jobs.rules import check, one_stdin, wrong


@dataclass(frozen=True)
class DescribeJob:
    """Describe the files `lm`, with the first `words` words of each."""

    lm: tuple[str, ...] = ()
    words: int = 10

    def __post_init__(self):
        check(self, (wrong(lambda job: not job.lm, "give a file: lmtk info FILE"),))
        one_stdin(*self.lm)


def describe_files(job):
    """Runs a DescribeJob: prints the descriptions. Raises LmtkError at the end if a file cannot be described."""
    failures, described = [], 0
    for path in job.lm:
        try:
            rows = rows_of(path, job.words)
        except OSError as e:
            failures.append(f"{name_of(path)}: {e.strerror or e}")
            continue
        except LmtkError as e:
            failures.append(str(e))
            continue
        sys.stdout.write("\n" * (described > 0) + f"file {path}\n")
        described += 1
        # a table begins on a line of its own
        sys.stdout.writelines(f"{name}: {value}\n".replace(": \n", ":\n", 1) for name, value in rows)
    for failure in failures[:-1]:
        sys.stderr.write(f"lmtk info: {failure}\n")
    if failures:
        raise LmtkError(failures[-1])


def rows_of(path, words):
    """The description of a file, [(name, value)], with its first `words` words."""
    from lmtk.files.inputs import is_file
    from lmtk.files.registry import describe

    rows, vocabulary = describe(path, words)
    if is_file(path):
        rows.insert(1, ("size on disk", rounded(os.path.getsize(path))))
    if shown := vocabulary[:words]:
        rows = [*rows, ("first words", b" ".join(shown).decode("utf-8", "surrogateescape"))]
    return rows


def rounded(size):
    """A number of bytes to two digits: 850 bytes, 31 kB, 1.2 GB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 999.5 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 9.95 else f"{size:.1f} {unit}"
        size /= 1000
