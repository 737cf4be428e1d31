"""The trellis against all sequences of tags; tables against a definition of their order in Python."""

import itertools
import math

import naive
import numpy as np
import pytest
from helpers import in_process, random_model

from lmtk.tagging.candidates import Sentences, make_candidates, make_sentences, make_tag_model
from lmtk.tagging.hashing import in_order
from lmtk.tagging.trellis import MAX_MARGINAL, PATHS, POSTERIOR, Decoder
from lmtk.text.vocab import EOS, SOS

WORDS = [b"<unk>", SOS, EOS, b"-pau-", *(w.encode() for w in "abcdex")]  # hidden ones; x is in no model


def a_job(seed, most=4, T=5):
    """(model, order, rows of the map, a sentence's rows, lmw, mapw)."""
    random = np.random.default_rng(seed)
    model = random_model(seed, order := int(random.integers(1, 5)), holes=False)
    rows = [{1: 1.0}, {2: 1.0}]
    for _ in range(5):
        hidden = random.choice(range(4, len(WORDS)), random.integers(1, most + 1), replace=False)
        rows.append({int(h): float(p) for h, p in zip(hidden, random.uniform(0.1, 1, len(hidden)))})
    sentence = [0, *random.integers(2, len(rows), T - 2).tolist(), 1]
    return model, order, rows, sentence, *random.choice([0.5, 1.0, 2.0], 2).tolist()


def decoded(job, N=1, kind=PATHS, scale=False):
    """Decoded of the sentence twice, with room that grows from one state on."""
    model, order, rows, sentence, lmw, mapw = job
    tag_model = make_tag_model(model, order)
    ids = [model.vocab.index.get(word, -1) for word in WORDS]
    log10 = {p: math.log10(p) for row in rows for p in row.values()}
    candidates = make_candidates(tag_model, rows, log10, ids, mapw, scale)
    decoder = Decoder(tag_model, lmw, N, kind, states=1)
    return decoder(candidates, np.array(sentence * 2, np.int32), np.arange(1, 3) * len(sentence))


def every_path(job, scale):
    """log10 p of each sequence of hidden words, {sequence: log10 p}."""
    model, order, rows, sentence, lmw, mapw = job
    words, weights, actual = model.vocab.words, {}, {}
    for k in range(1, min(order, model.order) + 1):
        for ngram, p, weight in zip(*(column.tolist() for column in model.ngrams(k))):
            weights[tuple(words[i] for i in ngram)] = p, weight

    def log10p(context, h):
        return naive.backoff(weights, tuple(WORDS[g] for g in context), WORDS[h])

    for path in itertools.product(*(rows[row] for row in sentence)):
        p = math.log10(rows[sentence[0]][path[0]])
        for t in range(1, len(path)):
            log10p_here, alone = log10p(path[:t], path[t]), log10p((), path[t])
            local = math.log10(rows[sentence[t]][path[t]]) - (alone if scale and alone > -math.inf else 0)
            p += lmw * (-100 if log10p_here == alone == -math.inf else log10p_here) + mapw * local
        actual[path] = p
    return actual


@pytest.mark.parametrize("seed", range(12))
def test_all_sequences(seed):
    job, scale = a_job(seed), seed % 3 == 0
    paths, T = every_path(job, scale), len(job[3])
    best = sorted(paths.values(), reverse=True)[:4]
    actual = decoded(job, 4, PATHS, scale)
    for i in range(2):
        # as in SRILM, there may be more of probability 0
        possible = [k for k in range(actual.paths[i]) if actual.score[i, k] > -math.inf]
        assert actual.score[i, possible].tolist() == pytest.approx(best, rel=1e-5)
        kept = [paths[tuple(actual.path[k, i * T :][:T].tolist())] for k in possible]
        assert kept == pytest.approx(best, rel=1e-5)
    top = max(paths.values())
    sums = sum(10 ** (p - top) for p in paths.values())
    actual, through = decoded(job, 1, POSTERIOR, scale), decoded(job, 1, MAX_MARGINAL, scale)
    assert actual.score.tolist() == [[pytest.approx(top + math.log10(sums), rel=1e-5)]] * 2
    share = zip(actual.tag.tolist(), actual.share.tolist())
    for t in range(2 * T):
        tags = {path[t % T] for path in paths}
        possible = dict(itertools.islice(share, len(tags)))
        for h in tags:
            expected = sum(10 ** (p - top) for path, p in paths.items() if path[t % T] == h) / sums
            assert 10 ** possible[h] == pytest.approx(expected, abs=2e-5)
        assert possible[actual.path[0, t]] == max(possible.values())
        assert through.path[0, t] in {path[t % T] for path, p in paths.items() if p > top - 1e-3}


def test_many_states():
    """A table that grows lists tags in another order than that of their numbers."""
    random = np.random.default_rng(1)
    tag_model = make_tag_model(random_model(1, 3), 3)
    row = {tag: float(p) for tag, p in enumerate(random.uniform(0.1, 1, 60), 4)}
    candidates = make_candidates(tag_model, [row], {p: math.log10(p) for p in row.values()}, [-1] * 64)
    actual = Decoder(tag_model, kind=POSTERIOR)(candidates, np.zeros(4, np.int32), np.array([4]))
    assert actual.tag.reshape(4, 60).tolist() == in_order(in_order([[*row]])) * 4
    assert sorted(actual.tag[:60].tolist()) == [*row] != actual.tag[:60].tolist()
    shares = [row[tag] / sum(row.values()) for tag in actual.tag[:60].tolist()]
    assert (10 ** actual.share[:60]).tolist() == pytest.approx(shares, rel=1e-4)


def slots(history):
    """SRILM's table in Python: the numbers of a history in the order of their slots, ~n taking n out again."""
    table, bits, count = [None] * 8, 2, 0

    def place(n):
        i = 0 if bits == 2 else (n * 1103515245 + 12345) >> (30 - bits)
        while table[i % len(table)] not in (None, n):
            i += 1
        return i % len(table)

    for n in history:
        if n >= 0 and n not in table:
            count += 1
            needed = count if count < 8 else int(np.float32(count + 1) / np.float32(0.8))
            if needed > 1 << bits:
                bits, old = (needed - 1).bit_length(), table
                table = [None] * (1 << bits)
                for k in old:
                    if k is not None:
                        table[place(k)] = k
            table[place(n)] = n
        elif n < 0:
            count, i = count - 1, table.index(~n)
            table[i] = None
            while (k := table[i := (i + 1) % len(table)]) is not None:
                table[i] = None
                table[place(k)] = k
    return [n for n in table if n is not None]


@pytest.mark.parametrize("seed", range(20))
def test_order_of_tables(seed):
    random = np.random.default_rng(seed)
    lists = []
    for size in (0, 1, 4, 5, 8, 40, 300):
        history, present = [], set()
        for n in random.integers(0, 3 * size + 1, size).tolist():
            history.append(~n if n in present and random.random() < 0.5 else n)
            (present.discard if history[-1] < 0 else present.add)(n)
        lists.append(history)
    assert in_order(lists) == [slots(history) for history in lists]
    assert in_order([[3, 1, 2, 0], [7, 5]]) == [[3, 1, 2, 0], [7, 5]]


def test_sentences():
    ids = np.array([-1, 5, 6, -1, 1, 5, 2, -1, -1, 7, -1], np.int32)
    actual = make_sentences(ids, 1, 2)
    assert actual.rows.tolist() == [1, 5, 6, 2, 1, 5, 2, 1, 7, 2]
    assert actual.ends.tolist() == [4, 7, 10]
    assert actual.source.tolist() == [-1, 1, 2, -1, 4, 5, 6, -1, 9, -1]
    assert actual.line.tolist() == [2, 3, 5]
    assert actual.select(np.array([True, False, True])).rows.tolist() == [1, 5, 6, 2, 1, 7, 2]
    assert make_sentences(ids, 1, 2, False).rows.tolist() == [1, 5, 6, 1, 5, 2, 1, 7]
    assert len(make_sentences(np.array([-1, -1], np.int32), 1, 2).rows) == 0


def test_parts():
    actual = make_sentences(np.array([5, -1, 5, 6, 7, 8, -1, 5, -1, 5, -1], np.int32), 1, 2)
    parts = [*actual.parts(np.ones(len(actual.rows), int), size=4)]
    assert [part.line.tolist() for part in parts] == [[1, 2], [3], [4]]
    assert np.concatenate([part.rows for part in parts]).tolist() == actual.rows.tolist()


def test_a_text_in_many_parts_prints_the_same(tmp_path, monkeypatch):
    """As in one part."""
    random = np.random.default_rng(2)
    words = [f"w{i}" for i in range(40)]
    text = [" ".join(random.choice(words, random.integers(1, 12))) for _ in range(600)]
    (tmp_path / "t").write_text("\n".join(text[:300]) + "\n\nnew <unk> w1\n<s> w2 </s>\n")
    with open(tmp_path / "m", "w") as out:
        out.writelines(f"{w} {w} {w.upper()} 0.7 {w.title()}x .2 0{w}\n" for w in words)
    (tmp_path / "tr").write_text("\n".join(text).replace("w1 ", "W1 ").replace("w7 w", "0w7 W") + "\n")
    assert in_process(tmp_path, "ngram-count", "-text", "tr", "-lm", "lm", "-wbdiscount")[0] == 0
    words, printed = ["-as", "disambig", "-text", "t", "-map", "m", "-lm", "lm", "-order", "3", "-keep-unk"], []
    for size in (1 << 20, 50):
        monkeypatch.setattr(Sentences.parts, "__defaults__", (size,))
        printed.append(in_process(tmp_path, *words))
    status, out, err = printed[0]
    assert (status, err) == (0, "") and printed[0] == printed[1]
    lines = out.decode().splitlines()
    assert len(lines) == 302 and lines[-2:] == ["<s> new <unk> w1 </s>", "<s> w2 </s>"]
