"""The algorithm of Bengio et al. 2003 at the size of its experiments: |V| = 17,906, one example in an update."""

from types import SimpleNamespace

import naive
import numpy as np
import pytest

from lmtk.machine.parallel import ALONE
from lmtk.nplm import objectives, single, training
from lmtk.text.vocab import make_vocab

V, RATE = 17_906, 1e-3
WORDS = [b"w%05d" % i for i in range(V - 2)]  # <s> is not predicted; </s> and <unk> are


def settings(**more):
    made = {"order": 5, "hidden": 100, "features": 30, "direct": True, "rate": RATE, "decay": 1e-8, "weight_decay": 0.0}
    made |= {"feature_rate": 1.0, "minibatch": 1, "epochs": 1, "patience": 1, "seed": 1, "objective": "full"}
    return training.Settings(**made | {"paper": True} | more)


def zipf(N, seed=1):
    """A Data of N examples, whose words have the frequencies of Zipf's law but for the rarest hundred, which are only
    in contexts of no example.
    """
    random = np.random.default_rng(seed)
    chances = 1 / np.arange(10, V - 90)
    words = random.choice(V - 100, N + 4, p=chances / chances.sum()).astype(np.int32)
    contexts = np.lib.stride_tricks.sliding_window_view(words[:-1], 4)[:N]
    return training.Data(np.ascontiguousarray(contexts), words[4:], None)


def learned(made, data, copies=(), vocab=None, together=1, threads=1):
    """The network after all the updates of an epoch, and the one before. copies: numbers of updates before which the
    network is copied, as for a checkpoint. together: the number of updates in a call.
    """
    vocab = vocab or make_vocab(WORDS, True, True)
    first = training.begin(training.initial_network(vocab, made, data.w), made).network
    learner = objectives.make_learner(first, data, made, threads, ALONE)
    for begin in range(0, len(data.w), together):
        if begin in copies:
            learner.network()
        numbers = range(begin, min(begin + together, len(data.w)))
        epsilons = [training.learning_rate(made, number, 0) for number in numbers]
        L, done, _ = learner.steps([np.array([number]) for number in numbers], epsilons, 0, numbers)
        assert np.isfinite(L) and done == len(numbers)
    return learner.network(), first


def test_threads_and_calls_change_nothing():
    """Each thread computes its own blocks, and the sums of the blocks are added in one order. No weight decay
    is due before the end.
    """
    data, made = zipf(30), settings(weight_decay=1e-4)
    networks = [learned(made, data, together=n, threads=t)[0] for n, t in ((1, 1), (7, 1), (30, 2), (7, 5))]
    for network in networks[1:]:
        assert all((a == b).all() for a, b in zip(networks[0].named().values(), network.named().values(), strict=True))


QUIET = {8: 1, 4: 2, 2: 3, 1: 4}  # the seconds of a call with so many threads


@pytest.mark.parametrize("busy, number", [({8: 9, 4: 5, 2: 3, 1: 4}, 2), ({8: 9, 4: 5, 2: 3, 1: 2}, 1)])
def test_a_team_gets_as_many_threads_as_are_fastest(busy, number):
    """While another program uses a processor, fewer threads are faster than all."""
    now, size = 0.0, single.TeamSize(8, SimpleNamespace(M=range(99)))

    def work(threads):
        nonlocal now
        now += seconds[threads]
        return threads

    for seconds, best in ((QUIET, 8), (busy, number), (QUIET, 8)):
        for _ in range(40):
            assert size.run(work, 64, lambda: now) in seconds
        assert size.now == best


def update(p, contexts, w, epsilon, decay):
    """One update in double precision, steps 1 and 2 of section 3.2 written down for one processor."""
    x = p["C"][contexts].ravel()
    a = np.tanh(p["d"] + p["H"] @ x)
    y = p["b"] + p["W"] @ x + p["U"] @ a
    gy = -np.exp(y - y.max())
    gy /= -gy.sum()
    gy[w] += 1
    go = (1 - a * a) * (p["U"].T @ gy)
    gx = p["W"].T @ gy + p["H"].T @ go
    if decay:
        for name in "CHUW":
            p[name] *= 1 - epsilon * decay
    p["b"] += epsilon * gy
    p["W"] += epsilon * gy[:, None] * x
    p["U"] += epsilon * gy[:, None] * a
    p["d"] += epsilon * go
    p["H"] += epsilon * go[:, None] * x
    np.add.at(p["C"], contexts, epsilon * gx.reshape(len(contexts), -1))
    return gy


@pytest.fixture
def updates(request):
    return 2000 if request.config.getoption("--all") else 200


def test_every_array_is_that_of_double_precision(amount):
    data, made = zipf(amount(60, 2000)), settings(weight_decay=1e-4)
    network, first = learned(made, data)
    p = {name: getattr(first.theta, name).astype(float) for name in "CHdUWb"}
    for number, (contexts, w) in enumerate(zip(data.contexts, data.w)):
        update(p, contexts, w, training.learning_rate(made, number, 0), made.weight_decay)
    for name in "CHdUWb":
        assert np.abs(getattr(network.theta, name) - p[name]).max() < 1e-4 * max(np.abs(p[name]).max(), 1), name
        moved = np.abs(p[name] - getattr(first.theta, name)).max()
        assert np.abs(getattr(network.theta, name) - p[name]).max() < 0.01 * moved, name


@pytest.mark.parametrize(
    "order, hidden, direct", [(1, 0, True), (1, 3, False), (2, 0, True), (3, 4, False), (4, 2, True)]
)
def test_networks_of_all_shapes_learn_as_in_plain_loops(order, hidden, direct):
    random, vocab = np.random.default_rng(1), make_vocab([b"a", b"b", b"c"], True, True)
    made = settings(order=order, hidden=hidden, features=2, direct=direct, rate=0.1)
    contexts, w = random.integers(0, 5, (20, order - 1)).astype(np.int32), random.integers(0, 5, 20)
    network, first = learned(made, training.Data(contexts, w, None), vocab=vocab)
    p = {name: None if a is None else a.astype(float).tolist() for name, a in vars(first.theta).items()}
    for context, word in zip(contexts.tolist(), w.tolist()):
        naive.update(*(p[name] for name in "CHdUWb"), context, word, 0.1)
    for name in "CHdUWb":
        actual = getattr(network.theta, name)
        assert (actual is None) == (p[name] is None)
        assert actual is None or actual == pytest.approx(np.array(p[name]).reshape(actual.shape), abs=1e-5), name


def test_a_copy_of_the_network_does_not_change_the_training():
    """An update of the output weights is made together with the next example, or when the network is copied."""
    data, made = zipf(8), settings(weight_decay=0.5)  # each update decays
    (never, _), (often, _) = learned(made, data), learned(made, data, copies=(1, 3, 4))
    for name in "CHdUWb":
        assert getattr(never.theta, name).tobytes() == getattr(often.theta, name).tobytes(), name


@pytest.mark.parametrize("model", ["nplm", "energy"])
@pytest.mark.parametrize("objective", ["full", "sampled"])
def test_output_biases_do_not_drift(model, objective, updates):
    """The gradients of the biases of a softmax sum to 0, and so do those of a sample, so the sum of the biases stays.
    Single precision alone keeps only the steps upwards.
    """
    more = {"model": "energy", "direct": False} if model == "energy" else {}
    data = zipf(updates // 4 if model == "energy" else updates)
    made = settings(objective=objective, samples=100 if objective == "sampled" else None, paper=None, **more)
    network, first = learned(made, data)
    upwards = len(data.w) * RATE
    total = lambda p: float(p.b.astype(float).sum() + getattr(p, "b_low", np.zeros(1)).astype(float).sum())
    assert abs(total(network.theta) - total(first.theta)) < 0.01 * upwards


@pytest.mark.parametrize("decay", [1e-4, 1e-5])
@pytest.mark.parametrize("model", ["nplm", "energy"])
def test_weights_without_gradient_only_decay(model, decay, updates):
    """A row of C that occurs in no context shrinks by the product of 1 - eps_t decay."""
    data = zipf(updates // 4 if model == "energy" else updates)
    more = {"model": "energy", "direct": False} if model == "energy" else {}
    made = settings(weight_decay=decay, **more)
    network, first = learned(made, data)
    row = {"nplm": V - 50, "energy": V}[model]  # <s> is not an output word
    before, after = (p.theta.C[row].astype(float) for p in (first, network))
    shares = [1 - training.learning_rate(made, t, 0) * decay for t in range(len(data.w))]
    assert 1 - (after @ before) / (before @ before) == pytest.approx(
        1 - np.prod(shares), rel=0.01 if len(data.w) > 1000 else 0.3
    )


def test_the_text_is_read_in_order_and_all_weights_are_random():
    data, made = zipf(5), settings()
    batch = training.make_batches(data, made, 0)
    assert [batch(number).tolist() for number in range(5)] == [[0], [1], [2], [3], [4]]
    p = training.initial_network(make_vocab(WORDS, True, True), made, data.w).theta
    for name in "CHUW":
        a = getattr(p, name)
        inputs = {"C": 30, "H": 120, "U": 220, "W": 220}[name]
        assert a.std() == pytest.approx(inputs**-0.5, rel=0.02) and abs(a.mean()) < 0.01
    assert not p.b.any() and not p.d.any()
