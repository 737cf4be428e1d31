"""The recurrent layer: against its twin, gradients against differences, training and files as of the other networks."""

from dataclasses import replace
from itertools import islice
from types import SimpleNamespace

import naive
import numpy as np
import pytest
from small_models import by_checkpoint, prepared, run, settings
from steps import Small, assert_step, minibatch, same

from lmtk.nplm import dropout, layers, training

NAMES = "CHdUWbR"


def parameters(direct, V=11, h=5, m=3, dtype=np.float32):
    random = np.random.default_rng(1)
    shapes = (V + 1, m), (h, m), (h,), (V, h), (V, m), (V,), (h, h)
    C, H, d, U, W, b, R = (random.normal(0, 0.5, shape).astype(dtype) for shape in shapes)
    return C, H, d, U, W if direct else None, b, R


@pytest.mark.parametrize("direct", [False, True])
def test_the_state_is_that_of_the_twin(direct):
    C, H, d, *_, R = parameters(direct)
    contexts, _ = minibatch(4)
    _, (*_, A), _ = layers.recurrent(SimpleNamespace(H=H, d=d, R=R), C[contexts], layers.Batch())
    for k, row in enumerate(contexts.tolist()):
        states = naive.recurrent(*(array.tolist() for array in (C, H, R, d)), row)
        assert A[:, k] == pytest.approx(np.array(states), abs=1e-5)


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("share", [0, 0.3])
@pytest.mark.parametrize("objective", ["full", "sampled"])
@pytest.mark.parametrize("again", [False, True])
def test_the_gradient_is_that_of_finite_differences(direct, share, objective, again):
    """What the three steps of the layer have in common moves by a third of its slope; whether a word comes again or
    not."""
    theta = parameters(direct, V=11 if again else 20)
    contexts, w = minibatch(6)
    if not again:
        contexts = np.random.default_rng(3).permutation(20)[: contexts.size].reshape(contexts.shape)
    of_x, of_a = dropout.draw_factors([(6, 9), (6, 5)], share, np.random.default_rng(1))

    def likelihood(C, H, d, U, W, b, R):
        x = (C[contexts].reshape(6, -1) * of_x).reshape(6, 3, 3)
        a = 0
        for i in (2, 1, 0):
            a = np.tanh(x[:, i] @ H.T + d + a @ R.T if i < 2 else x[:, i] @ H.T + d)
        y = (a * of_a) @ U.T + b + (x[:, 0] @ W.T if direct else 0)
        return (y[np.arange(6), w] - np.log(np.exp(y).sum(axis=1))).sum()

    factors = dropout.Factors(of_x, of_a) if share else dropout.NONE
    small = Small(theta, 2, objective, "rnn")
    # all the words are candidates
    V = len(theta[-2])
    sample = (np.arange(V), np.zeros(V, np.float32)) if objective == "sampled" else ()
    L, _ = small.step(contexts, w, 1e-2, *sample, factors=factors)
    assert pytest.approx(likelihood(*theta), abs=1e-3) == L
    assert_step(likelihood, theta, small.arrays(), NAMES, shares="HdR")


@pytest.mark.parametrize("objective", ["full", "sampled"])
def test_weight_decay_is_on_the_recurrent_weights_too(texts, objective):
    made = settings(model="rnn", objective=objective, samples=3 if objective == "sampled" else None, rate=1e-6)
    data, fresh = prepared(texts, made)
    progress, _ = run(texts, replace(made, weight_decay=1e3, decay=0.0, epochs=1, patience=1))
    ratio = progress.best.theta.R / fresh.theta.R
    assert ratio == pytest.approx(np.full_like(ratio, 1 - 1e-3 * len(data.w)), rel=5e-3)


def test_it_learns_from_farther_back_than_its_last_word(texts):
    """After "a" comes what stood two words before it."""
    random = np.random.default_rng(1)
    (texts / "train").write_text("".join(f"{w} {v} a {w}\n" for w, v in random.choice(list("xyz"), (400, 2))))
    made = settings(model="rnn", order=4, hidden=8, rate=0.1, epochs=10)
    from lmtk.text.corpus import Marks, whole_corpus
    from lmtk.text.vocab import make_vocab

    vocab = make_vocab([b"x", b"y", b"z", b"a"])
    text = whole_corpus(str(texts / "train"), vocab, Marks())
    data = training.make_examples(text, vocab, made.order, None)
    progress = training.Progress(training.initial_network(vocab, made, data.w))
    for _ in training.train(progress, data, made, 1):
        pass
    logp = progress.best.score(text).logp.reshape(400, 6)
    assert np.exp(logp[:, 4]).min() > 0.9


def test_a_run_that_was_cut_goes_on_to_the_same_bytes(texts):
    made = settings(model="rnn", direct=True, weight_decay=1e-3, dropout=0.2)
    whole, _ = run(texts, made)
    for upto in (5, 9):
        data, fresh = prepared(texts, made)
        part = training.Progress(fresh)
        now = [now for _, _, now in islice(training.train(part, data, made, 1), upto)][-1]
        again, _ = run(texts, made, progress=by_checkpoint(texts, part, now(), made, data, fresh))
        assert same(again.best, whole.best), upto
