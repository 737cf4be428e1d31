"""Training speed of the neural model against a plain PyTorch float32 loop and the measured sgemm peak, in one run.

The work is bound by floating-point operations: 6 (V D + h (n-1) m) an example, D = h + 1 + (n-1)m with direct
connections. The network is trained on random ids by both, in turn, at the same threads, minibatch and sizes; each
figure is the median of the rounds. Where torch is missing the comparison is left out and the exit status is 0.
"""

import argparse
import os
import statistics
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("-minibatch", type=int, default=128)
    parser.add_argument("-rounds", type=int, default=7)
    given = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(given.threads)

    import numpy as np

    from lmtk.machine.blas import set_threads
    from lmtk.machine.threads import Team
    from lmtk.nplm import sgd

    try:
        import torch

        torch.set_num_threads(given.threads)
    except ImportError:
        torch = None
        print("torch is not installed: no comparison with it")

    V, n, K = 17907, 5, given.minibatch
    for name, h, m, direct in (("MLP1", 50, 60, True), ("MLP9", 100, 30, False)):
        random = np.random.default_rng(1)
        steps = 24 if direct else 48
        contexts = random.integers(0, V, (steps, K, n - 1)).astype(np.int32)
        w = random.integers(0, V, (steps, K))
        flops = 6 * (V * (h + 1 + direct * (n - 1) * m) + h * (n - 1) * m)
        works = {"lmtk": ours(sgd, Team, np, V, n, m, h, direct, contexts, w, given.threads)}
        if torch:
            works["torch"] = theirs(torch, V, n, m, h, direct, contexts, w)
        square = random.random((2048, 2048), np.float32)
        works = {"sgemm": lambda square=square: square @ square, **works}
        seconds = {work: [] for work in works}
        for _ in range(given.rounds + 1):
            for work, run in works.items():
                # each of our blocks of outputs has a thread of its own
                set_threads(given.threads if work == "sgemm" else 1)
                seconds[work].append(timed(run))
        medians = {work: statistics.median(s[1:]) for work, s in seconds.items()}
        peak = 2 * 2048**3 / medians["sgemm"]
        speed = steps * K / medians["lmtk"]
        line = f"{name} h={h} m={m} K={K} threads={given.threads}: lmtk {speed:.0f} examples/s, "
        line += f"{speed * flops / 1e9:.0f} Gflop/s, {speed * flops / peak:.2f} of sgemm's {peak / 1e9:.0f}"
        if torch:
            line += (
                f"; torch {steps * K / medians['torch']:.0f} examples/s; ratio {medians['torch'] / medians['lmtk']:.2f}"
            )
        print(line, flush=True)


def timed(run):
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def ours(sgd, Team, np, V, n, m, h, direct, contexts, w, threads):
    random = np.random.default_rng(1)
    C = random.normal(0, 0.1, (V, m)).astype(np.float32)
    H = random.normal(0, 0.1, (h, (n - 1) * m)).astype(np.float32)
    W = np.zeros((V, (n - 1) * m), np.float32) if direct else None
    b = np.full(V, -np.log(V), np.float32)
    theta = sgd.split(C, H, np.zeros(h, np.float32), np.zeros((V, h), np.float32), W, b, sgd.blocks(threads))
    team = Team(threads)

    def run():
        for x, y in zip(contexts, w):
            sgd.step(theta, x, y, 0.001, 3e-5, 1, team)

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
