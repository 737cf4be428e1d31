"""Text as ids: bytes -> tokens -> ids -> sentences.

A token is a run of bytes other than space, tab, CR and LF: nothing else splits.
"""

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from lmtk.errors import LmtkError
from lmtk.files.streams import blocks
from lmtk.text.vocab import EOS, SOS, lower

TOKEN = re.compile(rb"[^ \t\r\n]+|\n")
NEWLINE = -1


class Growing(dict):
    """Word -> id, <s> being 0 and </s> 1; a new word gets the next id."""

    def __init__(self):
        super().__init__({b"\n": NEWLINE, SOS: 0, EOS: 1})

    def __missing__(self, word):
        self[word] = i = len(self) - 1
        return i

    def words(self):
        return list(self)[1:]


@dataclass(frozen=True)
class Corpus:
    """Sentences of ids, end to end.

    ids: (N,) int32, with the ids of <s> and </s> where the sentences have them.
    starts: (S + 1,) int64, where each sentence starts; the last is N.
    scored: (N,) bool, False where a token is only context: <s>, and what -stream carries over from the block before.
    lines: the sentences as they were read (where asked for), else None.
    blank: the number of blank lines passed over.
    stream: whether this is a piece of one running text, and no sentences.
    """

    ids: np.ndarray
    starts: np.ndarray
    scored: np.ndarray
    lines: list | None = None
    blank: int = 0
    stream: bool = False


@dataclass(frozen=True)
class Marks:
    """How lines become sentences: with <s> or not, with </s> or not, or all lines one stream without either."""

    sos: bool = True
    eos: bool = True
    stream: bool = False

    @classmethod
    def of(cls, no_sos, no_eos, stream):
        return cls(not (no_sos or stream), not (no_eos or stream), stream)


def tokens(block, tolower=False):
    """The tokens of a block of whole lines, with b"\\n" after each line."""
    if tolower:
        block = lower(block)
    found = TOKEN.findall(block)
    if found and found[-1] != b"\n":
        found.append(b"\n")
    return found


def count_words(paths, tolower=False):
    """Word -> number of times it stands in the texts."""
    counts = Counter()
    for path in paths:
        for block in blocks(path):
            counts.update(tokens(block, tolower))
    counts.pop(b"\n", None)
    return counts


def with_marks(ids, marks, sos, eos):
    """Lines of ids, each followed by NEWLINE -> (ids with <s> and </s>, starts, number of blank lines).

    Marks that a line has already are not doubled.
    """
    ends = np.flatnonzero(ids == NEWLINE)
    begins = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
    kept = ends > begins
    blank = len(ends) - int(kept.sum())
    begins, ends = begins[kept], ends[kept]
    ids = ids[ids != NEWLINE]
    length = ends - begins
    old = np.concatenate(([0], np.cumsum(length)))
    if marks.stream:
        return ids, np.array([0, len(ids)]), blank
    first, last = old[:-1], old[1:] - 1
    add_sos = (ids[first] != sos) & marks.sos
    add_eos = (ids[last] != eos) & marks.eos
    starts = np.concatenate(([0], np.cumsum(length + add_sos + add_eos)))
    out = np.empty(starts[-1], np.int32)
    out[np.arange(len(ids)) + np.repeat(starts[:-1] + add_sos - first, length)] = ids
    out[starts[:-1][add_sos]] = sos
    out[starts[1:][add_eos] - 1] = eos
    return out, starts, blank


def read_ids(path, index, marks, tolower=False):
    """A whole text as (ids, starts, blank): `index` maps a word to its id (a Growing one takes new words).

    The ids of <s> and </s> are the index's; -1 must not be among its values.
    """
    found = [np.zeros(0, np.int32)]
    for block in blocks(path):
        words = tokens(block, tolower)
        found.append(np.fromiter(map(index.__getitem__, words), np.int32, len(words)))
    return with_marks(np.concatenate(found), marks, index[SOS], index[EOS])


class Closed(dict):
    """Word -> id of a fixed vocabulary; a word that is not in it has the id `unk`."""

    def __init__(self, index, unk):
        super().__init__(index)
        self[b"\n"] = NEWLINE
        self.unk = unk

    def __missing__(self, word):
        return self.unk


def read_corpus(path, vocab, marks, order=1, keep_lines=False, tolower=False):
    """The text of `path` as a series of Corpus blocks of whole sentences.

    With marks.stream each block starts with the `order` - 1 last tokens of the block before, not scored again.
    """
    index = Closed(vocab.index, vocab.unk_id)
    sos, eos = index[SOS], index[EOS]
    carried = np.zeros(0, np.int32)
    for block in blocks(path):
        words = tokens(block, tolower)
        ids = np.fromiter(map(index.__getitem__, words), np.int32, len(words))
        ids, starts, blank = with_marks(ids, marks, sos, eos)
        lines = None
        if keep_lines and not marks.stream:
            lines = [b" ".join(found) for row in block.split(b"\n") if (found := TOKEN.findall(row))]
        scored = np.ones(len(ids), bool)
        if marks.stream:
            ids = np.concatenate((carried, ids))
            scored = np.arange(len(ids)) >= len(carried)
            starts = np.array([0, len(ids)])
            carried = ids[len(ids) - min(order - 1, len(ids)) :]
        else:
            opening = starts[:-1][ids[starts[:-1]] == sos]
            scored[opening] = False
        if len(ids) or blank:
            yield Corpus(ids, starts, scored, lines, blank, marks.stream)


def whole_corpus(path, vocab, marks, tolower=False):
    """The whole text of `path` as one Corpus. Raises LmtkError where it holds no words."""
    ids, starts, blank = read_ids(path, Closed(vocab.index, vocab.unk_id), marks, tolower)
    scored = np.ones(len(ids), bool)
    if not len(ids):
        raise LmtkError(f"{'stdin' if path == '-' else path}: no words in it; is it the right file?")
    if not marks.stream:
        scored[starts[:-1][ids[starts[:-1]] == vocab.sos_id]] = False
    return Corpus(ids, starts, scored, None, blank)


def contexts(corpus, n):
    """(N, n - 1) int32: row t holds w_(t-1), w_(t-2) .. w_(t-n+1), as x does in equation 1; -1 before the sentence."""
    ids, starts = corpus.ids, corpus.starts
    out = np.full((len(ids), n - 1), -1, np.int32)
    distance = np.arange(len(ids)) - np.repeat(starts[:-1], np.diff(starts))
    for k in range(1, n):
        out[k:, k - 1] = ids[:-k] if k < len(ids) else ids[:0]
        out[distance < k, k - 1] = -1
    return out


def sentences(rows):
    """A Corpus of K sentences of L ids, of which only the last is scored: rows (K, L)."""
    K, L = rows.shape
    scored = np.zeros((K, L), bool)
    scored[:, -1] = True
    return Corpus(rows.astype(np.int32).ravel(), np.arange(K + 1) * L, scored.ravel())
