"""Translation by beam search over many sentences at once (Bahdanau et al. 2015, section 4.2).

Sentences of ids come in; for each, the best hypotheses come out. `Translator` sorts sentences into batches. `search`
extends the live hypotheses of a batch word by word: `Decoder.step` computes the outputs, `kernels.best_words` selects
the best continuations, and a sentence leaves the batch when no live hypothesis can win (`goes_on`). Several models are
an ensemble (`combine_steps`).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lmtk.machine import memory
from lmtk.machine.threads import map_at_once
from lmtk.nmt import kernels, network
from lmtk.units import factor, from_activations

f32 = np.float32
ROOM = 1 << 25  # numbers in `Decoder.HC` of a model for all batches that are searched at once: 128 MB


@dataclass(frozen=True)
class Beam:
    """How to search.

    size: the number of hypotheses kept; length_power: of T in `rank`; factor, extra: a translation has at most `factor`
    times as many words as the source, plus `extra`; banned: the id of a word that is never generated, or None; wanted:
    how many of the best to return.
    """

    size: int
    length_power: float = 1.0
    factor: float = 2.0
    extra: int = 10
    banned: int | None = None
    wanted: int = 1

    def rank(self, logp, T):
        """What hypotheses of T words, including </s>, are sorted by: ln p / T^length_power; for arrays too."""
        return logp / T**self.length_power


@dataclass(frozen=True)
class Hypothesis:
    """A translation.

    words: ids without </s>; ended: whether </s> follows (if not, the length limit cut the translation); logp: ln p,
    including </s>; rank: from `Beam.rank`; links: for each word the place of the source word with the greatest weight,
    empty without attention; alpha (T_y, T_x): the attention weights, from `scoring.rescore_alone`; the search gives
    None.
    """

    words: list
    ended: bool
    logp: float
    rank: float
    links: list
    alpha: np.ndarray | None = None


class Tables:
    """The arrays of a model in the form that the search multiplies. G (V + 1, d + 2l): the part of a decoder step that
    depends on the last word.

    Matrices that multiply the same vector are side by side: S [W_a U_z U_r U_o] for the state, C [C_z C_r C C_o] for
    annotations, Wo [W_o; b_o] for the maxout units and a 1.
    """

    def __init__(self, p):
        self.p, self.unit, self.widths = p, p.layout.unit, network.widths(p)
        self.G = p.Ey @ p.Wy + p.by
        self.S, self.U, self.C = factor(p.S, p.Uo), factor(p.U), factor(p.C, p.Co)
        self.Wo = factor(kernels.output_spans(network.output_weights(p), p.bo))


class Decoder:
    """The decoder of one model for a batch of sentences. Each live hypothesis has a row; hypotheses that have ended do
    not.
    """

    def __init__(self, tables, sentences):
        self.tables, p = tables, tables.p
        H, h, self.lengths, _ = network.annotate(p, sentences)
        K, T, A = H.shape
        self.UH = kernels.project_annotations(H, p.Ua, p.ba) if p.layout.has_attention else None
        # C c_i = sum_j alpha_ij C h_j: one product for each annotation h_j, instead of one for each context c_i of each
        # hypothesis
        self.HC = (H.reshape(-1, A) @ tables.C).reshape(K, T, -1)
        self.state = from_activations(tables.unit, np.tanh(h @ p.Ws + p.bs))

    def step(self, word, parents, parent, at):
        """The outputs after the last words `word` (R,) of hypotheses, as in `kernels.span_outputs`, and alpha (D, T).

        parents (D,): the rows of the previous step that are continued, of the sentences `at` (D,); parent (R,): for
        each hypothesis, the place of its row among `parents`. All that does not depend on the last word is computed
        once for each parent, even alpha, since c_i depends on s_(i-1). alpha is None without attention.
        """
        tables, alpha, n, state = self.tables, None, len(self.tables.p.U), self.state[parents]
        units, gates, _ = tables.widths
        Q, R = state[:, :n] @ tables.S, len(word)
        if tables.p.layout.has_attention:
            alpha, c = kernels.attend_at(self.HC, self.UH, at, self.lengths, Q[:, :units], tables.p.va)
        else:
            c = self.HC[at, 0]
        zr, proposed, t = (np.empty((R, N), Q.dtype) for N in (gates, n, len(tables.Wo)))
        kernels.step_inputs(Q, c, tables.G, parent, word, (zr, proposed, t))
        before, kept = state[parent], np.empty_like(proposed)
        self.state = np.empty_like(before)
        tables.unit.step(zr, proposed, before, tables.U, None, self.state, kept)
        return kernels.span_outputs(t, tables.Wo), alpha


class Translator:
    """Models of the same vocabularies. Several models are an ensemble: the probability of a word is the mean of theirs.

    threads: how many batches of sentences are searched at once. tell: is called with the number of sentences of each
    batch that is done.
    """

    def __init__(self, *models, threads=1, tell=lambda number: None):
        self.threads, self.tell = threads, tell
        self.sos, self.eos = models[0].vocab.sos_id, models[0].vocab.eos_id
        memory.keep()
        self.tables = [Tables(model.at) for model in models]

    def __call__(self, sentences, beam, together):
        """The hypotheses of each sentence of ids that ends with </s>, best first, in the order of the sentences.

        together: the largest number of sentences in a batch; a batch has fewer if they do not fit into ROOM.
        """

        def work(batch):
            hypotheses = self.search([sentences[i] for i in batch], beam)
            self.tell(len(batch))
            return hypotheses

        out = [None] * len(sentences)
        width = max(tables.G.shape[1] for tables in self.tables)
        batches = list(network.make_batches(sentences, together, ROOM // (width * self.threads)))
        # a single batch uses the threads in its matrix products
        translated = map_at_once(work, batches, self.threads) if len(batches) > 1 else map(work, batches)
        for batch, hypotheses in zip(batches, translated, strict=True):
            for i, ranked in zip(batch, hypotheses, strict=True):
                out[i] = ranked
        return out

    def search(self, sentences, beam):
        """The hypotheses of each sentence of a batch, best first; `goes_on` says when a sentence is done.

        Each step has B candidates for each of its sentences, best first, numbered sentence by sentence. Those that have
        not ended are the rows of the next step. history: for each step, and for each of its candidates, the candidate
        of the previous step that it continues, its word, and its link (None without attention).
        """
        B, K = beam.size, len(sentences)
        decoders = [Decoder(tables, sentences) for tables in self.tables]
        lengths = decoders[0].lengths
        # links do not go to the source's </s>
        to_eos = np.where(np.arange(lengths.max()) == lengths[:, None] - 1, f32(-1), f32(0))
        limit = (beam.factor * (lengths - 1)).astype(np.int64) + beam.extra
        # of each row: its sentence, ln p, last word, the row of the previous step that it continues, and its number
        # among the candidates of that step
        at, total, word = np.arange(K), np.zeros(K), np.full(K, self.sos)
        origin, number = np.arange(K), np.zeros(K, np.int64)
        history, ended = [], [[] for _ in range(K)]
        while len(at):
            time = len(history) + 1
            alive, starts = np.unique(at, return_index=True)
            parents, first, parent = np.unique(origin, return_index=True, return_inverse=True)
            steps = [decoder.step(word, parents, parent, at[first]) for decoder in decoders]
            (y, tops, sums), alpha = combine_steps(steps)
            if beam.banned is not None:
                y[:, beam.banned] = -np.inf
            shape = len(alive), B
            row, word, score = np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.empty(shape)
            kernels.best_words(y, tops, total - sums, np.append(starts, len(at)), row, word, score)
            row = row.ravel()
            links = None if alpha is None else (alpha + to_eos[at[first]]).argmax(axis=1)[parent[row]]
            history.append((number[row], word.ravel(), links))
            stop = (score > -np.inf) & ((word == self.eos) | (time >= limit[alive])[:, None])
            for k, slot in zip(*np.nonzero(stop), strict=True):
                logp, entries = score[k, slot], ended[alive[k]]
                entries.append(Ended(beam.rank(logp, time), logp, time, k * B + slot))
            score[stop] = -np.inf
            go = goes_on(beam, [ended[i] for i in alive], score.max(axis=1), time, limit[alive])
            number = np.flatnonzero((score > -np.inf) & go[:, None])
            at, total, word, origin = alive[number // B], score.ravel()[number], word.ravel()[number], row[number]
        # of equally good hypotheses, the one that ended first comes first
        best = [sorted(entries, key=lambda entry: -entry.rank)[: beam.wanted] for entries in ended]
        return [[self.hypothesis(history, entry) for entry in entries] for entries in best]

    def hypothesis(self, history, entry):
        """The Hypothesis of an Ended, from the history of `search`."""
        words, links, i = [], [], entry.candidate
        for before, word, link in reversed(history[: entry.time]):
            words.append(int(word[i]))
            if link is not None:
                links.append(int(link[i]))
            i = before[i]
        words, links = words[::-1], links[::-1]
        ended = words[-1] == self.eos
        if ended:
            words, links = words[:-1], links[:-1]
        return Hypothesis(words, ended, float(entry.logp), float(entry.rank), links)


class Ended(NamedTuple):
    """A hypothesis that has ended. rank: from `Beam.rank`; time: the number of words, with </s>; candidate: the number
    of this hypothesis among the candidates of its last step.
    """

    rank: float
    logp: float
    time: int
    candidate: int


def goes_on(beam, ended, live, time, limit):
    """Whether the search goes on, for each of K sentences, (K,).

    A sentence is done when no live hypothesis can still rank above the best ended one (or above the last one wanted, if
    several are wanted), when `size` hypotheses have ended and no live one ranks above it now, or at its limit.

    ended: a list of Ended for each sentence; live (K,): the highest ln p of the live hypotheses, which have `time`
    words; limit (K,): the greatest number of words.
    """
    hope, now = beam.rank(live, limit), beam.rank(live, time)
    ranks = [sorted((entry.rank for entry in entries), reverse=True) for entries in ended]
    best = [each[beam.wanted - 1] if len(each) >= beam.wanted else -np.inf for each in ranks]
    is_full = np.array([len(entries) >= beam.size for entries in ended])
    return ~((time >= limit) | (best >= hope) | (is_full & (best >= now)))


def combine_steps(steps):
    """Combine the steps of several models: outputs whose softmax is the mean of their probabilities, and the mean
    alpha.
    """
    alphas = [alpha for _, alpha in steps if alpha is not None]
    alpha = sum(alphas) / f32(len(alphas)) if alphas else None
    if len(steps) == 1:
        return steps[0][0], alpha
    p = sum(np.exp(y - sums[:, None].astype(f32)) for (y, _, sums), _ in steps) / f32(len(steps))
    with np.errstate(divide="ignore"):
        y = np.log(p, out=p)
    return (y, y.reshape(len(y), -1, kernels.SPAN).max(axis=2), np.zeros(len(y))), alpha
