"""Scoring texts, counts and documents by a model: SRILM's report, KenLM's, or figures in a JSONL file."""

import contextlib
import os
import sys
import warnings
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress, repeat, takewhile

from lmtk.errors import LmtkWarning, UsageError, counted, name_of
from lmtk.files.inputs import is_file, is_stream
from lmtk.jobs.documents import DOCUMENT_RULES, Documents, outputs_of, score_documents
from lmtk.jobs.rules import (
    check,
    check_outputs,
    excludes,
    marks_of,
    model_missing,
    needs,
    one_of,
    one_stdin,
    options_given,
    required,
    wrong_without_text,
)
from lmtk.jobs.texts import LOWERED_RULES, SHORT_TEXT, Reading, convert_texts, needs_text


@dataclass(frozen=True)
class Scoring:
    """What is scored, and what the report says.

    text, counts: files of texts and of counts. count_order: score only n-grams of `counts` up to this order; None: up
    to `order`, or the order of the model.
    counts_entropy: weight each count by the probability of its n-gram.
    text_has_weights: a line of a text begins with the weight of the sentence. reverse: score lines from the last word.
    escape: lines that begin with this text are copied into the report.
    sums_with_unk: whether sums over the vocabulary include <unk>.
    debug: 0: the report; 1: also each sentence; 2: also each word; 3: also the sum of all probabilities.
    reading: how the texts become lines of words.
    """

    text: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()
    count_order: int | None = None
    order: int | None = None
    float_counts: bool = False
    counts_entropy: bool = False
    text_has_weights: bool = False
    reverse: bool = False
    escape: str = ""
    sums_with_unk: bool = True
    no_sos: bool = False
    no_eos: bool = False
    stream: bool = False
    tolower: bool = False
    debug: int = 0
    reading: Reading = field(default_factory=Reading)

    def __post_init__(self):
        convert_texts(self, self.reading)

    @property
    def marks(self):
        return marks_of(self)


@dataclass(frozen=True)
class ScoreJob:
    """Score texts and counts, or documents, by a model.

    lm: the model's file, or a model in memory. classes: a file of classes, for a model of classes.
    format: the report, "srilm" or "kenlm". write: the file of the report; None: no report.
    oov_features: give unknown words features and probabilities that are computed from their contexts.
    dynamic: take a gradient step on each segment of the text after scoring it.
    cache: the number of words in the cache of a neural model; 0: no cache.
    threads: the number of threads for a neural model.
    """

    scoring: Scoring = field(default_factory=Scoring)
    documents: Documents = field(default_factory=Documents)
    lm: str | None = None
    classes: str | None = None
    simple_classes: bool = False
    format: str = "srilm"
    oov_features: bool = False
    dynamic: bool = False
    dynamic_rate: float = 0.03
    dynamic_segment: int = 20
    dynamic_decay: float = 0.001
    cache: int = 0
    cache_theta: float = 0.5
    cache_lambda: float = 0.1
    strict: bool = False
    threads: int | None = None
    write: str | None = "-"

    def __post_init__(self):
        check(self, RULES)
        one_stdin(self.lm, *self.scoring.text, *self.scoring.counts, self.classes, self.documents.jsonl)


FOLLOWING = "oov_features dynamic cache"  # with these a model follows the text


def follows(job):
    """The first option of FOLLOWING that is given, or None."""
    return next(iter(options_given(job, FOLLOWING)), None)


def debug_too_high(job):
    """The message about a -debug that the report does not have, or None. The sums of -debug 3 are computed after the
    text is scored, so a model that follows the text would have changed by then.
    """
    if job.format == "srilm" and not follows(job):
        return "-debug takes values up to 3" if job.scoring.debug > 3 else None
    too_high = "-debug takes values up to 2 with -oov-features, -dynamic, -cache or -format kenlm"
    return too_high if job.scoring.debug > 2 else None


RULES = (
    lambda job: model_missing(job.lm, job.scoring.text),
    required("lm"),
    wrong_without_text(
        lambda job: not (job.scoring.text or job.scoring.counts or job.documents.jsonl), "-text is missing"
    ),
    *LOWERED_RULES,
    *DOCUMENT_RULES,
    one_of("format", ("srilm", "kenlm")),
    excludes("counts stream", "format", more=" kenlm"),
    debug_too_high,
    needs_text("text jsonl"),
    needs("count_order float_counts", "counts"),
    excludes(FOLLOWING, "counts"),
    excludes(FOLLOWING, "format", more=" kenlm"),
    excludes("oov_features", "dynamic cache"),
    needs("dynamic_rate dynamic_segment dynamic_decay", "dynamic"),
    needs("cache_theta cache_lambda", "cache"),
)


def score(job):
    """Runs a ScoreJob. Returns the reports.tally.Tally of each text in SRILM's report; of documents what
    `score_documents` returns.
    """
    from lmtk.files import container
    from lmtk.files.outputs import open_out
    from lmtk.jobs.bar import reading_bar
    from lmtk.lm import find_running_text
    from lmtk.machine.threads import use

    scoring, tallies = job.scoring, []
    inputs = [job.lm, job.classes, scoring.reading.tokenizer]
    outputs = outputs_of(job) if job.documents.jsonl else [job.write]
    check_outputs(
        *outputs, job.documents.write_rest, texts=[*scoring.text, *scoring.counts, job.documents.jsonl], inputs=inputs
    )
    use(job.threads)
    model = model_of(job)
    if (scoring.text or job.documents.jsonl) and (clause := find_running_text([model], scoring.marks)):
        remedy = "if the model was trained with -stream, add -stream here too"
        if job.documents.jsonl:
            remedy = "documents need a model of sentences, trained without -stream"
        warnings.warn(f"{clause}; {remedy}", LmtkWarning, stacklevel=1)
    scoring.reading.check_model(model, job.lm if isinstance(job.lm, str) else "the model")
    if job.documents.jsonl:
        return score_documents(job, model)
    out = open_out(job.write) if job.write else contextlib.nullcontext()
    # lines of words leave no room for a bar
    with out as out, reading_bar([*scoring.text, *scoring.counts], "scoring", quiet=scoring.debug > 0) as bar:
        say = bar.aside(out.write) if out else lambda text: None

        def tell(text):
            container.finish()  # a damaged file must not be reported on
            say(text)

        for path in scoring.text:
            tallies.append(score_text(job, model, path, tell))
        for path in scoring.counts:
            report_count_file(model, path, scoring, tell)
    return tallies


def model_of(job):
    """The model that a ScoreJob scores with."""
    from lmtk.files.registry import load, load_strictly
    from lmtk.jobs.bar import reading_bar

    model = job.lm
    if isinstance(model, str):
        with reading_bar([job.lm], "reading the model"):
            model = load_strictly(job.lm) if job.strict else load(job.lm, sums="later")
    if job.classes:
        from lmtk.joint.classes import class_model

        name = job.lm if isinstance(job.lm, str) else "the model"
        model = class_model(model, name, job.classes, simple=job.simple_classes)
    if job.scoring.order:
        from lmtk.joint.mixture import lowered

        model = lowered(model, job.scoring.order)
    return model


def score_text(job, model, path, tell):
    """Writes the report of a text by `tell`. Returns its Tally, None in KenLM's format."""
    scoring = job.scoring
    if job.format == "kenlm":
        from lmtk.reports.kenlm import LEVELS, report

        return report(model, job.lm, path, scoring.marks, LEVELS[: scoring.debug + 1], tell)
    tally, unknown = report_text(following(job, model), path, scoring, tell)
    if tally and (scoring.reading.tokenizer or scoring.reading.field or tally.words >= SHORT_TEXT):
        scoring.reading.check_pieces(unknown + tally.oovs, tally.words, name_of(path))
    if scoring.debug and unknown and not job.oov_features:
        name = os.fsdecode(model.vocab.words[model.vocab.unk_id])
        clause = counted(unknown, "unknown word is", "unknown words are")
        reason = f"which has a probability, so {'it is' if unknown == 1 else 'they are'} not among the OOVs"
        sys.stderr.write(f"{name_of(path)}: {clause} scored as {name}, {reason}\n")
    return tally


def report_text(model, path, scoring, write):
    """SRILM's report of a text, as the Scoring says. Returns (the Tally, None if lines are copied; the number of
    words that are <unk> or unknown, where <unk> has a probability).
    """
    from lmtk.files.decoding import blocks, lines, passages
    from lmtk.machine.large import pays
    from lmtk.machine.threads import map_in_order
    from lmtk.ngram.model.backoff import Backoff
    from lmtk.reports.srilm import BLOCK, report, report_passages, report_sums
    from lmtk.text.corpus import corpora

    marks, debug, index = scoring.marks, scoring.debug, getattr(model, "index", None)
    words_before = len(model.vocab.words)
    read = partial(weighted_corpora, path) if scoring.text_has_weights else corpora
    read = partial(read, vocab=model.vocab, marks=marks, order=model.order, keep_lines=debug >= 1, index=index)
    if scoring.escape:
        texts = ((read([text]), line) for text, line in passages(lines(path), os.fsencode(scoring.escape)))
        report_passages(model, path, texts, debug, write, scoring.sums_with_unk)
        return None, 0
    large = is_file(path) and pays("text", os.path.getsize(path))
    # whether a long line may come in pieces: not where sentences are printed, weighted or read backwards
    pieces = debug == 0 and not (scoring.reverse or scoring.text_has_weights)
    if large and isinstance(model, Backoff) and pieces and not scoring.stream:
        tally, _, unknown = report_sums(model, path, blocks(path, BLOCK, pieces=True), marks, write)
        return tally, unknown
    is_interactive = debug >= 1 and is_stream(path)
    texts = read(blocks(path, eager=is_interactive, pieces=pieces))
    if is_interactive:
        texts = flush_after_each(texts)
    if index is None and large:  # a thread reads ahead; it does not read a pipe, which may wait for its writer
        coming = iter(texts)
        texts = takewhile(bool, map_in_order(lambda _: next(coming, None), repeat(None), threads=1))
    tally, blank, unknown = report(model, path, texts, debug, write, scoring.sums_with_unk)
    if debug and blank:
        sys.stderr.write(f"{name_of(path)}: {counted(blank, 'blank line')} skipped\n")
    if debug and index is not None:
        joined = counted(len(model.vocab.words) - words_before, "word")
        sys.stderr.write(f"{name_of(path)}: {joined} added to the vocabulary\n")
    return tally, unknown


def flush_after_each(corpora):
    """Yields corpora, and flushes stdout after the report of each. So a program can write a sentence to a pipe and wait
    for its score, as with SRILM's ngram.
    """
    for corpus in corpora:
        yield corpus
        sys.stdout.flush()


def weighted_corpora(path, blocks, vocab, marks, **options):
    """The `corpora` of a text whose lines begin with how often they count. options: of `corpora`."""
    from lmtk.ngram.counting.collection import weighted_lines
    from lmtk.text.corpus import corpora

    marks = replace(marks, blank=marks.sos or marks.eos)
    for sentences, times in weighted_lines(path, blocks, True):
        has_tokens = [bool(sentence) or marks.blank for sentence in sentences]
        sentences, times = [*compress(sentences, has_tokens)], times[has_tokens]
        text = b"".join(sentence + b"\n" for sentence in sentences)
        for corpus in corpora([text], vocab, marks, **options):
            lines = corpus.lines and [b"%g* %s" % pair for pair in zip(times, corpus.lines)]
            yield replace(corpus, lines=lines, times=times)


def report_count_file(model, path, scoring, write):
    """Writes SRILM's report of a count file. Lines that begin with `scoring.escape` are copied; each passage before
    such a line has a report.
    """
    from lmtk.files.decoding import lines, passages
    from lmtk.ngram.counting.counts import read_rows
    from lmtk.reports.srilm import report_counts
    from lmtk.text.corpus import Closed

    index = getattr(model, "index", None) or Closed.of_vocab(model.vocab)
    texts = passages(lines(path), os.fsencode(scoring.escape)) if scoring.escape else [(None, b"")]
    order = scoring.count_order or scoring.order or model.order
    read = partial(read_rows, path, index, order, scoring.float_counts, scoring.tolower)
    rows = ((read(text if text is None else [text]), line) for text, line in texts)
    report_counts(model, path, rows, scoring.debug, write, scoring.sums_with_unk, scoring.counts_entropy)


def following(job, model):
    """The model that scores one text: with an option of FOLLOWING a fresh adaptive model, else `model` itself."""
    if job.oov_features:
        return open_vocabulary(model)
    return adaptive(job, model) if job.dynamic or job.cache else model


def adaptive(job, model):
    """The model with -dynamic and -cache, anew for each text. Raises UsageError if its kind cannot follow a text."""
    from lmtk.joint.mixture import Mixture
    from lmtk.lm import kind_of_model
    from lmtk.ngram.model.backoff import Backoff
    from lmtk.nplm.adaptive import AdaptiveNetwork, Cache, DynamicEvaluation

    if not can_follow(model):
        instead = "; for a cache with n-grams use lmtk ngram -cache" if isinstance(model, Backoff) and job.cache else ""
        raise UsageError(
            f"{follows(job)} needs a model of nplm-train (without -model energy and -objective shortlist), or a "
            f"mixture with one, but the kind of the model is {kind_of_model(model)}{instead}"
        )
    if isinstance(model, Mixture):
        return replace(model, parts=[adaptive(job, part) if can_follow(part) else part for part in model.parts])
    dynamic = DynamicEvaluation(job.dynamic_rate, job.dynamic_segment, job.dynamic_decay) if job.dynamic else None
    return AdaptiveNetwork(model, dynamic, Cache(job.cache, job.cache_theta, job.cache_lambda) if job.cache else None)


def can_follow(model):
    """Whether a model, or one of the models in a mixture, is a network that can follow a text."""
    from lmtk.joint.mixture import Mixture
    from lmtk.nplm.adaptive import ADAPTIVE
    from lmtk.nplm.network import Network

    if isinstance(model, Mixture):
        return any(map(can_follow, model.parts))
    return isinstance(model, Network) and model.output in ADAPTIVE


def open_vocabulary(model):
    """The model with a vocabulary that grows, anew for each text. Raises UsageError if its kind cannot."""
    from lmtk.lm import kind_of_model
    from lmtk.nplm.network import Network
    from lmtk.nplm.oov import OpenNetwork

    if not isinstance(model, Network) or model.kind not in ("nplm", "nplm-energy"):
        needed = (
            "-oov-features needs a model of nplm-train -model nplm or energy (-objective full, sampled or nce, "
            "without -tied)"
        )
        raise UsageError(f"{needed}, but the kind of the model is {kind_of_model(model)}")
    return OpenNetwork(model)
