"""Reads texts and count files, and adds up their counts.

`collect` takes Sources. It reads the texts in blocks, numbers their words, and counts their n-grams and the lines of
count files and weighted texts. The result is Counts in memory, or `runs.Spilled` on disk. To estimate a model from a
large text, counts are not needed: `collect` then returns a Text, the ids of the text in memory or on disk.
"""

import re
import warnings
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress, groupby, pairwise
from operator import itemgetter

import numpy as np

from lmtk.errors import FormatError, LmtkError, LmtkWarning, shown
from lmtk.files.column import Column, Shelf
from lmtk.files.decoding import BLOCK
from lmtk.files.decoding import blocks as blocks_of
from lmtk.files.words import Words
from lmtk.machine.large import pays
from lmtk.machine.parallel import ALONE
from lmtk.machine.threads import thread_count
from lmtk.ngram.counting.counts import Counts, count_ids, from_rows, parse_counts, row_parts, to_rows
from lmtk.ngram.counting.runs import WRITE_BYTES, Lines, Spilled, line_runs, merged, spilled, text_runs, tokens_in
from lmtk.text.corpus import TOKEN, WORD_BYTES, Closed, Growing, Marks, Reader, Table, ids_of, sentences_of, with_marks
from lmtk.text.kernels import NEWLINE, renumber
from lmtk.text.vocab import EOS, SOS, UNK

SENTENCES = Marks()
TOLD = 64 << 20  # bytes; a job that takes less memory causes no warning
MODEL_BYTES = 100  # bytes of memory that a counted n-gram takes when a model is estimated
LEAST = 64 << 20  # bytes of -memory besides the words
SMALL_BLOCK = 2 << 20  # bytes of a text that are read together if memory is bounded
PARTS = 64  # of the hashes of words on disk; one part is in memory at once
OUTSIDE = -2  # the id of a word whose n-grams are dropped
# the weight of a line is its first word, or its last
FIRST = re.compile(rb"[ \t\r]*(?P<weight>[^ \t\r]*)[ \t\r]*(?P<words>.*?)[ \t\r]*$", re.S)
LAST = re.compile(rb"[ \t\r]*(?P<words>.*?)[ \t\r]*(?P<weight>[^ \t\r]*)[ \t\r]*$", re.S)


class Blocks:
    """The raw blocks of this rank's part of the texts, in memory or, with `spill`, on disk, for several passes. heads:
    (path, place, size, words known after it) of each block, after a first entry for the words known before the texts.
    """

    def __init__(self, raw, n_words, spill):
        self.shelf, self.heads = Shelf(spill), [(-1, -1, 0, n_words)]
        for path, place, ids in raw:
            n_words = max(n_words, int(ids.max(initial=-1)) + 1)
            self.shelf.add((path, place), ids)
            self.heads.append((path, place, len(ids), n_words))
        self.size = sum(size for _, _, size, _ in self.heads)

    def read(self, drop=False):
        """Yields (path, place, ids) of each block. drop: whether the memory of the blocks is given up."""
        read = self.shelf.take if drop else self.shelf.get
        for path, place, _, _ in self.heads[1:]:
            yield path, place, read((path, place), np.int32)


@dataclass(frozen=True)
class Text:
    """A large text whose n-grams are found by sorting positions. words: as in Counts. Of this rank's part: rank_words,
    the words of its ids; its Blocks; counts (1 + words,), of the border and of each word. is_in_memory: whether all
    positions are sorted at once.
    """

    words: Sequence
    rank_words: Sequence
    blocks: Blocks
    marks: Marks
    counts: np.ndarray
    is_in_memory: bool

    @property
    def tokens(self):
        return int(self.counts[1:].sum())

    def has(self, word):
        return any(n and w == word for w, n in zip(self.rank_words, self.counts[1:].tolist()))

    def replaced(self, words, new_id):
        """The Text with other words; new_id (W,): the new id of each old word."""
        new = dict(zip(self.words, new_id.tolist()))
        return replace(self, words=words, rank_words=[words[new[word]] for word in self.rank_words])

    def new_id(self, vocab):
        """(1 + words,) int32: the new id of each of the rank's words, and of the border, the last."""
        lines, W = Words.join(self.rank_words), len(vocab.words)
        ids = [vocab.index[w] for w in lines] if lines.gaps else Table(vocab.words, np.arange(W)).ids_of_words(lines)
        return np.append(ids, 0).astype(np.int32)

    def seen(self, vocab):
        """How often each id of a model's vocabulary occurs in this part, (W - 1,): without <s>; 0 is the border."""
        counts = np.bincount(np.roll(self.new_id(vocab), 1), self.counts, len(vocab.words))
        return counts[:-1].astype(np.int64)

    def parts(self, vocab):
        """Yields the words' ids in a model's vocabulary, int32; 0 is the border. Blocks in memory are given up."""
        new_id, blocks = self.new_id(vocab), self.blocks.read(drop=self.is_in_memory)
        for part in bordered(blocks, self.rank_words.index(SOS), self.rank_words.index(EOS), self.marks):
            ids = np.empty_like(part)
            renumber(part, new_id, ids)
            yield ids


class MarksInside(Exception):
    """Sentence marks occur inside a sentence, or the last sentence has no end."""


@dataclass(frozen=True)
class Sources:
    """What is counted, up to n-grams of `order`. texts; files: of counts; weighted: texts whose lines have weights, as
    weight_of, FIRST or LAST, finds them. words: a closed vocabulary. A word outside it counts as `unk`; with `limit`,
    its n-grams in count files are dropped. None: every word is taken. floats: whether counts and weights may be
    fractions. least: lines of count files with n-grams of order k and a count below least[k - 1] are skipped, and so
    are words that occur in such lines alone.
    """

    texts: Sequence
    files: Sequence
    order: int
    words: list | None = None
    marks: Marks = SENTENCES
    unk: bytes = UNK
    limit: bool = False
    floats: bool = False
    weighted: Sequence = ()
    weight_of: re.Pattern = FIRST
    least: Sequence = ()


class SourceReader:
    """Reads Sources. index: word -> id of every word so far; it grows. text_index, count_index: for the words of texts
    and of count files. memory: about how many bytes reading may take, or None.
    """

    def __init__(self, sources, memory):
        self.index = self.text_index = self.count_index = Growing((SOS, EOS, sources.unk, *(sources.words or ())))
        self.sources, self.memory, self.unk = sources, memory, self.index[sources.unk]
        if sources.words is not None:
            outside = OUTSIDE if sources.limit else self.unk
            self.text_index, self.count_index = Closed(self.index, self.unk), Closed(self.index, outside)
        self.n_initial = len(self.index) - 1  # the number of words before the texts are read
        self.used = set()  # the ids of the words of count files, if lines are skipped

    def blocks(self, path, **options):
        """Yields the blocks of a text or a count file. Raises LmtkError when the words of the index no longer fit into
        `memory`; the message says how much memory is enough.
        """
        blocks = blocks_of(path, SMALL_BLOCK if self.memory else BLOCK, **options)
        recent = deque(maxlen=2 * thread_count() + 2)
        for block in blocks:
            recent.append(block)  # the index may lack the words of these
            if self.memory and len(self.index) * WORD_BYTES > max(self.memory, LEAST):
                words = count_different(self.index, chain(recent, blocks))
                raise LmtkError(
                    f"-memory is too small: the vocabulary has {words} words; "
                    f"give {words * WORD_BYTES + LEAST >> 20}M or more, or limit the vocabulary by -vocab"
                )
            yield block

    def raw(self, comm):
        """Yields the blocks of this rank's part of the texts: (the number of the text, the place of the block in the
        text, the ids, with NEWLINE for each newline). One rank gets all blocks of a long line.
        """
        index, marks = self.text_index, self.sources.marks
        for path, name in enumerate(self.sources.texts):
            places = deque()  # of the blocks that were read, and whose ids still have to be yielded

            def rank_blocks(name=name, places=places):
                number = 0  # of the blocks before that end in a newline
                for place, block in enumerate(self.blocks(name, pieces=True, as_is=marks.open_end)):
                    if number % comm.size == comm.rank:
                        places.append(place)
                        yield block
                    number += block.endswith(b"\n")

            for ids in ids_of(rank_blocks(), index, marks.tolower):
                if marks.skip_symbols:
                    ids = ids[(ids != index[SOS]) & (ids != index[EOS]) & (ids != self.unk)]
                yield path, places.popleft(), ids

    def lines(self, memory):
        """The Lines of count files and weighted texts. memory: as for Lines."""
        sources, lines = self.sources, Lines(self.sources.floats, memory)
        for path in sources.files:
            reading = sources.order, sources.floats, sources.marks.tolower, self.blocks(path)
            for part in row_parts(path, self.count_index, *reading):
                lines.add({k: self.chosen(k, *part.pop(k)) for k in [*part]})  # frees it before the next is parsed
        for path in sources.weighted:
            for part in self.weighted_parts(path):
                lines.add(part)
        return lines

    def chosen(self, k, rows, counts):
        """Those n-grams of order k of a count file that are counted, with their counts; their words become `used`."""
        limit, least = self.sources.limit, self.sources.least
        if limit or least:
            kept = (rows >= 0).all(axis=1) & (counts >= (least[k - 1] if least else 0))
            rows, counts = rows[kept], counts[kept]
        if least:
            self.used.update(np.unique(rows).tolist())
        return rows, counts

    def weighted_parts(self, path):
        """Yields the n-grams of each block of a text whose lines have weights, as `counts.parse_rows` returns those of
        a count file. Raises FormatError.
        """
        sources, marks = self.sources, replace(self.sources.marks, blank=True)
        reader = Reader(self.text_index, marks.tolower)
        for sentences, times in weighted_lines(path, self.blocks(path), sources.floats, sources.weight_of):
            block = b"".join(sentence + b"\n" for sentence in sentences)
            ids, ends, _ = with_marks(reader.ids(block), marks, self.index[SOS], self.index[EOS])
            length = np.diff(ends, prepend=0)
            left = np.repeat(ends, length) - np.arange(len(ids))
            times = np.repeat(times, length)
            of_orders = ((k, np.flatnonzero(left >= k)) for k in range(1, sources.order + 1))
            yield {k: (ids[at[:, None] + np.arange(k)], times[at]) for k, at in of_orders}
        reader.finish()


def collect(sources, as_text=False, memory=None, comm=ALONE, replace_words=None):
    """The Counts of Sources, added up, as in SRILM's ngram-count. Their words are <s>, </s>, `unk`, those of the closed
    vocabulary, and others as first seen.

    memory: about how many bytes counting may take besides the result; the rest goes to disk. replace_words: words ->
    (new words, each old word's new id), to count these. Whole counts that do not fit into `memory` become runs.Spilled.

    With `as_text`, a large text without sentence marks inside sentences becomes a Text on each rank of `comm`, in
    memory if it fits and there is one rank. All else is counted by rank 0, in memory if there are others; these have
    no counts.
    """
    reader, raw, order = SourceReader(sources, memory), None, sources.order
    if as_text and not sources.files and not sources.weighted:
        raw = Blocks(reader.raw(comm), reader.n_initial, bool(memory) or comm.size > 1)
        text = text_of(raw, reader, comm)
        if text is not None:
            return text.replaced(*replace_words(text.words)) if replace_words else text
    if comm.size > 1:
        if comm.rank:
            return Counts([], [])
        counts = collect(sources, memory=memory, replace_words=replace_words)
        return in_memory(counts, memory) if isinstance(counts, Spilled) else counts
    lines = reader.lines(None if sources.floats else memory)
    ids, starts = read_texts(raw.read() if raw else reader.raw(ALONE), reader.index, sources.marks, memory)
    if len(ids):
        lines.order = order  # as many as the text has
    words, new_id = words_of(reader)
    if replace_words:
        words, replacing_id = replace_words(words)
        new_id = replacing_id[new_id]
    W, run, levels = len(words), None, None
    if memory and len(ids) > tokens_in(memory, order):
        run = merged(text_runs(ids, new_id, starts, order, W, memory), W, memory)
    else:
        levels = count_ids(new_id[ids], starts, order, W, len(ids))
    if lines.memory and lines.size > memory // WRITE_BYTES:
        run = (run or spilled(levels, 0)) if len(ids) else None
        run = merged(line_runs(lines, new_id, W, run), W, memory)
        lines = Lines()
    if run:
        counts = Spilled(run.column, run.ends, words, max(memory // WRITE_BYTES, 1))
        if not lines.size:
            return counts
        levels = counts.levels()
    if lines.size:
        columns = next(lines.pieces(new_id))  # so few lines are one piece
        if len(ids):
            of_text = to_rows(levels, W), [level.count for level in levels]
            columns = [[*map(np.concatenate, zip(*both))] for both in zip(columns, of_text)]
        levels = from_rows(*columns, W)
    return in_memory(Counts(words, levels), memory)


def words_of(reader):
    """(the words that are counted, the new id of each word of a SourceReader). Words that occur only in lines of count
    files that were skipped are not counted, and get the id 0.
    """
    words = [*reader.index.words()]
    is_counted = np.full(len(words), not reader.sources.least)
    is_counted[: reader.n_initial] = is_counted[[*reader.used]] = True
    return [*compress(words, is_counted)], np.where(is_counted, np.cumsum(is_counted) - 1, 0).astype(np.int32)


def common_words(raw, words, comm):
    """The words of all ranks, each once, in the order in which a single process would have met them. raw: the Blocks of
    this rank, which add its `words` one after another.
    """
    heads = pairwise([(0, 0, 0, 0), *raw.heads])
    new_words = [(path, place, words[begin:end]) for (*_, begin), (path, place, _, end) in heads]
    everywhere = sorted((block for part in comm.gather(new_words) for block in part), key=lambda block: block[:2])
    return list(dict.fromkeys(word for _, _, new in everywhere for word in new))


def text_of(raw, reader, comm):
    """The Text of Blocks; None if the text is small or empty, or if sentence marks occur inside sentences. Raises
    LmtkError for a text that is too large to be sorted at once.
    """
    index, marks, memory = reader.index, reader.sources.marks, reader.memory
    if not pays("ngrams", comm.sum(raw.size)):
        return None
    is_whole = comm.size == 1 and (not memory or memory >= whole_size(raw.size, len(index), reader.sources.order))
    counts, is_valid = np.zeros(len(index), np.int64), True
    try:
        for part in bordered(raw.read(), index[SOS], index[EOS], marks):
            counts += np.bincount(part + 1, minlength=len(counts))
    except MarksInside:
        is_valid = False
    number = int(counts.sum())
    if not comm.sum(number) or comm.sum(int(not is_valid)):
        return None
    if is_whole and number >= 1 << 31:
        raise LmtkError(f"the text has {number} words and sentence ends, too many for one sort; give -memory")
    words = index.words()
    all_words = common_words(raw, words, comm) if comm.size > 1 else words
    return Text(all_words, words, raw, marks, counts, is_whole)


def count_different(index, blocks):
    """The number of different words in an index, which is emptied, and in the blocks of a text. Words are told apart by
    their hashes, which are dealt to PARTS on disk.
    """
    shelf = Shelf()
    for words in chain([index.words()], ({*TOKEN.findall(block)} - {b"\n"} for block in blocks)):
        hashes = np.fromiter(map(hash, words), np.int64)
        index.clear()  # whose words come first
        shelf.deal(hashes, hashes % PARTS)
    return sum(len(np.unique(shelf.get((part,), np.int64))) for part in range(PARTS))


def weighted_lines(path, blocks, floats, weight_of=FIRST):
    """Yields (the sentences, a list; how often each counts) of the blocks of a text whose lines have weights. Blank
    lines are left out. Raises FormatError.
    """
    lines = 0
    for block in blocks:
        rows = [weight_of.match(line).group("weight", "words") for line in block.removesuffix(b"\n").split(b"\n")]
        times = parse_counts([weight for weight, _ in rows if weight], floats)
        if times is None:
            line = next(n for n, (weight, _) in enumerate(rows) if weight and parse_counts([weight], floats) is None)
            expected = "a number" if floats else "a whole number (-float-counts allows fractions)"
            message = f"expected the weight of the line, {expected}, found '{shown(rows[line][0])}'"
            raise FormatError(path, message, lines + line + 1)
        lines += len(rows)
        yield [sentence for weight, sentence in rows if weight], times


def in_memory(counts, memory):
    """Counts or runs.Spilled as Counts in memory. Warns if a model of them takes more than -memory allows."""
    if isinstance(counts, Spilled):
        counts = Counts(counts.words, counts.levels())
    size = MODEL_BYTES * sum(len(level.keys) for level in counts.levels)
    if memory and size > max(memory, TOLD):
        task = f"the counts and the model are made in memory, which takes about {size >> 20} MB, more than -memory"
        warnings.warn(task, LmtkWarning, stacklevel=1)
    return counts


def whole_size(tokens, words, order):
    """About how many bytes it takes to estimate the model of a text in memory."""
    return max(100, 9 * order) * tokens + WORD_BYTES * words


def read_texts(raw, index, marks, memory):
    """Puts sentence marks into raw blocks. Returns the ids (N,) and the starts (S + 1,) of the sentences."""
    ids, starts = Column(np.int32, memory), Column(np.int64, memory)
    starts.append(np.zeros(1, np.int64))
    for _, of_text in groupby(raw, itemgetter(0)):
        for more, ends, _ in sentences_of((block for _, _, block in of_text), marks, index[SOS], index[EOS]):
            starts.append(ids.size + ends)
            ids.append(more)
        starts.append(np.array([ids.size]))  # the last sentence may lack its newline; an empty sentence does no harm
    return ids.array(), starts.array()


def bordered(raw, sos, eos, marks):
    """Yields the ids of each raw block with a border, -1, after each sentence in place of its marks. Raises
    MarksInside, also if the last line of a text lacks its newline.
    """
    for _, of_text in groupby(raw, itemgetter(0)):
        before = NEWLINE
        for _, _, block in of_text:
            ends, is_mark = block == NEWLINE, (block == sos) | (block == eos)
            is_first = np.append(before == NEWLINE, ends)[:-1]
            before = block[-1] if len(block) else before
            dropped = ends if marks.stream else ends & is_first & (not marks.blank)
            if is_mark.any():
                around = (block == sos) & is_first | (block == eos) & np.append(ends[1:], False)
                if not (marks.sos and marks.eos) or (is_mark & ~around).any():
                    raise MarksInside
                dropped |= around
            yield block[~dropped] if dropped.any() else block
        if before != NEWLINE:
            raise MarksInside
        if marks.stream:
            yield np.array([NEWLINE], np.int32)
