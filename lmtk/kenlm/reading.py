"""Reads KenLM's binary files, probing tables and the four kinds of trie, if they contain their words.

In a trie file, the n-grams are a trie from the last word to the first. Its records are packed bits: the word;
log10 p and the back-off weight (31 and 32 bits of a float, or places in tables of numbers); a pointer to the record's
first child. With array-compressed pointers, the upper bits of a pointer are in a table that has the first record of
each value. Probing tables are those of `hashed`; a table of 1-grams comes before them.
"""

import struct
from functools import partial

import numpy as np

from lmtk.errors import FormatError
from lmtk.files.declared import MAX_ORDER
from lmtk.files.inputs import is_file
from lmtk.kenlm import layout
from lmtk.kenlm.hashed import Hashed, lay_out
from lmtk.kenlm.layout import ARRAY, FIXED, INCOMPLETE, KINDS, MAGIC, MISSING, PROBING, QUANTIZED, TRIE, VERSION
from lmtk.ngram.arpa import reader
from lmtk.ngram.model.backoff import Backoff
from lmtk.text.vocab import EOS, UNK, vocab_of_unigrams

DAMAGED = "the file is incomplete or damaged; build it again"


def read(stream, path):
    """Read a KenLM binary file: (a Backoff or a Hashed, the name of its kind in KINDS). Raises FormatError."""
    data = read_bytes(stream, path)
    head = data[:FIXED].tobytes()
    if head.startswith(INCOMPLETE):
        raise FormatError(path, "an unfinished KenLM binary file; build it again")
    if not head.startswith(MAGIC + VERSION):
        version = head.removeprefix(MAGIC).split(b"\n")[0]
        if not version.isdigit() or int(version[:4]) == 5:
            raise FormatError(path, DAMAGED)
        raise FormatError(path, f"a KenLM binary file of version {version.decode()}; this lmtk reads version 5")
    try:
        order, multiplier, kind, has_words, version = struct.unpack_from("<BxxxfIBxxxI", data, FIXED)
        counts = np.frombuffer(data, "<u8", order, FIXED + 20).astype(np.int64).tolist()
    except (struct.error, ValueError):
        raise FormatError(path, DAMAGED) from None
    is_trie = kind >= TRIE
    if kind >= len(KINDS) or version != is_trie or order < 2 or min(counts) < 0 or max(counts) > len(data):
        raise FormatError(path, DAMAGED)
    if PROBING < kind < TRIE:
        raise FormatError(path, f"a KenLM binary file with {KINDS[kind]}, which lmtk does not read; give the ARPA file")
    if not has_words:
        raise FormatError(path, "a KenLM binary file without its words; build it without -v")
    if order > MAX_ORDER:
        raise FormatError(path, f"the order {order} is too high; lmtk reads models up to order {MAX_ORDER}")
    try:
        if is_trie:
            return read_trie(data, counts, bool(kind - TRIE & QUANTIZED), bool(kind - TRIE & ARRAY), path), KINDS[kind]
        return read_probing(data, counts, multiplier, path), KINDS[kind]
    except (IndexError, ValueError):
        raise FormatError(path, DAMAGED) from None


def read_bytes(stream, path):
    """Return the bytes of a file: mapped if the file is regular and not compressed, else read from `stream`."""
    if is_file(path):
        with open(path, "rb") as raw:
            if raw.read(len(MAGIC)) == MAGIC:
                return np.memmap(path, np.uint8, "r")
    return np.frombuffer(stream.read(), np.uint8)


def read_probing(data, counts, multiplier, path):
    """Return the Hashed model of a file with probing tables. Raises IndexError if the file is too short."""
    if not 1 < multiplier < 1e6:
        raise IndexError
    where, _, size = lay_out(counts, multiplier)
    begin = layout.header_size(len(counts))
    at = begin + 4 * size
    if at > len(data):
        raise IndexError
    memory = data[begin:at].view("<i4")
    version, V = memory[:2].tolist()
    if version:
        raise FormatError(path, f"KenLM's vocabulary of version {version}; this lmtk reads version 0")
    if not 0 < V <= counts[0] + 1:
        raise IndexError
    words = read_words(data, at, V, path)
    first = int(memory.view("<f4")[where[0, 0]] == MISSING)  # such an <unk>, the first word, is not predicted
    vocab = vocab_of_unigrams(list(dict.fromkeys(words[first:])))
    return Hashed(vocab, len(counts), kenlm_numbers(vocab, words), memory, where, counts)


def kenlm_numbers(vocab, words):
    """Return KenLM's number of each word of `vocab`, (W,): its first place in `words`, 0 for a word not there."""
    index = dict(zip(reversed(words), reversed(range(len(words)))))
    return np.array([index.get(w, 0) for w in vocab.words], np.int64)


def read_trie(data, counts, is_quantized, has_arrays, path):
    """Return the Backoff model of a trie file's bytes. is_quantized: whether log10 p and weights are places in tables;
    has_arrays: whether the upper bits of pointers are kept in tables. Raises IndexError if the file is too short.
    """
    order, V = len(counts), counts[0]
    at = layout.header_size(order) + 8 + 8 * V  # after the vocabulary's hashes
    tables, p_bits, bow_bits = [], 0, 0
    if is_quantized:
        version, p_bits, bow_bits = data[at : at + 3].tolist()
        if version != 2 or not 0 < p_bits <= 25 or not 0 < bow_bits <= 25:
            raise FormatError(path, f"KenLM's quantization of version {version}; this lmtk reads version 2")
        at += 8
        for bits in [p_bits, bow_bits] * (order - 2) + [p_bits]:
            tables.append(np.frombuffer(data, "<f4", 1 << bits, at))
            at += 4 << bits
    unigrams = data[at : at + 16 * (V + 2)].view([("p", "<f4"), ("bow", "<f4"), ("child", "<u8")])
    at += 16 * (V + 2)
    form = layout.Form("trie", p_bits, bow_bits, pointer_bits=int(data[at + 1]) if has_arrays and order > 2 else None)
    child = unigrams["child"][: V + 1].astype(np.int64)
    levels = [(np.arange(V, dtype=np.int32)[:, None], unigrams["p"][:V], unigrams["bow"][:V])]
    for k in range(2, order + 1):
        fields, is_last = layout.fields_of(k, counts, form), k == order
        N, records = fields.N, at + fields.table_size
        end = records + fields.size
        if end > len(data):
            raise IndexError
        column = partial(unpack_fields, data, 8 * records, fields.total)
        parent = parents_of(child, N)
        rows = np.column_stack((column(0, fields.label, N).astype(np.int32), levels[-1][0][parent]))
        if is_quantized:
            # the place of the weight comes before that of p
            p = tables[2 * k - 4][column(fields.label + fields.bow, fields.p, N)]
            bow = 0 if is_last else tables[2 * k - 3][column(fields.label, fields.bow, N)]
        else:
            p = (column(fields.label, fields.p, N).astype(np.uint32) | np.uint32(1 << 31)).view(np.float32)
            bow = 0 if is_last else column(fields.label + fields.p, fields.bow, N).astype(np.uint32).view(np.float32)
        levels.append((rows, p, bow))
        if not is_last:
            child = column(fields.label + fields.p + fields.bow, fields.pointer, N + 1).astype(np.int64)
        if fields.entries:
            start = layout.entries_start(at)
            begins = data[start : start + 8 * fields.entries].copy().view("<u8")
            upper = np.searchsorted(begins, np.arange(N + 1), "right") - 1
            child |= upper << fields.pointer
        at = end
    return build_model(levels, read_words(data, at, V, path))


def unpack_fields(data, start, size, first, width, N):
    """Unpack the field of `width` bits that begins at the bit `first` of N records, (N,) uint64. A record has `size`
    bits; the first record begins at the bit `start` of the data.
    """
    if not width:
        return np.zeros(N, np.uint64)
    bit = start + first + np.arange(N, dtype=np.int64) * size
    byte, shift = bit >> 3, (bit & 7).astype(np.uint64)
    fields = np.zeros(N, np.uint64)
    for j in range((width + 14) // 8):
        fields |= data[np.minimum(byte + j, len(data) - 1)].astype(np.uint64) << np.uint64(8 * j)
    return fields >> shift & np.uint64((1 << width) - 1)


def parents_of(child, N):
    """Return the parent of each of N records, (N,). child (P + 1,): the first child of each parent, and N. Raises
    IndexError if the children are not in order.
    """
    if child[0] != 0 or child[-1] != N or (np.diff(child) < 0).any():
        raise IndexError
    return np.repeat(np.arange(len(child) - 1), np.diff(child))


def read_words(data, at, V, path):
    """Return the V words at the end of a file; each ends with a NUL. `</s>` may occur twice, as `probing` says. Raises
    FormatError if they are not V words.
    """
    text = data[at:].tobytes()
    *words, rest = text.split(b"\0")
    if (
        rest
        or len(words) != V
        or words[0].lower() != UNK
        or any(blank in text for blank in (b" ", b"\t", b"\r", b"\n"))
    ):
        raise FormatError(path, "damaged: its words do not match its n-grams")
    if b"" in words or len(set(words)) != V - max(words.count(EOS) - 1, 0):
        raise FormatError(path, "damaged: a word is empty or occurs twice")
    return [UNK, *words[1:]]


def build_model(levels, words):
    """The Backoff model of levels (rows of KenLM's ids, log10 p, log10 weights)."""
    first = int(levels[0][1][0] == MISSING)  # such an <unk>, the first word, is not predicted
    vocab = vocab_of_unigrams(list(dict.fromkeys(words[first:])))
    ids = np.array([vocab.index[w] for w in words], np.int32)
    rows_of_orders = []
    for rows, p, bow in levels:
        if rows.max(initial=0) >= len(words):
            raise IndexError
        rows_of_orders.append(reader.make_rows(ids[rows], p + np.float32(0), bow + np.float32(0)))
    numbers = kenlm_numbers(vocab, words)
    if words.count(EOS) > 1:
        numbers[vocab.index[EOS]] = used = number_with_ngrams([i for i, w in enumerate(words) if w == EOS], levels[1])
        is_kept = np.array([w != EOS or i == used for i, w in enumerate(words)])
        rows_of_orders[0] = rows_of_orders[0][is_kept]
    rows_of_orders[0] = rows_of_orders[0][first:]
    nodes, _ = reader.nodes_of_rows(rows_of_orders, len(vocab.words))
    return Backoff(vocab, nodes, numbers)


def number_with_ngrams(numbers, level):
    """Return the one of KenLM's numbers of a repeated word with which the most 2-grams of `level` end."""
    last = level[0][:, -1]
    return max(numbers, key=lambda number: np.count_nonzero(last == number))
