"""Translation by beam search over many sentences at once (Bahdanau et al. 2015, section 4.2)."""

from dataclasses import dataclass, replace

import numpy as np

from lmtk.nmt import kernels, network

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


class Translator:
    """A model with what the words of the target give to the decoder computed beforehand."""

    def __init__(self, model):
        self.p, self.sos, self.eos = model.at, model.vocab.sos_id, model.vocab.eos_id
        network.keep_memory()
        self.table = self.p.Ey @ self.p.Wy + self.p.by

    def __call__(self, sentences, beam, together):
        """The hypotheses of each sentence of ids that ends with </s>, best first, in the order of the sentences.

        together: the most sentences to search for at once; fewer where the memory of their alignments says so.
        """
        out = [None] * len(sentences)
        units = max(1, self.p.S.shape[1] - 2 * len(self.p.U))
        for batch in network.batches(sentences, together, ROOM // (beam.size * units)):
            for i, found in zip(batch, self.search([sentences[i] for i in batch], beam), strict=True):
                out[i] = found
        return out

    def search(self, sentences, beam):
        """The hypotheses of each sentence, best first.

        A sentence is done when it has as many hypotheses that have ended as the beam is wide, or none that goes on can
        become better than the best that has ended.
        """
        p, B, K = self.p, beam.size, len(sentences)
        n, units, attention = len(p.U), p.S.shape[1] - 2 * len(p.U), hasattr(p, "Ua")
        H, h, absent, lengths, _ = network.annotate(p, sentences)
        UH = kernels.look(H, p.Ua, p.ba) if attention else None
        # what a context gives to gates and output is the weighted mean of what the annotations give, which is a product
        # for each source word instead of one for each word of each hypothesis
        HC = (H.reshape(-1, H.shape[2]) @ np.hstack((p.C, p.Co))).reshape(K, H.shape[1], -1)
        # nobody looks at </s> for the translation of a word
        to_eos = np.where(np.arange(H.shape[1]) == lengths[:, None] - 1, -1, 0).astype(H.dtype) if attention else None
        limit = (beam.factor * (lengths - 1)).astype(np.int64) + beam.extra
        alive = np.arange(K)  # the sentence of each row of what follows
        state = np.repeat(np.tanh(h @ p.Ws + p.bs)[:, None], B, axis=1)
        total = np.full((K, B), -np.inf)
        total[:, 0] = 0
        word = np.full((K, B), self.sos)
        history, ended = [], [[] for _ in range(K)]
        while len(alive):
            k, time = len(alive), len(history)
            G = self.table[word.ravel()]
            s = state.reshape(k * B, n)
            Q = s @ p.S
            links = None
            if attention:
                alpha, c = kernels.attend(HC, UH, absent, Q[:, :units].reshape(k, B, units), p.va)
                links = (alpha + to_eos[:, None]).argmax(axis=2)
                G += c.reshape(k * B, -1)
            else:
                G += np.repeat(HC[:, 0], B, axis=0)
            o = G[:, 3 * n :]
            o += s @ p.Uo
            y = kernels.maxout(o) @ p.Wo
            y += p.bo
            base = total.ravel() - kernels.log_sums(y)
            if beam.banned is not None:
                y[:, beam.banned] = -np.inf
            zr = G[:, : 2 * n]
            zr += Q[:, units:]
            s = kernels.unit(zr, G[:, 2 * n : 3 * n], s, p.U)[0].reshape(k, B, n)
            parent, word, total = np.zeros((k, B), np.int64), np.zeros((k, B), np.int64), np.empty((k, B))
            kernels.best_words(y, base, B, parent, word, total)
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
            hope = total.max(axis=1) / limit[alive] ** beam.normalize
            best = np.array([min(ended[i])[0] * -1 if ended[i] else -np.inf for i in alive])
            many = np.array([len(ended[i]) >= B for i in alive])
            go = ~(many | last | (best >= hope))
            state = np.take_along_axis(s, parent[:, :, None], axis=1)[go]
            total, word, alive = total[go], word[go], alive[go]
            if not go.all():
                HC, absent = HC[go], absent[go]
                if attention:
                    UH, to_eos = UH[go], to_eos[go]
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


def scored_alone(model, sentence, found, beam):
    """The hypotheses of a sentence, best first, with ln p, rank and alpha computed apart from other sentences: the last
    digits of a product depend on how many rows it has, and so would the numbers that are shown on the size of a batch.
    """
    targets = [np.array([*h.words, model.vocab.eos_id], np.int32) for h in found]
    out = []
    for h, (logps, alpha) in zip(
        found, network.score_words(model.at, [sentence] * len(found), targets, model.vocab.sos_id)
    ):
        T = len(h.words) + h.ended
        logp = float(logps[:T].sum())
        out.append(replace(h, logp=logp, rank=logp / T**beam.normalize, alpha=alpha))
    return sorted(out, key=lambda h: -h.rank)
