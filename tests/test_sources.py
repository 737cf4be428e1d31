"""Models of several texts with learned weights: by the formula in plain loops, and by finite differences."""

from collections import Counter, defaultdict
from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest
from helpers import HELD, TRAIN, random_text

import lmtk
from lmtk.errors import LmtkError, UsageError
from lmtk.jobs import counting
from lmtk.jobs.counting import CountJob
from lmtk.jobs.estimating import NOT_WITH_SOURCES, OTHER_METHODS
from lmtk.jobs.smoothing import Smoothing
from lmtk.joint import sources
from lmtk.lm import after
from lmtk.machine.parallel import ALONE
from lmtk.text.corpus import contexts, whole_corpus
from lmtk.text.vocab import make_vocab


def pool_of(paths, order, unk):
    """The Pool of texts, over the words of all of them."""
    counts = []
    for path in paths:
        job = CountJob(text=(str(path),), order=order)
        counts.append(counting.collect_counts(job, counting.read_lists(job), ALONE).up_to(order))
    vocab = make_vocab(list(dict.fromkeys(word for one in counts for word in one.words)), unk)
    return sources.pool(counts, vocab)


def plain_counts(path, order):
    """{n-gram, a tuple of words: its count} of each order, with continuation counts below the highest."""
    times = [Counter() for _ in range(order + 1)]
    for line in path.read_text().splitlines():
        words = ["<s>", *line.split(), "</s>"]
        for k in range(1, order + 1):
            times[k].update(tuple(words[i : i + k]) for i in range(len(words) - k + 1) if line.split())
    counts = [dict(of_order) for of_order in times]
    for k in range(1, order):
        fresh = Counter(ngram[1:] for ngram in times[k + 1])
        counts[k] = {g: c if g[0] == "<s>" else fresh[g] for g, c in times[k].items()}
    return counts


def plain_p(word, context, counts, weights, D, V):
    """p(word | context) by the recursion, in plain loops."""
    if context is None:
        return 1 / V
    k = len(context) + 1
    kept = total = left = 0
    for of_source, weight, discounts in zip(counts, weights[k - 1], D[k - 1]):
        for ngram, c in of_source[k].items():
            if ngram[:-1] == context and ngram[-1] != "<s>" and c:
                discount = discounts[min(c, 3) - 1]
                total += weight * c
                left += weight * discount
                kept += weight * (c - discount) * (ngram[-1] == word)
    lower = plain_p(word, context[1:] if context else None, counts, weights, D, V)
    return (kept + left * lower) / total if total else lower


@pytest.fixture
def two(tmp_path):
    (tmp_path / "a").write_text(TRAIN)
    (tmp_path / "b").write_text("the cow sat on the cow\na cow saw the cat\nthe cat saw\n" * 2)
    (tmp_path / "dev").write_text(HELD)
    return tmp_path


def random_weights(seed, order, parts):
    random = np.random.default_rng(seed)
    D = random.uniform(0.01, 1, (order, parts, 3)) * [1, 2, 3]
    return np.exp(random.normal(size=(order, parts))), D


@pytest.mark.parametrize(("order", "unk"), [(1, False), (2, True), (3, False), (3, True)])
def test_probabilities_are_those_of_plain_loops(two, order, unk):
    paths = [two / "a", two / "b"]
    pool, counts = pool_of(paths, order, unk), [plain_counts(path, order) for path in paths]
    weights, D = random_weights(order, order, 2)
    model = pool.estimate(weights, D)
    index = {word.decode(): i for word, i in pool.vocab.index.items()}
    for context in ["", "<s>", "the", "the cat", "<s> a", "on the", "cow saw", "saw on", "mat"]:
        words = tuple(context.split())[-order + 1 :] if order > 1 else ()
        p = np.exp(after(model, [index[word] for word in words]))
        assert p.sum() == pytest.approx(1, abs=1e-5)
        for word in ["the", "cat", "cow", "</s>", "sat"]:
            expected = plain_p(word, words, counts, weights, D, pool.vocab.V)
            assert p[index[word]] == pytest.approx(expected, rel=1e-5)


def heldout_rows(path, vocab, order):
    corpus = whole_corpus(str(path), vocab, CountJob(text=("-",)).marks)
    at = np.flatnonzero(corpus.scored & (corpus.ids < vocab.V))
    return np.column_stack((corpus.ids, contexts(corpus, order)))[at]


def test_the_likelihood_is_that_of_the_model_and_its_gradient_is_right(two):
    pool = pool_of([two / "a", two / "b"], 3, True)
    features, V = pool.features(heldout_rows(two / "dev", pool.vocab, 3)), pool.vocab.V
    weights, D = random_weights(4, 3, 2)
    L, gradients = sources.log_likelihood(features, weights, D, V)
    scored = lmtk.perplexity(lmtk.Model(pool.estimate(weights, D)), two / "dev")
    assert scored.oovs == 0 and np.exp(-L) == pytest.approx(scored.ppl, rel=1e-5)
    for array, gradient in zip((weights, D), gradients):
        for at in np.ndindex(array.shape):
            values = []
            for change in (1e-6, -1e-6):
                moved = array.copy()
                moved[at] += change
                pair = (moved, D) if array is weights else (weights, moved)
                values.append(sources.log_likelihood(features, *pair, V)[0])
            assert gradient[at] == pytest.approx((values[0] - values[1]) / 2e-6, abs=1e-7)


def test_no_change_of_a_weight_or_discount_helps_much(tmp_path):
    for name, seed in (("a", 1), ("b", 2), ("c", 3)):
        (tmp_path / name).mkdir()
        random_text(tmp_path / name, seed)
    pool = pool_of([tmp_path / "a/t", tmp_path / "b/t"], 3, True)
    features, V = pool.features(heldout_rows(tmp_path / "c/t", pool.vocab, 3)), pool.vocab.V
    weights, D, before, after_tuning = sources.tune(features, V)
    best = sources.log_likelihood(features, weights, D, V)[0]
    assert np.exp(-best) == pytest.approx(after_tuning) and after_tuning < before
    assert (weights[:, 0] == 1).all() and (weights > 0).all() and ((D > 0) & (D < [1.01, 2.01, 3.01])).all()
    for at in np.ndindex(weights.shape):
        for factor in (0.8, 1.25):
            moved = weights.copy()
            moved[at] *= factor
            assert sources.log_likelihood(features, moved, D, V)[0] < best + 1e-4


def test_a_source_that_is_like_the_heldout_text_weighs_more(two):
    model = lmtk.estimate(sources=[two / "a", two / "b"], heldout=str(two / "a"), order=2)
    other = lmtk.estimate(sources=[two / "a", two / "b"], heldout=str(two / "b"), order=2)
    assert lmtk.perplexity(model, two / "a").ppl < lmtk.perplexity(other, two / "a").ppl
    assert lmtk.perplexity(model, two / "b").ppl > lmtk.perplexity(other, two / "b").ppl


def test_sources_of_python_are_sentences_or_files(two):
    whole = lmtk.estimate(
        sources=[two / "a", (two / "b").read_text().split("\n")], heldout=str(two / "dev"), prune=1e-4
    )
    assert whole.order == 3 and "cow" in whole
    with pytest.raises(UsageError, match="sources must be a list of texts, not"):
        lmtk.estimate(sources="a.txt", heldout="dev")
    with pytest.raises(UsageError, match="text must be the name of a file"):
        lmtk.estimate()
    with pytest.raises(LmtkError, match="no words in it; leave this source out"):
        lmtk.estimate(sources=[two / "a", []], heldout=str(two / "dev"))


def test_pruning_weighs_contexts_by_the_weights_of_the_sources(two):
    pool = pool_of([two / "a", two / "b"], 3, False)
    words, [levels] = pool.contexts(np.array([1.0, 0.5]))
    times, W = defaultdict(float), len(words)
    for path, weight in ((two / "a", 1), (two / "b", 0.5)):
        for line in path.read_text().splitlines():
            tokens = ["<s>", *line.split(), "</s>"] if line.split() else []
            for pair in pairwise(tokens):
                times[pair] += weight
    (keys, _), (pairs, counts) = levels
    name = [word.decode() for word in words]
    actual = {(name[keys[key // W] % W], name[key % W]): c for key, c in zip(pairs.tolist(), counts.tolist())}
    assert actual == dict(times)


@pytest.mark.parametrize("more", [{"order": 9}, {"vocab": ["a"], "unk": False}])
def test_orders_may_lack_ngrams_and_known_contexts(tmp_path, monkeypatch, more):
    monkeypatch.chdir(tmp_path)
    for name, text in (("a", "x a x b\n"), ("b", "c d\n"), ("dev", "a b c a a\n")):
        (tmp_path / name).write_text(text)
    model = lmtk.estimate(sources=["a", "b"], heldout="dev", **more).lm
    for context in ([], [b"<s>"], [b"a"], [b"a", b"a"]):
        ids = [model.vocab.index[word] for word in context]
        assert np.exp(after(model, ids)).sum() == pytest.approx(1, abs=1e-6)


def test_smoothing_options_are_refused_or_known_to_do_no_harm():
    """-source has one method of smoothing, so an option of another method must not be ignored."""
    left = {about.name for about in fields(Smoothing)} - {*NOT_WITH_SOURCES.split(), *OTHER_METHODS.split()}
    assert left == {"kndiscount", "kndiscount_n", "interpolate", "interpolate_n", "interpolate_unigrams"}
