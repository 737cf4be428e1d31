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
from lmtk.joint.disambiguation import Decoder, choices_of, scorer_of, sentences
from lmtk.joint.hashing import Hashed
from lmtk.joint.trellis import ALL, BEST, FORWARD, PATHS
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


def decoded(job, large, N=1, kind=PATHS, scale=False):
    """Decoded of the sentence twice."""
    model, order, rows, sentence, lmw, mapw = job
    scorer = scorer_of(model, order)
    ids = [model.vocab.index.get(word, -1) for word in WORDS]
    logarithm = {p: math.log10(p) for row in rows for p in row.values()}
    decoder = Decoder(scorer, lmw, N, kind)
    decoder.pays = lambda *_: large
    choices = choices_of(scorer, rows, logarithm, ids, mapw, scale)
    return decoder(choices, np.array(sentence * 2, np.int32), np.arange(1, 3) * len(sentence))


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
    paths, T = every_path(job, scale), len(job[3])
    best = sorted(paths.values(), reverse=True)[:4]
    found = decoded(job, large, 4, PATHS, scale)
    for i in range(2):
        # as in SRILM, there may be more of probability 0
        own = [k for k in range(found.found[i]) if found.score[i, k] > -math.inf]
        assert found.score[i, own].tolist() == pytest.approx(best, rel=1e-5)
        kept = [paths[tuple(found.path[k, i * T :][:T].tolist())] for k in own]
        assert kept == pytest.approx(best, rel=1e-5)
    top = max(paths.values())
    sums = sum(10 ** (p - top) for p in paths.values())
    found, through = decoded(job, large, 1, ALL, scale), decoded(job, large, 1, BEST, scale)
    assert found.score.tolist() == [[pytest.approx(top + math.log10(sums), rel=1e-5)]] * 2
    share = zip(found.hidden.tolist(), found.share.tolist())
    for t in range(2 * T):
        here = {path[t % T] for path in paths}
        own = dict(itertools.islice(share, len(here)))
        for h in here:
            expected = sum(10 ** (p - top) for path, p in paths.items() if path[t % T] == h) / sums
            assert 10 ** own[h] == pytest.approx(expected, abs=2e-5)
        assert own[found.path[0, t]] == max(own.values())
        assert through.path[0, t] in {path[t % T] for path, p in paths.items() if p > top - 1e-3}


@pytest.mark.parametrize("seed", range(20))
def test_kernel_and_python_are_the_same(seed, monkeypatch):
    monkeypatch.setattr(disambiguation, "SOME", 1)  # room grows
    job = a_job(seed, 6, 9)
    for N, kind in ((1, PATHS), (3, PATHS), (1, ALL), (1, FORWARD), (1, BEST)):
        small, large = decoded(job, False, N, kind), decoded(job, True, N, kind)
        for a, b in zip(small.arrays(), large.arrays()):
            np.testing.assert_array_equal(a, b)


def test_many_states(monkeypatch):
    """A hash table that grows."""
    random = np.random.default_rng(1)
    model = random_model(1, 3)
    rows = [{h: float(p) for h, p in enumerate(random.uniform(0.1, 1, 60), 4)}]
    job = model, 3, rows, [0] * 4, 1.0, 1.0
    monkeypatch.setattr(sys.modules[__name__], "WORDS", [*WORDS, *(b"%d" % i for i in range(60))])
    small, large = decoded(job, False, 1, ALL), decoded(job, True, 1, ALL)
    assert small.hidden.tolist() == large.hidden.tolist()
    assert small.hidden[:60].tolist() != sorted(small.hidden[:60].tolist())
    assert small.share.tolist() == large.share.tolist()


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
    found = sentences(ids, 1, 2)
    assert found.rows.tolist() == [1, 5, 6, 2, 1, 5, 2, 1, 7, 2]
    assert found.ends.tolist() == [4, 7, 10]
    assert found.source.tolist() == [-1, 1, 2, -1, 4, 5, 6, -1, 9, -1]
    assert found.line.tolist() == [2, 3, 5]
    assert found.only(np.array([True, False, True])).rows.tolist() == [1, 5, 6, 2, 1, 7, 2]
    assert sentences(ids, 1, 2, True).rows.tolist() == [1, 5, 6, 1, 5, 2, 1, 7]
    assert len(sentences(np.array([-1, -1], np.int32), 1, 2).rows) == 0


def test_parts(monkeypatch):
    monkeypatch.setattr(disambiguation, "MANY", 4)
    found = sentences(np.array([5, -1, 5, 6, 7, 8, -1, 5, -1, 5, -1], np.int32), 1, 2)
    parts = [*found.parts(np.ones(len(found.rows), int))]
    assert [part.line.tolist() for part in parts] == [[1, 2], [3], [4]]
    assert np.concatenate([part.rows for part in parts]).tolist() == found.rows.tolist()


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
