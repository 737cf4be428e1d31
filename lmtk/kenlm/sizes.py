"""How much memory a model takes in each form of KenLM's files, from the numbers of its n-grams alone.

`report` prints what KenLM's build_binary prints for an ARPA file without an output file.
"""

import math
from dataclasses import replace

from lmtk.kenlm.hashed import BUCKETS, lay_out
from lmtk.kenlm.layout import Form, fields_of

BITS, POINTER_BITS = 8, 22  # KenLM's defaults for -q and -a
UNIGRAM, HASH = 16, 8  # bytes of a trie's 1-gram, and of the hash of a word
REST = 4  # bytes of a rest cost; with -r, each record of probing tables below the highest order has one


def report(sizes, form):
    """The report, a text: the memory of a model with `sizes` n-grams of each order, 2 orders or more. form: a
    `layout.Form` with the options that are given.
    """
    where, _, numbers = lay_out(sizes, form.multiplier)
    rest = REST * int(where[:-1, BUCKETS].sum())
    bits, weight_bits = form.bits or BITS, form.weight_bits or BITS
    pointer_bits = POINTER_BITS if form.pointer_bits is None else form.pointer_bits
    plain, quantized = Form("trie"), Form("trie", bits, weight_bits)
    probing, quantizing, compressing = f"-p {form.multiplier:g}", f"-q {bits} -b {weight_bits}", f"-a {pointer_bits}"
    tries = {
        "without quantization": plain,
        f"assuming {quantizing} quantization ": quantized,  # with KenLM's blank at the end
        f"assuming {compressing} array pointer compression": replace(plain, pointer_bits=pointer_bits),
        f"assuming {compressing} {quantizing} array pointer compression and quantization": replace(
            quantized, pointer_bits=pointer_bits
        ),
    }
    rows = [
        ("probing", 4 * numbers, f"assuming {probing}"),
        ("probing", 4 * numbers + rest, f"assuming -r models {probing}"),
        *(("trie", size_of_trie(sizes, trie), options) for options, trie in tries.items()),
    ]
    return as_table(rows)


def as_table(rows):
    """The report of rows (kind of file, bytes, options), in the largest unit that gives each row two digits."""
    least, most = min(size for _, size, _ in rows), max(size for _, size, _ in rows)
    power = next((power for power in range(3) if least < 10 << 10 * (power + 1)), 3)
    unit = 1 << 10 * power
    width = max(2, math.ceil(math.log10(most / unit)))
    lines = [f"{kind:8}{size // unit:{width}} {options}" for kind, size, options in rows]
    return "\n".join(["Memory estimate for binary LM:", f"{'type':8}{' kMG'[power] + 'B':>{width}}", *lines, ""])


def size_of_trie(sizes, form):
    """The bytes of a trie in memory: its vocabulary, its tables of numbers, and the records of all orders."""
    orders = [fields_of(k, sizes, form) for k in range(2, len(sizes) + 1)]
    size = HASH * (1 + sizes[0]) + UNIGRAM * (sizes[0] + 2) + sum(x.table_size + x.size for x in orders)
    if form.bits:
        size += 8 + 4 * ((len(sizes) - 1 << form.bits) + (len(sizes) - 2 << form.weight_bits))
    return size
