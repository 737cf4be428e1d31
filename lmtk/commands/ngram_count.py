import contextlib
import os
import warnings
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Annotated

from lmtk.commands import smoothing
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
    check_outputs,
    from_stdin,
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
    text_has_weights: Annotated[
        bool,
        option("text-has-weights", "A line of -text begins with how often its n-grams count.", group="Data"),
    ] = False,
    text_has_weights_last: Annotated[
        bool, option("text-has-weights-last", "A line of -text ends with that number.", group="Data")
    ] = False,
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
    recompute: Annotated[
        bool,
        option("recompute", "Count n-grams as often as those that go on from them.", group="Counts"),
    ] = False,
    sort: Annotated[bool, option("sort", "Write n-grams in byte order, else as first seen.", group="Counts")] = False,
    vocab: VocabFile = None,
    limit_vocab: Annotated[
        bool, option("limit-vocab", "Drop read n-grams with words that are not in -vocab.", group="Data")
    ] = False,
    nonevents: Annotated[
        str | None,
        option("nonevents", "Words that occur in contexts only and are never predicted.", "FILE", group="Data"),
    ] = None,
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
    maxent: Annotated[
        bool, option("maxent", "A maximum-entropy model of all n-grams, as SRILM estimates it.", group="Smoothing")
    ] = False,
    maxent_alpha: Annotated[
        float,
        option("maxent-alpha", "-maxent: A times the sum of |weight| is made small.", "A", min=0, group="Smoothing"),
    ] = 0.5,
    maxent_sigma2: Annotated[
        float,
        option("maxent-sigma2", "-maxent: variance of the weights' Gaussian prior.", "S", min=0, group="Smoothing"),
    ] = 6.0,
    trust_totals: Annotated[
        bool,
        option("trust-totals", "A context is seen as often as its own count says.", group="Smoothing"),
    ] = False,
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
    open_end: Annotated[
        bool, option("open-end", "-kenlm: a last line without a line end has no </s>.", group="KenLM")
    ] = False,
    skip_symbols: Annotated[
        bool, option("skip-symbols", "-kenlm: <s>, </s> and <unk> in -text are not words.", group="KenLM")
    ] = False,
    memory: Memory = None,
    memuse: Annotated[bool, option("memuse", "Print the most memory that was used.", group="Parallel")] = False,
    mpi: Annotated[bool, option("mpi", "Share the work among the ranks of mpiexec.", group="Parallel")] = False,
    debug: Debug = 0,
):
    """Count the n-grams of texts; add, sort and limit counts; estimate a back-off model from them.

    Without a method Good-Turing smoothing (Katz) is used, as in SRILM; n-grams of order 3 and above that are counted
    once are left out, as in SRILM (-gt3min 1 keeps them).

    \b
    Example: lmtk ngram-count -text train.txt -order 3 -kndiscount -interpolate -lm train.lm
    """
    o = SimpleNamespace(**locals())
    o.text_has_weights |= text_has_weights_last
    check(o)
    settle(o)
    o.methods = smoothing.methods_of(o) if o.model_wanted and not o.maxent else []

    from lmtk.machine.parallel import ALONE, pooled, tell_alone
    from lmtk.ngram.collection import Text
    from lmtk.ngram.runs import Spilled

    if not mpi:
        tell_alone()
    with pooled() if mpi else contextlib.nullcontext(ALONE) as comm:
        if comm and comm.size > 1 and memory and not shared(o):  # counts go to disk in one process alone
            comm = None if comm.rank else ALONE
        if comm:
            together(o, comm)
    if not comm or comm.rank:
        return
    if not (isinstance(o.counts, Text | Spilled) and o.model_wanted):  # else all is written
        o.vocabulary = vocabulary_of(o) if o.model_wanted else None
        write_what_was_counted(o)
        if o.model_wanted:
            write_model(o)
    if memuse:
        tell_memory()


def check(o):
    """Raise UsageError where options do not go together."""
    model_wanted = o.lm or o.write_bin or o.class_lm or o.gt or o.kn or o.kn_all
    for_kenlm = o.limit_vocab_file or o.interpolate_unigrams == 0 or o.vocab_pad or o.verbose_header
    cutoffs = o.prune_by_count or [0]
    refused = {
        f"nothing to count: give -text or -read{from_stdin()}": not (o.text or o.read),
        "-limit-vocab needs -vocab where counts are read": o.limit_vocab and not o.vocab and o.read,
        f"-write-order {o.write_order}: the order is {o.order}": o.write_order > o.order,
        "-read-with-mincounts is for -read alone": o.read_with_mincounts and o.text,
        "-text-has-weights needs -text, and does not go with -stream or -kenlm": o.text_has_weights
        and (not o.text or o.stream or o.kenlm),
        "-limit-vocab-file, -interpolate-unigrams, -vocab-pad and -verbose-header are for -kenlm": for_kenlm
        and not o.kenlm,
        "-kenlm-layout is for -kenlm": o.kenlm_layout and not o.kenlm,
        "-open-end and -skip-symbols are for -text and -kenlm, without -vocab": (o.open_end or o.skip_symbols)
        and (not o.kenlm or not o.text or o.vocab),
        "-vocab-pad is for words that are interpolated (-interpolate-unigrams 1)": o.vocab_pad
        and not o.interpolate_unigrams,
        "-class-lm is of the classes that -classes gives": o.class_lm and not o.classes,
        "a class model names its parts' files; stdin and stdout (-) can't be named": o.class_lm
        and (o.lm or o.write_bin)
        and "-" in (o.classes, o.lm or o.write_bin),
        "-heldout is a text of words; it does not go with -classes": o.heldout and o.classes,
        "-heldout is for a model; give -lm or -write-bin": o.heldout and not model_wanted,
        "-kenlm has <s>, </s> and <unk> as they are": o.kenlm
        and (o.no_sos or o.no_eos or o.stream or o.map_unk not in (None, "<unk>")),
        "-nonevents does not go with -kenlm and -maxent": o.nonevents and (o.kenlm or o.maxent),
        "-trust-totals and -recompute do not go with -kenlm, -memory and -mpi": (o.trust_totals or o.recompute)
        and (o.kenlm or o.memory or o.mpi),
        "-trust-totals does not go with -maxent and -heldout": o.trust_totals and (o.maxent or o.heldout),
        "-maxent-sigma2 is above 0": not o.maxent_sigma2,
        "-maxent does not go with -kenlm, -heldout, -prune-by-count and files of discounts": o.maxent
        and (o.kenlm or o.heldout or o.prune_by_count or o.gt or o.kn or o.kn_all),
        "-prune-by-count takes 0 for words (lmtk vocab -mincount leaves words out), then rising numbers": cutoffs[0]
        or cutoffs != sorted(cutoffs),
    }
    for why, so in refused.items():
        if so:
            raise UsageError(why)
    only_with(o.write_bin or (o.write_binary_lm and o.lm), "write-bin", compact=o.compact, quantize=o.quantize)
    one_stdin(*(o.text or []), *(o.read or []), o.vocab, o.nonevents, o.classes, o.heldout)


def settle(o):
    """Put into o what follows from several options.

    marks: a text.corpus.Marks. unk_word: bytes. given, files: as smoothing.asked_for has them.
    model_written, model_wanted: whether there is a model to write; to estimate. outputs: files, None where one is not
    wanted. own: -classes' given_classes, or None.
    """
    from lmtk.text.corpus import Marks

    if not (o.write or o.write_n or o.write_vocab or o.lm or o.write_bin or o.class_lm or o.gt or o.kn or o.kn_all):
        o.write = "-"
    o.limit_vocab = o.limit_vocab and bool(o.vocab)
    if o.write_binary_lm and o.lm:
        o.lm, o.write_bin = None, o.lm
    o.marks, o.unk_word = Marks.of(o.no_sos, o.no_eos, o.stream, o.tolower), unknown_word(o.map_unk)
    if o.kenlm:
        o.unk, o.kndiscount, o.interpolate = True, True, True
        o.marks = Marks(blank=True, tolower=o.tolower, open_end=o.open_end, skip_symbols=o.skip_symbols)
    o.memory = bytes_of(o.memory) if o.memory else None
    o.model_written = o.lm or o.write_bin or o.class_lm
    o.model_wanted = bool(o.model_written or o.gt or o.kn or o.kn_all)
    o.given, o.files = smoothing.asked_for(o)
    # of all orders in one file those of the last stay
    discounts = [path for paths in o.files.values() for path in paths.values() if path != o.kn_all]
    discounts = [] if o.model_written else [*discounts, o.kn_all]
    counts = per_order(o.write_n, "writeN").values()
    o.outputs = o.write, *counts, o.write_vocab, o.lm, o.write_bin, o.class_lm, *discounts
    o.own = None
    if o.classes:
        from lmtk.ngram.classes import read_classes

        o.own = read_classes(o.classes)
        o.unk = o.unk and o.unk_word not in o.own.members  # its class is predicted in its place


def together(o, comm):
    """What the ranks do together: counting, and the model where it is made in buckets."""
    from lmtk.ngram.collection import Text
    from lmtk.ngram.runs import Spilled
    from lmtk.text.vocab import read_vocab

    if comm.size > 1 and (o.stream or "-" in (o.text or [])):
        raise UsageError("on several machines -mpi wants texts of sentences, in files that each of them can read")
    inputs = [path for path in o.read or [] if path != o.write]  # counts and word lists may be made in place
    inputs += [o.classes, o.heldout, o.nonevents, o.vocab if o.vocab != o.write_vocab else None]
    comm.each(partial(check_outputs, *o.outputs, texts=o.text or [], inputs=inputs))
    o.limited_to = comm.share(lambda: listed(o))
    o.nonevents = comm.share(lambda: read_vocab(o.nonevents, o.tolower) if o.nonevents else [])
    o.counts = counted(o, comm)
    # whether -lm is not the model as it is estimated, and the whole is wanted, as a Backoff
    o.changed = bool(o.model_written) and bool(
        o.sort or o.prune or o.limit_vocab_file or (o.kenlm_layout and o.counts.has(o.unk_word))
    )
    o.as_nodes = bool(o.changed or o.write_bin or o.class_lm)
    if isinstance(o.counts, Text | Spilled) and o.model_wanted:
        model_in_buckets(o, comm)


def shared(o):
    """Whether machines share the job to its end: a model of texts, written with -lm alone, as it is estimated."""
    changed = o.sort or o.prune or o.limit_vocab_file or o.maxent
    more = o.read or o.write or o.write_n or o.write_bin or o.class_lm or o.verbose_header
    return bool(o.lm and not changed and not more)


def counted(o, comm):
    """collection.Counts; or Positions, if the model alone is wanted and a large text's is made without counts; or a
    Text, where memory is bounded or ranks share the work.
    """
    from lmtk.ngram.classes import replaced
    from lmtk.ngram.collection import FIRST, LAST, Positions, Text, collect, in_memory
    from lmtk.ngram.runs import Spilled
    from lmtk.text.vocab import EOS, SOS, read_vocab

    # where memory is bounded a text is read once for the model and once for its counts
    twice = o.memory and o.model_wanted and (o.write or o.write_n) and comm.size == 1
    twice = twice and not o.read and not o.text_has_weights and all(map(os.path.isfile, o.text))
    counts_wanted = ((o.write or o.write_n) and not twice) or o.maxent or o.trust_totals or o.recompute
    positions = o.model_wanted and not counts_wanted and o.order > 1
    parts = comm.size == 1 or shared(o)
    words = comm.share(lambda: [*read_vocab(o.vocab, o.tolower), *o.nonevents] if o.vocab else None)
    classed = partial(replaced, classes=o.own) if o.own else None
    kept = o.limit_vocab, o.float_counts, o.memory
    texts, weighted = ([], o.text) if o.text_has_weights else (o.text or [], [])
    given = o.read or [], o.order, words, o.marks, o.unk_word, *kept, comm, classed
    weight_of = LAST if o.text_has_weights_last else FIRST
    collected = partial(collect, texts, *given, weighted=weighted, weight_of=weight_of)
    counts = collected(positions, parts)
    if comm.size > 1 and isinstance(counts, Text) and o.kenlm_layout and comm.total(counts.has(o.unk_word)):
        counts = collected(positions)
    o.written = counts
    if twice and isinstance(counts, Text | Positions):
        o.written = collected()
    if o.read_with_mincounts and comm.rank == 0:
        floor = per_order(o.gtmin_n, "gtNmin", float)
        least = [floor.get(n, (o.gtmin or 1) if n > 9 else 1 if n < 3 else 2) for n in range(1, o.order + 1)]
        counts = o.written = counts.frequent(least, {*(words or ()), SOS, EOS, o.unk_word})
    if o.recompute:
        counts = o.written = counts.recomputed()
    if isinstance(counts, Spilled) and o.model_wanted:
        bucketed = not o.maxent and o.order > 1 and counts.in_sentences()
        return counts if bucketed else in_memory(counts, o.memory)
    return counts


def vocabulary_of(o):
    from lmtk.text.vocab import make_vocab

    source = o.vocab or (o.text or o.read)[0]
    return make_vocab(o.counts.words, o.unk, True, o.unk_word, source, o.nonevents)


def model_in_buckets(o, comm):
    """The model of a collection.Text, or of runs.Spilled, or its discounts, written by rank 0."""
    from lmtk.jobs.bar import Bar
    from lmtk.machine.memory import at_most
    from lmtk.ngram.buckets import assembly, estimating, writing

    o.vocabulary, recipe = comm.each(lambda: (vocabulary_of(o), smoothing.recipe_of(o, o.limited_to)))
    if comm.rank == 0:
        write_what_was_counted(o)
    if o.memory:
        at_most(o.memory)
    layout = layout_of(o)
    with Bar(o.debug > 0 or comm.rank > 0) as bar:
        recipe = replace(recipe, heldout=comm.share(lambda: held_out(o)))
        job = estimating.count(o.counts, o.vocabulary, recipe, o.marks, o.memory, comm, bar)
        smoothing.write_discounts(o, job.methods)
        if not o.model_written:
            return
        estimating.estimate(job)
        write = lambda out: writing.write_arpa(out, job, o.lm, layout)
        if comm.rank:
            write(None)
        else:
            write_estimate(o, write, partial(assembly.backoff_of, job, o.memory))
    sent = comm.total(comm.sent)
    if sent and comm.rank == 0:
        recipe.tell(f"the ranks sent one another {sent} bytes")


def write_what_was_counted(o):
    """Write the counts and words that are asked for."""
    from lmtk.files.streams import open_out
    from lmtk.ngram.counts import write_counts
    from lmtk.text.vocab import EOS, SOS

    words = o.counts.words
    if o.own and not o.vocab and (left := len({*words} - {*o.own.names, SOS, EOS, o.unk_word})):
        told = f"words without a class, which stay words of the model: {left}; -vocab says which it may have"
        warnings.warn(told, LmtkWarning, stacklevel=1)
    if o.write:
        with open_out(o.write) as out:
            write_counts(out, o.written, o.sort, only=o.write_order or None)
    for n, path in per_order(o.write_n, "writeN").items():
        if n > o.order:
            raise UsageError(f"-write{n}: the order is {o.order}")
        with open_out(path) as out:
            write_counts(out, o.written, o.sort, only=n)
    del o.written
    if o.write_vocab:
        write_words(o.write_vocab, {*words, *o.nonevents})


def write_model(o):
    """Write the model of what was counted, and the discounts that are asked for."""
    from lmtk.ngram import backoff, engine, printing

    layout = layout_of(o)
    model, used = estimated(o)
    smoothing.write_discounts(o, used)
    if isinstance(model, backoff.Backoff):
        write_backoff(o, model, o.lm)
    else:
        write = partial(printing.write_estimate, model=model, layout=layout, own=not o.as_nodes)
        write_estimate(o, write, partial(engine.backoff_of, model))


def write_estimate(o, write, backoff_of):
    """Write a model as it is estimated: as ARPA by write(out), if it is not changed; all else from backoff_of(home),
    home being as `building.in_file` has it.
    """
    from lmtk.files.streams import open_out
    from lmtk.ngram import backoff, building

    if o.lm and not o.changed:
        with open_out(o.lm) as out:
            write(out)
    if o.write_bin and not (o.changed or o.compact or o.quantize or o.class_lm):
        with open_out(o.write_bin) as out:
            backoff.write_binary(out, backoff_of(partial(building.in_file, out)))
    elif o.as_nodes:
        write_backoff(o, backoff_of(None), o.changed and o.lm)


def write_backoff(o, model, lm):
    """Write a Backoff model, once it is changed, to the files that are asked for, as ARPA to `lm`."""
    from lmtk.files.streams import open_out
    from lmtk.ngram import compact

    model = changed_model(o, model)
    if lm:
        with open_out(lm) as out:
            out.write(o.header)
            write_arpa(o, out, model, own=not (o.write_bin or o.class_lm))
    if o.write_bin:
        with open_out(o.write_bin) as out:
            compact.write_binary(out, model, o.compact, o.quantize or 0)
    if o.class_lm:
        write_class_model(o, model)


def estimated(o):
    """(the model of what was counted, as estimation.estimate has it; the methods with their discounts)."""
    from lmtk.ngram import estimation, maxent

    counted, recipe = [vars(o).pop("counts")], smoothing.recipe_of(o, o.limited_to)
    if o.maxent:
        return maxent.estimate(counted[0], o.vocabulary, o.order, o.maxent_alpha, o.maxent_sigma2, recipe.tell), None
    recipe = replace(recipe, heldout=held_out(o))
    return estimation.estimate(counted, o.vocabulary, recipe, o.marks, o.as_nodes)


def held_out(o):
    """The heldout.HeldOut of -heldout, or None."""
    if not o.heldout:
        return None
    from lmtk.ngram.heldout import held_out
    from lmtk.text.corpus import whole_corpus

    return held_out(whole_corpus(o.heldout, o.vocabulary, o.marks), o.vocabulary, o.methods)


def listed(o):
    """The words of -limit-vocab-file, which may be a pipe and so is read once; or None."""
    from lmtk.files.streams import WORD, lines
    from lmtk.text.vocab import lower

    if not o.limit_vocab_file:
        return None
    words = {word for _, line in lines(o.limit_vocab_file, True) for word in WORD.findall(line)}
    return set(map(lower, words)) if o.tolower else words


def changed_model(o, model):
    """A Backoff model without the n-grams that are not wanted."""
    from lmtk.ngram import merge, pruning

    if o.limit_vocab_file:
        model = merge.limited(model, o.limited_to)
    return pruning.pruned(model, o.prune, o.minprune, own=True) if o.prune else model


def write_class_model(o, model):
    from lmtk.files.streams import open_out
    from lmtk.joint import classes

    with open_out(o.class_lm) as out:
        if o.lm or o.write_bin:
            classes.write_text(out, o.lm or o.write_bin, o.classes, o.class_lm)
        else:
            classes.write_binary(out, classes.class_model(model, o.class_lm, o.classes, o.own), o.class_lm)


def header(o):
    """What lmplz's --verbose_header has on the first lines."""
    source = (o.text or o.read)[0]
    path = os.path.realpath(source if source != "-" else "/dev/stdin")
    source = path if source != "-" or os.path.isfile(path) else "stdin"
    return f"# Input file: {source}\n# Token count: {o.counts.tokens}\n# Smoothing: Modified Kneser-Ney\n".encode()


def layout_of(o):
    """How -lm is laid out where it is no Backoff model, None for as usual."""
    from lmtk.ngram import kenlm_text, printing

    o.header = header(o) if o.verbose_header else b""
    if not (o.kenlm_layout or o.header):
        return None
    layout = kenlm_text.layout(o.vocabulary, o.order) if o.kenlm_layout else printing.plain(o.vocabulary.words)
    return replace(layout, begin=o.header + layout.begin)


def write_arpa(o, out, model, own):
    from lmtk.ngram import arpa, kenlm_text

    if o.kenlm_layout:
        kenlm_text.write_text(out, model)
    else:
        arpa.write_text(out, model, o.sort, own)


def write_words(path, words):
    from lmtk.files.streams import open_out

    with open_out(path) as out:
        out.write(b"".join(w + b"\n" for w in sorted(words)))
