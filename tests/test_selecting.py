"""Selection from a pool: the scores are those of plain loops over model.full_scores, for pools in one block or many."""

import os

import numpy as np
import pytest
from helpers import random_text, set_large

import lmtk
from lmtk.errors import UsageError
from lmtk.files import decoding
from lmtk.jobs.selecting import SelectJob, select


def plain_scores(path, domain, general):
    """H_domain - H_general per word of each line, from the scores of single words; inf for a blank line."""
    scores = []
    for line in path.read_text().split("\n")[:-1]:
        sums = [sum(p for p, *_ in model.full_scores(line)) for model in (domain, general)]
        scores.append((sums[1] - sums[0]) / (len(line.split()) + 1) if line.split() else np.inf)
    return np.array(scores)


@pytest.fixture
def pool(tmp_path):
    """A text with blank lines, and two models of the same words."""
    random_text(tmp_path, 1)
    lines = (tmp_path / "t").read_text().split("\n")
    lines[5] = lines[17] = ""
    (tmp_path / "pool").write_text("\n".join(lines))
    words = [f"w{i}" for i in range(60)]
    models = [lmtk.estimate(part, 2, "wb", vocab=words) for part in (lines[:100], lines[100:200])]
    return tmp_path / "pool", models


@pytest.mark.parametrize("block", [64, 1 << 22])
def test_scores_are_differences_of_cross_entropies(pool, monkeypatch, block):
    path, models = pool
    monkeypatch.setattr(decoding.blocks, "__defaults__", (block, *decoding.blocks.__defaults__[1:]))
    job = SelectJob(text=(str(path),), lm=tuple(m.lm for m in models), write=None, keep=0.25, quiet=True)
    plain = plain_scores(path, *models)
    order = np.argsort(plain, kind="stable")[: round(0.25 * np.isfinite(plain).sum())]
    for size in (1, 1 << 40):
        set_large(monkeypatch, size, "ngrams", "text")
        selection, _ = select(job)
        np.testing.assert_allclose(selection.scores, plain, rtol=1e-5, atol=1e-6)
        assert set(np.flatnonzero(selection.chosen)) == set(order)


def test_the_function_returns_the_lines_that_the_command_writes(pool, tmp_path):
    path, models = pool
    out = tmp_path / "out"
    select(SelectJob(text=(str(path),), lm=tuple(m.lm for m in models), keep=40, write=str(out), quiet=True))
    sentences = lmtk.select(path, models, 40)
    assert "".join(line + "\n" for line in sentences) == out.read_text() and len(sentences) == 40
    assert lmtk.select(path.read_text().split("\n"), models, keep=40) == sentences
    with pytest.raises(UsageError, match="keep takes a whole number"):
        lmtk.select(path, models, keep=1.0)


def test_no_output_appears_if_one_cannot_be_written(pool, tmp_path, monkeypatch):
    path, models = pool
    lms = tuple(m.lm for m in models)
    sides = {"source": str(path), "target": str(path), "source_lm": lms, "target_lm": lms}
    outputs = {"write_source": str(tmp_path / "a"), "write_target": str(tmp_path / "b"), "write_scores": "/dev/full"}
    if not os.path.exists("/dev/full"):
        pytest.skip("the system has no /dev/full")
    with pytest.raises(OSError):
        select(SelectJob(**sides, **outputs, keep=2, quiet=True))
    assert not (tmp_path / "a").exists() and not (tmp_path / "b").exists()
