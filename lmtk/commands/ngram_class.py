import math
from types import SimpleNamespace
from typing import Annotated

from lmtk.commands.options import (
    MANY,
    Debug,
    MapUnk,
    NoEos,
    NoSos,
    Quiet,
    Stream,
    Texts,
    Tolower,
    VocabFile,
    check_outputs,
    from_stdin,
    needed,
    one_stdin,
    option,
    unknown_word,
)
from lmtk.errors import LmtkError, UsageError, counted, name_of


def command(
    text: Texts = None,
    counts: Annotated[
        list[str] | None,
        option("counts", "Counts of n-grams, of which the 2-grams serve (several).", "FILE", group="Data"),
    ] = None,
    vocab: VocabFile = None,
    map_unk: MapUnk = "<unk>",
    tolower: Tolower = False,
    no_sos: NoSos = False,
    no_eos: NoEos = False,
    stream: Stream = False,
    numclasses: Annotated[
        int | None, option("numclasses", "The number of classes.", "N", min=2, group="Classes")
    ] = None,
    init: Annotated[str | None, option("init", "Classes to start from.", "FILE", group="Classes")] = None,
    noclass_vocab: Annotated[
        str | None,
        option("noclass-vocab", "Words that stay out of the classes, as <s> and </s> do.", "FILE", group="Classes"),
    ] = None,
    incremental: Annotated[
        bool,
        option(
            "incremental", "Merge classes (Brown et al.): words come in turn, N classes at a time.", group="Classes"
        ),
    ] = False,
    full: Annotated[bool, option("full", "Merge classes, starting from one for each word.", group="Classes")] = False,
    iterations: Annotated[
        int | None,
        option(
            "iterations",
            "At most N passes over the words (default: until none moves; 0 after merging).",
            "N",
            min=0,
            group="Classes",
        ),
    ] = None,
    save: Annotated[
        int | None,
        option("save", "Write the classes after every N mergers too, to CLASSES.N.", "N", min=1, group="Output"),
    ] = None,
    seed: Annotated[
        int | None,
        option("seed", "Start from classes drawn at random, frequent words aside.", "N", min=0, group="Classes"),
    ] = None,
    threads: Annotated[
        int,
        option(
            "threads",
            "Threads of the exchange; the classes are the same from 2 on.",
            "N",
            min=1,
            max=MANY,
            group="Parallel",
        ),
    ] = 1,
    classes: Annotated[
        str | None, option("classes", "Where to write the classes (-: stdout).", "FILE", group="Output")
    ] = None,
    class_counts: Annotated[
        str | None, option("class-counts", "Where to write the 1-grams and 2-grams of classes.", "FILE", group="Output")
    ] = None,
    write_paths: Annotated[
        str | None,
        option(
            "write-paths", "Where to write each word's path in the tree of classes, as 0 and 1.", "FILE", group="Output"
        ),
    ] = None,
    quiet: Quiet = False,
    debug: Debug = 0,
):
    """Sort words into classes that make the text likely under a class bigram: by Kneser and Ney's exchange algorithm,
    or by Brown's merging.

    -debug 1 prints the likelihood and the perplexity after each pass.

    \b
    Example: lmtk ngram-class -text train.txt -numclasses 500 -classes train.classes
    """
    o = SimpleNamespace(**locals())
    check(o)

    from lmtk.files.streams import open_out
    from lmtk.ngram import classes as induction
    from lmtk.ngram.counts import write_counts

    check_outputs(classes, class_counts, write_paths, texts=text or [], inputs=[*(counts or []), vocab, noclass_vocab])
    start = induction.read_classes(init) if init else None
    job = to_sort(o, start)
    state = sort(o, job, start)
    result = induction.made(job.data, state, job.unseen, job.unk)
    if classes:
        with open_out(classes) as out:
            induction.write_classes(out, result)
    if class_counts:
        with open_out(class_counts) as out:
            write_counts(out, induction.class_counts(job.data, result), by_bytes=True)
    if write_paths:
        with open_out(write_paths) as out:
            induction.write_paths(out, job.data, result)


def check(o):
    """Raise UsageError where options do not go together."""
    merging = o.incremental or o.full
    if not (o.text or o.counts):
        raise UsageError(f"nothing to learn from: give -text or -counts{from_stdin()}")
    if not (o.classes or o.class_counts or o.write_paths):
        raise UsageError("nothing to write: give -classes, -class-counts or -write-paths")
    if not o.init:
        needed(o.numclasses, "numclasses")
    if o.seed is not None and (o.init is not None or merging):
        raise UsageError("-seed is a way to start, and so are -init and merging (-incremental, -full)")
    if o.save and not (o.classes and merging):
        raise UsageError("-save writes -classes while they are merged (-incremental, -full)")
    one_stdin(*(o.text or []), *(o.counts or []), o.vocab, o.init, o.noclass_vocab)


def to_sort(o, start):
    """What there is to sort: data, the bigrams; words, those to sort, by use; unseen, those without a count; G, the
    number of classes; unk, the word for unknown ones. start: the classes of -init, or None.
    """
    from lmtk.ngram import classes as induction
    from lmtk.ngram.collection import collect
    from lmtk.text.corpus import Marks
    from lmtk.text.vocab import EOS, SOS, read_vocab

    texts, files = o.text or [], o.counts or []
    marks, unk = Marks.of(o.no_sos, o.no_eos, o.stream, o.tolower), unknown_word(o.map_unk)
    listed = read_vocab(o.vocab, o.tolower) if o.vocab else None
    apart = {SOS, EOS, *(read_vocab(o.noclass_vocab, o.tolower) if o.noclass_vocab else ())}
    found = collect(texts, files, 2, listed, marks, unk)
    source = (texts + files)[0]
    if found.order < 2 or not found.levels[1].count.sum():
        raise LmtkError(f"{name_of(source)}: no 2-grams in it to learn from")
    data = induction.bigrams(found)
    free = [w for w, word in enumerate(data.words) if word not in apart]
    words = induction.by_use(data, [w for w in free if data.uses[w]])
    unseen = [w for w in free if not data.uses[w] and data.words[w] != unk]
    merging = o.incremental or o.full
    G = len(start.names) if start and not (merging and o.numclasses) else min(o.numclasses, max(len(words), 2))
    if start and not merging and o.numclasses not in (None, G):
        raise UsageError(f"-numclasses is {o.numclasses}, and -init has {counted(G, 'class', 'classes')}")
    if G < 2:
        raise LmtkError(f"{o.init}: all words are in one class; two or more classes were wanted")
    if len(words) < G:
        raise LmtkError(f"{counted(len(words), 'word')} can't make {G} classes; is it the right text?")
    return SimpleNamespace(data=data, words=words, unseen=unseen, G=G, unk=unk)


def sort(o, job, start):
    """The words in classes, as `classes.exchange_of` has them, merged and exchanged as the options o say."""
    from lmtk.jobs.bar import Bar
    from lmtk.ngram import classes as induction

    data, words, G = job.data, job.words, job.G
    merging = o.incremental or o.full
    with Bar(o.quiet) as bar:

        def tell(what):
            if o.debug:
                L = induction.log_likelihood(state)
                ppl = math.exp(-L / data.count.sum())
                bar.tell(f"{what}, logprob= {L / math.log(10):.7g} ppl= {ppl:.7g}")

        if start:
            g = induction.given_classes(data, words, start, o.init)
        if merging:
            g = merged(o, job, g if start else None, bar)
        elif not start:
            g = induction.frequency_classes(data, words, G, o.seed)
        state = induction.exchange_of(data, g, G, words)
        tell(f"{len(words)} words in {G} classes")
        number = 1
        iterations = o.iterations or 0 if merging else o.iterations
        for share, moved in induction.passes(state, iterations, o.threads):
            bar(share, f"pass {number}: {counted(moved, 'word')} moved")
            if share == 1:
                tell(f"pass {number}: {counted(moved, 'word')} moved")
                number += 1
    return state


def merged(o, job, g, bar):
    """The class of each word after merging; g: the classes to start from, which are merged as words are, or None."""
    import numpy as np

    from lmtk.files.streams import open_out
    from lmtk.ngram import classes as induction

    data, words, G, save = job.data, job.words, job.G, o.save or 0
    units, order, of = data, words, np.arange(len(data.words))
    if g is not None:
        of = g
        units, _ = induction.classes_as_words(data, g)
        order = induction.by_use(units, np.unique(g[words]))
    window = len(order) if o.full else G
    merging = induction.merging_of(units, order, window)
    for share in induction.mergers(merging, order, window, G, save):
        bar(share, "merging")
        if save and merging.m and merging.m % save == 0:
            g = induction.words_of_merged(merging, order, of, words)
            found = induction.made(data, SimpleNamespace(g=g, G=int(g.max()) + 1), job.unseen, job.unk)
            with open_out(induction.numbered_name(o.classes, merging.m)) as out:
                induction.write_classes(out, found)
    return induction.words_of_merged(merging, order, of, words)
