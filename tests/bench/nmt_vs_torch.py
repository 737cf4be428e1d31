"""Training speed of the translation model against the same network in PyTorch, float32, in one run.

RNNsearch with n = m = n' = 256, l = 128 and 6,500 words a side, on random sentences of captions' lengths; the figures
are target words per second of CPU time at one thread, medians of rounds that alternate. Both take the same minibatches,
which are sorted by length, clip the gradient's norm and update by Adam. Without torch only ours is timed.
"""

import argparse
import os
import statistics
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-minibatch", type=int, default=80)
    parser.add_argument("-hidden", type=int, default=256)
    parser.add_argument("-rounds", type=int, default=5)
    given = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

    import numpy as np

    from lmtk.nmt import network, training
    from lmtk.text.bitext import Bitext
    from lmtk.text.vocab import make_vocab

    try:
        import torch

        torch.set_num_threads(1)
    except ImportError:
        torch = None
        print("torch is not installed: no comparison with it")

    V, K, n, batches = 6500, given.minibatch, given.hidden, 6
    random = np.random.default_rng(1)
    frequency = 1 / np.arange(2, V + 2)

    def sentences(lengths):
        words = [2 + random.choice(V, k, p=frequency / frequency.sum()) for k in lengths]
        return [np.append(w, 0).astype(np.int32) for w in words]

    lengths = np.sort(np.clip(random.normal(13, 4, 20 * K), 3, 40).astype(int))
    text = Bitext(sentences(lengths), sentences(lengths + random.integers(0, 3, len(lengths))), 0)
    vocab = make_vocab([b"%d" % i for i in range(V)], True, True)
    settings = training.Settings(n, n, n, n // 2, K, 10**6, 1e-3, 0.0, 1)
    chosen = list(training.minibatches(text, settings, 0))[:batches]
    words = sum(len(text.target[i]) for batch in chosen for i in batch)
    works = {"lmtk": ours(np, network, training, text, vocab, settings, chosen)}
    if torch:
        works["torch"] = theirs(torch, text, V + 3, n, chosen)
    seconds = {name: [] for name in works}
    for _ in range(given.rounds + 1):
        for name, run in works.items():
            begun = time.process_time()
            run()
            seconds[name].append(time.process_time() - begun)
    speed = {name: words / statistics.median(s[1:]) for name, s in seconds.items()}
    line = f"RNNsearch n={n} minibatch={K}: lmtk {speed['lmtk']:.0f} words/s"
    if torch:
        line += f", torch {speed['torch']:.0f}, ratio {speed['lmtk'] / speed['torch']:.2f}"
    print(line)


def ours(np, network, training, text, vocab, settings, batches):
    shapes = network.shapes(vocab, vocab, **settings.sizes)
    theta = training.initial(vocab, vocab, settings, text.target)
    gradient, progress = np.zeros_like(theta), training.Progress(theta, theta * 0, theta * 0)
    p, g = network.parts(theta, shapes), network.parts(gradient, shapes)
    training.keep_memory()
    steps = iter(range(10**6))

    def run():
        for batch in batches:
            x, y = [text.source[i] for i in batch], [text.target[i] for i in batch]
            network.cost(p, x, y, vocab.sos_id, g)
            norm = float(np.dot(gradient, gradient)) ** 0.5
            training.update(progress, gradient, min(1, 1 / norm), settings, next(steps), 10**6)

    return run


def theirs(torch, text, V, n, batches):
    """The same model as one would write it in PyTorch: cuDNN-free GRU cells, padded minibatches, masks."""
    nn, F, l = torch.nn, torch.nn.functional, n // 2

    class Unit(nn.Module):
        """The paper's gated unit: the reset gate stands before U."""

        def __init__(self):
            super().__init__()
            self.S, self.U = nn.Linear(n, 2 * n, bias=False), nn.Linear(n, n, bias=False)

        def forward(self, G, s):
            z, r = torch.sigmoid(G[:, : 2 * n] + self.S(s)).chunk(2, 1)
            return (1 - z) * s + z * torch.tanh(G[:, 2 * n :] + self.U(r * s))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.Ex, self.Ey = nn.Embedding(V, n), nn.Embedding(V, n)
            self.Wx, self.Wy = nn.Linear(n, 6 * n), nn.Linear(n, 3 * n + 2 * l)
            self.f, self.b, self.d = Unit(), Unit(), Unit()
            self.Ws, self.Wa, self.Ua = nn.Linear(n, n), nn.Linear(n, n, bias=False), nn.Linear(2 * n, n)
            self.va, self.C = nn.Linear(n, 1, bias=False), nn.Linear(2 * n, 3 * n, bias=False)
            self.Uo, self.Co = nn.Linear(n, 2 * l, bias=False), nn.Linear(2 * n, 2 * l, bias=False)
            self.Wo = nn.Linear(l, V - 1)

        def read(self, G, mask, unit, order):
            s, out = G.new_zeros(len(G), n), [None] * G.shape[1]
            for t in order:
                m = mask[:, t, None]
                s = m * unit(G[:, t], s) + (1 - m) * s
                out[t] = s
            return torch.stack(out, 1)

        def forward(self, x, x_mask, y):
            G, T = self.Wx(self.Ex(x)), x.shape[1]
            f = self.read(G[:, :, : 3 * n], x_mask, self.f, range(T))
            b = self.read(G[:, :, 3 * n :], x_mask, self.b, range(T - 1, -1, -1))
            H = torch.cat((f, b), 2)
            UH, s = self.Ua(H), torch.tanh(self.Ws(b[:, 0]))
            G, states, contexts = self.Wy(self.Ey(y)), [], []
            for i in range(y.shape[1]):
                e = self.va(torch.tanh(UH + self.Wa(s)[:, None])).squeeze(2).masked_fill(x_mask == 0, -1e9)
                c = torch.bmm(F.softmax(e, 1)[:, None], H)[:, 0]
                states.append(s)
                contexts.append(c)
                s = self.d(G[:, i, : 3 * n] + self.C(c), s)
            o = G[:, :, 3 * n :] + self.Uo(torch.stack(states, 1)) + self.Co(torch.stack(contexts, 1))
            return o.view(*o.shape[:2], l, 2).max(3)[0]

    torch.manual_seed(1)
    net = Net()
    adam = torch.optim.Adam(net.parameters(), 1e-3, fused=True)

    def padded(sentences):
        return nn.utils.rnn.pad_sequence([torch.tensor(s, dtype=torch.long) for s in sentences], True)

    def run():
        for batch in batches:
            xs, ys = [text.source[i] for i in batch], [text.target[i] for i in batch]
            x, y = padded(xs), padded(ys)
            x_mask = (torch.arange(x.shape[1]) < torch.tensor([len(s) for s in xs])[:, None]).float()
            y_mask = torch.arange(y.shape[1]) < torch.tensor([len(s) for s in ys])[:, None]
            before = torch.cat((torch.full((len(y), 1), V - 1), y[:, :-1]), 1)
            # only words that are there go through the softmax
            t = net(x, x_mask, before)[y_mask]
            loss = F.cross_entropy(net.Wo(t), y[y_mask], reduction="sum") / len(y)
            adam.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1)
            adam.step()

    return run


if __name__ == "__main__":
    main()
