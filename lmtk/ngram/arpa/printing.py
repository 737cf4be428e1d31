"""Prints the n-grams of large models as lines of ARPA files, by kernels.

`pieces_of` prints an order of an estimated model in suffix order. `write_sorted` prints a Backoff in SRILM's order, and
`write_sections` in any order of its words, in little memory. All gather n-grams piece by piece, for threads;
`srilm_layout` makes the lines from the cells of numbers and words (`text.cells`).

The nodes of an order are sorted by their first words. For lines in another order, `write_sections` makes rows of them.
These are dealt to ranges of the leading word, which is compared first; then each range is sorted by itself.

symbol   shape     meaning
row      (k + 3,)  int32: the numbers of an n-gram's words, log10 p and log10 of its weight (the bits of float32), and
                   the flags of `print_rows`
stated   (N_k,)    uint8: whether the file states the weight of a node
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise

import numpy as np

from lmtk.files import bounded
from lmtk.files.bounded import give_back, trim
from lmtk.files.column import Shelf
from lmtk.machine.jit import intrinsic, jit
from lmtk.machine.threads import Scratch, map_in_order
from lmtk.ngram.arpa.writer import weights_stated
from lmtk.ngram.estimate import suffix
from lmtk.ngram.model.nodes import AT, BOW, CHILD, WIDE, WIDTH, N, P, release_order
from lmtk.ngram.model.searching import shell_sort
from lmtk.text.cells import put, put_word, srilm_cells, word_cells
from lmtk.text.sorting import sorted_places

PIECE = 1 << 16  # n-grams, or places, printed together
AHEAD = 8  # how many contexts ahead memory is fetched
BYTES, LEAST = 512, 1 << 16  # of `write_sections`: bytes of memory for each row of a range; rows of a range, at least
u64 = np.uint64
prefetch = intrinsic("prefetch")


@dataclass(frozen=True)
class Layout:
    """The form of the lines of an ARPA file. begin: the file's first bytes. lines: a function of rows (k, N), log10p,
    weights and flags, as for `print_rows`, of k and of a Scratch's room; it returns the lines as bytes. siblings:
    whether n-grams that differ only in their oldest word must go to the same call of `lines`.
    """

    begin: bytes
    lines: Callable
    siblings: bool = False


def srilm_layout(words):
    """Return the Layout of SRILM's files."""
    names = word_cells(words)
    most = int(np.diff(names[1]).max(initial=0))  # bytes of a word and a blank

    def lines(rows, p, bow, flags, k, room):
        p, bow = (srilm_cells(x, end, room(name, (len(x), 2), u64)) for x, end, name in ((p, 9, "p"), (bow, 10, "bow")))
        text = room("text", len(p) * (32 + 8 * len(rows)) + (1 << 16), np.uint8)
        longest = len(rows) * most + 64
        while (filled := print_rows((rows, p, bow, flags), names, text, len(text) - longest)) < 0:
            text = room("text", 2 * len(text) + longest, np.uint8)
        return text[:filled].data

    return Layout(b"\n", lines)


def pieces_of(x, columns, k, layout, scratch):
    """A list of functions. Each returns the lines, bytes, of a piece of the n-grams of order k in Suffixes x. columns:
    their log10p, log10bow, (0,) at the highest order, and marks, as in an engine.Estimator. At order 1, x is not used.
    """
    if k == 1:
        W = len(columns[0])
        nodes = cuts = np.append(np.arange(0, W, W if layout.siblings else PIECE), W)
    else:
        cuts = suffix.cut_places(x.begins, PIECE, 1 if layout.siblings and k == 2 else 2)
        nodes, words = x.nodes(k, cuts), np.searchsorted(x.start, cuts, "right") - 1
        oldest = np.array([of_order.ctypes.data for of_order in x.oldest[2 : k + 1]])

    def lines_of(q):
        with scratch.lent() as room:
            first, last = nodes[q : q + 2]
            log10p, log10bow, marks = (column[first:last] for column in columns)
            rows = room("rows", (k, last - first), np.int32)
            if k == 1:
                rows[0] = np.arange(first, last)
            else:
                suffix.put_words(x.rank, (x.start, words[q]), (cuts[q], cuts[q + 1]), oldest, rows)
            flags, is_bare = marks & 1, np.isnan(log10bow)  # as `print_rows` wants them
            if len(log10bow):
                flags |= np.where(is_bare, marks & 2, np.uint8(2))
            weights = np.where(is_bare, np.float32(0), log10bow)
            return bytes(layout.lines(rows, log10p, weights, flags, k, room))

    return [partial(lines_of, q) for q in range(len(cuts) - 1)]


def write_sorted(out, model, rank, may_reuse=False):
    """Write the sections of a Backoff model in SRILM's order. rank (W,): each word's place in byte order.
    may_reuse: whether the caller gives up the model; its memory is then given back as the file grows.
    """
    if may_reuse:
        trim()
    nodes, lines, scratch = model.nodes, srilm_layout(model.vocab.words).lines, Scratch()
    memory, where, stated = nodes.memory, nodes.where, weights_stated(model)

    def longer_contexts(contexts, k):
        first = nodes.levels[k]["child"]
        longer = np.empty((np.count_nonzero(first[1:] > first[:-1]), k + 2), np.int32)
        order_contexts(contexts, k, memory, where, rank, longer)
        return longer

    written = None  # the contexts of the order before
    # a thread orders the contexts of the next order while the lines of this order are printed
    ordered = accumulate(range(1, nodes.order), longer_contexts, initial=np.array([[0, nodes.size(1)]], np.int32))
    for k, contexts in enumerate(map_in_order(lambda _: next(ordered), range(nodes.order), threads=1), 1):
        if may_reuse and written is not None:
            release_order(nodes, k - 1)
            give_back(written)
        out.write(b"\n\\%d-grams:\n" % k)
        ends = np.append(0, np.cumsum(contexts[:, -1] - contexts[:, -2], dtype=np.int64))  # of their lines
        places = np.unique(np.append(np.searchsorted(ends, np.arange(0, ends[-1], PIECE)), len(contexts)))
        cuts = np.column_stack((places, ends[places])).tolist()
        del ends

        def lines_of(cut, k=k, contexts=contexts):
            (begin, before), (end, after) = cut
            with scratch.lent() as room:
                rows, flags = room("rows", (k, after - before), np.int32), room("flags", after - before, np.uint8)
                p = room("log10p", after - before, np.float32)
                bow = room("weights", after - before if k < nodes.order else 0, np.float32)
                arrays, gathered = (memory, nodes.logs, where), (rows, p, bow, flags)
                gather_lines(contexts[begin:end], arrays, rank, stated[k - 1], gathered)
                if may_reuse and k == nodes.order:  # of lower orders the next contexts are still being made
                    give_back(contexts[begin:end])
                return bytes(lines(*gathered, k, room))

        out.writelines(map_in_order(lines_of, pairwise(cuts)))
        written = contexts


def write_sections(out, model, rank, lines, context_first=False):
    """Writes the sections of an ARPA file. rank (W,): the numbers of the words. N-grams are sorted by these numbers,
    which are compared from the last word back; with `context_first`, the last word is compared last. lines: as in a
    Layout, for rows of these numbers.
    """
    nodes, scratch, stated = model.nodes, Scratch(), weights_stated(model)
    for k in range(1, nodes.order + 1):
        out.write(b"\n\\%d-grams:\n" % k)
        columns = [k - 1, *range(k - 1)] if context_first else [*range(k)]  # the last decides first
        for rows in ranges(nodes, k, columns[-1], rank, stated[k - 1]):
            place = sorted_places(np.ascontiguousarray(rows[:, column]) for column in columns)

            def lines_of(begin, k=k, rows=rows, place=place):
                with scratch.lent() as room:
                    columns = rows[place[begin : begin + PIECE]].T.copy()
                    flags = columns[k + 2].astype(np.uint8)
                    return bytes(lines(columns[:k], *columns[k : k + 2].view(np.float32), flags, k, room))

            out.writelines(map_in_order(lines_of, range(0, len(rows), PIECE)))


def ranges(nodes, k, lead, rank, stated):
    """Yields the rows (M, k + 3) of the n-grams of order k, for one range after the other of the numbers of the leading
    word, the word at `lead`. A range has up to `most` rows, or those of a single word.
    """
    most = max(bounded.bound // BYTES, LEAST) if bounded.bound else nodes.size(k)
    pieces = map_in_order(lambda a: rows_of(nodes, k, a, rank, stated), range(0, nodes.size(k), PIECE))
    if nodes.size(k) <= most:
        yield np.concatenate([*pieces, np.zeros((0, k + 3), np.int32)])
        return
    sizes, level = np.zeros(len(rank), np.int64), nodes.levels[lead + 1]
    for a in range(0, len(level) - 1, PIECE):
        part = level[a : a + PIECE + 1]
        extensions = np.diff(part["child"]).astype(np.int64) if lead + 1 < k else 1
        np.add.at(sizes, rank[part["word"][:-1]], extensions)
    cuts = suffix.cut_words(np.append(0, np.cumsum(sizes)), most, 0)
    range_of, shelf = np.repeat(np.arange(len(cuts) - 1, dtype=np.uint16), np.diff(cuts)), Shelf()
    for rows in pieces:
        shelf.deal(rows, range_of[rows[:, lead]])
    for r in range(len(cuts) - 1):
        yield shelf.get((r,), np.int32).reshape(-1, k + 3)


def rows_of(nodes, k, first, rank, stated):
    """The rows of PIECE nodes of order k from `first` on, without bare prefixes."""
    end = min(first + PIECE, nodes.size(k))
    level, rows = nodes.levels[k][first:end], np.empty((end - first, k + 3), np.int32)
    rows[:, :k], rows[:, k] = rank[nodes.rows(k, first, end)], level["log10p"].view(np.int32)
    rows[:, k + 1] = level["log10bow"].view(np.int32) if k < nodes.order else 0
    rows[:, k + 2] = 1 | stated[first:end] << 1
    return rows[~np.isnan(level["log10p"])]


@jit
def order_contexts(contexts, k, memory, where, rank, out):
    """out (P', k + 2) <- the contexts of the (k + 1)-grams, in the order of their lines. contexts (P, k + 1): those of
    the k-grams. Each row has a context's words, and the first and the end of its children. The contexts are the k-grams
    that have children. A counting sort puts them in the order of the `rank` (W,) of their words, the last word first.
    Bound by a random read a context and a random write a node.
    """
    below = where[k - 1, AT]
    head = np.zeros(len(rank) + 1, np.int32)
    for i in range(where[k - 1, N]):
        at = below + WIDE * i
        head[rank[memory[at]] + 1] += memory[at + CHILD] < memory[at + WIDE + CHILD]
    for i in range(len(rank)):
        head[i + 1] += head[i]
    for i in range(len(contexts)):
        if i + AHEAD < len(contexts):
            prefetch(memory, below + WIDE * np.int64(contexts[i + AHEAD, k - 1]))
        for child in range(contexts[i, k - 1], contexts[i, k]):
            at = below + WIDE * np.int64(child)
            first, last = memory[at + CHILD], memory[at + WIDE + CHILD]
            if first < last:
                w = memory[at]
                place = head[rank[w]]
                head[rank[w]] += 1
                for j in range(k - 1):
                    out[place, j] = contexts[i, j]
                out[place, k - 1], out[place, k], out[place, k + 1] = w, first, last


@jit
def gather_lines(contexts, arrays, rank, stated, lines):
    """lines, as `print_rows` wants them, <- the n-grams that extend some contexts; p and bow (N,) are log10, and bow is
    (0,) at the highest order. arrays: memory, logs and where of `nodes`; rank (W,): each word's place in byte order;
    stated: as `weights_stated` returns it. Bound by a random read a context.
    """
    (memory, logs, where), (rows, p, bow, flags) = arrays, lines
    k, line = len(rows), 0
    below, width, at_p = where[k - 1, AT], where[k - 1, WIDTH], where[k - 1, P]
    items = np.empty(len(flags), u64)
    for i in range(len(contexts)):
        if i + AHEAD < len(contexts):
            begin, end = np.int64(contexts[i + AHEAD, k - 1]), np.int64(contexts[i + AHEAD, k])
            prefetch(memory, below + width * begin)
            prefetch(memory, below + width * end - 1)
            prefetch(stated, begin)
        first, last = np.int64(contexts[i, k - 1]), np.int64(contexts[i, k])
        for child in range(first, last):
            items[child - first] = u64(rank[memory[below + width * child]]) << u64(32) | u64(child)
        shell_sort(items, 0, last - first)
        for place in range(last - first):
            node = np.int64(items[place] & u64(0xFFFFFFFF))
            at = below + width * node
            value = logs[at + at_p]
            has_p = value == value
            p[line], flags[line] = value if has_p else np.float32(0), has_p | stated[node] << 1
            if len(bow):
                bow[line] = logs[at + BOW]
            for j in range(k - 1):
                rows[j, line] = contexts[i, j]
            rows[k - 1, line] = memory[at]
            line += 1


@jit
def print_rows(lines, names, text, end):
    """text <- lines of n-grams. lines: rows (k, N), the n-grams; p and bow, cells of numbers; flags (N,): 1 if the
    n-gram is printed, plus 2 if its line ends with a weight. names: the `word_cells` of the vocabulary. Returns how far
    text is filled, or -1 if a line would begin after `end`. Bound by copying, 16 bytes at once.
    """
    (rows, p, bow, flags), at = lines, 0
    for i in range(len(flags)):
        if not flags[i] & 1:
            continue
        if at > end:
            return -1
        at = put(text, at, p, i)
        for j in range(len(rows)):
            at = put_word(text, at, rows[j, i], names)
        text[at - 1] = 10
        if flags[i] & 2:
            text[at - 1] = 9
            at = put(text, at, bow, i)
    return at
