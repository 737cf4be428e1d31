"""ARPA files as KenLM's lmplz lays them out: the fewest digits that single precision needs, a back-off weight for each
n-gram but those of the highest order, lines by the numbers of their words from the last word back.
"""

from functools import partial

import numpy as np

from lmtk.machine.jit import jit
from lmtk.machine.large import pays
from lmtk.machine.threads import in_threads
from lmtk.ngram.arpa import decimal, ngrams
from lmtk.ngram.printing import PIECE, print_rows, word_cells
from lmtk.text.vocab import EOS, SOS


def write_text(out, model):
    """A Backoff model. <unk>, <s> and </s> come first, the other words in the order of their ids."""
    old = model.vocab
    first = (old.unk, SOS, EOS)
    words = [*first, *(w for w in old.words if w not in first)]
    index = {w: i for i, w in enumerate(words)}
    rank = np.array([index[w] for w in old.words], np.int32)
    sizes = model.sizes
    out.write(b"\\data\\\n" + b"".join(b"ngram %d=%d\n" % (k, size) for k, size in enumerate(sizes, 1)))
    many, letters = pays("ngrams", sum(sizes)), word_cells(words)
    for k, (rows, logp, bow, _) in enumerate(ngrams(model), 1):
        out.write(b"\n\\%d-grams:\n" % k)
        rows = rank[rows]
        place = np.lexsort(rows.T)
        if k == 1 and rank[old.sos_id] < len(place):
            logp = np.where(rows[:, 0] == index[SOS], 0, logp)
        rows, p, weight = rows[place], (decimal(logp) + 0)[place], (decimal(bow) + 0)[place]
        weight = weight if k < model.order else None
        lines = partial(printed, words=words, cells=letters) if many else partial(formatted, words=words)
        spans = [slice(a, a + PIECE) for a in range(0, len(rows), PIECE)]
        given = ((rows[s], p[s], None if weight is None else weight[s]) for s in spans)
        out.writelines(in_threads(lambda part, lines=lines: lines(*part), given))
    out.write(b"\n\\end\\\n")


def formatted(rows, p, weight, words):
    """The lines of n-grams (N, k) with log10 p and weights (N,), float32."""
    ends = [b"\n"] * len(rows) if weight is None else [b"\t" + shortest(x) + b"\n" for x in weight]
    texts = (b" ".join([words[w] for w in row]) for row in rows.tolist())
    return b"".join([b"%s\t%s%s" % (shortest(x), text, end) for x, text, end in zip(p, texts, ends)])


def shortest(x):
    """A number in single precision as KenLM prints it."""
    if x == 0 or 1e-6 <= abs(x) < 1e21:
        return np.format_float_positional(x, trim="-").encode()
    return np.format_float_scientific(x, trim="-", exp_digits=1).encode()


def printed(rows, p, weight, words, cells):
    """`formatted` by kernels; the few numbers that fit no cell of theirs are left to it."""
    letters, ends, short, _ = cells
    numbers = [np.zeros((len(p), 16), np.uint8) for _ in range(2)]
    print_shortest(p, 9, numbers[0])
    flags = np.full(len(p), 1 if weight is None else 3, np.uint8)
    if weight is not None:
        print_shortest(weight, 10, numbers[1])
    odd = np.flatnonzero((numbers[0][:, 15] == 0) | ((flags == 3) & (numbers[1][:, 15] == 0)))
    text = np.empty(int(np.diff(ends)[rows].sum()) + len(rows) * (48 + rows.shape[1]) + 64, np.uint8)
    views, parts, begin = [x.view(np.uint64) for x in numbers], [], 0
    for end in [*odd.tolist(), len(rows)]:
        s = slice(begin, end)
        some = np.ascontiguousarray(rows[s].T, np.int32)
        filled = print_rows(some, *(x[s] for x in views), flags[s], short, letters, ends, text, len(text))
        parts.append(text[:filled].tobytes())
        if end < len(rows):
            s = slice(end, end + 1)
            parts.append(formatted(rows[s], p[s], None if weight is None else weight[s], words))
        begin = end + 1
    return b"".join(parts)


@jit
def print_shortest(x, end, cells):
    """float32 numbers and the byte `end` into cells (N, 16), uint8, the length in the last: the number with the fewest
    digits that is nearer to x than to its neighbours. Length 0: too long, or below 1e-4, or from 10000 on.
    """
    for i in range(len(x)):
        a, cell = abs(np.float64(x[i])), cells[i]
        if a == 0:
            cell[0], cell[1], cell[15] = 48, end, 2
            continue
        if not 1e-4 <= a < 1e4:
            continue
        e, scale, half = 0, 1e4, 2.0**-24
        while a * scale >= 1e5:
            e, scale = e + 1, scale / 10
        while a * scale < 1e4:
            e, scale = e - 1, scale * 10
        while half * 2**24 <= a / 2 or half * 2**24 > a:
            half = half * 2 if half * 2**24 <= a / 2 else half / 2
        digits, n = np.int64(0), 5
        near = False
        while not near and n < 9:
            n, scale = n + 1, scale * 10
            digits = np.int64(np.rint(a * scale))
            off = digits / scale - a  # below a power of two the neighbour is half as far
            near = abs(off) < half and (off > 0 or a != half * 2**24 or 2 * -off < half)
        while digits % 10 == 0:
            digits, n = digits // 10, n - 1
        if digits == 1 and n == 0:
            e, n = e + 1, 1
        sign = np.int64(x[i] < 0)
        size = sign + (n + 1 - e if e < 0 else max(e + 1, n + np.int64(n > e + 1)))
        if size > 14:
            continue
        cell[15], cell[size] = size + 1, end
        place = n - 1 - e  # digits behind the point
        at = size - 1
        for _ in range(place):
            cell[at] = 48 + digits % 10
            digits //= 10
            at -= 1
        if place > 0:
            cell[at] = 46
            at -= 1
        for _ in range(-place):
            cell[at] = 48
            at -= 1
        while at >= sign:
            cell[at] = 48 + digits % 10
            digits //= 10
            at -= 1
        if sign:
            cell[0] = 45
