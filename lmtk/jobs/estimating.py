"""Counts -> a back-off model, and the files that an EstimateJob names.

A CountJob says what is counted. The model is made in memory, or in buckets if memory is bounded or ranks share the
work. What was counted is written first, so that its memory is free for the model.
"""

import contextlib
import os
import sys
import warnings
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

from lmtk.errors import LmtkWarning, UsageError, name_of
from lmtk.files.inputs import is_file
from lmtk.jobs import counting
from lmtk.jobs.counting import CountJob
from lmtk.jobs.kenlm_files import KENLM_RULES, write_estimate
from lmtk.jobs.model_files import ModelFiles, write_files
from lmtk.jobs.pruning import PRUNING_RULES, prune_kneser, prune_model, sizes_line
from lmtk.jobs.rules import check, check_outputs, excludes, needs, one_of, one_stdin, wrong
from lmtk.jobs.smoothing import Smoothing, methods_of
from lmtk.jobs.texts import convert_texts


@dataclass(frozen=True)
class EstimateJob:
    """Estimate a back-off model from counts, and write it.

    count: what is counted, a CountJob. smoothing: the Smoothing of each order.
    lm, write_bin, write_kenlm, class_lm: files for the model, in ARPA format, in binary form, in KenLM's binary form,
    and as a class model. keep: return the model. unk: predict <unk>, the word for unknown words.
    prune: remove n-grams of `minprune` words or more whose removal raises the perplexity by less than this fraction.
    prune_to, prune_to_size: prune to at most this number of n-grams, or of bytes.
    prune_contexts: take the probabilities of contexts from the "counts" or from the "model". None: from the counts for
    Kneser-Ney smoothing, otherwise from the model.
    prune_kneser: like prune, but the model stays a Kneser-Ney model; with prune_to or prune_to_size, the lowest
    threshold.
    grow: do not count n-grams that prune_kneser would remove anyway.
    heldout: a text on which discounts, or the weights of sources, are learned.
    limit_vocab_file: leave out n-grams with words outside this list. vocab_pad: assume at least this number of words.
    maxent_alpha: the factor of the penalty on the sum of |weight|. maxent_sigma2: the variance of the weights' prior.
    """

    count: CountJob = field(default_factory=CountJob)
    smoothing: Smoothing = field(default_factory=Smoothing)
    lm: str | None = None
    write_bin: str | None = None
    write_kenlm: str | None = None
    kenlm_type: str = "probing"
    class_lm: str | None = None
    keep: bool = False
    unk: bool = False
    compact: bool = False
    quantize: int | None = None
    prune: float | None = None
    prune_kneser: float | None = None
    grow: bool = False
    minprune: int = 2
    prune_to: int | None = None
    prune_to_size: int | None = None
    prune_contexts: str | None = None
    heldout: str | None = None
    maxent: bool = False
    maxent_alpha: float = 0.5
    maxent_sigma2: float = 6.0
    trust_totals: bool = False
    limit_vocab_file: str | None = None
    vocab_pad: int = 0
    verbose_header: bool = False
    closed: bool = False
    layout: str = "srilm"
    debug: int = 0

    def __post_init__(self):
        check(self, RULES)
        count = self.count
        convert_texts(self, count.reading, "", "heldout")
        one_stdin(*count.text, *count.read, *count.sources, count.vocab, count.nonevents, count.classes, self.heldout)
        for n, method in enumerate(self.methods, 1):
            check_method(self, n, method)

    @property
    def model_files(self):
        return ModelFiles(
            arpa=self.lm, binary=self.write_bin, kenlm=self.write_kenlm, layout=self.layout, sort=self.count.sort,
            kenlm_type=self.kenlm_type, compact=self.compact, quantize=self.quantize, closed=self.closed,
        )  # fmt: skip

    @property
    def makes_model(self):
        """Whether a model is made, for files or to be kept."""
        return bool(self.model_files.paths or self.class_lm or self.keep)

    @property
    def is_pruned(self):
        """Whether the job prunes by entropy. A threshold of 0 keeps the whole model."""
        return any((self.prune, self.prune_kneser, self.prune_to, self.prune_to_size))

    @property
    def estimates(self):
        """Whether anything is estimated: a model, or only its discounts, for files."""
        return self.makes_model or self.smoothing.reads_or_writes_discounts

    @property
    def methods(self):
        """A methods.Method for each order; none if no model by counts is wanted."""
        if not self.estimates or self.maxent or self.count.sources:
            return []
        methods = methods_of(self.smoothing, self.count.order, self.count.kenlm)
        return methods if self.prune_kneser is None else [replace(method, minimum=1) for method in methods]

    @property
    def discount_files(self):
        """[(order, its file of discounts)]: read if a model is made, otherwise written."""
        paths = [row for by_order in self.smoothing.files(self.count.order).values() for row in by_order.items()]
        return sorted((n, path) for n, path in paths if n <= self.count.order)

    @property
    def changes_model(self):
        """Whether the model is changed, or sorted anew, once it is estimated."""
        sorts = self.count.sort or (self.layout == "kenlm" and not self.count.kenlm)
        return bool(self.makes_model and (sorts or self.is_pruned or self.limit_vocab_file or self.closed))

    @property
    def discounts_read(self):
        """Those of `discount_files` that are read."""
        return self.discount_files if self.makes_model else []

    @property
    def discounts_written(self):
        """Those of `discount_files` that are written."""
        return [] if self.makes_model else self.discount_files

    @property
    def prunes_by_counts(self):
        """Whether pruning takes the probabilities of contexts from the counts."""
        is_continued = self.count.sources or any(method.continuation for method in self.methods)
        wants_counts = is_continued or self.prune_contexts == "counts"
        return bool(self.is_pruned and self.prune_contexts != "model" and wants_counts)

    @property
    def needs_backoff(self):
        """Whether the model is changed, kept or written to more files than -lm. Then nodes are made, not only lines."""
        return bool(self.changes_model or self.model_files.others("arpa") or self.class_lm or self.keep)

    @property
    def is_shared(self):
        """Whether the ranks share the work until -lm is written. That needs a model that is written as it is estimated,
        no counts read or written, no -maxent, no -verbose-header, and SRILM's layout.
        """
        has_counts = self.count.read or self.count.writes_counts
        lines_differ = self.verbose_header or self.layout == "kenlm"
        return bool(self.lm and not (self.needs_backoff or self.maxent or has_counts or lines_differ))


def has_minimum(smoothing):
    """Whether -gtmin or -gtNmin leaves out n-grams."""
    return max([smoothing.gtmin or 1, *smoothing.gtmin_n.values()]) > 1


def check_method(job, n, method):
    """Raises UsageError if the smoothing method of order n cannot be combined with the other options."""
    if job.count.float_counts and method.highest:
        raise UsageError(
            f"order {n}: Good-Turing and Kneser-Ney smoothing need whole counts; with -float-counts use -wbdiscount"
        )
    option = "-heldout" if job.heldout else "-prune-kneser" if job.prune_kneser is not None else None
    if option and not method.continuation:
        raise UsageError(
            f"order {n}: {option} works with interpolated Kneser-Ney smoothing only; add -kndiscount -interpolate"
        )
    if option and not method.interpolate:
        raise UsageError(f"{option} works with interpolated models only; add -interpolate")


# -source counts only texts, and always uses interpolated Kneser-Ney smoothing with learned discounts
NOT_WITH_SOURCES = (
    "text read text_has_weights text_has_weights_last classes class_lm nonevents limit_vocab float_counts recompute "
    "write write_n write_vocab read_with_mincounts gtmin gtmin_n gtmax gtmax_n gt kn kn_all kn_counts_modified "
    "kn_modify_counts_at_end discount_fallback prune_by_count prune_kneser grow kenlm maxent trust_totals memory mpi"
)
OTHER_METHODS = (  # the options of all methods but -kndiscount
    "ndiscount ndiscount_n wbdiscount wbdiscount_n cdiscount cdiscount_n addsmooth addsmooth_n ukndiscount "
    "ukndiscount_n"
)
RULES = (
    needs(
        "limit_vocab_file interpolate_unigrams vocab_pad verbose_header",
        "kenlm",
        "-limit-vocab-file, -interpolate-unigrams, -vocab-pad and -verbose-header need -kenlm",
    ),
    one_of("layout", ("srilm", "kenlm")),
    *PRUNING_RULES,
    one_of("prune_contexts", ("counts", "model")),
    needs("prune_contexts", "prune prune_to prune_to_size"),
    excludes("prune_kneser", "prune prune_contexts kn_counts_modified trust_totals limit_vocab_file vocab_pad maxent"),
    wrong(lambda job: job.grow and not job.prune_kneser, "-grow needs -prune-kneser with a threshold above 0"),
    excludes("grow", "nonevents memory mpi read text_has_weights text_has_weights_last classes skip_symbols"),
    wrong(
        lambda job: job.prune_kneser is not None and (has_minimum(job.smoothing) or any(job.smoothing.prune_by_count)),
        "-prune-kneser chooses the n-grams that stay; leave out -gtmin, -gtNmin and -prune-by-count",
    ),
    wrong(
        lambda job: (job.is_pruned or job.minprune != 2) and not job.estimates,
        "pruning options need a model to prune; add -lm or -write-bin",
    ),
    excludes(
        "vocab_pad",
        "interpolate_unigrams",
        "-vocab-pad needs interpolated 1-grams (-interpolate-unigrams 1)",
    ),
    needs("class_lm", "classes"),
    wrong(
        lambda job: job.class_lm and (job.lm or job.write_bin) and "-" in (job.count.classes, job.lm or job.write_bin),
        "a class model refers to the files of its model and its classes, so these cannot be stdin or stdout (-)",
    ),
    excludes("heldout", "classes"),
    needs("sources", "heldout", "-source needs -heldout FILE, a text to learn the weights of the sources on"),
    wrong(
        lambda job: job.count.sources and not job.makes_model,
        "-source makes a model; add -lm FILE or -write-bin FILE",
    ),
    excludes("sources", NOT_WITH_SOURCES),
    excludes("sources", OTHER_METHODS, "-source always makes a modified Kneser-Ney model; leave out other methods"),
    wrong(lambda job: job.heldout and not job.estimates, "-heldout needs a model to tune; add -lm or -write-bin"),
    excludes("nonevents", "maxent", "-nonevents cannot be combined with -kenlm or -maxent"),
    excludes("trust_totals", "kenlm memory mpi maxent heldout"),
    wrong(lambda job: not job.maxent_sigma2, "-maxent-sigma2 must be above 0"),
    excludes(
        "maxent",
        "kenlm heldout prune_by_count gt kn kn_all",
        "-maxent cannot be combined with -kenlm, -heldout, -prune-by-count or files of discounts",
    ),
    *KENLM_RULES,
)


@dataclass(frozen=True)
class Counted:
    """What a model is made of. counts: a list of one item, the counts. `make_model` takes them out of the list, so that
    their memory is freed as soon as they are used up. vocabulary: of the model. contexts: the result of
    `counts.contexts_of`, if pruning needs it; None if the texts can be scored instead. classes: those of the CountJob,
    or None. listed: the words of -limit-vocab-file, or None. is_changed: whether the model is changed, or sorted anew,
    once it is estimated. files: the files of the model.
    """

    counts: list
    vocabulary: object
    contexts: object
    classes: dict | None
    listed: set | None
    is_changed: bool
    files: ModelFiles


def estimate(job):
    """Runs an EstimateJob. Returns the model, a Backoff, if the job keeps it, and else None."""
    from lmtk.machine.memory import keep_all
    from lmtk.machine.parallel import ALONE, pooled, tell_alone
    from lmtk.ngram.estimate.estimation import is_shelved

    tell_ignored(job)
    if not (job.keep or job.count.memory):  # a Python program goes on with its model, and needs the memory back
        keep_all()
    if job.count.sources:
        return estimate_sources(job)
    if not job.count.mpi:
        tell_alone()
    with pooled() if job.count.mpi else contextlib.nullcontext(ALONE) as comm:
        if comm and comm.size > 1 and not job.is_shared:
            comm = None if comm.rank else ALONE
        counted = count(job, comm) if comm else None
        if not counted:
            return None
        if is_shelved(counted.counts[0]):
            return make_model(job, counted, comm)
    return make_model(job, counted, ALONE)


def estimate_sources(job):
    """`estimate` for a model of weighted sources."""
    from lmtk.jobs.sources import pooled_model

    check_files(job)
    lists = counting.read_lists(job.count)
    model, contexts = pooled_model(job, lists)
    counted = Counted([], model.vocab, contexts, None, None, True, job.model_files)
    return write_backoff(job, counted, model, None, counted.files)


def tell_ignored(job):
    """Warns of smoothing that has no effect."""
    smoothing, has_method = job.smoothing, job.smoothing.is_chosen or job.count.kenlm
    if job.count.kenlm and has_minimum(smoothing):
        message = "-kenlm leaves out n-grams by -prune-by-count alone; -gtmin and -gtNmin are ignored"
        warnings.warn(message, LmtkWarning, stacklevel=1)
    if not job.estimates and (job.maxent or smoothing.interpolate or has_method):
        warnings.warn(
            "smoothing options have no effect without a model; add -lm or -write-bin", LmtkWarning, stacklevel=1
        )
    has_options = smoothing.interpolate or smoothing.interpolate_n or has_method or has_minimum(smoothing)
    if job.maxent and has_options:
        warnings.warn("-maxent replaces smoothing; the smoothing options are ignored", LmtkWarning, stacklevel=1)


def check_files(job):
    """Raises UsageError or OSError if an output cannot be written, or would replace an input."""
    count_job = job.count
    # -write may replace a file of -read, and -write-vocab may replace the file of -vocab
    vocab = count_job.vocab if count_job.vocab != count_job.write_vocab else None
    inputs = [path for path in count_job.read if path != count_job.write]
    inputs += [count_job.classes, job.heldout, count_job.nonevents, vocab, count_job.reading.tokenizer]
    inputs += [job.limit_vocab_file, *(path for _, path in job.discounts_read)]
    outputs = [*count_job.outputs, *job.model_files.paths.values(), job.class_lm]
    if not job.makes_model:
        # `discounts_written` repeats the file of -kn for each order, and `check_outputs` rejects repeated files
        outputs += [*job.smoothing.gt.values(), *job.smoothing.kn.values(), job.smoothing.kn_all]
    check_outputs(*outputs, texts=[*count_job.text, *count_job.sources], inputs=inputs)


def count(job, comm):
    """Counts with the ranks of `comm`, and writes the counts and words that the job asks for. Returns the Counted; None
    if nothing is to be estimated, and on ranks that do not take part in the estimation.
    """
    from lmtk.ngram.estimate.estimation import is_shelved

    count_job = job.count
    if comm.size > 1 and (count_job.stream or "-" in count_job.text):
        raise UsageError(
            "-mpi needs texts in files that every rank can read; it cannot be combined with -stream or stdin (-)"
        )
    check_files(job)
    listed = comm.share(lambda: read_listed(job))
    lists = comm.share(lambda: counting.read_lists(count_job))
    counts, written = count_ngrams(job, lists, comm)
    if comm.rank and not is_shelved(counts):
        return None
    # `kenlm_layout.layout` is for texts without <unk>; the n-grams of other texts are sorted anew
    moved = job.makes_model and job.layout == "kenlm" and counts.has(count_job.unk)
    is_changed = bool(job.changes_model or moved)
    files = replace(job.model_files, header=header_of(count_job, counts.tokens) if job.verbose_header else b"")
    contexts = None
    if needs_contexts(job):
        from lmtk.ngram.counting.counts import contexts_of

        longest = count_job.order - 1 if job.prune_kneser is None else count_job.order
        contexts = contexts_of(written, longest)
    vocabulary = None
    if job.estimates:
        vocabulary = counting.vocabulary_of(count_job, lists, counts.words, job.unk or count_job.kenlm)
    if comm.rank == 0:
        counting.write_counted(count_job, lists, written)
    if not job.estimates:
        return None
    return Counted([counts], vocabulary, contexts, lists.classes, listed, is_changed, files)


def count_ngrams(job, lists, comm):
    """(the counts for the model, the counts to write): counts.Counts, or runs.Spilled. The first are a
    collection.Text if only the model of a large text is wanted.
    """
    from lmtk.ngram.counting.collection import Text, in_memory
    from lmtk.ngram.counting.runs import Spilled
    from lmtk.text.vocab import EOS

    count_job = job.count
    again = can_read_again(count_job)
    if job.grow and not again:
        path = next(path for path in count_job.text if not is_file(path))
        raise UsageError(f"-grow reads a text several times, but {name_of(path)} is not a regular file; give a file")
    uses_counts = count_job.writes_counts or needs_contexts(job)
    # where memory is bounded, a text is read once for the model and once for its counts
    reads_twice = count_job.memory and job.estimates and uses_counts and again
    # such a model is not estimated by the kernels for n-grams in suffix order, which always predict </s>
    is_special = job.maxent or job.trust_totals or count_job.recompute or EOS in lists.nonevents
    in_suffix_order = job.estimates and count_job.order > 1 and not is_special
    as_text = in_suffix_order and (reads_twice or not uses_counts)
    counts = written = counting.collect_counts(count_job, lists, comm, as_text)
    if reads_twice and isinstance(counts, Text):
        written = counting.collect_counts(count_job, lists, comm)
    if count_job.recompute:
        counts = written = counts.recomputed()
    if isinstance(counts, Spilled) and job.estimates and not (in_suffix_order and counts.in_sentences()):
        counts = in_memory(counts, count_job.memory)
    return counts, written


def needs_contexts(job):
    """Whether pruning needs the counts of contexts, because it cannot score the texts instead."""
    count_job = job.count
    return job.prunes_by_counts and (count_job.skip_symbols or not can_read_again(count_job))


def can_read_again(count_job):
    """Whether a CountJob counts only texts, without weights or classes, in files that can be read again."""
    return not (count_job.read or count_job.weighted or count_job.classes) and all(map(is_file, count_job.text))


def recipe_of(job, counted):
    """The methods.Recipe of the model, without -heldout."""
    from lmtk.files.decoding import lines
    from lmtk.ngram.estimate.methods import Recipe, read_discounts

    def tell(line):
        if job.debug:
            sys.stderr.write(line + "\n")

    methods, smoothing = job.methods, job.smoothing
    paths = dict.fromkeys(path for _, path in job.discounts_read)
    rows = {path: [*lines(path)] for path in paths}  # orders may share a file, which may be a pipe: it is read once
    discounts = {n: read_discounts(methods[n - 1], rows[path], path) for n, path in job.discounts_read}
    kenlm, fallback = job.count.kenlm, smoothing.discount_fallback
    return Recipe(methods, fallback, tell, discounts, kenlm, counted.listed, job.vocab_pad, trusting=job.trust_totals)


def read_heldout(job, vocabulary):
    """The heldout.HeldOut of -heldout, or None."""
    if not job.heldout:
        return None
    from lmtk.ngram.estimate.heldout import HeldOut
    from lmtk.text.corpus import whole_corpus

    return HeldOut(whole_corpus(job.heldout, vocabulary, job.count.marks), vocabulary, job.methods)


def make_model(job, counted, comm):
    """Makes the model of what was counted, with the ranks of `comm`, and writes it. Returns what `estimate` does."""
    from lmtk.files.bounded import limit_memory
    from lmtk.jobs.bar import Bar
    from lmtk.ngram.estimate import estimation

    count_job, shelved, kept = job.count, estimation.is_shelved(counted.counts[0]), None
    vocabulary = counted.vocabulary
    recipe = recipe_of(job, counted)
    if job.maxent:
        from lmtk.ngram.estimate import maxent

        settings = count_job.order, job.maxent_alpha, job.maxent_sigma2, recipe.tell
        model = maxent.estimate(counted.counts.pop(), vocabulary, *settings)
        return write_backoff(job, counted, model, None, counted.files)
    if shelved and count_job.memory:
        limit_memory(count_job.memory)
    if job.grow or not job.makes_model:
        form = "discounts"
    else:
        form = "nodes" if counted.is_changed or job.needs_backoff else "lines"
    with Bar(not shelved or job.debug > 0 or comm.rank > 0) as bar:
        recipe = replace(recipe, heldout=comm.share(lambda: read_heldout(job, vocabulary)))
        model, methods = estimation.estimate(
            counted.counts.pop(), vocabulary, recipe, form, count_job.memory, comm, bar
        )
        write_discount_files(job, methods)
        model = grow(job, vocabulary, methods) if job.grow else model
        if model:
            kept = write_model(job, counted, model, methods, comm.rank)
    sent = comm.sum(comm.sent)
    if sent and comm.rank == 0:
        recipe.tell(f"the ranks sent one another {sent} bytes")
    return kept


def grow(job, vocabulary, methods):
    """What `growing.grow` makes of the texts of a job."""
    from lmtk.ngram.estimate import growing
    from lmtk.text.corpus import join, whole_corpus

    corpus = join([whole_corpus(path, vocabulary, job.count.marks) for path in job.count.text])
    return growing.grow(corpus, vocabulary, methods, job.prune_kneser)


def write_discount_files(job, methods):
    """Writes the discounts of the methods. If orders share a file, it gets the discounts of the highest of them."""
    from lmtk.files.outputs import open_out
    from lmtk.ngram.estimate.methods import write_discounts

    for n, path in job.discounts_written:
        with open_out(path) as out:
            write_discounts(out, methods[n - 1])


def write_model(job, counted, model, methods, rank):
    """Writes a model as it is estimated, a Backoff or Buckets. Returns what `estimate` does.

    Buckets that are not changed are written as ARPA without becoming a Backoff. If one other file is wanted and nothing
    else, and it is a KenLM trie or a binary file that is neither compact nor quantized, it is written straight from the
    Buckets too. All else is written from a Backoff.
    """
    from lmtk.files.outputs import open_out
    from lmtk.ngram.model import backoff, building

    files, memory = counted.files, job.count.memory
    if isinstance(model, backoff.Backoff):
        return write_backoff(job, counted, model, methods, files)
    from lmtk.ngram.estimate.buckets import assembly, writing

    if rank:
        writing.write_arpa(None, model, job.lm)
        return None
    if files.arpa and not counted.is_changed:
        with open_out(files.arpa) as out:
            writing.write_arpa(out, model, files.arpa, layout_of(files, model), may_reuse=not job.needs_backoff)
        files = replace(files, arpa=None)
    if not (counted.is_changed or job.class_lm or job.keep):
        if not files.paths:
            return None
        is_trie = files.paths.keys() == {"kenlm"} and files.kenlm_type == "trie"
        if is_trie and write_estimate(model, files.kenlm, files.form):
            return None
        if files.paths.keys() == {"binary"} and not (files.compact or files.quantize):
            with open_out(files.binary) as out:
                backoff.write_binary(out, assembly.backoff_of(model, memory, partial(building.map_in_file, out)))
            return None
    return write_backoff(job, counted, assembly.backoff_of(model, memory), methods, files)


def write_backoff(job, counted, model, methods, files):
    """Changes a Backoff as the job says, and writes it to `files`, a ModelFiles, and to the file of -class-lm. methods:
    with the discounts of the model. Returns the model if the job keeps it.
    """
    from lmtk.ngram.edit import vocabulary

    if job.limit_vocab_file:
        model = vocabulary.limit(model, counted.listed)
    if job.is_pruned:
        if job.prune_kneser is not None:
            model, done = prune_kneser(job, files, kneser_model(job, counted, model, methods))
        else:
            has_contexts = model.order > 1 and job.prunes_by_counts
            context = context_probabilities(job, counted, model) if has_contexts else None
            model, done = prune_model(job, files, model, job.prune, context, True)
        if job.debug:
            sys.stderr.write(sizes_line(done, model))
    model = write_files(model, files, not job.keep)
    if job.class_lm:
        write_class_model(job, counted, model)
    return model if job.keep else None


def context_probabilities(job, counted, model):
    """log10 p(h) of the contexts of a model, from its texts or counts; see `edit.contexts`."""
    from lmtk.ngram.edit.contexts import log_shares

    times, total = times_of_ngrams(job, counted, model, model.order - 1)
    return [log_shares(of_order, total) for of_order in times]


def times_of_ngrams(job, counted, model, order):
    """(how often each n-gram of a model of up to `order` words occurs, an array for each order; the number of words),
    from its texts or counts.
    """
    from lmtk.ngram.edit import contexts
    from lmtk.text.corpus import read_corpus

    if counted.contexts:
        return contexts.counted_times(*counted.contexts, model, order)
    count_job = job.count
    corpora = (read_corpus(path, model.vocab, count_job.marks, model.order) for path in count_job.text)
    return contexts.times_in_texts(model, chain.from_iterable(corpora), order)


def kneser_model(job, counted, model, methods):
    """The kneser.KneserNey of a model. Its memory is reused, so the caller must not use the model again."""
    from lmtk.ngram.edit import closing, kneser

    model = closing.close(model)
    times, tokens = times_of_ngrams(job, counted, model, model.order)
    return kneser.kneser_ney(model, times, tokens, methods)


def write_class_model(job, counted, model):
    from lmtk.files.outputs import open_out
    from lmtk.joint import classes

    path = job.count.classes
    with open_out(job.class_lm) as out:
        if job.lm or job.write_bin:
            classes.write_text(out, job.lm or job.write_bin, path, job.class_lm)
        else:
            whole = classes.class_model(model, job.class_lm, path, counted.classes)
            classes.write_binary(out, whole, job.class_lm)


def read_listed(job):
    """The words of -limit-vocab-file, which may be a pipe and so is read once; or None."""
    from lmtk.files.decoding import WORD, lines
    from lmtk.text.vocab import lower

    if not job.limit_vocab_file:
        return None
    words = {word for _, line in lines(job.limit_vocab_file, True) for word in WORD.findall(line)}
    return set(map(lower, words)) if job.count.tolower else words


def header_of(count, tokens):
    """The first lines of an ARPA file with lmplz's --verbose_header."""
    source = (count.text or count.read)[0]
    path = os.path.realpath(source if source != "-" else "/dev/stdin")
    source = path if source != "-" or os.path.isfile(path) else "stdin"
    return f"# Input file: {source}\n# Token count: {tokens}\n# Smoothing: Modified Kneser-Ney\n".encode()


def layout_of(files, model):
    """The Layout of the ARPA file of Buckets."""
    from lmtk.ngram.arpa import kenlm_layout, printing

    if files.layout == "kenlm":
        layout = kenlm_layout.layout(model.vocab, model.order)
    else:
        layout = printing.srilm_layout(model.vocab.words)
    return replace(layout, begin=files.header + layout.begin)
