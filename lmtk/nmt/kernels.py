"""The equations of RNNsearch and RNNencdec, Bahdanau, Cho, Bengio 2015, appendix A, over arrays: forward and backward.

`attend` is the alignment model, `maxout` and `score_outputs` the deep output; functions whose names end in _backward
are their gradients. `attend_at`, `step_inputs`, `span_outputs` and `best_words` are the forms for beam search. `adam`
and `adadelta` are the updates of the parameters.

A row of an array is a sentence or a word, so the paper's `W e` is `e @ W` here. Matrices that multiply the same vector
are side by side in one array. `gX` is the gradient of the cost, minus the log-likelihood, with respect to X.

symbol  shape           meaning (appendix A)
Kx V    -               words of the source; words of the target that are predicted
m n l   -               embedding, hidden units, maxout units
n' A    -               alignment units; size of an annotation: 2n, or n without attention, where n' is 0
K T     -               sentences of a minibatch; the greatest T_x, T_x being words of a source sentence with its </s>
P       -               words of all sentences of a side, packed: first words first, longer sentences first
Ex Ey   (Kx, m) (.., m) embeddings; Ey has a row for <s> too
d       -               inputs of a unit: 3n; with -unit lstm 4n, and [i f o] stands where [z r] does; with -unit rnn n,
                        without the parts of [z r], so that fS and bS are empty
Wx bx   (m, 2d) (2d,)   encoder: [Wz Wr W] of the forward unit, then of the backward unit; without attention (m, d)
fS fU   (n, 2n) (n, n)  forward encoder: [Uz Ur], U
bS bU   (n, 2n) (n, n)  backward encoder; only with attention
Ws bs   (n, n) (n,)     the first state of the decoder
Wy by   (m, d + 2l)     decoder: [Wz Wr W Vo], and their biases
S U     (n, n' + 2n) (n, n)  decoder: [Wa Uz Ur], U
C       (A, d)          decoder: [Cz Cr C]
Ua ba va  (A, n') (n',) (n',)  alignment model
Uo Co   (n, 2l) (A, 2l) deep output
Wo bo   (l, V) (V,)     output words
H UH    (K, T, A) (K, T, n')  annotations h_j; U_a h_j
zr t s  (P, 2n) (P, n) (P, n)  gates, proposed states, states before the step: those of a gated unit, step by step;
                        of an LSTM (P, 3n) (P, n) (P, 2n), the state being [s, memory]; of tanh units (P, 0) (P, n)
                        (P, n)
"""

import numpy as np

from lmtk.exponential import FAST, exp, exp_rows, exp_rows_plain, ordered, tanh
from lmtk.machine.blas import address, multiply
from lmtk.machine.jit import jit

ROOM = 1 << 22  # outputs that are computed at once
SPAN = 128  # outputs of a span; the search skips spans whose maximum is too low
SPANS = 8  # spans that one product makes
BETAS = 0.9, 0.999  # of `adam`: how much of the means of the gradient and of its square an update keeps
f32, i32 = np.float32, np.int32


def project_annotations(H, Ua, ba):
    """U_a h_j of all annotations, (K, T, n'); it does not depend on i (A.1.2).

    It is one product, since numpy would multiply a stack of matrices one by one.
    """
    return (H.reshape(-1, H.shape[2]) @ Ua + ba).reshape(*H.shape[:2], len(ba))


@jit(fastmath=FAST)
def tanh_sums(UH, q, a):
    """a (K, T, n) <- tanh(UH + q), UH (K, T, n), q (K, n). tanh v = 1 - 2 / (e^2v + 1), error under 2e-7."""
    K, T, n = a.shape
    for k in range(K):
        add = q[k]
        for j in range(T):
            row, out = UH[k, j], a[k, j]
            for i in range(n):
                v = f32(2) * (row[i] + add[i])
                v = f32(-40.0) if v < f32(-40.0) else v
                v = f32(40.0) if v > f32(40.0) else v
                out[i] = f32(1) - f32(2) / (exp(v) + f32(1))


def tanh_sum(UH, q):
    """tanh(W_a s_(i-1) + U_a h_j), A.1.2: UH (K, T, n'), q = s W_a (K, n') -> (K, T, n')."""
    if UH.dtype != np.float32:
        return np.tanh(UH + q[:, None])
    a = np.empty_like(UH)
    tanh_sums(UH, q, a)
    return a


def attend(H, UH, absent, q, va):
    """alpha_i (K, T) and c_i (K, A) for a decoder state s_(i-1) of each sentence; q (K, n'): W_a s_(i-1).

    e_ij = v_a . tanh(W_a s_(i-1) + U_a h_j), A.1.2; alpha by equation 6; c_i = sum_j alpha_ij h_j, equation 5. H (K, T,
    A), UH (K, T, n'); absent (K, T): 0 for the words of a sentence, -inf behind its end.
    """
    with np.errstate(invalid="ignore"):  # OpenBLAS may compute with unset memory that it then discards
        e = (tanh_sum(UH, q).reshape(-1, len(va)) @ va).reshape(absent.shape)
    e += absent
    alpha = softmax_rows(e)
    return alpha, (alpha[:, None] @ H)[:, 0]


@jit(fastmath=FAST)
def tanh_products(UH, q, v, at, lengths, e):
    """e_rj <- v . tanh(UH_kj + q_r), k = at_r, for j below lengths_k. UH (K, T, n), q (R, n), e (R, T)."""
    for r in range(len(at)):
        k, add = at[r], q[r]
        for j in range(lengths[k]):
            row, total = UH[k, j], f32(0)
            for i in range(len(v)):
                total += v[i] * tanh(row[i] + add[i])
            e[r, j] = total


def attend_at(HC, UH, at, lengths, q, va):
    """alpha (R, T) and c (R, .) for R decoder states, several for a sentence; the r-th belongs to sentence at_r.

    The equations are those of `attend`. HC (K, T, .): the annotations h_j, or each h_j times a matrix; c is their mean,
    weighted by alpha. q (R, n'), float32: W_a s_(i-1); lengths (K,): words of the sentences.
    """
    e = np.full((len(at), UH.shape[1]), -np.inf, UH.dtype)
    tanh_products(UH, np.ascontiguousarray(q), va, at, lengths, e)
    alpha, c = softmax_rows(e), np.zeros((len(at), HC.shape[2]), HC.dtype)
    add_contexts(alpha, HC, at, lengths, c)
    return alpha, c


def softmax_rows(e):
    """Equation 6, in place: alpha_ij = exp(e_ij) / sum_k exp(e_ik)."""
    e -= e.max(axis=1, keepdims=True)
    np.exp(e, out=e)
    e /= e.sum(axis=1, keepdims=True)
    return e


@jit(fastmath={"contract", "nsz"})
def add_contexts(alpha, H, at, lengths, c):
    """c_r += sum_j alpha_rj h_j, in place: alpha (R, T), H (K, T, A), c (R, A)."""
    for r in range(len(at)):
        k, to = at[r], c[r]
        for j in range(lengths[k]):
            weight, row = alpha[r, j], H[k, j]
            for a in range(len(to)):
                to[a] += weight * row[a]


@jit(fastmath={"reassoc", "contract", "nsz"})
def attend_backward(attended, lengths, gc, gradients):
    """Back-propagate gc (K, A), the gradient of c at one step i, through alpha and e (equation 6, A.1.2). Add to gUH
    and gva, the gradients of U_a h and v_a, and write gq (K, n'), all in place.

    The gradient of H by c = sum_j alpha_j h_j itself is not added here: `contexts_backward` adds it for all steps.
    attended: H (K, T, A), a (K, T, n') from `tanh_sum`, alpha (K, T) and va. lengths (K,): words of the sentences.
    ge_j = alpha_j (h_j . gc - c . gc), gva = sum_j ge_j a_j, gUH_j = ge_j va (1 - a_j^2), gq = sum_j gUH_j.
    """
    (H, a, alpha, va), (gUH, gva, gq) = attended, gradients
    K, A, units = len(gc), gc.shape[1], a.shape[2]
    zero, one = gc.dtype.type(0), gc.dtype.type(1)
    total = np.empty(units, gc.dtype)
    for k in range(K):
        T, mean = lengths[k], zero
        galpha = np.empty(T, gc.dtype)
        for j in range(T):
            dot = zero
            for i in range(A):
                dot += H[k, j, i] * gc[k, i]
            galpha[j] = dot
            mean += alpha[k, j] * dot
        total[:] = 0
        for j in range(T):
            ge = alpha[k, j] * (galpha[j] - mean)
            for i in range(units):
                v = a[k, j, i]
                g = ge * va[i] * (one - v * v)
                gva[i] += ge * v
                gUH[k, j, i] += g
                total[i] += g
        gq[k] = total


@jit(fastmath={"contract", "nsz"})
def contexts_backward(alpha, gc, starts, Ty, Tx, gH):
    """The gradient by h_j of c_i = sum_j alpha_ij h_j (equation 5) with alpha fixed: gH_j += sum_i alpha_ij gc_i for
    all sentences, in place, last words first: alpha (P, T), gc (P, A), gH (K, T, A).

    starts: the places in P where the i-th words begin; Ty, Tx (K,): words of the target and of the source.
    """
    for k in range(len(gH)):
        for j in range(Tx[k]):
            to = gH[k, j]
            for i in range(Ty[k] - 1, -1, -1):
                row = starts[i] + k
                weight, g = alpha[row, j], gc[row]
                for a in range(len(to)):
                    to[a] += weight * g[a]


def maxout(o):
    """t_i of A.2.2, t_ij = max(o_(i,2j-1), o_(i,2j)), o being t~_i: o (P, 2l) -> (P, l)."""
    return np.maximum(o[:, ::2], o[:, 1::2])


@jit
def step_inputs(Q, c, G, parent, word, inputs):
    """Write the inputs of a decoder step of R hypotheses: zr (R, gates), proposed (R, n), and t (R, l + 1), maxout
    units and 1.

    They are sums of three parts: of the state, Q (D, n' + gates + 2l), and of the context, c (D, d + 2l), both in row
    parent_r; and of the last word, G (V + 1, d + 2l), in row word_r.
    """
    zr, proposed, t = inputs
    gates, n, l = zr.shape[1], proposed.shape[1], t.shape[1] - 1
    units, d = Q.shape[1] - gates - 2 * l, gates + n
    for r in range(len(word)):
        p, w = parent[r], word[r]
        q, context, last, to = Q[p, units : units + gates], c[p, :gates], G[w, :gates], zr[r]
        for j in range(gates):
            to[j] = q[j] + context[j] + last[j]
        context, last, to = c[p, gates:d], G[w, gates:d], proposed[r]
        for j in range(n):
            to[j] = context[j] + last[j]
        q, context, last, to = Q[p, units + gates :], c[p, d:], G[w, d:], t[r]
        for j in range(l):
            first = q[2 * j] + context[2 * j] + last[2 * j]
            second = q[2 * j + 1] + context[2 * j + 1] + last[2 * j + 1]
            to[j] = first if first > second else second
        to[l] = 1


def maxout_backward(o, gt):
    """go (P, 2l) from gt (P, l): the gradient goes to the greater of two, and to the first if they are equal."""
    go = np.empty_like(o)
    first = o[:, ::2] >= o[:, 1::2]
    go[:, ::2] = gt * first
    go[:, 1::2] = gt * ~first
    return go


def exponentiate(y):
    """y (P, V) <- e^(y - the maximum of its row), in place. Returns (maxima, sums of the exponentials), (P,) each, so
    that ln p of an output is y - maximum - ln sum.
    """
    top, total = np.empty((2, len(y)), y.dtype)
    (exp_rows if y.dtype == np.float32 else exp_rows_plain)(y, top, total)
    return top, total


def output_spans(Wo, bo):
    """[W_o; b_o] as `span_outputs` takes it, (l + 1, N). The last span is filled up with words of probability 0."""
    (l, V), N = Wo.shape, -(-len(bo) // SPAN) * SPAN
    whole = np.zeros((l + 1, N), Wo.dtype)
    whole[:l, :V], whole[l, :V], whole[l, V:] = Wo, bo, -np.inf
    return whole


def span_outputs(t, Wo):
    """The outputs y = t [W_o; b_o], (P, N) float32, from t (P, l + 1), the maxout units and a 1; Wo: from
    `output_spans`.

    Returns y; the maxima of the spans of y, (P, N / SPAN); and ln of the sums of e^y, (P,) float64.
    """
    y, sums = np.empty((len(t), Wo.shape[1]), t.dtype), np.empty(len(t))
    tops, parts = np.empty((2, len(t), y.shape[1] // SPAN), t.dtype)
    fill_spans(address(), t, Wo, y, tops, parts, sums)
    return y, tops, sums


@jit(fastmath=FAST)
def span_sums(y, i, span, top, s):
    """For the i-th span of `span` numbers of each row k: top_ki <- the maximum, s_ki <- the sum of e^(y - top_ki).

    y (K, V), where V is a multiple of span; top, s (K, V / span). Terms are at least e^-87.
    """
    bits = y.view(i32)
    for k in range(len(y)):
        row, whole = y[k, i * span : (i + 1) * span], bits[k, i * span : (i + 1) * span]
        most, total = i32(-0x80000000), f32(0)
        for j in range(span):
            v = ordered(whole[j])
            most = v if v > most else most
        most = i32(ordered(most)).view(f32)
        for j in range(span):
            v = row[j] - most
            total += exp(v if v > f32(-87.0) else f32(-87.0))
        top[k, i], s[k, i] = most, total


@jit(fastmath=FAST)
def join_sums(top, part, s):
    """s_k <- ln sum_i part_ki e^(top_ki), float64: ln of the sum of a row's spans, with top and part by `span_sums`."""
    for k in range(len(s)):
        most, total = top[k].max(), f32(0)
        for i in range(top.shape[1]):
            v = top[k, i] - most
            total += part[k, i] * exp(v if v > f32(-87.0) else f32(-87.0))
        s[k] = most + np.log(total)


@jit
def fill_spans(gemm, t, Wo, y, tops, parts, sums):
    """Write y, tops and sums of `span_outputs`, SPANS at a time, while their outputs are still in the cache.

    gemm: `factors.address`. parts, of the shape of tops, is written: the sums of the spans.
    """
    for first in range(0, tops.shape[1], SPANS):
        end = min(first + SPANS, tops.shape[1])
        multiply(gemm, t, Wo[:, first * SPAN : end * SPAN], y[:, first * SPAN : end * SPAN])
        for i in range(first, end):
            span_sums(y, i, SPAN, tops, parts)
    join_sums(tops, parts, sums)


def score_outputs(t, w, Wo, bo):
    """ln p(y_i | s_i, y_(i-1), c_i) of the words w (P,) given t (P, l), (P,) float64: equation 4.

    p ~ exp(y_i . W_o t_i), A.2.2.
    """
    logp = np.empty(len(w))
    rows = max(1, ROOM // len(bo))
    for i in range(0, len(w), rows):
        part = slice(i, i + rows)
        y = t[part] @ Wo + bo
        seen = y[np.arange(len(y)), w[part]]
        top, total = exponentiate(y)
        logp[part] = seen - top - np.log(total)
    return logp


def output_backward(t, w, weights, gradients, scale, smoothing):
    """ln p(w), (P,) float64, and gt (P, l). weights: Wo, bo; gradients: gWo, gbo, which are written.

    The cost is -scale times ((1 - smoothing) ln p(w) + smoothing times the mean of ln p over the vocabulary): label
    smoothing, Szegedy et al. 2016, section 7.
    """
    (Wo, bo), (gWo, gbo) = weights, gradients
    logp, gt = np.empty(len(w)), np.empty_like(t)
    WoT = np.ascontiguousarray(Wo.T)
    rows = -(-len(w) // -(-len(w) * len(bo) // ROOM))
    for i in range(0, len(w), rows):
        part = slice(i, i + rows)
        y = t[part] @ Wo
        y += bo
        at = np.arange(len(y)), w[part]
        seen = y[at]
        top, total = exponentiate(y)
        logp[part] = seen - top - np.log(total)
        y[at] -= total * y.dtype.type(1 - smoothing)
        # the smaller arrays are divided by the sums, not y, which saves a pass over it
        share = (y.dtype.type(scale) / total).astype(y.dtype)
        np.multiply(y @ WoT, share[:, None], out=gt[part])
        if i == 0:
            np.matmul((t[part] * share[:, None]).T, y, out=gWo)
            np.matmul(share, y, out=gbo)
        else:
            gWo += (t[part] * share[:, None]).T @ y
            gbo += share @ y
    if smoothing:
        # every word gets the same part, so that no pass over y is needed
        each = t.dtype.type(scale * smoothing / len(bo))
        gt -= each * Wo.sum(axis=1)
        gWo -= (each * t.sum(axis=0))[:, None]
        gbo -= each * t.dtype.type(len(w))
    return logp, gt


@jit
def best_words(y, tops, base, starts, row, word, score):
    """Find the B best continuations of the hypotheses of each sentence, best first; equal ones in the order of y.

    y (R, N), tops: the outputs of the hypotheses and the maxima of their spans, or bounds of the maxima; the hypotheses
    of sentence k are rows starts_k to starts_(k+1) - 1. base (R,): ln p of a hypothesis minus ln of the sum of its
    softmax. Writes the row of the hypothesis, its next word and the score, (K, B) each; the score is -inf where there
    are fewer than B. Most spans are skipped, since their maximum is below the B-th best score: bound by reading tops, R
    N / SPAN numbers.
    """
    K, B = row.shape
    score[:] = -np.inf
    for k in range(K):
        size = 0
        for r in range(starts[k], starts[k + 1]):
            bar = score[k, B - 1] - base[r]
            for i in range(tops.shape[1]):
                # most spans have no output above the bar
                if not tops[r, i] > bar:
                    continue
                for v in range(i * SPAN, (i + 1) * SPAN):
                    if y[r, v] > bar:
                        at, value = min(size, B - 1), base[r] + y[r, v]
                        while at > 0 and score[k, at - 1] < value:
                            for a in (row, word):
                                a[k, at] = a[k, at - 1]
                            score[k, at] = score[k, at - 1]
                            at -= 1
                        row[k, at], word[k, at], score[k, at] = r, v, value
                        size = min(size + 1, B)
                        bar = score[k, B - 1] - base[r]


@jit
def adam(theta, g, mean, square, rate, scale, bias):
    """Kingma & Ba 2015, algorithm 1, on flat arrays in place; beta_1 and beta_2 are BETAS, epsilon 1e-8.

    The gradient is scale * g; rate: alpha; bias: 1 - beta_1^t and 1 - beta_2^t for update t, from 1.
    """
    one = theta.dtype.type
    b1, b2, eps = one(BETAS[0]), one(BETAS[1]), one(1e-8)
    step, root = one(rate / bias[0]), one(1 / np.sqrt(bias[1]))
    scale = one(scale)
    for i in range(len(theta)):
        v = g[i] * scale
        mean[i] += (one(1) - b1) * (v - mean[i])
        square[i] += (one(1) - b2) * (v * v - square[i])
        theta[i] -= step * mean[i] / (np.sqrt(square[i]) * root + eps)


@jit
def average(mean, theta, share):
    """mean += share (theta - mean), flat arrays, in place."""
    share = theta.dtype.type(share)
    for i in range(len(theta)):
        mean[i] += share * (theta[i] - mean[i])


@jit
def adadelta(theta, g, square, moved, scale):
    """Zeiler 2012, algorithm 1, on flat arrays in place; rho 0.95 and epsilon 1e-6 (B.2); the gradient is scale * g.

    square, moved: decaying means of the squares of gradient and update.
    """
    one = theta.dtype.type
    rho, eps = one(0.95), one(1e-6)
    scale = one(scale)
    for i in range(len(theta)):
        v = g[i] * scale
        square[i] += (one(1) - rho) * (v * v - square[i])
        d = np.sqrt((moved[i] + eps) / (square[i] + eps)) * v
        moved[i] += (one(1) - rho) * (d * d - moved[i])
        theta[i] -= d
