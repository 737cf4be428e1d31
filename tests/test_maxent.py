"""Maximum-entropy models: loss, gradient and the stored model are those of the definition."""

import math

import naive
import numpy as np
import pytest
from helpers import FILES

from lmtk.errors import LmtkError
from lmtk.lm import vocabulary_sums
from lmtk.ngram.counting.collection import Sources, collect
from lmtk.ngram.estimate import maxent
from lmtk.ngram.estimate.smoothing import levels_of
from lmtk.text.corpus import Marks, read_corpus
from lmtk.text.vocab import make_vocab

TEXT = str(FILES / "words.txt")
LISTED = [b"baba", b"deba", b"kiba", b"side", b"never"]


def problem(order, words=None, unk=False):
    """counts, vocab, Features, and their n-grams as tuples of words."""
    counts = collect(Sources([TEXT], [], order, words))
    vocab = make_vocab(counts.words, unk)
    levels, ngrams, node = levels_of(counts, vocab, order), [()], [()]
    for level in levels:
        node = [(*node[parent], vocab.words[word]) for parent, word in zip(level.parent, level.word)]
        ngrams += node
    return counts, vocab, maxent.Features(levels, vocab), ngrams


def tokens(vocab, order):
    """(context, word) of each predicted word of the text; a context does not reach over a word that is not in it."""
    predicted = {*vocab.words[: vocab.V], b"<s>"}
    unk = b"<unk>" if b"<unk>" in predicted else None
    for line in open(TEXT, "rb"):
        sentence = [w if w in predicted else unk for w in (b"<s>", *line.split(), b"</s>")]
        for i, word in enumerate(sentence[1:], 1):
            if word is not None:
                context = sentence[max(i - order + 1, 0) : i]
                yield context[len(context) - context[::-1].index(None) :] if None in context else context, word


@pytest.mark.parametrize(
    "order, words, unk", [(1, None, False), (3, None, False), (3, LISTED, True), (4, LISTED, False)]
)
def test_loss_and_gradient(order, words, unk):
    _, vocab, f, ngrams = problem(order, words, unk)
    weights = np.where(f.event, np.random.default_rng(1).normal(0, 0.5, len(ngrams)), 0)
    named, text = dict(zip(ngrams, weights)), list(tokens(vocab, order))
    value, g = f.loss(weights, 2.5)
    logp = sum(naive.maxent(named, vocab.words[: vocab.V], context, word) for context, word in text)
    assert f.M.sum() == len(text)
    assert value * len(text) == pytest.approx(-logp + (weights**2).sum() / 5)
    assert not g[~f.event].any()
    for at, slope in naive.slopes(lambda x: f.loss(x, 2.5)[0], [weights], 0, 7):
        assert g[at] == pytest.approx(slope * f.event[at], abs=1e-8)


@pytest.mark.parametrize(
    "order, words, unk", [(1, None, False), (2, LISTED, False), (3, LISTED, True), (3, None, True)]
)
def test_model_is_a_backoff_model(order, words, unk):
    counts, vocab, f, ngrams = problem(order, words, unk)
    model = maxent.estimate(counts, vocab, order, 0.5, 6.0)
    weights = maxent.minimize(lambda x: f.loss(x, 6.0), len(ngrams), 0.5 / f.M.sum(), lambda line: None)
    assert (weights[f.event] == 0).any() or order == 1
    named = dict(zip(ngrams, weights))
    (corpus,) = read_corpus(TEXT, vocab, Marks())
    first_tokens = corpus.scored.copy()
    first_tokens[60:] = False
    assert vocabulary_sums(model, corpus, first_tokens) == pytest.approx(1, abs=1e-5)
    logs = np.concatenate([[0], *(model.ngrams(k)[1] for k in range(1, model.order + 1))])
    bows = np.concatenate([[0], *(model.ngrams(k)[2] for k in range(1, model.order + 1))])
    arpa = dict(zip(ngrams, zip(logs, bows)))
    for context, word in [*tokens(vocab, order)][:80]:
        plain = naive.backoff(arpa, tuple(context), word)
        assert plain == pytest.approx(
            naive.maxent(named, vocab.words[: vocab.V], context, word) / math.log(10), abs=2e-5
        )


def test_optimizer_finds_the_least():
    rng = np.random.default_rng(2)
    A = rng.normal(size=(9, 6))
    H, b = A.T @ A + np.eye(6), rng.normal(size=6) * 3
    for c in (0.0, 2.5):
        x = maxent.minimize(lambda x: (x @ H @ x / 2 - b @ x + 1e-3, H @ x - b), 6, c, lambda line: None)
        slope = H @ x - b
        # at the least the slope is -c, c or, where x is 0, between them
        assert np.where(x, slope + c * np.sign(x), np.maximum(np.abs(slope) - c, 0)) == pytest.approx(0, abs=0.05)
        assert (x == 0).any() == (c > 0)


def test_nothing_to_count():
    counts = collect(Sources([TEXT], [], 2, [b"never"]))
    with pytest.raises(LmtkError, match="no word"):
        maxent.estimate(counts, make_vocab([b"never"], eos=False), 2, 0.5, 6.0)
