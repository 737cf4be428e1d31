"""Changing a back-off model: the job of lmtk ngram, from models in files to one model, its scores and its files."""

import contextlib
import sys
import warnings
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

from lmtk.errors import LmtkError, LmtkWarning, name_of
from lmtk.jobs.kenlm_files import KENLM_RULES
from lmtk.jobs.model_files import ModelFiles, write_files
from lmtk.jobs.pruning import PRUNING_RULES
from lmtk.jobs.rules import (
    check,
    check_outputs,
    complete_weights,
    excludes,
    names_of,
    needs,
    one_of,
    one_stdin,
    option_named,
    required,
    unknown_word,
    wrong,
)
from lmtk.jobs.scoring import Scoring, report_count_file, report_text
from lmtk.jobs.texts import LOWERED_RULES, convert_texts


@dataclass(frozen=True)
class EditJob:
    """Change a back-off model: shorten, limit, merge, renormalize, expand and prune it; score texts with it; draw
    random sentences from it; write it.

    lm: the model's file, or a model in memory; with read_mix_lms, a file with a list of models. keep: return the model.
    order: the order of the longest n-grams to keep. vocab: words to add; limit_vocab: remove n-grams with other words.
    mix_lm: more models to merge with `lm`. weight: a weight for each model; the last may be left out.
    bayes: mix the models word by word, by how well they predicted the last `bayes` words. None: merge the models.
    loglinear_mix: interpolate the models log-linearly; heldout: a text on which the weights are learned.
    cache: the number of words in a unigram cache.
    prune: the fraction by which removing an n-gram may raise the perplexity; several values print a table of sizes.
    prune_to, prune_to_size: prune to at most this number of n-grams, or of bytes. minprune: prune only n-grams of this
    number of words or more.
    expand_classes: turn a class model into a word model, with n-grams of up to this number of words (0: all).
    expand_most: the largest number of n-grams that this may make. expand_exact: compute exact probabilities for n-grams
    of this number of words or more (0: for none).
    unk_prob: log10 p of unknown words; -99 is the probability 0. unk: treat <unk> as a word.
    gen: the number of sentences to draw. scoring: the texts and counts to score; `build` copies order and debug of the
    job to it.
    """

    lm: str | None = None
    read_mix_lms: bool = False
    classes: str | None = None
    simple_classes: bool = False
    expand_classes: int | None = None
    expand_most: int = 10_000_000
    expand_exact: int = 0
    write_lm: str | None = None
    write_bin: str | None = None
    compact: bool = False
    quantize: int | None = None
    layout: str = "srilm"
    closed: bool = False
    write_kenlm: str | None = None
    kenlm_type: str = "probing"
    write_vocab: str | None = None
    keep: bool = False
    order: int | None = None
    vocab: str | None = None
    limit_vocab: bool = False
    mix_lm: tuple[str, ...] = ()
    weight: tuple[float, ...] = option_named("lambda", ())
    bayes: int | None = None
    bayes_scale: float = 1.0
    loglinear_mix: bool = False
    heldout: str | None = None
    cache: int = 0
    cache_lambda: float = 0.05
    renorm: bool = False
    prune: tuple[float, ...] = ()
    minprune: int = 2
    prune_to: int | None = None
    prune_to_size: int | None = None
    prune_history_lm: str | None = None
    prune_lowprobs: bool = False
    scoring: Scoring = field(default_factory=Scoring)
    multiwords: bool = False
    multi_char: str = "_"
    skipoovs: bool = False
    zeroprob_word: str | None = None
    unk_prob: float | None = None
    gen: int | None = None
    gen_prefixes: str | None = None
    seed: int = 1
    unk: bool = False
    map_unk: str | None = None
    strict: bool = False
    debug: int = 0

    def __post_init__(self):
        object.__setattr__(self, "scoring", replace(self.scoring, sums_with_unk=self.unk))
        check(self, RULES)
        texts = *self.scoring.text, *self.scoring.counts, self.heldout
        inputs = self.lm, self.classes, *self.mix_lm, self.vocab, self.gen_prefixes, self.prune_history_lm, *texts
        one_stdin(*inputs)
        if not self.read_mix_lms:
            complete_weights(self.weight, 1 + len(self.mix_lm), self.is_product)
        if self.map_unk:
            unknown_word(self.map_unk)
        convert_texts(self, self.scoring.reading, "", "gen_prefixes heldout")

    @property
    def by_word(self):
        """Whether several models are mixed word by word, instead of being merged into one."""
        return self.bayes is not None or (self.loglinear_mix and not self.is_product)

    @property
    def is_product(self):
        """Whether several models become one by log-linear interpolation."""
        return self.loglinear_mix and bool(self.needs_backoff or self.heldout or self.keep)

    @property
    def model_files(self):
        return ModelFiles(
            arpa=self.write_lm, binary=self.write_bin, kenlm=self.write_kenlm, layout=self.layout, name=self.name,
            kenlm_type=self.kenlm_type, compact=self.compact, quantize=self.quantize, closed=self.closed,
        )  # fmt: skip

    @property
    def outputs(self):
        """The files that the job writes. The last is -write-vocab, which is None if it is not wanted."""
        return *self.model_files.paths.values(), self.write_vocab

    @property
    def needs_backoff(self):
        """Whether something is asked for that only a back-off model can do."""
        return bool(self.model_files.paths or self.generates or self.is_table)

    @property
    def needs_ngrams(self):
        """Whether something is written or drawn from a list of n-grams, other than -write-bin."""
        return bool(self.model_files.others("binary") or self.write_vocab or self.generates)

    @property
    def is_pruned(self):
        """Whether the job prunes by entropy. A threshold of 0 keeps the whole model."""
        return any((*self.prune, self.prune_to, self.prune_to_size))

    @property
    def is_table(self):
        """Whether -prune asks for a table."""
        return len(self.prune) > 1

    @property
    def generates(self):
        return self.gen is not None or self.gen_prefixes is not None

    @property
    def scores(self):
        return bool(self.scoring.text or self.scoring.counts)

    @property
    def is_changed(self):
        """Whether the job changes the model that it reads."""
        changes = self.mix_lm, self.read_mix_lms, self.limit_vocab, self.vocab, self.renorm, self.prune_lowprobs
        return any(changes) or self.is_pruned or self.closed

    @property
    def may_reuse(self):
        """Whether all models come from files, so that they may be changed in place."""
        return all(isinstance(path, str) for path in (self.lm, *self.mix_lm))

    @property
    def name(self):
        """What messages call the model."""
        return name_of(self.lm) if isinstance(self.lm, str) else "the model"


RULES = (
    required("lm"),
    wrong(lambda job: any(threshold < 0 for threshold in job.prune), "-prune must be 0 or more"),
    *KENLM_RULES,
    one_of("layout", ("srilm", "kenlm")),
    needs("layout", "write_lm"),
    needs("closed", "write_lm write_bin write_kenlm"),
    needs("limit_vocab", "vocab"),
    needs("weight", "mix_lm"),
    needs("prune_history_lm", "prune prune_to prune_to_size"),
    *PRUNING_RULES,
    excludes("read_mix_lms", "mix_lm classes"),
    needs("bayes loglinear_mix", "mix_lm read_mix_lms"),
    excludes("bayes", "loglinear_mix"),
    needs("heldout", "loglinear_mix", "-heldout needs -loglinear-mix; lmtk mix learns the weights of other mixtures"),
    excludes("heldout", "weight read_mix_lms"),
    wrong(lambda job: (job.heldout or job.keep) and job.is_table, "one model is wanted; give one value of -prune"),
    wrong(
        lambda job: (job.by_word or job.cache) and (job.needs_backoff or job.keep),
        "-bayes and -cache can only score (-ppl, -counts); they do not make a back-off model",
    ),
    wrong(
        lambda job: job.multiwords and (job.by_word or job.cache or job.needs_backoff),
        "-multiwords works only with -ppl and -counts, with one model and without -cache",
    ),
    wrong(
        lambda job: (
            (job.skipoovs or job.zeroprob_word or job.unk_prob is not None)
            and (not job.scores or job.generates or job.is_table)
        ),
        "-skipoovs, -zeroprob-word and -unk-prob work only with -ppl and -counts",
    ),
    wrong(lambda job: (job.unk_prob or 0) > 0, "-unk-prob is log10 of a probability, so 0 or less, not {unk_prob:g}"),
    needs("reverse text_has_weights", "text", "-reverse and -text-has-weights need -ppl"),
    wrong(lambda job: job.scoring.text_has_weights and job.is_table, "-reverse and -text-has-weights need -ppl"),
    wrong(lambda job: job.scoring.escape and job.is_table, "-escape cannot be combined with several values of -prune"),
    needs("counts_entropy", "counts"),
    excludes("counts_entropy", "cache"),
    excludes(
        "skipoovs",
        "loglinear_mix multiwords classes",
        "-skipoovs cannot be combined with -loglinear-mix, -multiwords or -classes",
    ),
    excludes("zeroprob_word", "cache"),
    wrong(
        lambda job: job.unk_prob is not None and job.cache and job.scoring.debug > 2,
        "-unk-prob and -cache cannot be combined at -debug 3",
    ),
    wrong(
        lambda job: job.is_table and any((*job.outputs, job.generates, job.scoring.counts)),
        "-prune with several values prints a table of sizes and perplexities; to write a model, give one value",
    ),
    wrong(
        lambda job: job.outputs.count("-") + bool(job.generates or job.scores) > 1,
        "only one of the outputs can be stdout",
    ),
    wrong(lambda job: job.scoring.debug > 3 and job.scores, "-debug takes values up to 3"),
    *LOWERED_RULES,
    needs(
        "field tokenizer normalize",
        "text gen_prefixes heldout",
        "-field, -tokenizer and -normalize are for a text; add -ppl, -heldout or -gen-prefixes",
    ),
    excludes("text_has_weights escape", "field tokenizer normalize"),
)


def edit(job):
    """Runs an EditJob: scores, draws sentences and writes what the job names. Returns the model as it is written, if
    the job keeps it, and else None.
    """
    from lmtk.jobs.changing import change
    from lmtk.jobs.wordwise import mix_for_scoring

    get_ready(job)
    if job.is_table:
        return print_table(job)
    with output(job) as (out, home):
        model, others, weights = change(job, home)
        if job.scoring.text or job.gen_prefixes:
            job.scoring.reading.check_models([model, *others], [job.name, *job.mix_lm])
        scored = mix_for_scoring(job, [model, *others], weights)
        if job.scores:
            score(job, scored, [model, *others])
        if job.generates:
            generate(job, model)
        model = write(job, model, scored.vocab, out)
    return model if job.keep else None


def get_ready(job):
    """Checks the outputs. Lets a command keep freed memory, so that changing and writing the model is faster."""
    from lmtk.machine import memory

    texts = [*job.scoring.text, *job.scoring.counts]
    inputs = job.classes, job.gen_prefixes, job.heldout, job.vocab if job.vocab != job.write_vocab else None
    inputs = *inputs, job.scoring.reading.tokenizer
    check_outputs(*job.outputs, texts=texts, inputs=inputs)
    check_outputs(job.write_vocab, inputs=[job.lm, *job.mix_lm, job.prune_history_lm])  # a model may replace a model
    if not job.keep:  # a Python program goes on when the job is done, and needs its memory back
        memory.keep_all()


@contextlib.contextmanager
def output(job):
    """Yields (the open file of -write-bin, a function that allocates the nodes of the model in this file, as
    `building.map_in_file` does) if -write-bin is the only file of a model and the model is not changed. Otherwise
    yields (None, None).
    """
    from lmtk.files.outputs import open_out
    from lmtk.ngram.model.building import map_in_file

    in_memory = job.keep or not isinstance(job.lm, str) or job.write_bin in (None, job.lm)
    is_alone = not job.model_files.others("binary")
    if not is_alone or in_memory or job.is_changed or job.classes or job.order or job.compact or job.quantize:
        yield None, None
        return
    with open_out(job.write_bin) as out:
        yield out, partial(map_in_file, out)


def print_table(job):
    """-prune with several values: a line for each, with the numbers of n-grams that stay and, with -ppl, the
    perplexity.
    """
    from lmtk.jobs.changing import change, warn_of_kneser_ney
    from lmtk.reports.srilm import Tally, report
    from lmtk.text.corpus import read_corpus

    texts = None
    for threshold in job.prune:
        model, total = change(job, None, threshold)[0], Tally()
        if texts is None:
            if job.scoring.text:
                job.scoring.reading.check_model(model, job.name)
            if not job.prune_history_lm:
                warn_of_kneser_ney(job, model)
            sizes = [f"{k}-grams" for k in range(1, model.order + 1)]
            print("prune", "n-grams", *sizes, *["ppl"] * job.scores, sep="\t")
            # all models have the same words
            texts = [
                (path, [*read_corpus(path, model.vocab, job.scoring.marks, model.order)]) for path in job.scoring.text
            ]
        for path, corpora in texts:
            total.add(report(model, path, corpora, 0, lambda line: None)[0])
        ppl = [total.ppl] if job.scores else []
        print(f"{threshold:g}", sum(model.sizes), *model.sizes, *ppl, sep="\t", flush=True)


def score(job, model, parts):
    """-ppl and -counts. parts: the models that `model` was made of."""
    from lmtk.lm import find_running_text

    scoring, write = job.scoring, sys.stdout.buffer.write
    names = names_of(parts) if job.read_mix_lms else [job.name, *job.mix_lm]
    names = names if len(parts) > 1 else ["the model"]
    if scoring.text and (clause := find_running_text(parts, scoring.marks, names)):
        message = f"{clause}; if the model was trained with -stream, score texts by lmtk ppl -stream"
        warnings.warn(message, LmtkWarning, stacklevel=1)
    for path in scoring.text:
        report_text(model, path, scoring, write)
    for path in scoring.counts:
        report_count_file(model, path, scoring, write)


def generate(job, model):
    """-gen and -gen-prefixes."""
    from lmtk.ngram import generation
    from lmtk.text.corpus import Closed, Marks, read_ids

    prefixes = [[model.vocab.sos_id]] * (job.gen or 0)
    if job.gen_prefixes:
        ids, starts, _ = read_ids(job.gen_prefixes, Closed.of_vocab(model.vocab), Marks(sos=False, eos=False))
        prefixes += [ids[first:last].tolist() for first, last in pairwise(starts)]
    for sentence in generation.sentences(model, prefixes, job.seed, job.unk):
        sys.stdout.buffer.write(b" ".join(model.vocab.words[w] for w in sentence) + b"\n")


def write(job, model, vocab, out):
    """Writes the model and -write-vocab. Returns the model as it is written. vocab: of the model as it is scored. out:
    the open file of -write-bin, or None.
    """
    from lmtk.files.outputs import open_out
    from lmtk.joint import classes

    if job.write_vocab:
        with open_out(job.write_vocab) as words:
            words.write(b"".join(w + b"\n" for w in sorted(vocab.words)))
    if not job.model_files.paths:
        return model
    if not isinstance(model, classes.ClassModel):
        return write_files(model, job.model_files, job.may_reuse and not job.keep, out)
    if job.compact or job.quantize or job.closed or job.layout != "srilm" or job.model_files.others("binary"):
        options = "-compact, -quantize, -write-kenlm, -closed and -layout"
        raise LmtkError(f"{job.name}: {options} need a back-off model, but this is a class model; add -expand-classes")
    with contextlib.nullcontext(out) if out else open_out(job.write_bin) as binary:
        classes.write_binary(binary, model, job.lm)
    return model
