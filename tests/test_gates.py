"""Layers with gates, whose state goes on through a text: against their twins, gradients, runs that go on, scoring."""

from dataclasses import replace
from itertools import islice, pairwise
from types import SimpleNamespace

import naive
import numpy as np
import pytest
from helpers import TRAIN
from small_models import by_checkpoint, neural, prepared, run, settings
from steps import Small, assert_step, same

from lmtk import units
from lmtk.machine import blas
from lmtk.machine.parallel import ALONE
from lmtk.nplm import dropout, kernels, objectives, running, training
from lmtk.nplm import model as scoring
from lmtk.nplm.layers import LAYERS, Batch
from lmtk.nplm.recipes import make_settings
from lmtk.text.corpus import Marks, whole_corpus

STEP = {"gru": naive.gated_unit, "lstm": naive.lstm}
T, B, V, h, m = 3, 2, 11, 4, 3


def parameters(model, direct):
    random = np.random.default_rng(1)
    g = {"gru": 3, "lstm": 4}[model] * h
    shapes = (V + 1, m), (g, m), (g,), (V, h), (V, m), (V,), (g, h)
    C, H, d, U, W, b, R = (random.normal(0, 0.5, shape).astype(np.float32) for shape in shapes)
    return C, H, d, U, W if direct else None, b, R


def begun(model):
    """Inputs (T B, 1), time by time, and a Given: a state, and a word before which nothing stands."""
    random = np.random.default_rng(2)
    state = random.normal(0, 0.5, (B, LAYERS[model].width(h))).astype(np.float32)
    fresh = np.zeros(T * B, bool)
    fresh[B + 1] = True
    inputs = random.integers(0, V + 1, (T * B, 1))
    inputs[4] = inputs[1]
    return inputs, Batch([B] * T, state, fresh)


def activations(model, C, H, R, d, inputs, batch):
    """a (T B, h) by the twin."""
    actual = np.zeros((T, B, h))
    G, gates = C[inputs[:, 0]] @ H.T + d, len(d) - h
    S, U = R[:gates].T.tolist(), R[gates:].T.tolist()
    for row in range(B):
        state = batch.state[row].tolist()
        for t in range(T):
            state = [0.0] * len(state) if batch.fresh[t * B + row] else state
            state = STEP[model](G[t * B + row].tolist(), state, S, U)
            actual[t, row] = state[:h]
    return actual.reshape(T * B, h)


@pytest.mark.parametrize("model", STEP)
def test_the_activations_are_those_of_the_twin(model):
    C, H, d, *_, R = parameters(model, False)
    inputs, batch = begun(model)
    words, at = kernels.distinct_ids(inputs, V + 1)
    assert len(words) < len(inputs)
    a, _, state = LAYERS[model].forward(SimpleNamespace(H=H, d=d, R=R), C[words, None], replace(batch, at=at))
    assert a == pytest.approx(activations(model, C, H, R, d, inputs, batch), abs=1e-5)
    assert (state[:, :h] == a[-B:]).all()


@pytest.mark.parametrize("model", STEP)
@pytest.mark.parametrize("output", ["full", "sampled"])
@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("again", [False, True])
def test_the_gradient_is_that_of_finite_differences(model, output, direct, again):
    """Through three words of two rows, one of them only to be read; whether a word comes again or not."""
    theta, (inputs, batch) = parameters(model, direct), begun(model)
    if not again:
        inputs[:, 0] = 4, 0, 7, 1, 11, 5
    w = np.array([1, 5, 3, -1, 10, 0])
    counted = w >= 0

    def likelihood(C, H, d, U, W, b, R):
        a = activations(model, C, H, R, d, inputs, batch)
        y = (a @ U.T + b + (C[inputs[:, 0]] @ W.T if direct else 0))[counted]
        return (y[np.arange(len(y)), w[counted]] - np.log(np.exp(y).sum(axis=1))).sum()

    small = Small(theta, 2, output, model)
    sample = (np.arange(V), np.zeros(V, np.float32)) if output == "sampled" else ()
    L, _ = small.step(inputs, w, 1e-2, *sample, batch=batch)
    assert pytest.approx(likelihood(*theta), abs=1e-3) == L
    assert_step(likelihood, theta, small.arrays(), "CHdUWbR", every=3)


@pytest.mark.parametrize("model", STEP)
@pytest.mark.parametrize("of_units", [False, True])
def test_the_gradient_with_dropped_words_and_weights(model, of_units):
    """All steps of a minibatch have the same words and recurrent weights left out."""
    theta, (inputs, batch) = parameters(model, True), begun(model)
    w, random = np.array([1, 5, 3, 7, 10, 0]), np.random.default_rng(3)
    of_x, of_a = dropout.draw_factors([(T * B, m), (T * B, h)], 0.3 if of_units else 0, random)
    words, of_R = dropout.draw_factors([(V + 1,), theta[-1].shape], 0.4, random)
    words[inputs[1]] = 0

    def likelihood(C, H, d, U, W, b, R):
        x = (C * words[:, None])[inputs[:, 0]] * of_x
        a = activations(model, x, H, R * of_R, d, np.arange(T * B)[:, None], batch)
        y = (a * of_a) @ U.T + b + x @ W.T
        return (y[np.arange(len(y)), w] - np.log(np.exp(y).sum(axis=1))).sum()

    small = Small(theta, 2, "full", model)
    units_too = (of_x, of_a) if of_units else (None, None)
    L, _ = small.step(inputs, w, 1e-2, factors=dropout.Factors(*units_too, words, {"R": of_R}), batch=batch)
    assert pytest.approx(likelihood(*theta), abs=1e-3) == L
    assert_step(likelihood, theta, small.arrays(), "CHdUWbR", every=3)


@pytest.mark.parametrize("model", STEP)
@pytest.mark.parametrize("share", [0, 0.4])
def test_the_gradient_through_a_stack(model, share):
    """The second layer reads the activations of the first; dropout is between them too, and in R of both."""
    layer, (inputs, batch), random = LAYERS[f"{model}-2"], begun(model), np.random.default_rng(3)
    shapes = {"C": (V + 1, m)} | layer.shapes(2, m, h) | {"U": (V, h), "W": (V, m), "b": (V,)}
    theta = {name: random.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    states = random.normal(0, 0.5, (2, *batch.state.shape)).astype(np.float32)
    x, a, between = dropout.draw_factors([(T * B, m), (T * B, h), (T * B, h)], share, random)
    R, R2 = dropout.draw_factors([theta["R"].shape] * 2, share, random)
    w = np.array([1, 5, 3, 7, 10, 0])

    def likelihood(*arrays):
        p, each = SimpleNamespace(**dict(zip(theta, arrays))), np.arange(T * B)[:, None]
        below, above = (replace(batch, state=state) for state in states)
        features = p.C[inputs[:, 0]] * x
        first = activations(model, features, p.H, p.R * R, p.d, each, below)
        second = activations(model, first * between, p.H2, p.R2 * R2, p.d2, each, above)
        y = (second * a) @ p.U.T + p.b + features @ p.W.T
        return (y[np.arange(len(y)), w] - np.log(np.exp(y).sum(axis=1))).sum()

    small = Small(theta, 2, "full", f"{model}-2")
    factors = dropout.Factors(x, a, None, {"R": R, "R2": R2}, [between]) if share else dropout.NONE
    L, _ = small.step(inputs, w, 1e-2, factors=factors, batch=replace(batch, state=np.concatenate(states, axis=1)))
    assert pytest.approx(likelihood(*theta.values()), abs=1e-3) == L
    assert_step(likelihood, list(theta.values()), small.arrays(), small.names, every=5)


@pytest.mark.parametrize("unit", [units.GATED, units.LSTM], ids=lambda unit: unit.name)
def test_compiled_and_plain_units_agree(unit, large_from):
    random, k, n = np.random.default_rng(1), 5, 19
    shapes = (k, unit.gates * n), (k, n), (k, unit.width * n), (n, n)
    zr, t, s, U = (random.normal(0, 3, shape).astype(np.float32) for shape in shapes)
    zr[0], t[0] = 200, -200  # no overflow
    outcomes = []
    for least in (1, 1 << 30):
        large_from(least, "units")
        gates, proposed = zr.copy(), t.copy()
        new, kept = np.empty_like(s), np.empty_like(proposed)
        unit.step(gates, proposed, s, U, None, new, kept)
        outcomes.append([new, kept, gates, proposed])
    for a, b in zip(*outcomes, strict=True):
        assert a == pytest.approx(b, abs=2e-6)


@pytest.mark.parametrize("model", ["gru", "lstm"])
def test_a_minibatch_without_a_word_to_predict_is_read(model, texts):
    made = settings(model=model, minibatch=1, order=1)
    data, fresh = prepared(texts, made)
    w = np.where(np.arange(len(data.w)) == 1, -1, data.w)
    learner = objectives.make_learner(fresh, replace(data, w=w), made, 1, ALONE)
    states = []
    for i in range(3):
        learner.steps([running.minibatch_places(len(w), made, i)], [0.01], 0, [i])
        states.append(learner.state()["state"].copy())
    assert not np.allclose(states[0], states[1]) and not np.allclose(states[1], states[2])


@pytest.mark.parametrize("unit", units.UNITS.values(), ids=units.UNITS)
@pytest.mark.parametrize("least", [1, 1 << 30])
def test_no_unit_hides_nan(unit, least, large_from):
    large_from(least, "units")
    large_from(least, "states")
    n = 4
    G, b = np.zeros((1, (unit.gates + 1) * n), np.float32), np.zeros((unit.gates + 1) * n, np.float32)
    S, U = np.zeros((n, unit.gates * n), np.float32), np.zeros((n, n), np.float32)
    G[0, 1] = np.nan
    a, _, last = units.follow(unit, (G, np.zeros(6, int), b), [2, 2, 2], (S, U))
    assert np.isnan(a[:, 1]).all() and np.isnan(last).any()


@pytest.mark.parametrize("unit", units.UNITS.values(), ids=units.UNITS)
def test_threads_share_sequences(unit, monkeypatch):
    monkeypatch.setattr(blas, "SHARE", 1)
    random, n, sizes = np.random.default_rng(1), 4, [7, 7, 4, 2]
    P = sum(sizes)
    d, at = (unit.gates + 1) * n, random.integers(0, 9, P)
    shapes = (9, d), (d,), (n, unit.gates * n), (n, n), (7, unit.width * n), (P, n)
    G, b, S, U, state, ga = (random.normal(0, 1, shape) for shape in shapes)
    fresh, outcomes = np.arange(P) == 9, []
    for threads in (1, 3):
        gS, gU = np.empty_like(S), np.empty_like(U)
        a, memory, last = units.follow(unit, (G, at, b), sizes, (S, U), state, fresh, threads)
        gG = units.follow_back(unit, ga, sizes, (S, U), memory, threads)
        blas.products(threads, *units.weight_products(unit, memory, gG, gS, gU))
        outcomes.append([a, last, gG, gS, gU])
    for one, three in zip(*outcomes, strict=True):
        assert one.shape == three.shape
        assert one == pytest.approx(three, abs=1e-12)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("n", [19, 24, 192])
@pytest.mark.parametrize("unit", [units.GATED, units.LSTM], ids=lambda unit: unit.name)
def test_all_steps_at_once_are_one_after_another(unit, n, threads, begun, monkeypatch, large_from):
    """The kernels over all steps, with products from inside of them, against steps that Python calls."""
    monkeypatch.setattr(blas, "SHARE", 1)
    large_from(1, "states")
    random, sizes = np.random.default_rng(1), [40, 40, 33, 8]
    P, d = sum(sizes), unit.gates * n
    at = random.integers(0, 60, P)
    shapes = (60, d + n), (d + n,), (n, d), (n, n), (40, unit.width * n), (P, n)
    scales = 1, 1, 0.1, 0.1, 1, 1
    values = zip(scales, shapes)
    G, b, S, U, state, ga = (random.normal(0, scale, shape).astype(np.float32) for scale, shape in values)
    fresh, outcomes = random.random(P) < 0.1 if begun else None, []
    for go, back in ((unit.run, unit.run_back), (None, None)):
        replaced, gS, gU = replace(unit, run=go, run_back=back), np.empty_like(S), np.empty_like(U)
        assert bool(units.whole_run(replaced, S, U, np.empty((P, n), np.float32))) == (go is not None)
        a, memory, last = units.follow(replaced, (G, at, b), sizes, (S, U), state if begun else None, fresh, threads)
        gG = units.follow_back(replaced, ga, sizes, (S, U), memory, threads)
        blas.products(threads, *units.weight_products(replaced, memory, gG, gS, gU))
        outcomes.append([a, last, gG, gS, gU, *memory[:4]])
    for one, other in zip(*outcomes, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("first", [0, 3])
@pytest.mark.parametrize("N, minibatch, order", [(24, 8, 4), (25, 8, 4), (7, 8, 3), (5, 2, 4), (1, 4, 2)])
def test_minibatches_are_rows_of_the_text(N, minibatch, order, first):
    """Each word comes once, and a row goes on where it ended. The text is a circle, and row 1 begins at `first`."""
    made = settings(minibatch=minibatch, order=order)
    numbers, B = range(-(-N // running.minibatch_size(made))), running.minibatch_shape(made)[1]
    rows = np.concatenate([running.minibatch_places(N, made, number, first).reshape(-1, B) for number in numbers])
    before, after = rows[:-1], rows[1:]
    assert rows[0, 0] == first % N
    assert (after == np.where(before == N - 1, 0, before + 1))[after < N].all()
    assert sorted(rows[rows < N]) == list(range(N))


@pytest.mark.parametrize(("minibatch", "rounded"), [(20, 20), (32, 32), (40, 32), (1000, 992)])
def test_a_minibatch_is_rounded_to_whole_rows(minibatch, rounded):
    options = {"model": "lstm", "minibatch": minibatch, "hidden": 2, "features": 2, "direct": False, "seed": 1}
    assert make_settings(options, False, 10).minibatch == rounded


def test_a_run_out_of_time_counts_the_words_that_it_has_read(texts):
    """Rows of a text differ in length, so that a minibatch before the last has steps without a word."""
    made = settings(model="gru", minibatch=16, order=2)
    data, fresh = prepared(texts, made)
    data = replace(data, **{name: getattr(data, name)[:25] for name in ("contexts", "w", "fresh")})
    steps = [training.Progress(fresh, step=step) for step in range(1, training.count_steps(data, made) + 1)]
    assert [training.count_scored(data, made, progress) for progress in steps] == [13, 25]


@pytest.mark.parametrize("rows", [1, 2, 4])
@pytest.mark.parametrize(
    "more", [{"model": "gru"}, {"model": "gru-3"}, {"model": "lstm", "tied": True, "hidden": 3, "samples": 3}]
)
def test_a_run_that_was_cut_goes_on_to_the_same_bytes(texts, rows, more):
    """Between epochs and in the middle, where rows have their states."""
    more = more | {"minibatch": 3 * rows, "objective": "sampled" if "tied" in more else "full"}
    made = settings(weight_decay=1e-3, dropout=0.2, word_dropout=0.3, weight_dropout=0.4, **more)
    whole, _ = run(texts, made)
    for upto in (1, 5, 8, 9):
        data, fresh = prepared(texts, made)
        part = training.begin(fresh, made)
        now = [now for _, _, now in islice(training.train(part, data, made, 1), upto)][-1]
        again, _ = run(texts, made, progress=by_checkpoint(texts, part, now(), made, data, fresh))
        assert same(again.best, whole.best) and again.curve == whole.curve, upto


@pytest.mark.parametrize("stream", [False, True])
def test_scoring_in_stretches(texts, monkeypatch, stream):
    """A sentence gets the same alone and among others; stretches with enough words before them, the same but for
    little."""
    marks = Marks.from_options(False, False, stream)
    model = neural(texts, marks, model="lstm", order=30, minibatch=60)
    (texts / "held").write_text(TRAIN * 3)
    corpus = whole_corpus(str(texts / "held"), model.vocab, marks)
    whole = model.score(corpus).logp
    if not stream:
        for begin, end in pairwise(corpus.starts):
            (texts / "one").write_bytes(b" ".join(model.vocab.words[i] for i in corpus.ids[begin:end]))
            alone = model.score(whole_corpus(str(texts / "one"), model.vocab, marks)).logp
            assert whole[begin:end] == pytest.approx(alone, abs=1e-5)
    # in many groups, whose outputs come in several lots
    monkeypatch.setattr(running, "WORDS", 100)
    monkeypatch.setattr(scoring, "MANY", 150)
    assert model.score(corpus).logp == pytest.approx(whole, abs=1e-5)
    monkeypatch.setattr(running, "LENGTH", 7)
    assert model.score(corpus).logp == pytest.approx(whole, abs=2e-3)


def test_the_words_after_a_context_have_the_probabilities_of_a_text_without_marks(texts):
    """Both begin with the state after <s>."""
    model = neural(texts, Marks.from_options(False, False, True), model="lstm", order=30, minibatch=60)
    corpus = whole_corpus(str(texts / "held"), model.vocab, Marks.from_options(False, False, True))
    logp = model.after_each([corpus.ids[:i].tolist() for i in range(len(corpus.ids))])
    assert logp[np.arange(len(logp)), corpus.ids] == pytest.approx(model.score(corpus).logp, abs=1e-5)


@pytest.mark.parametrize("model", STEP)
def test_it_learns_from_farther_back_than_its_last_word(texts, model):
    """After "a" comes what stood two words before it."""
    random = np.random.default_rng(1)
    (texts / "train").write_text("".join(f"{w} {v} a {w}\n" for w, v in random.choice(list("xyz"), (400, 2))))
    made = settings(model=model, order=6, hidden=8, rate=0.05, epochs=30, minibatch=24)
    data, fresh = prepared(texts, made, None)
    progress = training.begin(fresh, made)
    for _ in training.train(progress, data, made, 1):
        pass
    text = whole_corpus(str(texts / "train"), fresh.vocab, Marks())
    logp = progress.best.score(text).logp.reshape(400, 6)
    assert np.exp(logp[:, 4]).min() > 0.9
