"""The curve of a training: what files hold of it, what is shown, and what it says is wrong."""

import math
from itertools import accumulate

import pytest

from lmtk.files import curve
from lmtk.files.curve import Epoch


def epochs(*figures, **more):
    """Epochs of (training, held-out) perplexities; the best so far are told."""
    least = list(accumulate((h for _, h in figures), min))
    return [
        Epoch(i + 1, -math.log(t), -math.log(h), best=h == least[i] and h not in least[:i], **more)
        for i, (t, h) in enumerate(figures)
    ]


def test_rows_come_back():
    actual = [Epoch(1, -5.5, -5.25, None, 0.02, best=True, seconds=1.5, speed=9.0), Epoch(2, None, -6, 31.5)]
    assert curve.epochs(curve.rows(actual)) == actual and curve.is_table(curve.rows(actual))
    without = curve.epochs(curve.rows(actual, curve.TIMES))
    assert (without[0].seconds, without[0].training) == (0, -5.5)


@pytest.mark.parametrize(
    "table",
    [
        *(None, [], {}, [[]], [[[]]], [1], [["number"], [1.5]], [["number"], [None]], [["training"], [1]]),
        *([["number", "x"], [1, 2]], [["number", "rate"], [1]], [["number", "rate"], [1, "x"]]),
        [["number", "rate"], [1, math.inf]],
    ],
)
def test_what_is_no_curve(table):
    assert not curve.is_table(table)


def test_an_epoch_above_the_unigram_is_told():
    above = lambda found, *unigram: curve.find_underfitting(found, unigram)
    base = -math.log(100)
    assert "held-out ppl= 120 is above" in above(epochs((50, 120)), base, base)
    assert "perplexity of the unigram model, 100" in above(epochs((50, 120)), base, base)
    assert not above(epochs((500, 99)), base, base) and not above(epochs((50, 101)), base, base)
    # without held-out text: as words were seen during an epoch, from before it learned anything on
    alone = [Epoch(1, -math.log(200)), Epoch(2, -math.log(150))]
    assert not above(alone[:1], base, None) and "training ppl= 150" in above(alone, base, None)
    assert not above([Epoch(2, -math.log(150), estimated=True)], base, None)


def test_overfitting_is_told():
    rising = epochs((50, 60), (40, 55), (30, 56), (20, 57))
    assert curve.find_overfitting(rising) and not curve.find_overfitting(rising[:3])
    assert not curve.find_overfitting(epochs((50, 60), (40, 55), (30, 56), (31, 57)))
    assert not curve.find_overfitting(epochs((50, 60), (40, 57), (30, 56), (20, 55)))
    assert not curve.find_overfitting(epochs((50, 60), (40, 55), (30, 55.3), (20, 55.9)))


def test_forms():
    actual = [Epoch(1, -math.log(50), -math.log(60), 31.25, 0.02, best=True, seconds=61.26, speed=1234.6)]
    columns = curve.log_columns(actual[0])
    assert curve.log_head(columns) == "epoch\tseconds\ttraining\theldout\tbleu\trate\twords/s\n"
    assert curve.log_line(actual[0], columns) == "1\t61.3\t50\t60\t31.25\t0.02\t1235\n"
    assert curve.format_line(actual[0]) == "epoch 1  ppl 50 held-out 60  BLEU 31.25  1,235 words/s  best"
    assert curve.format_table(actual).splitlines()[1].split() == ["1", "50", "60", "31.25", "0.02", "best"]
    estimated = [Epoch(1, -1.0, estimated=True)]
    assert "training ppl~" in curve.format_table(estimated) and curve.format_short(estimated[0]) == "ppl ~2.718"
    assert curve.log_head(curve.log_columns(estimated[0])).split("\t")[2] == "training-estimate"


def test_statistics_of_a_translation_model():
    epochs = [Epoch(1, best=True, updates=50, training_nll=30.25), Epoch(2, best=True, updates=99, heldout_nll=28.1234)]
    columns = curve.log_columns(epochs[0])
    assert curve.log_head(columns).endswith("words/s\tupdates\ttraining-nll\theldout-nll\n")
    assert curve.log_line(epochs[0], columns).endswith("\t50\t30.25\tnan\n")
    assert [*curve.learning_statistics(epochs)] == [("updates", 99), ("held-out NLL per sentence", "28.12")]
    assert not [*curve.learning_statistics([Epoch(1, best=True)])]
