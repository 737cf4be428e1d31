"""Translation: the network against a slow twin and finite differences, training, the beam."""

import naive
import numpy as np
import pytest

from lmtk.nmt import kernels, network
from lmtk.text.vocab import make_vocab

SIZES = {"embedding": 3, "hidden": 4, "alignment": 5, "maxout": 2}
SOURCE = [np.array(s) for s in ([5, 3, 0], [4, 5, 3, 6, 0], [7, 0])]
TARGET = [np.array(s) for s in ([3, 0], [2, 3, 4, 5, 0], [5, 5, 0])]


def vocab(n):
    return make_vocab([b"w%d" % i for i in range(n)], True, True, b"[UNK]")


def parameters(attention=True, dtype=np.float64, seed=1):
    sizes = SIZES if attention else SIZES | {"alignment": 0}
    made = network.shapes(vocab(6), vocab(5), **sizes)
    theta = np.random.default_rng(seed).normal(0, 0.5, network.length(made)).astype(dtype)
    return theta, made


def dropout(seed):
    """The same masks at every call."""
    random = np.random.default_rng(seed)
    return lambda shape: (random.random(shape) < 0.7) / 0.7


@pytest.mark.parametrize("attention", [True, False])
def test_scores_are_those_of_appendix_a(attention):
    theta, made = parameters(attention)
    p = network.parts(theta, made)
    found = network.score(p, SOURCE, TARGET, 7)
    letters = {name: a.tolist() for name, a in vars(p).items()}
    for x, y, logp in zip(SOURCE, TARGET, found, strict=True):
        assert logp == pytest.approx(naive.translation_logp(letters, x.tolist(), y.tolist(), 7), rel=1e-9)


@pytest.mark.parametrize("attention", [True, False])
@pytest.mark.parametrize("dropped", [False, True])
def test_the_gradient_is_that_of_finite_differences(attention, dropped):
    theta, made = parameters(attention)
    g = np.full_like(theta, np.nan)

    def drop():
        return dropout(3) if dropped else network.no_dropout

    def cost(theta):
        return network.cost(network.parts(theta, made), SOURCE, TARGET, 7, network.parts(g.copy(), made), drop())

    L = network.cost(network.parts(theta, made), SOURCE, TARGET, 7, network.parts(g, made), drop())
    assert abs(L - cost(theta)) < 1e-9
    assert np.isfinite(g).all()
    slopes = np.empty_like(theta)
    for i in range(len(theta)):
        step = np.zeros_like(theta)
        step[i] = 1e-6
        slopes[i] = (cost(theta + step) - cost(theta - step)) / 2e-6
    assert -g * len(TARGET) == pytest.approx(slopes, rel=1e-5, abs=1e-7)


def test_single_precision_is_near_double():
    theta, made = parameters()
    g, g32 = np.empty_like(theta), np.empty(len(theta), np.float32)
    L = network.cost(network.parts(theta, made), SOURCE, TARGET, 7, network.parts(g, made))
    L32 = network.cost(network.parts(theta.astype(np.float32), made), SOURCE, TARGET, 7, network.parts(g32, made))
    assert abs(L32 - L) < 1e-4
    assert g32 == pytest.approx(g, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("room", [1, 10, 1000])
def test_outputs_do_not_depend_on_their_blocks(monkeypatch, room):
    theta, made = parameters()
    g, whole = np.empty_like(theta), np.empty_like(theta)
    network.cost(network.parts(theta, made), SOURCE, TARGET, 7, network.parts(whole, made))
    monkeypatch.setattr(kernels, "ROOM", room)
    network.cost(network.parts(theta, made), SOURCE, TARGET, 7, network.parts(g, made))
    assert g == pytest.approx(whole)


@pytest.mark.parametrize("name", ["adam", "adadelta"])
def test_updates_are_their_papers(name):
    random = np.random.default_rng(1)
    theta, found = random.normal(size=5), None
    state = np.zeros(5), np.zeros(5)
    found = theta.copy()
    slow = [naive.Adam(v) if name == "adam" else naive.Adadelta(v) for v in theta]
    for t in range(1, 6):
        g = random.normal(size=5)
        if name == "adam":
            kernels.adam(found, g, *state, 0.01, 0.5, 1 - 0.9**t, 1 - 0.999**t)
        else:
            kernels.adadelta(found, g, *state, 0.5)
        assert found == pytest.approx([s.update(0.5 * v) for s, v in zip(slow, g, strict=True)], rel=1e-9)


def test_sums_and_softmax_do_not_overflow():
    y = np.array([[1e4, 0.0], [-1e4, -1e4]], np.float32)
    top, total = kernels.log_softmax(y)
    assert np.isfinite(y).all() and total.tolist() == [1, 2] and top.tolist() == [1e4, -1e4]
    x = np.array([-1e4, 0.0, 1e4], np.float32)
    assert kernels.sigmoid(x).tolist() == [0, 0.5, 1]
