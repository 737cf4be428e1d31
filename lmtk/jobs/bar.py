"""A progress bar with the time to go, shown if stderr is a terminal."""

import contextlib
import os
import sys
import time
from datetime import timedelta

from lmtk.files import inputs

LONG = 1 << 24  # bytes that are read in about a second
SETTLED = 2  # seconds of work before the time to go is estimated
UNKNOWN = "-:--:--"  # in place of the time to go


class Bar:
    """A progress bar, which is shown only on a terminal. bar(share, text) shows which share of the work is done.

    The bar appears with the first share, so that it does not show 0 % while kernels compile. width: the columns of the
    terminal, 0 without one.
    """

    def __init__(self, quiet):
        self.bar, self.width, self.since = None, 0, None
        if not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn
            from rich.table import Column

            text = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True))
            columns = text, BarColumn(None), TextColumn("{task.percentage:3.0f}%"), TextColumn("{task.fields[left]}")
            console = Console(stderr=True)
            console.width -= 2  # room for the terminal's ^C, which would otherwise start a new line
            self.bar = Progress(*columns, console=console, transient=True, expand=True)
            self.width = console.width

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.bar and self.since:
            self.bar.stop()

    def __call__(self, share, text):
        if not self.bar:
            return
        now = time.monotonic()
        if self.since is None:
            self.task = self.bar.add_task(text, total=1.0, completed=share, left=UNKNOWN)
            self.bar.start()
        if self.since is None or share < self.share:  # new work begins; the time to go is that of this work
            self.since, self.first = now, share
        self.share = share
        self.bar.update(self.task, completed=share, description=text, left=self.time_to_go(now))

    def time_to_go(self, now):
        """The time to go as h:mm:ss, from the mean speed since the first share; UNKNOWN at first."""
        spent, done = now - self.since, self.share - self.first
        if spent < SETTLED or done <= 0:
            return UNKNOWN
        return str(timedelta(seconds=round(spent * (1 - self.share) / done)))

    def aside(self, write):
        """A function that writes as `write` does, while the bar is hidden."""
        if not self.bar:
            return write

        def between(data):
            if self.since:
                self.bar.stop()
            write(data)
            sys.stdout.flush()
            if self.since:
                self.bar.start()

        return between

    def tell(self, line):
        """Writes a line to stderr, above the bar."""
        if self.bar:
            self.bar.console.print(line, markup=False, highlight=False)
        else:
            sys.stderr.write(line + "\n")


@contextlib.contextmanager
def reading_bar(paths, label, quiet=False, share=1.0):
    """A context with a Bar that shows how much of some files has been read. Files below LONG bytes get no bar.

    share: the share of the files that will be read.
    """
    total = share * sum(os.path.getsize(path) for path in paths if path and inputs.is_file(path))
    with Bar(quiet or total < LONG) as bar:
        done = 0

        def more(size):
            nonlocal done
            done += size
            bar(min(done / total, 1.0), label)

        before = inputs.watch
        if bar.bar:
            inputs.watch = more
        try:
            yield bar
        finally:
            inputs.watch = before
