"""Scoring the hypotheses of n-best lists by models, and ordering them with weights that are given or tuned."""

import os
import sys
import warnings
from dataclasses import dataclass
from functools import cached_property

from lmtk.errors import FormatError, LmtkError, LmtkWarning, UsageError, counted
from lmtk.jobs.rules import check, check_outputs, excludes, needs, one_of, one_stdin, wrong
from lmtk.jobs.texts import NOT_LOWERED, PIECE_RULES, Reading


@dataclass(frozen=True)
class RescoreJob:
    """Score n-best lists by models, order the hypotheses, and write the lists.

    lm, model: files of language models and of translation models. nbest: files of lists. source: the source text of the
    lists, for `model`. name: the names of the models' features, as bytes.
    weights: a file of weights for all features. lmw: a weight for each model; wtw: the weight of the number of words.
    tune: files of references on which weights are learned, from `restarts` random starts.
    best: write only the best hypothesis of each list. unk_penalty: log10 p of a word without a probability.
    tokenizer, encode: as in texts.Reading, for the language models.
    """

    lm: tuple[str, ...] = ()
    nbest: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    source: str | None = None
    name: tuple[bytes, ...] = ()
    weights: str | None = None
    lmw: tuple[float, ...] = ()
    wtw: float | None = None
    tune: tuple[str, ...] = ()
    metric: str = "bleu"
    write_weights: str | None = None
    words: bool = False
    restarts: int = 20
    seed: int = 1
    best: bool = False
    write: str = "-"
    write_nbest_dir: str | None = None
    unk_penalty: float | None = None
    tolower: bool = False
    tokenizer: str | None = None
    encode: str | None = None
    threads: int | None = None
    debug: int = 0

    def __post_init__(self):
        check(self, RULES)
        weights = [self.weights] if self.weights else []
        one_stdin(*self.lm, *self.model, self.source, *self.nbest, *self.tune, *weights)

    @cached_property
    def reading(self):
        return Reading(None, self.tokenizer, self.encode)

    @property
    def models(self):
        """The number of models."""
        return len(self.lm) + len(self.model)

    @property
    def makes_score(self):
        """Whether weights of all features make the score, instead of adding to the score in the list."""
        return bool(self.weights or self.tune)

    @property
    def is_weighted(self):
        return bool(self.makes_score or self.lmw or self.wtw is not None)


def added_and_made(job):
    """The message about options that add to the score and options that replace it, given together; or None."""
    if job.makes_score and (job.lmw or job.wtw is not None):
        adding, making = "lmw" if job.lmw else "wtw", "tune" if job.tune else "weights"
        return f"-{adding} adds to the scores in the lists, but -{making} replaces them; give only one of these options"
    return None


def names_for_models(job):
    """The message about a number of names that is not the number of models, or None."""
    if not job.name or len(job.name) == job.models:
        return None
    wanted = f"{counted(job.models, 'model needs', 'models need')} {counted(job.models, 'name')}"
    return f"{wanted} (-name), not {len(job.name)}"


def overwrites_lists(job):
    """Whether -write-nbest-dir is a folder of the lists that are read."""
    folders = {os.path.dirname(os.path.realpath(path)) for path in job.nbest}
    return job.write_nbest_dir and os.path.realpath(job.write_nbest_dir) in folders


def name_in_folder(path):
    """The name of the file, in the folder of -write-nbest-dir, for the lists of an input file."""
    return "stdin" if path == "-" else os.path.basename(path)


def overwritten_by_lists(job):
    """The message about another input that -write-nbest-dir would replace, or None."""
    if not job.write_nbest_dir:
        return None
    outputs = {os.path.realpath(os.path.join(job.write_nbest_dir, name_in_folder(path))) for path in job.nbest}
    inputs = *job.lm, *job.model, job.source, *job.tune, job.weights, job.tokenizer
    for path in inputs:
        if path not in (None, "-") and os.path.realpath(path) in outputs:
            return f"-write-nbest-dir {job.write_nbest_dir} would replace {path}, an input; choose another folder"
    return None


def lists_missing(job):
    """The message about a missing -nbest, or None."""
    lists = f", and {job.lm[-1]} was taken as a model; give the lists as -nbest FILE" if len(job.lm) > 1 else ""
    return None if job.nbest else f"-nbest is missing{lists}"


RULES = (
    lists_missing,
    wrong(lambda job: not (job.models or job.is_weighted or job.words), "-lm is missing"),
    wrong(lambda job: bool(job.model) != bool(job.source), "-model and -source must be given together"),
    added_and_made,
    one_of("metric", ("bleu", "wer")),
    needs("metric restarts seed", "tune"),
    needs("unk_penalty", "lm"),
    needs("best", "weights tune lmw wtw", "-best needs weights: -weights, -lmw or -tune"),
    needs("write_weights", "tune weights"),
    names_for_models,
    wrong(lambda job: len(set(job.name)) < len(job.name), "-name gives two models the same name"),
    wrong(
        lambda job: any(name.split() != [name] or b"|||" in name for name in job.name),
        "-name takes names without blanks and without |||, which separate the fields of a list",
    ),
    wrong(
        lambda job: job.write_nbest_dir and len({os.path.basename(path) for path in job.nbest}) < len(job.nbest),
        "-write-nbest-dir needs lists with different file names",
    ),
    wrong(
        overwrites_lists, "-write-nbest-dir {write_nbest_dir} is the folder of the input lists; choose another folder"
    ),
    excludes("write", "write_nbest_dir"),
    overwritten_by_lists,
    *PIECE_RULES,
    NOT_LOWERED,
    needs("tokenizer", "lm", "-tokenizer splits the hypotheses for language models, so it needs -lm"),
)


def rescore(job):
    """Runs a RescoreJob. Returns the nbest.lists.NBest with the models' scores as features."""
    from lmtk.files.outputs import open_out
    from lmtk.machine.threads import threads_of_environment, use
    from lmtk.nbest import lists as forms

    written = None if job.write_nbest_dir else job.write
    texts = [*job.nbest, job.source, *job.tune]
    check_outputs(written, job.write_weights, texts=texts, inputs=[*job.lm, *job.model, job.tokenizer])
    check_outputs(written, inputs=[job.weights])  # -write-weights may replace the file of -weights
    use(job.threads, products=job.threads or threads_of_environment() or 1)
    lists = forms.read(job.nbest)
    check_form(job, lists)
    references = [read_references(path, len(lists.starts) - 1) for path in job.tune]
    in_lists, added = lists.names, list(job.name) or default_names(lists, len(job.lm), len(job.model))
    rows = forms.read_weights(job.weights) if job.weights else []
    columns = lm_columns(job, lists) + (translation_columns(job, lists) if job.model else [])
    lists = forms.add_scores(lists, columns, added)
    if lists.form == forms.MOSES:
        lists = forms.add_derived_features(lists, [row[1] for row in rows] + [b"words"] * job.words)
    lists, totals, learned = weigh(job, lists, rows, references, added)
    added = [*added, *(name for name in lists.names if name in forms.MADE and name not in in_lists)]
    if job.write_weights:
        with open_out(job.write_weights) as out:
            forms.write_weights(out, lists.names, learned)
    write_all(job, lists, totals, added)
    return lists


def weigh(job, lists, rows, references, added):
    """(the lists, the new score of each hypothesis (N,), the weights of all features). The last two are None if the job
    does not need them. rows: the rows of the file of weights. added: the names of the models' features.
    """
    import numpy as np

    from lmtk.nbest import lists as forms

    totals = learned = None
    if job.makes_score:
        learned = forms.match_weights(rows, lists.names, job.weights) if job.weights else first_weights(lists)
        if job.tune:
            lists, learned = tune(job, lists, learned, references)
        totals = forms.compute_totals(lists.features, learned)
    elif job.is_weighted:
        totals = add_scores(job, lists, added)
    if totals is not None and not np.isfinite(totals[np.isfinite(lists.features).all(axis=1)]).all():
        raise LmtkError("these weights give scores that are not finite; use smaller weights")
    return lists, totals, learned


def check_form(job, lists):
    """Raises UsageError for options that cannot be used with lists of this form."""
    from lmtk.nbest import lists as forms

    srilm = lists.form == forms.SRILM
    wanted = 1 if srilm else job.models
    if job.lmw and len(job.lmw) != wanted:
        scores = "SRILM lists need" if srilm else counted(job.models, "model needs", "models need")
        raise UsageError(f"{scores} {counted(wanted, 'weight')} (-lmw), not {len(job.lmw)}")
    if srilm:
        check(job, OF_SRILM)
    elif job.models and job.wtw is not None and not job.lmw:
        raise UsageError("-wtw needs -lmw, with a weight for each model")
    else:
        for name in job.name if job.lmw else ():
            if name in lists.names:
                shown = os.fsdecode(name)
                why = "the scores in the lists already contain this feature; give -weights instead of -lmw"
                raise UsageError(f"-name {shown}: {why}")


OF_SRILM = (
    wrong(lambda job: job.model, "-model works with Moses lists only, because their keys are line numbers of -source"),
    wrong(
        lambda job: len(job.nbest) > 1 and not (job.best or job.write_nbest_dir),
        "several SRILM lists cannot be written to one file; give -write-nbest-dir or -best",
    ),
    lambda job: (
        f"SRILM lists can have the score of one model only, not of {job.models}; first mix the models (lmtk mix)"
        if job.models > 1
        else None
    ),
    wrong(lambda job: job.name, "-name works with Moses lists only; the scores in SRILM lists have no names"),
    wrong(lambda job: job.words, "-words works with Moses lists only; SRILM lists already have the number of words"),
)


def default_names(lists, lms, translation):
    """The names of the models' features if -name does not say them. lms, translation: the numbers of models."""
    from lmtk.nbest import lists as forms

    if lists.form == forms.SRILM:
        return forms.SRILM_NAMES[1:2] * lms
    return forms.unused_names(lists, b"LM", lms) + forms.unused_names(lists, b"NMT", translation)


def lm_columns(job, lists):
    """log10 p of all hypotheses under each language model, (N,) each."""
    from lmtk.files.registry import load
    from lmtk.nbest import lists as forms

    penalty = job.unk_penalty
    if penalty is None:
        penalty = 0 if lists.form == forms.SRILM else -100
    columns, split = [], job.reading.split if job.tokenizer else None
    for path in job.lm:
        model = load(path)
        job.reading.check_model(model, path)
        columns.append(forms.score_hypotheses(lists, model, penalty, job.tolower, split))
    return columns


def translation_columns(job, lists):
    """log10 p of all hypotheses under each translation model, (N,) each."""
    from lmtk.files.decoding import lines
    from lmtk.files.registry import load_translation
    from lmtk.nbest import lists as forms
    from lmtk.nmt.scoring import score_lines
    from lmtk.text.subwords import make_splitter

    rows = [row for _, row in lines(job.source)]
    numbers = forms.source_lines(lists, job.nbest, len(rows))
    pairs = [(rows[i], words) for i, words in zip(numbers, lists.words, strict=True)]
    columns = []
    for path in job.model:
        model = load_translation(path)
        columns.append(score_lines(model, make_splitter(model.subwords, path), pairs, job.tolower))
    return columns


def add_scores(job, lists, added):
    """The new score of each hypothesis, (N,): the score in the list plus the weighted scores of -lmw and -wtw. added:
    the names of the models' features.
    """
    import numpy as np

    from lmtk.nbest import lists as forms

    if lists.form == forms.SRILM:
        weights = [1, job.lmw[0] if job.lmw else forms.LMW, forms.WTW if job.wtw is None else job.wtw]
        return forms.compute_totals(lists.features, np.array(weights))
    columns = [lists.columns(name)[0] for name in added]
    totals = lists.totals + forms.compute_totals(lists.features[:, columns], np.array(job.lmw))
    return totals if job.wtw is None else totals + job.wtw * forms.count_words(lists)


def first_weights(lists):
    """The weights from which -tune starts by default."""
    import numpy as np

    from lmtk.nbest import lists as forms

    return np.array([1, forms.LMW, forms.WTW]) if lists.form == forms.SRILM else np.ones(len(lists.names))


def tune(job, lists, weights, references):
    """(the lists, the weights that -tune learns). -debug 1 prints the BLEU before and after, -debug 2 that of each
    start.

    If no weights give Moses's lists the BLEU of their original order, the original score becomes a feature, `score`.
    """
    import numpy as np

    from lmtk.nbest import lists as forms
    from lmtk.nbest import tuning

    stats = statistics(lists, references, job.metric)
    say = lambda text: sys.stderr.write(text + "\n")
    show = lambda score: f"BLEU = {100 * score:.2f}" if job.metric == "bleu" else f"WER = {100 * (1 - score):.2f}"
    tell = (lambda start, score: say(f"start {start}: {show(score)}")) if job.debug >= 2 else None
    srilm = lists.form == forms.SRILM
    quality = lambda totals: tuning.quality_of_best(totals, lists.starts, stats)
    before = quality(lists.totals)

    def best_of(lists, starts):
        fixed = 0 if srilm else None
        best = tuning.tune((lists.features, lists.starts), stats, starts, fixed, job.seed, job.restarts, tell)
        best = forms.round_as_written(best)
        return quality(forms.compute_totals(lists.features, best)), best

    after, learned = best_of(lists, [weights] if srilm else [weights, forms.fit_weights(lists)])
    if after < before and not srilm and b"score" not in lists.names:
        lists = forms.add_derived_features(lists, [b"score"])
        alone = np.append(np.zeros(len(weights)), 1.0)
        after, learned = max(best_of(lists, [alone]), (before, alone), key=lambda scored: scored[0])
        if job.debug:
            say("no weights are as good as the original order; the original score is added as the feature score=")
    if job.debug:
        size = f"{counted(len(lists.starts) - 1, 'list')}, {counted(len(lists.words), 'hypothesis', 'hypotheses')}"
        say(f"{size}: {show(before)}, tuned {show(after).split()[-1]}")
    if after < before:
        scores = f"{show(after)} after tuning, {show(before).split()[-1]} before"
        message = f"no weights are as good as the original order of the lists: {scores}"
        warnings.warn(message, LmtkWarning, stacklevel=2)
    return lists, learned


def statistics(lists, references, metric):
    """The statistics of BLEU or WER of each hypothesis. references: the lines of each file, one line for each list."""
    import numpy as np

    from lmtk.nbest import tuning

    spans = zip(lists.starts[:-1], lists.starts[1:])
    rows = zip(*references, strict=True)
    return np.concatenate([tuning.METRICS[metric](lists.words[i:j], row) for (i, j), row in zip(spans, rows)])


def read_references(path, L):
    """The lines of a file, one for each of L lists."""
    from lmtk.files.decoding import lines

    rows = list(lines(path))
    for number, line in rows:
        try:
            line.decode()
        except UnicodeDecodeError:
            raise FormatError(path, "not UTF-8; convert it with iconv", number) from None
    if len(rows) != L:
        raise FormatError(
            path, f"{counted(len(rows), 'reference')} for {counted(L, 'list')}; give one line for each list"
        )
    return [line for _, line in rows]


def write_all(job, lists, totals, added):
    """Writes the lists, or their best hypotheses, into one file or a folder. totals, added: as in `weigh`."""
    import numpy as np

    from lmtk.files.outputs import open_folder, open_out
    from lmtk.nbest import lists as forms

    order = np.arange(len(lists.words)) if totals is None else forms.sort_lists(totals, lists.starts)

    def write(path, file=None):
        """Writes the lists of one of the input files, or of all, to `path`."""
        chosen = np.flatnonzero((lists.files == file) | (file is None))
        with open_out(path) as out:
            if job.best:
                out.writelines(lists.words[i] + b"\n" for i in order[lists.starts[chosen]])
            else:
                rows = order[lists.starts[chosen[0]] : lists.starts[chosen[-1] + 1]]
                forms.write(out, lists, rows, totals, added)

    if not job.write_nbest_dir:
        write(job.write)
        return
    with open_folder(job.write_nbest_dir) as folder:
        for i, path in enumerate(job.nbest):
            write(os.path.join(folder, name_in_folder(path)), i)
