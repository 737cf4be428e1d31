"""How far an update may go: the curvature, what it holds back, and training on texts that it once threw apart."""

import math
from types import SimpleNamespace

import naive
import numpy as np
import pytest
from steps import Small, minibatch, parameters

from lmtk.nplm import kernels, layers, pace, training
from lmtk.text.vocab import Vocab


def test_the_curvature_is_the_largest_eigenvalue():
    X = np.random.default_rng(1).normal(0, 1, (40, 6)).astype(np.float32) + np.array([3, 0, 0, 1, 0, 0], np.float32)
    assert pace.largest_eigenvalue(X, 40) == pytest.approx(naive.stiffest(X.tolist(), 40), rel=1e-3)
    largest = np.linalg.eigvalsh(X.T @ X)[-1] / 40
    assert 0.9 * largest < pace.largest_eigenvalue(X, 40) < 1.001 * largest
    assert pace.largest_eigenvalue(X[:, :0], 40) == pace.largest_eigenvalue(X[:0], 0) == 0
    Y = np.random.default_rng(2).normal(0, 1, (6, 3)).astype(np.float32)
    assert pace.largest_eigenvalue(X, 40, Y) == pytest.approx(pace.largest_eigenvalue(X @ Y, 40), rel=1e-5)


@pytest.mark.parametrize("parts", [1, 2])
def test_a_step_goes_as_far_as_the_curvature_lets_it(parts):
    """Each parameter moves by its pace times what it moves by at the whole rate."""
    theta, (contexts, w) = parameters(), minibatch(8)
    C, H, d, U, W, b = theta
    moved = pace.Pace(np.linspace(0, 9, 12, dtype=np.float32), 7.0, np.linspace(0, 2, 11, dtype=np.float32))
    free, held = Small(theta, parts, feature_rate=2), Small(theta, parts, slow=moved, feature_rate=2)
    for small in (free, held):
        small.step(contexts, w, 1e-2)

    layer = SimpleNamespace(H=H, d=d)
    a, memory, _ = layers.window(layer, C[contexts], layers.Batch())
    x = C[contexts].reshape(8, -1)
    z = kernels.stack_activations(a, x)
    y = z @ np.hstack((U, W, b[:, None])).T
    p = np.exp(y) / np.exp(y).sum(axis=1, keepdims=True)
    p[np.arange(8), w] -= 1
    gz = -p @ np.hstack((U, W, b[:, None]))
    gx, (back,) = layers.window_back(layer, memory, gz[:, :5])
    go, gx = back.go, gx + gz[:, 5:-1]
    curvature = [naive.stiffest(rows.tolist(), len(rows)) for rows in (gx.reshape(-1, 3), x, go, z)]
    of_C, of_H, of_outputs = (
        np.minimum(1, pace.MOST / np.maximum(moved * curved, 1e-9))
        for moved, curved in (
            (moved.C, curvature[0]), (moved.H, curvature[1] * curvature[2]), (moved.outputs, curvature[3])
        )
    )  # fmt: skip
    assert of_H < 1 and (of_C < 1).any() and (of_outputs < 1).any()
    shares = of_C[:, None], of_H, of_H, of_outputs[:, None], of_outputs[:, None], of_outputs
    for name, first, whole, slow, share in zip("CHdUWb", theta, free.arrays(), held.arrays(), shares, strict=True):
        assert slow - first == pytest.approx(share * (whole - first), rel=2e-2, abs=2e-5), name


def test_one_example_is_never_held_back():
    data = training.Data(np.zeros((5, 3), np.int32), np.arange(5) % 2, None)
    settings = training.Settings(4, 5, 3, False, 1e3, None, 0, 1.0, 1, 1, 1, 1)
    actual = pace.make_pace(settings, data, 4, pace.variances(data.w, 3))
    assert actual.H == 0 and not actual.C.any() and not actual.outputs.any()


@pytest.mark.parametrize(
    ("model", "objective"),
    [
        (None, "full"),
        (None, "sampled"),
        (None, "nce"),
        (None, "class"),
        (None, "tree"),
        ("tdnn", "full"),
        ("tdnn", "sampled"),
        ("rnn", "full"),
        ("rnn", "nce"),
    ],
)
def test_sentences_of_three_words(model, objective):
    """Contexts that are much alike, most of them <s>: without a pace the first epoch ends above 1e9."""
    random, V = np.random.default_rng(1), 60
    first = random.integers(0, 5, 2000)
    sentences = np.stack((first, 5 + 2 * first + random.integers(0, 25, 2000), random.integers(40, 59, 2000)), axis=1)
    words = np.hstack((sentences, np.full((2000, 1), 59)))
    n = 8
    padded = np.hstack((np.full((2000, n - 1), V), words))
    contexts = np.stack([padded[:, t - 1 : t - n : -1] for t in range(n, n + 3)] + [padded[:, n - 2 :: -1]], axis=1)
    w = np.hstack((words[:, 1:], words[:, :1]))
    vocab = Vocab([b"w%d" % i for i in range(V - 1)] + [b"</s>", b"<s>"], V)
    data = training.Data(contexts.reshape(-1, n - 1).astype(np.int32), w.reshape(-1), None)
    settings = training.Settings(
        n, 100, 60, False, 0.02, None, 0, 4.0, 256, 1, 1, 1, objective, 50 if objective == "nce" else 30, model
    )
    progress = training.Progress(training.initial_network(vocab, settings, data.w))
    for _ in training.train(progress, data, settings, 1):
        pass
    logp = progress.best.score_contexts(data.contexts[:2000], data.w[:2000])
    p = np.bincount(data.w) / len(data.w)
    assert math.exp(-logp.mean()) < math.exp(-np.log(p[data.w]).mean()) / 1.5
