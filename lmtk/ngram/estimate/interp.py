"""The deleted-interpolation n-gram of Jelinek and Mercer (1980), as in section 4.1 of Bengio et al. 2003.

For the trigram, with q_t = l(freq(w_(t-1), w_(t-2))):

    p(w_t | w_(t-1), w_(t-2)) = alpha_0(q_t) p_0 + alpha_1(q_t) p_1(w_t) + alpha_2(q_t) p_2(w_t | w_(t-1))
                                + alpha_3(q_t) p_3(w_t | w_(t-1), w_(t-2))

p_0 = 1/|V|; p_k is the relative frequency in the training counts; l(x) = ceil(-ln((1 + x)/T)), where T is the size of
the training text. If the context of p_k was never seen, p_k is p_(k-1), so that the sum over the vocabulary stays one.
Near the beginning of a sentence, where the context has fewer than n - 1 words, freq is the frequency of these words.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lmtk.em import check_weights, estimate_weights, fill_unvisited, log_likelihood
from lmtk.errors import FormatError, LmtkError, shown
from lmtk.files import container, curve
from lmtk.files.declared import ORDER, VOCABULARY, Array, check_contents
from lmtk.lm import Scores
from lmtk.ngram.counting.counts import BadLine, Level, find, find_rows, from_rows, parse_rows, to_rows, values
from lmtk.text.corpus import contexts
from lmtk.text.vocab import Vocab, vocab_of, vocab_settings


@dataclass(frozen=True)
class Interpolated:
    """levels: the training counts (ids of `vocab`); alpha (bins, n + 1): the weights of p_0 .. p_n in each bin."""

    vocab: Vocab
    order: int
    levels: list
    alpha: np.ndarray

    def score(self, corpus):
        """Scores: ln p of scored tokens, -inf outside the vocabulary; length of the longest counted n-gram there."""
        at = np.flatnonzero(corpus.scored & (corpus.ids < self.vocab.V))
        logp, longest = np.where(corpus.scored, -np.inf, 0.0), np.zeros(len(corpus.ids), np.int8)
        p, bins, longest[at] = predictors(self, contexts(corpus, self.order)[at], corpus.ids[at])
        with np.errstate(divide="ignore"):
            logp[at] = np.log((self.alpha[bins] * p).sum(axis=1))
        return Scores(logp, longest[:, None])

    def bins(self, corpus):
        """The bin of each token's context, (N,)."""
        return predictors(self, contexts(corpus, self.order), corpus.ids)[1]

    @cached_property
    def totals(self):
        """totals[k - 1]: for each context of k - 1 words, the sum of the counts of its predicted extensions."""
        sums, size = [], 1  # size: the number of contexts
        for level in self.levels:
            parent, word = np.divmod(level.keys, len(self.vocab.words))
            sums.append(np.bincount(parent, level.count * (word < self.vocab.V), size))
            size = len(level.keys)
        return sums

    @property
    def T(self):
        """The number of predicted words in the training text."""
        return self.totals[0][0]

    def lower(self, order):
        """The model with contexts of order - 1 words, which decide the bins; weights of longer p_k go to p_order."""
        alpha = self.alpha[:, : order + 1].copy()
        alpha[:, order] += self.alpha[:, order + 1 :].sum(axis=1)
        return Interpolated(self.vocab, order, self.levels[:order], alpha)

    def describe(self):
        yield "kind", "interp: deleted-interpolation n-gram"
        yield "order", self.order
        for k, level in enumerate(self.levels, 1):
            yield f"{k}-grams", int((level.count > 0).sum())
        yield "training size T", f"{self.T:.7g}"
        yield "bins", len(self.alpha)
        yield "predicted words |V|", self.vocab.V


def bin_of(x, T):
    """l(x) = ceil(-ln((1 + x)/T)), at least 0; int64, like x a number or (N,). The last bin is that of x = 0."""
    return np.maximum(np.ceil(-np.log((1 + x) / T)), 0).astype(np.int64)


def predictors(model, rows, w):
    """(p (N, n + 1), bins (N,), length (N,)) of words w (N,) in contexts, rows (N, n - 1), the nearest word first. p:
    p_0 .. p_n of w. bins: of the contexts. length: of the longest counted n-gram that ends in w.
    """
    levels, n, N, W = model.levels, model.order, len(w), len(model.vocab.words)
    p = np.empty((N, n + 1))
    p[:, 0] = 1 / model.vocab.V
    length = np.zeros(N, np.int8)
    frequency, orders = np.full(N, model.T), [level.keys for level in levels]
    for k in range(1, n + 1):
        # the node of w_(t-k+1) .. w_(t-1); the root, 0, stands for none of them
        node = find_rows(orders, rows[:, : k - 1][:, ::-1], W)
        if k > 1:
            has_word = rows[:, k - 2] >= 0
            frequency[has_word] = values(levels[k - 2].count, node, 0)[has_word]
        total = values(model.totals[k - 1], node, 0)
        count = values(levels[k - 1].count, find(levels[k - 1].keys, node, w, W), 0)
        length[count > 0] = k
        p[:, k] = np.where(total > 0, count / np.maximum(total, 1e-300), p[:, k - 1])
    return p, bin_of(frequency, model.T), length


def estimate(counts, vocab, order, heldout, iterations=5, tolerance=0.001, tell=None):
    """Counts and a held-out Corpus (ids of `vocab`) -> (Interpolated, how many held-out tokens each bin has). The
    weights are learned by EM and start equal. tell(iteration, ppl) is called with the held-out perplexity before each
    iteration, and at the end with None for the iteration. Raises LmtkError if the counts or the held-out text have no
    predicted word, or if the counts end below `order`.
    """
    if counts.order < order:
        raise LmtkError(f"the counts end at order {counts.order}, below -order {order}")
    ids = vocab.ids_of_words(counts.words)
    rows = [ids[row] for row in to_rows(counts.levels[:order], len(counts.words))]
    levels = from_rows(rows, [level.count for level in counts.levels[:order]], len(vocab.words))
    model = Interpolated(vocab, order, levels, None)
    if not model.T:
        raise LmtkError("the counts hold no 1-gram of the vocabulary")
    at = np.flatnonzero(heldout.scored & (heldout.ids < vocab.V))
    if not len(at):
        raise LmtkError("the held-out text has no word of the vocabulary")
    p, bins, _ = predictors(model, contexts(heldout, order)[at], heldout.ids[at])
    with np.errstate(divide="ignore"):
        logp = np.log(p)
    tell_ppl = lambda iteration, _, L: tell(iteration, curve.perplexity(L / len(at)))
    alpha = np.full((bin_of(0, model.T) + 1, order + 1), 1 / (order + 1))
    alpha = estimate_weights(logp, bins, alpha, iterations, tolerance, tell_ppl if tell else None)
    if tell:
        tell(None, curve.perplexity(log_likelihood(logp, bins, alpha) / len(at)))
    model = replace(model, alpha=fill_unvisited(alpha, bins))
    return model, np.bincount(bins, minlength=len(alpha))


def write_text(out, model):
    """Writes the \\interp\\ text form: settings, weights, words, then the counts of each order."""
    vocab = model.vocab
    out.write(b"\\interp\\\norder %d\nbins %d\nunk %s\n" % (model.order, len(model.alpha), vocab.unk))
    whole = model.levels[0].count.dtype.kind == "i"
    out.write(b"counts %s\n" % (b"whole" if whole else b"real"))
    out.write(b"predicted %d\nwords %d\n\n\\weights\\\n" % (vocab.V, len(vocab.words)))
    for i, row in enumerate(model.alpha.tolist()):
        out.write((f"{i} " + " ".join(map(repr, row)) + "\n").encode())
    out.write(b"\n\\words\\\n" + b"".join(w + b"\n" for w in vocab.words))
    words, number = np.array(vocab.words, object), b"%d" if whole else b"%.17g"
    for k, (rows, level) in enumerate(zip(to_rows(model.levels, len(words)), model.levels), 1):
        kept = level.count > 0
        out.write(b"\n\\%d-grams\\\n" % k)
        line = b" ".join([b"%s"] * k) + b"\t" + number + b"\n"
        out.writelines(map(line.__mod__, zip(*words[rows[kept].T].tolist(), level.count[kept].tolist())))
    out.write(b"\n\\end\\\n")


def read_text(stream, path, seen=()):
    """The model in an \\interp\\ file. Raises FormatError."""
    data = stream.read().replace(b"\r\n", b"\n")
    if not data.rstrip(b"\n").endswith(b"\n\\end\\"):
        raise FormatError(path, "the line \\end\\ is missing, so the file is incomplete")
    header, *sections = data[data.index(b"\\interp\\") :].split(b"\n\n\\")
    try:
        settings = dict(row.split(b" ", 1) for row in header.split(b"\n")[1:] if row)
        order, B, V = (int(settings[name]) for name in (b"order", b"bins", b"predicted"))
        bodies = {title.rstrip(b"\\"): body for title, _, body in (section.partition(b"\n") for section in sections)}
        rows = [row.split()[1:] for row in bodies[b"weights"].split(b"\n")]
        alpha = np.array(rows, dtype="S").astype(np.float64)
        words = bodies[b"words"].split(b"\n")
        vocab = vocab_of({"V": V, "unk": settings[b"unk"].decode("latin-1")}, words, path)
        if order < 1 or alpha.shape != (B, order + 1) or len(words) != int(settings[b"words"]):
            raise ValueError
        index, lines, floats = vocab.index | {b"\n": -1}, [], settings[b"counts"] == b"real"
        for k in range(1, order + 1):
            body = bodies[b"%d-grams" % k]
            line = data.count(b"\n", 0, data.rindex(b"\n\n\\%d-grams" % k)) + 3  # of the title
            try:
                part = parse_rows(body + b"\n", index, floats=floats)
            except KeyError as e:
                raise FormatError(path, f"the word {shown(e.args[0])} of an n-gram is not in \\words\\") from None
            if set(part) - {k}:
                raise FormatError(path, f"an n-gram of another order among the {k}-grams", line)
            lines.append(part.get(k, (np.zeros((0, k), np.int32), np.zeros(0, np.int64))))
    except BadLine as e:
        raise FormatError(path, f"expected words and a count, found '{e.args[1]}'", line + e.args[0]) from None
    except (ValueError, KeyError, IndexError):
        problem = "damaged: a section of the \\interp\\ model, or a number in it, is missing or wrong"
        raise FormatError(path, problem) from None
    rows, counts = map(list, zip(*lines))
    return checked(Interpolated(vocab, order, from_rows(rows, counts, len(words)), alpha), path)


def checked(model, path):
    """The model, unchanged. Warns of weights that do not sum to one; raises FormatError if there are too few bins."""
    check_weights(model.alpha, path)
    if model.T <= 0 or len(model.alpha) <= bin_of(0, model.T):
        raise FormatError(path, "damaged: the bins of the weights do not match the counts")
    return model


def write_binary(out, model):
    arrays = {"alpha": model.alpha}
    for k, level in enumerate(model.levels, 1):
        arrays |= {f"keys{k}": level.keys, f"count{k}": level.count}
    about = {"order": model.order, **vocab_settings(model.vocab)}
    container.write(out, "interp", about, arrays, model.vocab.words)


def from_arrays(about, arrays, path):
    """The model in a binary file's arrays. Raises FormatError."""
    words, sizes = check_contents(about, arrays, path, VOCABULARY | {"order": ORDER}, declare_arrays)
    levels = [Level(arrays[f"keys{k}"], arrays[f"count{k}"], None) for k in range(1, sizes.order + 1)]
    return checked(Interpolated(vocab_of(about["settings"], words, path), sizes.order, levels, arrays["alpha"]), path)


def declare_arrays(sizes, size):
    """Declare the arrays of the binary form. sizes, size: as in `check_contents`."""
    arrays, above = {"alpha": Array("F64", (max(size("alpha", 0), 1), sizes.order + 1))}, 1
    for k in range(1, sizes.order + 1):
        N = size(f"keys{k}", 0)
        arrays[f"keys{k}"] = Array("I64", (N,), 0, above * sizes.W - 1, ascending=True)
        arrays[f"count{k}"] = Array("I64 F64", (N,), 0, math.inf)
        above = N
    return arrays
