"""Kernels that count n-grams, and that read and write count files.

`count_nodes` goes once through the sorted positions of a text to count the n-grams of all orders. `count_rows` does the
same for n-grams that have counts already. `print_counts` and `read_count_lines` convert between counts and the lines of
a count file.

symbol  shape      meaning
N W n   -          tokens, words, the highest order
w       (N,)       the tokens' ids, int32
order   (N,)       the positions, sorted by the n words from each on, int32, so that equal n-grams of any length up to n
                   are next to each other
v       (N + n,)   2 w_p, and 1 more if p ends its sentence, int32; the first n follow the last
node    -          an n-gram's number among those of its length
"""

import numpy as np

from lmtk.machine.jit import jit
from lmtk.text.cells import put_word
from lmtk.text.kernels import put_number, span

MOST = (1 << 63) - 1  # the largest count
BATCH = 256  # positions whose random reads are made together, so that they overlap


@jit
def count_nodes(v, W, order, keys, count, first, sizes):
    """Hard to read: one pass counts the n-grams of all lengths.
    keys, count, first (n, N) <- every node's key and count, int64, and the position where it was first seen, int32;
    row k - 1 has the k-grams. sizes (n,) int64 <- the number of nodes of each length.

    A k-gram that crosses the end of a sentence does not count, but it may come between two equal k-grams that do. So a
    k-gram is new if any two neighbours since the last k-gram that counted have fewer than k words in common. Bound by
    one random access a position. (Plain loops compile in a fraction of the time of numpy's expressions.)
    """
    n, N = keys.shape
    node, words = np.empty(n, np.int64), np.empty((BATCH + 1, n), np.int32)
    for k in range(n):
        node[k] = words[BATCH, k] = -1
    new = 1  # from this length on, the next n-gram that counts is new
    for start in range(0, N, BATCH):
        end = min(start + BATCH, N)
        for k in range(n):
            words[0, k] = words[BATCH, k]
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
                    count[k, node[k]], first[k, node[k]] = 1, p
                else:
                    count[k, node[k]] += 1
                    first[k, node[k]] = min(first[k, node[k]], p)
            new = max(new, most + 1)
    for k in range(n):
        sizes[k] = node[k] + 1


@jit
def count_rows(order, words, base, weight, W, keys, count, first, sizes):
    """keys, count, first, sizes <- as by `count_nodes`, for M n-grams with weights (M,); those of length k begin at
    base[k - 1]. words (n, M): their ids + 1, and 0 after the last. order (M,) sorts the n-grams by their words. A node
    that is only a prefix has the count 0. Its `first` is above those of all n-grams of its length, and such nodes are
    ordered as their extensions are. Bound by one random access a word.
    """
    n, last, long, node = len(base) - 1, np.full(len(base), -1), 0, np.full(len(base), -1)
    batch, length = np.empty((BATCH, n), np.int32), np.empty(BATCH, np.int64)
    for start in range(0, len(order), BATCH):
        end = min(start + BATCH, len(order))
        for i in range(start, end):
            m = 1
            while base[m] <= order[i]:
                m += 1
            length[i - start] = m
        for i in range(start, end):
            for k in range(length[i - start]):
                batch[i - start, k] = words[k, order[i]] - 1
        for i in range(start, end):
            m, r, common = length[i - start], order[i], 0
            while common < min(m, long) and last[common] == batch[i - start, common]:
                common += 1
            for k in range(common, m):
                node[k] += 1
                last[k] = batch[i - start, k]
                keys[k, node[k]] = last[k] + (node[k - 1] * W if k else 0)
                count[k, node[k]], first[k, node[k]] = 0, base[n]
            long = m
            count[m - 1, node[m - 1]] += weight[r]
            first[m - 1, node[m - 1]] = min(first[m - 1, node[m - 1]], r - base[m - 1])
    sizes[:] = node[:n] + 1
    for k in range(n - 2, -1, -1):
        n_ngrams = base[k + 1] - base[k]
        for i in range(sizes[k + 1]):
            p = keys[k + 1, i] // W
            if first[k, p] >= n_ngrams:
                first[k, p] = min(first[k, p], n_ngrams + first[k + 1, i])


@jit
def print_counts(cursor, depth, base, columns, only, names, text):
    """text (uint8) <- lines "words<TAB>count" of n-grams, each n-gram before its extensions, until one does not fit or
    all are written. Returns the depth reached, how far `text` is filled, and the bytes of the next line, 0 at the end.

    columns: the parent (a place in the order below), the word (int32) and the count of each n-gram. Orders lie end to
    end, order k from base[k - 1] on, each in the order of its lines. cursor (n,): how many n-grams of each order are
    done, in place; depth: the length of the last n-gram. names: the `word_cells` of the vocabulary. only: the one order
    to write, or 0. Bound by copying.
    """
    (parent, word, count), begins, n, at = columns, names[1], len(cursor), 0
    path = np.zeros(n, np.int32)
    for k in range(depth):
        path[k] = word[base[k] + cursor[k] - 1]
    while depth >= 0:
        j = base[depth] + cursor[depth] if depth < n else 0
        if depth < n and j < base[depth + 1] and (depth == 0 or parent[j] == cursor[depth - 1] - 1):
            path[depth] = word[j]
            if count[j] and (only == 0 or only == depth + 1):
                room = 64
                for k in range(depth + 1):
                    room += begins[path[k] + 1] - begins[path[k]]
                if at + room > len(text):
                    return depth, at, room
                for k in range(depth + 1):
                    at = put_word(text, at, path[k], names)
                text[at - 1] = 9
                at = put_number(text, at, count[j], 10)
            cursor[depth] += 1
            depth += 1
        else:
            depth -= 1
    return 0, at, 0


@jit
def read_count_lines(text, order, size, count):
    """size, count (N,) <- for each line of the text, the number of its words, and the count after them; the size is 0
    for blank lines and for lines of more than `order` words. In the text, these lines and all counts become blanks.
    Stops at a line without words or without a whole number below 2^63. Returns where it stopped in the text, and the
    number of lines before.
    """
    at = line = 0
    while at < len(text):
        i, fields, begin, end = at, 0, 0, 0
        while text[i] != 10:
            length = span(text, i)
            if length:
                begin, end, fields = i, i + length, fields + 1
            i += max(length, 1)
        number, good = 0, fields != 1
        for a in range(begin, end):
            digit = np.int64(text[a]) - 48
            good &= 0 <= digit <= 9 and number <= MOST // 10 - (digit > MOST % 10)
            number = number * 10 + digit
        if not good:
            break
        fields = max(fields - 1, 0)
        if fields > order:
            begin, fields = at, 0
        for a in range(begin, end):
            text[a] = 32
        size[line], count[line] = fields, number
        line += 1
        at = i + 1
    return at, line
