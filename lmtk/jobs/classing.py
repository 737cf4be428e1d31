"""Sorting words into classes, by the exchange algorithm or by merging."""

import math
import os
from dataclasses import dataclass, field

from lmtk.errors import LmtkError, UsageError, counted, name_of
from lmtk.jobs.rules import check, check_outputs, marks_of, needs, one_stdin, unknown_word, wrong, wrong_without_text
from lmtk.jobs.texts import LOWERED_RULES, Reading, convert_texts, needs_text


@dataclass(frozen=True)
class ClassJob:
    """Sort the words of texts into classes, and write the classes.

    text: texts. counts: files of n-gram counts; their 2-grams, and 1-grams if there are any, are used.
    vocab: a word list. numclasses: the number of classes.
    init: a file of classes to start from. noclass_vocab: a list of words that get no class.
    incremental, full: merge classes, adding words one by one or starting from one class per word.
    iterations: the largest number of passes over the words. None: until no word moves, or 0 passes after merging.
    save: also write the classes after every `save` mergers.
    seed: start from random classes for all but the most frequent words, with this seed.
    classes, class_counts, write_paths: files for the classes, the counts of classes, and the path of each word in the
    tree of classes.
    """

    text: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()
    vocab: str | None = None
    map_unk: str = "<unk>"
    tolower: bool = False
    no_sos: bool = False
    no_eos: bool = False
    stream: bool = False
    numclasses: int | None = None
    init: str | None = None
    noclass_vocab: str | None = None
    incremental: bool = False
    full: bool = False
    iterations: int | None = None
    save: int | None = None
    seed: int | None = None
    threads: int = 1
    classes: str | None = None
    class_counts: str | None = None
    write_paths: str | None = None
    quiet: bool = False
    debug: int = 0
    reading: Reading = field(default_factory=Reading)

    def __post_init__(self):
        check(self, RULES)
        convert_texts(self, self.reading)
        one_stdin(*self.text, *self.counts, self.vocab, self.init, self.noclass_vocab)
        unknown_word(self.map_unk)

    @property
    def merges(self):
        return self.incremental or self.full


SEEDED = "-seed starts from random classes; it cannot be combined with -init, -incremental or -full"
SAVED = "-save needs -classes and a merging algorithm (-incremental or -full)"
RULES = (
    wrong_without_text(lambda job: not (job.text or job.counts), "a text or counts are needed: give -text or -counts"),
    wrong(lambda job: not job.init and job.numclasses is None, "-numclasses is missing"),
    wrong(lambda job: job.numclasses is not None and job.numclasses < 2, "-numclasses must be 2 or more"),
    wrong(lambda job: job.seed is not None and (job.init is not None or job.merges), SEEDED),
    needs("save", "classes", SAVED),
    needs("save", "incremental full", SAVED),
    *LOWERED_RULES,
    needs_text(),
)


@dataclass(frozen=True)
class Unsorted:
    """The words to sort into classes. data: an `induction.Bigrams`. words: the ids to sort, by falling count. unseen:
    ids without a count. G: the number of classes. unk: the word for unknown words.
    """

    data: object
    words: object
    unseen: list
    G: int
    unk: bytes


def sort_words(job):
    """Runs a ClassJob. Returns the classes, as in `ngram.classes.files`."""
    from lmtk.files.outputs import open_out
    from lmtk.ngram.classes import files, induction
    from lmtk.ngram.counting.counts import write_counts

    inputs = [*job.counts, job.vocab, job.noclass_vocab, job.reading.tokenizer]
    check_outputs(job.classes, job.class_counts, job.write_paths, texts=job.text, inputs=inputs)
    check_outputs(job.class_counts, job.write_paths, inputs=[job.init])  # -classes may replace the file of -init
    start = files.read_classes(job.init) if job.init else None
    unsorted = unsorted_words(job, start)
    state = exchange_words(job, unsorted, start)
    result = induction.name_classes(unsorted.data, state.g, state.G, unsorted.unseen, unsorted.unk)
    if job.classes:
        with open_out(job.classes) as out:
            files.write_classes(out, result)
    if job.class_counts:
        with open_out(job.class_counts) as out:
            write_counts(out, induction.class_counts(unsorted.data, result), by_bytes=True)
    if job.write_paths:
        with open_out(job.write_paths) as out:
            induction.write_paths(out, unsorted.data, result)
    return result


def unsorted_words(job, start):
    """The Unsorted words of a job. start: the classes of -init, or None."""
    from lmtk.ngram.classes import induction
    from lmtk.ngram.counting.collection import Sources, collect
    from lmtk.text.vocab import EOS, SOS, read_vocab

    marks, unk = marks_of(job), os.fsencode(job.map_unk)
    listed = read_vocab(job.vocab, job.tolower) if job.vocab else None
    apart = {SOS, EOS, *(read_vocab(job.noclass_vocab, job.tolower) if job.noclass_vocab else ())}
    counts = collect(Sources(job.text, job.counts, 2, listed, marks, unk))
    if counts.order < 2 or not counts.levels[1].count.sum():
        raise LmtkError(f"{name_of((*job.text, *job.counts)[0])}: it has no 2-grams to learn classes from")
    data = induction.bigrams(counts)
    free = [w for w, word in enumerate(data.words) if word not in apart]
    words = induction.by_use(data, [w for w in free if data.uses[w]])
    unseen = [w for w in free if not data.uses[w] and data.words[w] != unk]
    return Unsorted(data, words, unseen, number_of_classes(job, start, len(words)), unk)


def number_of_classes(job, start, words):
    """The number of classes for so many words. start: the classes of -init, or None. Raises LmtkError, UsageError."""
    from lmtk.ngram.classes.files import class_names

    keeps_number = start and not (job.merges and job.numclasses)
    G = len(class_names(start)) if keeps_number else min(job.numclasses, max(words, 2))
    if start and not job.merges and job.numclasses not in (None, G):
        raise UsageError(
            f"-numclasses is {job.numclasses}, but -init has {counted(G, 'class', 'classes')}; leave out -numclasses"
        )
    if G < 2:
        raise LmtkError(f"{job.init}: all words are in one class; expected two or more classes")
    if words < G:
        if words < 2:
            raise LmtkError(f"the text has {counted(words, 'word')} to put in classes; there must be 2 or more")
        raise LmtkError(f"{words} words are too few for {G} classes; lower -numclasses")
    return G


def exchange_words(job, unsorted, start):
    """Merges words into classes if the job asks for it, then moves words between classes. Returns the final
    `induction.Exchange`. start: as in unsorted_words.
    """
    from lmtk.files.curve import perplexity
    from lmtk.jobs.bar import Bar
    from lmtk.ngram.classes import induction

    data, words, G = unsorted.data, unsorted.words, unsorted.G
    with Bar(job.quiet) as bar:

        def tell(step):
            if job.debug:
                L = induction.log_likelihood(state)
                ppl = perplexity(L / data.count.sum())
                bar.tell(f"{step}, logprob= {L / math.log(10):.7g} ppl= {ppl:.7g}")

        g = induction.given_classes(data, words, start, job.init) if start else None
        if job.merges:
            g = merge_words(job, unsorted, g, bar)
        elif not start:
            g = induction.frequency_classes(data, words, G, job.seed)
        state = induction.Exchange(data, g, G, words)
        tell(f"{len(words)} words in {G} classes")
        number = 1
        iterations = job.iterations or 0 if job.merges else job.iterations
        for share, moved in induction.passes(state, iterations, job.threads):
            bar(share, f"pass {number}: {counted(moved, 'word')} moved")
            if share == 1:
                tell(f"pass {number}: {counted(moved, 'word')} moved")
                number += 1
    return state


def merge_words(job, unsorted, g, bar):
    """The class of each word after merging, (W,). g: None, or the class of each word at the start; then the classes are
    merged as if they were words.
    """
    import numpy as np

    from lmtk.files.outputs import open_out
    from lmtk.ngram.classes import files, induction

    data, words, save = unsorted.data, unsorted.words, job.save or 0
    units, order, merged_id = data, words, np.arange(len(data.words))
    if g is not None:
        merged_id = g
        units = induction.classes_as_words(data, g, int(g.max()) + 1)
        order = induction.by_use(units, np.unique(g[words]))
    window = len(order) if job.full else unsorted.G
    for share, merged in induction.mergers(units, order, window, unsorted.G, save):
        bar(share, "merging")
        if save and len(merged) and len(merged) % save == 0:
            g = induction.merged_classes(merged, order, merged_id, words)
            classes = induction.name_classes(data, g, int(g.max()) + 1, unsorted.unseen, unsorted.unk)
            with open_out(numbered_name(job.classes, len(merged))) as out:
                files.write_classes(out, classes)
    return induction.merged_classes(merged, order, merged_id, words)


def numbered_name(path, number):
    """The name of a file that -save writes: SRILM's, CLASSES.000100 or CLASSES.000100.gz."""
    from lmtk.files.outputs import SUFFIX

    suffix = next((s for s in SUFFIX if path.endswith(s)), "")
    return f"{path}.{number:06d}{suffix}"
