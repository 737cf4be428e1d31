import contextlib
import os
import sys
import warnings
from functools import partial
from typing import Annotated

from lmtk.commands.options import (
    ClassFile,
    Compact,
    Debug,
    MapUnk,
    Memory,
    NoEos,
    NoSos,
    Order,
    Quantize,
    Stream,
    Texts,
    Tolower,
    VocabFile,
    Write,
    bytes_of,
    one_stdin,
    only_with,
    option,
    per_order,
    tell_memory,
    unknown_word,
)
from lmtk.errors import LmtkWarning, UsageError


def command(
    text: Texts = None,
    read: Annotated[
        list[str] | None, option("read", "Counts to read and add (several).", "FILE", group="Counts")
    ] = None,
    order: Order = 3,
    write: Write = None,
    write_n: Annotated[
        list[str] | None,
        option("writeN", "Write the n-grams of order N alone: -write1 FILE ...", "FILE", group="Counts"),
    ] = None,
    write_order: Annotated[
        int, option("write-order", "Write the n-grams of order N alone by -write (0: all).", "N", min=0, group="Counts")
    ] = 0,
    sort: Annotated[bool, option("sort", "Write n-grams in byte order, else as first seen.", group="Counts")] = False,
    vocab: VocabFile = None,
    limit_vocab: Annotated[
        bool, option("limit-vocab", "Drop read n-grams with words that are not in -vocab.", group="Data")
    ] = False,
    write_vocab: Annotated[
        str | None, option("write-vocab", "Write the words, in byte order.", "FILE", group="Output")
    ] = None,
    classes: ClassFile = None,
    class_lm: Annotated[
        str | None,
        option(
            "class-lm",
            "The class model: it names -classes and -lm or -write-bin, or else is one file.",
            "FILE",
            group="Data",
        ),
    ] = None,
    unk: Annotated[
        bool, option("unk", "The model predicts <unk>, the words that are not in -vocab.", group="Data")
    ] = False,
    map_unk: MapUnk = "<unk>",
    tolower: Tolower = False,
    no_sos: NoSos = False,
    no_eos: NoEos = False,
    stream: Stream = False,
    float_counts: Annotated[
        bool, option("float-counts", "Read counts that are not whole numbers.", group="Counts")
    ] = False,
    lm: Annotated[str | None, option("lm", "The back-off model to write, as ARPA.", "FILE", group="Output")] = None,
    write_bin: Annotated[
        str | None, option("write-bin", "The back-off model to write in binary form.", "FILE", group="Output")
    ] = None,
    write_binary_lm: Annotated[
        bool, option("write-binary-lm", "Write -lm in binary form, as SRILM has it.", group="Output")
    ] = False,
    compact: Compact = False,
    quantize: Quantize = None,
    prune: Annotated[
        float | None,
        option(
            "prune", "Drop n-grams whose loss raises perplexity by less than the share X.", "X", min=0, group="Output"
        ),
    ] = None,
    minprune: Annotated[int, option("minprune", "Prune n-grams of N words or more.", "N", min=2, group="Output")] = 2,
    read_with_mincounts: Annotated[
        bool, option("read-with-mincounts", "Drop read n-grams counted less than -gtNmin.", group="Counts")
    ] = False,
    gtmin: Annotated[
        float | None, option("gtmin", "Leave out n-grams counted less, orders above 9.", "C", min=0, group="Smoothing")
    ] = None,
    gtmin_n: Annotated[
        list[str] | None, option("gtNmin", "Leave out n-grams counted less [1, 1, then 2].", "C", group="Smoothing")
    ] = None,
    gtmax: Annotated[
        int | None, option("gtmax", "Good-Turing up to this count, orders above 9.", "C", min=0, group="Smoothing")
    ] = None,
    gtmax_n: Annotated[
        list[str] | None, option("gtNmax", "Good-Turing up to this count [1, then 7].", "C", group="Smoothing")
    ] = None,
    gt: Annotated[
        list[str] | None,
        option("gtN", "Good-Turing coefficients, read with -lm, else written.", "FILE", group="Smoothing"),
    ] = None,
    kn_all: Annotated[
        str | None, option("kn", "The same as -knN for all orders without a method.", "FILE", group="Smoothing")
    ] = None,
    kn_counts_modified: Annotated[
        bool,
        option(
            "kn-counts-modified",
            "Counts below the highest order are those of words before an n-gram.",
            group="Smoothing",
        ),
    ] = False,
    kn_modify_counts_at_end: Annotated[
        bool,
        option(
            "kn-modify-counts-at-end",
            "Estimate discounts from counts as they are, then modify them.",
            group="Smoothing",
        ),
    ] = False,
    kn: Annotated[
        list[str] | None, option("knN", "Kneser-Ney discounts, read with -lm, else written.", "FILE", group="Smoothing")
    ] = None,
    ndiscount: Annotated[bool, option("ndiscount", "Natural discounting (Ristad).", group="Smoothing")] = False,
    ndiscount_n: Annotated[
        list[int] | None, option("ndiscountN", "The same for order N alone.", group="Smoothing")
    ] = None,
    wbdiscount: Annotated[bool, option("wbdiscount", "Witten-Bell smoothing.", group="Smoothing")] = False,
    wbdiscount_n: Annotated[
        list[int] | None, option("wbdiscountN", "The same for order N alone.", group="Smoothing")
    ] = None,
    cdiscount: Annotated[
        float | None, option("cdiscount", "Absolute discounting by D.", "D", min=0, max=1, group="Smoothing")
    ] = None,
    cdiscount_n: Annotated[
        list[str] | None, option("cdiscountN", "The same for order N alone.", "D", group="Smoothing")
    ] = None,
    addsmooth: Annotated[
        float | None, option("addsmooth", "D added to each count.", "D", min=0, group="Smoothing")
    ] = None,
    addsmooth_n: Annotated[
        list[str] | None, option("addsmoothN", "The same for order N alone.", "D", group="Smoothing")
    ] = None,
    ukndiscount: Annotated[
        bool, option("ukndiscount", "The original Kneser-Ney smoothing.", group="Smoothing")
    ] = False,
    ukndiscount_n: Annotated[
        list[int] | None, option("ukndiscountN", "The same for order N alone.", group="Smoothing")
    ] = None,
    kndiscount: Annotated[
        bool, option("kndiscount", "Modified Kneser-Ney smoothing (Chen and Goodman).", group="Smoothing")
    ] = False,
    kndiscount_n: Annotated[
        list[int] | None, option("kndiscountN", "The same for order N alone.", group="Smoothing")
    ] = None,
    interpolate: Annotated[bool, option("interpolate", "Add lower orders in.", group="Smoothing")] = False,
    interpolate_n: Annotated[
        list[int] | None, option("interpolateN", "The same for order N alone.", group="Smoothing")
    ] = None,
    discount_fallback: Annotated[
        list[str] | None,
        option("discount-fallback", "Kneser-Ney's D1 D2 D3+ where the counts give none.", "[D ...]", group="Smoothing"),
    ] = None,
    heldout: Annotated[
        str | None, option("heldout", "Tune Kneser-Ney's discounts on this text.", "FILE", group="Smoothing")
    ] = None,
    prune_by_count: Annotated[
        list[int] | None,
        option("prune-by-count", "Leave out n-grams seen K times or less; a K an order.", "K", min=0, group="KenLM"),
    ] = None,
    kenlm: Annotated[
        bool, option("kenlm", "As KenLM's lmplz: interpolated modified Kneser-Ney with <unk>.", group="KenLM")
    ] = False,
    limit_vocab_file: Annotated[
        str | None,
        option("limit-vocab-file", "-kenlm: leave out n-grams with words not in this list.", "FILE", group="Data"),
    ] = None,
    interpolate_unigrams: Annotated[
        int,
        option(
            "interpolate-unigrams",
            "-kenlm: with 0 all that the words leave is <unk>'s.",
            "0|1",
            min=0,
            max=1,
            group="KenLM",
        ),
    ] = 1,
    vocab_pad: Annotated[
        int, option("vocab-pad", "-kenlm: <unk> is one of the words that lack to N words.", "N", min=0, group="KenLM")
    ] = 0,
    verbose_header: Annotated[
        bool, option("verbose-header", "-kenlm: say on the first lines of -lm what it was made of.", group="KenLM")
    ] = False,
    kenlm_layout: Annotated[
        bool, option("kenlm-layout", "-kenlm: write -lm with lmplz's lines and digits.", group="KenLM")
    ] = False,
    memory: Memory = None,
    memuse: Annotated[bool, option("memuse", "Say how much memory was used.", group="Parallel")] = False,
    mpi: Annotated[bool, option("mpi", "Share the counting among the ranks of mpiexec.", group="Parallel")] = False,
    debug: Debug = 0,
):
    """Count the n-grams of texts; add, sort and limit counts; estimate a back-off model from them.

    Without a method Good-Turing smoothing (Katz) is used, as in SRILM; n-grams of order 3 and above that are counted
    once are left out, as in SRILM (-gt3min 1 keeps them).

    \b
    Example: lmtk ngram-count -text train.txt -order 3 -kndiscount -interpolate -lm train.lm
    """
    from lmtk.files.streams import open_out
    from lmtk.machine.parallel import ALONE, ranks
    from lmtk.ngram import methods
    from lmtk.ngram.collection import Positions, Text, collect
    from lmtk.ngram.counts import write_counts
    from lmtk.ngram.methods import LONGEST
    from lmtk.text.corpus import Marks
    from lmtk.text.vocab import EOS, SOS, make_vocab, read_vocab

    if not (text or read):
        raise UsageError("nothing to count: give -text or -read")
    if not (write or write_n or write_vocab or lm or write_bin or class_lm or gt or kn or kn_all):
        write = "-"
    if limit_vocab and not vocab and read:
        raise UsageError("-limit-vocab needs -vocab where counts are read")
    limit_vocab = limit_vocab and bool(vocab)
    if read_with_mincounts and text:
        raise UsageError("-read-with-mincounts is for -read alone")
    if write_binary_lm and lm:
        lm, write_bin = None, lm
    only_with(write_bin, "write-bin", compact=compact, quantize=quantize)
    for_kenlm = limit_vocab_file, interpolate_unigrams == 0, vocab_pad, verbose_header
    if any(for_kenlm) and not kenlm:
        raise UsageError("-limit-vocab-file, -interpolate-unigrams, -vocab-pad and -verbose-header are for -kenlm")
    if kenlm_layout and not kenlm:
        raise UsageError("-kenlm-layout is for -kenlm")
    write_arpa = arpa_writer(kenlm_layout, sort)
    if vocab_pad and not interpolate_unigrams:
        raise UsageError("-vocab-pad is for words that are interpolated (-interpolate-unigrams 1)")
    if class_lm and not classes:
        raise UsageError("-class-lm is of the classes that -classes gives")
    if class_lm and (lm or write_bin) and "-" in (classes, lm or write_bin):
        raise UsageError("a class model names its parts' files; stdin and stdout (-) can't be named")
    if heldout and classes:
        raise UsageError("-heldout is a text of words; it does not go with -classes")
    one_stdin(*(text or []), *(read or []), vocab, classes, heldout)
    marks, unk_word = Marks.of(no_sos, no_eos, stream), unknown_word(map_unk)
    model_written = lm or write_bin or class_lm
    model_wanted = bool(model_written or gt or kn or kn_all)
    if kenlm:
        if no_sos or no_eos or stream or unk_word != b"<unk>":
            raise UsageError("-kenlm has <s>, </s> and <unk> as they are")
        unk, kndiscount, interpolate, marks = True, True, True, Marks(blank=True)
    given = {
        "n": (ndiscount, dict.fromkeys(ndiscount_n or [], ())),
        "wb": (wbdiscount, dict.fromkeys(wbdiscount_n or [], ())),
        "cd": (cdiscount is not None and (cdiscount,), per_order(cdiscount_n, alone)),
        "add": (addsmooth is not None and (addsmooth,), per_order(addsmooth_n, alone)),
        "ukn": (ukndiscount, dict.fromkeys(ukndiscount_n or [], ())),
        "kn": (kndiscount, dict.fromkeys(kndiscount_n or [], ())),
    }
    if heldout and not model_wanted:
        raise UsageError("-heldout is for a model; give -lm or -write-bin")
    if not model_wanted and (interpolate or any(everywhere or orders for everywhere, orders in given.values())):
        warnings.warn("smoothing is for a model; give -lm or -write-bin", LmtkWarning, stacklevel=1)
    files = {"gt": per_order(gt, str), "kn": per_order(kn, str)}
    for n in range(1, order + 1) if kn_all else ():
        if not any(n in orders for orders in (*files.values(), *(orders for _, orders in given.values()))):
            files["kn"][n] = kn_all
    if kn_all and (others := [name for name, (everywhere, _) in given.items() if everywhere and name != "kn"]):
        raise UsageError(f"several smoothing methods for all orders: {', '.join([*others, 'kn'])}")
    when = "never" if kn_counts_modified else "after" if kn_modify_counts_at_end else "before"
    floor = per_order(gtmin_n, float)
    upto = per_order(gtmax_n, int)
    cutoffs = prune_by_count or [0]
    if cutoffs[0] or cutoffs != sorted(cutoffs):
        raise UsageError(
            "-prune-by-count takes 0 for words (lmtk vocab -mincount leaves words out), then rising numbers"
        )
    chosen = []
    for n in range(1, order + 1) if model_wanted else ():
        name, parameters = method_of(n, given, files)
        cutoff = cutoffs[min(n, len(cutoffs)) - 1]
        if kenlm:
            chosen.append(methods.lmplz(n, name, cutoff, bool(interpolate_unigrams)))
        else:
            lower = interpolate or n in (interpolate_n or [])
            most = upto.get(n, gtmax if n > 9 else None)
            chosen.append(methods.srilm(n, name, parameters, lower, floor.get(n), gtmin, most, cutoff, when))
        if float_counts and chosen[-1].smoothing.discounts:
            raise UsageError(f"order {n}: Good-Turing and Kneser-Ney smoothing need whole counts; see -wbdiscount{n}")
        if heldout and not (chosen[-1].smoothing.continuation and chosen[-1].interpolate):
            raise UsageError(f"order {n}: -heldout tunes interpolated Kneser-Ney smoothing (-kndiscount -interpolate)")

    replace = None
    if classes:
        from lmtk.ngram.classes import read_classes, replaced

        given_classes = read_classes(classes)
        replace = partial(replaced, classes=given_classes)
        unk = unk and unk_word not in given_classes.members  # its class is predicted in its place

    def vocabulary_of(words):
        return make_vocab(words, unk, True, unk_word, vocab or (text or read)[0])

    def tell(line):
        if debug:
            sys.stderr.write(line + "\n")

    read_from = {n: (path, name) for name, paths in files.items() for n, path in paths.items() if model_written}

    def discounts_given():
        return {n: methods.read_discounts(path, chosen[n - 1]) for n, (path, _) in read_from.items() if n <= order}

    kept = (tolower, limit_vocab, float_counts, bytes_of(memory) if memory else None)
    # large texts: no counts, if the model alone is wanted, by its text
    special = heldout or class_lm or read_with_mincounts or prune or limit_vocab_file or vocab_pad or verbose_header
    positions = bool(lm or write_bin) and not (write or write_n or special) and 2 <= order <= LONGEST
    positions &= all(method.counts == "before" for method in chosen)
    parts = not (write_bin or sort)  # these make the whole model in memory
    with ranks() if mpi else contextlib.nullcontext(ALONE) as comm:
        if comm.size > 1 and (stream or "-" in (text or [])):
            raise UsageError("-mpi wants texts of sentences, in files that every rank can read")
        words = comm.share(lambda: read_vocab(vocab, tolower) if vocab else None)
        counts = collect(text or [], read or [], order, words, marks, unk_word, *kept, comm, replace, positions, parts)
        if isinstance(counts, Text):
            vocabulary = comm.each(partial(vocabulary_of, counts.words))
            known = comm.each(discounts_given)
            given = fallback_discounts(discount_fallback), tell, known, kenlm
            if comm.rank == 0 and write_vocab:
                write_words(write_vocab, counts.words)
            write_in_buckets(counts, vocabulary, chosen, marks, kept[3], comm, given, lm)
            if memuse:
                tell_memory()
            return
    if comm.rank:
        return
    if read_with_mincounts:
        least = [floor.get(n, (gtmin or 1) if n > 9 else 1 if n < 3 else 2) for n in range(1, order + 1)]
        counts = frequent(counts, least)
    vocabulary = vocabulary_of(counts.words) if model_wanted else None
    if classes and not vocab and (left := len({*counts.words} - {*given_classes.names, SOS, EOS, unk_word})):
        told = f"words without a class, which stay words of the model: {left}; -vocab says which it may have"
        warnings.warn(told, LmtkWarning, stacklevel=1)
    if write:
        with open_out(write) as out:
            write_counts(out, counts, sort, only=write_order or None)
    for n, path in per_order(write_n, str).items():
        if n > order:
            raise UsageError(f"-write{n}: the order is {order}")
        with open_out(path) as out:
            write_counts(out, counts, sort, only=n)
    if write_vocab:
        write_words(write_vocab, counts.words)
    if not model_wanted:
        return
    from lmtk.ngram import backoff, merge, pruning, smoothing

    known = discounts_given()
    if heldout:
        from lmtk.ngram.heldout import tuned
        from lmtk.text.corpus import whole_corpus

        known = tuned(counts, vocabulary, order, chosen, whole_corpus(heldout, vocabulary, marks, tolower)) | known
    given = fallback_discounts(discount_fallback), tell, known, kenlm
    if isinstance(counts, Positions):
        from lmtk.ngram import engine, printing, suffix

        ids = counts.of(vocabulary)
        del counts
        ngrams = suffix.suffix_order(ids, order, len(vocabulary.words) - 1, marks)
        del ids
        model, _ = engine.estimate(ngrams, vocabulary, chosen, marks, *given)
        if lm and not (sort or kenlm_layout):
            with open_out(lm) as out:
                printing.write_estimate(out, model)
        whole = engine.backoff_of(model) if write_bin or sort or kenlm_layout else None
        if lm and (sort or kenlm_layout):
            with open_out(lm) as out:
                write_arpa(out, whole)
        if write_bin:
            with open_out(write_bin) as out:
                backoff.write_binary(out, whole, compact, quantize or 0)
        return
    listed = set(read_vocab(limit_vocab_file, tolower)) if limit_vocab_file else None
    first = counts.levels[0]
    seen = zip(first.keys, first.count) if verbose_header else ()
    tokens = sum(int(count) for w, count in seen if counts.words[w] not in (b"<s>", b"</s>"))
    own = (listed, vocab_pad) if kenlm else ()
    model, used = smoothing.estimate(counts, vocabulary, order, chosen, *given, *own)
    del counts  # its memory serves the writing
    if listed is not None:
        model = merge.limited(model, listed)
    if prune:
        model = pruning.pruned(model, prune, minprune)
    for n, path in sorted({**files["gt"], **files["kn"]}.items()):
        if not read_from and n <= order:
            with open_out(path) as out:
                methods.write_discounts(out, used[n - 1])
    if lm:
        with open_out(lm) as out:
            if verbose_header:
                source = os.path.realpath(path) if (path := (text or read)[0]) != "-" else path
                out.write(f"# Input file: {source}\n# Token count: {tokens}\n".encode())
                out.write(b"# Smoothing: Modified Kneser-Ney\n")
            write_arpa(out, model)
    if write_bin:
        with open_out(write_bin) as out:
            backoff.write_binary(out, model, compact, quantize or 0)
    if class_lm:
        from lmtk.joint import classes as classlm

        with open_out(class_lm) as out:
            if lm or write_bin:
                classlm.write_text(out, lm or write_bin, classes, class_lm)
            else:
                classlm.write_binary(out, classlm.class_model(model, class_lm, classes, given_classes), class_lm)
    if memuse:
        tell_memory()


def arpa_writer(kenlm_layout, sort):
    """What writes a back-off model to an ARPA file."""
    if kenlm_layout:
        from lmtk.ngram import kenlm_text

        return kenlm_text.write_text
    from lmtk.ngram import arpa

    return partial(arpa.write_text, sort=sort)


def write_words(path, words):
    from lmtk.files.streams import open_out

    with open_out(path) as out:
        out.write(b"".join(w + b"\n" for w in sorted(words)))


def write_in_buckets(text, vocabulary, chosen, marks, memory, comm, given, lm):
    """The model of a collection.Text, written by rank 0."""
    from lmtk.files.streams import open_out
    from lmtk.ngram import buckets

    model = buckets.estimate(text, vocabulary, chosen, marks, memory, comm, *given)
    with open_out(lm) if comm.rank == 0 else contextlib.nullcontext() as out:
        buckets.write_arpa(out, model)


def frequent(counts, least):
    """The counts without the n-grams of order k that are counted less than least[k - 1]."""
    from dataclasses import replace

    import numpy as np

    levels = [replace(x, count=np.where(x.count < low, 0, x.count)) for x, low in zip(counts.levels, least)]
    return replace(counts, levels=levels)


def method_of(n, given, files):
    """The smoothing of order n, by its own option, else by the one for all orders, else Good-Turing; its parameters."""
    own = [(name, orders[n]) for name, (_, orders) in given.items() if n in orders]
    own += [(name, ()) for name, paths in files.items() if n in paths and not (name == "kn" and n in given["ukn"][1])]
    if len({name for name, _ in own}) > 1:
        raise UsageError(f"several smoothing methods for order {n}: {', '.join(sorted({name for name, _ in own}))}")
    if own:
        return own[0]
    for name, (everywhere, _) in given.items():
        if everywhere:
            return name, everywhere if everywhere is not True else ()
    return "gt", ()


def fallback_discounts(values):
    """D1, D2, D3+ of -discount-fallback, or None where it was not given."""
    if not values:
        return None
    if values == ["default"]:
        return 0.5, 1.0, 1.5
    try:
        D = [positive(v) for v in values]
    except ValueError:
        raise UsageError("-discount-fallback takes numbers: D1 D2 D3+") from None
    if len(D) > 3 or any(d > r for r, d in enumerate(D, 1)):
        raise UsageError("-discount-fallback takes up to three discounts, D1 up to 1, D2 up to 2, D3+ up to 3")
    return *D, *[D[-1]] * (3 - len(D))


def alone(text):
    return (positive(text),)


def positive(text):
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError
    return value
