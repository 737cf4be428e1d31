"""Bitext: two texts whose lines are translations of each other, as ids."""

from collections import Counter
from dataclasses import dataclass
from itertools import chain, zip_longest

import numpy as np

from lmtk.errors import FormatError, LmtkError, counted, name_of
from lmtk.files.decoding import blocks, lines, split_lines
from lmtk.text.corpus import TOKEN, Closed, by_count
from lmtk.text.vocab import EOS, SOS, lower, make_vocab

UNKNOWN = b"[UNK]"  # the paper's name for a word outside the shortlist


@dataclass(frozen=True)
class Bitext:
    """Pairs of sentences, each an array of ids, (T,) int32, that ends with </s>. left_out: the number of pairs that
    were left out.
    """

    source: list
    target: list
    left_out: int


def read_line_pairs(source, target):
    """Yields the lines of two texts in pairs. Raises FormatError, at the end, if one text has more lines."""
    a = b = (0, b"")
    for x, y in zip_longest(split_lines(blocks(source)), split_lines(blocks(target))):
        a, b = x or a, y or b
        if x and y:
            yield x[1], y[1]
    check_lines(source, target, a[0], b[0])


def check_lines(source, target, lines, target_lines):
    """Raises FormatError if the two sides of a bitext have different numbers of lines."""
    if lines != target_lines:
        (fewer, shorter), (more, longer) = sorted(((lines, source), (target_lines, target)), key=lambda side: side[0])
        message = f"{counted(fewer, 'line')}, but {name_of(longer)} has {more}"
        raise FormatError(shorter, f"{message}; line n of one file must be the translation of line n of the other")


def read_pairs(source, target, tolower=False):
    """The lines of two texts as pairs of token lists. Raises FormatError if one has more lines, or no word."""
    rows = [
        [TOKEN.findall(lower(line) if tolower else line) for line in pair] for pair in read_line_pairs(source, target)
    ]
    for i, path in enumerate((source, target)):
        if not any(row[i] for row in rows):
            raise FormatError(path, "no words in it; is it the right file?")
    return rows


def read_dictionary(path):
    """{word: translation} from a text of "WORD TRANSLATION" lines; a word's first line counts. Raises FormatError."""
    out = {}
    for number, line in lines(path):
        word, *translation = TOKEN.findall(line) or [None]
        if word and not translation:
            raise FormatError(path, "expected a word and its translation, found one word", number)
        if word:
            out.setdefault(word, b" ".join(translation))
    if not out:
        raise FormatError(path, "no words in it; expected lines with a word and its translation")
    return out


def make_shortlist(rows, size, source):
    """The Vocab of the `size` most frequent words (None: all) in lists of words, and [UNK]. Words are in the order of
    their counts, words of equal count in byte order. source: the file of the words, for the error. Raises LmtkError if
    the lists have no words.
    """
    counts = Counter(chain.from_iterable(rows))
    return make_vocab(by_count(counts, counts)[:size], True, True, UNKNOWN, source)


def word_index(vocab):
    """A Closed index of the words that a sentence may hold; <s> and </s> in a text are unknown words."""
    marks = {SOS, EOS}
    return Closed({w: i for w, i in vocab.index.items() if w not in marks}, vocab.unk_id)


def ids_with_eos(words, index, eos):
    """The ids (n + 1,) int32 of words by an index, followed by `eos`, the id of </s>."""
    ids = np.fromiter(map(index.__getitem__, words), np.int32, len(words))
    return np.append(ids, np.int32(eos))


def bitext(pairs, source, target, longest=None):
    """The Bitext of pairs of token lists over two vocabularies. Pairs with an empty side, or a side of more than
    `longest` tokens, are left out. Raises LmtkError if no pair is left.
    """
    kept = [p for p in pairs if p[0] and p[1] and (longest is None or max(map(len, p)) <= longest)]
    if not kept:
        raise LmtkError("no pair of sentences is left; is every line blank or longer than -max-length?")
    sides = []
    for i, vocab in enumerate((source, target)):
        index = word_index(vocab)
        sides.append([ids_with_eos(p[i], index, vocab.eos_id) for p in kept])
    return Bitext(*sides, len(pairs) - len(kept))
