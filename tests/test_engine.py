"""Large texts are estimated in suffix order as small ones are from counts: the same n-grams, the same numbers."""

import sys
import tracemalloc
from functools import partial

import numpy as np
import pytest
from estimation import (
    OPTIONS,
    TEXTS,
    by_counts,
    by_suffixes,
    counts_job,
    counts_of,
    held_out_job,
    job,
    lmtk,
    outcome,
    written,
)

from lmtk import cli
from lmtk.commands import options as shared
from lmtk.machine import threads
from lmtk.ngram.arpa import printing, writer
from lmtk.ngram.estimate import engine, estimation, leaves, smoothing, suffix
from lmtk.ngram.estimate.buckets import assembly, division, writing
from lmtk.ngram.estimate.methods import Recipe
from lmtk.text.cells import srilm_cells
from lmtk.text.corpus import Marks


@pytest.mark.sample(30)
@pytest.mark.parametrize("seed", range(60))
def test_random_jobs_are_estimated_as_by_counts(seed, monkeypatch):
    arguments = job(seed)
    monkeypatch.setattr(threads, "wanted", seed % 5 + 1)
    monkeypatch.setattr(engine, "LARGE", 1 + 11 * (seed % 9))
    for module in (suffix, printing):
        monkeypatch.setattr(module, "PIECE", 1 + 7 * (seed % 30))
    monkeypatch.setattr(suffix, "give_back", lambda array: array.fill(85))
    model, methods, messages = outcome(by_counts, *arguments)
    other, *rest = outcome(by_suffixes, *arguments)
    assert rest == [methods, messages]
    if model:
        text = written(writing.write_arpa, other)
        assert text == written(writer.write_text, model, False)
        whole = assembly.backoff_of(other)
        assert written(writer.write_text, whole) == written(writer.write_text, model)
        monkeypatch.setattr(printing, "give_back", lambda array: array.fill(85))
        assert written(partial(writing.write_arpa, may_reuse=True), by_suffixes(*arguments, lambda _: None)[0]) == text


def test_a_text_is_sorted_by_many_threads_in_little_more_memory(monkeypatch):
    def peak(number):
        monkeypatch.setattr(threads, "wanted", number)
        tracemalloc.start()
        suffix.suffix_order([ids], len(ids), 3, 10_000, Marks())
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    ids = np.append(np.random.default_rng(1).integers(0, 10_000, 100_000), 0).astype(np.int32)
    peak(2)  # loads kernels
    assert peak(64) < 1.5 * peak(2)


@pytest.mark.parametrize("seed", range(16))
def test_discounts_are_tuned_in_suffix_order_as_by_counts(seed, monkeypatch):
    ids, marks, vocab, methods, text = held_out_job(seed)
    monkeypatch.setattr(threads, "wanted", seed % 3 + 1)
    monkeypatch.setattr(suffix, "PIECE", 1 + 7 * (seed % 30))
    n, counts = len(methods), counts_of(ids, marks, vocab, len(methods))
    _, *expected = text.of_levels(smoothing.counted_levels(counts, vocab, methods))
    for x in (suffix.suffix_order([ids], len(ids), n, len(vocab.words) - 1, marks), leaves.suffixes_of(counts, vocab)):
        work = engine.Estimator(x, vocab, methods, np.diff(x.start))
        for order, other in zip(text.of_estimator(work, text.unseen()), expected, strict=True):
            for column, same in zip(order, other, strict=True):
                assert column.tolist() == same.tolist()


@pytest.mark.sample(30)
@pytest.mark.parametrize("seed", range(60))
def test_counts_are_estimated_in_suffix_order_as_they_stand(seed, monkeypatch, large_from):
    counts, vocab, methods, kenlm, own = counts_job(seed)
    monkeypatch.setattr(suffix, "PIECE", 1 + 7 * (seed % 30))
    outcomes = []
    for large in (1 << 40, 1):
        large_from(large)
        model, used, messages = outcome(
            lambda tell: estimation.estimate(counts, vocab, Recipe(methods, (0.5, 1, 1.5), tell, {}, kenlm, *own))
        )
        large_from(1 << 40)
        text = whole = None
        if model:
            assert (large == 1) == isinstance(model, division.Buckets)
            write = writing.write_arpa if large == 1 else partial(writer.write_text, sort=False)
            text = written(write, model)
            whole = written(writer.write_text, assembly.backoff_of(model) if large == 1 else model)
        outcomes.append((used, messages, text, whole))
    assert outcomes[0] == outcomes[1]


def test_numbers_are_printed_as_python_prints_them():
    random = np.random.default_rng(1)
    digits = np.round(random.uniform(-10, 10, 20_000), random.integers(0, 7))  # of few digits
    small = random.uniform(-1, 1, 20_000) * 10.0 ** random.integers(-12, 3, 20_000)
    edges = [0.0, -0.0, 1, -1, 0.5, 9.9999995, 9.999999, 1e-4, 9.9999e-5, 0.1, 0.01, -0.001, 99, -99, 1e30]
    x = np.concatenate((digits, small, edges)).astype(np.float32)
    x = np.concatenate((x, np.nextafter(x, np.float32(9)), np.nextafter(x, np.float32(-9))))
    for start in (0, 17):  # blocks of numbers begin elsewhere
        cells = srilm_cells(x[start:], 10).view(np.uint8)
        actual = b"".join(bytes(cell[: cell[15]]) for cell in cells)
        assert actual == b"".join(b"%.7g\n" % (value + 0.0) for value in x[start:].tolist())


@pytest.mark.parametrize("memory", [[], ["-memory", "10K"]])
def test_a_large_text_of_empty_lines_is_one_of_no_words(tmp_path, monkeypatch, large_from, memory, capsys):
    large_from(1)
    (tmp_path / "t").write_text("\n" * 9)
    (tmp_path / "v").write_text("a\n")
    command = ["ngram-count", "-text", tmp_path / "t", "-vocab", tmp_path / "v", "-lm", tmp_path / "lm", *memory]
    monkeypatch.setattr(sys, "argv", ["lmtk", *map(str, command)])
    with pytest.raises(SystemExit) as done:
        cli.main()
    assert (done.value.code, capsys.readouterr().err) == (
        1,
        "lmtk ngram-count: the counts have no word of the vocabulary\n",
    )


@pytest.mark.sample(27)
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "".join(options))
def test_the_command_writes_the_same_for_large_and_small(tmp_path, monkeypatch, large_from, text, options):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").write_text(TEXTS[text])
    (tmp_path / "u").write_text("a c\n")
    (tmp_path / "v").write_text("a\nb\nnever\n")
    (tmp_path / "c").write_text("a 2\nb c 1\nc c a 3\n")
    (tmp_path / "classes").write_text("X 0.5 b\nX 0.5 never\n")
    monkeypatch.setattr(shared, "LEAST", 1)
    for large in (1 << 40, 1):
        large_from(large)
        lmtk(
            monkeypatch,
            "ngram-count",
            "-text",
            "t",
            "u",
            *options,
            "-lm",
            f"{large}.arpa",
            "-write-bin",
            f"{large}.bin",
        )
        lmtk(monkeypatch, "ngram", "-lm", f"{large}.bin", "-write-lm", f"{large}.bin.arpa")
    assert (tmp_path / f"{1 << 40}.arpa").read_bytes() == (tmp_path / "1.arpa").read_bytes()
    assert (tmp_path / f"{1 << 40}.bin.arpa").read_bytes() == (tmp_path / "1.bin.arpa").read_bytes()
