"""The time-delay layer: against its twin, gradients against differences, pace, training and files."""

from dataclasses import replace
from types import SimpleNamespace

import naive
import numpy as np
import pytest
from small_models import prepared, run, settings
from steps import Small, assert_step, minibatch

from lmtk.nplm import dropout, layers

NAMES = "CHdGeUWb"
N = 6  # five words, so three groups of three words


def parameters(direct, V=11, h=5, m=3, n=N):
    random = np.random.default_rng(1)
    shapes = layers.delayed_shapes(n, m, h)
    arrays = {"C": (V + 1, m)} | shapes | {"U": (V, h), "W": (V, (n - 1) * m), "b": (V,)}
    theta = {name: random.normal(0, 0.5, shape).astype(np.float32) for name, shape in arrays.items()}
    return theta if direct else theta | {"W": None}


@pytest.mark.parametrize("n", [2, 3, 4, 6, 9])
def test_the_activations_are_those_of_the_twin(n):
    theta = parameters(False, n=n)
    contexts, _ = minibatch(4, n=n)
    a, _, _ = layers.delayed(SimpleNamespace(**theta), theta["C"][contexts], layers.Batch())
    lists = [theta[name].tolist() for name in "CHdGe"]
    for row, context in zip(a, contexts.tolist()):
        assert row == pytest.approx(np.array(naive.time_delay(*lists, context)), abs=1e-5)


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("share", [0, 0.3])
def test_the_gradient_is_that_of_finite_differences(direct, share):
    """H and d, which the three groups share, move by a third of their slope."""
    theta = parameters(direct)
    contexts, w = minibatch(6, n=N)
    of_x, of_a = dropout.draw_factors([(6, 15), (6, 5)], share, np.random.default_rng(1))

    def likelihood(C, H, d, G, e, U, W, b):
        x = C[contexts].reshape(6, -1) * of_x
        below = np.concatenate([np.tanh(x[:, s : s + 9] @ H.T + d) for s in (0, 3, 6)], axis=1)
        a = np.tanh(below @ G.T + e) * of_a
        y = a @ U.T + b + (x @ W.T if direct else 0)
        return (y[np.arange(6), w] - np.log(np.exp(y).sum(axis=1))).sum()

    before = [theta[name] for name in NAMES]
    small = Small(theta, 2, "full", "tdnn")
    L, _ = small.step(contexts, w, 1e-2, factors=dropout.Factors(of_x, of_a) if share else dropout.NONE)
    assert pytest.approx(likelihood(*before), abs=1e-3) == L
    after = small.named()
    assert_step(likelihood, before, [after.get(name) for name in NAMES], NAMES, shares="Hd")


def test_each_layer_has_a_pace_of_its_own(texts):
    """A rate that would throw the layers far away is limited, and training rises above the unigram."""
    made = settings(model="tdnn", order=5, hidden=8, rate=2.0, minibatch=64, epochs=5)
    progress, _ = run(texts, made)
    assert all(np.isfinite(a).all() for a in progress.best.named().values())
    assert max(np.abs(progress.best.theta.H).max(), np.abs(progress.best.theta.G).max()) < 20


def test_weight_decay_is_on_both_layers(texts):
    made = settings(model="tdnn", order=5, rate=1e-6, objective="full")
    data, fresh = prepared(texts, made)
    progress, _ = run(texts, replace(made, weight_decay=1e3, decay=0.0, epochs=1, patience=1))
    for name in "HG":
        ratio = progress.best.named()[name] / fresh.named()[name]
        assert ratio == pytest.approx(np.full_like(ratio, 1 - 1e-3 * len(data.w)), rel=5e-3)
