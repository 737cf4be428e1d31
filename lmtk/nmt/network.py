"""The translation model of Bahdanau, Cho, Bengio 2015: parameters, encoder, decoder, gradients, and its file.

`Model` holds the parameters theta and two vocabularies. `annotate` is the encoder and `decode` the decoder for a
minibatch whose targets are known; `annotate_backward` and `decode_backward` are their gradients. `cost` is one forward
and backward pass of training, `score_words` a forward pass for scoring. The equations are in `kernels`, the recurrent
units in `lmtk.units`. `from_arrays` reads a model file, and `file_parts` are its contents.
"""

import math
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from lmtk.files import container, declared
from lmtk.machine.blas import products
from lmtk.nmt import kernels
from lmtk.text.vocab import Vocab, vocab_of, vocab_settings
from lmtk.units import UNITS, factor, follow, follow_back, from_activations, sum_rows, weight_products

f32 = np.float32
# the settings that determine a Layout: SETTINGS checks them in a file, `read_sizes` adds those that old files lack
SIZES = ("embedding", "hidden", "alignment", "maxout", "unit", "tied")
GATES = {2: "gated", 3: "lstm"}  # some older files have the number of gates instead of the unit
SETTINGS = {
    "sizes": {
        **dict.fromkeys(("embedding", "hidden", "maxout"), declared.whole(1)),
        "alignment": declared.whole(0), "gates": declared.optional(declared.one_of(*GATES)),
        "unit": declared.optional(declared.one_of(*UNITS)),
        "tied": declared.optional(declared.one_of(True, False)),
    },
    "source": declared.VOCABULARY | {"words": declared.whole(1)},
    "target": declared.VOCABULARY,
    "training": declared.OPTIONS,
}  # fmt: skip


@dataclass(frozen=True)
class Model:
    """A translation model. theta: all parameters of appendix A in one array, (N,) float32; `at` gives them by letter.

    sizes: embedding m, hidden n, alignment n' (0: no attention, RNNencdec), maxout l; unit: a name in `units.UNITS`;
    tied: whether the output weights are the target embeddings. settings: the options of the run. subwords: the
    sentencepiece model that splits words into pieces, empty if the vocabularies hold whole words.
    """

    vocab: Vocab
    source: Vocab
    sizes: dict
    theta: np.ndarray
    settings: dict
    subwords: bytes = b""

    @property
    def at(self):
        return split_theta(self.theta, self.layout)

    @property
    def layout(self):
        return Layout(self.source, self.vocab, self.sizes)

    @property
    def has_attention(self):
        return self.layout.has_attention

    def describe(self):
        yield "kind", "nmt: translation model, " + ("RNNsearch" if self.has_attention else "RNNencdec")
        yield "source words", self.source.V
        yield "target words", self.vocab.V
        yield "embedding m", self.sizes["embedding"]
        yield "hidden units n", self.sizes["hidden"]
        if self.has_attention:
            yield "alignment units n'", self.sizes["alignment"]
        yield "maxout units l", self.sizes["maxout"]
        if self.sizes["unit"] != "gated":
            yield "hidden unit", UNITS[self.sizes["unit"]].name
        if self.sizes["tied"]:
            yield "output weights", "those of the target embeddings"
        yield "parameters", self.theta.size
        if "dropout" in self.settings:  # a model from training
            rate = self.settings.get("rate")
            yield "optimizer", "Adadelta" if rate is None else f"Adam, rate {rate:g}"
        yield from container.settings_for_people({k: v for k, v in self.settings.items() if k != "rate"})


class Layout:
    """The structure of a network for two vocabularies, and the order of its arrays in theta. sizes: those of a Model.

    unit: of encoder and decoder; alignment: n', 0 without attention; tied: whether the output weights are the target
    embeddings; shapes: letter -> shape, in the order of theta.
    """

    def __init__(self, source, target, sizes):
        self.unit, self.alignment, self.tied = UNITS[sizes["unit"]], sizes["alignment"], sizes["tied"]
        self.has_attention = self.alignment > 0
        gates, n, units = self.unit.gates, sizes["hidden"], self.alignment
        m, l, d = sizes["embedding"], sizes["maxout"], (gates + 1) * n
        A = 2 * n if units else n
        both = 2 if units else 1
        out = {"Ex": (len(source.words), m), "Wx": (m, d * both), "bx": (d * both,), "fS": (n, gates * n), "fU": (n, n)}
        if units:
            out |= {"bS": (n, gates * n), "bU": (n, n), "Ua": (A, units), "ba": (units,), "va": (units,)}
        out |= {"Ws": (n, n), "bs": (n,), "Ey": (len(target.words), m), "Wy": (m, d + 2 * l), "by": (d + 2 * l,)}
        out |= {"S": (n, units + gates * n), "U": (n, n), "C": (A, d), "Uo": (n, 2 * l), "Co": (A, 2 * l)}
        self.shapes = out | ({} if self.tied else {"Wo": (l, target.V)}) | {"bo": (target.V,)}


def arrays_by_letter(flat, layout):
    """Letter -> view of its part of a flat array; layout: a Layout."""
    out, start = {}, 0
    for name, shape in layout.shapes.items():
        end = start + math.prod(shape)
        out[name] = flat[start:end].reshape(shape)
        start = end
    return out


def split_theta(flat, layout):
    """The views of the parts of a flat array as attributes by letter, and the Layout as `layout`."""
    return SimpleNamespace(layout=layout, **arrays_by_letter(flat, layout))


def count_parameters(layout):
    return sum(map(math.prod, layout.shapes.values()))


class Side:
    """The sentences of one side of a minibatch, longest first, packed time by time: all first words, then all second
    words.

    words (P,): ids; sizes: for each t, the number of sentences that have a t-th word; row, time (P,): the sentence and
    the place of each word; lengths (K,): of the sentences.
    """

    def __init__(self, sentences):
        self.lengths = np.array([len(s) for s in sentences])
        words = np.zeros((len(sentences), self.lengths[0]), np.int32)
        present = np.arange(self.lengths[0]) < self.lengths[:, None]
        words[present] = np.concatenate(sentences)
        self.time, self.row = np.nonzero(present.T)
        self.words, self.sizes = words[self.row, self.time], present.sum(axis=0).tolist()


def longest_first(sentences):
    """The indices of the sentences, longest first; sentences of equal length stay in their order."""
    return np.argsort([-len(s) for s in sentences], kind="stable")


def make_batches(sentences, together, words):
    """Yield the indices of sentences of similar length, longest first.

    A batch has `together` sentences, or as many as have at most `words` words when padded to the longest, but at least
    one.
    """
    order, i = longest_first(sentences), 0
    while i < len(order):
        end = i + max(1, min(together, words // len(sentences[order[i]])))
        yield order[i:end]
        i = end


def output_weights(p):
    """W_o, (l, V), a view. If tied, it is the transposed target embeddings (Press & Wolf 2017), and l is m."""
    return p.Ey[: len(p.bo)].T if p.layout.tied else p.Wo


def widths(p):
    """(n', the width of the gates of a unit, d) of the decoder; n' is 0 without attention."""
    n = len(p.U)
    gates = p.layout.unit.gates * n
    return p.layout.alignment, gates, gates + n


def no_dropout(shape):
    return None


def apply_mask(x, mask):
    return x if mask is None else x * mask


class Embedded:
    """The embeddings E, Ex or Ey, of words (P,), those of each distinct word once. distinct (D,): ids; number (P,): the
    place of each word among them; e (D, m): the embeddings times mask (D, m), a dropout mask or None, by `drop`, a
    function from a shape to a mask.
    """

    def __init__(self, E, words, drop):
        self.distinct, self.number = np.unique(words, return_inverse=True)
        self.mask = drop((len(self.distinct), E.shape[1]))
        self.e = apply_mask(E[self.distinct], self.mask)


def embed_backward(embedded, W, gG, gradients):
    """From gG (D, .), the gradient of eW + b: write gW and gb, and add the gradient of the embeddings to gE.

    gradients: gW, gb, gE.
    """
    gW, gb, gE = gradients
    np.matmul(embedded.e.T, gG, out=gW)
    gG.sum(axis=0, out=gb)
    gE[embedded.distinct] += apply_mask(gG @ W.T, embedded.mask)


def annotate(p, sentences, drop=no_dropout):
    """The encoder (A.2.1) over sentences of ids in any order.

    drop: a function from a shape to a dropout mask. Returns the annotations H (K, T, A) in the order of the sentences,
    0 behind their ends (without attention (K, 1, n), the last state); the state (K, n) that s_0 is computed from; the
    lengths (K,); and what `annotate_backward` needs.
    """
    order = longest_first(sentences)
    side = Side([sentences[i] for i in order])
    n, K, T = len(p.fU), len(sentences), side.lengths[0]
    d = p.fS.shape[1] + n
    row, last = order[side.row], side.lengths[side.row] - 1 - side.time
    x = Embedded(p.Ex, side.words, drop)
    G = x.e @ p.Wx
    # the forward states h_j = (1 - z_j) o h_(j-1) + z_j o h~_j, h_0 = 0 (A.2.1; the unit itself is in units.py)
    f, f_kept, _ = follow(p.layout.unit, (G[:, :d], x.number, p.bx[:d]), side.sizes, (p.fS, p.fU))
    lengths = np.empty(K, np.int64)
    lengths[order] = side.lengths
    kept = SimpleNamespace(side=side, row=row, last=last, x=x, f=f_kept)
    if not p.layout.has_attention:
        h = np.zeros((K, 1, n), f.dtype)
        ends = np.flatnonzero(last == 0)
        h[row[ends], 0] = f[ends]
        kept.ends = ends
        return h, h[:, 0], lengths, kept
    # the backward unit reads the reversed sentences, so `follow` can compute its states too
    words = np.empty((K, T), np.int64)
    words[side.row, side.time] = x.number
    kept.reversed = words[side.row, last]
    b, kept.b, _ = follow(p.layout.unit, (G[:, d:], kept.reversed, p.bx[d:]), side.sizes, (p.bS, p.bU))
    # equation 7: h_j is the forward and the backward state, concatenated
    H = np.zeros((K, T, 2 * n), f.dtype)
    H[row, side.time, :n] = f
    H[row, last, n:] = b
    return H, H[:, 0, n:], lengths, kept


def annotate_backward(p, g, gH, kept):
    """Write the gradients of the encoder into g, from gH (K, T, A)."""
    side, n, D = kept.side, len(p.fU), len(kept.x.distinct)
    if p.layout.has_attention:
        gf, gb = gH[kept.row, side.time, :n], gH[kept.row, kept.last, n:]
    else:
        gf = np.zeros((len(side.row), n), gH.dtype)
        gf[kept.ends] = gH[kept.row[kept.ends], 0]
    unit = p.layout.unit
    rows = follow_back(unit, gf, side.sizes, (p.fS, p.fU), kept.f)
    gG, weights = sum_rows(rows, kept.x.number, D), weight_products(unit, kept.f, rows, g.fS, g.fU)
    if p.layout.has_attention:
        rows = follow_back(unit, gb, side.sizes, (p.bS, p.bU), kept.b)
        gG = np.hstack((gG, sum_rows(rows, kept.reversed, D)))
        weights += weight_products(unit, kept.b, rows, g.bS, g.bU)
    products(1, *weights)
    g.Ex[:] = 0
    embed_backward(kept.x, p.Wx, gG, (g.Wx, g.bx, g.Ex))


def decode(p, source, target, sos, drop=no_dropout):
    """Encoder and decoder (A.2) over a minibatch whose target words are known: equation 4 without the softmax.

    source, target: lists of K sentences of ids, the targets longest first; sos: the id of <s>; drop: a function from a
    shape to a dropout mask. Returns t (P, l), the maxout units; w (P,), the words to predict; and what
    `decode_backward` needs.
    """
    H, h, lengths, encoder = annotate(p, source, drop)
    mask_H = drop(H.shape)
    mask_h = None if mask_H is None else np.ascontiguousarray(mask_H[:, 0, -h.shape[1] :])
    h, H = apply_mask(h, mask_h), apply_mask(H, mask_H)
    side = Side(target)
    n, l, (units, gates, d), attention = len(p.U), p.Uo.shape[1] // 2, widths(p), p.layout.has_attention
    P, A = len(side.words), H.shape[2]
    starts = np.concatenate(([0], np.cumsum(side.sizes)))
    y = Embedded(p.Ey, previous_words(side, starts, sos), drop)
    G = y.e @ p.Wy + p.by
    zr, t, o = G[y.number, :gates], G[y.number, gates:d], G[y.number, d:]
    # A.2.2: s_0 = tanh(W_s h_1), h_1 of the backward unit, and s_i by the unit from s_(i-1), E y_(i-1) and c_i
    s0 = np.tanh(h @ p.Ws + p.bs)
    unit, s = p.layout.unit, from_activations(p.layout.unit, s0)
    states, new = np.empty((2, P, s.shape[1]), G.dtype)
    seen, c = np.empty((P, n), G.dtype), np.empty((P, A), G.dtype)
    # without attention the one annotation has all the weight
    q, alphas = np.empty((P, units), G.dtype), np.ones((P, H.shape[1]), G.dtype)
    UH = kernels.project_annotations(H, p.Ua, p.ba) if attention else None
    fixed = None if attention else H[:, 0] @ p.C
    absent = np.where(np.arange(H.shape[1]) < lengths[:, None], 0, -np.inf).astype(H.dtype)
    S, U, C = factor(p.S), factor(p.U), factor(p.C)
    for i, k in enumerate(side.sizes):
        now = slice(starts[i], starts[i + 1])
        s = s[:k]
        states[now] = s
        Q = s[:, :n] @ S
        # c_i by equations 5 and 6; without attention it is h_Tx for all i (A.2.2)
        if attention:
            q[now] = Q[:, :units]
            alphas[now], c[now] = kernels.attend(H[:k], UH[:k], absent[:k], q[now], p.va)
            from_c = c[now] @ C
        else:
            c[now], from_c = H[:k, 0], fixed[:k]
        zr[now] += Q[:, units:]
        t[now] += from_c[:, gates:]
        unit.step(zr[now], t[now], states[now], U, from_c[:, :gates], new[now], seen[now])
        s = new[now]
    # t~_i = U_o s_(i-1) + V_o E y_(i-1) + C_o c_i, and t_i (A.2.2)
    o += states[:, :n] @ p.Uo
    o += c @ p.Co
    mask_t = drop((P, l))
    out = apply_mask(kernels.maxout(o), mask_t)
    kept = SimpleNamespace(
        encoder=encoder, H=H, UH=UH, h=h, s0=s0, lengths=lengths, side=side, starts=starts, y=y, q=q, zr=zr, t=t, o=o,
        states=states, seen=seen, c=c, alphas=alphas, mask_H=mask_H, mask_t=mask_t,
    )  # fmt: skip
    return out, side.words, kept


def previous_words(side, starts, sos):
    """y_(i-1) of each word of the targets, (P,): the word of the same sentence one time step before, <s> at first."""
    K, before = side.sizes[0], np.empty(len(side.words), np.int32)
    before[:K] = sos
    before[K:] = side.words[starts[side.time[K:] - 1] + side.row[K:]]
    return before


def decode_backward(p, g, gt, kept):
    """Write all gradients except those of Wo and bo into g, from gt (P, l), the gradient of the maxout units.

    If the output is tied, g.Ey must already hold its gradient as output weights; its gradient as embeddings is added.
    """
    side, starts, H, zr, t, states = kept.side, kept.starts, kept.H, kept.zr, kept.t, kept.states
    n, P, unit, (units, gates, d) = len(p.U), len(gt), p.layout.unit, widths(p)
    s, attention = states[:, :n], p.layout.has_attention
    go = kernels.maxout_backward(kept.o, apply_mask(gt, kept.mask_t))
    np.matmul(s.T, go, out=g.Uo)
    np.matmul(kept.c.T, go, out=g.Co)
    gs_out, gc = go @ p.Uo.T, go @ p.Co.T
    gG = np.empty((P, d), gt.dtype)
    gQ = np.empty((P, units + gates), gt.dtype)
    UT, ST, CT = (factor(a.T) for a in (p.U, p.S, p.C))
    if attention:
        gUH = np.zeros_like(kept.UH)
        g.va[:] = 0
    carried = np.zeros((len(kept.s0), states.shape[1]), gt.dtype)
    for i in range(len(side.sizes) - 1, -1, -1):
        k, now = side.sizes[i], slice(starts[i], starts[i + 1])
        gs, gate = carried[:k], gG[now]
        unit.back(gs, zr[now], t[now], states[now], kept.seen[now], UT, gate)
        gc[now] += gate @ CT
        if attention:
            a = kernels.tanh_sum(kept.UH[:k], kept.q[now])
            attended = H[:k], a, kept.alphas[now], p.va
            kernels.attend_backward(attended, kept.lengths[:k], gc[now], (gUH[:k], g.va, gQ[now, :units]))
        gQ[now, units:] = gate[:, :gates]
        gs[:, :n] += gQ[now] @ ST
        gs[:, :n] += gs_out[now]
    gH = np.zeros_like(H)
    kernels.contexts_backward(kept.alphas, gc, starts, side.lengths, np.minimum(kept.lengths, H.shape[1]), gH)
    np.matmul(s.T, gQ, out=g.S)
    np.matmul((s if unit.alike else kept.seen).T, gG[:, gates:], out=g.U)
    np.matmul(kept.c.T, gG, out=g.C)
    gG_distinct = np.hstack([sum_rows(rows, kept.y.number, len(kept.y.distinct)) for rows in (gG, go)])
    g.Ey[len(p.bo) if p.layout.tied else 0 :] = 0
    embed_backward(kept.y, p.Wy, gG_distinct, (g.Wy, g.by, g.Ey))
    if attention:
        rows = gUH.reshape(-1, units)
        np.matmul(H.reshape(len(rows), -1).T, rows, out=g.Ua)
        rows.sum(axis=0, out=g.ba)
        gH += (rows @ p.Ua.T).reshape(H.shape)
    gs0 = carried[:, :n] * (1 - kept.s0 * kept.s0)
    np.matmul(kept.h.T, gs0, out=g.Ws)
    gs0.sum(axis=0, out=g.bs)
    gH[:, 0, H.shape[2] - n :] += gs0 @ p.Ws.T
    annotate_backward(p, g, apply_mask(gH, kept.mask_H), kept.encoder)


def cost(p, pairs, sos, g, drop=no_dropout, smoothing=0.0, sentences=None):
    """The sum of ln p over the words of a minibatch, or of a part of one; the gradient of the cost is written into g.

    pairs: the source and the target sentences, two lists of ids.

    The cost is the sum of -ln p, with label smoothing (`kernels.output_backward`), divided by `sentences`, the number
    of sentences of the whole minibatch; None: the number of sentences in this call. drop: a function from a shape to a
    dropout mask.
    """
    source, target = pairs
    order = longest_first(target)
    source, target = [source[i] for i in order], [target[i] for i in order]
    t, w, kept = decode(p, source, target, sos, drop)
    weights, gradients = (output_weights(p), p.bo), (output_weights(g), g.bo)
    logp, gt = kernels.output_backward(t, w, weights, gradients, 1 / (sentences or len(target)), smoothing)
    decode_backward(p, g, gt, kept)
    return float(logp.sum())


def score_words(p, source, target, sos):
    """The scores of each pair of a minibatch, whose targets end with </s>.

    A score is ln p of the target's words, (T_y,) float64, and alpha, (T_y, T_x), or None without attention.
    """
    order = longest_first(target)
    t, w, kept = decode(p, [source[i] for i in order], [target[i] for i in order], sos)
    logp, side = kernels.score_outputs(t, w, output_weights(p), p.bo), kept.side
    logp = np.split(logp[np.argsort(side.row, kind="stable")], np.cumsum(side.lengths)[:-1])
    out = [None] * len(order)
    for row, i in enumerate(order):
        at = kept.starts[: side.lengths[row]] + row
        out[i] = logp[row], kept.alphas[at, : kept.lengths[row]] if p.layout.has_attention else None
    return out


def score(p, source, target, sos):
    """ln p(target | source) of each pair, (K,) float64."""
    return np.array([logp.sum() for logp, _ in score_words(p, source, target, sos)])


def file_parts(model):
    """The contents of a model's file, as `container.write` takes them."""
    about = {"sizes": model.sizes, "target": vocab_settings(model.vocab), "training": model.settings}
    about["source"] = {**vocab_settings(model.source), "words": len(model.source.words)}
    arrays = arrays_by_letter(model.theta, model.layout)
    if model.subwords:
        arrays["subwords"] = np.frombuffer(model.subwords, np.uint8)
    return "nmt", about, arrays, [*model.source.words, *model.vocab.words]


def read_sizes(stored):
    """The sizes in a file, with defaults for what files of older versions of lmtk lack.

    The oldest files do not name the unit, which is the gated unit. Later ones have the number of gates instead. Older
    files do not say whether the output is tied; it is not.
    """
    defaults = {"unit": GATES[stored.get("gates") or 2], "tied": False}
    return {name: (defaults | stored)[name] for name in SIZES}


def from_arrays(about, arrays, path):
    """Make the Model from the arrays of a file. Raises FormatError if their shapes do not fit together."""
    words, settings = declared.vocabulary(arrays, path), about["settings"]
    declared.check_settings(settings, SETTINGS, path)
    source_words = settings["source"]["words"]
    source = vocab_of(settings["source"], words[:source_words], path)
    target = vocab_of(settings["target"], words[source_words:], path)
    sizes = read_sizes(settings["sizes"])
    shapes = Layout(source, target, sizes).shapes
    for name, shape in shapes.items():
        declared.check_array(arrays.get(name), declared.reals(*shape), name, path)
    theta = np.concatenate([arrays[name].ravel() for name in shapes])
    subwords = arrays["subwords"].tobytes() if "subwords" in arrays else b""
    return Model(target, source, sizes, theta, settings["training"], subwords)
