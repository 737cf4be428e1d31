"""What long runs have in common: a bar with the time to go, where stderr is a terminal; an end when they are asked."""

import contextlib
import os
import signal
import sys


class Bar:
    """bar(share, text) shows how much of the work is done; bar.tell(line) writes a line above it.

    begun: the share that is done when it begins.
    """

    def __init__(self, quiet, begun=0.0):
        self.bar, self.begun = None, begun
        if not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f}%")
            self.bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)

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
            if share < self.bar.tasks[0].completed:  # the time to go is that of this stretch
                self.bar.reset(self.task)
            self.bar.update(self.task, completed=share, description=text)

    def tell(self, line):
        if self.bar:
            self.bar.console.print(line, markup=False, highlight=False)
        else:
            sys.stderr.write(line + "\n")


@contextlib.contextmanager
def interruptible():
    """A list that gets the number of the signal that asks to stop; a second one stops at once."""
    cut = []

    def note(number, frame):
        if cut:
            raise KeyboardInterrupt
        cut.append(number)

    old = {s: signal.signal(s, note) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield cut
    finally:
        for s, handler in old.items():
            signal.signal(s, handler)


def remove(checkpoint):
    if checkpoint:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(checkpoint)
