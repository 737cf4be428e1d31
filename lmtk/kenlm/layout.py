"""What KenLM's binary files have in common: the header, the hashes of words, and the numbers of words. Also the layout
of a trie's records, for their reader and their writer.

A file has a header, a vocabulary of hashes, the n-grams, and the words in the order of their numbers, each followed by
a 0 byte. Everything is little-endian. The word <unk> has number 0. In probing files the other words are numbered as in
the ARPA file; in trie files, by their hashes.
"""

import struct
from dataclasses import dataclass

import numpy as np

from lmtk.errors import LmtkError, shown
from lmtk.machine.jit import jit
from lmtk.ngram.model import nodes
from lmtk.text.vocab import UNK

MAGIC = b"mmap lm http://kheafield.com/code format version "
INCOMPLETE = b"mmap lm http://kheafield.com/code incomplete"
VERSION = b"5\n\0"
KINDS = [
    "probing hash tables",
    "probing hash tables with rest costs",
    "trie",
    "trie with quantization",
    "trie with array-compressed pointers",
    "trie with quantization and array-compressed pointers",
]
PROBING, TRIE, QUANTIZED, ARRAY = 0, 2, 1, 2  # the kind of a trie is TRIE, plus QUANTIZED, plus ARRAY
FIXED = 88  # bytes of the magic and the test values
P_BITS, BOW_BITS = 31, 32  # of a trie's numbers that are not quantized
u64 = np.uint64
MIX, SHIFT = u64(0xC6A4A7935BD1E995), u64(47)  # of the hashes of words
MISSING = np.float32(-100)  # log10 p of <unk> where the ARPA file had none
ZERO = np.float32(nodes.ZERO)  # the logarithm of 0
CAPITALS = b"<UNK>"  # another name of <unk>
MOST_ORDERS = 6  # of KenLM, unless it is compiled for more


@dataclass(frozen=True)
class Form:
    """The form of a KenLM file, with the defaults of build_binary.

    kind: "probing" or "trie". bits, weight_bits: the bits of a quantized log10 p and back-off weight in a trie; 0: no
    quantization. pointer_bits: the most bits of a pointer that a trie keeps in arrays; None: none. multiplier: the
    buckets of a hash table for each of its entries. unknown: log10 p of <unk> if the model does not have <unk>.
    has_words: whether the file contains the words. allows_positive: whether positive log probabilities become 0;
    allows_missing_marks: whether <s> and </s> may lack a 1-gram; both are errors otherwise.
    """

    kind: str = "probing"
    bits: int = 0
    weight_bits: int = 0
    pointer_bits: int | None = None
    multiplier: float = 1.5
    unknown: float = float(MISSING)
    has_words: bool = True
    allows_positive: bool = False
    allows_missing_marks: bool = False

    @property
    def number(self):
        """The number of the kind in a file's header."""
        if self.kind == "probing":
            return PROBING
        return TRIE + QUANTIZED * bool(self.bits) + ARRAY * (self.pointer_bits is not None)


def header_size(order):
    """The bytes of a header, after which the vocabulary begins."""
    return -(-(FIXED + 20 + 8 * order) // 8) * 8


def make_header(form, sizes):
    """The header of a file with `sizes` n-grams of each order."""
    magic = (MAGIC + VERSION).ljust(56, b"\0")
    tests = struct.pack("<3f3IQ", 0, 1, -0.5, 1, 0xFFFFFFFF, 0, 1)
    version = 0 if form.kind == "probing" else 1
    fixed = struct.pack("<BxxxfIBxxxI", len(sizes), form.multiplier, form.number, form.has_words, version)
    return (magic + tests + fixed + struct.pack(f"<{len(sizes)}Q", *sizes)).ljust(header_size(len(sizes)), b"\0")


def chop_bits(largest, size, most):
    """How many upper bits of `size` pointers, none above `largest`, KenLM keeps in a table: those that save the most
    memory, at most `most`.
    """
    bits = largest.bit_length()
    return min(range(min(bits, most) + 1), key=lambda c: (largest >> (bits - c)) * 64 - size * c)


@dataclass(frozen=True)
class Fields:
    """The widths in bits of the fields of a trie's record of one order: label, log10 p, weight, and the pointer's part
    that is in the record. N: the number of records. entries: the number of entries of the table of the upper bits of
    the pointers, 0 without one.
    """

    N: int
    label: int
    p: int
    bow: int = 0
    pointer: int = 0
    entries: int = 0

    @property
    def total(self):
        return self.label + self.p + self.bow + self.pointer

    @property
    def size(self):
        """The bytes of the records. KenLM has one record more, and 8 bytes so that it can read 8 bytes anywhere."""
        return ((1 + self.N) * self.total + 7) // 8 + 8

    @property
    def table_size(self):
        """The bytes of the table of the upper bits, which comes before the records."""
        return 8 * (1 + self.entries) + 7 if self.entries else 0


def fields_of(k, sizes, form):
    """The Fields of the records of order k > 1. sizes: the n-grams of each order, <unk> among the 1-grams."""
    size, label, p = sizes[k - 1], sizes[0].bit_length(), form.bits or P_BITS
    if k == len(sizes):
        return Fields(size, label, p)
    largest, bow = sizes[k], form.weight_bits or BOW_BITS  # largest: of the pointers
    if form.pointer_bits is None:
        return Fields(size, label, p, bow, largest.bit_length())
    pointer = largest.bit_length() - chop_bits(largest, size + 1, form.pointer_bits)
    return Fields(size, label, p, bow, pointer, (largest >> pointer) + 1)


def entries_start(begin):
    """Where the entries of a table of upper bits begin, 8 bytes each, if the table begins at the byte `begin`."""
    return -(-begin // 8) * 8 + 8


def places_of_unknown(words):
    """The places of both spellings of <unk> in a list of different words."""
    return [words.index(w) for w in (UNK, CAPITALS) if w in words]


def hash_words(words):
    """Hash each of some Words as KenLM does (MurmurHash64A): (N,) uint64. Raises LmtkError for a word with a NUL byte,
    since a NUL byte ends a word in KenLM's files.
    """
    if b"\0" in words.text:
        word = next(word for word in words if b"\0" in word)
        raise LmtkError(
            f"the word {shown(word)} has a NUL byte, which a KenLM file cannot hold; remove it from the model"
        )
    hashes = np.empty(len(words), u64)
    hash_lines(np.frombuffer(words.text, np.uint8), hashes)
    return hashes


@jit
def hash_lines(text, hashes):
    """hashes <- that of each line of a text."""
    at = 0
    for i in range(len(hashes)):
        size = 0
        while text[at + size] != 10:
            size += 1
        h, end = u64(size) * MIX, at + size
        while at < end:
            k = u64(0)
            for j in range(min(8, end - at)):
                k |= u64(text[at + j]) << u64(8 * j)
            if at + 8 <= end:
                k *= MIX
                k = (k ^ (k >> SHIFT)) * MIX
            h = (h ^ k) * MIX
            at += 8
        h = (h ^ (h >> SHIFT)) * MIX
        hashes[i] = h ^ (h >> SHIFT)
        at = end + 1


def join_words(words):
    """The words of a file in the order of their numbers, <unk> first, as its last bytes. words: Words."""
    return words.text.replace(b"\n", b"\0")
