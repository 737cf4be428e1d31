"""From text to ids: bytes -> tokens -> ids -> sentences.

`ids_of` reads the ids of a text by an index of its words, `Growing` or `Closed`, in threads if the text is large.
`with_marks` adds <s> and </s> to each line, and `corpora` makes a Corpus of each block of a text. `contexts` gives the
words before each token.

A token is a run of bytes other than space, tab, CR and LF; no other character separates tokens.
"""

import re
from collections import Counter, deque
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count, cycle

import numpy as np

from lmtk.errors import FormatError, LmtkError
from lmtk.files.decoding import blocks
from lmtk.files.words import Words
from lmtk.machine.large import pays
from lmtk.machine.threads import Scratch, thread_count
from lmtk.text.kernels import NEWLINE, look_up, move_words, renumber
from lmtk.text.vocab import EOS, SOS, lower

TOKEN = re.compile(rb"[^ \t\r\n]+|\n")
TOGETHER = 1 << 18  # ids that get their sentence marks at once
WORD_BYTES = 300  # of memory that a word takes in an index and its tables


class Growing(dict):
    """Word -> id; the words of `first` have the ids from 0 on, and a new word gets the next id. lines: texts with the
    last n_lines words, a line each. They become entries of the dict when a word without an entry is looked up. Until
    then, only `words`, `clear` and `len` take them into account.
    """

    def __init__(self, first=(SOS, EOS)):
        super().__init__({b"\n": NEWLINE})
        self.lines, self.n_lines = [], 0
        for word in first:
            self[word]

    def __missing__(self, word):
        if lines := self.lines:
            self.lines, self.n_lines = [], 0
            self.update(zip(Words(b"".join(lines)), count(len(self) - 1)))
            return self[word]
        self[word] = i = len(self) - 1
        return i

    def __len__(self):
        return super().__len__() + self.n_lines

    def add(self, lines):
        """Gives the next ids to new words, a line each, in their order."""
        self.lines.append(lines)
        self.n_lines += lines.count(b"\n")

    def clear(self):
        super().clear()
        self.lines, self.n_lines = [], 0

    def words(self):
        """The words in the order of their ids, a list; after `add`, Words."""
        words = list(self)[1:]
        return Words(b"".join((Words.join(words).text, *self.lines))) if self.lines else words


@dataclass(frozen=True)
class Corpus:
    """Sentences of ids, end to end.

    ids: (N,) int32, including the ids of <s> and </s> if the sentences have them.
    starts: (S + 1,) int64, where each sentence starts; the last is N.
    scored: (N,) bool, False where a token is only context: <s>, and tokens repeated from the Corpus before.
    lines: the sentences as they were read, if asked for, else None.
    blank: the number of blank lines passed over.
    goes_on: whether the last sentence goes on in the next Corpus.
    times: (S,) how often each sentence counts in a report, else None.
    """

    ids: np.ndarray
    starts: np.ndarray
    scored: np.ndarray
    lines: list | None = None
    blank: int = 0
    goes_on: bool = False
    times: np.ndarray | None = None

    def is_large(self, job):
        """Whether kernels pay for a job on all tokens, as in `large.pays`."""
        return pays("ngrams", len(self.ids), job)

    @cached_property
    def fresh(self):
        """(N,) bool: which tokens begin a sentence, and so have no context."""
        fresh = np.zeros(len(self.ids) + 1, bool)
        fresh[self.starts] = True
        return fresh[:-1]


@dataclass(frozen=True)
class Marks:
    """How lines become sentences. sos, eos: with <s>, with </s>. stream: all lines are one running text without marks.
    blank: blank lines are sentences without words, as in KenLM. tolower: words are put in lower case. reverse: a line
    is read from its last word to its first. open_end: a last line without a line end has no </s>. skip_symbols: <s>,
    </s> and <unk> in a text are left out; only `ngram.counting.collection` does so.
    """

    sos: bool = True
    eos: bool = True
    stream: bool = False
    blank: bool = False
    tolower: bool = False
    reverse: bool = False
    open_end: bool = False
    skip_symbols: bool = False

    @classmethod
    def from_options(cls, no_sos, no_eos, stream=False, tolower=False, reverse=False):
        return cls(not (no_sos or stream), not (no_eos or stream), stream, tolower=tolower, reverse=reverse)


def tokens(block, tolower=False):
    """The tokens of a block of text: a list of bytes, with b"\\n" for each newline."""
    return TOKEN.findall(lower(block) if tolower else block)


class Closed(dict):
    """Word -> id in a fixed vocabulary; words that are not in it have the id `unk`. table: the Table of these words, or
    None. vocab: the Vocab whose words are still to be put in, or None.
    """

    table = vocab = None

    def __init__(self, index, unk):
        super().__init__(index)
        self[b"\n"] = NEWLINE
        self.unk = unk

    @classmethod
    def of_vocab(cls, vocab):
        """Word -> id in a Vocab. A large vocabulary has a table; its index is made when the first word is looked up."""
        if "table" not in vars(vocab):
            return cls(vocab.index, vocab.unk_id)
        closed = cls({vocab.unk: vocab.unk_id, SOS: vocab.sos_id, EOS: vocab.eos_id}, vocab.unk_id)
        closed.table, closed.vocab = vocab.table, vocab
        return closed

    def __missing__(self, word):
        if vocab := self.vocab:
            self.update(vocab.index)
            self.vocab = None
            return self[word]
        return self.unk


class Reader:
    """Reads the ids of the blocks of a text by an index of words, Growing or Closed.

    It reads in Python until the first large block, and from then on by the kernel. `finish` gives the new words to a
    Growing index. Call `finish` after the last block; it may be called after any other block too. job: as for `pays`.
    """

    def __init__(self, index, tolower=False, job="look-up"):
        self.index, self.tolower, self.job = index, tolower, job
        self.table = index.table if isinstance(index, Closed) else None

    def is_large(self, block):
        """Whether kernels read a block: a large one, or one that comes after a large one."""
        return self.table is not None or pays("text", len(block), self.job)

    def ids(self, block):
        """(n,) int32: the ids of `tokens(block)`."""
        return self.reading(block)(block)

    def reading(self, block):
        """The function that gives the ids of a block. If the index is Closed, several threads may call it."""
        if self.table is None and self.is_large(block):
            self.table = Table.of_index(self.index)
        return self.ids_in_python if self.table is None else self.ids_by_table

    def ids_in_python(self, block):
        words = tokens(block, self.tolower)
        return np.fromiter(map(self.index.__getitem__, words), np.int32, len(words))

    def ids_by_table(self, block):
        return self.table.ids(lower(block) if self.tolower else block)

    def finish(self):
        if self.table and not self.table.closed:
            for word in self.table.words(self.table.n_initial):
                self.index[word]


def ids_of(blocks, index, tolower=False):
    """Yields the ids (n,) int32 of each block of a text, as `Reader.ids` does. Threads read large blocks, each
    with a table of its own. Words that are new to a table get their ids from the index in the order of the blocks, so
    that the ids do not depend on the threads.
    """
    blocks = iter(blocks)
    first = next(blocks, b"")
    if not first:
        return
    reader = Reader(index, tolower)
    if thread_count() == 1 or not reader.is_large(first):
        yield from map(reader.ids, chain([first], blocks))
        reader.finish()
        return
    from concurrent.futures import ThreadPoolExecutor

    shared = Table.of_index(index)  # the words of all threads
    tables = [shared if shared.closed else Table.of_index(index) for _ in range(thread_count())]
    # for each table, the id of each of its words, and NEWLINE at the end, for a line's end
    numbers = [np.append(np.arange(len(index) - 1), NEWLINE)] * len(tables)

    def look_up(table, block):
        """(the numbers of the words of a block in a table; the words that are new to this table, a line each)."""
        n_letters = table.n_letters
        return table.ids(lower(block) if tolower else block), table.text(n_letters)

    def numbered(t, future):
        """The ids of the words of a block that `look_up` has read by table t."""
        ids, new = future.result()
        if shared.closed:
            return ids
        n_letters, new_ids = shared.n_letters, shared.ids(new)
        index.add(shared.text(n_letters))
        numbers[t] = np.concatenate((numbers[t][:-1], new_ids[new_ids != NEWLINE], [NEWLINE])).astype(np.int32)
        renumber(ids, numbers[t], ids)
        return ids

    with ExitStack() as stack:
        pools, coming = [stack.enter_context(ThreadPoolExecutor(1)) for _ in tables], deque()
        for block, t in zip(chain([first], blocks), cycle(range(len(tables)))):
            coming.append((t, pools[t].submit(look_up, tables[t], block)))
            if len(coming) > len(tables):
                yield numbered(*coming.popleft())
        while coming:
            yield numbered(*coming.popleft())


class Table:
    """Words and their ids in the arrays of `kernels.look_up`. In an open table, the new words of texts are added."""

    def __init__(self, words, ids, unk=0, next_id=-1):
        """words, ids: of equal length. A word of a text that is not in the table has the id `unk`; but if `next_id` is
        not negative, the table is open, and new words have the ids from `next_id` on.
        """
        self.unk, self.next_id, self.closed, self.scratch = unk, next_id, next_id < 0, Scratch()
        lines = Words.join(words)
        text = lines.text
        if lines.gaps or len(lines) != len(words):  # words that no text can have are left out
            tokens = [(w, i) for w, i in zip(words, ids) if TOKEN.fullmatch(w) and w != b"\n"]
            text, ids = b"".join(w + b"\n" for w, _ in tokens), [i for _, i in tokens]
        spare = 1 if self.closed else 2
        self.slots = free_slots(spare * len(ids))
        self.letters, self.n_words, self.n_letters = np.empty(max(spare * len(text), 1 << 16), np.uint8), 0, 0
        self.look_up(np.frombuffer(text, np.uint8), 0, 0, np.empty(2 * text.count(b"\n"), np.int32))
        ids = np.asarray(ids, np.int32)
        if (ids != np.arange(len(ids))).any():  # `look_up` has numbered the words from 0 on
            filled = np.flatnonzero(self.slots[:, 0])
            number = self.slots[filled, 1] & np.uint64((1 << 32) - 1)
            self.slots[filled, 1] += ids.view(np.uint32)[number] - number
        self.n_initial = self.n_letters

    @classmethod
    def of_index(cls, index):
        """The Table of an index: its own, if it is Closed and has one."""
        if isinstance(index, Growing):
            words = index.words()
            return cls(words, np.arange(len(words)), next_id=len(words))
        if index.table:
            return index.table
        ids = {word: i for word, i in index.items() if word != b"\n"}  # the end of a line is not a word
        return cls([*ids], [*ids.values()], index.unk)

    def look_up(self, text, start, new_id, ids):
        filled = self.n_words, self.n_letters
        start, n_ids, *filled = look_up(text, start, self.arrays(), filled, new_id, self.unk, ids)
        self.n_words, self.n_letters = filled
        return start, n_ids

    def arrays(self):
        return self.slots, self.letters

    def grow(self):
        if len(self.letters) > 1 << 31:
            raise LmtkError("the words of the vocabulary take more than 2 GB; limit it with -vocab")
        old, self.slots = self.slots, free_slots(len(self.slots))
        move_words(old, self.slots)
        self.letters = np.concatenate((self.letters, np.empty_like(self.letters)))

    def text(self, begin=0):
        """The words whose letters are at `begin` or later, a line each."""
        return self.letters[begin : self.n_letters].tobytes()

    def words(self, begin=0):
        return self.text(begin).split(b"\n")[:-1]

    def ids(self, block):
        """The ids of a block of text. If the index is Closed, several threads may call this function."""
        text, parts, start = np.frombuffer(block, np.uint8), [], 0
        with self.scratch.lent() as room:
            ids = room("ids", len(text), np.int32)
            while start < len(text):
                before = self.n_words
                start, n_ids = self.look_up(text, start, self.next_id, ids)
                parts.append(ids[:n_ids].copy())
                self.next_id += (self.n_words - before) if not self.closed else 0
                if start < len(text):
                    self.grow()
        return np.concatenate(parts or [np.zeros(0, np.int32)])

    def ids_of_words(self, words):
        """(N,) int32: the ids of words. None of them may be empty or have a blank in it."""
        return self.ids(Words.join(words).text)[::2]  # every second id is of a line's end


def free_slots(words):
    """Free slots, as in `kernels`, for at least so many words."""
    return np.zeros((2 << max(12, (words - 1).bit_length()), 2), np.uint64)


def count_words(paths, tolower=False):
    """A Counter: word -> how often it occurs in the texts. Words are in the order in which they were first seen."""
    index, counts = Growing(()), np.zeros(0, np.int64)
    for path in paths:
        for ids in ids_of(blocks(path, pieces=True), index, tolower):
            more = np.bincount(ids[ids != NEWLINE], minlength=len(counts))
            more[: len(counts)] += counts
            counts = more
    return Counter(dict(zip(index.words(), counts.tolist())))


def by_count(words, counts):
    """`words`, the most frequent first, words of equal count in byte order. A word that `counts` lacks has count 0."""
    return sorted(words, key=lambda word: (-counts.get(word, 0), word))


def with_marks(ids, marks, sos, eos, before=NEWLINE):
    """Ids of a text, with NEWLINE for each newline -> (ids with <s> and </s>, ends (S,), the number of blank lines).

    Sentence i is ids[ends[i - 1] : ends[i]]. Any ids after ends[-1] belong to a sentence that goes on in the next ids
    of the text. The first sentence may have begun in earlier ids; `before` is the last of the earlier ids. Marks that a
    line already has are not doubled. sos, eos: the ids of the marks.
    """
    if len(ids) > TOGETHER and not marks.reverse:  # in parts, so that memory does not grow with the number of lines
        parts = sentences_of(np.split(ids, range(TOGETHER, len(ids), TOGETHER)), marks, sos, eos, before)
        marked, ends, blank = zip(*parts)
        begins = np.cumsum([0, *map(len, marked[:-1])])
        return np.concatenate(marked), np.concatenate([x + begin for x, begin in zip(ends, begins)]), sum(blank)
    ends = np.flatnonzero(ids == NEWLINE)
    begins = np.append(0, ends + 1)[: len(ends)]
    # whether the first sentence began in earlier ids, and whether the last one goes on in later ids
    continues, goes_on = before != NEWLINE, bool(len(ids)) and bool(ids[-1] != NEWLINE)
    if goes_on:
        begins, ends = np.append(begins, ends[-1] + 1 if len(ends) else 0), np.append(ends, len(ids))
    is_blank = ends == begins
    is_blank[:1] &= not continues
    kept = ~is_blank | marks.blank
    blank = int((~kept).sum())
    length, is_blank = (ends - begins)[kept], is_blank[kept]
    ids = ids[ids != NEWLINE]
    if marks.stream:
        return ids, np.zeros(0, np.int64), blank
    old = np.append(0, np.cumsum(length))  # where the sentences begin in `ids`, and where the last one ends
    if marks.reverse:
        ids = ids[np.repeat(old[:-1] + old[1:] - 1, length) - np.arange(len(ids))]
    # the first and the last id of each sentence; if only the end of its line is here, the last id is `before`
    first, last = np.append(ids, before)[old[:-1]], np.append(before, ids)[old[1:]]
    add_sos, add_eos = (is_blank | (first != sos)) & marks.sos, (is_blank | (last != eos)) & marks.eos
    add_sos[:1] &= not continues
    add_eos[len(add_eos) - goes_on :] = False
    ends = np.cumsum(length + add_sos + add_eos)
    starts = np.append(0, ends)
    out = np.empty(starts[-1], np.int32)
    out[np.arange(len(ids)) + np.repeat(starts[:-1] + add_sos - old[:-1], length)] = ids
    out[starts[:-1][add_sos]] = sos
    out[ends[add_eos] - 1] = eos
    return out, ends[: len(ends) - goes_on], blank


def sentences_of(parts, marks, sos, eos, before=NEWLINE):
    """Yields `with_marks` of each part of the ids of a text, one after another."""
    for ids in parts:
        yield with_marks(ids, marks, sos, eos, before)
        before = ids[-1] if len(ids) else before


def read_ids(path, index, marks):
    """A whole text as (ids, starts (S + 1,), the number of blank lines), with marks as from `with_marks`. index:
    Growing or Closed, with <s> and </s>. No word, known or unknown, may have the id -1, which is NEWLINE.
    """
    parts, starts, blank, N = [np.zeros(0, np.int32)], [np.zeros(1, np.int64)], 0, 0
    unmarked = ids_of(blocks(path, pieces=not marks.reverse, as_is=marks.open_end), index, marks.tolower)
    for ids, ends, empty in sentences_of(unmarked, marks, index[SOS], index[EOS]):
        parts.append(ids)
        starts.append(N + ends)
        N += len(ids)
        blank += empty
    return np.concatenate(parts), np.array([0, N]) if marks.stream else np.concatenate(starts), blank


def except_openings(ids, starts, sos):
    """(N,) bool: True for all tokens except an <s> that opens a sentence."""
    scored, first = np.ones(len(ids), bool), starts[:-1][np.diff(starts) > 0]
    scored[first[ids[first] == sos]] = False
    return scored


def read_corpus(path, vocab, marks, order=1):
    """Yields the text in `path` as `corpora` does; words outside the vocabulary are <unk>."""
    return corpora(blocks(path, pieces=not marks.reverse, as_is=marks.open_end), vocab, marks, order)


def corpora(blocks, vocab, marks, order=1, keep_lines=False, index=None):
    """Yields a Corpus for each block of a text: whole sentences, or a piece of a long one or of a running text.

    A Corpus that continues a sentence starts with the last `order` - 1 tokens of that sentence, which are not scored
    again. keep_lines: the blocks must have whole lines. index: a Growing index, which has the words of a block when its
    Corpus is yielded; without it, words outside the vocabulary are <unk>.
    """
    index = Closed.of_vocab(vocab) if index is None else index
    sos, eos = index[SOS], index[EOS]
    reader = Reader(index, marks.tolower)
    before, context = NEWLINE, np.zeros(0, np.int32)  # context: the last tokens of a sentence that goes on
    for block in blocks:
        unmarked = reader.ids(block)
        ids, ends, blank = with_marks(unmarked, marks, sos, eos, before)
        reader.finish()
        before = unmarked[-1] if len(unmarked) else before
        lines = None
        if keep_lines and not marks.stream:
            rows = block.removesuffix(b"\n").split(b"\n")
            lines = [b" ".join(words) for row in rows if (words := TOKEN.findall(row)) or marks.blank]
        goes_on = marks.stream or bool(before != NEWLINE)
        ids, ends = np.concatenate((context, ids)), ends + len(context)
        starts = np.concatenate(([0], ends, [len(ids)] * goes_on)).astype(np.int64)
        scored = np.ones(len(ids), bool) if marks.stream else except_openings(ids, starts, sos)
        scored[: len(context)] = False
        if len(ids) or blank:
            yield Corpus(ids, starts, scored, lines, blank, goes_on)
        context = ids[max(len(ids) - order + 1, starts[-2]) :] if goes_on else ids[:0]


def whole_corpus(path, vocab, marks):
    """The whole text of `path` as one Corpus. Raises FormatError if it has no words."""
    ids, starts, blank = read_ids(path, Closed.of_vocab(vocab), marks)
    if not len(ids):
        raise FormatError(path, "no words in it; is it the right file?")
    scored = np.ones(len(ids), bool) if marks.stream else except_openings(ids, starts, vocab.sos_id)
    return Corpus(ids, starts, scored, None, blank)


def join(corpora):
    """Corpora as one Corpus."""
    starts = np.cumsum(np.concatenate([[0], *(np.diff(corpus.starts) for corpus in corpora)]))
    ids, scored = (np.concatenate(parts) for parts in zip(*((corpus.ids, corpus.scored) for corpus in corpora)))
    return Corpus(ids, starts, scored)


def contexts(corpus, n):
    """(N, n - 1) int32: row t is w_(t-1), w_(t-2) .. w_(t-n+1), in the order of x in equation 1 of Bengio et al. 2003;
    -1 before the sentence.
    """
    ids, starts = corpus.ids, corpus.starts
    out = np.full((len(ids), n - 1), -1, np.int32)
    distance = np.arange(len(ids)) - np.repeat(starts[:-1], np.diff(starts))
    for k in range(1, n):
        out[k:, k - 1] = ids[:-k] if k < len(ids) else ids[:0]
        out[distance < k, k - 1] = -1
    return out


def sentences(rows):
    """The Corpus of K sentences of L ids, rows (K, L); only the last token of each is scored."""
    K, L = rows.shape
    scored = np.zeros((K, L), bool)
    scored[:, -1] = True
    return Corpus(rows.astype(np.int32).ravel(), np.arange(K + 1) * L, scored.ravel())
