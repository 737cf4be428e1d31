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
    needed,
    one_stdin,
    option,
    unknown_word,
)
from lmtk.errors import LmtkError, UsageError


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
    import numpy as np

    from lmtk.commands.bar import Bar
    from lmtk.files.streams import check_out, open_out
    from lmtk.ngram import classes as induction
    from lmtk.ngram.collection import collect
    from lmtk.ngram.counts import write_counts
    from lmtk.text.corpus import Marks
    from lmtk.text.vocab import EOS, SOS, read_vocab

    texts, files = text or [], counts or []
    if not (texts or files):
        raise UsageError("nothing to learn from: give -text or -counts")
    if not (classes or class_counts or write_paths):
        raise UsageError("nothing to write: give -classes, -class-counts or -write-paths")
    if not init:
        needed(numclasses, "numclasses")
    if seed is not None and (init is not None or incremental or full):
        raise UsageError("-seed is a way to start, and so are -init and merging (-incremental, -full)")
    if save and not (classes and (incremental or full)):
        raise UsageError("-save writes -classes while they are merged (-incremental, -full)")
    one_stdin(*texts, *files, vocab, init, noclass_vocab)
    for path in (classes, class_counts, write_paths):
        if path:
            check_out(path)
    marks, unk = Marks.of(no_sos, no_eos, stream), unknown_word(map_unk)
    listed = read_vocab(vocab, tolower) if vocab else None
    apart = {SOS, EOS, *(read_vocab(noclass_vocab, tolower) if noclass_vocab else ())}
    start = induction.read_classes(init) if init else None
    found = collect(texts, files, 2, listed, marks, unk, tolower)
    source = (texts + files)[0]
    if found.order < 2 or not found.levels[1].count.sum():
        raise LmtkError(f"{'stdin' if source == '-' else source}: no 2-grams in it to learn from")
    data = induction.bigrams(found)
    free = [w for w, word in enumerate(data.words) if word not in apart]
    words = induction.by_use(data, [w for w in free if data.uses[w]])
    unseen = [w for w in free if not data.uses[w] and data.words[w] != unk]
    merging_wanted = incremental or full
    G = len(start.names) if init and not (merging_wanted and numclasses) else min(numclasses, max(len(words), 2))
    if not merging_wanted and numclasses not in (None, G) and init:
        raise UsageError(f"-numclasses is {numclasses}, and -init has {G} classes")
    if G < 2:
        raise LmtkError(f"{init}: all words are in one class; two or more classes were wanted")
    if len(words) < G:
        raise LmtkError(f"{len(words)} words can't make {G} classes; give a smaller -numclasses")
    with Bar(quiet) as bar:

        def tell(what):
            if debug:
                L = induction.log_likelihood(state)
                ppl = math.exp(-L / data.count.sum())
                bar.tell(f"{what}, logprob= {L / math.log(10):.7g} ppl= {ppl:.7g}")

        if init:
            g = induction.given_classes(data, words, start, init)
        if merging_wanted:
            # classes to start from are merged as words are
            of = g if init else np.arange(len(data.words))
            units, order = data, words
            if init:
                units, _ = induction.classes_as_words(data, g)
                order = induction.by_use(units, np.unique(g[words]))
            window = len(order) if full else G
            merging = induction.merging_of(units, order, window)
            for share in induction.mergers(merging, order, window, G, save or 0):
                bar(share, "merging")
                if save and merging.m and merging.m % save == 0:
                    g = induction.words_of_merged(merging, order, of, words)
                    found = induction.made(data, SimpleNamespace(g=g, G=int(g.max()) + 1), unseen, unk)
                    with open_out(induction.numbered_name(classes, merging.m)) as out:
                        induction.write_classes(out, found)
            g = induction.words_of_merged(merging, order, of, words)
            iterations = iterations or 0
        elif init:
            pass
        else:
            g = induction.frequency_classes(data, words, G, seed)
        state = induction.exchange_of(data, g, G, words)
        tell(f"{len(words)} words in {G} classes")
        number = 1
        for share, moved in induction.passes(state, iterations, threads):
            bar(share, f"pass {number}: {moved} words moved")
            if share == 1:
                tell(f"pass {number}: {moved} words moved")
                number += 1
    result = induction.made(data, state, unseen, unk)
    if classes:
        with open_out(classes) as out:
            induction.write_classes(out, result)
    if class_counts:
        with open_out(class_counts) as out:
            write_counts(out, induction.class_counts(data, result), by_bytes=True)
    if write_paths:
        with open_out(write_paths) as out:
            induction.write_paths(out, data, result)
