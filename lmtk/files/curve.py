"""The curve of a training run: the figures of its epochs, and their forms in files, tables, logs and pictures.

Training appends an `Epoch` for each epoch. `rows` and `epochs` convert the curve to and from the settings of a file;
`format_table`, `learning_statistics`, `format_line`, `log_line` and `write_plot` show it; `find_underfitting` and
`find_overfitting` give advice.
"""

import math
import sys
from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np

from lmtk.files.figure import figure
from lmtk.files.outputs import open_out

CLEARLY = 0.02  # nats per word, or 2 % of a perplexity: smaller differences may be chance
TIMES = "seconds", "speed"  # fields that differ between two runs of the same command; models do not store them


@dataclass(frozen=True)
class Epoch:
    """The figures of an epoch. training, heldout: mean ln p of a word of each text, or None.

    training: computed during the epoch, for each word with the parameters at that time; an estimate if `estimated`.
    rate: the learning rate at the start of the epoch. bleu: in percent. best: whether it was the best epoch so far.
    seconds: the training time up to the end of the epoch. speed: words per second. For translation models only:
    updates: the number of updates up to the end of the epoch. training_nll, heldout_nll: the mean of -ln p of a target
    sentence of each text, or None.
    """

    number: int
    training: float | None = None
    heldout: float | None = None
    bleu: float | None = None
    rate: float | None = None
    estimated: bool = False
    best: bool = False
    seconds: float = 0.0
    speed: float = 0.0
    updates: int | None = None
    training_nll: float | None = None
    heldout_nll: float | None = None

    @property
    def ppl(self):
        return None if self.training is None else perplexity(self.training)

    @property
    def heldout_ppl(self):
        return None if self.heldout is None else perplexity(self.heldout)


def perplexity(logp):
    """e^-logp, from a mean ln p; inf if that is too large for a float."""
    try:
        return math.exp(-logp)
    except OverflowError:
        return math.inf


def rows(curve, without=()):
    """Convert epochs to the form in a file's settings: a list of the names of the fields, then a row for each epoch.

    without: names of fields to leave out. Fields that are None in all epochs are left out too.
    """
    names = [f.name for f in fields(Epoch) if f.name not in without]
    names = [name for name in names if not curve or any(getattr(e, name) is not None for e in curve)]
    return [names, *([getattr(e, name) for name in names] for e in curve)]


def is_real(x):
    """Whether a value, which may come from any file, is a finite number that fits into a float; a bool is not."""
    return type(x) in (int, float) and abs(x) <= sys.float_info.max


def is_table(table):
    """Whether a value, which may come from any file, is a table that `epochs` can read."""
    return (
        isinstance(table, list)
        and all(isinstance(row, list) and len(row) == len(table[0]) for row in table)
        and bool(table)
        and all(isinstance(name, str) for name in table[0])
        and {"number"} <= set(table[0]) <= {f.name for f in fields(Epoch)}
        and all(x is None or type(x) is bool or is_real(x) for row in table[1:] for x in row)
        and all(type(row[table[0].index("number")]) is int for row in table[1:])
    )


def epochs(table):
    """Convert the form in a file's settings back to epochs."""
    names, *rows = table
    return [Epoch(**dict(zip(names, row))) for row in rows]


def unigram_logp(words, heldout, V):
    """The mean ln p of the words (N,) of the training text and of the held-out text, by the unigram of the training
    text over V words. One is added to each count. The second number is None without a held-out text.
    """
    counts = np.bincount(words, minlength=V) + 1
    logp = np.log(counts / counts.sum())
    return float(logp[words].mean()), None if heldout is None else float(logp[heldout].mean())


def find_underfitting(curve, unigram):
    """Return a message if the last perplexity is clearly above the unigram model's perplexity, else None.

    unigram: mean ln p of a word of the training text under the unigram model, and of the held-out text, or None. A
    training figure is ignored if it is an estimate, and in the first epoch, when part of it is from before anything was
    learned.
    """
    e, (training, heldout) = curve[-1], unigram
    name, logp, base = ("held-out", e.heldout, heldout) if heldout is not None else ("training", e.training, training)
    if logp is None or logp > base - CLEARLY or (heldout is None and (e.estimated or e.number == 1)):
        return None
    return f"{name} ppl= {perplexity(logp):.4g} is above the perplexity of the unigram model, {perplexity(base):.4g}"


def find_overfitting(curve):
    """A message if training overfits, else None: if the held-out perplexity has risen twice in a row and is now clearly
    above the best, while the training perplexity fell.
    """
    last = curve[-3:]
    if len(last) < 3 or any(e.best for e in last[1:]) or None in [x for e in last for x in (e.training, e.heldout)]:
        return None
    if any(b.heldout >= a.heldout or b.training <= a.training for a, b in pairwise(last)):
        return None
    if last[-1].heldout > max(e.heldout for e in curve) - CLEARLY:
        return None
    return "held-out ppl rises and training ppl falls: the model overfits the training text"


def columns(curve):
    """(name, function that returns the value of an epoch, format) for each figure that some epoch has."""
    mark = "~" if any(e.estimated for e in curve) else ""
    every = [
        (f"training ppl{mark}", lambda e: e.ppl, ".7g"),
        ("held-out ppl", lambda e: e.heldout_ppl, ".7g"),
        ("BLEU", lambda e: e.bleu, ".2f"),
        ("rate", lambda e: e.rate, ".4g"),
    ]
    return [column for column in every if any(column[1](e) is not None for e in curve)]


def format_table(curve):
    """The curve as lines: names of the figures, then a line for each epoch; the last best epoch is marked "best"."""
    shown, kept = columns(curve), max((e.number for e in curve if e.best), default=None)
    lines = ["  epoch" + "".join(f"  {name:>12}" for name, _, _ in shown)]
    for e in curve:
        values = ("" if (x := value(e)) is None else format(x, form) for _, value, form in shown)
        lines.append(f"  {e.number:>5}" + "".join(f"  {x:>12}" for x in values) + "  best" * (e.number == kept))
    return "\n".join(lines)


def learning_statistics(curve):
    """Yield (name, value) for the last best epoch of a translation model, as in Table 2 of Bahdanau et al. 2015."""
    for e in [e for e in curve if e.best and e.updates is not None][-1:]:
        yield "updates", e.updates
        for name, nll in (("training", e.training_nll), ("held-out", e.heldout_nll)):
            if nll is not None:
                yield f"{name} NLL per sentence", f"{nll:.4g}"


def format_short(e):
    """The perplexities and BLEU of an epoch, as a part of a line."""
    figures = (("~" if e.estimated else "", e.ppl), ("held-out ", e.heldout_ppl))
    words = ["ppl", *(f"{name}{x:.4g}" for name, x in figures if x is not None)]
    return " ".join(words if len(words) > 1 else []) + ("" if e.bleu is None else f"  BLEU {e.bleu:.2f}")


def format_line(e):
    """An epoch as a line on a narrow terminal."""
    return f"epoch {e.number}  {format_short(e)}  {e.speed:,.0f} words/s" + "  best" * e.best


def log_columns(e):
    """(name, function that returns the value of an epoch, format) for each column of -log; e: the first epoch."""
    return [
        ("epoch", lambda e: e.number, "d"),
        ("seconds", lambda e: e.seconds, ".1f"),
        ("training-estimate" if e.estimated else "training", lambda e: e.ppl, ".7g"),
        ("heldout", lambda e: e.heldout_ppl, ".7g"),
        *[("bleu", lambda e: e.bleu, ".2f")] * (e.bleu is not None),
        ("rate", lambda e: e.rate, ".4g"),
        ("words/s", lambda e: e.speed, ".0f"),
        *[
            ("updates", lambda e: e.updates, "d"),
            ("training-nll", lambda e: e.training_nll, ".7g"),
            ("heldout-nll", lambda e: e.heldout_nll, ".7g"),
        ]
        * (e.updates is not None),
    ]


def log_head(columns):
    """The first line of -log."""
    return "\t".join(name for name, _, _ in columns) + "\n"


def log_line(e, columns):
    """An epoch as a line of -log: perplexities, nan for missing figures."""
    return "\t".join("nan" if (x := value(e)) is None else format(x, form) for _, value, form in columns) + "\n"


def write_plot(path, curve, unigram=(None, None)):
    """Draw the curve as a picture of the kind that the suffix of `path` names: perplexities, and BLEU below if known.

    unigram: mean ln p of a word of the training text, and of the held-out text, under the unigram model, or None. Its
    perplexity is drawn as a line that a run should stay below.
    """
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    scores = any(e.bleu is not None for e in curve)
    kind, size = path.rpartition(".")[2], (6, 6 if scores else 4)
    with open_out(path) as out, figure(out, kind, size) as drawn:
        axes = drawn.subplots(1 + scores, sharex=True, squeeze=False)[:, 0]
        about = " (estimate)" if any(e.estimated for e in curve) else ""
        for name, value, color in (
            (f"training{about}", lambda e: e.ppl, "C0"),
            ("held-out", lambda e: e.heldout_ppl, "C1"),
        ):
            points = [(e.number, value(e)) for e in curve if value(e) is not None]
            if points:
                axes[0].plot(*zip(*points), "o-", ms=3, color=color, label=name)
        base = unigram[0] if unigram[1] is None else unigram[1]
        if base is not None:
            axes[0].axhline(perplexity(base), color="0.6", ls=":", lw=1, label="unigram")
        for e in [e for e in curve if e.best][-1:]:
            axes[0].axvline(e.number, color="0.85", lw=1, zorder=0, label="epoch kept")
        axes[0].set_yscale("log")
        axes[0].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes[0].yaxis.set_major_formatter("{x:g}")
        axes[0].yaxis.set_minor_formatter(NullFormatter())
        axes[0].set_ylabel("perplexity")
        axes[0].legend(frameon=False)
        if scores:
            axes[1].plot([e.number for e in curve], [e.bleu for e in curve], "o-", ms=3, color="C2", label="held-out")
            axes[1].legend(frameon=False)
            axes[1].set_ylabel("held-out BLEU")
        axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
        axes[-1].set_xlim(0.9, max(len(curve), 2) + 0.1)
        axes[-1].set_xlabel("epoch")
