"""ARPA files as KenLM's lmplz writes them: with the fewest digits that single precision needs, a back-off weight for
each n-gram below the highest order, and lines sorted by the numbers of their words, compared from the last word back.
"""

import numpy as np

from lmtk.ngram.arpa.printing import Layout, print_rows, write_sections
from lmtk.ngram.arpa.writer import printed_ngrams
from lmtk.ngram.model.nodes import ZERO
from lmtk.text.cells import kenlm_cells, shortest_digits, word_cells
from lmtk.text.vocab import EOS, SOS


def numbers(vocab):
    """Number the words as lmplz does: <unk>, <s>, </s>, then the others in their order. Returns the words in the order
    of these numbers, and the number (W,) of each id.
    """
    words = [*dict.fromkeys((vocab.unk, SOS, EOS, *vocab.words))]
    index = {w: i for i, w in enumerate(words)}
    return words, np.array([index[w] for w in vocab.words], np.int32)


def layout(vocab, order):
    """Return the printing.Layout of lmplz's files, for the Buckets of a text without <unk>. Among n-grams that
    differ only in their oldest word, the one with <s> is the last in the estimate, but the first in lmplz's files.
    """
    words, rank = numbers(vocab)
    print_lines = lines_of(words, order)

    def lines(rows, log10p, weights, flags, k, room):
        printed = np.flatnonzero(flags & 1)
        rows, p = rows[:, printed], log10p[printed]
        if k == 1:
            place = np.argsort(rank[rows[0]])
        else:
            other = np.append(True, (rows[1:, 1:] != rows[1:, :-1]).any(0))[: len(printed)]
            place = np.argsort(2 * np.cumsum(other) - (rows[0] == vocab.sos_id), kind="stable")
        weight = weights if k == order else weights[printed][place]
        return print_lines(rank[rows[:, place]], p[place], weight, None, k, room)

    return Layout(b"", lines, True)


def lines_of(words, order):
    """`lines` of a printing.Layout for n-grams that are in order and all printed; rows have places in `words`."""
    names, sos = word_cells(words), words.index(SOS)

    def lines(rows, log10p, weights, flags, k, room):
        p, weight = (np.where(np.isneginf(x), np.float32(ZERO), x + np.float32(0)) for x in (log10p, weights))
        if k == 1:
            p[rows[0] == sos] = 0
        p, flags = kenlm_cells(p, 9), np.full(len(p), 3 if k < order else 1, np.uint8)
        weight = kenlm_cells(weight, 10) if k < order else p
        text = np.empty(int(np.diff(names[1])[rows].sum()) + len(p) * (48 + k) + 64, np.uint8)
        rows = np.ascontiguousarray(rows, np.int32)
        return text[: print_rows((rows, p, weight, flags), names, text, len(text))].data

    return lines


def write_text(out, model):
    """Write a Backoff model as an ARPA file in lmplz's form."""
    words, rank = numbers(model.vocab)
    out.write(b"\\data\\\n" + b"".join(b"ngram %d=%d\n" % (k, size) for k, size in enumerate(model.sizes, 1)))
    if model.is_large():
        write_sections(out, model, rank, lines_of(words, model.order))
    else:
        format_sections(out, model, words, rank)
    out.write(b"\n\\end\\\n")


def format_sections(out, model, words, rank):
    """Write the sections of `write_text` in Python. words, rank: as from `numbers`."""
    for k, (rows, log10p, log10bow, _) in enumerate(printed_ngrams(model), 1):
        out.write(b"\n\\%d-grams:\n" % k)
        rows = rank[rows]
        if k == 1:
            log10p[rows[:, 0] == rank[model.vocab.sos_id]] = 0
        place = np.lexsort(rows.T)
        for row, p, bow in zip(rows[place].tolist(), log10p[place], log10bow[place]):
            end = f"\t{shortest_digits(bow)}\n" if k < model.order else "\n"
            out.write(b"%s\t%s%s" % (shortest_digits(p).encode(), b" ".join([words[w] for w in row]), end.encode()))
