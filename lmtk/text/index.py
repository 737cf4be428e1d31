"""Phrases in a corpus: how often each occurs, in how many documents, and how probable its last word is.

An Index is the corpus as ids and the order of its suffixes, the suffix array (Manber and Myers 1993). All places of a
phrase are next to each other in this order, so two binary searches count them. `make_index` makes an Index of texts,
`write` and `from_arrays` are its file, and `count_phrases` counts. `searching` has the kernels.

symbol     shape     meaning
N T D W    -         words of the corpus; words and ends of documents (N + D); documents; distinct words
text       (T, a)    the ids of the corpus, from 1 on, and 0, the border, after each document
order      (N, b)    the places of words in the text, sorted by the words from there to the border
documents  (D, b)    where each document begins
a, b       -         bytes of a number, the least that suffice: the numbers are split into bytes, the lowest first
"""

from dataclasses import dataclass

import numpy as np

from lmtk.errors import FormatError, LmtkError, name_of
from lmtk.files import container
from lmtk.files.declared import DIGEST, Array, check_contents, one_of, optional
from lmtk.files.decoding import blocks
from lmtk.files.inputs import open_in
from lmtk.machine.threads import map_at_once, parts_of
from lmtk.text.corpus import NEWLINE, Growing, ids_of
from lmtk.text.searching import count_all, find_heads
from lmtk.text.sorting import sorted_places

BORDER = 0
FIRST = 5  # words by which all places are sorted
# what a document is
DOCUMENTS = {"lines": "a line", "paragraphs": "a paragraph", "files": "a file", "records": "a JSON object or a row"}
SETTINGS = {"documents": one_of(*DOCUMENTS), "tolower": one_of(True, False), "tokenizer": optional(DIGEST)}
MOST = 3_000_000_000  # places of a text, whose square fits into 64 bits
PART = 1 << 20  # numbers that are split into bytes at once


@dataclass(frozen=True)
class Index:
    """The arrays of the table above. words: W distinct words, bytes; word i has the id i + 1. settings: what a document
    is, whether the words are in lower case, and the SHA-256 of the tokenizer whose pieces they are.
    """

    text: np.ndarray
    order: np.ndarray
    documents: np.ndarray
    words: list
    settings: dict

    @property
    def arrays(self):
        return {"text": self.text, "order": self.order, "documents": self.documents}

    def describe(self):
        size = sum(array.nbytes for array in self.arrays.values()) + sum(map(len, self.words)) + len(self.words)
        yield "kind", "index of a corpus"
        yield "words", len(self.order)
        yield "distinct words", len(self.words)
        yield "documents", len(self.documents)
        yield "a document is", DOCUMENTS[self.settings["documents"]]
        yield "lower case", "yes" if self.settings["tolower"] else "no"
        if digest := self.settings.get("tokenizer"):
            yield "tokenizer", f"SHA-256 {digest}"
        yield "bytes per word", f"{size / len(self.order):.2f}"


def make_index(paths, documents="lines", tolower=False, tokenizer=None):
    """The Index of texts. documents: one of DOCUMENTS; blank lines stand between records, as between paragraphs.
    tokenizer: the SHA-256 of the tokenizer that split the texts, or None. Raises LmtkError if the texts have no words.
    """
    index, none = Growing(()), np.zeros(0, np.int32)
    files = (np.concatenate([none, *ids_of(blocks(path, pieces=True), index, tolower)]) for path in paths)
    text = np.concatenate([none, *(with_borders(ids, documents) for ids in files)])
    if not len(text):
        raise LmtkError(f"{', '.join(map(name_of, paths))}: no words in it; is it the right file?")
    if len(text) > MOST:
        raise LmtkError(f"an index holds {MOST} words and documents, not {len(text)}; make several indexes")
    starts = np.append(0, np.flatnonzero(text[:-1] == BORDER) + 1)
    order = suffix_order(text)
    settings, words = {"documents": documents, "tolower": tolower}, index.words()
    settings |= {"tokenizer": tokenizer} if tokenizer else {}
    return Index(split(text, len(words)), split(order, len(text)), split(starts, len(text)), words, settings)


def with_borders(ids, documents):
    """The text, as in the table above, of the ids of a file, which have NEWLINE for the end of each line."""
    ends = ids == NEWLINE
    # line ends after a word end a line; two or more, that is, with a blank line, end a paragraph
    first = ends & ~np.append(True, ends[:-1])[: len(ends)]
    if documents in ("paragraphs", "records"):
        first &= np.append(ends[1:], True)[: len(ends)]
    elif documents == "files":
        first[: np.flatnonzero(first)[-1] if first.any() else 0] = False
    return ids[~ends | first] + np.int32(1)


def suffix_order(text):
    """The places of words in a text, ids (T,), sorted by the words from there to the border: (N,).

    They are sorted by FIRST words first, and then by prefix doubling (Manber and Myers 1993): if places are sorted by h
    words, the ranks of p and p + h sort them by 2 h words. A place whose rank no other place shares is finished. Each
    border has a rank that no other place shares, so no comparison passes a border. Bound: each round sorts the places
    that are not finished. There are log2 m rounds if the longest phrase that occurs twice has m words.
    """
    kind = np.int32 if len(text) < 1 << 31 else np.int64
    ends = np.flatnonzero(text == BORDER).astype(kind)
    T, D = len(text), len(ends)
    to_border = np.repeat(ends, np.diff(ends, prepend=-1)) - np.arange(T, dtype=kind)
    padded = np.append(text, np.zeros(FIRST, text.dtype))
    words = (np.where(to_border > d, padded[d : d + T], BORDER) for d in reversed(range(FIRST)))
    order = sorted_places(words)[D:]
    del to_border, padded, words
    rank, is_head = np.empty(T, kind), np.ones(len(order), bool)
    rank[ends] = np.arange(D)
    map_at_once(lambda part: find_heads(text, order, *part, FIRST, is_head), parts_of(len(order)))
    left, places, h = np.arange(len(order), dtype=kind), order, FIRST
    while True:
        # the number of the head of each place's group, and from it the rank
        group = np.cumsum(is_head, dtype=kind) - 1
        rank[places] = left[is_head][group] + kind(D)
        again = ~is_head
        again[:-1] |= again[1:]
        left, places = left[again], places[again]
        if not len(left):
            return order
        key = rank[places].astype(np.int64) * (T + 1) + rank[places + kind(h)]
        sorted_by = np.argsort(key, kind="stable")
        key, places = key[sorted_by], places[sorted_by]
        del sorted_by
        order[left] = places
        is_head = np.append(True, key[1:] != key[:-1])
        del key
        h *= 2


def split(numbers, highest):
    """Numbers (n,) from 0 to `highest`, split into bytes: (n, bytes) uint8."""
    width = max((int(highest).bit_length() + 7) // 8, 1)
    out = np.empty((len(numbers), width), np.uint8)
    for at in range(0, len(numbers), PART):
        wide = numbers[at : at + PART].astype("<u8")
        out[at : at + PART] = wide.view(np.uint8).reshape(-1, 8)[:, :width]
    return out


def write(out, index):
    container.write(out, "index", index.settings, index.arrays, index.words)


def from_arrays(about, arrays, path):
    """The Index in a file that `container.read` has read. Raises FormatError."""

    def wanted(sizes, size):
        T, N, D = size("text", 0), size("order", 0), size("documents", 0)
        if not 0 < D <= N or T != N + D:
            raise FormatError(path, f"damaged: its text has {T} entries; expected {N} words and {D} documents")
        a, b = ((most.bit_length() + 7) // 8 for most in (sizes.W, T))
        return {"text": Array("U8", (T, a)), "order": Array("U8", (N, b)), "documents": Array("U8", (D, b))}

    words, _ = check_contents(about, arrays, path, SETTINGS, wanted)
    settings = {name: value for name, value in about["settings"].items() if name in SETTINGS}
    return Index(arrays["text"], arrays["order"], arrays["documents"], words, settings)


def load(path):
    """Read the Index in a file, which is mapped; checksums of large files are not verified. Raises FormatError."""
    with open_in(path) as stream:
        if not container.looks_binary(stream.peek(64)[:64]):
            raise FormatError(path, "not an index; lmtk index makes one")
        about, arrays = container.read(stream, path, "never")
        if about["kind"] != "index":
            raise FormatError(path, f"a file of the kind {about['kind']}, not an index; lmtk index makes one")
        return from_arrays(about, arrays, path)


def count_phrases(index, ids, starts):
    """Count P phrases, ids from starts[i] to starts[i + 1]; other ids than 1 .. W are words that the corpus lacks.

    Returns (P, 5) int64. The first two columns are how often the phrase occurs, and in how many documents. The others
    are about the context of its last word: of the sequences of words directly before the last word, the longest that
    the corpus contains. They are the number of words in the context, how often the last word follows the context, and
    how often the context occurs. A phrase without words has zeros.
    """
    query = np.where(ids > 0, ids, len(index.words) + 1).astype(np.int64)
    seen, counts = np.full(len(index.documents), -1, np.int64), np.zeros((len(starts) - 1, 5), np.int64)
    count_all(index.text, index.order, index.documents, query, starts, seen, counts)
    return counts
