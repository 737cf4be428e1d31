"""The compact binary form of back-off models: columns of bits, unpacked when the file is read.

For each order a file has three kinds of columns. The last words of the n-grams take as many bits as the largest id. The
number of children of each n-gram takes four bits; 15 refers to a list of larger numbers. log10 p and log10 weights are
in single precision or, if quantized, places in a table of as many numbers as the bits of a place allow. Each entry of
the table is the mean of the numbers in an interval. The density of the intervals follows the cube root of the numbers'
density, which minimises the mean square error (Panter and Dite 1951). 0, -inf and nan have entries of their own.
"""

import numpy as np

from lmtk.errors import FormatError
from lmtk.files import container
from lmtk.files.declared import ORDER, VOCABULARY, Array, check_array, check_contents, whole
from lmtk.machine.jit import jit
from lmtk.machine.large import pays
from lmtk.ngram.model import backoff
from lmtk.ngram.model.backoff import Backoff
from lmtk.ngram.model.building import finished
from lmtk.ngram.model.nodes import ROOT, room, without_tables
from lmtk.text.vocab import vocab_of, vocab_settings

KIND = "backoff-compact"
MANY, BITS = 15, 4  # of children
SOME = 1 << 18  # numbers packed together
CELLS = 1 << 12  # of a histogram
SETTINGS = VOCABULARY | {"order": ORDER, "quantize": whole(0, 16)}  # bits of a log10; 0: all 32


def packed(x, width):
    """Numbers (N,) below 2^width as bits, uint8: the highest bit first, without gaps between numbers."""
    parts = []
    for first in range(0, len(x), SOME):
        some = x[first : first + SOME].astype(">u4").view(np.uint8).reshape(-1, 4)
        parts.append(np.packbits(np.unpackbits(some, axis=1)[:, 32 - width :]))
    return np.concatenate(parts) if parts and width else np.zeros(0, np.uint8)


def unpacked(bits, width, N):
    """The numbers (N,) of `packed`, int32."""
    out = np.zeros(N, np.int32)
    if pays("ngrams", N):
        unpack(bits, width, out)
        return out
    for first in range(0, N if width else 0, SOME):
        n = min(SOME, N - first)
        some = np.zeros((n, 32), np.uint8)
        start = first * width // 8
        found = np.unpackbits(bits[start : start + (n * width + 7) // 8], count=n * width)
        some[:, 32 - width :] = found.reshape(n, width)
        out[first : first + n] = np.packbits(some, axis=1).view(">u4")[:, 0]
    return out


@jit
def unpack(bits, width, out):
    """out (N,) <- the numbers of `packed`."""
    held, waiting, at = np.uint64(0), 0, 0
    mask = (np.uint64(1) << np.uint64(width)) - np.uint64(1)
    for i in range(len(out)):
        while waiting < width:
            held = held << np.uint64(8) | np.uint64(bits[at])
            at += 1
            waiting += 8
        waiting -= width
        out[i] = held >> np.uint64(waiting) & mask


def quantized(x, bits):
    """(places (N,) int32, table): numbers (N,) float32 as places in a table of at most 2^bits numbers."""
    special = np.array([0, -np.inf, np.nan], np.float32)
    plain = np.isfinite(x) & (x != 0)
    given = x[plain].astype(np.float64)
    places = np.where(np.isnan(x), 2, np.where(np.isneginf(x), 1, 0)).astype(np.int32)
    if not len(given):
        return places, special
    low, high = given.min(), given.max()
    cell = ((given - low) * ((CELLS - 1) / max(high - low, 1e-30))).astype(np.int64)
    sums = np.cumsum(np.cbrt(np.bincount(cell, minlength=CELLS)))
    most = (1 << bits) - len(special)
    bins = np.minimum(sums / sums[-1] * most, most - 1).astype(np.int64)
    _, bin_of = np.unique(bins[cell], return_inverse=True)
    means = np.bincount(bin_of.ravel(), given) / np.bincount(bin_of.ravel())
    places[plain] = len(special) + bin_of.ravel()
    return places, np.concatenate((special, means.astype(np.float32)))


def width_of(words):
    return max(int(words - 1).bit_length(), 1)


def write(out, model, bits=0):
    """Writes a Backoff model. bits: the bits of each log10, 3 to 16; 0 for single precision."""
    width, arrays = width_of(len(model.vocab.words)), {}
    for k, level in enumerate(model.nodes.levels[1:], 1):
        arrays[f"words{k}"] = packed(level["word"][:-1], width)
        columns = {"p": level["log10p"][:-1]}
        if k < model.order:
            children = np.diff(level["child"])
            arrays[f"children{k}"] = packed(np.minimum(children, MANY), BITS)
            arrays[f"more{k}"] = children[children >= MANY].astype(np.int32)
            columns["bow"] = level["log10bow"][:-1]
        for name, x in columns.items():
            if bits:
                places, arrays[f"{name}table{k}"] = quantized(x, bits)
                arrays[f"{name}{k}"] = packed(places, bits)
            else:
                arrays[f"{name}{k}"] = np.ascontiguousarray(x)
    settings = {"order": model.order, "quantize": bits, "sizes": sizes_of(model), **vocab_settings(model.vocab)}
    container.write(out, KIND, settings, arrays | backoff.numbers_of(model), model.vocab.words)


def write_binary(out, model, compact=False, bits=0):
    """Writes a Backoff model: in the compact form if `compact` or `bits` is given, else in the form of `backoff`."""
    if compact or bits:
        write(out, model, bits)
    else:
        backoff.write_binary(out, model)


def sizes_of(model):
    return [model.nodes.size(k) for k in range(1, model.order + 1)]


def from_arrays(about, arrays, path):
    """The Backoff model in a file's arrays. Raises FormatError."""
    settings = about["settings"]
    words, found = check_contents(
        about, arrays, path, SETTINGS, lambda sizes, size: {backoff.NUMBERS: backoff.numbers_array(sizes.W)}
    )
    vocab, order, bits, W = vocab_of(settings, words, path), found.order, found.quantize, len(words)
    sizes = settings.get("sizes")
    most = 8 * sum(a.nbytes for a in arrays.values())
    if not isinstance(sizes, list) or len(sizes) != order or not all(type(n) is int and 0 <= n <= most for n in sizes):
        raise FormatError(path, "its setting sizes is not a whole number for each order")
    for name, declared in holds(sizes, width_of(W), bits, arrays).items():
        check_array(arrays.get(name), declared, name, path)
    memory, where, records = room(sizes)
    for k, level in enumerate(records, 1):
        N = sizes[k - 1]
        level["word"][:-1] = unpacked(arrays[f"words{k}"], width_of(W), N)
        for name, column in (("p", "log10p"), ("bow", "log10bow"))[: 2 if k < order else 1]:
            x = arrays[f"{name}{k}"]
            if bits:
                table = arrays[f"{name}table{k}"]
                places = unpacked(x, bits, N)
                if places.max(initial=0) >= len(table):
                    raise FormatError(path, f"its array {name}{k} names numbers that there are not")
                x = table[places]
            level[column][:-1] = x
        if k < order:
            children, more = unpacked(arrays[f"children{k}"], BITS, N).astype(np.int64), arrays[f"more{k}"]
            many = children == MANY
            if many.sum() != len(more) or children[~many].sum() + more.sum(dtype=np.int64) != sizes[k]:
                raise FormatError(path, f"its {k}-grams do not fit together with its {k + 1}-grams")
            children[many] = more
            level["child"][1:] = np.cumsum(children)
    without_tables(memory, where, ROOT, path).checked(W)
    return Backoff(vocab, finished(memory, where, W), arrays.get(backoff.NUMBERS))


def holds(sizes, width, bits, arrays):
    """The arrays of the compact form, by name. width: bits of a word; arrays: give the lengths of lists and tables."""
    found = {}
    for k, N in enumerate(sizes, 1):
        found[f"words{k}"] = Array("U8", ((N * width + 7) // 8,))
        if k < len(sizes):
            found[f"children{k}"] = Array("U8", ((N * BITS + 7) // 8,))
            found[f"more{k}"] = Array("I32", arrays.get(f"more{k}", np.empty(0)).shape[:1], MANY, max(sizes))
        for name in ("p", "bow")[: 2 if k < len(sizes) else 1]:
            found[f"{name}{k}"] = Array("U8", ((N * bits + 7) // 8,)) if bits else Array("F32", (N,))
            if bits:
                found[f"{name}table{k}"] = Array("F32", arrays.get(f"{name}table{k}", np.empty(0)).shape[:1])
    return found
