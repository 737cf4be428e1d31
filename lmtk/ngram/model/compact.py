"""The compact binary form of back-off models: columns of bits, unpacked when the file is read.

For each order a file has three kinds of columns. The last words of the n-grams take as many bits as the largest id. The
number of children of each n-gram takes four bits; the value 15 refers to a list of larger numbers. log10 p and log10
back-off weights are stored in single precision or quantized. A quantized number is a place in a table of 2^bits
entries. Each entry is the mean of the numbers in an interval. The density of the intervals follows the cube root of the
numbers' density, which minimizes the mean square error (Panter and Dite 1951). 0, -inf and nan have their own entries.
"""

import numpy as np

from lmtk.errors import FormatError
from lmtk.files import container
from lmtk.files.declared import ORDER, VOCABULARY, Array, Setting, check_contents, whole
from lmtk.ngram.model import backoff
from lmtk.ngram.model.backoff import Backoff
from lmtk.ngram.model.building import finish
from lmtk.ngram.model.nodes import allocate, wrap_records
from lmtk.text.vocab import vocab_of, vocab_settings

MANY, BITS = 15, 4  # the number of children that refers to the list of larger ones, and the bits of such a number
CHUNK = 1 << 18  # numbers that are packed or unpacked at once
CELLS = 1 << 12  # of the histogram from which the intervals are chosen
SIZES = Setting("a list of whole numbers", lambda x: isinstance(x, list) and all(type(n) is int and n >= 0 for n in x))
SETTINGS = VOCABULARY | {"order": ORDER, "quantize": whole(0, 16), "sizes": SIZES}  # quantize: bits of a log10; 0: 32


def pack_bits(x, width):
    """Pack numbers (N,) below 2^width into bits, uint8: the highest bit first, without gaps between numbers."""
    parts = []
    for first in range(0, len(x), CHUNK):
        octets = x[first : first + CHUNK].astype(">u4").view(np.uint8).reshape(-1, 4)
        parts.append(np.packbits(np.unpackbits(octets, axis=1)[:, 32 - width :]))
    return np.concatenate(parts) if parts and width else np.zeros(0, np.uint8)


def unpack_bits(bits, width, N):
    """Unpack N numbers that `pack_bits` has packed: (N,) int32. Eight numbers take `width` bytes. So the j-th numbers
    of all groups of eight begin at equal distances, and at the same bit of a byte.
    """
    out = np.zeros(N, np.int32)
    for first in range(0, N if width else 0, CHUNK):
        eights = -(-min(CHUNK, N - first) // 8)
        chunk = np.zeros(eights * width + 8, np.uint8)
        part = bits[first * width // 8 :][: eights * width]
        chunk[: len(part)] = part
        for j in range(8):
            begin, bit = divmod(j * width, 8)
            words = np.ndarray(eights, ">u8", chunk, begin, width).astype(np.uint64)
            column = out[first + j : min(first + CHUNK, N) : 8]
            column[:] = (words >> np.uint64(64 - width - bit) & np.uint64((1 << width) - 1))[: len(column)]
    return out


def quantize(x, bits):
    """Return (places, table) for numbers x (N,) float32: places (N,) int32 in a table of at most 2^bits numbers."""
    special = np.array([0, -np.inf, np.nan], np.float32)
    plain = np.isfinite(x) & (x != 0)
    values = x[plain].astype(np.float64)
    places = np.where(np.isnan(x), 2, np.where(np.isneginf(x), 1, 0)).astype(np.int32)
    if not len(values):
        return places, special
    low, high = values.min(), values.max()
    cell = ((values - low) * ((CELLS - 1) / max(high - low, 1e-30))).astype(np.int64)
    sums = np.cumsum(np.cbrt(np.bincount(cell, minlength=CELLS)))
    most = (1 << bits) - len(special)
    bins = np.minimum(sums / sums[-1] * most, most - 1).astype(np.int64)
    _, bin_of = np.unique(bins[cell], return_inverse=True)
    means = np.bincount(bin_of, values) / np.bincount(bin_of)
    places[plain] = len(special) + bin_of
    return places, np.concatenate((special, means.astype(np.float32)))


def bits_of_word(words):
    return max(int(words - 1).bit_length(), 1)


def write_binary(out, model, compact=False, bits=0):
    """Write a Backoff model: in the compact form if `compact` or `bits` is given, else in the ordinary binary form.
    bits: the bits of each log10, 3 to 16; 0 for single precision.
    """
    if not (compact or bits):
        backoff.write_binary(out, model)
        return
    width, arrays = bits_of_word(len(model.vocab.words)), {}
    for k, level in enumerate(model.nodes.levels[1:], 1):
        arrays[f"words{k}"] = pack_bits(level["word"][:-1], width)
        columns = {"p": level["log10p"][:-1]}
        if k < model.order:
            children = np.diff(level["child"])
            arrays[f"children{k}"] = pack_bits(np.minimum(children, MANY), BITS)
            arrays[f"more{k}"] = children[children >= MANY].astype(np.int32)
            columns["bow"] = level["log10bow"][:-1]
        for name, x in columns.items():
            if bits:
                places, arrays[f"{name}table{k}"] = quantize(x, bits)
                x = pack_bits(places, bits)
            arrays[f"{name}{k}"] = np.ascontiguousarray(x)
    sizes = [len(level) - 1 for level in model.nodes.levels[1:]]
    settings = {"order": model.order, "quantize": bits, "sizes": sizes, **vocab_settings(model.vocab)}
    container.write(out, "backoff-compact", settings, arrays, model.vocab.words)


def from_arrays(about, arrays, path):
    """Return the Backoff model of a compact file's arrays. Raises FormatError."""
    words, header = check_contents(about, arrays, path, SETTINGS, declare_arrays)
    vocab, sizes, order, bits = vocab_of(about["settings"], words, path), header.sizes, header.order, header.quantize
    if len(sizes) != order:
        raise FormatError(path, "its setting sizes is not a list of one whole number for each order")
    memory, where, records = allocate(sizes)
    for k, level in enumerate(records, 1):
        N = sizes[k - 1]
        level["word"][:-1] = unpack_bits(arrays[f"words{k}"], bits_of_word(header.W), N)
        for name, column in (("p", "log10p"), ("bow", "log10bow"))[: 2 if k < order else 1]:
            x = arrays[f"{name}{k}"]
            if bits:
                table = arrays[f"{name}table{k}"]
                places = unpack_bits(x, bits, N)
                if places.max(initial=0) >= len(table):
                    raise FormatError(path, f"its array {name}{k} refers to entries outside its table")
                x = table[places]
            level[column][:-1] = x
        if k < order:
            children, more = unpack_bits(arrays[f"children{k}"], BITS, N).astype(np.int64), arrays[f"more{k}"]
            many = children == MANY
            if many.sum() != len(more) or children[~many].sum() + more.sum(dtype=np.int64) != sizes[k]:
                raise FormatError(path, f"damaged: its {k}-grams do not match its {k + 1}-grams")
            children[many] = more
            level["child"][1:] = np.cumsum(children)
    wrap_records(memory, where, path=path).checked_levels(header.W)
    return Backoff(vocab, finish(memory, where, header.W))


def declare_arrays(header, size):
    """Declare the arrays of the compact form, by name. header, size: as in `check_contents`."""
    declared, sizes, width, bits = {}, header.sizes, bits_of_word(header.W), header.quantize
    for k, N in enumerate(sizes, 1):
        declared[f"words{k}"] = Array("U8", ((N * width + 7) // 8,))
        if k < len(sizes):
            declared[f"children{k}"] = Array("U8", ((N * BITS + 7) // 8,))
            declared[f"more{k}"] = Array("I32", (size(f"more{k}", 0),), MANY, max(sizes))
        for name in ("p", "bow")[: 2 if k < len(sizes) else 1]:
            declared[f"{name}{k}"] = Array("U8", ((N * bits + 7) // 8,)) if bits else Array("F32", (N,))
            if bits:
                declared[f"{name}table{k}"] = Array("F32", (size(f"{name}table{k}", 0),))
    return declared
