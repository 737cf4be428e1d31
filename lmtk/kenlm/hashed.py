"""Back-off models that keep only hashes of their n-grams, as KenLM's probing tables do. Such models score texts; their
n-grams cannot be listed.

The key of an n-gram w_1 .. w_k, where w are KenLM's numbers of words, goes from the last word back: key(w_k) = w_k, and
key(w_i .. w_k) = A key(w_(i+1) .. w_k) xor B (1 + w_i), modulo 2^64. Every suffix of an n-gram is in the tables too.
"""

from dataclasses import dataclass, replace

import numpy as np

from lmtk.lm import LN10, UNKNOWN, Scores
from lmtk.text.vocab import Vocab

A, B = np.uint64(8978948897894561157), np.uint64(17894857484156487943)
ONE = np.dtype([("log10p", "<f4"), ("log10bow", "<f4")])
MIDDLE = np.dtype([("key", "<u8"), ("log10p", "<f4"), ("log10bow", "<f4")])
LONGEST = np.dtype([("key", "<u8"), ("log10p", "<f4")])


@dataclass(frozen=True)
class Hashed:
    """A back-off model of hashed n-grams.

    number (W,): KenLM's number of each word. first (W',): a record ONE for each number. tables: for each order above
    1, a hash table of MIDDLE or LONGEST records (linear probing; the key 0 marks a free entry). sizes: the number of
    n-grams of each order.

    The sign bit of a log10 p is not a sign: KenLM clears it if a longer n-gram ends in this one.
    """

    vocab: Vocab
    order: int
    number: np.ndarray
    first: np.ndarray
    tables: list
    sizes: list

    def score(self, corpus):
        """Score a Corpus: ln p of every scored token, and the length of the n-gram that gave it, UNKNOWN for a word
        that is not predicted.
        """
        log10p, used = self.log10p(corpus)
        outside = corpus.scored & (corpus.ids >= self.vocab.V)
        log10p[outside], used[outside] = -np.inf, UNKNOWN
        return Scores(log10p.astype(np.float64) * LN10, used[:, None])

    def log10p(self, corpus):
        """(KenLM's log10 p of scored tokens, (N,) float32; the length of the n-gram used, (N,)); 0 for other tokens."""
        ids, N = corpus.ids, len(corpus.ids)
        number = self.number[ids]
        before = np.arange(N) - np.repeat(corpus.starts[:-1], np.diff(corpus.starts))
        log10p, used, key = with_minus(self.first["log10p"][number]), np.ones(N, np.int8), number.astype(np.uint64)
        weights, at = [self.first["log10bow"][number]], np.arange(N)
        for k, table in enumerate(self.tables[: self.order - 1], 2):
            at = at[before[at] >= k - 1]
            key[at] = key[at] * A ^ (number[at - k + 1].astype(np.uint64) + np.uint64(1)) * B
            place = find_keys(table, key[at])
            at, place = at[place >= 0], place[place >= 0]
            log10p[at], used[at] = with_minus(table["log10p"][place]), k
            if k < self.order:
                weights.append(np.zeros(N, np.float32))
                weights[-1][at] = table["log10bow"][place]
        for k, weight in enumerate(weights[: self.order - 1], 1):
            backing = np.flatnonzero((used <= k) & (before > 0))
            log10p[backing] += weight[backing - 1]
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


def count_buckets(entries, multiplier):
    """The number of buckets of KenLM's hash table for so many entries."""
    return max(entries + 1, int(np.float32(multiplier) * np.float32(entries)))


def with_minus(log10p):
    return -np.abs(log10p)


def find_keys(table, keys):
    """Find keys (N,) in a table: their places (N,), -1 for keys that are not in the table."""
    place, places = (keys % np.uint64(len(table))).astype(np.int64), np.full(len(keys), -1)
    open_, turns = np.arange(len(keys)), 0
    while len(open_) and turns < len(table):
        keys_here = table["key"][place[open_]]
        hit = keys_here == keys[open_]
        places[open_[hit]] = place[open_[hit]]
        open_ = open_[~hit & (keys_here != 0)]
        place[open_] = (place[open_] + 1) % len(table)
        turns += 1
    return places
