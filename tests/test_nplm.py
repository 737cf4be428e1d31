"""The network: kernels against their twins, gradients against differences, training against the paper's own update."""

import dataclasses
import math
import subprocess
import sys
from itertools import product

import naive
import numpy as np
import pytest
from helpers import TRAIN
from small_models import by_checkpoint, life, neural, prepared, run, settings
from steps import Small, assert_step, minibatch, parameters, same

from lmtk import run as lifecycle
from lmtk.commands.nplm_train import OPTIONS
from lmtk.errors import Diverged, FormatError, LmtkError
from lmtk.exponential import exp_outputs, exp_rows, exp_rows_plain
from lmtk.files import curve
from lmtk.files.registry import BINARY, load
from lmtk.jobs.progress import Reporter
from lmtk.jobs.training import Life
from lmtk.machine import blas
from lmtk.machine.blas import add_product
from lmtk.machine.parallel import ALONE
from lmtk.nplm import dropout, objectives, pace, single, training
from lmtk.nplm import model as scoring
from lmtk.nplm.layers import LAYERS
from lmtk.nplm.network import kind_of
from lmtk.text import corpus as corpora
from lmtk.text.corpus import Marks, whole_corpus
from lmtk.text.vocab import make_vocab


@pytest.mark.parametrize("exp_rows", [exp_rows, exp_rows_plain])
def test_exp_rows(exp_rows):
    y = np.random.default_rng(1).normal(0, 20, (7, 300)).astype(np.float32)
    (q, s), actual = np.empty((2, 7), np.float32), y.copy()
    exp_rows(actual, q, s)
    assert (q == y.max(axis=1)).all()
    expected = np.exp((y - q[:, None]).astype(np.float64))
    assert actual == pytest.approx(expected, rel=4e-7, abs=2e-38)
    assert s == pytest.approx(expected.sum(axis=1), rel=1e-5)


@pytest.mark.parametrize("log_c", [None, np.linspace(-9, 0, 300).astype(np.float32)])
def test_exp_outputs(log_c):
    random = np.random.default_rng(1)
    y, left_out = random.normal(0, 20, (7, 300)).astype(np.float32), np.array([0, 299, -1, 300, 5, 6, 7])
    (q, s), t, actual = np.empty((2, 7), np.float32), np.full(7, -np.inf, np.float32), y.copy()
    exp_outputs(actual, q, s, left_out, log_c, t)
    inside, left = (left_out >= 0) & (left_out < 300), y.copy() if log_c is None else y - log_c
    left[inside, left_out[inside]] = y[inside, left_out[inside]]
    assert (t == np.where(inside, y[range(7), left_out % 300], -np.inf)).all()
    assert q == pytest.approx(left.max(axis=1))
    assert actual == pytest.approx(np.exp((left - q[:, None]).astype(np.float64)), rel=4e-7, abs=2e-38)
    assert s == pytest.approx(actual.sum(axis=1), rel=1e-5)


@pytest.mark.parametrize("value", [np.nan, -np.nan, np.inf])
def test_exp_outputs_hide_nothing(value):
    y = np.zeros((3, 40), np.float32)
    y[1, 7] = value
    (q, s), t = np.empty((2, 3), np.float32), np.empty(3, np.float32)
    exp_outputs(y, q, s, np.full(3, -1), None, t)
    assert s[[0, 2]] == pytest.approx(40) and not np.isfinite(s[1])
    exp_rows(np.empty((3, 0), np.float32), q, s)
    assert (q == -np.inf).all() and (s == 0).all()


@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_add_product(beta):
    random = np.random.default_rng(1)
    A, B, M = (random.normal(size=shape).astype(np.float32) for shape in ((4, 3), (4, 9), (3, 9)))
    for a, order in product((A, np.asfortranarray(A)), "CF"):  # the library's path and numpy's
        actual = M.copy(order)
        add_product(0.3, a, B, beta, actual)
        assert actual == pytest.approx(beta * M + 0.3 * A.T @ B, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("layout", ["rows", "columns", "rows with gaps", "columns with gaps", "reversed"])
def test_add_product_takes_any_layout(layout):
    random = np.random.default_rng(1)

    def made(rows, columns):
        a = random.standard_normal((rows, columns)).astype(np.float32)
        wide, tall = np.zeros((2 * rows, 2 * columns), np.float32), np.zeros((2 * columns, 2 * rows), np.float32)
        wide[:rows, :columns], tall[:columns, :rows] = a, a.T
        layouts = {"rows": a, "columns": np.asfortranarray(a), "reversed": a[::-1].copy()[::-1]}
        layouts |= {"rows with gaps": wide[:rows, :columns], "columns with gaps": tall[:columns, :rows].T}
        return layouts[layout]

    for K, D, V in product((1, 3), (1, 4), (0, 1, 5)):
        A, B, M = made(K, D), made(K, V), made(D, V)
        expected = 0.5 * M + 2 * A.T @ B
        add_product(2.0, A, B, 0.5, M)
        assert np.allclose(M, expected, atol=1e-5)


@pytest.mark.parametrize("by_blas", [True, False])
@pytest.mark.parametrize("K, N", [(1, 1), (3, 16), (100, 400), (257, 33), (64, 47)])
def test_factors_in_kernels(K, N, by_blas):
    """`multiply`, for any number of rows; it writes nothing else."""
    random = np.random.default_rng(1)
    M = random.normal(size=(K, N)).astype(np.float32)
    for rows in range(20):
        X, out = (random.normal(size=(rows, n + 5)).astype(np.float32) for n in (K, N))
        wanted = np.hstack((X[:, :K] @ M, out[:, N:]))
        blas.multiply(blas.address() if by_blas else 0, X[:, :K], M, out)
        assert out == pytest.approx(wanted, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_one_example_is_the_update_of_section_3_2(direct, parts):
    """K = 1, no decay: every parameter as the paper's loops leave it, whatever the number of blocks."""
    theta = parameters(direct=direct)
    contexts, w = minibatch(1)
    expected = [x.astype(float).tolist() if x is not None else None for x in theta]
    logp = naive.update(*expected, contexts[0].tolist(), int(w[0]), 0.1)
    small = Small(theta, parts)
    L, _ = small.step(contexts, w, 0.1)
    assert abs(L - logp) < 1e-4
    for actual, wanted in zip(small.arrays(), expected, strict=True):
        assert (actual is None) == (wanted is None)
        if actual is not None:
            assert actual == pytest.approx(np.array(wanted), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("direct, hidden", [(True, 0), (True, 5), (False, 5)])
@pytest.mark.parametrize("share", [0, 0.3])
def test_the_gradient_is_that_of_finite_differences(direct, hidden, share):
    """A step of a minibatch moves each parameter by epsilon times the slope of L, measured in double precision."""
    theta = parameters(h=hidden, direct=direct)
    contexts, w = minibatch(6)
    of_x, of_a, of_words = dropout.draw_factors([(6, 9), (6, hidden), (12,)], share, np.random.default_rng(1))

    def likelihood(C, H, d, U, W, b):
        x = (C * of_words[:, None])[contexts].reshape(len(w), -1) * of_x
        y = (np.tanh(x @ H.T + d) * of_a) @ U.T + b + (x @ W.T if W is not None else 0)
        return (y[np.arange(len(w)), w] - np.log(np.exp(y).sum(axis=1))).sum()

    small = Small(theta, 2)
    L, _ = small.step(contexts, w, 1e-2, factors=dropout.Factors(of_x, of_a, of_words) if share else dropout.NONE)
    assert abs(L - likelihood(*theta)) < 1e-3
    assert_step(likelihood, theta, small.arrays(), "CHdUWb")


def test_weight_decay_is_on_weights_and_not_on_biases():
    theta = parameters()
    contexts, w = minibatch(4)
    with_decay, without = Small(theta, 2, decay=0.5), Small(theta, 2)
    for small in (without, with_decay):
        small.step(contexts, w, 0.01)
    for name, start, a, b in zip("CHdUWb", theta, without.arrays(), with_decay.arrays(), strict=True):
        expected = a if name in "db" else a - 4 * 0.01 * 0.5 * start
        assert b == pytest.approx(expected, rel=1e-4, abs=1e-5), name


def test_dropout_leaves_out_a_share_and_keeps_the_sum():
    a, b = dropout.draw_factors([(400, 50), (3, 0)], 0.25, np.random.default_rng(1))
    assert np.unique(a) == pytest.approx([0, 4 / 3]) and a.dtype == np.float32 and b.shape == (3, 0)
    assert a.mean() == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("objective", ["full", "sampled", "nce", "class", "tree"])
def test_dropout_is_in_training_and_a_cut_run_goes_on_with_the_same(texts, objective):
    samples = 3 if objective in ("sampled", "nce") else None
    made = settings(dropout=0.5, objective=objective, samples=samples)
    whole, _ = run(texts, made)
    part, now = run(texts, made, 9)
    again, _ = run(texts, made, progress=dataclasses.replace(part, network=now))
    without, _ = run(texts, dataclasses.replace(made, dropout=None))
    assert (again.best.C == whole.best.C).all() and (whole.best.C != without.best.C).any()


def test_feature_rate_is_the_rate_of_C_alone():
    theta = parameters()
    contexts, w = minibatch(4)
    once, fast = Small(theta), Small(theta, feature_rate=3)
    for small in (once, fast):
        small.step(contexts, w, 0.01)
    (C, *once), (C_fast, *fast) = once.arrays(), fast.arrays()
    assert C_fast - theta[0] == pytest.approx(3 * (C - theta[0]), rel=1e-4, abs=1e-6)
    assert all((a == b).all() for a, b in zip(once, fast, strict=True))


def test_outputs_far_apart_do_not_overflow():
    theta = list(parameters())
    theta[5] = np.linspace(-1e4, 1e4, 11).astype(np.float32)
    contexts, w = minibatch(3)
    L, _ = Small(theta, 2).step(contexts, w, 0)
    assert math.isfinite(L) and L < -1000


def test_a_block_may_have_no_share_of_the_sum():
    """The words of its outputs are less likely by more than float32 can say."""
    theta = list(parameters())
    theta[5] = np.where(np.arange(11) < 6, 0, -200).astype(np.float32)
    contexts, w = minibatch(3)
    w[:] = 0, 7, 10
    one, two = Small(theta, 1), Small(theta, 2)
    for small in one, two:
        small.step(contexts, w, 0.1)
    for a, b in zip(one.arrays(), two.arrays(), strict=True):
        assert np.isfinite(b).all() and b == pytest.approx(a, abs=1e-5)


def test_a_last_block_may_be_smaller():
    small = Small(parameters(), 3)
    assert [(block.start, block.size) for block in small.rows.blocks] == [
        (0, 2),
        (2, 2),
        (4, 2),
        (6, 2),
        (8, 2),
        (10, 1),
    ]
    for a, b in zip(small.arrays(), parameters(), strict=True):
        assert (a == b).all()


def test_rates():
    made = settings(rate=0.1, decay=0.5)
    assert training.learning_rate(made, 0, 0) == 0.1 and training.learning_rate(made, 4, 0.04) == pytest.approx(0.1 / 3)
    made = settings(rate=0.1)
    assert [training.learning_rate(made, t, t / 100) for t in (0, 50, 99)] == pytest.approx([0.1, 0.05, 0.001])


def test_the_heldout_perplexity_is_that_of_ppl(texts):
    progress, _ = run(texts, settings())
    from lmtk.reports.srilm import report
    from lmtk.text.corpus import read_corpus

    out = []
    corpora = read_corpus(str(texts / "held"), progress.best.vocab, Marks())
    report(progress.best, "held", corpora, 0, out.append)
    assert f"ppl= {progress.curve[progress.best_epoch - 1].heldout_ppl:.5g}"[:-1] in out[-1].decode()


@pytest.mark.parametrize("marks", [Marks(), Marks(stream=True), Marks(sos=False)])
@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_contexts_made_as_they_are_asked_for_are_those_of_the_text(texts, marks, n):
    vocab = make_vocab(sorted(set(TRAIN.encode().split())), True, marks.eos)
    corpus = whole_corpus(str(texts / "train"), vocab, marks)
    at = np.flatnonzero(corpus.scored)
    rows = corpora.contexts(corpus, n)[at]
    actual = training.Windows(corpus, at, n, vocab.sos_id)
    assert (actual[np.arange(len(at))] == np.where(rows < 0, vocab.sos_id, rows)).all() and len(actual) == len(at)
    assert (np.concatenate(list(pace.split_contexts(actual))) == actual[:]).all()
    assert actual[:].dtype == np.int32


@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_that_was_cut_goes_on_to_the_same_bytes(texts, threads):
    made = settings(weight_decay=1e-3, direct=True)
    whole, _ = run(texts, made, threads=threads)
    for upto in (1, 5, 9, 10, 17):
        part, now = run(texts, made, upto, threads=threads)
        resumed = by_checkpoint(texts, part, now, made, *prepared(texts, made))
        again, _ = run(texts, made, progress=resumed, threads=threads)
        assert again.curve == whole.curve and again.best_epoch == whole.best_epoch, upto
        assert same(again.best, whole.best), upto


@pytest.mark.parametrize("upto", [1, 2, 4])
def test_a_run_with_several_updates_in_a_call_goes_on_to_the_same_bytes(texts, upto, monkeypatch):
    monkeypatch.setattr(objectives, "TOGETHER", 7)
    made = settings(weight_decay=1e-5, minibatch=1)
    whole, _ = run(texts, made)
    part, now = run(texts, made, upto)
    N = len(prepared(texts, made)[0].w)
    assert part.step == min(7 * upto, N) % N
    resumed = by_checkpoint(texts, part, now, made, *prepared(texts, made))
    again, _ = run(texts, made, progress=resumed, threads=2)
    assert again.curve == whole.curve and same(again.best, whole.best)


def test_a_call_has_little_weight_decay_and_little_work(texts, monkeypatch):
    """Else updates of a call would lack the decay of those before them, or a signal would have to wait."""
    monkeypatch.setattr(objectives, "WORK", 1 << 15)

    def together(**changes):
        made = settings(minibatch=1, **changes)
        data, fresh = prepared(texts, made)
        return objectives.make_learner(fresh, data, made, 1, ALONE).together

    size = single.B * 4  # of M with 4 hidden units
    assert together() == 32 == objectives.WORK // size
    assert together(weight_decay=2e-5) == 15 == int(objectives.LEAST_DECAY / (0.1 * 2e-5))
    assert together(weight_decay=2e-5, feature_rate=5.0) == 3 and together(weight_decay=0.1) == 1
    assert together(hidden=4000) == 1


@pytest.mark.parametrize("failing", ["update_all", "visit_for_leader"])
def test_threads_of_a_call_do_not_wait_for_one_that_failed(failing):
    """In a process of its own, since threads that wait for ever would keep this one from ending."""
    code = f"""
from types import SimpleNamespace
import numpy as np
from lmtk.nplm import single

def fail(*_):
    raise MemoryError("{failing}")

single.{failing} = fail
zeros = lambda *shape: np.zeros(shape, np.float32)
layer = single.Layer(SimpleNamespace(U=zeros(1000, 2), W=None, b=zeros(1000), b_low=zeros(1000)))
hidden, words = (zeros(1000, 3), zeros(2, 6), zeros(2)), np.zeros(5, np.int64)
single.update_in_turn(layer, hidden, np.zeros((5, 2), np.int32), words, np.full((5, 2), 0.1), 3)"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.stderr.endswith(f"\nMemoryError: {failing}\n")


def test_a_call_that_diverges_names_the_update(texts):
    with pytest.raises(Diverged, match=r"epoch 1, step 3 \(learning rate 1e\+30, "):
        run(texts, settings(minibatch=1, rate=1e30, decay=0.0))


def test_a_checkpoint_of_another_run_is_refused(texts):
    made = settings()
    part, now = run(texts, made, 2)
    data, fresh = prepared(texts, made)
    cycle = life(texts / "model", made, data, fresh.vocab)
    lifecycle.write_checkpoint(cycle, part, cycle.arrays(part, now))
    other = life(texts / "model", settings(weight_decay=0.1), data, fresh.vocab)
    with pytest.raises(FormatError, match="-weight-decay differs"):
        lifecycle.resume(other, {}, {})
    other = life(texts / "model", made, prepared(texts, made, "train")[0], fresh.vocab)
    with pytest.raises(FormatError, match="-text or -heldout differs"):
        lifecycle.resume(other, {}, {})


def test_blocks_change_rounding_only(texts):
    one, _ = run(texts, settings())
    three, _ = run(texts, settings(), threads=3)
    assert pytest.approx(one.best.theta.U, abs=1e-4) == three.best.theta.U


def test_training_learns_and_keeps_the_best(texts):
    progress, _ = run(texts, settings(epochs=30, rate=0.3, decay=0.0, patience=30), heldout="train")
    assert progress.curve[-1].ppl < progress.curve[0].ppl / 2
    held = [e.heldout for e in progress.curve]
    assert progress.best_epoch == held.index(max(held)) + 1


def test_patience(texts):
    (texts / "odd").write_text("mat mat mat\n")
    made = settings(epochs=50, rate=0.3, patience=2)
    data, fresh = prepared(texts, made, "odd")
    progress, cycle = training.Progress(fresh), life(texts / "model", made, data, fresh.vocab)
    lifecycle.run_training(cycle, progress, training.train(progress, data, made, 1), Reporter(cycle, progress, Life()))
    assert progress.epoch == progress.best_epoch + 2 < 50
    assert load(cycle.model).settings["curve"] == curve.rows(progress.curve, curve.TIMES)


def test_a_likelihood_that_is_no_number_stops_training(texts):
    with pytest.raises(Diverged, match=r"epoch \d+, step \d+ \(learning rate .*, gradient norm "):
        run(texts, settings(rate=1e30, decay=0.0, weight_decay=0.0, minibatch=1))


def test_order_1_and_no_hidden_units(texts):
    for changes in ({"order": 1}, {"hidden": 0, "direct": True}):
        progress, _ = run(texts, settings(**changes))
        assert math.isfinite(progress.curve[-1].heldout)


def test_scoring_is_the_papers_formula(texts):
    model = neural(texts)
    corpus = whole_corpus(str(texts / "held"), model.vocab, Marks())
    from lmtk.text.corpus import contexts

    logp = model.score(corpus).logp
    rows = model.padded(contexts(corpus, model.order))
    theta = [model.named()[name].astype(float).tolist() for name in "CHdUWb"]
    for t in np.flatnonzero(corpus.scored):
        p, _, _ = naive.forward(*theta, rows[t].tolist())
        assert math.exp(logp[t]) == pytest.approx(p[corpus.ids[t]], rel=1e-5)


def test_compiled_and_plain_scoring_agree(texts, monkeypatch):
    model = neural(texts)
    corpus = whole_corpus(str(texts / "train"), model.vocab, Marks())
    plain = model.score(corpus).logp
    monkeypatch.setattr(scoring, "MANY", 0)
    monkeypatch.setattr(scoring, "ROWS", 3)
    monkeypatch.setattr(scoring, "COLUMNS", 4)
    assert model.score(corpus).logp == pytest.approx(plain, abs=1e-5)


def test_features_known_beforehand(tmp_path):
    vocab = make_vocab([b"a", b"b", b"c"])
    path = tmp_path / "w2v"
    path.write_text("2 3\nb 1 2 3\nzzz 4 5 6\n")
    features = training.read_features(str(path), vocab, 3)
    assert {vocab.words[i]: v.tolist() for i, v in features.items()} == {b"b": [1, 2, 3]}
    C = training.initial_network(vocab, settings(), np.array([1]), features).C
    assert C[vocab.index[b"b"]].tolist() == [1, 2, 3]
    for bad, message in (
        ("b 1 2\n", "w2v:1: expected a word and 3 finite numbers .-features., got 2"),
        ("5 3\nb 1 2 3\n", "says 5"),
        ("zzz 1 2 3\n", "no features for any word"),
    ):
        path.write_text(bad)
        with pytest.raises(FormatError, match=message):
            training.read_features(str(path), vocab, 3)


def test_a_text_without_known_words(texts):
    vocab = make_vocab([b"nothing"], eos=False)
    corpus = whole_corpus(str(texts / "train"), vocab, Marks(False, False, True))
    with pytest.raises(LmtkError, match="no word of the vocabulary"):
        training.make_examples(corpus, vocab, 3, None)


@pytest.mark.parametrize("layer", LAYERS)
def test_every_layer_has_an_option_and_a_reader(layer):
    outputs = ["full"] if layer == "energy" else ["full", "tied", "class", "tree", "shortlist"]
    assert BINARY.keys() >= {kind_of(layer, output) for output in outputs}, "kinds that files/registry.py lacks"
    kind, _, depth = layer.partition("-")
    assert kind in OPTIONS["Model"]["model"].metavar.split("|"), "a value that -model lacks"
    assert int(depth or 1) <= OPTIONS["Model"]["layers"].high, "a value that -layers lacks"
