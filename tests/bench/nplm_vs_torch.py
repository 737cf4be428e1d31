"""Training speed of the neural model against a plain PyTorch float32 loop and the measured sgemm peak, in one run.

The work is bound by floating-point operations: 6 (V D + h (n-1) m) an example, D = h + 1 + (n-1)m with direct
connections; of a layer with G gates, 4 in an LSTM and 3 in a GRU, 6 (2 G h^2 + C h) a word with C candidates. The
network is trained on random ids by both, in turn, at the same threads, minibatch and sizes; each figure is the median
of the rounds. Where torch is missing the comparison is left out and the exit status is 0.
"""

import argparse
import os
import statistics
import time
from functools import partial
from itertools import product
from types import SimpleNamespace


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("-minibatch", type=int, default=128)
    parser.add_argument("-rounds", type=int, default=7)
    args = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(args.threads)

    import numpy as np

    from lmtk.machine.blas import set_threads

    try:
        import torch

        torch.set_num_threads(args.threads)
    except ImportError:
        torch = None
        print("torch is not installed: no comparison with it")

    V, n, K = 17907, 5, args.minibatch
    for name, h, m, direct in (("MLP1", 50, 60, True), ("MLP9", 100, 30, False)):
        random = np.random.default_rng(1)
        steps = (24 if direct else 48) * max(32 // K, 1)
        contexts = random.integers(0, V, (steps, K, n - 1)).astype(np.int32)
        w = random.integers(0, V, (steps, K))
        flops = 6 * (V * (h + 1 + direct * (n - 1) * m) + h * (n - 1) * m)
        works = {"lmtk": ours(V, n, m, h, direct, contexts, w, args.threads)}
        if torch:
            works["torch"] = theirs(torch, V, n, m, h, direct, contexts, w)
        square = random.random((2048, 2048), np.float32)
        works = {"sgemm": lambda square=square: square @ square, **works}
        seconds = {work: [] for work in works}
        for _ in range(args.rounds + 1):
            for work, run in works.items():
                # each of our blocks of outputs has a thread of its own
                set_threads(args.threads if work == "sgemm" else 1)
                seconds[work].append(timed(run))
        medians = {work: statistics.median(s[1:]) for work, s in seconds.items()}
        peak = 2 * 2048**3 / medians["sgemm"]
        speed = steps * K / medians["lmtk"]
        line = f"{name} h={h} m={m} K={K} threads={args.threads}: lmtk {speed:.0f} examples/s, "
        line += f"{speed * flops / 1e9:.0f} Gflop/s, {speed * flops / peak:.2f} of sgemm's {peak / 1e9:.0f}"
        if torch:
            line += (
                f"; torch {steps * K / medians['torch']:.0f} examples/s; ratio {medians['torch'] / medians['lmtk']:.2f}"
            )
        print(line, flush=True)
    if torch:
        gates(np, torch, args)


def gates(np, torch, given):
    """Layers with gates, sampled: an LSTM and a GRU of h = m = 640, 256 and 100 on 32 words of each of 32 rows, tied,
    S = 1000, with dropout and without; and two layers of an LSTM.
    """
    from lmtk.machine import memory
    from lmtk.machine.blas import set_threads
    from lmtk.machine.parallel import ALONE
    from lmtk.nplm import objectives, running, training
    from lmtk.text.vocab import Vocab

    memory.keep()
    V, T, B, S, steps = 17907, 32, 32, 1000, 12
    random = np.random.default_rng(1)
    zipf = 1 / np.arange(1, V + 1)
    text = random.choice(V, T * B * steps + 1, p=zipf / zipf.sum())
    square = random.random((2048, 2048), np.float32)
    rows = *product((640, 256, 100), ("lstm", "gru"), (0.4, None), (1,)), (512, "lstm", 0.4, 2)
    for h, model, dropout, layers in rows:
        settings = training.Settings(
            T, h, h, False, 0.01, None, 0, 1.0, T * B, 1, 1, 1, "sampled", S, model, dropout=dropout, tied=True,
            layers=layers,
        )  # fmt: skip
        vocab = Vocab([b"w%d" % i for i in range(V)] + [b"<s>"], V)
        fresh = np.arange(len(text) - 1) == 0
        data = training.Data(text[:-1, None].astype(np.int32), text[1:], None, fresh=fresh)
        learner = objectives.make_learner(
            training.initial_network(vocab, settings, data.w), data, settings, given.threads, ALONE
        )
        places = [running.minibatch_places(len(data.w), settings, number) for number in range(steps)]

        def mine(places=places, learner=learner):
            for number, at in enumerate(places):
                learner.steps([at], [0.01], 0, [number])

        seconds = {"sgemm": [], "lmtk": [], "torch": []}
        works = {"sgemm": lambda: square @ square, "lmtk": mine}
        works["torch"] = torch_gates(np, torch, model, layers, dropout, V, h, T, B, S, text, places)
        for _ in range(given.rounds + 1):
            for work, run in works.items():
                set_threads(given.threads if work == "sgemm" else 1)
                seconds[work].append(timed(run))
        product_time, ours, theirs = (statistics.median(seconds[work][1:]) for work in works)
        words, peak = steps * T * B, 2 * 2048**3 / product_time
        drawn = [random.choice(V, S, p=zipf / zipf.sum()) for _ in places]
        candidates = np.mean([len({*text[at + 1].ravel(), *more}) for at, more in zip(places, drawn)])
        flops = 6 * (layers * (4 if model == "lstm" else 3) * 2 * h * h + candidates * h) * words / ours
        kind = f"{model} of {layers} layers" if layers > 1 else model
        line = (
            f"{kind} h=m={h} tied, sampled S={S}, {B} rows of {T} words, dropout {dropout}, threads={given.threads}: "
        )
        print(
            f"{line}lmtk {words / ours:.0f} words/s, {flops / 1e9:.0f} Gflop/s, {flops / peak:.2f} of sgemm's "
            f"{peak / 1e9:.0f}; torch {words / theirs:.0f} words/s; ratio {theirs / ours:.2f}",
            flush=True,
        )


def torch_gates(np, torch, model, layers, dropout, V, h, T, B, S, text, places):
    """The loop that one would write: Embedding, nn.LSTM or nn.GRU, Dropout, a softmax over shared candidates, SGD."""
    nn, random = torch.nn, np.random.default_rng(1)
    C, drop = nn.Embedding(V, h, sparse=True), nn.Dropout(dropout or 0)
    layer = getattr(nn, model.upper())(h, h, layers, dropout=dropout if layers > 1 else 0)
    b = nn.Embedding(V, 1, sparse=True)
    optimizer = torch.optim.SGD([*C.parameters(), *layer.parameters(), *b.parameters()], lr=0.01)
    q = np.bincount(text, minlength=V) + 1
    cumulative = np.cumsum(q / q.sum())
    log_c = torch.from_numpy(np.log(q / q.sum() * S)).float()

    def run():
        state = None
        for at in places:
            w = text[at + 1]
            drawn = np.searchsorted(cumulative, random.random(S) * cumulative[-1])
            words, own = np.unique(np.concatenate((w, drawn)), return_inverse=True)
            candidates, own = torch.from_numpy(words), torch.from_numpy(own[: len(w)])
            x = drop(C(torch.from_numpy(text[at].reshape(T, B))))
            a, state = layer(x, state)
            state = tuple(s.detach() for s in state) if model == "lstm" else state.detach()
            y = drop(a).reshape(T * B, h) @ C(candidates).T + b(candidates)[:, 0] - log_c[candidates]
            loss = nn.functional.cross_entropy(y, own, reduction="sum")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return run


def timed(run):
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def ours(V, n, m, h, direct, contexts, w, threads, comm=None):
    """A function that trains on minibatches, contexts (., K, n-1) and w (., K); comm: ranks that share the outputs."""
    import numpy as np

    from lmtk.machine.parallel import ALONE
    from lmtk.nplm import outputs, pace, sgd, single
    from lmtk.nplm.layers import LAYERS

    random, comm = np.random.default_rng(1), comm or ALONE
    C = random.normal(0, 0.1, (V, m)).astype(np.float32)
    H = random.normal(0, 0.1, (h, (n - 1) * m)).astype(np.float32)
    W = np.zeros((V, (n - 1) * m), np.float32) if direct else None
    b = np.full(V, -np.log(V), np.float32)
    below = sgd.place_copies({"C": C, "H": H, "d": np.zeros(h, np.float32)}, comm)
    theta = sgd.Parameters(LAYERS["nplm"], below, m, direct * (n - 1), pace.full_pace(V, V))
    p = SimpleNamespace(U=np.zeros((V, h), np.float32), W=W, b=b, b_low=np.zeros_like(b))
    rates = pace.Rates(0.001, 3e-5)
    if contexts.shape[1] == 1 and comm is ALONE:
        one, rates = single.Layer(p), pace.Rates(0.001)  # decay is collected
        update = lambda z, w, epsilon, curvature: single.update_output(one, z, int(w[0]), epsilon)
    else:
        mine = outputs.make_blocks(p, threads, comm, decay=3e-5)
        update = partial(outputs.update_output, mine, theta.pace.outputs)

    def run():
        for x, y in zip(contexts, w):
            sgd.step(theta, update, x, y, rates)

    return run


def theirs(torch, V, n, m, h, direct, contexts, w):
    """The loop that one would write: Embedding, Linear, tanh, Linear, cross_entropy, SGD with weight decay."""
    nn = torch.nn
    C, H, U = nn.Embedding(V, m), nn.Linear((n - 1) * m, h), nn.Linear(h, V)
    W = nn.Linear((n - 1) * m, V, bias=False) if direct else None
    layers = [layer for layer in (C, H, U, W) if layer is not None]
    theta = [p for layer in layers for p in layer.parameters()]
    optimizer = torch.optim.SGD(theta, lr=0.128, weight_decay=3e-5)
    contexts, w = torch.from_numpy(contexts).long(), torch.from_numpy(w)

    def run():
        for at, target in zip(contexts, w):
            x = C(at).flatten(1)
            y = U(torch.tanh(H(x)))
            if W is not None:
                y = y + W(x)
            loss = nn.functional.cross_entropy(y, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return run


if __name__ == "__main__":
    main()
