from typing import Annotated

from lmtk.commands.options import (
    MapUnk,
    NoEos,
    NoSos,
    Order,
    Stream,
    Texts,
    Tolower,
    UnkAsIs,
    VocabFile,
    Write,
    one_stdin,
    option,
    per_order,
    unknown_word,
)
from lmtk.errors import UsageError


def command(
    text: Texts = None,
    read: Annotated[list[str] | None, option("read", "Counts to read and add (several).", "FILE")] = None,
    order: Order = 3,
    write: Write = None,
    write_n: Annotated[
        list[str] | None, option("writeN", "Write the n-grams of order N alone: -write1 FILE ...", "FILE")
    ] = None,
    sort: Annotated[bool, option("sort", "Write n-grams in byte order, else as first seen.")] = False,
    vocab: VocabFile = None,
    limit_vocab: Annotated[bool, option("limit-vocab", "Drop read n-grams with words that are not in -vocab.")] = False,
    write_vocab: Annotated[str | None, option("write-vocab", "Write the words, in byte order.", "FILE")] = None,
    unk: UnkAsIs = False,
    map_unk: MapUnk = "<unk>",
    tolower: Tolower = False,
    no_sos: NoSos = False,
    no_eos: NoEos = False,
    stream: Stream = False,
    float_counts: Annotated[bool, option("float-counts", "Read counts that are not whole numbers.")] = False,
):
    """Count the n-grams of texts, and add, sort and limit counts.

    Example: lmtk ngram-count -text train.txt -order 3 -sort -write train.counts.gz
    """
    from lmtk.files.streams import open_out
    from lmtk.ngram.counts import collect, write_counts
    from lmtk.text.corpus import Marks
    from lmtk.text.vocab import read_vocab

    if not (text or read):
        raise UsageError("nothing to count: give -text or -read")
    if not (write or write_n or write_vocab):
        write = "-"
    if limit_vocab and not vocab:
        raise UsageError("-limit-vocab needs -vocab")
    one_stdin(*(text or []), *(read or []), vocab)
    words = read_vocab(vocab, tolower) if vocab else None
    marks, unk_word = Marks.of(no_sos, no_eos, stream), unknown_word(map_unk)
    counts = collect(text or [], read or [], order, words, marks, unk_word, tolower, limit_vocab, float_counts)
    if write:
        with open_out(write) as out:
            write_counts(out, counts, sort)
    for n, path in per_order(write_n, str).items():
        if n > order:
            raise UsageError(f"-write{n}: the order is {order}")
        with open_out(path) as out:
            write_counts(out, counts, sort, only=n)
    if write_vocab:
        with open_out(write_vocab) as out:
            out.write(b"".join(w + b"\n" for w in sorted(counts.words)))
