"""Several feature vectors a word: against their twin, gradients against differences, runs that go on, files."""

from itertools import islice

import naive
import numpy as np
import pytest
from small_models import by_checkpoint, neural, prepared, run, settings
from steps import Small, assert_step, minibatch, same

from lmtk.errors import FormatError
from lmtk.files import container
from lmtk.files.registry import load
from lmtk.nplm import dropout, features, senses, training

V, h, m, s = 11, 5, 3, 2


def parameters(model, direct):
    random = np.random.default_rng(1)
    words = 3 if model == "nplm" else 1
    shapes = (V + 1, s * m), (h, words * m), (h,), (V, h), (V, words * m), (V,), (h, h)
    C, H, d, U, W, b, R = (random.normal(0, 0.5, shape).astype(np.float32) for shape in shapes)
    return [C, H, d, U, W if direct else None, b, *([R] if model == "rnn" else [])]


@pytest.mark.parametrize("n1", [1, 2, 4])
def test_the_choice_is_that_of_the_twin(n1):
    C = parameters("nplm", False)[0] * 3
    contexts, _ = minibatch(6, n=n1 + 1)
    x, _ = senses.choose(C[contexts], m)
    for k, row in enumerate(contexts.tolist()):
        assert x[k] == pytest.approx(np.array(naive.of_senses(C.tolist(), s, row)), abs=1e-5)
        if n1 == 1:
            assert x[k, 0] == pytest.approx(C[row[0]].reshape(s, m).mean(axis=0), abs=1e-6)


@pytest.mark.parametrize("model", ["nplm", "rnn"])
@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("share", [0, 0.3])
def test_the_gradient_is_that_of_finite_differences(model, direct, share):
    theta, (contexts, w) = parameters(model, direct), minibatch(6)
    of_x, of_a = dropout.draw_factors([(6, 9), (6, 5)], share, np.random.default_rng(1))

    def likelihood(C, H, d, U, W, b, R=None):
        X = C[contexts].reshape(6, 3, s, m).astype(np.float64)
        v = X.mean(axis=2)
        e = np.exp(np.einsum("kism,kim->kis", X, v.sum(axis=1, keepdims=True) - v))
        x = np.einsum("kis,kism->kim", e / e.sum(axis=2, keepdims=True), X).reshape(6, -1) * of_x
        if R is None:
            a, seen = np.tanh(x @ H.T + d), x
        else:
            a, seen = 0, x[:, :m]
            for i in (2, 1, 0):
                a = np.tanh(x[:, i * m : (i + 1) * m] @ H.T + d + (a @ R.T if i < 2 else 0))
        y = (a * of_a) @ U.T + b + (seen @ W.T if direct else 0)
        return (y[np.arange(6), w] - np.log(np.exp(y).sum(axis=1))).sum()

    small = Small(theta, 2, "full", model, m=m)
    L, _ = small.step(contexts, w, 1e-2, factors=dropout.Factors(of_x, of_a) if share else dropout.NONE)
    assert pytest.approx(likelihood(*theta), abs=1e-3) == L
    shares = "HdR" if model == "rnn" else ""
    assert_step(likelihood, theta, small.arrays(), "CHdUWbR"[: len(theta)], every=2, shares=shares)


@pytest.mark.parametrize("model", [None, "rnn"])
def test_a_run_that_was_cut_goes_on_to_the_same_bytes(texts, model):
    made = settings(model=model, senses=3, order=4, dropout=0.1)
    whole, _ = run(texts, made)
    data, fresh = prepared(texts, made)
    part = training.begin(fresh, made)
    now = [now for _, _, now in islice(training.train(part, data, made, 1), 5)][-1]
    again, _ = run(texts, made, progress=by_checkpoint(texts, part, now(), made, data, fresh))
    assert same(again.best, whole.best) and again.curve == whole.curve


def test_a_file_says_how_many_senses_there_are(texts, tmp_path):
    model = neural(texts, senses=3, order=4)
    assert (model.senses, model.m, model.C.shape[1]) == (3, 3, 9)
    kind, about, arrays, words = model.parts()
    path = str(tmp_path / "m")
    for columns in (9, 8):
        with open(path, "wb") as out:
            container.write(out, kind, about, arrays | {"C": arrays["C"][:, :columns]}, words)
        if columns == 9:
            assert same(load(path), model)
        else:
            with pytest.raises(FormatError, match="array C"):
                load(path)


def test_senses_have_names_and_rows_of_their_own(texts):
    model = neural(texts, senses=2, order=3)
    C, vocab = features.senses_of(model)
    i = model.vocab.index[b"cat"]
    assert vocab.words[2 * i : 2 * i + 2] == [b"cat/1", b"cat/2"] and vocab.index[b"cat/2"] == 2 * i + 1
    assert (C[2 * i + 1] == model.C[i, 3:]).all()
