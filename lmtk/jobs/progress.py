"""Shows the progress of a training run: a line for each epoch, a progress bar, a log and a plot."""

import contextlib
import sys
import time
from dataclasses import replace

from lmtk.clock import UNLIMITED, Clock
from lmtk.files import curve
from lmtk.files.outputs import open_in_place
from lmtk.jobs.bar import Bar
from lmtk.run import has_ended


class Reporter:
    """Shows the progress of a run: a line for each epoch at -debug 1, a bar on a terminal, -log, -plot, and advice.

    reporter(progress, over, words) is called after each stretch of training. over: whether the epoch is over; words:
    the number of words since the last call. silent: show nothing, as ranks other than the first.
    """

    def __init__(self, run, progress, life, silent=False):
        self.run, self.debug, self.silent, self.plot = run, life.debug, silent, life.plot
        self.before, self.words, self.shown = progress.seconds, 0, 0.0
        self.begun = self.epoch_begun = time.monotonic()
        self.clock = Clock(run.settings.minutes, progress.seconds)
        self.first = self.share(progress)
        self.bar, self.advised, self.log = Bar(life.quiet or silent), set(), None
        if life.log and not silent:
            self.log = Log(life.log, progress.curve, self)

    def share(self, progress):
        return self.clock.share((progress.epoch + progress.step / self.run.steps) / self.run.settings.epochs)

    def elapsed(self):
        """Seconds of training, including those before a checkpoint."""
        return self.before + time.monotonic() - self.begun

    def warn(self, message):
        self.bar.tell(f"lmtk {self.run.program}: warning: {message}")

    def __call__(self, progress, over, words):
        self.words += words
        if self.silent:
            return
        now = time.monotonic()
        speed = self.words / max(now - self.epoch_begun, 1e-9)
        if over:
            progress.curve[-1] = replace(progress.curve[-1], seconds=self.elapsed(), speed=speed)
            self.epoch(progress, now)
            self.words, self.epoch_begun = 0, time.monotonic()
            self.begun += self.epoch_begun - now  # the time for reports and plots does not count
        if self.bar.width and (over or now > self.shown + 0.1):
            self.bar(self.share(progress), self.state(progress, speed))
            self.shown = now

    def state(self, progress, speed):
        """The text before the bar: the epoch, the last figures and the speed, as far as there is room."""
        epochs = self.run.settings.epochs
        text = f"epoch {min(progress.epoch + 1, epochs)}" + (f"/{epochs}" if epochs < UNLIMITED else "")
        for more in ([curve.format_short(progress.curve[-1])] if progress.curve else []) + [f"{speed:,.0f} words/s"]:
            text += f"  {more}" if len(text) + len(more) < self.bar.width - 24 else ""
        return text

    def epoch(self, progress, now):
        """Reports the epoch that has ended."""
        e, share = progress.curve[-1], self.share(progress)
        if self.debug:
            is_last = has_ended(progress, self.run.settings)
            line = self.run.line(e, None if is_last else (now - self.begun) * (1 - share) / (share - self.first))
            self.bar.tell(line if not 0 < self.bar.width <= len(line) else curve.format_line(e))
        self.advise(progress)
        if self.log:
            self.log(e)
        if self.plot:
            try:
                curve.write_plot(self.plot, progress.curve, self.run.unigram)
            except OSError as error:
                self.warn(f"{self.plot}: {error.strerror}; training continues without the picture")
                self.plot = None

    def advise(self, progress):
        """Warns once in a run if it underfits or overfits, with a remedy. If epochs are not shown, only the best epoch
        is judged, at the end of the run.
        """
        epochs, unigram, shown = progress.curve, self.run.unigram, self.debug or self.bar.width
        faults = [curve.find_underfitting(epochs, unigram), curve.find_overfitting(epochs)]
        if not shown:
            best = [e for e in epochs if e.best]
            faults = [has_ended(progress, self.run.settings) and curve.find_underfitting(best, unigram)]
        for fault, remedy in zip(faults, self.run.remedies):
            if fault and remedy not in self.advised:
                self.advised.add(remedy)
                self.warn(f"{fault}; {remedy}")


class Log:
    """The file of -log, with a line for each epoch. If the file cannot be written, the Reporter warns once."""

    def __init__(self, path, epochs, reporter):
        self.path, self.reporter = path, reporter
        self.out = sys.stdout.buffer if path == "-" else open_in_place(path)
        self.columns = None
        for e in epochs:
            self(e)

    def __call__(self, e):
        if self.out is None:
            return
        try:
            if self.columns is None:
                self.columns = curve.log_columns(e)
                self.out.write(curve.log_head(self.columns).encode())
            self.out.write(curve.log_line(e, self.columns).encode())
            self.out.flush()
        except OSError as error:
            self.reporter.warn(f"{self.path}: {error.strerror}; training continues without the log")
            if self.path != "-":
                with contextlib.suppress(OSError):  # otherwise Python would print the error again
                    self.out.close()
            self.out = None
