"""Back-off models that keep only hashes of their n-grams, as KenLM's probing tables do. Such models score texts; their
n-grams cannot be listed.

The key of an n-gram w_1 .. w_k, KenLM's numbers of its words, is made from the last word back: key(w_k) = w_k, and
key(w_i .. w_k) = A key(w_(i+1) .. w_k) xor B (1 + w_i), modulo 2^64. Every suffix of an n-gram is in the tables too.

symbol  shape   meaning
memory  (M,)    the file from the vocabulary on, int32; logs: the same memory as float32
where   (n, 3)  for each order, int64. AT: where its records begin in the memory; BUCKETS: how many there are; WIDTH:
                the int32 numbers in a record
ONE     -       a record of order 1: log10 p, log10 of the weight; its place is the number of the word
MIDDLE  -       a record of the orders between: the key (two numbers, 0: a free bucket), log10 p, log10 of the weight
LONGEST -       a record of the highest order: the key, log10 p
"""

from dataclasses import dataclass, replace

import numpy as np

from lmtk.kenlm.layout import ZERO
from lmtk.lm import LN10, UNKNOWN, Scores, ranges
from lmtk.machine.jit import inlined, intrinsic, jit
from lmtk.machine.threads import map_at_once
from lmtk.text.vocab import Vocab

f32, u32, u64 = np.float32, np.uint32, np.uint64
A, B = u64(8978948897894561157), u64(17894857484156487943)
HEAD, WORD = 2, 3  # int32 numbers before the table of words, and in a record of a word: its hash, its number
ONE, MIDDLE, LONGEST = 2, 4, 3  # int32 numbers in a record
LOG10P, BOW = 2, 3  # places in the record of an n-gram
AT, BUCKETS, WIDTH = range(3)  # columns of `where`
BLOCK = 1 << 16  # tokens that a thread scores at once
BATCH = 32  # tokens whose places are prefetched together
NO_WORDS = "does not store the words of n-grams; give the ARPA file or a KenLM trie"  # in messages
prefetch = intrinsic("prefetch")


@dataclass(frozen=True)
class Hashed:
    """A back-off model of hashed n-grams: memory and where, as in the table above; number (W,): KenLM's number of each
    word; sizes: the number of n-grams of each order.

    The sign bit of a log10 p is not a sign: KenLM clears it if a longer n-gram ends in this one.
    """

    vocab: Vocab
    order: int
    number: np.ndarray
    memory: np.ndarray
    where: np.ndarray
    sizes: list

    def score(self, corpus):
        """Scores a Corpus: ln p of every scored token, and the length of the n-gram that gave it, UNKNOWN for a word
        that is not predicted.
        """
        log10p, used = self.log10p(corpus, f32(-np.inf))
        outside = corpus.scored & (corpus.ids >= self.vocab.V)
        log10p[outside], used[outside] = -np.inf, UNKNOWN
        return Scores(log10p.astype(np.float64) * LN10, used[:, None])

    def log10p(self, corpus, zero=ZERO):
        """(KenLM's log10 p of scored tokens, (N,) float32; the length of the n-gram used, (N,)); 0 for other tokens.
        zero: as in `score_tokens`.
        """
        number, N = self.number[corpus.ids], len(corpus.ids)
        before = ranges(0, np.diff(corpus.starts))
        log10p, used = np.empty(N, f32), np.empty(N, np.int8)
        tables = self.memory, self.memory.view(f32), self.where[: self.order]

        def score_block(first):
            # a block begins with the last words of the block before it, as contexts
            begin, end = max(first - self.order, 0), min(first + BLOCK, N)
            p, length = np.empty(end - begin, f32), np.empty(end - begin, np.int8)
            reach = np.minimum(before[begin:end], np.arange(end - begin))
            score_tokens(tables, number[begin:end], reach, zero, p, length)
            log10p[first:end], used[first:end] = p[first - begin :], length[first - begin :]

        map_at_once(score_block, range(0, N, BLOCK))
        log10p[~corpus.scored] = used[~corpus.scored] = 0
        return log10p, used

    def lower(self, order):
        """The model without n-grams above `order`."""
        return replace(self, order=order)

    def describe(self):
        yield "kind", "back-off n-gram of hashes"
        yield "order", self.order
        for k, size in enumerate(self.sizes[: self.order], 1):
            yield f"{k}-grams", size
        yield "predicted words |V|", self.vocab.V


def lay_out(sizes, multiplier):
    """(where (n, 3), as in the table above; the number of buckets of the table of words; the size of the memory) of a
    file with `sizes` n-grams of each order.
    """
    buckets = [count_buckets(size, multiplier) for size in sizes]
    words, buckets[0] = buckets[0], sizes[0] + 1
    widths = [ONE, *[MIDDLE] * (len(sizes) - 2), LONGEST][: len(sizes)]
    ends = HEAD + WORD * words + np.cumsum([0, *(width * n for width, n in zip(widths, buckets))])
    return np.column_stack((ends[:-1], buckets, widths)), words, int(ends[-1])


def count_buckets(entries, multiplier):
    """The number of buckets of KenLM's hash table for so many entries."""
    return max(entries + 1, int(f32(multiplier) * f32(entries)))


@jit
def score_tokens(tables, number, before, zero, log10p, used):
    """Scores the tokens with the numbers number (N,): fills log10p (N,), and used (N,), the length of the n-gram used.
    tables: memory, logs and where. before (N,): how many words of the sentence come before each token. zero: the value
    that replaces ZERO, the logarithm of the probability 0.

    Bound: a random read for each n-gram that is looked up. An n-gram is looked up if a longer one ends in its suffix.
    """
    memory, logs, where = tables
    n = len(where)
    weights, seen = np.zeros(n + 1, f32), 0  # the weights of the contexts that end in the token before, and how many
    keys, places = np.empty((BATCH, n + 1), u64), np.empty((BATCH, n + 1), np.int64)
    for start in range(0, len(number), BATCH):
        end = min(start + BATCH, len(number))
        for i in range(start, end):
            key = u64(number[i])
            for k in range(2, min(n, before[i] + 1) + 1):
                key = longer_key(key, number[i - k + 1])
                keys[i - start, k] = key
                places[i - start, k] = place_of(where, k, key)
                prefetch_bucket(memory, places[i - start, k])
        for i in range(start, end):
            at = where[0, AT] + ONE * number[i]
            p, length, longest, first_weight = logs[u64(at)], 1, 1, logs[u64(at + 1)]
            goes_on = memory[u64(at)] >= 0  # the sign bit
            shortest = min(seen, before[i])
            # the weights of this token replace those of the token before only when they have been used
            for k in range(2, min(n, before[i] + 1) + 1):
                if not goes_on:
                    break
                at, is_there = find_from(memory, where, k, places[i - start, k], keys[i - start, k])
                if not is_there:
                    break
                p, length = logs[u64(at + LOG10P)], k
                goes_on = memory[u64(at + LOG10P)] >= 0
                if k < n:
                    longest = k
                    places[i - start, k] = at
            p = zero if abs(p) == -ZERO else -abs(p)
            for k in range(length, shortest + 1):
                p += weights[k]
            log10p[i], used[i] = p, length
            weights[1], seen = zero if first_weight == ZERO else first_weight, min(longest, n - 1)
            for k in range(2, longest + 1):
                bow = logs[u64(places[i - start, k] + BOW)]
                weights[k] = zero if bow == ZERO else bow


@inlined
def longer_key(key, word):
    """The key of an n-gram that has one word more, the number `word`, before the n-gram with this key."""
    return key * A ^ u64(word + 1) * B


@inlined
def place_of(where, order, key):
    """Where the search for a key begins."""
    return where[order - 1, AT] + np.int64(key % u64(where[order - 1, BUCKETS])) * where[order - 1, WIDTH]


@inlined
def prefetch_bucket(memory, at):
    """Prefetches the bucket at a place and the key of the next one, which may be in the next line of the cache."""
    prefetch(memory, at)
    prefetch(memory, at + MIDDLE + 1)


@inlined
def find_from(memory, where, order, at, key):
    """(the place of the n-gram with this key, or of a free bucket; whether the n-gram was found). The search starts at
    the place `at`. In a damaged file without a free bucket, the search ends at `at`.
    """
    begin, width = where[order - 1, AT], where[order - 1, WIDTH]
    end = begin + where[order - 1, BUCKETS] * width
    for _ in range(where[order - 1, BUCKETS]):
        stored = key_at(memory, at)
        if stored == key or stored == 0:
            return at, stored == key
        at += width
        if at == end:
            at = begin
    return at, False


@inlined
def key_at(memory, at):
    return u64(u32(memory[u64(at)])) | u64(u32(memory[u64(at + 1)])) << u64(32)
