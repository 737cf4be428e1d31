"""The lines of words in reports of large texts, by kernels: SRILM's -debug 2 and KenLM's query.

Numbers and words are copied as cells, which `text.cells` describes. Bound by this copying.
"""

import numpy as np

from lmtk.machine.jit import inlined, intrinsic, jit
from lmtk.text.cells import (
    NEAR,
    POWERS,
    cells_of,
    fill_cells,
    kenlm_cells,
    put,
    put_digits,
    put_word,
    srilm_cells,
    word_cells,
)
from lmtk.text.kernels import put_number

u64 = np.uint64
store8 = intrinsic("store8")
BLANK, TAB, LINE = 32, 9, 10
LEAST = -45.0  # log10 of the least power that kernels print


def constant(text):
    """Up to 8 bytes in the form that `store8` takes."""
    return u64(int.from_bytes(text, "little"))


WORD, GIVEN, LATER, FIRST = map(constant, (b"\tp( ", b"| ", b"...) \t= ", b") \t= "))
LOG, CLOSE, EOS, TOTAL, OOV = map(constant, (b"[ ", b"]\n", b"</s>", b"Total: ", b"OOV: "))


def predictions(words, tags, tag, corpus, never, log10p, sos):
    """The lines of -debug 2 of a corpus, bytes; and the places where those of each sentence end, (S,).

    words: `word_cells` of the vocabulary. tags, tag (N,): the tags of models, and the number of the tag of each token.
    never (N,): whether p is 0. log10p: (N,) float64, of single precision. sos: the id of <s>.
    """
    form, empty = lambda x: f"{10**x:.7g}", np.zeros((len(log10p), 16), np.uint8)
    with np.errstate(over="ignore"):  # back-off weights can be so high that p is inf
        p = fill_cells(log10p, print_powers, form, BLANK, empty)
    logs = srilm_cells(log10p.astype(np.float32), BLANK)
    p[never], logs[never] = cells_of([b"0 ", b"-inf "])
    logs[(log10p == 0) & np.signbit(log10p) & ~never] = cells_of([b"-0 "])
    sizes = np.diff(words[1])[corpus.ids]
    text = np.empty(2 * int(sizes.sum()) + len(sizes) * (80 + max(map(len, tags))) + 16, np.uint8)
    stops = np.empty(len(corpus.starts) - 1, np.int64)
    sentences = corpus.starts, corpus.ids, corpus.scored
    print_predictions(sentences, sos, tag, (p, logs), (words, word_cells(tags)), text, stops)
    return text.data, stops


@jit
def print_powers(x, end, cells):
    """cells (N, 16), zeros of uint8, <- 10^x as "%.7g" and the byte `end`, for x (N,) float64. A cell stays empty if x
    is not between LEAST and 0, or if another rounding is NEAR.
    """
    for i in range(len(x)):
        if not LEAST < x[i] <= 0:
            continue
        p, e = 10.0 ** x[i], np.int64(np.floor(x[i]))
        scaled = p * POWERS[6 - e]
        if scaled < 999999.5:
            e -= 1
            scaled = p * POWERS[6 - e]
        r = np.int64(np.rint(scaled))
        if abs(scaled - r) > 0.5 - NEAR:
            continue
        digits = 7
        while r % 10 == 0:
            r //= 10
            digits -= 1
        if digits < 1:  # 10000000
            digits, e = 1, e + 1
        small = e < -4
        at = put_digits(cells[i], 0, r, digits, 0 if small else e)
        if small:
            cells[i, at], cells[i, at + 1] = 101, 45
            cells[i, at + 2], cells[i, at + 3] = 48 + -e // 10, 48 + -e % 10
            at += 4
        cells[i, at], cells[i, 15] = end, at + 1


@jit
def print_predictions(sentences, sos, tag, numbers, names, text, stops):
    """Write the lines of `predictions` into `text`, and where those of each sentence end into `stops`.

    sentences: starts, ids and scored of the corpus. tag (N,): the tag of each token. numbers: the cells of p and of its
    logarithm. names: the `word_cells` of the vocabulary and of the tags.
    """
    (starts, ids, scored), (p, logs), (words, tags), at = sentences, numbers, names, 0
    for i in range(len(stops)):
        for t in range(starts[i], starts[i + 1]):
            if not scored[t]:
                continue
            store8(text, at, WORD)
            at = put_word(text, at + 4, ids[t], words)
            store8(text, at, GIVEN)
            at += 2
            if t == starts[i]:
                text[at] = BLANK
                at += 1
            else:
                at = put_word(text, at, ids[t - 1], words)
            if t == starts[i] or (t - 1 == starts[i] and ids[t - 1] == sos):
                store8(text, at, FIRST)
                at += 5
            else:
                store8(text, at, LATER)
                at += 8
            at = put(text, put_word(text, at, tag[t], tags), p, t)
            store8(text, at, LOG)
            at = put(text, at + 2, logs, t)
            store8(text, at, CLOSE)
            at += 2
        stops[i] = at


def answers(block, lines, number, tokens, totals):
    """The lines that query prints for a block, bytes: "word=number length log10p" for each token, and the sums.

    lines: first, last and whole. Line i has the tokens first[i] up to last[i]. They are printed as they are written in
    the block, followed by </s> in the first `whole` lines. number (W,): KenLM's number of each word. tokens: ids,
    lengths and log10p, (N,), the last float32. totals: the sums, float32, and the numbers of OOVs of the first lines.
    """
    (first, *_), (ids, lengths, log10p), (sums, oovs) = lines, tokens, totals
    text = np.empty(len(block) + 48 * len(ids) + 64 * len(first) + 16, np.uint8)
    tokens, totals = (ids, lengths, kenlm_cells(log10p, TAB)), (kenlm_cells(sums, BLANK), oovs)
    return text[: print_answers(block, lines, number, tokens, totals, text)].data


@jit
def print_answers(block, lines, number, tokens, totals, text):
    """Write the lines of `answers` into `text`, in place; log10p and the sums come as cells. Returns the number of
    bytes written.
    """
    (first, last, whole), (ids, length, log10p), (sums, oovs) = lines, tokens, totals
    at = place = 0
    for i in range(len(first)):
        for t in range(first[i], last[i]):
            if i < whole and t == last[i] - 1:
                store8(text, at, EOS)
                at += 4
            else:
                while is_blank(block[place]):
                    place += 1
                while place < len(block) and not is_blank(block[place]) and block[place] != LINE:
                    text[at] = block[place]
                    at, place = at + 1, place + 1
            text[at] = 61
            at = put_number(text, at + 1, number[ids[t]], BLANK)
            at = put(text, put_number(text, at, length[t], BLANK), log10p, t)
        while place < len(block) and block[place] != LINE:
            place += 1
        place += 1
        if i < len(sums):
            store8(text, at, TOTAL)
            at = put(text, at + 7, sums, i)
            store8(text, at, OOV)
            at = put_number(text, at + 5, oovs[i], LINE)
    return at


@inlined
def is_blank(c):
    return c == BLANK or (TAB <= c <= 13 and c != LINE)
