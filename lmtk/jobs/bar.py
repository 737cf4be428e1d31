"""A bar with the time to go, for what takes long, where stderr is a terminal."""

import contextlib
import os
import sys

from lmtk.files import inputs

LONG = 1 << 24  # bytes: what is read in about a second


class Bar:
    """bar(share, text) shows how much of the work is done, where stderr is a terminal; bar.tell(line) writes a line
    above it.

    begun: the share that is done when it begins. width: of the terminal, 0 where there is none.
    """

    def __init__(self, quiet, begun=0.0):
        self.bar, self.begun, self.width = None, begun, 0
        if not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
            from rich.table import Column

            text = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True))
            columns = text, BarColumn(None), TextColumn("{task.percentage:3.0f}%"), TimeRemainingColumn()
            self.bar = Progress(*columns, console=Console(stderr=True), transient=True, expand=True)
            self.width = self.bar.console.width

    def __enter__(self):
        if self.bar:
            self.task = self.bar.add_task("", total=1.0, completed=self.begun)
            self.bar.start()
        return self

    def __exit__(self, *_):
        if self.bar:
            self.bar.stop()

    def __call__(self, share, text):
        if self.bar:
            if share < self.bar.tasks[0].completed:  # new work has begun: the time to go is that of this alone
                self.bar.reset(self.task)
            self.bar.update(self.task, completed=share, description=text)

    def aside(self, write):
        """`write`, with the bar taken away meanwhile."""
        if not self.bar:
            return write

        def between(data):
            self.bar.stop()
            write(data)
            sys.stdout.flush()
            self.bar.start()

        return between

    def tell(self, line):
        if self.bar:
            self.bar.console.print(line, markup=False, highlight=False)
        else:
            sys.stderr.write(line + "\n")


@contextlib.contextmanager
def reading(paths, what, quiet=False):
    """A Bar that shows how much of some files is read, where that is LONG or more."""
    total = sum(os.path.getsize(path) for path in paths if path and os.path.isfile(path))
    with Bar(quiet or total < LONG) as bar:
        done = 0

        def more(size):
            nonlocal done
            done += size
            bar(min(done / total, 1.0), what)

        before, inputs.watch = inputs.watch, more if bar.bar else inputs.watch
        try:
            yield bar
        finally:
            inputs.watch = before
