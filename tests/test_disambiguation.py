"""Hidden words against all sequences of them, and kernels against Python."""

import itertools
import math
import subprocess
import sys

import naive
import numpy as np
import pytest
from conftest import ENVIRONMENT
from test_ngram import random_model

from lmtk.joint import disambiguation
from lmtk.joint.disambiguation import (
    Decoder,
    Hashed,
    best_paths,
    choices_of,
    fill,
    scorer_of,
    sentences,
    shares,
    total,
)
from lmtk.ngram import arpa
from lmtk.text.vocab import EOS, SOS

WORDS = [b"<unk>", SOS, EOS, b"-pau-", *(w.encode() for w in "abcdex")]  # hidden ones; x is in no model
LOG10 = math.log(10)


def a_job(seed, most=4, T=5):
    """(model, order, rows of the map, a sentence's rows, lmw, mapw)."""
    random = np.random.default_rng(seed)
    model = random_model(seed, order := int(random.integers(1, 5)), holes=False)
    rows = [{1: 1.0}, {2: 1.0}]
    for _ in range(5):
        own = random.choice(range(4, len(WORDS)), random.integers(1, most + 1), replace=False)
        rows.append({int(h): float(p) for h, p in zip(own, random.uniform(0.1, 1, len(own)))})
    sentence = [0, *random.integers(2, len(rows), T - 2).tolist(), 1]
    return model, order, rows, sentence, *random.choice([0.5, 1.0, 2.0], 2).tolist()


def decoded(job, large, N=1, scale=False):
    model, order, rows, sentence, lmw, mapw = job
    scorer = scorer_of(model, order)
    ids = [model.vocab.index.get(word, -1) for word in WORDS]
    logarithm = {p: math.log10(p) for row in rows for p in row.values()}
    decoder = Decoder(scorer, lmw, N, True)
    decoder.pays = lambda *_: large
    choices = choices_of(scorer, rows, logarithm, ids, mapw, scale)
    return decoder.lattice(choices, sentence), decoder, choices


def every_path(job, scale):
    """log10 p of each sequence of hidden words, {sequence: log10 p}."""
    model, order, rows, sentence, lmw, mapw = job
    known, weights, found = model.vocab.words, {}, {}
    for ngrams, logp, bow, _ in arpa.ngrams(model.lower(min(order, model.order))):
        for ngram, p, weight in zip(ngrams, logp, bow):
            weights[tuple(known[i] for i in ngram)] = p / LOG10, weight / LOG10

    def log10p(context, h):
        return naive.backoff(weights, tuple(WORDS[g] for g in context), WORDS[h])

    for path in itertools.product(*(rows[row] for row in sentence)):
        p = math.log10(rows[sentence[0]][path[0]])
        for t in range(1, len(path)):
            own, alone = log10p(path[:t], path[t]), log10p((), path[t])
            local = math.log10(rows[sentence[t]][path[t]]) - (alone if scale and alone > -math.inf else 0)
            p += lmw * (-100 if own == alone == -math.inf else own) + mapw * local
        found[path] = p
    return found


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_all_sequences(seed, large):
    job, scale = a_job(seed), seed % 3 == 0
    paths = every_path(job, scale)
    lattice, _, _ = decoded(job, large, 4, scale)
    best = sorted(paths.values(), reverse=True)[:4]
    # as in SRILM, there may be more of probability 0
    found = [(p, path) for p, path in best_paths(lattice, 4) if p > -math.inf]
    assert [p for p, _ in found] == pytest.approx(best, rel=1e-5)
    assert [paths[tuple(path)] for _, path in found] == pytest.approx(best, rel=1e-5)
    top = max(paths.values())
    sums = sum(10 ** (p - top) for p in paths.values())
    assert total(lattice) == pytest.approx(top + math.log10(sums), rel=1e-5)
    for t, (share, through) in enumerate(zip(shares(lattice, "fb"), shares(lattice, "best"))):
        for h in {path[t] for path in paths}:
            own = sum(10 ** (p - top) for path, p in paths.items() if path[t] == h) / sums
            assert 10 ** share[h][1] == pytest.approx(own, abs=2e-5)
        assert max(through, key=lambda h: through[h][0]) in {path[t] for path, p in paths.items() if p > top - 1e-3}


@pytest.mark.parametrize("seed", range(20))
def test_kernel_and_python_are_the_same(seed, monkeypatch):
    monkeypatch.setattr(disambiguation, "SOME", 1)  # room grows
    job = a_job(seed, 6, 9)
    small, _, _ = decoded(job, False, 3)
    large, decoder, choices = decoded(job, True, 3)
    assert (small.at, small.turn) == (large.at, large.turn)
    assert [*map(tuple, small.words)] == [*map(tuple, large.words)]
    for name in ("forward", "back", "top"):
        assert [float(x) for x in getattr(small, name)] == getattr(large, name)
    assert [[(float(p), s, i) for p, s, i in hyps] for hyps in small.hyps] == large.hyps
    one = Decoder(decoder.scorer, decoder.lmw)
    rows = np.array(job[3] * 3, np.int32)
    ends = np.arange(1, 4) * len(job[3])
    assert one.best(choices, rows, ends).tolist() == best_paths(small, 1)[0][1] * 3


def test_many_states(monkeypatch):
    """A hash table that grows."""
    random = np.random.default_rng(1)
    model = random_model(1, 3)
    rows = [{h: float(p) for h, p in enumerate(random.uniform(0.1, 1, 60), 4)}]
    job = model, 3, rows, [0] * 4, 1.0, 1.0
    monkeypatch.setattr(sys.modules[__name__], "WORDS", [*WORDS, *(b"%d" % i for i in range(60))])
    small, large = decoded(job, False)[0], decoded(job, True)[0]
    assert small.turn == large.turn != sorted(small.turn)
    assert [float(x) for x in small.back] == large.back


def test_hashed():
    """The orders that SRILM prints for so many words; and words taken out again."""
    table = Hashed()
    for n in range(40):
        table[n] = n
        assert sorted(table.ordered()) == [*range(n + 1)]
        if n < 4:
            assert table.ordered() == [*range(n + 1)]
    for n in range(0, 40, 3):
        del table[n]
        assert sorted(table.ordered()) == sorted(table)
        assert all(table.slots[table.place(k)] == k for k in table)


def test_sentences():
    ids = np.array([-1, 5, 6, -1, 1, 5, 2, -1, -1, 7, -1], np.int32)
    rows, ends, source = sentences(ids, 1, 2)
    assert rows.tolist() == [1, 5, 6, 2, 1, 5, 2, 1, 7, 2]
    assert ends.tolist() == [4, 7, 10]
    assert source.tolist() == [-1, 1, 2, -1, 4, 5, 6, -1, 9, -1]
    assert sentences(ids, 1, 2, True)[0].tolist() == [1, 5, 6, 1, 5, 2, 1, 7]
    assert [len(x) for x in sentences(np.array([-1, -1], np.int32), 1, 2)] == [0, 0, 0]


def test_small_and_large_jobs_print_the_same(tmp_path):
    """With the text in one block of kernels, and line by line in Python."""
    random = np.random.default_rng(2)
    words = [f"w{i}" for i in range(40)]
    text = [" ".join(random.choice(words, random.integers(1, 12))) for _ in range(3000)]
    (tmp_path / "t").write_text("\n".join(text[:300]) + "\n\nnew <unk> w1\n<s> w2 </s>\n")
    (tmp_path / "large").write_text((tmp_path / "t").read_text() + "\n".join(text))
    with open(tmp_path / "m", "w") as out:
        out.writelines(f"{w} {w} {w.upper()} 0.7 {w.title()}x .2 0{w}\n" for w in words)
    (tmp_path / "tr").write_text("\n".join(text).replace("w1 ", "W1 ").replace("w7 w", "0w7 W") + "\n")
    script = """
    lmtk ngram-count -text tr -order 3 -lm lm -wbdiscount
    $BIN/disambig -text t -map m -lm lm -order 3 -keep-unk > small
    $BIN/disambig -text large -map m -lm lm -order 3 -keep-unk > large.out
    """
    done = subprocess.run(["sh", "-euc", script], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    small = (tmp_path / "small").read_text().splitlines()
    assert len(small) == 302
    assert (tmp_path / "large.out").read_text().splitlines()[:302] == small
    assert small[-2:] == ["<s> new <unk> w1 </s>", "<s> w2 </s>"]


def test_kernels_are_kept(monkeypatch):
    kept = []
    monkeypatch.setattr(disambiguation, "record", kept.append)
    decoded(a_job(0), True)
    assert kept == [(fill,)]
