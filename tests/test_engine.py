"""Large texts are estimated in suffix order as small ones are from counts: the same n-grams, the same numbers."""

import io
import sys

import numpy as np
import pytest

from lmtk import cli
from lmtk.errors import LmtkError
from lmtk.machine import threads
from lmtk.machine.large import LARGE
from lmtk.ngram import arpa, engine, printing, smoothing, suffix
from lmtk.ngram.counts import Counts, count_ids
from lmtk.ngram.methods import Method
from lmtk.text.corpus import Marks
from lmtk.text.vocab import make_vocab

PARAMETERS = {"gt": (3,), "wb": (), "cd": (0.5,), "add": (0.3,), "ukn": (), "kn": ()}


def job(seed):
    """A random text as ids with borders, its marks, vocabulary and methods, and whether it is done as lmplz does it."""
    random = np.random.default_rng(seed)
    V, N, order = (int(random.integers(low, high)) for low, high in ((1, 40), (2, 600), (2, 10)))
    exact, unk = random.integers(3) == 0, bool(random.integers(2))
    marks = Marks() if exact else Marks(bool(random.integers(2)), bool(random.integers(2)))
    plain = [b"w%d" % i for i in range(V)]
    vocab = make_vocab(plain, unk or exact)
    ids = np.array([vocab.index[w] for w in plain], np.int32)[random.zipf(1.4, N) % V]
    if random.integers(2):
        ids[random.random(N) < 0.1] = vocab.unk_id
    ids[random.random(N) < 0.2] = ids[-1] = 0
    every, interpolate, cutoff, methods = str(random.choice(list(PARAMETERS))), bool(random.integers(2)), 0, []
    for k in range(1, order + 1):
        name = "kn" if exact else str(random.choice(list(PARAMETERS))) if random.integers(3) == 0 else every
        if k > 1 and random.integers(4) == 0:
            cutoff += int(random.integers(2))
        minimum = 1 if exact or k == 1 else int(random.integers(1, 3))
        methods.append(Method(name, PARAMETERS[name], interpolate or exact, minimum, cutoff if k > 1 else 0))
    return ids, marks, vocab, methods, exact


def by_counts(ids, marks, vocab, methods, exact, tell):
    sentences = np.split(ids, np.flatnonzero(ids == 0) + 1)[:-1]
    first, last = ([vocab.sos_id] * marks.sos, [vocab.eos_id] * marks.eos)
    rows = [row for x in sentences if (row := [*first, *x[:-1].tolist(), *last])]
    starts = np.cumsum([0, *map(len, rows)])
    levels = count_ids(np.array([i for row in rows for i in row], np.int32), starts, len(methods), len(vocab.words))
    counts = Counts(vocab.words, levels)
    return smoothing.estimate(counts, vocab, len(methods), methods, (0.5, 1, 1.5), tell, None, exact)


def by_suffixes(ids, marks, vocab, methods, exact, tell):
    ngrams = suffix.suffix_order(ids, len(methods), len(vocab.words) - 1, marks)
    return engine.estimate(ngrams, vocab, methods, marks, (0.5, 1, 1.5), tell, None, exact, True)


def outcome(estimate, *given):
    """(model or None, its methods, and what was told, an error included)."""
    told = []
    try:
        return *estimate(*given, told.append), told
    except LmtkError as e:
        return None, None, [*told, str(e)]


def written(write, *given):
    out = io.BytesIO()
    write(out, *given)
    return out.getvalue()


@pytest.mark.parametrize("seed", range(60))
def test_random_jobs_are_estimated_as_by_counts(seed, monkeypatch):
    given = job(seed)
    monkeypatch.setattr(threads, "wanted", seed % 3 + 1)
    for module in (suffix, printing):
        monkeypatch.setattr(module, "PIECE", 1 + 7 * (seed % 30))
    model, methods, told = outcome(by_counts, *given)
    other, *rest = outcome(by_suffixes, *given)
    assert rest == [methods, told]
    if model:
        assert written(printing.write_estimate, other) == written(arpa.write_text, model, False)
        whole = engine.backoff_of(other)
        assert written(arpa.write_text, whole) == written(arpa.write_text, model)


def test_numbers_are_printed_as_python_prints_them():
    random = np.random.default_rng(1)
    digits = np.round(random.uniform(-10, 10, 20_000), random.integers(0, 7))  # of few digits
    small = random.uniform(-1, 1, 20_000) * 10.0 ** random.integers(-12, 3, 20_000)
    odd = [0.0, -0.0, 1, -1, 0.5, 9.9999995, 9.999999, 1e-4, 9.9999e-5, 0.1, 0.01, -0.001, 99, -99, 1e30]
    x = np.concatenate((digits, small, odd)).astype(np.float32)
    x = np.concatenate((x, np.nextafter(x, np.float32(9)), np.nextafter(x, np.float32(-9))))
    for start in (0, 17):  # blocks of numbers begin elsewhere
        cells = printing.print_some(x[start:], 10).view(np.uint8)
        found = b"".join(bytes(cell[: cell[15]]) for cell in cells)
        assert found == b"".join(b"%.7g\n" % (value + 0.0) for value in x[start:].tolist())


def lmtk(monkeypatch, *words):
    with monkeypatch.context() as patched:
        patched.setattr(sys, "argv", ["lmtk", *map(str, words)])
        with pytest.raises(SystemExit) as done:
            cli.main()
    assert done.value.code == 0


OPTIONS = [
    ["-order", "3", "-wbdiscount"],
    ["-order", "4", "-kndiscount", "-interpolate", "-discount-fallback"],
    ["-order", "3", "-kenlm", "-discount-fallback", "-prune-by-count", "0", "1"],
    ["-order", "2", "-wbdiscount", "-vocab", "v"],
    ["-order", "3", "-wbdiscount", "-vocab", "v", "-unk", "-sort"],
    ["-order", "3", "-wbdiscount", "-stream"],
    ["-order", "3", "-wbdiscount", "-no-sos", "-no-eos"],
    ["-order", "2", "-wbdiscount", "-tolower", "-map-unk", "B"],
    ["-order", "3", "-wbdiscount", "-memory", "10K"],
    ["-order", "3", "-wbdiscount", "-prune", "1e-3"],
    ["-order", "4", "-wbdiscount", "-gt3min", "1", "-classes", "classes"],
]
TEXTS = {
    "plain": "a b c\n\nb c a a\nc\n" * 3 + "b" * 40 + " B\n",
    "marks at the ends": "<s> a b </s>\na c </s>\n\n<s>\n</s> b\nb c\n" * 3,
    "marks inside": "a <s> b\nb </s> c\n" * 3,
    "no line end": "a b\nb a",
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "".join(options))
def test_the_command_writes_the_same_for_large_and_small(tmp_path, monkeypatch, text, options):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").write_text(TEXTS[text])
    (tmp_path / "u").write_text("a c\n")
    (tmp_path / "v").write_text("a\nb\nnever\n")
    (tmp_path / "classes").write_text("X 0.5 b\nX 0.5 never\n")
    for large in (1 << 40, 1):
        monkeypatch.setitem(LARGE, "ngrams", large)
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
