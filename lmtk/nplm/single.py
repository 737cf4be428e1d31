"""Updates of one example, as in section 3.2 of Bengio et al. 2003: each passes over the output weights once.

Step 1 reads all of M = [U | W | b]. Step 2 reads M again for dL/dz, and once more to change it. With one example in an
update, these passes take most of the time. So a visit does three things with a block of M while the processor's cache
holds it: it makes the update of the previous example, computes the outputs of this example, and adds up their share of
dL/dz. `Layer.gather` makes the last update.

dL/dz = m_w - sum_j p_j m_j, where p_j = e^(y_j) / S. The sum of e^(y_j) m_j in a block does not need S, which is known
only after the last block: `learn_outputs` divides by it at the end (as Milakov and Gimelshein 2018 do with the softmax
alone).

As in section 3.2, the outputs are divided: each thread visits a part of the blocks. The first thread, the leader, also
computes the hidden layer, adds up the results of the blocks, and updates C, H and d. The results do not depend on the
number of threads, so `TeamSize` may change it during the training.

symbol  shape      meaning, besides those of `kernels`
M       (N, D, B)  the output weights without b, in N blocks of B outputs; the last block is filled up with zeros
y       (N, B)     the outputs; after an example, e^(y - q) with q the maximum of the block
s       (N,)       a factor for each block: s_n y_n is the learning rate times dL/dy
sums    (2, N)     for each block: q; the sum of y
parts   (N, D)     for each block, the sum of e^(y_j - q) m_j
team    (8 T,)     for T threads: the number of visits that the leader has begun, or END; at 8 t, the number of visits
                   that thread t has finished, or GONE. Each number has a cache line of its own.
"""

import math
import time

import numpy as np

from lmtk.exponential import FAST, exp_rows, tanh
from lmtk.machine.jit import inlined, intrinsic, jit, sealed
from lmtk.machine.threads import map_at_once
from lmtk.nplm.kernels import LEAST, add_to_pair

f32 = np.float32
B = 256  # outputs in a block: with 300 inputs it has 0.3 MB, which the second level of a cache holds
LEAST_BLOCKS = 2  # the fewest blocks for a thread; with fewer, waiting takes longer than the work
LINE = 8  # int64 numbers in 64 bytes, a cache line
END, GONE = -1, np.iinfo(np.int64).max
PAUSE = 2.0  # seconds between two trials of `TeamSize`
FASTER = 1.1  # how many times as fast another number of threads must be to replace the present one
PATIENCE = 10_000  # checks of a number in `team`, about 10 us in all, before a waiting thread yields its processor
local, load_shared, store_shared = intrinsic("local"), intrinsic("load_shared"), intrinsic("store_shared")
yield_processor = intrinsic("yield_processor")


class Layer:
    """The output weights in training. b, low (V,): the biases, and what single precision rounds off them.

    z_before (D,), y, s and keep (1,) are the update that is still to be made: M <- keep (M + z_before (s y)),
    b <- b + s y. z (D,): the input. sums and parts are room for results.
    """

    def __init__(self, p):
        """Copy U, W and b of section 2, and b_low, out of the arrays p."""
        weights = p.U if p.W is None else np.hstack((p.U, p.W))
        (V, D), N = weights.shape, -(-len(p.b) // B)
        M = np.zeros((N * B, D), f32)
        M[:V] = weights
        self.M = np.ascontiguousarray(M.reshape(N, B, D).transpose(0, 2, 1))
        self.b, self.low = p.b.copy(), p.b_low.copy()
        zeros = lambda *shape: np.zeros(shape, f32)
        self.z_before, self.y, self.s, self.keep = zeros(D), zeros(N, B), zeros(N), np.ones(1)
        self.z, self.sums, self.parts = zeros(D), zeros(2, N), zeros(N, D)

    def shrink(self, keep):
        """Multiply U and W by `keep`, after the update that is still to be made: weight decay."""
        self.keep[0] *= keep

    @property
    def weights(self):
        """The arrays that updates change in place, if `gather` is called after the last update."""
        return self.M, self.b, self.low

    def for_kernels(self, threads=1):
        """(weights, pending, room), the first arguments of `learn_outputs`, for a team of this many threads."""
        room = self.z, self.sums, self.parts, np.zeros(LINE * threads, np.int64)
        return self.weights, (self.z_before, self.y, self.s, self.keep), room

    def gather(self, h, direct):
        """Make the update that is still to be made, and copy U, W, b and b_low. W is None without direct
        connections.
        """
        learn_outputs(*self.for_kernels(), -1, f32(0), np.empty_like(self.z))
        N, D, _ = self.M.shape
        M = self.M.transpose(0, 2, 1).reshape(N * B, D)[: len(self.b)]
        W = M[:, h:].copy() if direct else None
        return {"U": M[:, :h].copy(), "W": W, "b": self.b.copy(), "b_low": self.low.copy()}


def update_output(layer, z, w, epsilon):
    """Update the softmax from one example: z (1, D + 1), the input of the output layer; w, its target word.

    Returns (L, dL/dz); if L is not finite, the example changes nothing and dL/dz is None.
    """
    gz, layer.z[:] = np.zeros_like(z), z[0, :-1]
    L = learn_outputs(*layer.for_kernels(), w, f32(epsilon), gz[0, :-1])
    return L, gz if math.isfinite(L) else None


def update_in_turn(layer, hidden, contexts, words, rates, threads):
    """`update` for examples in turn: their contexts (K, n-1), words (K,), and rates (K, 2). hidden: C, H and d.

    Returns (the sum of L, the number of updates, the norm of the last). It stops at an example whose L is not finite.
    """
    arguments = layer.for_kernels(threads)
    *_, team = arguments[2]

    def work(t):
        try:
            if t:
                return visit_for_leader(*arguments, t)
            return update_all(hidden, *arguments, contexts, words, rates)
        finally:  # if this thread failed, those after it may not begin, and nobody must wait for them
            team[LINE * t :] = GONE if t else END

    return map_at_once(work, range(threads), threads)[0]


class TeamSize:
    """How many threads a team has: at most `threads`, and at most one for LEAST_BLOCKS blocks of a Layer.

    In each visit all threads wait for the last one. If another program uses one of their processors, one thread alone
    can be faster than the team. So after every PAUSE seconds half or twice as many threads make the updates of one
    call, and their number stays if it is FASTER.
    """

    def __init__(self, threads, layer):
        self.most = self.now = min(threads, max(len(layer.M) // LEAST_BLOCKS, 1))
        self.speed, self.trial_time, self.is_growing = None, 0.0, False

    def run(self, work, updates, clock=time.perf_counter):
        """Call work(number of threads), which makes `updates` updates, and return its result. clock: gives seconds."""
        number, begin = self.now, clock()
        if self.speed and self.most > 1 and begin > self.trial_time + PAUSE:
            self.is_growing = self.now == 1 or (self.now < self.most and not self.is_growing)
            number = min(2 * self.now, self.most) if self.is_growing else self.now // 2
        result, end = work(number), clock()
        speed = updates / (end - begin)
        if number != self.now or not self.speed:
            self.trial_time = end
        if number == self.now or speed > FASTER * self.speed:
            self.now, self.speed = number, speed
        return result


@jit(fastmath=FAST)
def update_all(hidden, weights, pending, room, contexts, words, rates):
    """Make the updates of `update_in_turn`, as the leader. Return what it returns."""
    total, norm, done = 0.0, np.nan, 0
    for k in range(len(words)):
        L, next_norm = update(hidden, weights, pending, room, contexts[k], words[k], (rates[k, 0], rates[k, 1]))
        total += L
        if not np.isfinite(L):
            break
        norm, done = next_norm, k + 1
    store_shared(room[3], 0, END)
    return total, done, norm


@jit(fastmath=FAST)
def update(hidden, weights, pending, room, context, w, rates):
    """One example of the layer `nplm`, steps 1 and 2 of section 3.2: its context (n-1,) and its word w.

    hidden: C, H and d; weights, pending, room: `Layer.for_kernels`; rates: epsilon of all parameters but C, and of C.
    Returns (L, norm of dL/dz), from before the update; if L is not finite, the example changes nothing.
    """
    (C, H, d), (epsilon, epsilon_C), z = hidden, rates, room[0]
    h, m, D = len(d), C.shape[1], len(z)
    x, gz = np.empty(H.shape[1], f32), np.empty(D, f32)
    for k in range(len(context)):  # 1(a)
        x[k * m : (k + 1) * m] = C[context[k]]
    for i in range(h):  # 1(b)
        o = d[i]
        for j in range(len(x)):
            o += H[i, j] * x[j]
        z[i] = tanh(o)
    z[h:] = x[: D - h]
    L = learn_outputs(weights, pending, room, w, epsilon, gz)  # 1(c) to 2(b)
    if not np.isfinite(L):
        return L, np.nan
    gx, squares = np.zeros_like(x), f32(0)
    gx[: D - h] = gz[h:]
    for j in range(D):
        squares += gz[j] * gz[j]
    for i in range(h):  # 2(c)
        go = (f32(1) - z[i] * z[i]) * gz[i]
        for j in range(len(x)):
            gx[j] += H[i, j] * go
            H[i, j] += epsilon * go * x[j]
        d[i] += epsilon * go
    for k in range(len(context)):  # 2(d)
        for c in range(m):
            C[context[k], c] += epsilon_C * gx[k * m + c]
    return L, math.sqrt(squares)


@jit(fastmath=FAST)
def learn_outputs(weights, pending, room, w, epsilon, gz):
    """Update the output layer from its input z and the target word w; with w = -1 only make the pending update.

    weights: M, b and low; pending: z_before, y, s and keep of the pending update, which is made now, and then of the
    update of this example; room: z, sums, parts and team. gz (D,) <- dL/dz. Returns L; if it is not finite, the example
    changes nothing.
    """
    (M, b, _), (z_before, y, s, keep), (z, sums, parts, team) = weights, pending, room
    threads, visits = len(team) // LINE, team[0] + 1
    store_shared(team, 0, visits)
    visit(weights, pending, room, 0)
    for t in range(1, threads):
        wait_until(team, LINE * t, visits)
    s[:], keep[0] = 0, 1
    if w < 0:
        y[:] = 0
        return 0.0
    block, place, output = w // B, w % B, b[w]
    for d in range(len(z)):
        gz[d] = M[block, d, place]
        output += z[d] * gz[d]
    Q, S = sums[0].max(), 0.0
    for n in range(len(M)):
        S += np.exp(np.float64(sums[0, n] - Q)) * sums[1, n]
    L = np.float64(output) - np.float64(Q) - np.log(S)
    if not np.isfinite(L):
        y[:] = 0
        return L
    for n in range(len(M)):
        scale = f32(np.exp(np.float64(sums[0, n] - Q)) / S)
        for d in range(len(z)):
            gz[d] -= scale * parts[n, d]
        scale = max(scale, LEAST)
        s[n] = -epsilon * scale
        if n == block:
            y[n, place] -= f32(1) / scale
    z_before[:] = z
    return L


@sealed(fastmath=FAST)
def visit_for_leader(weights, pending, room, t):
    """Make the visits of thread t > 0, one for each that the leader begins, until team[0] is END."""
    team, visits = room[3], 0
    while wait_until(team, 0, visits + 1) != END:
        visits += 1
        visit(weights, pending, room, t)
        store_shared(team, LINE * t, visits)


@inlined
def wait_until(team, at, number):
    """Return team[at] as soon as it is at least `number`, or END."""
    looks, now = 0, load_shared(team, at)
    while now < number and now != END:
        looks += 1
        if looks > PATIENCE:
            yield_processor()
        now = load_shared(team, at)
    return now


@sealed(fastmath=FAST)
def visit(weights, pending, room, t):
    """Thread t's part of a pass over M: makes the pending update, then y <- e^(y - q), sums and parts for z, block by
    block. weights, pending and room: as in `learn_outputs`.

    Bound by instructions if M fits into a cache, otherwise by reading and writing M once.
    """
    (M, b, low), (z_before, y, s, keep), (z, sums, parts, team) = weights, pending, room
    threads, gy, kept = len(team) // LINE, local(B, f32), f32(keep[0])
    for n in range(len(M) * t // threads, len(M) * (t + 1) // threads):
        at = n * B
        size = min(B, len(b) - at)
        for j in range(size):
            gy[j] = s[n] * y[n, j]
            b[at + j], low[at + j] = add_to_pair(b[at + j], low[at + j], gy[j])
            y[n, j] = b[at + j]
        gy[size:], y[n, size:] = 0, -np.inf
        change_and_multiply(M[n], z_before, gy, kept, z, y[n])
        exp_rows(y[n : n + 1], sums[0, n : n + 1], sums[1, n : n + 1])
        add_outputs(M[n], y[n], parts[n])


@inlined(fastmath={"contract"})
def change_and_multiply(M, z_before, gy, keep, z, y):
    """M <- keep (M + z_before' gy), then y <- y + z M, for a block M (D, B). FAST would compute y from weights that are
    not yet rounded, and a copy of the network between two updates would change the training.
    """
    for d in range(len(z)):
        row, change, factor = M[d], keep * z_before[d], z[d]
        for j in range(B):
            weight = keep * row[j] + change * gy[j]
            row[j] = weight
            y[j] += factor * weight


@inlined(fastmath=FAST)
def add_outputs(M, y, part):
    """part (D,) <- M y' for a block M (D, B)."""
    for d in range(len(part)):
        row, total = M[d], f32(0)
        for j in range(B):
            total += row[j] * y[j]
        part[d] = total
