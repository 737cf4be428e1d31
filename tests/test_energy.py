"""The energy network: kernels against their twins, gradients against differences, training, scoring."""

import math
from types import SimpleNamespace

import naive
import numpy as np
import pytest
import small_models
from small_models import neural
from steps import assert_step, minibatch

from lmtk import run
from lmtk.errors import Diverged, FormatError
from lmtk.nplm import energy, energy_sgd, training
from lmtk.nplm.pace import Rates, full_pace
from lmtk.text.corpus import Marks, contexts, whole_corpus

LETTERS = "CHdvb"


def parameters(target, seed=1, V=11, h=5, m=3, n=4, dtype=np.float32):
    random = np.random.default_rng(seed)
    shapes = (V + 1, m), (h, n * m), (h,), (h, V if target else 1), (V,)
    arrays = dict(zip(LETTERS, (random.normal(0, 0.7, shape).astype(dtype) for shape in shapes)))
    return SimpleNamespace(**arrays, b_low=np.zeros(V, dtype))


def arrays(model, dtype=np.float64):
    return [np.array(getattr(model, name), dtype) for name in LETTERS]


def copied(p):
    return SimpleNamespace(**{name: a.copy() for name, a in vars(p).items()})


def log_p(C, H, d, v, b, rows, words):
    """ln P of all words, or of the softmax over some, (K, V), in double precision, straight from the equation."""
    candidates = np.broadcast_to(C[words][None], (len(rows), len(words), C.shape[1]))
    x = np.concatenate([candidates, *(np.repeat(C[row, None], len(words), 1) for row in rows.T)], axis=2)
    E = (np.tanh(d + x @ H.T) * (v[:, words].T if v.shape[1] > 1 else v.T)).sum(axis=2) + b[words]
    return -E - np.log(np.exp(-E).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("target", [False, True])
@pytest.mark.parametrize("start, size", [(0, 600), (100, 500), (599, 1)])
def test_kernels(target, start, size):
    random = np.random.default_rng(1)
    A, B = (np.exp(2 * random.normal(0, 2, shape)).astype(np.float32) for shape in ((7, 5), (5, 600)))
    v, c = (random.normal(size=shape).astype(np.float32) for shape in ((5, 600 if target else 1), 600))
    g = random.normal(size=(7, size)).astype(np.float32)
    these = slice(start, start + size)
    th = np.tanh(np.log(A.astype(float))[:, :, None] / 2 + np.log(B.astype(float))[None, :, these] / 2)
    weights = v[:, these] if target else v
    expected = c[these] + weights.sum(axis=0) - (weights * th).sum(axis=1)
    for fill in (energy.minus_energies, energy.minus_energies_plain):
        y = np.empty((7, size), np.float32)
        fill(A, B, v, c, start, y)
        assert y == pytest.approx(expected, rel=1e-5, abs=1e-5)
    go, gu, gv = (np.empty(shape, np.float32) for shape in ((7, 5), (5, size), (5, size if target else 1)))
    energy.minus_energies_backward(A, B, v, start, g, (go, gu, gv))
    slopes = -weights * (1 - th**2) * g[:, None]
    assert go == pytest.approx(slopes.sum(axis=2), rel=1e-4, abs=1e-3)
    assert gu == pytest.approx(slopes.sum(axis=0), rel=1e-4, abs=1e-4)
    by_word = -(th * g[:, None]).sum(axis=0)
    assert gv == pytest.approx(by_word if target else by_word.sum(axis=1, keepdims=True), rel=1e-4, abs=1e-3)


def test_far_sums_are_plus_and_minus_one():
    """Where e^(2o) would be infinity or 0, and where a large o and a large u cancel."""
    o = np.array([[300.0, -300.0, 40.0]])
    u = np.array([[-1.0], [1.0], [-39.5]])
    A, B = energy.exp_twice(o), energy.exp_twice(u)
    v = np.ones((3, 1), np.float32)
    y = np.empty((1, 1), np.float32)
    energy.minus_energies(A, B, v, np.zeros(1, np.float32), 0, y)
    assert y[0, 0] - 3 == pytest.approx(-math.tanh(0.5), abs=1e-4)


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("target", [False, True])
def test_the_gradient_is_that_of_finite_differences(target, parts, sampled):
    """A step of a minibatch moves each parameter by epsilon times the slope of L, measured in double precision."""
    start = parameters(target)
    rows, w = minibatch(6)
    words, inclusion = np.arange(11), np.zeros(11, np.float32)
    if sampled:
        words = np.unique(np.concatenate((w, [0, 7])))
        inclusion = np.log(np.random.default_rng(3).uniform(0.2, 1, 11)).astype(np.float32)

    def likelihood(*theta):
        y = log_p(*theta, rows, words)
        if sampled:
            y = y - inclusion[words]
            targets = np.arange(6), np.searchsorted(words, w)
            y[targets] += inclusion[w]
        y = y - np.log(np.exp(y).sum(axis=1, keepdims=True))
        return y[np.arange(6), np.searchsorted(words, w)].sum()

    double = arrays(start)
    network = copied(start)
    L, _ = energy_sgd.step(
        network,
        full_pace(11, 11),
        (rows, w),
        (words, inclusion),
        Rates(1e-2),
        parts,
    )
    assert abs(L - likelihood(*double)) < 1e-3
    assert_step(likelihood, double, arrays(network), LETTERS)


def test_decay_is_on_weights_and_C_has_its_own_rate():
    start = parameters(True)
    rows, w = minibatch(4)
    once, decayed, fast = (copied(start) for _ in range(3))
    every = np.arange(11), np.zeros(11, np.float32)
    energy_sgd.step(once, full_pace(11, 11), (rows, w), every, Rates(0.01, 0, 1), 1)
    energy_sgd.step(decayed, full_pace(11, 11), (rows, w), every, Rates(0.01, 0.5, 1), 1)
    energy_sgd.step(fast, full_pace(11, 11), (rows, w), every, Rates(0.01, 0, 3), 1)
    for name in LETTERS:
        a, b, first = (getattr(x, name) for x in (once, decayed, start))
        assert b == pytest.approx(a if name in "db" else a - 4 * 0.01 * 0.5 * first, rel=1e-4, abs=1e-5), name
    assert pytest.approx(once.C - start.C, rel=1e-3, abs=1e-5) == (fast.C - start.C) / 3


@pytest.mark.parametrize("target", [False, True])
@pytest.mark.parametrize("pairs", [0, energy.PAIRS])
def test_scoring_is_the_papers_formula(texts, monkeypatch, target, pairs):
    """With the compiled kernels and without."""
    model = neural(texts, direct=False, model="energy", target_weights=target, epochs=9)
    monkeypatch.setattr(energy, "PAIRS", pairs)
    corpus = whole_corpus(str(texts / "held"), model.vocab, Marks())
    logp = model.score(corpus).logp
    rows = model.padded(contexts(corpus, model.order))
    theta = [x.tolist() for x in arrays(model.theta)]
    for t in np.flatnonzero(corpus.scored):
        p = naive.energy_forward(*theta, rows[t].tolist())
        assert sum(p) == pytest.approx(1)
        assert math.exp(logp[t]) == pytest.approx(p[corpus.ids[t]], rel=1e-5)


def settings(**changes):
    return small_models.settings(model="energy", target_weights=changes.pop("target_weights", False), **changes)


@pytest.mark.parametrize("more", [{}, {"target_weights": True}, {"objective": "sampled", "samples": 4}])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_that_was_cut_goes_on_to_the_same_bytes(texts, more, threads):
    made = settings(weight_decay=1e-3, **more)
    whole, _ = small_models.run(texts, made, threads=threads)
    for upto in (1, 9, 10):
        part, now = small_models.run(texts, made, upto, threads=threads)
        resumed = small_models.by_checkpoint(texts, part, now, made, *small_models.prepared(texts, made))
        again, _ = small_models.run(texts, made, progress=resumed, threads=threads)
        assert again.curve == whole.curve and again.best_epoch == whole.best_epoch, upto
        for name in LETTERS:
            assert (again.best.named()[name] == whole.best.named()[name]).all(), (upto, name)


def test_a_checkpoint_of_the_other_model_is_refused(texts):
    part, now = small_models.run(texts, small_models.settings(), 2)
    data, fresh = small_models.prepared(texts, settings())
    cycle = small_models.life(texts / "model", small_models.settings(), data, fresh.vocab)
    run.write_checkpoint(cycle, part, cycle.arrays(part, now))
    with pytest.raises(FormatError, match="-model differs"):
        run.resume(small_models.life(texts / "model", settings(), data, fresh.vocab), {}, {})


@pytest.mark.parametrize("more", [{}, {"target_weights": True}, {"objective": "sampled", "samples": 4}])
def test_training_learns(texts, more):
    made = settings(epochs=40, rate=0.1, decay=0.0, patience=40, **more)
    progress, _ = small_models.run(texts, made, heldout="train")
    held = [e.heldout_ppl for e in progress.curve]
    assert min(held) < held[0] * 0.7 and progress.best_epoch == held.index(min(held)) + 1


def test_a_likelihood_that_is_no_number_stops_training(texts):
    with pytest.raises(Diverged, match=r"epoch \d+, step \d+ \(learning rate .*, gradient norm "):
        small_models.run(texts, settings(rate=1e30, decay=0.0, weight_decay=0.0, minibatch=1))


def test_a_model_that_is_not_finite_stops_training(texts):
    """Even if the likelihood was finite before the last update."""
    made = settings(epochs=1, minibatch=1000)
    _, fresh = small_models.prepared(texts, made)
    progress = training.begin(fresh.having({"C": fresh.C * np.float32(1e30)}), made)
    with pytest.raises(Diverged, match="the model is not finite after epoch 1; try a lower -rate"):
        small_models.run(texts, made, progress=progress, heldout=None)


def test_order_1(texts):
    progress, _ = small_models.run(texts, settings(order=1))
    assert math.isfinite(progress.curve[-1].heldout)
