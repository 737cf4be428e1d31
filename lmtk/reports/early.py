"""SRILM's report of a large text by a large back-off model in a binary file. Its kernels need no numpy, whose import
takes half as long as the report.
"""

import ctypes
import math
import mmap
import os
import struct
import sys
from contextlib import suppress
from itertools import pairwise

from lmtk.errors import FormatError
from lmtk.files import sums
from lmtk.files.header import MAX_HEADER, fits, parsed
from lmtk.files.streams import blocks
from lmtk.machine.at_hand import at_hand
from lmtk.machine.large import pays
from lmtk.machine.threads import in_threads
from lmtk.reports.tally import Tally

TOGETHER = 1 << 18  # bytes of a text that a thread reads and scores at once
LONGEST = 1 << 27  # bytes of a text that is scored without a progress bar
KERNELS = {"words": 5, "begin": 2, "sum_text": 6, "add_up": 3}  # of ngram.summing, and how many arguments they take
SOURCES = "ngram/summing.py", "ngram/walking.py", "ngram/searching.py", "ngram/nodes.py", "text/kernels.py"
ROOM = 40  # bytes of memory that `summing` needs for each byte of a text
WIDE, NARROW = 5, 3  # numbers of a record, as in ngram.nodes


def early(words):
    """What is begun before numpy is imported: the checksums of the model that `words` name in the plainest way, and, if
    they ask for nothing else, its report of a large text. Returns whether the report was written.
    """
    words = [word for word in words if word != "-unk"]  # which asks for nothing
    given = dict(zip(words[::2], words[1::2]))
    if "-strict" not in words:
        sums.begin(given.get("-lm"))
    if len(words) != 4 or given.keys() - {"-lm"} not in ({"-text"}, {"-ppl"}):
        return False
    found = reported(given["-lm"], words[1 + 2 * (words[0] == "-lm")])
    sys.stdout.buffer.write(found or b"")
    return found is not None


def reported(model, text):
    """The report of a text by a model, two files, once `sums.begin` has begun with the model.

    None where the usual way is to be gone, as where one of them is no such file, or has a fault, which that way tells.
    """
    begun = sums.begun.get(model)
    if not begun or not os.path.isfile(text) or not pays("text", size := os.path.getsize(text)) or size > LONGEST:
        return None
    with suppress(FormatError, OSError, ValueError, LookupError, TypeError, AttributeError, struct.error):
        kernels = at_hand("lmtk.ngram.summing", KERNELS, SOURCES)
        made = kernels and in_memory(kernels, begun.pages, model)
        if made:
            *handles, crcs = made
            found = summed(kernels, *map(ctypes.addressof, handles), blocks(text, TOGETHER))
            if math.isfinite(found[0].log10p) and begun.done() == crcs:
                return found[0].lines(f"file {text}: ")
    return None


def in_memory(kernels, pages, path):
    """What `summing` calls handle, table and given, of a model of sentences, in a file that is mapped; and the
    checksums of its arrays. None where it is not in the form in which models are written.
    """
    size = int.from_bytes(pages[:8], "little")
    if size > MAX_HEADER:
        return None
    about, spans = parsed(pages[8 : 8 + size], size, path)
    many = rows_of(about, spans, len(pages) - 8 - size)
    if not many:
        return None
    settings, base = about["settings"], address(pages)
    n, V = settings["order"], settings["V"]
    at = {name: 8 + size + begin for name, (begin, _) in spans.items()}
    where = levels(pages, at, many, n)
    spanned = struct.iter_unpack("<qq", pages[at["spans"] : at["spans"] + 16 * (n + 1)])
    if not where or not all(searchable(*span, many["slots"]) for span in spanned):
        return None
    text = pages[at["vocabulary"] : at["vocabulary"] + many["vocabulary"]]
    W, table, ids = word_table(kernels, text)
    if text.count(b"\n") + 1 != W:  # a word that is there twice, or is empty
        return None
    unigram, first = memory(4 * W), memory(4 * W)
    arrays_at = base + at["nodes1"], address(where), address(unigram), address(first), base + at["far"]
    arrays_at = *arrays_at, base + at["slots"], base + at["spans"]
    total = max(where[4 * k] + where[4 * k + 2] * (where[4 * k + 1] + 1) for k in range(n))
    handle = numbers(*arrays_at, total, n, W, many["far"], many["slots"], n + 1, *[0] * n)
    handle.alive = where, unigram, first
    special = b"\n".join((settings["unk"].encode("latin-1"), b"<s>", b"</s>"))
    kernels["words"](address(table), at_bytes(special), len(special), -1, address(ids))
    unk, _, sos, _, eos = (ctypes.c_int32 * 5).from_buffer(ids)
    if not min(unk, sos, eos) >= 0 or not eos < V <= W or not kernels["begin"](address(handle), V):
        return None
    if n > 1 and not opens(pages, at["nodes1"], struct.unpack_from("<i", unigram, 4 * sos)[0]):
        return None  # the usual way warns of a model of running text
    return handle, table, numbers(V, unk, sos, eos, 1, 1), {name: crc for name, (*_, crc) in about["arrays"].items()}


def opens(pages, begin, node):
    """Whether 2-grams begin with the 1-gram `node`, -1 for none; begin: where the 1-grams are."""
    first, last = (struct.unpack_from("<i", pages, begin + 4 * (WIDE * (node + i) + 1))[0] for i in (0, 1))
    return node >= 0 and first < last


def rows_of(about, spans, size):
    """How many rows each array of a model has; None if these are not a model's arrays or do not fill `size` bytes."""
    settings, arrays = about["settings"], about["arrays"]
    n = len(arrays.keys() - {"word_numbers"}) - 4
    kinds = {name: type(value) for name, value in settings.items()}
    if about["kind"] != "backoff" or kinds != {"order": int, "V": int, "unk": str} or settings["order"] != n:
        return None
    shapes = {f"nodes{k}": ("I32", None, WIDE if k < n else NARROW) for k in range(1, n + 1)}
    shapes |= {"far": ("I32", None, 2), "slots": ("I32", None), "spans": ("I64", n + 1, 2), "vocabulary": ("U8", None)}
    if arrays.keys() - {"word_numbers"} != shapes.keys() or max(end for _, end in spans.values()) != size:
        return None
    whole = all(fits(arrays[name], spans[name], *shape) for name, shape in shapes.items())
    return {name: shape[0] for name, (_, shape, _) in arrays.items()} if whole else None


def levels(pages, at, many, n):
    """`nodes.where` of a model whose arrays begin at `at` and have `many` rows. None where its nodes do not begin with
    order 1, or the children of an order are not the next order.
    """
    names, where = [f"nodes{k}" for k in range(1, n + 1)], []
    for name in names:
        shape = (NARROW, 1) if name == names[-1] else (WIDE, 2)
        where += [(at[name] - at["nodes1"]) // 4, many[name] - 1, *shape]
    if min(where) < 0 or at["nodes1"] % 4:
        return None
    for name, below in pairwise(names):
        first, last = (struct.unpack_from("<i", pages, at[name] + 4 * (WIDE * i + 1))[0] for i in (0, many[name] - 1))
        if (first, last) != (0, many[below] - 1):
            return None
    return numbers(*where)


def searchable(begin, places, slots):
    """Whether a search table of so many places, a power of two, stands among the slots from `begin` on."""
    return places & (places - 1) == 0 and 0 <= places <= slots - begin <= slots


def word_table(kernels, text):
    """(How many words a vocabulary has, one a line; their walking.table_handle; room for the ids of a line)."""
    most = text.count(b"\n") + 1
    slots = 1 << max(13, (2 * most - 1).bit_length())  # half of them with a word, at most
    sizes = {"known": 16 * slots, "letters": 8 * -(-len(text) // 8) + 8, "ends": 4 * slots + 8, "value": 2 * slots}
    rooms = [memory(size) for size in sizes.values()]
    table = numbers(*map(address, rooms), slots, sizes["letters"], slots // 2 + 1, slots // 2)
    table.alive, ids = rooms, memory(4 * max(len(text), 5))
    W = kernels["words"](address(table), at_bytes(text), len(text), 0, address(ids))
    return W, table, ids


def summed(kernels, handle, table, given, texts):
    """(Tally, blank lines, unknown words with a probability) of the blocks of a text, each looked up and scored in one
    thread; handle, table, given: addresses, as `summing` has them.
    """
    whole, blanks, unknowns, total, rooms = Tally(), 0, 0, ctypes.c_double(), []

    def found(text):
        size, room = ROOM * (len(text) + 2), b""
        with suppress(IndexError):
            room = rooms.pop()  # of a block before
        if len(room) < size:
            room = memory(size)
        lines, *parts = kernels["sum_text"](handle, table, given, at_bytes(text), len(text), address(room))
        logs = room[: 8 * lines]
        rooms.append(room)
        return logs, parts

    for logs, (*parts, unknown, blank) in in_threads(found, texts):
        kernels["add_up"](at_bytes(logs), len(logs) // 8, address(total))  # one line after another, as of small texts
        whole.add(Tally(*parts))
        blanks, unknowns = blanks + blank, unknowns + unknown
    whole.log10p = total.value
    return whole, blanks, unknowns


def memory(size):
    """`size` bytes of 0, which take memory once they are touched."""
    return mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def numbers(*values):
    """An array of int64."""
    return (ctypes.c_int64 * len(values))(*values)


def address(room):
    return ctypes.addressof(ctypes.c_char.from_buffer(room))


def at_bytes(text):
    """The address of the bytes of an object, as long as it lives."""
    return ctypes.cast(text, ctypes.c_void_p).value
