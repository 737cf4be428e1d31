"""Selecting the sentences of a pool that are most like a domain (Moore and Lewis 2010; Axelrod, He and Gao 2011).

`select` reads the pool twice. The first time it scores each line by two models, of the domain and of general text. The
second time it copies the lines with the lowest scores, in the order of the pool. So memory holds a score for each line
and not the text; only a pool from a pipe is kept in memory.

The score of a sentence is the cross-entropy difference H_domain - H_general per word, the end of the sentence included.
For a bitext it is the sum of the differences of both sides (Axelrod et al., section 4.2).
"""

import sys
import warnings
from dataclasses import dataclass, field
from itertools import chain, compress
from numbers import Integral

from lmtk.errors import LmtkError, LmtkWarning, counted, name_of
from lmtk.files.inputs import is_file
from lmtk.jobs.rules import (
    check,
    check_outputs,
    excludes,
    model_repeated,
    names_of,
    needs,
    one_stdin,
    text_missing,
    wrong,
)
from lmtk.jobs.texts import LOWERED_RULES, Reading, convert_texts


@dataclass(frozen=True)
class SelectJob:
    """Select sentences of a large text, called the pool, by two models, and write them.

    text: files of the pool. lm: two models, as files or in memory: of the domain, then of general text.
    source, target: the two sides of the pool, if it is a bitext. source_lm, target_lm: two models for each side.
    keep: the number of sentences to keep; below 1, the fraction to keep; None: only write the scores.
    write, or write_source and write_target: files for the selected sentences.
    write_scores: a file for the score of each line of the pool. threads: the number of threads for neural models.
    """

    text: tuple[str, ...] = ()
    lm: tuple[str, ...] = ()
    source: str | None = None
    target: str | None = None
    source_lm: tuple[str, ...] = ()
    target_lm: tuple[str, ...] = ()
    keep: float | None = None
    write: str | None = "-"
    write_source: str | None = None
    write_target: str | None = None
    write_scores: str | None = None
    tolower: bool = False
    threads: int | None = None
    debug: int = 0
    quiet: bool = False
    reading: Reading = field(default_factory=Reading)

    def __post_init__(self):
        check(self, RULES)
        convert_texts(self, self.reading.unsplit)
        one_stdin(*self.text, self.source, self.target, *self.lm, *self.source_lm, *self.target_lm)


def models_of_sides(job):
    """The message about an option that does not have two models, or None."""
    for option in ("source_lm", "target_lm") if job.source else ("lm",):
        models, name = getattr(job, option), f"-{option.replace('_', '-')}"
        if len(models) != 2:
            has = f"has {counted(len(models), 'model')}" if models else "is missing"
            return f"{name} {has}; give two models: of the domain, then of general text"
        if message := model_repeated(models, name):
            return message
    return None


RULES = (
    lambda job: (
        None
        if job.text or job.source or job.target
        else text_missing(job.lm, 2, "-text is missing, or -source and -target")
    ),
    excludes(
        "write",
        "source target",
        "-write is the output of -text; the outputs of a bitext are -write-source and -write-target",
    ),
    excludes(
        "lm", "source target", "-lm has the models of -text; the models of a bitext are -source-lm and -target-lm"
    ),
    excludes("text lm write", "source target source_lm target_lm write_source write_target"),
    needs("source", "target"),
    needs("target", "source"),
    needs("source_lm target_lm write_source write_target", "source"),
    models_of_sides,
    needs("write write_source write_target", "keep"),
    wrong(
        lambda job: job.keep is None and not job.write_scores,
        "-keep is missing; give a number of sentences or a fraction below 1, or give only -write-scores",
    ),
    wrong(
        lambda job: job.keep is not None and not job.keep > 0,
        "-keep must be above 0; give a number of sentences or a fraction below 1",
    ),
    wrong(
        lambda job: (job.keep or 0) >= 1 and (job.keep % 1 or (job.keep == 1 and not isinstance(job.keep, Integral))),
        "-keep takes a whole number of sentences, or a fraction below 1 such as 0.2, not {keep}",
    ),
    wrong(lambda job: job.source and job.keep and not job.write_source, "-source needs -write-source"),
    wrong(lambda job: job.target and job.keep and not job.write_target, "-target needs -write-target"),
    *LOWERED_RULES,
    excludes(
        "field tokenizer normalize",
        "source",
        "-field, -tokenizer and -normalize work with -text, not with the two sides of a bitext; first convert "
        "both sides to lines of words",
    ),
)


@dataclass(frozen=True)
class Side:
    """One side of the pool, or the whole pool. paths: its files; names: the files of its two models; write: the output,
    or None; held: the blocks of the text of those paths that can be read only once, {path: list of bytes}.
    """

    paths: tuple
    names: tuple
    write: str | None
    held: dict

    @property
    def name(self):
        return ", ".join(map(name_of, self.paths))


@dataclass(frozen=True)
class Selection:
    """scores: (L,) float64, the score of each line of the pool: log10 per word, inf for a blank line. chosen: (L,)
    bool, whether the line is selected.
    """

    scores: object
    chosen: object


def select(job):
    """Runs a SelectJob. Returns the Selection and the Sides of the pool. Raises LmtkError if two models have different
    words, if the sides have different numbers of lines, and if the pool has too few sentences.
    """
    from contextlib import ExitStack

    from lmtk.files import container
    from lmtk.files.outputs import open_out
    from lmtk.jobs.bar import reading_bar
    from lmtk.machine.threads import use

    sides = sides_of(job)
    texts = [path for side in sides for path in side.paths]
    inputs = [name for side in sides for name in side.names] + [job.reading.tokenizer]
    check_outputs(*(side.write for side in sides), job.write_scores, texts=texts, inputs=inputs)
    use(job.threads)
    models = [load_models(job, side) for side in sides]
    with reading_bar(texts, "scoring", job.quiet):
        selection = choose(job, sides, [score_side(job, *pair) for pair in zip(sides, models)])
    container.finish()  # a damaged model must not select
    with ExitStack() as outputs:  # both sides appear, or none
        for side in sides:
            if side.write:
                outputs.enter_context(open_out(side.write)).writelines(selected_lines(side, selection.chosen))
        if job.write_scores:
            out = outputs.enter_context(open_out(job.write_scores))
            out.writelines(b"%.7g\n" % score for score in selection.scores.tolist())
    return selection, sides


def sides_of(job):
    """The Sides of the pool: one for -text, two for a bitext."""
    if job.text:
        return [Side(job.text, job.lm, job.write if job.keep else None, {})]
    source = Side((job.source,), job.source_lm, job.write_source, {})
    return [source, Side((job.target,), job.target_lm, job.write_target, {})]


def load_models(job, side):
    """The two models of a Side, in memory. Raises LmtkError if they have different words."""
    from lmtk.files.registry import load
    from lmtk.jobs.bar import reading_bar
    from lmtk.joint.mixture import check_vocabularies
    from lmtk.lm import find_running_text
    from lmtk.text.corpus import Marks

    models = []
    for model in side.names:
        with reading_bar([model] if isinstance(model, str) else [], "reading the model", job.quiet):
            models.append(load(model, sums="later") if isinstance(model, str) else model)
    names = names_of(side.names)
    check_vocabularies(models, names)
    job.reading.check_models(models, names)
    if clause := find_running_text(models, Marks(), names):
        warnings.warn(f"{clause}; select needs models of sentences, trained without -stream", LmtkWarning, stacklevel=1)
    return models


def score_side(job, side, models):
    """(scores, words, unknown) of one side: the cross-entropy difference of each line, (L,) float64; the number of
    words, and of those that are <unk>.
    """
    import numpy as np

    from lmtk.machine.threads import map_in_order
    from lmtk.text.corpus import Closed

    vocab = models[0].vocab
    reader = job.reading.reader(Closed.of_vocab(vocab), job.tolower)
    # the next block is read while the models score this one
    corpora = map_in_order(lambda block: lines_corpus(reader, block, vocab), blocks_of(side), threads=1)
    scores, words, unknown, renumbered = [np.zeros(0)], 0, 0, renumbering(models)
    for corpus, is_blank in corpora:
        scores.append(differences(models, renumbered, corpus, is_blank))
        words += int(np.count_nonzero(corpus.scored)) - len(corpus.starts) + 1
        unknown += int(np.count_nonzero(corpus.scored & (corpus.ids == vocab.unk_id)))
    return np.concatenate(scores), words, unknown


def blocks_of(side):
    """Yields the text of a Side in blocks of whole lines. Text from a pipe is kept in `side.held`."""
    from lmtk.files.decoding import blocks

    for path in side.paths:
        held = None if is_file(path) else side.held.setdefault(path, [])
        for block in blocks(path):
            if held is not None:
                held.append(block)
            yield block


def lines_corpus(reader, block, vocab):
    """(the Corpus of the lines of a block that are not blank, (L,) bool: whether each line is blank)."""
    import numpy as np

    from lmtk.text.corpus import NEWLINE, Corpus, Marks, except_openings, with_marks

    ids = reader.ids(block)
    is_blank = np.diff(np.flatnonzero(ids == NEWLINE), prepend=-1) == 1
    tokens, ends, _ = with_marks(ids, Marks(), vocab.sos_id, vocab.eos_id)
    starts = np.append(0, ends)
    return Corpus(tokens, starts, except_openings(tokens, starts, vocab.sos_id)), is_blank


def renumbering(models):
    """For each model, a map from the first model's word ids to its own word ids, (W,); None if the ids are the same."""
    words = models[0].vocab.words
    return [None if model.vocab.words == words else model.vocab.ids_of_words(words) for model in models]


def differences(models, renumbered, corpus, is_blank):
    """H_domain(s) - H_general(s) of each line, (L,) float64, in log10 per word: equation (1) of Axelrod et al. 2011.

    If either model gives a word no probability, both entropies leave the word out. A line without any other word scores
    inf, like a blank line.
    """
    import numpy as np

    from lmtk.lm import LN10
    from lmtk.text.corpus import Corpus

    scores = np.full(len(is_blank), np.inf)
    if len(corpus.ids):
        ids = (corpus.ids if new is None else new[corpus.ids] for new in renumbered)
        logp = [model.score(Corpus(x, corpus.starts, corpus.scored)).logp for model, x in zip(models, ids)]
        counts = corpus.scored & np.isfinite(logp[0]) & np.isfinite(logp[1])
        gain = np.zeros(len(counts))
        np.subtract(logp[1], logp[0], out=gain, where=counts)
        first = corpus.starts[:-1]
        words = np.add.reduceat(counts, first, dtype=np.int64)
        sums = np.add.reduceat(gain, first)
        scores[~is_blank] = np.divide(sums, words * LN10, out=np.full(len(sums), np.inf), where=words > 0)
    return scores


def choose(job, sides, results):
    """The Selection of a job. results: for each Side what `score_side` returns. Raises LmtkError."""
    import numpy as np

    from lmtk.text.bitext import check_lines

    if job.source:
        check_lines(job.source, job.target, *(len(scores) for scores, *_ in results))
    scores = sum(scores for scores, *_ in results)
    candidates = int(np.count_nonzero(np.isfinite(scores)))
    name, one = (sides[0].name, "sentence") if job.text else (f"{sides[0].name} and {sides[1].name}", "sentence pair")
    if not candidates:
        raise LmtkError(f"{name}: no {one} in it that the models can score; is it the right file?")
    keep = job.keep or 0
    number = int(keep) if keep == int(keep) else max(1, round(keep * candidates))
    if number > candidates:
        limit = f"it has {counted(candidates, one)}, and -keep is {number}"
        raise LmtkError(f"{name}: {limit}; give at most {candidates}, or a fraction such as 0.2")
    best = np.argsort(scores, kind="stable")[:number]
    chosen = np.zeros(len(scores), bool)
    chosen[best] = True
    if job.debug:
        say = lambda text: sys.stderr.write(text + "\n")
        scored = f", scores {scores[best[0]]:.4g} to {scores[best[-1]]:.4g}" if number else ""
        say(f"{counted(candidates, one)}, {number} selected{scored}")
        for side, (_, words, unknown) in zip(sides, results):
            say(f"{side.name}: {counted(words, 'word')}, {unknown} of them <unk>")
    return Selection(scores, chosen)


def selected_lines(side, chosen):
    """Yields the lines of a Side that are selected, as they stand in its text, each with its line end."""
    from lmtk.files.decoding import blocks

    texts, at = (side.held[path] if path in side.held else blocks(path) for path in side.paths), 0
    for block in chain.from_iterable(texts):
        rows = block.split(b"\n")[:-1]
        yield b"".join(row + b"\n" for row in compress(rows, chosen[at : at + len(rows)].tolist()))
        at += len(rows)
