"""Translation by beam search over many sentences at once (Bahdanau et al. 2015, section 4.2)."""

from dataclasses import dataclass

import numpy as np

from lmtk.nmt import kernels, network
from lmtk.units import from_activations

f32 = np.float32
ROOM = 1 << 26  # alignment units that are computed at once: 256 MB


@dataclass(frozen=True)
class Beam:
    """How to search. size: hypotheses kept; normalize: a hypothesis of T words, </s> among them, is ranked by
    ln p / T^normalize; factor, extra: a translation has at most factor times the source's words, and so many more;
    banned: the id of a word that is never generated, or None; wanted: how many of the best to return.
    """

    size: int
    normalize: float = 1.0
    factor: float = 2.0
    extra: int = 10
    banned: int | None = None
    wanted: int = 1


@dataclass(frozen=True)
class Hypothesis:
    """words: ids without </s>; ended: whether </s> follows, or they were cut; logp: ln p, of </s> too; rank: what
    hypotheses are ordered by; links: for each word the place of the source word that it looks at most, empty without
    attention; alpha: the weights of the source's words, </s> among them, for each word and </s>, where asked for.
    """

    words: list
    ended: bool
    logp: float
    rank: float
    links: list
    alpha: np.ndarray | None = None


class Decoder:
    """One model that extends the hypotheses of a batch of sentences. Finished sentences leave the batch."""

    def __init__(self, p, table, sentences):
        self.p, self.table = p, table
        H, h, self.absent, self.lengths, _ = network.annotate(p, sentences)
        K, T, A = H.shape
        self.UH = kernels.look(H, p.Ua, p.ba) if hasattr(p, "Ua") else None
        # what a context gives to gates and output is the weighted mean of what the annotations give, which is a product
        # for each source word instead of one for each word of each hypothesis
        self.HC = (H.reshape(-1, A) @ np.hstack((p.C, p.Co))).reshape(K, T, -1)
        s0 = np.tanh(h @ p.Ws + p.bs)[:, None]
        self.unit = network.unit_of(p)
        self.state = from_activations(self.unit, s0)

    def step(self, word):
        """The outputs y (k * B, V) behind the words (k, B), and alpha (k, B, T), None without attention.

        B is 1 in the first step, where all hypotheses are one.
        """
        p, alpha, n, (k, B, width) = self.p, None, len(self.p.U), self.state.shape
        units, gates, d = network.widths(p)
        G, state = self.table[word.ravel()], self.state.reshape(k * B, width)
        s = state[:, :n]
        Q = s @ p.S
        if units:
            alpha, c = kernels.attend(self.HC, self.UH, self.absent, Q[:, :units].reshape(k, B, units), p.va)
            G += c.reshape(k * B, -1)
        else:
            G += np.repeat(self.HC[:, 0], B, axis=0)
        o = G[:, d:]
        o += s @ p.Uo
        y = kernels.maxout(o) @ p.Wo
        y += p.bo
        zr = G[:, :gates]
        zr += Q[:, units:]
        self.state = self.unit.step(zr, G[:, gates:d], state, p.U)[0].reshape(k, B, width)
        return y, alpha

    def follow(self, parent, go):
        """The hypotheses are now those that continue the slots `parent` (k, B'), of the sentences `go` (k,) only."""
        self.state = np.take_along_axis(self.state, parent[:, :, None], axis=1)[go]
        if not go.all():
            self.HC, self.absent = self.HC[go], self.absent[go]
            if self.UH is not None:
                self.UH = self.UH[go]


class Translator:
    """Models of the same vocabularies, an ensemble where they are several: a word's probability is the mean of theirs.

    What the words of the target give to the decoder is computed beforehand.
    """

    def __init__(self, *models):
        self.sos, self.eos = models[0].vocab.sos_id, models[0].vocab.eos_id
        network.keep_memory()
        self.parts = [(p, p.Ey @ p.Wy + p.by) for p in (model.at for model in models)]

    def __call__(self, sentences, beam, together):
        """The hypotheses of each sentence of ids that ends with </s>, best first, in the order of the sentences.

        together: the most sentences to search for at once; fewer where the memory of their alignments says so.
        """
        out = [None] * len(sentences)
        units = max(1, *(network.widths(p)[0] for p, _ in self.parts))
        for batch in network.batches(sentences, together, ROOM // (beam.size * units)):
            for i, found in zip(batch, self.search([sentences[i] for i in batch], beam), strict=True):
                out[i] = found
        return out

    def search(self, sentences, beam):
        """The hypotheses of each sentence, best first.

        A sentence is done when none that goes on can become better than the best that has ended (the last one wanted,
        where several are), or as many have ended as the beam is wide and none that goes on ranks higher so far.
        """
        B, K = beam.size, len(sentences)
        decoders = [Decoder(p, table, sentences) for p, table in self.parts]
        lengths = decoders[0].lengths
        # nobody looks at </s> for the translation of a word
        to_eos = np.where(np.arange(lengths.max()) == lengths[:, None] - 1, f32(-1), f32(0))
        limit = (beam.factor * (lengths - 1)).astype(np.int64) + beam.extra
        alive = np.arange(K)  # the sentence of each row of what follows
        total, word = np.zeros((K, 1)), np.full((K, 1), self.sos)
        history, ended = [], [[] for _ in range(K)]
        while len(alive):
            k, time = len(alive), len(history)
            y, top, alpha, sums = combined([decoder.step(word) for decoder in decoders])
            links = None if alpha is None else (alpha + to_eos[alive, None]).argmax(axis=2)
            base = total.ravel() - sums
            if beam.banned is not None:
                y[:, beam.banned] = -np.inf
            parent, word, total = np.zeros((k, B), np.int64), np.zeros((k, B), np.int64), np.empty((k, B))
            kernels.best_words(y, top, base, B, parent, word, total)
            rows = np.full(K, -1)
            rows[alive] = np.arange(k)
            history.append((rows, parent, word, links))
            over = total > -np.inf
            last = time + 1 >= limit[alive]
            stop = over & ((word == self.eos) | last[:, None])
            for row, slot in zip(*np.nonzero(stop), strict=True):
                rank = total[row, slot] / (time + 1) ** beam.normalize
                ended[alive[row]].append((-rank, len(ended[alive[row]]), total[row, slot], time, slot))
            total[stop] = -np.inf
            live = total.max(axis=1)
            hope, now = live / limit[alive] ** beam.normalize, live / (time + 1) ** beam.normalize
            best = np.array(
                [-sorted(ended[i])[beam.wanted - 1][0] if len(ended[i]) >= beam.wanted else -np.inf for i in alive]
            )
            many = np.array([len(ended[i]) >= B for i in alive])
            go = ~(last | (best >= hope) | (many & (best >= now)))
            for decoder in decoders:
                decoder.follow(parent, go)
            total, word, alive = total[go], word[go], alive[go]
        return [[self.hypothesis(history, i, *entry) for entry in sorted(ended[i])[: beam.wanted]] for i in range(K)]

    def hypothesis(self, history, sentence, rank, _, logp, time, slot):
        words, links = [], []
        for rows, parent, word, looks in reversed(history[: time + 1]):
            row = rows[sentence]
            words.append(int(word[row, slot]))
            slot = parent[row, slot]
            if looks is not None:
                links.append(int(looks[row, slot]))
        words, links = words[::-1], links[::-1]
        ended = words[-1] == self.eos
        if ended:
            words, links = words[:-1], links[:-1]
        return Hypothesis(words, ended, float(logp), -float(rank), links)


def combined(steps):
    """The (y, alpha) of one model or more as one: y, its maxima, the mean of the alphas, and what is to be taken from y
    to have ln p, (k * B,).
    """
    alphas = [alpha for _, alpha in steps if alpha is not None]
    alpha = sum(alphas) / f32(len(alphas)) if alphas else None
    if len(steps) == 1:
        y = steps[0][0]
        top = y.max(axis=1)
        return y, top, alpha, kernels.log_sums(y, top)
    mean = 0
    for y, _ in steps:
        _, sums = kernels.log_softmax(y)
        y /= sums[:, None] * f32(len(steps))
        mean += y
    np.log(mean, out=mean)
    return mean, mean.max(axis=1), alpha, np.zeros(len(mean))
