"""Training and decoding speed of the translation model against the same network in PyTorch, float32, in one run.

RNNsearch with n = m = n' = 256, l = 128 and 6,500 words a side, on random sentences of captions' lengths; the figures
are target words per second of CPU time at one thread, medians of rounds that alternate; -threads 2 is of decoding
alone, by the clock. Both take the same minibatches, which are sorted by length, clip the gradient's norm and update by
Adam. Decoding is beam search over batches of like length, 240 hypotheses at once, 16 steps each, by the same
parameters; the translations are compared. Products of a step of 240 hypotheses are 0.40 GFLOP for the words, at most
0.16 for the states and 0.05, its share, for the annotations: 5.8 ms at 105 GFLOP/s, or 215 sentences a second with a
beam of 12.

With -model and -text the sentences of a text are translated to their ends: ours leaves out what is done, theirs goes on
until all hypotheses of a batch have ended. Each works in a process of its own, so that neither's settings of malloc are
the other's, and they take turns; ratios are medians of those of the rounds. Without torch only ours is timed.
"""

import argparse
import importlib.util
import multiprocessing
import os
import statistics
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-minibatch", type=int, default=80)
    parser.add_argument("-hidden", type=int, default=256)
    parser.add_argument("-rounds", type=int, default=5)
    parser.add_argument("-model", help="a model of nmt-train, gated units with attention, to translate -text by")
    parser.add_argument("-text")
    parser.add_argument("-threads", type=int, default=1, help="more: of beam search alone, by the clock")
    args = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(args.threads)

    import numpy as np

    from lmtk.nmt import network, training
    from lmtk.text.bitext import Bitext
    from lmtk.text.vocab import make_vocab

    torch = importlib.util.find_spec("torch") is not None
    if not torch:
        print("torch is not installed: no comparison with it")
    if args.model:
        translating(args.model, args.text, torch, args.rounds)
        return

    V, K, n, batches = 6500, args.minibatch, args.hidden, 6
    random = np.random.default_rng(1)
    frequency = 1 / np.arange(2, V + 2)

    def sentences(lengths):
        words = [2 + random.choice(V, k, p=frequency / frequency.sum()) for k in lengths]
        return [np.append(w, 0).astype(np.int32) for w in words]

    lengths = np.sort(np.clip(random.normal(13, 4, 20 * K), 3, 40).astype(int))
    text = Bitext(sentences(lengths), sentences(lengths + random.integers(0, 3, len(lengths))), 0)
    vocab = make_vocab([b"%d" % i for i in range(V)], True, True)
    settings = training.Settings(n, n, n, n // 2, K, 10**6, 1e-3, 0.0, 0.0, "likelihood", 0, None, 1)
    chosen = list(training.make_minibatches(text, settings, 0))[:batches]
    words = sum(len(text.target[i]) for batch in chosen for i in batch)
    works = {"lmtk": (ours, text, vocab, settings, chosen)}
    if torch:
        works["torch"] = theirs, text, V + 3, settings.sizes, chosen
    if args.threads == 1:
        line, _ = compare(works, words, "words", args.rounds)
        print(f"RNNsearch n={n} minibatch={K}: {line}")
    steps, sources = 16, text.source[8 * K :: 5][: 60 if args.threads == 1 else 120]
    model = network.Model(vocab, vocab, settings.sizes, training.initial_theta(vocab, vocab, settings, text.target), {})
    # nothing ends before its time, so that both do the same steps
    model.at.bo[vocab.eos_id] = -50
    for B in (1, 5, 12):
        decoding(model, sources, B, {"factor": 0, "extra": steps}, (steps, None), torch, args.rounds)


def threads():
    return int(os.environ["OMP_NUM_THREADS"])


def serve(pipe, make, args):
    """Run make(*args)() whenever the pipe says so."""
    run, clock = make(*args), time.process_time if threads() == 1 else time.perf_counter
    while pipe.recv():
        begun = clock()
        result = run()
        pipe.send((clock() - begun, result))


def compare(works, amount, unit, rounds):
    """A line of the speeds of works, name -> (function that returns a function to time, its arguments), each in a
    process of its own, and their results.
    """
    spawned, pipes = multiprocessing.get_context("spawn"), {}
    for name, (make, *args) in works.items():
        pipes[name], other_end = spawned.Pipe()
        spawned.Process(target=serve, args=(other_end, make, args), daemon=True).start()
    seconds, results = {name: [] for name in works}, {}
    for _ in range(rounds + 1):
        for name, pipe in pipes.items():
            pipe.send(True)
            took, results[name] = pipe.recv()
            seconds[name].append(took)
    for pipe in pipes.values():
        pipe.send(False)
    seconds = {name: s[1:] for name, s in seconds.items()}
    line = ", ".join(f"{name} {amount / statistics.median(s):.0f} {unit}/s" for name, s in seconds.items())
    if "torch" in works:
        line += f", ratio {statistics.median(b / a for a, b in zip(*seconds.values(), strict=True)):.2f}"
    return line, results


def translating(path, text, torch, rounds):
    """Speeds on real sentences, by a model that was trained."""
    from lmtk.files.decoding import lines
    from lmtk.files.registry import load_translation
    from lmtk.text.bitext import ids_with_eos, word_index

    model = load_translation(path)
    index, eos = word_index(model.source), model.vocab.eos_id
    sources = sorted((ids_with_eos(row.split(), index, eos) for _, row in lines(text)), key=len)
    for B in (1, 5, 12):
        decoding(model, sources, B, {}, (None, eos), torch, rounds)


def decoding(model, sources, B, beam, end, torch, rounds):
    """Beam search, ours and theirs: beam: what ends ours, `end`: (steps, eos) of theirs."""
    works = {"lmtk": (our_search, model, sources, B, beam, 240 // B)}
    if torch:
        works["torch"] = their_search, model, sources, B, *end, 240 // B
    line, results = compare(works, len(sources), "sentences", rounds)
    if torch:
        same = sum(a == b for a, b in zip(results["lmtk"], results["torch"], strict=True))
        line += f", {same} of {len(sources)} translations the same"
    print(f"beam {B}: {line}")


def our_search(model, sources, B, beam, together):
    from lmtk.nmt.beam import Beam, Translator

    translate, beam = Translator(model, threads=threads()), Beam(B, **beam)
    return lambda: [hypotheses[0].words for hypotheses in translate(sources, beam, together)]


def ours(text, vocab, settings, batches):
    import numpy as np

    from lmtk.machine import memory
    from lmtk.nmt import network, training

    layout = network.Layout(vocab, vocab, settings.sizes)
    theta = training.initial_theta(vocab, vocab, settings, text.target)
    gradient, progress = np.zeros_like(theta), training.Progress(theta, theta * 0, theta * 0)
    p, g = network.split_theta(theta, layout), network.split_theta(gradient, layout)
    memory.keep()
    steps = iter(range(10**6))

    def run():
        for batch in batches:
            x, y = [text.source[i] for i in batch], [text.target[i] for i in batch]
            network.cost(p, (x, y), vocab.sos_id, g)
            norm = float(np.dot(gradient, gradient)) ** 0.5
            training.update(progress, gradient, min(1, 1 / norm), settings, next(steps), share=0.0)

    return run


def in_torch(V, sizes, targets=None):
    """The same model as one would write it in PyTorch: padded minibatches, masks."""
    import torch

    torch.set_num_threads(threads())
    nn, F, n, l, Vy = torch.nn, torch.nn.functional, sizes["hidden"], sizes["maxout"], targets or V

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
            self.Ex, self.Ey = nn.Embedding(V, n), nn.Embedding(Vy, n)
            self.Wx, self.Wy = nn.Linear(n, 6 * n), nn.Linear(n, 3 * n + 2 * l)
            self.f, self.b, self.d = Unit(), Unit(), Unit()
            self.Ws, self.Wa, self.Ua = nn.Linear(n, n), nn.Linear(n, n, bias=False), nn.Linear(2 * n, n)
            self.va, self.C = nn.Linear(n, 1, bias=False), nn.Linear(2 * n, 3 * n, bias=False)
            self.Uo, self.Co = nn.Linear(n, 2 * l, bias=False), nn.Linear(2 * n, 2 * l, bias=False)
            self.Wo = nn.Linear(l, Vy - 1)

        def read(self, G, mask, unit, order):
            s, out = G.new_zeros(len(G), n), [None] * G.shape[1]
            for t in order:
                m = mask[:, t, None]
                s = m * unit(G[:, t], s) + (1 - m) * s
                out[t] = s
            return torch.stack(out, 1)

        def encode(self, x, x_mask):
            G, T = self.Wx(self.Ex(x)), x.shape[1]
            f = self.read(G[:, :, : 3 * n], x_mask, self.f, range(T))
            b = self.read(G[:, :, 3 * n :], x_mask, self.b, range(T - 1, -1, -1))
            H = torch.cat((f, b), 2)
            return H, self.Ua(H), torch.tanh(self.Ws(b[:, 0]))

        def look(self, H, UH, x_mask, s):
            e = self.va(torch.tanh(UH + self.Wa(s)[:, None])).squeeze(2).masked_fill(x_mask == 0, -1e9)
            return torch.bmm(F.softmax(e, 1)[:, None], H)[:, 0]

        def forward(self, x, x_mask, y):
            H, UH, s = self.encode(x, x_mask)
            G, states, contexts = self.Wy(self.Ey(y)), [], []
            for i in range(y.shape[1]):
                c = self.look(H, UH, x_mask, s)
                states.append(s)
                contexts.append(c)
                s = self.d(G[:, i, : 3 * n] + self.C(c), s)
            o = G[:, :, 3 * n :] + self.Uo(torch.stack(states, 1)) + self.Co(torch.stack(contexts, 1))
            return o.view(*o.shape[:2], l, 2).max(3)[0]

    torch.manual_seed(1)
    return Net()


def theirs(text, V, sizes, batches):
    import torch

    nn, F, net = torch.nn, torch.nn.functional, in_torch(V, sizes)
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


def their_search(model, sources, B, steps, eos, together):
    """Beam search as one would write it: the annotations repeated for each hypothesis, topk over all continuations.

    The network takes over the model's parameters. Without eos it does so many steps, else it ends when all have ended
    or after two words for each of the source and 10 more; ended hypotheses go on with </s>, which costs nothing.
    """
    import torch

    net = in_torch(len(model.source.words), model.sizes, len(model.vocab.words))
    p, sos = model.at, model.vocab.sos_id
    F, n = torch.nn.functional, len(p.U)
    units = p.S.shape[1] - 2 * n
    given = {
        "Ex.weight": p.Ex, "Ey.weight": p.Ey, "Wx.weight": p.Wx.T, "Wx.bias": p.bx, "Wy.weight": p.Wy.T,
        "Wy.bias": p.by, "f.S.weight": p.fS.T, "f.U.weight": p.fU.T, "b.S.weight": p.bS.T, "b.U.weight": p.bU.T,
        "d.S.weight": p.S[:, units:].T, "d.U.weight": p.U.T, "Wa.weight": p.S[:, :units].T, "Ws.weight": p.Ws.T,
        "Ws.bias": p.bs, "Ua.weight": p.Ua.T, "Ua.bias": p.ba, "va.weight": p.va[None], "C.weight": p.C.T,
        "Uo.weight": p.Uo.T, "Co.weight": p.Co.T, "Wo.weight": p.Wo.T, "Wo.bias": p.bo,
    }  # fmt: skip
    net.load_state_dict({name: torch.tensor(a.copy()) for name, a in given.items()})

    @torch.no_grad()
    def search(batch):
        K, T = len(batch), max(map(len, batch))
        x = torch.nn.utils.rnn.pad_sequence([torch.tensor(s, dtype=torch.long) for s in batch], True)
        x_mask = (torch.arange(T) < torch.tensor([len(s) for s in batch])[:, None]).float()
        H, UH, s = (a.repeat_interleave(B, 0) for a in net.encode(x, x_mask))
        x_mask = x_mask.repeat_interleave(B, 0)
        total = torch.full((K, B), -torch.inf)
        total[:, 0] = 0
        word, words = torch.full((K * B,), sos), torch.zeros((K * B, 0), dtype=torch.long)
        done, length = torch.zeros(K * B, dtype=torch.bool), torch.ones(K * B)
        for _ in range(steps or 2 * T + 8):
            c, G = net.look(H, UH, x_mask, s), net.Wy(net.Ey(word))
            o = G[:, 3 * n :] + net.Uo(s) + net.Co(c)
            logp = F.log_softmax(net.Wo(o.view(len(o), -1, 2).max(2)[0]), 1)
            s = net.d(G[:, : 3 * n] + net.C(c), s)
            V = logp.shape[1]
            if eos is not None:
                logp[done] = -torch.inf
                logp[done, eos] = 0
            total, best = (total[:, :, None] + logp.view(K, B, V)).view(K, B * V).topk(B)
            rows = (torch.arange(K)[:, None] * B + best // V).view(-1)
            word, s = (best % V).view(-1), s[rows]
            words = torch.cat((words[rows], word[:, None]), 1)
            if eos is not None:
                done = done[rows] | (word == eos)
                length = length[rows] + ~done
                if done.all():
                    break
        if eos is None:
            return words.view(K, B, -1)[:, 0].tolist()
        best = (total / length.view(K, B)).argmax(1)
        found = words.view(K, B, -1)[torch.arange(K), best].tolist()
        return [row[: row.index(eos)] if eos in row else row for row in found]

    def run():
        return [words for i in range(0, len(sources), together) for words in search(sources[i : i + together])]

    return run


if __name__ == "__main__":
    main()
