"""Networks that follow a text: dynamic evaluation and the neural cache against plain loops, blocks, and sums."""

import math
from itertools import pairwise

import naive
import numpy as np
import pytest
from small_models import SENTENCES, neural

from lmtk.errors import Diverged
from lmtk.joint.mixture import Mixture
from lmtk.nplm import adaptive
from lmtk.nplm.adaptive import AdaptiveNetwork, Cache, DynamicEvaluation
from lmtk.text.corpus import Marks, contexts, corpora, whole_corpus

TEXT = "the cat sat on the mat\na cat saw the dog\nthe mat sat\na dog saw a dog on the mat\nthe cat sat\n"
RUNNING = Marks(False, False, True)
CARRYING = {"model": "lstm", "order": 4, "minibatch": 8, "direct": False}


def scored(model, text, marks=SENTENCES, blocks=None):
    """(ids, ln p) of the scored tokens of a text, which comes in these blocks."""
    parts = []
    for corpus in corpora(blocks or [text.encode()], model.vocab, marks, model.order):
        parts.append([x[corpus.scored] for x in (corpus.ids, model.score(corpus).logp)])
    return tuple(map(np.concatenate, zip(*parts)))


def doubles(model, letters):
    theta = vars(model.theta)
    return [None if theta.get(name) is None else theta[name].astype(float) for name in letters]


def whole_text(folder, model, text):
    (folder / "followed").write_text(text)
    return whole_corpus(str(folder / "followed"), model.vocab, SENTENCES)


def rows_of(folder, model, text):
    """The contexts and the ids of the scored words of a text."""
    corpus = whole_text(folder, model, text)
    at = corpus.scored
    return model.padded(contexts(corpus, model.order)[at]).tolist(), corpus.ids[at].tolist()


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("segment", [1, 3, 100])
def test_dynamic_evaluation_is_that_of_plain_loops(texts, direct, segment):
    model = neural(texts, direct=direct)
    rows, words = rows_of(texts, model, TEXT)
    expected = naive.dynamic_evaluation(doubles(model, "CHdUWb"), rows, words, segment, 0.3, 0.1)
    ids, logp = scored(AdaptiveNetwork(model, DynamicEvaluation(0.3, segment, 0.1)), TEXT)
    assert ids.tolist() == words
    assert np.exp(logp) == pytest.approx(expected, rel=1e-4)
    if segment == 100:  # no segment is whole
        assert logp == pytest.approx(scored(model, TEXT)[1], rel=1e-6)


def test_the_networks_of_a_mixture_follow_the_text(texts):
    """In blocks that cut the text inside sentences; the weights stay."""
    network, other = neural(texts, RUNNING, **CARRYING, tied=True, hidden=3), neural(texts, RUNNING, order=2)
    blocks = [TEXT[:31].encode(), TEXT[31:47].encode(), TEXT[47:].encode()]
    follow = lambda: AdaptiveNetwork(network, DynamicEvaluation(0.3, 4, 0.1), Cache(5, 0.5, 0.2))
    _, alone = scored(follow(), TEXT, RUNNING, blocks)
    _, beside = scored(other, TEXT, RUNNING, blocks)
    _, mixed = scored(Mixture([follow(), other], np.array([[0.7, 0.3]])), TEXT, RUNNING, blocks)
    assert np.exp(mixed) == pytest.approx(0.7 * np.exp(alone) + 0.3 * np.exp(beside), rel=1e-6)


def follow_lstm(C, H, d, R, b, steps, state):
    """(L, the activations before each word, the state after all), of a tied LSTM in plain loops. steps: (input, whether
    it begins a sentence, word).
    """
    n = R.shape[1]
    S, U = R[: 3 * n].T.tolist(), R[3 * n :].T.tolist()
    L, activations = 0.0, []
    for word_before, fresh, w in steps:
        state = naive.lstm((H @ C[word_before] + d).tolist(), [0.0] * 2 * n if fresh else state, S, U)
        activations.append(state[:n])
        y = C[: len(b)] @ np.array(state[:n]) + b
        L += y[w] - math.log(np.exp(y).sum())
    return L, activations, state


def test_an_lstm_takes_the_slopes_of_each_segment_from_the_state_before_it(texts):
    model = neural(texts, **CARRYING, hidden=3, tied=True)
    text = "the cat sat\nthe dog saw a cat\n"
    index = model.vocab.index
    steps = []
    for line in text.splitlines():
        ids = [index[word.encode()] for word in ["<s>", *line.split(), "</s>"]]
        steps += [(a, i == 0, b) for i, (a, b) in enumerate(pairwise(ids))]
    theta, state, expected = doubles(model, "CHdRb"), [0.0] * 6, []
    for first in range(0, len(steps), 3):
        part, before = steps[first : first + 3], state
        likelihood = lambda *arrays, part=part, before=before: follow_lstm(*arrays, part, before)[0]
        for i in range(len(part)):
            L = [follow_lstm(*theta, part[:end], before)[0] for end in (i, i + 1)]
            expected.append(L[1] - L[0])
        _, _, state = follow_lstm(*theta, part, before)
        moved = [a.copy() for a in theta]
        for i in range(len(theta)):
            for at, slope in naive.slopes(likelihood, theta, i):
                moved[i][at] += 0.2 * slope
        theta = moved
    _, logp = scored(AdaptiveNetwork(model, DynamicEvaluation(0.2, 3, 0.0)), text)
    assert logp == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("size", [1, 4, 100])
@pytest.mark.parametrize("dynamic", [None, DynamicEvaluation(0.0, 12, 0.0)])
def test_the_cache_is_that_of_plain_loops(texts, monkeypatch, size, dynamic):
    monkeypatch.setattr(adaptive, "PART", 5)
    model = neural(texts)
    rows, words = rows_of(texts, model, TEXT)
    p = [naive.forward(*doubles(model, "CHdUWb"), row) for row in rows]
    expected = naive.neural_cache(
        [chances[w] for (chances, *_), w in zip(p, words)], [a for *_, a in p], words, size, 0.7, 0.3
    )
    _, logp = scored(AdaptiveNetwork(model, dynamic, Cache(size, 0.7, 0.3)), TEXT)
    assert np.exp(logp) == pytest.approx(expected, rel=1e-4)


def test_a_cache_with_all_the_weight_knows_no_other_words(texts):
    model = neural(texts)
    _, logp = scored(AdaptiveNetwork(model, None, Cache(2, 0.0, 1.0)), "the the the cat the\n")
    expected = [model.score(whole_text(texts, model, "the")).logp[1], 0, 0, -np.inf, math.log(0.5), -np.inf]
    assert logp == pytest.approx(expected, rel=1e-5)


OTHERS = [
    {}, {"objective": "class"}, {"objective": "tree"}, {"model": "tdnn", "order": 5}, {"model": "rnn"},
    {"senses": 2}, CARRYING, CARRYING | {"model": "gru"}, CARRYING | {"hidden": 3, "tied": True},
]  # fmt: skip


@pytest.mark.parametrize("options", OTHERS)
@pytest.mark.parametrize("marks", [SENTENCES, RUNNING])
def test_without_a_rate_scores_are_those_of_the_network(texts, options, marks):
    model = neural(texts, marks, **options)
    text = "the cat sat on\n" if marks.stream else TEXT  # so short that no step needs words before its stretch
    _, logp = scored(AdaptiveNetwork(model, DynamicEvaluation(0.0, 2, 0.5)), text, marks)
    assert logp == pytest.approx(scored(model, text, marks)[1], rel=1e-5)


@pytest.mark.parametrize("options", OTHERS)
def test_a_step_makes_the_same_text_likelier(texts, options):
    model = neural(texts, **options)
    length = len(scored(model, TEXT)[0])
    _, logp = scored(AdaptiveNetwork(model, DynamicEvaluation(0.02, length, 0.0)), TEXT * 2)
    assert logp[length:].sum() > logp[:length].sum() + 0.01


@pytest.mark.parametrize("options", OTHERS)
@pytest.mark.parametrize("marks", [SENTENCES, RUNNING])
def test_blocks_of_the_text_do_not_matter(texts, options, marks):
    model = neural(texts, marks, **options)
    lines = TEXT.encode().splitlines(keepends=True)
    one, parts = (
        scored(AdaptiveNetwork(model, DynamicEvaluation(0.1, 4, 0.1), Cache(5, 0.5, 0.2)), TEXT, marks, blocks)
        for blocks in ([TEXT.encode()], lines)
    )
    assert parts[1] == pytest.approx(one[1], rel=1e-5)


def test_full_decay_goes_back_to_the_trained_parameters(texts):
    model = neural(texts, **CARRYING)
    _, logp = scored(AdaptiveNetwork(model, DynamicEvaluation(0.2, 3, 1.0)), TEXT)
    assert logp == pytest.approx(scored(model, TEXT)[1], rel=1e-5)


@pytest.mark.parametrize("end", [0, 1, 5, 9])
@pytest.mark.parametrize("options", [{}, CARRYING])
def test_the_vocabulary_sums_to_one(texts, options, end):
    """After the same words, with steps taken and words in the cache."""
    model = neural(texts, RUNNING, **options)
    words, total = TEXT.split()[:end], 0
    for word in model.vocab.words[: model.vocab.V]:
        adaptive_model = AdaptiveNetwork(model, DynamicEvaluation(0.1, 2, 0.1), Cache(4, 0.5, 0.2))
        text = " ".join([*words, word.decode()])
        total += math.exp(scored(adaptive_model, text, RUNNING)[1][-1])
    assert total == pytest.approx(1, abs=2e-6)


def test_unknown_words_have_no_probability_and_are_passed_over(texts):
    model = neural(texts, unk=False)
    following = AdaptiveNetwork(model, DynamicEvaluation(0.1, 2, 0.1), Cache(4, 0.5, 0.2))
    _, logp = scored(following, "zebra zebra zebra the cat zebra\n")
    assert np.isneginf(logp).tolist() == [True, True, True, False, False, True, False]
    assert model.vocab.unk_id not in following.cache.words


def test_a_rate_that_is_too_high_says_so(texts):
    model = neural(texts)
    with pytest.raises(Diverged, match=r"not finite after .* try a lower -dynamic-rate"):
        scored(AdaptiveNetwork(model, DynamicEvaluation(1e30, 2, 0.0)), TEXT)
