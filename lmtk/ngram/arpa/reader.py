"""Reads ARPA files, the text form of back-off models.

A file is read forward only, so that it can be a pipe. A small file is parsed line by line; a large one in blocks whose
n-grams the kernels of `rows` sort into a trie. A log10 of -99 in the file, for the logarithm of 0, becomes -inf.
Readers of other forms also make models by `rows_of_lines`, `make_rows`, `nodes_of_few` and `nodes_of_rows`.
"""

import re
import warnings
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, groupby, islice

import numpy as np

from lmtk.errors import FormatError, LmtkWarning, counted, name_of, shown
from lmtk.files import bounded
from lmtk.files.declared import MAX_ORDER
from lmtk.files.decoding import WORD, decode_blocks, split_lines
from lmtk.files.words import Words
from lmtk.machine import memory
from lmtk.machine.large import LARGE, pays
from lmtk.machine.threads import map_in_order
from lmtk.ngram.arpa.rows import Trie
from lmtk.ngram.counting.counts import number_ngrams
from lmtk.ngram.model.backoff import Backoff
from lmtk.ngram.model.building import build_nodes
from lmtk.ngram.model.nodes import ZERO
from lmtk.text.corpus import TOKEN, Table
from lmtk.text.kernels import read_lines, take_second
from lmtk.text.sorting import sorted_places
from lmtk.text.vocab import EOS, SOS, vocab_of_unigrams

NUMBER = re.compile(rb"([-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|-[Ii]nf(inity)?)$")
BLOCK = 1 << 20  # bytes read together: their ids and numbers stay in a cache
MOST = 1 << 25  # n-grams of an order for which memory is allocated on the word of \data\ alone
SECTION = re.compile(rb"\\(\d{1,9})-grams:$")
STATED = re.compile(rb"ngram\s+(\d{1,9})\s*=\s*(\d{1,18})")  # the number of n-grams of an order, after \data\
DAMAGED = "the file may be damaged or cut short"
NO_UNIGRAM = -2  # the id of a word that has no 1-gram
# what happens if a model lacks the 1-gram of a mark
LACKING = {SOS: "the first word of a sentence has no context", EOS: "the end of a sentence has no probability"}


@dataclass(frozen=True)
class Rows:
    """N n-grams of order k from consecutive lines. rows (N, k + 2) int32: as `text.kernels.read_lines` makes them;
    those of 1-grams have no ids yet. positive, worst: the number of positive log p, and the largest of them. unknown:
    the first word without a 1-gram, or None. text: the lines of one block, uint8; None for the rows of several blocks.
    """

    rows: np.ndarray
    positive: int
    worst: float
    unknown: bytes | None
    text: np.ndarray | None


def read_text(stream, path, seen=(), home=None, linked=True):
    """Reads the Backoff model of an ARPA file, forward only. home, linked: as in `registry.load`.

    Accepts text before \\data\\, tabs or blanks, CRLF, exponents and missing back-off weights. Warns of wrong numbers
    of n-grams, positive log probabilities, repeated n-grams, and a missing <s> or </s>. Raises FormatError.
    """
    growing = GrowingTrie(path, home)
    sections = read_model(stream, path, growing)
    unigrams = growing.unigrams
    for mark, effect in LACKING.items():
        if mark not in unigrams.words:
            warnings.warn(f"{name_of(path)}: the model has no {mark.decode()}; {effect}", LmtkWarning, stacklevel=2)
    if unigrams.table is None:
        rows = [rows_of_pieces(k, pieces, unigrams) for k, pieces in sections.items()]
        nodes, repeated = nodes_of_few(rows, len(unigrams.vocab.words))
    else:
        nodes, repeated = nodes_of_many(sections, growing, linked)
    tell_repeated(path, repeated)
    return Backoff(unigrams.vocab, nodes)


def read_model(stream, path, growing):
    """The sections as `read_sections` returns them. Warns of positive log probabilities and wrong numbers of n-grams.
    Raises FormatError, also for a model without 1-grams.
    """
    sections, stated, positive, worst = read_sections(stream, path, growing)
    if not sections.get(1):
        raise FormatError(path, "the model has no 1-grams")
    if positive:
        count = counted(positive, "positive log probability", "positive log probabilities")
        warnings.warn(f"{name_of(path)}: {count}, up to {worst:.7g}", LmtkWarning, stacklevel=3)
    sizes = {k: sum(len(x.rows) if isinstance(x, Rows) else 1 for x in rows) for k, rows in sections.items()}
    tell_sizes(path, stated, sizes | growing.sizes)
    return sections


def read_sections(stream, path, growing):
    """Reads an ARPA file up to \\end\\. Returns ({order: Rows and parsed lines}, {order: the number of n-grams that
    \\data\\ states}, the number of positive log probabilities, the largest of them). Orders that are complete go to
    `growing`, a GrowingTrie, where possible. Raises FormatError.
    """
    sections, stated, order, positive, worst = {}, {}, None, 0, 0.0
    for number, line in numbered(stream, path, growing.unigrams):
        if isinstance(line, Rows):
            positive, worst = positive + line.positive, max(worst, line.worst)
            growing.extend(sections[order], line, stated.get(order, 0))
            continue
        line = line.strip(b" \t\r")
        if order is None:
            order = 0 if line == b"\\data\\" else None
        elif not line:
            continue
        elif line == b"\\end\\":
            break
        elif head := SECTION.match(line):
            order = int(head[1])
            if order > MAX_ORDER:
                problem = f"the order {order} is too high; lmtk reads models up to order {MAX_ORDER}"
                raise FormatError(path, problem, number)
            if order != len(sections) + 1:
                raise FormatError(path, f"expected {len(sections) + 1}-grams, found {order}-grams", number)
            growing.add(sections, stated)
            sections[order] = []
        elif order == 0:
            if not (size := STATED.fullmatch(line)):
                raise FormatError(path, "expected 'ngram N=count'", number)
            stated[int(size[1])] = int(size[2])
        else:
            entry = parse(line, order)
            if isinstance(entry, str):
                raise FormatError(path, entry, number)
            if entry[0] > 0:
                positive, worst = positive + 1, max(worst, entry[0])
            if order == 1 and growing.unigrams.table is None:  # `read_block` takes the words of a large file
                growing.unigrams.lines.append(entry[1][0] + b"\n")
            sections[order].append(entry)
    else:
        if order is None:
            raise FormatError(path, "not a model; it looks like a text (an ARPA file has a line \\data\\)")
        raise FormatError(path, "the line \\end\\ is missing, so the file is incomplete")
    growing.add(sections, stated)
    return sections, stated, positive, worst


def tell_sizes(path, stated, sizes):
    """Warns of each order whose number of n-grams differs from the one in \\data\\."""
    for k in sorted({*stated, *sizes}):
        size = sizes.get(k, 0)
        if stated.get(k) != size:
            text = f"{name_of(path)}: \\data\\ says {stated.get(k, 'nothing of')} {k}-grams; there are {size}"
            warnings.warn(text, LmtkWarning, stacklevel=3)


def tell_repeated(path, repeated):
    """Warns if n-grams were repeated."""
    if repeated:
        text = f"{name_of(path)}: {counted(repeated, 'repeated n-gram')}; only the first occurrence is kept"
        warnings.warn(text, LmtkWarning, stacklevel=3)


def numbered(stream, path, unigrams):
    """Yields (number, line) for the lines of a file; of a large file, Rows in place of the lines of n-grams."""
    blocks = decode_blocks(stream, path, BLOCK)
    first = [*islice(blocks, LARGE["arpa"] // BLOCK + 1)]
    blocks = chain(first, blocks)
    yield from pieces(blocks, unigrams) if pays("arpa", sum(map(len, first)), "read") else split_lines(blocks)


def parse(line, k):
    """A line of order k -> (log10 p, words, log10 back-off weight, 0 if missing), or an error message."""
    fields = TOKEN.findall(line)
    if len(fields) not in (k + 1, k + 2):
        return f"expected {counted(k, 'word')} after the probability, got {len(fields) - 1}; {DAMAGED}"
    numbers = [fields[0], *fields[k + 1 :], b"0"]
    if not all(map(NUMBER.match, numbers[:2])):
        return f"a probability or back-off weight is not a number; {DAMAGED}"
    p, bow = float(numbers[0]), float(numbers[1])
    if max(p, bow) > 1e30:
        return "a probability or back-off weight is too large"
    return p, fields[1 : k + 1], bow


def pieces(blocks, unigrams):
    """Yields (number, line) as `split_lines` does, but Rows in place of the lines that `text.kernels.read_lines` reads.
    From the 2-grams on, threads read the blocks; before, this thread does, since the order of 1-grams numbers words.
    """
    memory.keep()  # that of one block is reused for the next
    line, unigrams.table = 0, Table([], [])  # 1-grams are not looked up
    for is_shared, parts in groupby(split_sections(blocks), lambda part: part[0] > 1):
        if is_shared:
            unigrams.table = unigrams.vocab.table
        for items, lines in (map_in_order if is_shared else map)(partial(read_block, unigrams), parts):
            yield from ((line + number, piece) for number, piece in items)
            line += lines


def split_sections(blocks):
    """Yields (order, lines) up to \\end\\ or a wrong head: blocks of whole lines, cut after each head of a section. The
    order is 0 before the 1-grams.
    """
    order = None
    for block in blocks:
        begin, at = 0, block.find(b"\\")
        while at >= 0:
            end = block.index(b"\n", at) + 1
            line = block[block.rfind(b"\n", 0, at) + 1 : end].strip(b" \t\r\n")
            head = SECTION.match(line)
            if line == b"\\data\\" if order is None else head or line == b"\\end\\":
                yield order or 0, block[begin:end]
                begin, order = end, 0 if order is None else order + 1
                if order and not (head and int(head[1]) == order):
                    return
            at = block.find(b"\\", end)
        yield order or 0, block[begin:]


class Unigrams:
    """The words of the 1-grams of the file `path`. lines: as they are read, a line each. words: once all are read, a
    list or, of a large file, Words. table: of a large file, the words' ids for look-ups by several threads.
    """

    def __init__(self, path):
        self.path, self.lines, self.table = path, [], None

    @cached_property
    def words(self):
        words = Words(b"".join(self.lines))
        return words.items if self.table is None else words

    @cached_property
    def vocab(self):
        return vocab_of_unigrams(self.words)

    @property
    def ids(self):
        """The ids of the words, (N,) int32."""
        return (self.vocab if self.table is None else self.vocab.table).ids_of_words(self.words)


class GrowingTrie:
    """The Trie of a large file, which grows while the file is read. A complete section becomes records, and its memory
    is reused for the next section. The rows of the highest order stay, since its records have no weights, and there may
    be more orders than \\data\\ says. This stops at the first section that does not have as many n-grams as \\data\\
    says, has lines that only `parse` could read, or lacks a prefix. spare: memory for a section. sizes: {k: N} of the
    orders that are records. home: as for `finish`.
    """

    def __init__(self, path, home=None):
        self.unigrams, self.home, self.trie, self.spare, self.sizes = Unigrams(path), home, None, [], {}

    def extend(self, section, rows, stated):
        """Appends Rows to a section. Rows that follow each other are joined in memory for as many n-grams as are
        `stated`, taken from `spare` if there is some.
        """
        size, width = rows.rows.shape
        if not (section and isinstance(section[-1], Rows)):
            try:
                whole = self.spare.pop() if self.spare else np.empty(max(min(stated, MOST), size) * width, np.int32)
            except MemoryError:  # \data\ may promise more than there are
                whole = np.empty(size * width, np.int32)
            section.append(replace(rows, rows=whole[:0].reshape(-1, width)))
        before = section[-1].rows
        begin, whole = len(before), before.base
        if len(whole) < (begin + size) * width:
            whole = np.empty(2 * (begin + size) * width, np.int32)
            whole[: begin * width] = before.ravel()
        joined = whole[: (begin + size) * width].reshape(-1, width)
        joined[begin:] = rows.rows
        section[-1] = replace(rows, rows=joined, unknown=section[-1].unknown or rows.unknown, text=None)

    def add(self, sections, stated):
        """Makes records of the last section, if the sections before it are records and its words have 1-grams."""
        k = len(sections)
        if len(self.sizes) != k - 1 or not all(isinstance(x, Rows) and not x.unknown for x in sections[k]):
            return
        if k == 1:
            sizes = [stated.get(j, -1) for j in range(1, len(stated) + 1)]
            if not sections[1] or min(sizes, default=-1) < 0 or max(sizes) > MOST or bounded.bound:
                return
            try:
                spare = np.empty(max(size * (j + 2) for j, size in enumerate(sizes, 1)), np.int32)
                self.trie = Trie(sizes, len(self.unigrams.vocab.words), self.home)
            except MemoryError:  # \data\ may promise more than there are
                return
            self.spare.append(spare)
        rows = rows_of_pieces(k, sections[k], self.unigrams)
        if self.trie.add(rows):
            self.sizes[k] = len(rows)
            if 1 < k < len(self.trie.sizes) and sections[k]:
                self.spare.append(rows.base)
                sections[k].clear()


def read_block(unigrams, part):
    """Reads a part of `split_sections`: ([(number in the part, line or Rows)], the number of lines). The words of
    1-grams are added to `unigrams`.
    """
    order, block = part
    text, at, line, items = np.frombuffer(block, np.uint8), 0, 0, []
    while at < len(text):
        if order:
            rows = np.empty(((len(text) - at) // (2 * order + 2) + 1, order + 2), np.int32)
            start = at
            table, numbers = unigrams.table.arrays(), rows.view(np.float32)
            at, size, lines, positive, worst, outside = read_lines(text, at, order, table, NO_UNIGRAM, rows, numbers)
            line += lines
            if size:
                unknown = None
                if order == 1:
                    words = np.empty(at - start, np.uint8)
                    unigrams.lines.append(words[: take_second(text[:at], start, words)].tobytes())
                elif outside >= 0:
                    lists = [fields for row in block[start:at].split(b"\n") if (fields := WORD.findall(row))]
                    unknown = lists[outside // order][1 + outside % order]
                items.append((line, Rows(rows[:size], positive, worst, unknown, text[start:at])))
            if at == len(text):
                break
        end = block.index(b"\n", at)
        piece, at, line = block[at:end].rstrip(b"\r"), end + 1, line + 1
        items.append((line, piece))
        if order == 1 and not isinstance(entry := parse(piece, 1), str):
            unigrams.lines.append(entry[1][0] + b"\n")
    return items, line


def nodes_of_few(rows, W):
    """(the Nodes of rows (N, k + 2) of each order over W words, missing prefixes being bare; the number of repeats)."""
    orders, repeated = [], 0
    for x, (keys, first, _) in zip(rows, number_ngrams([x[:, :-2] for x in rows], W), strict=True):
        is_row = first < len(x)  # a node that is only a prefix was first seen after the rows x
        repeated += len(x) - int(is_row.sum())
        logs = np.repeat(np.float32([[np.nan], [0]]), len(keys), 1)
        logs[:, is_row] = x.view(np.float32)[first[is_row], -2:].T
        orders.append((keys, *logs))
    return build_nodes(orders, W), repeated


def nodes_of_many(sections, growing, linked):
    """(the Nodes of the sections of a large file, by kernels; the number of repeated n-grams). Empties the sections.
    growing: a GrowingTrie, whose trie has some of them already.
    """
    unigrams, trie, rows = growing.unigrams, growing.trie, []
    W = len(unigrams.vocab.words)
    if not trie or not trie.order == len(trie.sizes) == len(sections):
        model = Backoff(unigrams.vocab, trie.nodes(linked=False)) if trie else None
        rows = [
            make_rows(*model.ngrams(k)) if k in growing.sizes and not pieces else rows_of_pieces(k, pieces, unigrams)
            for k, pieces in sections.items()
        ]
    growing.spare.clear()
    sections.clear()
    if growing.home:
        bounded.trim()  # freed memory goes back to the system, for the pages of the file
    return nodes_of_rows(rows, W, growing.home, linked) if rows else (trie.nodes(linked), 0)


def nodes_of_rows(rows, W, home=None, linked=True):
    """(the Nodes of the rows of each order, by kernels; the number of repeated n-grams). `mend` changes the rows if it
    must. home: as for `building.finish`; linked: as for `Trie.nodes`.
    """
    trie = Trie([len(x) for x in rows], W, home)
    if all(map(trie.add, rows)):
        return trie.nodes(linked), 0
    del trie  # makes room
    repeated = mend(rows)
    return nodes_of_rows(rows, W, home, linked)[0], repeated


def mend(rows):
    """Mends the rows of each order for a Trie, in place: sorts them, keeps the first of equal n-grams, and adds
    missing prefixes as bare ones. Returns the number of repeated n-grams.
    """
    repeated = 0
    for k in range(len(rows), 0, -1):
        every, size = rows[k - 1], len(rows[k - 1])
        if k < len(rows):
            prefixes = rows[k][:, :-3]
            every = np.concatenate((every, make_rows(prefixes[changes(prefixes)], np.nan, 0)))
        place = sorted_places(np.ascontiguousarray(every[:, column]) for column in range(k - 1, -1, -1))
        place = place[changes(every[place, :-2])]
        rows[k - 1] = every[place]
        repeated += size - np.count_nonzero(place < size)
    return repeated


def changes(ids):
    """(N,) bool: whether a row of ids (N, k) differs from the row before."""
    return np.append(True, (ids[1:] != ids[:-1]).any(axis=1))[: len(ids)]


def make_rows(ids, p, bow):
    """The rows (N, k + 2) of a Rows, made of ids (N, k), log10 p and log10 bow."""
    rows = np.empty((len(ids), ids.shape[1] + 2), np.int32)
    rows[:, :-2] = ids
    rows.view(np.float32)[:, -2], rows.view(np.float32)[:, -1] = p, bow
    return rows


def rows_of_model(model):
    """The rows (N, k + 2) of each order of a Backoff, without bare prefixes."""
    rows = (make_rows(*model.ngrams(k)) for k in range(1, model.order + 1))
    return [x[~np.isnan(x.view(np.float32)[:, -2])] for x in rows]


def rows_of_lines(k, lines, index):
    """The rows (N, k + 2) of parsed lines of order k, with -inf in place of -99 and 0 in place of -0, as nodes have
    them. index: word -> id.
    """
    ids = np.array([[index[w] for w in words] for _, words, _ in lines], np.int32)
    logs = np.array([[p, bow] for p, _, bow in lines], np.float32).reshape(-1, 2) + np.float32(0)
    logs[logs == ZERO] = -np.inf
    return make_rows(ids.reshape(-1, k), *logs.T)


def rows_of_pieces(k, pieces, unigrams):
    """The rows (N, k + 2) of parsed lines and Rows of order k; of 1-grams, `pieces` is the whole section. Raises
    FormatError for a word that has no 1-gram.
    """
    vocab, parts = unigrams.vocab, []
    try:
        for kind, run in groupby(pieces, type):
            if kind is Rows:
                # the index lacks an unknown word, so that it raises KeyError
                parts += [x.rows if x.unknown is None else vocab.index[x.unknown] for x in run]
            else:
                parts.append(rows_of_lines(k, [*run], vocab.index))
    except KeyError as e:
        raise FormatError(unigrams.path, f"the word {shown(e.args[0])} of an n-gram is not among the 1-grams") from None
    rows = parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, k + 2), np.int32), *parts])
    if k == 1:
        rows[:, 0] = unigrams.ids
    return rows
