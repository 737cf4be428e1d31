"""Sorts the n-grams of a model for a KenLM trie, slice by slice.

N-grams come in any order. They are dealt to slices by their last words: a small model has one slice, in memory; the
slices of a large model are in a temporary file, and only the slices that are being sorted are in memory. A slice has
every suffix of its n-grams, so it can be sorted alone. But the longer n-grams that a context begins may be in other
slices. So the key of each context is sent to the slice of the context's last word.

symbol   shape     meaning
number   -         KenLM's number of a word
row      (k + 2,)  an n-gram of order k, int32: the numbers of its words, the last word first, and the bits of log10 p
                   and of the log10 back-off weight
key      -         the key of an n-gram, as in `hashed`; uint64
table    -         (memory, where), a hash table as in `hashed`, of a slice's n-grams of one order: their keys and the
                   numbers of their rows, counted from 1
"""

from functools import partial
from itertools import pairwise

import numpy as np

from lmtk.files.bounded import trim
from lmtk.files.column import Shelf
from lmtk.kenlm import trie
from lmtk.kenlm.feeding import Receiver, pieces_of
from lmtk.kenlm.hashed import WORD, count_buckets, longer_key
from lmtk.kenlm.levels import LOWER, Levels, make_numbers, number_words, of_backoff, sort_siblings
from lmtk.kenlm.probing import find_key, hash_into
from lmtk.machine.jit import inlined, jit
from lmtk.ngram.arpa.reader import make_rows, nodes_of_rows
from lmtk.ngram.edit.closing import close
from lmtk.ngram.model.backoff import Backoff
from lmtk.text.vocab import vocab_of_unigrams

MANY = 1 << 18  # n-grams; a smaller model has one slice
BITS = 7  # a larger one has up to 2^7 slices
ROOM = 1 << 19  # int32 numbers of the rows that are dealt to slices together
f32, u64 = np.float32, np.uint64
FILL = 1.5  # places of a table for each of its keys


class Unclosed(Exception):
    """An n-gram occurs twice, or lacks its suffix or its context."""


class Slices:
    """The n-grams of a model, dealt to slices. `insert` takes them, one order after the other; `flush` ends an order.

    words: of the model. rows (N, 3): its 1-grams, as in `reader.Rows`. size: about how many n-grams there will be.
    clips: whether positive log probabilities become 0.
    """

    def __init__(self, words, rows, size, clips):
        ids, first = np.unique(rows[:, 0], return_index=True)
        self.clips, self.repeated = clips, len(rows) - len(ids)
        self.numbers, self.hashes, self.words = number_words(words, ids)
        unknown = np.flatnonzero(self.numbers[ids] == 0)  # of both names of <unk>, KenLM takes the last
        self.unigrams = self.clip(np.delete(rows[first], unknown[:-1], 0))
        V = len(self.words)
        self.shift = max(0, (V - 1).bit_length() - BITS) if size > MANY else 31
        self.count, self.sizes = (V - 1 >> self.shift) + 1, [V]
        self.shelf, self.is_context = Shelf(spill=size > MANY), np.zeros(V, bool)
        self.rows, self.keys, self.last = (np.empty(ROOM, kind) for kind in (np.int32, u64, np.int32))
        self.waiting = self.contexts = 0  # how many rows and contexts wait for `flush`

    def clip(self, rows):
        """The rows, changed in place if positive log probabilities become 0."""
        if self.clips:
            p = rows.view(f32)[:, -2]
            np.minimum(p, 0, out=p)
        return rows

    def insert(self, rows):
        """Takes n-grams of order k > 1. rows (N, k + 2): as in `reader.Rows`."""
        k = rows.shape[1] - 2
        if k == 2:
            self.is_context[self.numbers[rows[:, 0]]] = True
        most = ROOM // (k + 2)
        turned, begin = self.rows[: most * (k + 2)].reshape(most, k + 2), 0
        while begin < len(rows):
            part = rows[begin : begin + most - self.waiting]
            contexts = self.keys[self.contexts :], self.last[self.contexts :]
            self.contexts += turn(part, self.numbers, turned[self.waiting :], *contexts)
            self.waiting, begin = self.waiting + len(part), begin + len(part)
            if self.waiting == most:
                self.flush(k)

    def flush(self, k):
        """Deals the rows of order k that wait, and the contexts, to their slices."""
        self.sizes += [0] * (k - len(self.sizes))
        self.sizes[k - 1] += self.waiting
        rows = self.clip(self.rows[: self.waiting * (k + 2)].reshape(-1, k + 2))
        self.shelf.deal(rows, (rows[:, 0] >> self.shift).astype(np.uint8), (k,))
        contexts = self.keys[: self.contexts]
        self.shelf.deal(contexts, (self.last[: self.contexts] >> self.shift).astype(np.uint8), ("contexts", k - 1))
        self.waiting = self.contexts = 0

    def rows_of(self, k, s):
        """The rows of order k in slice s."""
        return self.shelf.get((k, s), np.int32).reshape(-1, k + 2)

    def levels(self):
        """The Levels of the model. Their iterators raise Unclosed where a trie cannot be made of the n-grams."""
        self.rows = self.keys = self.last = None
        trim()  # what reading took
        n, place = len(self.sizes), self.numbers[self.unigrams[:, 0]]
        unigrams = make_numbers(*self.unigrams.view(f32)[:, 1:].T.copy(), self.is_context[place])
        each = range(self.count)
        parts = [[self.shelf.size((k, s)) // (k + 2) for k in range(2, n + 1)] for s in each]
        firsts = np.minimum(np.arange(self.count + 1) << self.shift, len(self.words))
        parts = np.column_stack((np.diff(firsts), parts))
        slices = [partial(self.sort, s, parts[s].tolist()) for s in each]
        return Levels(self.words, self.hashes, unigrams, place, self.sizes, self.numbers_of, parts, slices)

    def numbers_of(self, k):
        """The numbers of order k > 1, as in `levels`, but a weight of 0 has any sign."""
        is_last, end = k == len(self.sizes), 0
        numbers = np.empty((1 if is_last else 2, self.sizes[k - 1]), f32).T  # its columns are sorted in place
        for s in range(self.count):
            columns = self.rows_of(k, s).view(f32)[:, k:].T.copy()
            begin, end = end, end + columns.shape[1]
            unmarked = np.zeros(end - begin, bool)
            numbers[begin:end] = make_numbers(columns[0]) if is_last else make_numbers(*columns, unmarked)
        return numbers

    def sort(self, s, sizes):
        """Yields what an iterator of Levels yields, for slice s with `sizes` n-grams of each order."""
        table = place = None  # of the order above
        for k, (above, size) in enumerate(pairwise(sizes), 2):
            rows, parents = self.rows_of(k, s), np.empty(size, np.int32)
            if k == 2:
                np.subtract(rows[:, 0], s << self.shift, out=parents)
            elif find_parents(rows, *table, place, parents):
                raise Unclosed
            table = place = None  # their memory is used for what follows
            first = np.append(0, np.cumsum(np.bincount(parents, minlength=above), dtype=np.int32))
            yield first
            keys, place = np.empty(size, u64), np.empty(size, np.int32)
            deal_children(rows, parents, first[:-1].copy(), keys)
            sort_siblings(first, keys, (0, above))
            if take_places(first, keys, place):
                raise Unclosed
            columns, is_context = rows.view(f32)[:, k:].T.copy(), np.zeros(size, bool)
            if k == len(sizes):
                yield keys, make_numbers(columns[0], threads=1)
                return
            table = make_table(rows)
            if mark(self.shelf.get(("contexts", k, s), u64), *table, is_context):
                raise Unclosed
            yield keys, make_numbers(*columns, is_context, threads=1)

    def closed(self):
        """(The Levels of the closed model, as by `closing.close`; the number of repeated n-grams, which it lacks)."""
        vocab, rows = vocab_of_unigrams(self.words), [self.unigrams]
        ids = np.array([vocab.index[w] for w in self.words], np.int32)
        rows[0][:, 0] = ids[self.numbers[rows[0][:, 0]]]
        for k in range(2, len(self.sizes) + 1):
            rows.append(np.concatenate([self.rows_of(k, s) for s in range(self.count)]))
            rows[-1][:, :k] = ids[rows[-1][:, :k][:, ::-1]]
        nodes, repeated = nodes_of_rows(rows, len(vocab.words))
        return of_backoff(close(Backoff(vocab, nodes))), repeated


class GrowingSlices(Receiver):
    """Slices that grow while an ARPA file is read."""

    def __init__(self, path, clips):
        super().__init__(path)
        self.clips, self.slices = clips, None

    def start(self, rows, stated):
        self.slices = Slices(self.unigrams.vocab.words, rows, sum(stated.values()), self.clips)

    def take(self, rows):
        self.slices.insert(rows)

    def end(self, k, size, stated):
        if k > 1:
            self.slices.flush(k)


def slices_of(model, clips):
    """The Slices of a Backoff."""
    sizes = map(model.nodes.size, range(1, model.order + 1))
    slices = Slices(model.vocab.words, make_rows(*model.ngrams(1)), sum(sizes), clips)
    for k in range(2, model.order + 1):
        for rows in pieces_of(model, k):
            slices.insert(rows)
        slices.flush(k)
    return slices


def write(out, slices, form):
    """Writes Slices as a KenLM trie. Returns how many n-grams were repeated, and are not in the file."""
    try:
        trie.write(out, slices.levels(), form)
        return slices.repeated
    except Unclosed:
        closed, repeated = slices.closed()
        trie.write(out, closed, form)
        return slices.repeated + repeated


@jit
def turn(rows, numbers, turned, keys, last):
    """turned (N, k + 2) <- rows as in `reader.Rows`. keys, last <- the key of each context and the number of its last
    word; a context that equals the one before is left out. Returns the number of contexts, 0 at order 2.
    """
    k, many = rows.shape[1] - 2, 0
    for i in range(len(rows)):
        for d in range(k):
            turned[i, d] = numbers[rows[i, k - 1 - d]]
        turned[i, k], turned[i, k + 1] = rows[i, k], rows[i, k + 1]
        if k > 2:
            key = key_of(turned, i, 1, k)
            if not many or key != keys[many - 1]:
                keys[many], last[many] = key, turned[i, 1]
                many += 1
    return many


@inlined
def key_of(rows, i, begin, end):
    """The key of the words in the columns from `begin` to below `end` of row i."""
    key = u64(rows[i, begin])
    for d in range(begin + 1, end):
        key = longer_key(key, rows[i, d])
    return key


def make_table(rows):
    """The table of rows (N, k + 2)."""
    keys, buckets = np.empty(len(rows), u64), count_buckets(len(rows), FILL)
    memory, where = np.zeros(WORD * buckets, np.int32), np.array([[0, buckets, WORD]])
    put_keys(rows, keys)
    hash_into(memory, where, keys)
    return memory, where


@jit
def put_keys(rows, keys):
    """Sets keys (N,) to the key of each n-gram in rows (N, k + 2)."""
    for i in range(len(rows)):
        keys[i] = key_of(rows, i, 0, rows.shape[1] - 2)


@jit
def find_parents(rows, memory, where, place, parents):
    """parents (N,) <- the place in the trie of the suffix of each row. memory, where, place: the table of the suffixes,
    and the place in the trie of each. Returns whether a suffix is missing.
    """
    for i in range(len(rows)):
        at, is_there = find_key(memory, where, 1, key_of(rows, i, 0, rows.shape[1] - 3))
        if not is_there:
            return True
        parents[i] = place[memory[at + 2] - 1]
    return False


@jit
def deal_children(rows, parents, head, keys):
    """keys <- the children of each parent, from its `head` on."""
    label = rows.shape[1] - 3
    for i in range(len(rows)):
        keys[u64(head[parents[i]])] = u64(rows[i, label]) << u64(32) | u64(i)
        head[parents[i]] += 1


@jit
def take_places(first, keys, place):
    """place (N,) <- the place in the trie of each row. Returns whether an n-gram is repeated."""
    for parent in range(len(first) - 1):
        for at in range(first[parent], first[parent + 1]):
            if at > first[parent] and keys[at] >> u64(32) == keys[at - 1] >> u64(32):
                return True
            place[keys[at] & LOWER] = at
    return False


@jit
def mark(contexts, memory, where, is_context):
    """is_context (N,) <- True for the rows with the keys `contexts`. memory, where: the table of the rows. Returns
    whether a context is missing.
    """
    for context in contexts:
        at, is_there = find_key(memory, where, 1, context)
        if not is_there:
            return True
        is_context[memory[at + 2] - 1] = True
    return False
