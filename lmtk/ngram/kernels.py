"""Counting by one sort, estimating, scoring and writing of ARPA files, for jobs that are worth compiling for.

symbol  shape      meaning
N W n   -          tokens, words, the highest order
w       (N,)       the tokens' ids, int32
order   (N,)       the positions in the order of the n words from each on, int32: n-grams that are equal, of any length
                   up to n, stand together in it
v       (N + n,)   2 w_p, and 1 more where p ends its sentence, int32; the first n follow the last
node    -          an n-gram's number among those of its length
"""

import math

import numpy as np

from lmtk.machine.jit import jit

SOME = 256  # positions looked at together


@jit
def suffix_order(w, W, n, order, other):
    """The positions in the order of their n words, by n counting sorts, from the last of the words to the first; the
    text counts as a circle. order, other (N,) int32: memory to sort in; returns in which of the two they stand, 0 or 1.

    A pass shifts every position by one and puts it behind those with the same word: bound by two random accesses.
    """
    N = len(w)
    start = np.zeros(W + 1, np.int32)
    for p in range(N):
        start[w[p] + 1] += 1
    for i in range(W):
        start[i + 1] += start[i]
    for i in range(N):
        order[i] = i
    for _ in range(n):
        head = start.copy()
        for i in range(N):
            p = order[i] - 1
            if p < 0:
                p += N
            c = w[p]
            place = head[c]
            other[place] = p
            head[c] = place + 1
        order, other = other, order
    return n % 2


@jit
def count_nodes(v, W, order, keys, count, first, sizes):
    """Every node's key and count, int64, and the position where it was seen first, int32, in place: row k - 1 of (n, N)
    arrays has the k-grams. sizes (n,), int64: the number of nodes of each length, in place.

    Between two equal k-grams may stand one that crosses a sentence's end and so does not count: what matters is the
    least that neighbours have in common since the last k-gram that counted. Bound by one random access a position;
    those of a few hundred positions are made together, so that they overlap. (Plain loops compile in a fraction of the
    time of numpy's expressions.)
    """
    n, N = keys.shape
    node, words = np.empty(n, np.int64), np.empty((SOME + 1, n), np.int32)
    for k in range(n):
        node[k] = words[SOME, k] = -1
    new = 1  # the lengths from this one on have moved to another n-gram since they last had one
    for start in range(0, N, SOME):
        end = min(start + SOME, N)
        for k in range(n):
            words[0, k] = words[SOME, k]
        for i in range(start, end):
            p = order[i]
            for k in range(n):
                words[i - start + 1, k] = v[p + k]
        for i in range(start, end):
            p, j = order[i], i - start + 1
            common = 0
            while common < n and words[j, common] >> 1 == words[j - 1, common] >> 1:
                common += 1
            most = 1
            while most < n and not words[j, most - 1] & 1:
                most += 1
            new = min(new, common + 1)
            for k in range(most):
                if k + 1 >= new:
                    node[k] += 1
                    keys[k, node[k]] = (words[j, k] >> 1) + (node[k - 1] * W if k else 0)
                    count[k, node[k]] = 1
                    first[k, node[k]] = p
                else:
                    count[k, node[k]] += 1
                    if p < first[k, node[k]]:
                        first[k, node[k]] = p
            if new <= most:
                new = most + 1
    for k in range(n):
        sizes[k] = node[k] + 1


@jit
def sort_by(order, key, size, out):
    """out <- `order` by key[order], below `size`, in a stable counting sort; (N,) int32. Two random reads an item."""
    start = np.zeros(size + 1, np.int32)
    for i in range(len(key)):
        start[key[i] + 1] += 1
    for i in range(size):
        start[i + 1] += start[i]
    for i in range(len(order)):
        c = key[order[i]]
        out[start[c]] = order[i]
        start[c] += 1


@jit
def sort_rows(order, words, begin, W, out):
    """out[begin:] <- order[begin:] by words[order], which are below W: sort_by of what is behind `begin`."""
    start = np.zeros(W + 1, np.int64)
    start[0] = begin
    for i in range(begin, len(words)):
        start[words[i] + 1] += 1
    for w in range(W):
        start[w + 1] += start[w]
    for i in range(begin, len(order)):
        w = words[order[i]]
        out[start[w]] = order[i]
        start[w] += 1


@jit
def count_rows(order, words, base, weight, W, keys, count, first, sizes):
    """`count_nodes` of n-grams of all lengths with weights (M,), those of length k from base[k - 1] on, in
    their `order` by words (n, M), the shorter one first. A node that is a prefix alone has the weight 0, and is `first`
    behind the n-grams of its length, in the order of the longer ones.
    """
    n, last, long, node = len(base) - 1, np.full(len(base), -1), 0, np.full(len(base), -1)
    some, length = np.empty((SOME, n), np.int32), np.empty(SOME, np.int64)
    for start in range(0, len(order), SOME):
        end = min(start + SOME, len(order))
        for i in range(start, end):
            m = 1
            while base[m] <= order[i]:
                m += 1
            length[i - start] = m
        for i in range(start, end):
            for k in range(length[i - start]):
                some[i - start, k] = words[k, order[i]]
        for i in range(start, end):
            m, r, common = length[i - start], order[i], 0
            while common < min(m, long) and last[common] == some[i - start, common]:
                common += 1
            for k in range(common, m):
                node[k] += 1
                last[k] = some[i - start, k]
                keys[k, node[k]] = last[k] + (node[k - 1] * W if k else 0)
                count[k, node[k]], first[k, node[k]] = 0, base[n]
            long = m
            count[m - 1, node[m - 1]] += weight[r]
            first[m - 1, node[m - 1]] = min(first[m - 1, node[m - 1]], r - base[m - 1])
    sizes[:] = node[:n] + 1
    for k in range(n - 2, -1, -1):
        own = base[k + 1] - base[k]
        for i in range(sizes[k + 1]):
            p = keys[k + 1, i] // W
            if first[k, p] >= own:
                first[k, p] = min(first[k, p], own + first[k + 1, i])


@jit
def look_at_children(child, word, log10p, rank, context):
    """context (P,) uint8, in place: whether any child of a node has a probability; word and log10p are those of the
    order below. Returns whether children stand in the order of `rank` (W,). One pass over memory.
    """
    straight = True
    for i in range(len(context)):
        context[i] = 0
        for j in range(child[i], child[i + 1]):
            if j > child[i] and rank[word[j]] < rank[word[j - 1]]:
                straight = False
            if log10p[j] == log10p[j]:
                context[i] = 1
    return straight


@jit
def order_contexts(contexts, words, children, rank, ends, out):
    """The contexts of order k + 1, in the order of their lines, out (P', k + 3), from those of order k, (P, k + 2): a
    context's words, how many letters they have, and from and to where its children stand. Returns how many.

    They are those n-grams of order k, of last `words` (N + 1,), that have `children`, and stand by the `rank` of their
    words, the last one first: a counting sort. Bound by a random read a context and a write a node.
    """
    k = out.shape[1] - 3
    head = np.zeros(len(rank) + 1, np.int32)
    for i in range(len(words) - 1):
        head[rank[words[i]] + 1] += children[i] < children[i + 1]
    for i in range(len(rank)):
        head[i + 1] += head[i]
    for i in range(len(contexts)):
        for child in range(contexts[i, k], contexts[i, k + 1]):
            first, last = children[child], children[child + 1]
            if first < last:
                w = words[child]
                place = head[rank[w]]
                head[rank[w]] += 1
                for j in range(k - 1):
                    out[place, j] = contexts[i, j]
                out[place, k - 1] = w
                out[place, k] = contexts[i, k - 1] + ends[w + 1] - ends[w]
                out[place, k + 1], out[place, k + 2] = first, last
    return head[len(rank) - 1]


@jit
def cut_lines(contexts, some, cuts):
    """Cuts contexts where their children come to `some`: cuts (., 2) <- the places among contexts (P, k + 2) and how
    many children stand before them, from (0, 0) to (P, N). Returns how many cuts there are.
    """
    k = contexts.shape[1] - 2
    lines, last, found = 0, 0, 1
    cuts[0, 0] = cuts[0, 1] = 0
    for i in range(len(contexts)):
        lines += contexts[i, k + 1] - contexts[i, k]
        if lines - last >= some or (i == len(contexts) - 1 and lines > last):
            cuts[found, 0] = i + 1
            cuts[found, 1] = last = lines
            found += 1
    return found


@jit
def gather_lines(contexts, words, log10p, log10bow, turned, weighted, ends, place, word, p, weight, there):
    """The n-grams of order k that extend some contexts, without those of no probability: place (N,), the context's
    among contexts (P, k + 2); word (N,); p and weight (N,), log10 in single precision; there (N,), uint8: whether the
    weight is written, which one of -0.0 is too; in place. Returns how many there are, and how many letters they have.

    words, log10p, log10bow: those of the order. turned (N,): the nodes where children do not stand in the order of
    their lines, else (0,). weighted: as `there`, by node, (0,) for none. Bound by a random read a context.
    """
    k = contexts.shape[1] - 2
    node = np.empty(len(place), np.int32)
    found = 0
    for i in range(len(contexts)):
        for child in range(contexts[i, k], contexts[i, k + 1]):
            node[found] = child
            place[found] = i
            found += 1
    if len(turned):
        for line in range(found):
            node[line] = turned[node[line]]
    kept, size = 0, 0
    for line in range(found):
        n, i = node[line], place[line]
        value = log10p[n]
        if value == value:
            w = words[n]
            size += contexts[i, k - 1] + ends[w + 1] - ends[w]
            place[kept], word[kept] = i, w
            p[kept] = -99 if value == -np.inf else value + np.float32(0)
            if len(weighted):
                bow = log10bow[n]
                there[kept] = weighted[n] != 0 or bow != 0 or math.copysign(1, bow) < 0
                weight[kept] = -99 if bow == -np.inf else bow + np.float32(0)
            kept += 1
    return kept, size


@jit
def print_numbers(x, quads, cells, halves, length):
    """x (N,) float32 as "%.7g", into cells (N, 16) uint8, halves (N, 2) uint64, the same memory, and length (N,) uint8,
    in place. Length 0 leaves to Python what is not 0 but below 1e-4, or from 1e6 on, near which exponents begin.
    quads (10000, 2) uint64: the letters of a number of four digits, the first the lowest, and how many of them are
    left without the zeros at the end.

    Exact: x has 24 bits and the 5^10 in 10^10 another 24, so that the product is a double without rounding, and
    rounding it half to even is what "%" does. Then seven digits are two look-ups, and a point and a sign among them are
    shifts of a word.
    """
    u64 = np.uint64
    power = np.empty(11)
    power[0] = 1
    for i in range(10):
        power[i + 1] = power[i] * 10
    exponent, r = np.empty(SOME, np.int64), np.empty(SOME, np.int64)
    for start in range(0, len(x), SOME):
        end = min(start + SOME, len(x))
        for i in range(end - start):
            a = abs(np.float64(x[start + i]))
            e = 0  # a = d.dddddd 10^e
            for j in range(1, 6):
                e += a >= power[j]
            for j in range(4):
                e -= a * power[j] < 1
            exponent[i] = e
            r[i] = np.int64(np.rint(a * power[6 - e])) if 1e-4 <= a < 1e6 else 0
        for i in range(end - start):
            v, e, digits = x[start + i], exponent[i], r[i]
            if digits == 10000000:
                digits, e = 1000000, e + 1
            first, last = digits // 1000, digits % 1000 * 10
            letters = quads[first, 0] | quads[last, 0] << u64(32)
            used = 4 + quads[last, 1] if last else quads[first, 1]
            if digits and e == 0:
                low = letters & u64(0xFF) | u64(46 << 8) | letters >> u64(8) << u64(16)
                high, n = u64(0), used + (used > 1)
            elif digits and e < 0:
                shift = u64(8 * (1 - e))
                low = u64(0x3030302E30) & ((u64(1) << shift) - u64(1)) | letters << shift
                high, n = letters >> (u64(64) - shift), used + 1 - e
            elif digits:
                n = 0
                for j in range(max(used, e + 1)):
                    if j == e + 1:
                        cells[start + i, n] = 46
                        n += 1
                    cells[start + i, n] = letters >> u64(8 * j) & u64(0xFF)
                    n += 1
                low, high = halves[start + i, 0], halves[start + i, 1]
            else:
                low, high, n = u64(48), u64(0), v == 0
            if n and np.copysign(np.float32(1), v) < 0:
                high = high << u64(8) | low >> u64(56)
                low = low << u64(8) | u64(45)
                n += 1
            halves[start + i, 0], halves[start + i, 1], length[start + i] = low, high, n


@jit
def print_lines(contexts, place, word, letters, ends, p, p_length, bow, bow_length, text):
    """Lines "p words[ bow]" of N n-grams into text (uint8), in place; returns how far it is filled.

    Their words are those of contexts[place[i]], k - 1 of them, and word[i]; a word is letters[ends[w] : ends[w + 1]].
    p, bow and their lengths: cells of print_numbers for each line; a length of 0 is no back-off weight, nor is there
    any where `bow` has no cells. Bound by the copying: 16 bytes at once, whatever the length, since a loop over a few
    bytes costs more than they do. So 16 bytes more follow the last word, and the text has room for 64 + k bytes a line
    and its words.
    """
    k = contexts.shape[1] - 2
    at = 0
    for i in range(len(place)):
        source, target = p[i], text[at : at + 16]
        for c in range(16):
            target[c] = source[c]
        at += p_length[i]
        text[at] = 9
        for j in range(k):
            if j:
                text[at] = 32
            at += 1
            w = contexts[place[i], j] if j < k - 1 else word[i]
            first = ends[w]
            here = ends[w + 1] - first
            for done in range(0, here, 16):
                source, target = letters[first + done : first + done + 16], text[at + done : at + done + 16]
                for c in range(16):
                    target[c] = source[c]
            at += here
        if len(bow) and bow_length[i]:
            text[at] = 9
            source, target = bow[i], text[at + 1 : at + 17]
            for c in range(16):
                target[c] = source[c]
            at += 1 + bow_length[i]
        text[at] = 10
        at += 1
    return at


@jit
def print_counts(cursor, depth, base, parent, word, count, only, letters, ends, text):
    """Lines "words count" of n-grams into text (uint8), in place, each before those that extend it, until one does not
    fit or all are written. Returns the depth reached, how far `text` is filled, and the room that the next line wants.

    Levels lie end to end from base[k - 1] on, each in the order of its lines; there parent, word (int32) and count are
    an n-gram's, the parent as a place in its level. cursor (n,), in place: what was passed of each level; depth: the
    length of the last n-gram. A word is letters[ends[w] : ends[w + 1]], 16 bytes more after the last. only: the one
    order to write, or 0. Bound by the copying, as print_lines.
    """
    n = len(cursor)
    at, path = 0, np.zeros(n, np.int32)
    for k in range(depth):
        path[k] = word[base[k] + cursor[k] - 1]
    while True:
        j = base[depth] + cursor[depth] if depth < n else 0
        if depth < n and j < base[depth + 1] and (depth == 0 or parent[j] == cursor[depth - 1] - 1):
            path[depth] = word[j]
            if count[j] and (only == 0 or only == depth + 1):
                room = 64 + depth
                for k in range(depth + 1):
                    room += ends[path[k] + 1] - ends[path[k]]
                if at + room > len(text):
                    return depth, at, room
                for k in range(depth + 1):
                    first = ends[path[k]]
                    here = ends[path[k] + 1] - first
                    for done in range(0, here, 16):
                        source, target = letters[first + done : first + done + 16], text[at + done : at + done + 16]
                        for c in range(16):
                            target[c] = source[c]
                    at += here
                    text[at] = 32 if k < depth else 9
                    at += 1
                rest, digits = count[j], 1
                while rest >= 10:
                    rest //= 10
                    digits += 1
                rest = count[j]
                for c in range(digits - 1, -1, -1):
                    text[at + c] = 48 + rest % 10
                    rest //= 10
                text[at + digits] = 10
                at += digits + 1
            cursor[depth] += 1
            depth += 1
        elif depth == 0:
            return depth, at, 0
        else:
            depth -= 1
