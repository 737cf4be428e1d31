"""Translating a text by beam search, or scoring translations that are given."""

import contextlib
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Lock

from lmtk.errors import FormatError, LmtkError, LmtkWarning, counted
from lmtk.files.figure import KINDS
from lmtk.files.inputs import is_file
from lmtk.jobs.rules import (
    check,
    check_outputs,
    excludes,
    format_number,
    needs,
    one_stdin,
    options_given,
    required,
    wrong,
)
from lmtk.jobs.texts import FIELD_RULES, Reading, convert_texts

UNKNOWN_SHARE = 0.2  # of the words of a text: above it a warning says that the model does not know them
ALIGNMENTS = "align soft_align align_html align_plot"
BEAM, LENGTH_POWER, MAX_LENGTH_FACTOR = 12, 1, 2  # defaults of these options


@dataclass(frozen=True)
class TranslateJob:
    """Translate a text, or score existing translations.

    model: the files of one model or of an ensemble. text: a file with a sentence on each line.
    score: write log10 p of each line of `target`, instead of translating.
    beam: the number of hypotheses kept for a sentence. length_power: rank hypotheses by log p / length^length_power.
    max_length_factor: limit a translation to this number times the number of source words, plus 10.
    mbr: choose among this number of translations by minimum Bayes risk; mbr_scale: weight each by p^mbr_scale.
    n_best: write this number of translations. dictionary: for replace_unk, a file of words and their translations.
    align, soft_align, align_html: files for alignments. align_plot: a folder for pictures of attention weights.
    batch: the number of sentences translated at once.
    reference: a file of reference translations, against which BLEU is computed. write: a file; None: write nothing.
    """

    model: tuple[str, ...] = ()
    text: str = "-"
    score: bool = False
    target: str | None = None
    write: str | None = "-"
    beam: int | None = None
    length_power: float | None = None
    max_length_factor: float | None = None
    no_unk: bool = False
    replace_unk: bool = False
    dictionary: str | None = None
    mbr: int | None = None
    mbr_scale: float | None = None
    n_best: int | None = None
    scores: bool = False
    align: str | None = None
    soft_align: str | None = None
    align_html: str | None = None
    align_plot: str | None = None
    plot_format: str | None = None
    batch: int | None = None
    reference: str | None = None
    threads: int | None = None
    tolower: bool = False
    field: str | None = None
    quiet: bool = False
    debug: int = 0

    def __post_init__(self):
        check(self, RULES)
        one_stdin(*self.model, self.text, self.target, self.dictionary, self.reference)
        convert_texts(self, Reading(self.field))

    @property
    def width(self):
        """Hypotheses kept for a sentence."""
        return self.beam or BEAM

    @property
    def power(self):
        return LENGTH_POWER if self.length_power is None else self.length_power

    @property
    def product_threads(self):
        from lmtk.machine.threads import threads_of_environment

        return self.threads or threads_of_environment() or 1


def wider_than_beam(job):
    """The message about a number of translations that the beam does not hold, or None."""
    for name, number in (("n-best", job.n_best), ("mbr", job.mbr)):
        if number and number > job.width:
            return f"-{name} {number} needs -beam {number} or more, not {job.width}"
    return None


RULES = (
    required("model"),
    wrong(lambda job: job.score != bool(job.target), "-score and -target must be given together"),
    excludes(
        "n_best mbr scores no_unk replace_unk batch beam length_power max_length_factor reference",
        "score",
        more=", which does not translate",
    ),
    wrong(lambda job: job.score and job.debug > 2, "-debug takes values up to 2 with -score"),
    wrong(
        lambda job: job.score and job.debug and options_given(job, ALIGNMENTS),
        "alignment options cannot be combined with -score -debug",
    ),
    needs("plot_format", "align_plot"),
    wrong(lambda job: job.plot_format not in (None, *KINDS), "-plot-format takes svg, png or pdf, not {plot_format}"),
    wider_than_beam,
    excludes("mbr", "n_best"),
    needs("mbr_scale", "mbr"),
    excludes("scores", "n_best", more=", which writes scores anyway"),
    excludes("replace_unk", "no_unk"),
    needs("dictionary", "replace_unk"),
    *FIELD_RULES,
    excludes(
        "field",
        "target reference",
        "-field cannot be combined with -target or -reference, whose lines belong to the lines of a text; first write "
        "the text of the field to a file",
    ),
)


@dataclass(frozen=True)
class Models:
    """An ensemble. split: words of a text -> words of the models. joined: words of the models -> a line."""

    models: list
    split: Callable
    joined: Callable


def translate(job, out=None):
    """Runs a TranslateJob. out: a binary stream for the output; None: that of the job's file."""
    from lmtk.files import figure
    from lmtk.files.outputs import open_out
    from lmtk.files.registry import load_ensemble
    from lmtk.machine.threads import use
    from lmtk.nmt import alignment
    from lmtk.text import subwords

    files = job.write, job.align, job.soft_align, job.align_html
    check_outputs(*files, texts=[job.text, job.target, job.reference], inputs=[*job.model, job.dictionary])
    if job.align_plot:
        if os.path.exists(job.align_plot) and not os.path.isdir(job.align_plot):
            raise LmtkError(f"-align-plot takes a folder, but {job.align_plot} is a file; give another name")
        figure.check_matplotlib("align-plot")
    use(job.threads, products=job.product_threads)
    ensemble = load_ensemble(job.model)
    check_attention(job, ensemble)
    pieces = ensemble[0].subwords
    split = subwords.make_splitter(pieces, job.model[0])
    models = Models(ensemble, split, subwords.join_pieces if pieces else b" ".join)
    pictures = job.align_plot, job.plot_format or "svg"
    aligned = alignment.alignment_writer(job.align, job.soft_align, job.align_html, *pictures, bool(pieces))
    with contextlib.nullcontext(out) if out else open_out(job.write) as out, aligned as write_alignment:
        (write_scores if job.score else write_translations)(job, models, out, write_alignment)


def check_attention(job, models):
    """Raises FormatError if the job has options that need attention, and none of the models has attention."""
    options = options_given(job, f"{ALIGNMENTS} replace_unk")
    if options and not any(model.has_attention for model in models):
        raise FormatError(job.model[0], f"{options[0]} needs a model with attention; this one has none (RNNencdec)")


def write_translations(job, models, out, write_alignment):
    """Writes the translations of a text to `out`. write_alignment: of `alignment.alignment_writer`."""
    from lmtk.files.decoding import blocks
    from lmtk.jobs.bar import Bar
    from lmtk.lm import LN10
    from lmtk.text.bitext import read_dictionary
    from lmtk.text.corpus import TOKEN
    from lmtk.text.vocab import count_missing, lower

    first, references = models.models[0], References(job.reference, job.tolower) if job.reference else None
    dictionary = read_dictionary(job.dictionary) if job.dictionary else {}
    shown = partial(translated_words, job, first, dictionary)
    number, tally = 0, Counter()
    with Bar(job.quiet) as bar:
        total = count_lines(job.text) if bar.width or references is not None else 0
        if references is not None and total:
            references.check(total)

        lock = Lock()

        def tell(sentences):
            with lock:  # several threads search
                tally["searched"] += sentences
                if total:
                    bar(tally["searched"] / total, "translating")

        search = make_search(job, models, tell)
        write = bar.aside(out.write) if job.write == "-" and sys.stdout.isatty() else out.write
        for block in blocks(job.text, eager=True):
            lines = block.removesuffix(b"\n").split(b"\n")
            rows = [models.split(TOKEN.findall(lower(line) if job.tolower else line)) for line in lines]
            for row, hypotheses in search(rows, shown):
                for rank, h in enumerate(hypotheses, 1):
                    target = shown(row, h)
                    write(line_of(job, number, models.joined(target), h))
                    name = f"{number}-{rank}" if job.n_best else f"{number}"
                    write_alignment(number, name, row, target, h.logp / LN10, h.links, h.alpha)
                number += 1
                tally.update(count_missing(row, first.source))
                best = models.joined(shown(row, hypotheses[0]))
                unknown = hypotheses[0].words.count(first.vocab.unk_id)
                tally.update(sentences=bool(row), blank=not row, words=len(TOKEN.findall(best)), unknown=unknown)
                if references is not None:
                    references.add(best)
            out.flush()
    warn_of_unknown(tally)
    if job.debug:
        summary = "{sentences} sentences, {blank} blank lines, {words} words, {unknown} of them [UNK]\n"
        sys.stderr.write(summary.format_map(tally))
    if references is not None:
        references.check(references.number)
        sys.stderr.write(references.report())


def count_lines(path):
    """The number of lines of a file; 0 for a pipe, which can be read only once."""
    from lmtk.files.decoding import blocks

    return sum(block.count(b"\n") for block in blocks(path)) if is_file(path) else 0


def warn_of_unknown(tally):
    """Warns if the model does not know many of the words that were read."""
    if tally["missing"] <= UNKNOWN_SHARE * tally["seen"]:
        return
    message = f"{tally['missing']} of {tally['seen']} source words are unknown to the model"
    if tally["upper"]:
        message += f"; with -tolower only {tally['missing'] - tally['upper']} would be unknown"
    warnings.warn(message, LmtkWarning, stacklevel=2)


class References:
    """Reference translations, line by line, and the statistics of BLEU against them."""

    def __init__(self, path, tolower):
        from lmtk.files.decoding import lines
        from lmtk.nbest.tuning import statistics
        from lmtk.text.vocab import lower

        self.path, self.change = path, lower if tolower else bytes
        self.lines = [self.change(line) for _, line in lines(path)]
        self.number, self.sums = 0, statistics([b""], [b""])[0]

    def add(self, translation):
        """Counts the translation of the next line."""
        from lmtk.nbest.tuning import statistics

        reference = self.lines[self.number] if self.number < len(self.lines) else b""
        self.sums += statistics([self.change(translation)], [reference])[0]
        self.number += 1

    def check(self, number):
        """Raises FormatError if there are not `number` references, as many as the text has lines."""
        if len(self.lines) != number:
            message = f"{counted(len(self.lines), 'line')}, but the text has {number}"
            raise FormatError(self.path, f"{message}; give one reference for each line")

    def report(self):
        """A line with BLEU and sacrebleu's signature."""
        from lmtk.nbest.tuning import SIGNATURE, bleu

        signature = SIGNATURE if self.change is bytes else SIGNATURE.replace("case:mixed", "case:lc")
        return f"BLEU|{signature} = {100 * float(bleu(self.sums)):.2f}\n"


def make_search(job, models, tell):
    """A function search(rows, shown), which yields each row of words with its hypotheses, the best first. A row without
    words has one empty hypothesis. shown(row, hypothesis): the words of a translation. tell: as for the Translator.
    """
    from lmtk.nmt.beam import Beam, Hypothesis, Translator
    from lmtk.nmt.scoring import rescore_alone
    from lmtk.text.bitext import ids_with_eos, word_index
    from lmtk.text.corpus import TOKEN

    first, factor = models.models[0], job.max_length_factor
    translator = Translator(*models.models, threads=job.product_threads, tell=tell)
    index, eos = word_index(first.source), first.source.eos_id
    factor = MAX_LENGTH_FACTOR if factor is None else factor
    banned, wanted = first.vocab.unk_id if job.no_unk else None, job.n_best or job.mbr or 1
    beam = Beam(job.width, job.power, factor, banned=banned, wanted=wanted)
    together = job.batch or max(1, 240 // job.width)
    empty = Hypothesis([], True, 0.0, 0.0, [])
    weighed = job.n_best or job.scores or job.soft_align or job.align_html or job.align_plot

    def search(rows, shown):
        sentences = [ids_with_eos(row, index, eos) for row in rows if row]
        searched = iter(zip(sentences, translator(sentences, beam, together), strict=True))
        for row in rows:
            sentence, hypotheses = next(searched) if row else (None, [empty])
            if row and job.mbr:
                lines = [TOKEN.findall(models.joined(shown(row, h))) for h in hypotheses]
                hypotheses = [choose_safest(job, hypotheses, lines)]
            if row and weighed:
                hypotheses = rescore_alone(models.models, sentence, hypotheses, beam)
            yield row, hypotheses

    return search


def translated_words(job, model, dictionary, row, hypothesis):
    """The words of a translation, with -replace-unk. row: the words of its sentence. dictionary: word -> word."""
    from lmtk.text import subwords

    words = [model.vocab.words[w] for w in hypothesis.words]
    if not job.replace_unk or model.vocab.unk_id not in hypothesis.words:
        return words
    sources, mark = (subwords.whole_words(row), subwords.MARK) if model.subwords else (row, b"")
    for i, w in enumerate(hypothesis.words):
        if w == model.vocab.unk_id:
            word = sources[hypothesis.links[i]]
            words[i] = mark + dictionary.get(word, word)
    return words


def line_of(job, number, line, hypothesis):
    """The line of the output for a translation; number: of its sentence, for n-best lists."""
    from lmtk.lm import LN10
    from lmtk.text.corpus import TOKEN

    logp = format_number(hypothesis.logp / LN10).encode()
    if job.n_best:
        rank, words = format_number(hypothesis.rank / LN10).encode(), len(TOKEN.findall(line))
        return b"%d ||| %s ||| logprob= %s words= %d ||| %s\n" % (number, line, logp, words, rank)
    return logp + b"\t" + line + b"\n" if job.scores else line + b"\n"


def choose_safest(job, hypotheses, targets):
    """The hypothesis with the least risk. hypotheses: of a sentence, the best first. targets: the words of each
    hypothesis, as they are written.
    """
    from lmtk.nbest import risk

    mean = sum(len(h.words) + h.ended for h in hypotheses) / len(hypotheses)
    ranks = [h.rank * mean**job.power for h in hypotheses]
    return hypotheses[risk.least_risk(targets, ranks, risk.SCALE if job.mbr_scale is None else job.mbr_scale)]


def write_scores(job, models, out, write_alignment):
    """Writes log10 p of each line of -target given the line of -text; with -debug, SRILM's report of -target instead.
    write_alignment: as in write_translations.
    """
    from lmtk.lm import LN10
    from lmtk.nmt.alignment import strongest_links
    from lmtk.nmt.scoring import GivenSource, read_targets, score_pairs
    from lmtk.reports.srilm import report
    from lmtk.text.bitext import read_line_pairs

    corpora = read_targets(models.models[0], models.split, read_line_pairs(job.text, job.target), job.tolower)
    if job.debug:
        report(GivenSource(models.models), job.target, corpora, job.debug, out.write)
        return
    number = 0
    for targets in corpora:
        scored = score_pairs(models.models, targets.sources, targets.sentences())
        for (x, y), (logp, alpha) in zip(targets.words, scored, strict=True):
            log10p = logp.sum() / LN10
            out.write(f"{format_number(log10p)}\n".encode())
            strongest = [] if alpha is None else strongest_links(alpha)
            write_alignment(number, f"{number}", x, y, log10p, strongest, alpha if x and y else None)
            number += 1
