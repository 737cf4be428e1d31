"""Writes KenLM's probing files, from an ARPA file or from a model in memory.

Each order above 1 has a hash table of its n-grams, with linear probing (`hashed` has the keys and the records). The
place of an n-gram depends on those before it, so n-grams are inserted in the order of the ARPA file, as they are read.
The 1-gram `</s>` may occur twice, since a published script adds a second one; its n-grams then belong to the first.
KenLM needs every n-gram without its first word. Where the model lacks one, a blank takes its place, with the
probability that the model backs off to.

Two signs tell KenLM how much of a context it has to keep. log10 p loses its sign if a longer n-gram ends in this one. A
back-off weight of 0 is -0.0 unless the n-gram is a context.
"""

import os

import numpy as np

from lmtk.errors import FormatError, LmtkError, name_of
from lmtk.files import bounded
from lmtk.files.container import map_output
from lmtk.files.words import Words
from lmtk.kenlm.feeding import Receiver, pieces_of
from lmtk.kenlm.hashed import (
    AT,
    BATCH,
    BOW,
    BUCKETS,
    HEAD,
    LOG10P,
    ONE,
    WORD,
    find_from,
    lay_out,
    longer_key,
    place_of,
    prefetch_bucket,
)
from lmtk.kenlm.layout import CAPITALS, ZERO, hash_words, header_size, join_words, make_header, places_of_unknown
from lmtk.machine.jit import inlined, jit
from lmtk.ngram.arpa import reader
from lmtk.ngram.edit.closing import close
from lmtk.text.vocab import EOS, UNK

f32, u32, u64 = np.float32, np.uint32, np.uint64
MINUS, LOWEST = np.int32(-(1 << 31)), f32(-np.inf).view(np.int32)  # the bits of -0.0 and of -inf
ZERO_BITS = ZERO.view(np.int32)
FREE = u64(0)  # the key of a free bucket
LACKS_CONTEXT, FULL = 1, 2  # what stops `insert`
MOST = 1 << 48  # n-grams of an order


def read(stream, path, form, out):
    """Returns (the Tables of the ARPA file in `stream`, the number of positive log probabilities, the largest of them).
    form: a `layout.Form`; out: the open file that the Tables are for. Raises FormatError.
    """
    growing = GrowingTables(out, form, path)
    stated, positive, worst = growing.read(stream)
    for k in range(len(growing.sizes) + 1, len(stated) + 1):
        growing.check(k, 0, stated)
    return growing.tables, positive, worst


def write(out, model, form):
    """Writes a Backoff of order 2 or more as a KenLM probing file. form: a `layout.Form`."""
    model, words = close(model), [*model.vocab.words]
    nodes, rows = model.nodes, reader.make_rows(*model.ngrams(1))
    is_bare = np.isnan(rows.view(f32)[:, -2])
    is_unknown = np.isin(rows[is_bare, 0], places_of_unknown(words))
    rows.view(f32)[is_bare, -2] = np.where(is_unknown, form.unknown, ZERO)
    tables = Tables(out, form, [nodes.size(k) for k in range(1, nodes.order + 1)], len(words))
    tables.insert_words(rows, [words[w] for w in rows[:, 0].tolist()])
    for k in range(2, nodes.order + 1):
        for rows in pieces_of(model, k):
            tables.insert(rows, "the model")
        tables.drop_pages(k - 1)
    tables.write()


class GrowingTables(Receiver):
    """Tables that grow while an ARPA file is read."""

    def __init__(self, out, form, path):
        super().__init__(path)
        self.out, self.form, self.tables = out, form, None

    def take(self, rows):
        k = rows.shape[1] - 2
        if k > len(self.tables.sizes):
            self.check(k, len(rows), {})
        self.tables.insert(rows, name_of(self.path))

    def end(self, k, size, stated):
        if k > 1:
            self.check(k, size, stated)
            self.tables.drop_pages(k - 1)

    def check(self, k, size, stated):
        """Raises FormatError unless \\data\\ states that there are `size` n-grams of order k."""
        if size != stated.get(k):
            says = f"says {stated[k]} {k}-grams; there are {size}" if k in stated else f"says nothing of {k}-grams"
            raise FormatError(self.path, f"\\data\\ {says}; KenLM needs the right numbers")

    def start(self, rows, stated):
        """Makes the tables, and inserts the 1-grams."""
        words = self.unigrams.words
        if sorted(stated) != [*range(1, len(stated) + 1)]:
            raise FormatError(self.path, "\\data\\ does not state the number of n-grams of every order")
        repeated = np.flatnonzero(np.bincount(rows[:, 0]) > 1).tolist()
        if any(self.unigrams.vocab.words[i] != EOS for i in repeated):
            raise FormatError(self.path, "a word occurs twice among the 1-grams; write a trie, which keeps the first")
        self.check(1, len(words), stated)
        sizes = [stated[k] for k in sorted(stated)]
        try:
            if max(sizes) > MOST:
                raise MemoryError
            self.tables = Tables(self.out, self.form, sizes, len(self.unigrams.vocab.words))
        except (MemoryError, OSError):
            reason = f"\\data\\ says {sum(sizes)} n-grams; hash tables for so many do not fit into memory or on disk"
            raise FormatError(self.path, f"{reason}; write a trie") from None
        self.tables.insert_words(rows, words)


class Tables:
    """The vocabulary and the n-grams of the probing file `out`, in its mapped pages if that is possible.

    memory, where: as in `hashed`. filled (n,): how many buckets of each order are filled. numbers (W,): KenLM's number
    of each word of a Vocab. words: in the order of the numbers, <unk> first.
    """

    def __init__(self, out, form, sizes, W):
        where, self.word_buckets, size = lay_out(sizes, form.multiplier)
        self.out, self.form, self.sizes, self.where = out, form, sizes, where
        self.numbers, self.filled = np.zeros(W, np.int32), np.zeros(len(sizes), np.int64)
        mapped = map_output(out, header_size(len(sizes)), 4 * size)
        self.is_mapped = mapped is not None
        self.memory = mapped.view(np.int32) if self.is_mapped else bounded.zeros(size, np.int32)
        self.logs, self.words = self.memory.view(f32), None
        self.logs[where[0, AT]], self.logs[where[0, AT] + 1] = form.unknown, 0

    def insert_words(self, rows, words):
        """Inserts 1-grams. rows (N, 3): as in `reader.Rows`; words: of the 1-grams."""
        is_word = np.ones(len(words), bool)
        is_word[places_of_unknown(words)] = False
        self.words = Words(Words.join([UNK]).text + Words.join(words).without([UNK, CAPITALS]).text)
        number = np.where(is_word, np.cumsum(is_word), 0)
        self.numbers[rows[::-1, 0]] = number[::-1]  # of a repeated word, the first
        hash_into(self.memory, np.array([[HEAD, self.word_buckets, WORD]]), hash_words(self.words)[1:])
        self.memory[:HEAD] = 0, len(self.words)
        logs = rows[:, 1:].copy()
        logs[logs == LOWEST] = ZERO_BITS
        logs[logs[:, 0] > 0, 0] = 0
        logs[logs[:, 1] == 0, 1] = MINUS
        begin, size, _ = self.where[0]
        self.memory[begin : begin + ONE * size].reshape(-1, ONE)[number] = logs

    def insert(self, rows, name):
        """Inserts n-grams of one order above 1. rows (N, k + 2): as in `reader.Rows`; name: of the model. Raises
        LmtkError.
        """
        failure = insert(self.memory, self.logs, self.where, self.filled, rows, self.numbers)
        if failure == LACKS_CONTEXT:
            k = rows.shape[1] - 2
            raise LmtkError(f"{name}: the model lacks the context of a {k}-gram; write a trie, which adds it")
        if failure == FULL:
            reason = "a hash table is full: the model lacks many n-grams that longer n-grams end with"
            raise LmtkError(f"{name}: {reason}; give a larger multiplier (build_binary -p 2) or write a trie")

    def drop_pages(self, k):
        """Takes the pages of order k from this process. They stay in the file, and come back if they are used."""
        if self.is_mapped:
            begin, buckets, width = self.where[k - 1].tolist()
            bounded.give_back(self.memory[begin : begin + buckets * width])

    def write(self):
        """Writes the header, the memory unless it is mapped from the file, and the words."""
        self.out.write(make_header(self.form, self.sizes))
        if self.is_mapped:
            self.out.seek(self.memory.nbytes, os.SEEK_CUR)
        else:
            self.out.write(self.memory)
        if self.form.has_words:
            self.out.write(join_words(self.words))


@jit
def hash_into(memory, table, hashes):
    """Inserts the hashes of words, or keys, (N,), numbered from 1 on. table (1, 3): `where` of the table."""
    for i in range(len(hashes)):
        at, _ = find_from(memory, table, 1, place_of(table, 1, hashes[i]), FREE)
        put_key(memory, at, hashes[i])
        memory[u64(at + 2)] = i + 1


@jit
def insert(memory, logs, where, filled, rows, numbers):
    """Hard to read: keys are made BATCH n-grams at a time, so that the random accesses to the tables overlap.

    Inserts n-grams of one order k > 1. The arguments are arrays of Tables, and rows (N, k + 2) as in `reader.Rows`.
    Returns 0, LACKS_CONTEXT or FULL.

    Bound: three random accesses an n-gram, to itself, to its suffix and to its context.
    """
    k, n = rows.shape[1] - 2, len(where)
    word, keys, contexts = np.empty((BATCH, k), np.int64), np.empty((BATCH, k), u64), np.empty((BATCH, k), u64)
    # where the searches for the n-gram, its suffix and its context begin
    places, changed = np.zeros((BATCH, 3), np.int64), np.empty(k, np.int64)
    for start in range(0, len(rows), BATCH):
        end = min(start + BATCH, len(rows))
        for i in range(start, end):
            j = i - start
            for d in range(k):
                word[j, d] = numbers[rows[i, k - 1 - d]]  # the last word first
            make_keys(word[j], keys[j])
            make_keys(word[j, 1:], contexts[j])
            places[j, 0] = place_of(where, k, keys[j, k - 1])
            prefetch_bucket(memory, places[j, 0])
            if k > 2:
                places[j, 1] = place_of(where, k - 1, keys[j, k - 2])
                prefetch_bucket(memory, places[j, 1])
                places[j, 2] = place_of(where, k - 1, contexts[j, k - 2])
                prefetch_bucket(memory, places[j, 2])
        for i in range(start, end):
            j = i - start
            at, _ = find_from(memory, where, k, places[j, 0], FREE)
            put_key(memory, at, keys[j, k - 1])
            p, bow = rows[i, k], rows[i, k + 1]
            p = ZERO_BITS if p == LOWEST else np.int32(0) if p > 0 else p
            memory[at + LOG10P] = p | MINUS
            if k < n:
                memory[at + BOW] = MINUS if bow == 0 else ZERO_BITS if bow == LOWEST else bow
            filled[k - 1] += 1
            if filled[k - 1] >= where[k - 1, BUCKETS]:
                return FULL
            suffix, is_there = unigram_place(where, word[j, 0]), True
            if k > 2:
                at, is_there = find_from(memory, where, k - 1, places[j, 1], keys[j, k - 2])
                suffix = at + LOG10P
            if is_there:
                memory[suffix] &= ~MINUS
            elif not add_blanks((memory, logs), where, filled, word[j], keys[j], contexts[j], changed):
                return FULL
            context = unigram_place(where, word[j, 1]) + 1
            if k > 2:
                at, is_there = find_from(memory, where, k - 1, places[j, 2], contexts[j, k - 2])
                if not is_there:
                    return LACKS_CONTEXT
                context = at + BOW
            mark_context(memory, context)
    return 0


@inlined
def make_keys(word, keys):
    """keys[d] <- the key of the first d + 1 of the words, the last word of the n-gram first."""
    key = u64(word[0])
    keys[0] = key
    for d in range(1, len(word)):
        key = longer_key(key, word[d])
        keys[d] = key


@jit
def add_blanks(arrays, where, filled, word, keys, contexts, changed):
    """Inserts blanks for the suffix of an n-gram, and for shorter suffixes that are missing, and marks them as the ends
    of longer n-grams. changed: memory for their places. Returns whether there was room.
    """
    (memory, logs), k, many, order = arrays, len(word), 0, len(word) - 1
    while order > 1:
        at, is_there = find_key(memory, where, order, keys[order - 1])
        changed[many] = at + LOG10P
        many += 1
        if is_there:
            break
        put_key(memory, at, keys[order - 1])
        memory[at + BOW] = MINUS
        filled[order - 1] += 1
        if filled[order - 1] >= where[order - 1, BUCKETS]:
            return False
        order -= 1
    if order == 1:
        changed[many] = unigram_place(where, word[0])
        many += 1
    # from the shortest blank to the longest: the blank of order length + 1 adds the weight of a context of that length
    blank = many - 1
    p = -abs(logs[changed[blank]])
    for length in range(order, k - 1):
        place, is_there = unigram_place(where, word[1]) + 1, True
        if length > 1:
            at, is_there = find_key(memory, where, length, contexts[length - 1])
            place = at + BOW
        if is_there:
            mark_context(memory, place)
            p += logs[place]
        blank -= 1
        logs[changed[blank]] = p
    for j in range(many):
        memory[changed[j]] &= ~MINUS
    return True


@inlined
def mark_context(memory, at):
    """A weight of 0 at this place becomes +0.0."""
    if memory[at] == MINUS:
        memory[at] = 0


@inlined
def unigram_place(where, word):
    """Where log10 p of a 1-gram is, before its weight."""
    return where[0, AT] + ONE * word


@inlined
def find_key(memory, where, order, key):
    """`find_from`, from the place where the search for the key begins."""
    return find_from(memory, where, order, place_of(where, order, key), key)


@inlined
def put_key(memory, at, key):
    memory[u64(at)], memory[u64(at + 1)] = np.int32(u32(key & u64(0xFFFFFFFF))), np.int32(u32(key >> u64(32)))
