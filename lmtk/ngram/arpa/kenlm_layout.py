"""ARPA files as KenLM's lmplz writes them: with the fewest digits that single precision needs, a back-off weight for
each n-gram below the highest order, and lines sorted by the numbers of their words, compared from the last word back.
"""

from functools import partial

import numpy as np

from lmtk.machine import memory
from lmtk.machine.threads import map_in_order
from lmtk.ngram.arpa import sorting
from lmtk.ngram.arpa.digits import shortest
from lmtk.ngram.arpa.printing import PIECE, Layout, print_rows, print_short, word_cells
from lmtk.ngram.arpa.writer import printed_ngrams
from lmtk.ngram.model.nodes import ZERO
from lmtk.text.vocab import EOS, SOS


def numbers(vocab):
    """Number the words as lmplz does: <unk>, <s>, </s>, then the others in their order. Returns the words in the order
    of these numbers, and the number (W,) of each id.
    """
    first = (vocab.unk, SOS, EOS)
    words = [*first, *(w for w in vocab.words if w not in first)]
    index = {w: i for i, w in enumerate(words)}
    return words, np.array([index[w] for w in vocab.words], np.int32)


def layout(vocab, order):
    """Return the printing.Layout of lmplz's files, for an engine.Estimate of a text without <unk>. Among n-grams that
    differ only in their oldest word, the one with <s> is the last in the estimate, but the first in lmplz's files.
    """
    words, rank = numbers(vocab)
    print_lines = lines_of(words, order)

    def lines(rows, log10p, weights, flags, k, room):
        some = np.flatnonzero(flags & 1)
        rows, p = rows[:, some], log10p[some]
        if k == 1:
            place = np.argsort(rank[rows[0]])
        else:
            other = np.append(True, (rows[1:, 1:] != rows[1:, :-1]).any(0))[: len(some)]
            place = np.argsort(2 * np.cumsum(other) - (rows[0] == vocab.sos_id), kind="stable")
        weight = weights if k == order else weights[some][place]
        return print_lines(rank[rows[:, place]], p[place], weight, None, k, room)

    return Layout(b"", lines, True)


def lines_of(words, order):
    """`lines` of a printing.Layout for n-grams that are in order and all printed; rows have places in `words`."""
    cells, sos = word_cells(words), words.index(SOS)

    def lines(rows, log10p, weights, flags, k, room):
        p, weight = log10p + np.float32(0), None if k == order else weights + np.float32(0)
        if k == 1:
            p[rows[0] == sos] = 0
        for x in (p, weight) if weight is not None else (p,):
            x[np.isneginf(x)] = ZERO
        return printed(rows.T, p, weight, cells)

    return lines


def write_text(out, model):
    """Write a Backoff model as an ARPA file in lmplz's form."""
    old = model.vocab
    words, rank = numbers(old)
    sizes = model.sizes
    out.write(b"\\data\\\n" + b"".join(b"ngram %d=%d\n" % (k, size) for k, size in enumerate(sizes, 1)))
    many, letters = model.is_large(), word_cells(words)
    if many and memory.bound:
        sorting.write_sections(out, model, rank, lines_of(words, model.order))
        out.write(b"\n\\end\\\n")
        return
    for k, (rows, log10p, log10bow, _) in enumerate(printed_ngrams(model), 1):
        out.write(b"\n\\%d-grams:\n" % k)
        rows = rank[rows]
        place = np.lexsort(rows.T)
        if k == 1 and rank[old.sos_id] < len(place):
            log10p = np.where(rows[:, 0] == rank[old.sos_id], np.float32(0), log10p)
        rows, p, weight = rows[place], log10p[place], log10bow[place]
        weight = weight if k < model.order else None
        lines = partial(printed, cells=letters) if many else partial(formatted, words=words)
        spans = [slice(a, a + PIECE) for a in range(0, len(rows), PIECE)]
        parts = ((rows[s], p[s], None if weight is None else weight[s]) for s in spans)
        out.writelines(map_in_order(lambda part, lines=lines: lines(*part), parts))
    out.write(b"\n\\end\\\n")


def formatted(rows, p, weight, words):
    """Format the lines of n-grams (N, k) in Python. p, weight (N,) float32: log10; weight is None at the highest
    order.
    """
    ends = [b"\n"] * len(rows) if weight is None else [f"\t{shortest(x)}\n".encode() for x in weight]
    texts = (b" ".join([words[w] for w in row]) for row in rows.tolist())
    return b"".join([b"%s\t%s%s" % (shortest(x).encode(), text, end) for x, text, end in zip(p, texts, ends)])


def printed(rows, p, weight, cells):
    """Print the lines of n-grams by kernels. rows, p, weight: as for `formatted`; cells: the result of `word_cells`."""
    letters, ends, short = cells
    flags = np.full(len(p), 1 if weight is None else 3, np.uint8)
    p = print_short(p, 9)
    weight = p if weight is None else print_short(weight, 10)
    text = np.empty(int(np.diff(ends)[rows].sum()) + len(rows) * (48 + rows.shape[1]) + 64, np.uint8)
    rows = np.ascontiguousarray(rows.T, np.int32)
    return text[: print_rows(rows, p, weight, flags, short, letters, ends, text, len(text))].data
