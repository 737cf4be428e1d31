"""N-best lists: BLEU is sacrebleu's, the line search finds what trying every interval finds, scores are ppl's."""

import random
from itertools import pairwise

import naive
import numpy as np
import pytest
from helpers import FILES

from lmtk.errors import LmtkError
from lmtk.files.registry import load
from lmtk.lm import LN10
from lmtk.nbest import lists as nbest
from lmtk.nbest import risk, tuning

WORDS = [b"the", b"cat", b"saw", b"a", b"dog", b"on"]


def some_words(rng, longest=12):
    return [rng.choice(WORDS) for _ in range(rng.randrange(longest))]


def job(seed, L=6, references=2):
    """(hypotheses of L lists, references of each, statistics, starts), all words random; some lists have ties."""
    rng = random.Random(seed)
    starts = np.cumsum([0] + [rng.randrange(1, 9) for _ in range(L)])
    hypotheses = [[b" ".join(some_words(rng)) for _ in range(n)] for n in np.diff(starts)]
    others = [[b" ".join(some_words(rng) + WORDS[:4]) for _ in range(references)] for _ in range(L)]
    stats = np.concatenate([tuning.statistics(h, r) for h, r in zip(hypotheses, others)])
    return hypotheses, others, stats, starts


@pytest.mark.parametrize("seed", range(20))
def test_bleu_is_that_of_the_twin_and_of_sacrebleu(seed):
    hypotheses, references, stats, starts = job(seed, references=1 + seed % 3)
    firsts = [h[0] for h in hypotheses]
    actual = float(tuning.bleu(stats[starts[:-1]].sum(axis=0)))
    twin = naive.bleu([f.split() for f in firsts], [[o.split() for o in r] for r in references])
    assert actual == pytest.approx(twin)
    sacrebleu = pytest.importorskip("sacrebleu")
    text = [[r.decode() for r in column] for column in zip(*references)]
    theirs = sacrebleu.corpus_bleu([f.decode() for f in firsts], text, tokenize="none", force=True)
    assert 100 * actual == pytest.approx(theirs.score)


@pytest.mark.parametrize("seed", range(10))
def test_the_least_risk_is_that_of_the_twin_and_likeness_sacrebleus(seed):
    rng = random.Random(seed)
    translations = [some_words(rng) for _ in range(rng.randrange(1, 9))]
    logp = [rng.uniform(-9, 0) for _ in translations]
    actual = risk.pairwise_bleu(translations)
    twin = [[naive.smoothed_bleu(t, r) for r in translations] for t in translations]
    np.testing.assert_allclose(actual, twin, rtol=1e-12)
    for scale in (0, 0.5, 3):
        assert risk.least_risk(translations, logp, scale) == naive.least_risk(translations, logp, scale)
    sacrebleu = pytest.importorskip("sacrebleu")
    how = {"tokenize": "none", "smooth_method": "add-k", "smooth_value": 1, "use_effective_order": False}
    for t, row in zip(translations, actual):
        for r, value in zip(translations, row):
            if len(t) > 3 and r:
                theirs = sacrebleu.sentence_bleu(b" ".join(t).decode(), [b" ".join(r).decode()], **how)
                assert 100 * value == pytest.approx(theirs.score)


def test_translations_of_equal_risk_the_first_one():
    assert risk.least_risk([[], []], [-1, -2], 1) == 0
    assert risk.least_risk([[b"a", b"b"], [b"a", b"c"], [b"a", b"b"]], [-2, -1, -2], 0) == 0


def test_bleu_of_nothing_is_nothing():
    stats = tuning.statistics([b"", b"dog", b"dog saw a cat"], [b"the zebra", b"one"])
    assert tuning.bleu(stats).tolist() == [0, 0, 0]


@pytest.mark.parametrize("seed", range(30))
def test_the_line_search_finds_the_best_interval(seed):
    _, _, stats, starts = job(seed)
    rng = np.random.default_rng(seed)
    # small whole numbers: parallel and equal lines
    a = rng.integers(-3, 4, starts[-1]).astype(float)
    b = rng.integers(-3, 4, starts[-1]).astype(float)
    spans = list(pairwise(starts))
    corners = sorted({x for i, j in spans for x in naive.crossings(a[i:j].tolist(), b[i:j].tolist())})
    edges = [corners[0] - 2, *corners, corners[-1] + 2] if corners else [0, 0]

    def bleu_at(gamma):
        chosen = [i + naive.best_at(a[i:j].tolist(), b[i:j].tolist(), gamma) for i, j in spans]
        return float(tuning.bleu(stats[chosen].sum(axis=0)))

    gamma, actual = tuning.best_on_line(a, b, starts, stats)
    assert actual == pytest.approx(max(bleu_at((x + y) / 2) for x, y in pairwise(edges)))
    assert bleu_at(gamma) == pytest.approx(actual)
    assert tuning.quality_of_best(a * gamma + b, starts, stats) == pytest.approx(actual)


@pytest.mark.parametrize("fixed", [None, 0])
def test_tuning_finds_weights_that_were_hidden(fixed):
    rng = np.random.default_rng(5)
    L, n, K = 40, 10, 4
    starts = np.arange(L + 1) * n
    features = rng.normal(size=(L * n, K)) * [1, 10, 0.1, 3]
    hidden = np.array([1, 0.2, -9, 0.5])
    best = (features @ hidden).reshape(L, n).argmax(axis=1) + starts[:-1]
    words = [b" ".join(some_words(random.Random(i), 12)) for i in range(L * n)]
    stats = np.concatenate([tuning.statistics(words[i : i + n], [words[best[k]]]) for k, i in enumerate(starts[:-1])])
    starting = np.ones(K)
    actual = tuning.tune((features, starts), stats, [starting], fixed, 1, 5)
    before = tuning.quality_of_best(nbest.compute_totals(features, starting), starts, stats)
    after = tuning.quality_of_best(nbest.compute_totals(features, actual), starts, stats)
    assert before < 0.6 < 0.9 < after
    assert (actual[0] if fixed == 0 else np.abs(actual).sum()) == pytest.approx(1)
    assert (actual == tuning.tune((features, starts), stats, [starting], fixed, 1, 5)).all()


def test_a_feature_that_tells_nothing_apart_keeps_its_weight():
    features = np.array([[1.0, 5], [2, 5], [3, 7], [1, 7]])
    stats = np.concatenate([tuning.statistics([b"a", b"b c d e"], [b"b c d e"]), tuning.statistics([b"x"] * 2, [b"x"])])
    actual = tuning.tune((features, np.array([0, 2, 4])), stats, [np.array([-1.0, 1])], None, 1, 3)
    assert np.abs(actual).sum() == pytest.approx(1) and actual[1] != 0
    assert tuning.quality_of_best(nbest.compute_totals(features, actual), np.array([0, 2, 4]), stats) > 0


def test_scores_do_not_depend_on_batches_or_company(monkeypatch):
    model = load(str(FILES / "wb.arpa"))
    sentences = [b"the cat saw the mat", b"", b"a zebra sat", b"the dog", b"the cat saw the mat", b"<s> the dog </s>"]
    whole = nbest.score_sentences(model, sentences, -100)
    monkeypatch.setattr(nbest, "BATCH", 1)
    assert (nbest.score_sentences(model, sentences, -100) == whole).all()
    assert whole[0] == whole[4] and whole[3] == whole[5]
    assert whole[0] == pytest.approx(-4.049218)  # logprob of ppl
    assert whole[2] < -100 and nbest.score_sentences(model, sentences, 0)[2] > -10


def written(text, tmp_path, name="list"):
    (tmp_path / name).write_bytes(text)
    return str(tmp_path / name)


def test_bytelogs_and_parts_of_words(tmp_path):
    word = "%s ( st: %g et: %g g: -100 a: -1000 )"
    line = " ".join(
        [word % ("the", 0, 0.2), word % ("dh", 0, 0.1), word % ("-pau-", 0.21, 0.3), word % ("dog", 0.31, 1)]
    )
    read = nbest.read([written(f"NBestList2.0\n(-3300) {line}\n".encode(), tmp_path)])
    assert read.words == (b"the -pau- dog",)
    # log to base 1.0001, divided by 1024
    bytelog = 1024 * np.log10(1.0001)
    assert read.features[0] == pytest.approx([-3000 * bytelog, -300 * bytelog, 2], rel=1e-6)
    assert pytest.approx(bytelog, rel=1e-6) == nbest.BYTELOG


def test_lists_of_moses(tmp_path):
    text = (
        b"7 ||| the dog ||| A= 1 B: 2 3 ||| -1\n7 ||| dog ||| A= 0 B: 1 1 ||| -2 ||| 0-0\n5 ||| ||| A= 1 B: 1 1 ||| 0\n"
    )
    read = nbest.read([written(text, tmp_path)])
    assert read.starts.tolist() == [0, 2, 3] and read.names == [b"A", b"B", b"B"]
    model = load(str(FILES / "wb.arpa"))
    logs = nbest.score_hypotheses(read, model, -100)
    scored = nbest.add_scores(read, [logs], nbest.unused_names(read, b"LM", 1))
    assert scored.names[3:] == [b"LM0"] and scored.features.shape == (3, 4)
    assert scored.features[0, 3] == pytest.approx(-1.477121 * LN10, rel=1e-6)
    replaced = nbest.add_scores(read, [logs], [b"A"])
    assert replaced.features[:, 0] == pytest.approx(scored.features[:, 3])
    with pytest.raises(LmtkError, match="2 values"):
        nbest.add_scores(read, [logs], [b"B"])


def test_alignments_before_the_features(tmp_path):
    read = nbest.read([written(b"0 ||| a b ||| 0-0 1-1 ||| F0= -3.21 ||| -3.21\n", tmp_path)])
    assert read.names == [b"F0"] and read.totals.tolist() == [-3.21]
    assert nbest.format_moses(read, 0, None, []) == b"0 ||| a b ||| 0-0 1-1 ||| F0= -3.21 ||| -3.21"


@pytest.mark.parametrize("cut", range(0, 130, 7))
def test_a_damaged_list_is_one_line(tmp_path, cut):
    text = b"0 ||| the dog ||| A= 1 B= 2 3 ||| -1\n0 ||| dog ||| A= 0 B= 1 1 ||| -2\n1 ||| dog ||| A= 1 B= 1 1 ||| 0\n"
    for damaged in (text[:cut], text[:cut] + b"\xff" + text[cut + 1 :], text[:cut] + b"|||" + text[cut:]):
        try:
            nbest.read([written(damaged, tmp_path)])
        except LmtkError as e:
            assert "\n" not in str(e)


@pytest.mark.parametrize("seed", range(20))
def test_error_statistics_are_the_edit_distance_to_the_nearest_reference(seed):
    random = np.random.default_rng(seed)
    texts = [random.integers(0, 3, random.integers(0, 7)) for _ in range(3)]
    hypothesis, *references = ([b"abc"[i : i + 1] for i in text] for text in texts)

    def distance(a, b):
        if not a or not b:
            return len(a) + len(b)
        return min(distance(a[1:], b) + 1, distance(a, b[1:]) + 1, distance(a[1:], b[1:]) + (a[0] != b[0]))

    rows = tuning.error_statistics([b" ".join(hypothesis)], [b" ".join(r) for r in references])
    assert rows.tolist() == [list(min((distance(hypothesis, r), len(r)) for r in references))]
    assert tuning.quality(np.array([[3, 12], [0, 4]])).tolist() == [0.75, 1]
