import os
import sys
from typing import Annotated

from lmtk.commands.options import (
    Debug,
    Seed,
    Threads,
    Tolower,
    UnkAsIs,
    Write,
    needed,
    one_stdin,
    one_stdout,
    option,
)
from lmtk.errors import FormatError, UsageError


def command(
    lm: Annotated[list[str] | None, option("lm", "A model of any kind (several).", "FILE")] = None,
    nbest: Annotated[
        list[str] | None, option("nbest", "N-best lists of Moses or SRILM (several; -: stdin).", "FILE")
    ] = None,
    model: Annotated[list[str] | None, option("model", "A translation model (several).", "FILE")] = None,
    source: Annotated[str | None, option("source", "What the lists translate, for -model (-: stdin).", "FILE")] = None,
    name: Annotated[
        list[str] | None,
        option("name", "The features of -lm and -model in Moses's lists (default: LM0 .., NMT0 ..).", "NAME"),
    ] = None,
    weights: Annotated[
        str | None, option("weights", "Weights of all features: lines Name= w w; with -tune the first ones.", "FILE")
    ] = None,
    lmw: Annotated[
        list[float] | None, option("lmw", "A weight for each model, added to the list's score.", "X")
    ] = None,
    wtw: Annotated[float | None, option("wtw", "The weight of a word, added to the list's score.", "X")] = None,
    tune: Annotated[
        list[str] | None, option("tune", "References, a line a list, to learn the weights on (several).", "FILE")
    ] = None,
    write_weights: Annotated[str | None, option("write-weights", "Where to write the weights.", "FILE")] = None,
    restarts: Annotated[int, option("restarts", "Random starts of -tune.", "N", min=0)] = 20,
    seed: Seed = 1,
    best: Annotated[bool, option("best", "Write the words of the best hypothesis of each list alone.")] = False,
    write: Write = "-",
    write_nbest_dir: Annotated[
        str | None, option("write-nbest-dir", "Write each file of lists under its own name into DIR.", "DIR")
    ] = None,
    unk_penalty: Annotated[
        float | None,
        option("unk-penalty", "log10 p of a word without probability (default: 0 for SRILM, -100 for Moses).", "X"),
    ] = None,
    unk: UnkAsIs = False,
    tolower: Tolower = False,
    threads: Threads = None,
    debug: Debug = 0,
):
    """Score the hypotheses of n-best lists by models; reorder them with weights given or learned on references.

    With -model and -source the hypotheses are translations, and the keys of the lists count the source's lines from 0.

    \b
    Example: lmtk rescore -lm big.lm -nbest lists.txt -tune references.txt -best
    """
    import numpy as np

    from lmtk.files.streams import check_out, open_folder, open_out
    from lmtk.machine.threads import stated, use
    from lmtk.nbest.lists import ordered, read, rescored
    from lmtk.nbest.lists import write_weights as write_rows

    lm, model, tune = lm or [], model or [], tune or []
    models = len(lm) + len(model)
    needed(nbest, "nbest")
    weighted = bool(weights or tune or lmw or wtw is not None)
    if not (models or weighted):
        raise UsageError("-lm is missing")
    if bool(model) != bool(source):
        raise UsageError("-model and -source go together")
    if (weights or tune) and (lmw or wtw is not None):
        given, other = "lmw" if lmw else "wtw", "tune" if tune else "weights"
        raise UsageError(f"-{given} adds to the list's score, and -{other} makes it anew; give one of them")
    if best and not weighted:
        raise UsageError("-best needs weights: -weights, -lmw or -tune")
    if write_weights and not (weights or tune):
        raise UsageError("-write-weights needs -tune or -weights")
    if name and len(name) != models:
        raise UsageError(f"{models} models need {models} names (-name), not {len(name)}")
    if len(set(name or [])) < len(name or []):
        raise UsageError("-name: two models have the same one")
    if write_nbest_dir and len({os.path.basename(path) for path in nbest}) < len(nbest):
        raise UsageError("-write-nbest-dir: two of the lists have the same name")
    if write_nbest_dir and write != "-":
        raise UsageError("-write and -write-nbest-dir: give one of them")
    one_stdout(*([] if write_nbest_dir else [write]), write_weights)
    one_stdin(*lm, *model, source, *nbest, *tune, *([weights] if weights else []))
    for path in [write_weights] if write_nbest_dir else [write, write_weights]:
        if path:
            check_out(path)
    use(threads, products=threads or stated() or 1)
    lists = read(nbest)
    added = [os.fsencode(n) for n in name or []]
    check_form(lists, len(nbest), len(lm), len(model), added, lmw, wtw, alone=not (best or write_nbest_dir))
    references = [read_references(path, len(lists.starts) - 1) for path in tune]
    added = added or default_names(lists, len(lm), len(model))
    columns = lm_columns(lists, lm, unk_penalty, tolower)
    if model:
        columns += translation_columns(lists, nbest, model, source, tolower)
    lists = rescored(lists, columns, added)
    totals = None
    if weighted:
        totals, learned = totals_of(lists, added, weights, lmw, wtw, references, seed, restarts, debug)
    order = ordered(totals, lists.starts) if weighted else np.arange(len(lists.words))
    if write_weights:
        with open_out(write_weights) as out:
            write_rows(out, lists.names, learned)
    if write_nbest_dir:
        with open_folder(write_nbest_dir) as folder:
            for i, path in enumerate(nbest):
                base = "stdin" if path == "-" else os.path.basename(path)
                write_lists(os.path.join(folder, base), lists, order, totals, added, best, i)
    else:
        write_lists(write, lists, order, totals, added, best)


def check_form(lists, files, lms, translation, names, lmw, wtw, alone):
    """Raise UsageError where an option does not suit the form of the lists; lms, translation: the number of models of
    each kind; alone: the lists are to stand in one file.
    """
    from lmtk.nbest.lists import SRILM

    models = lms + translation
    wanted = 1 if lists.form == SRILM else models
    if lmw and len(lmw) != wanted:
        scores = (
            "the score of SRILM's lists needs 1 weight"
            if lists.form == SRILM
            else f"{models} models need {wanted} weights"
        )
        raise UsageError(f"{scores} (-lmw), not {len(lmw)}")
    if lists.form == SRILM:
        if translation:
            raise UsageError("-model is for lists of Moses's, whose keys are the numbers of the source's lines")
        if files > 1 and alone:
            raise UsageError("several lists of SRILM's can't stand in one file; give -write-nbest-dir or -best")
        if models > 1:
            raise UsageError(
                f"a list of SRILM's has room for one model's score, not {models}; mix them first (lmtk mix)"
            )
        if names:
            raise UsageError("-name is for lists of Moses's; the scores in SRILM's have no names")
        return
    if models and wtw is not None and not lmw:
        raise UsageError("-lmw is missing, a weight for each model")
    for name in names if lmw else []:
        if name in lists.names:
            shown = os.fsdecode(name)
            raise UsageError(f"-name {shown}: the list's score has this feature in it; give -weights instead of -lmw")


def default_names(lists, lms, translation):
    """The names of the models' features where -name says nothing."""
    from lmtk.nbest import lists as nbest

    if lists.form == nbest.SRILM:
        return nbest.SRILM_NAMES[1:2] * lms
    return nbest.free_names(lists, b"LM", lms) + nbest.free_names(lists, b"NMT", translation)


def lm_columns(lists, paths, penalty, tolower):
    """log10 p of all hypotheses under each language model, (N,) each."""
    from lmtk.files.registry import load
    from lmtk.nbest import lists as nbest

    if penalty is None:
        penalty = 0 if lists.form == nbest.SRILM else -100
    return [nbest.log10ps(lists, load(path), penalty, tolower) for path in paths]


def translation_columns(lists, paths, models, source, tolower):
    """log10 p of all hypotheses under each translation model, (N,) each; paths: the files of the lists."""
    from lmtk.files.registry import load_translation
    from lmtk.files.streams import lines
    from lmtk.nbest.lists import source_lines
    from lmtk.nmt.scoring import log10p
    from lmtk.text.subwords import splitter

    rows = [row for _, row in lines(source)]
    pairs = [(rows[i], words) for i, words in zip(source_lines(lists, paths, len(rows)), lists.words, strict=True)]
    columns = []
    for path in models:
        model = load_translation(path)
        columns.append(log10p(model, splitter(model.subwords, path), pairs, tolower))
    return columns


def totals_of(lists, added, weights, lmw, wtw, references, seed, restarts, debug):
    """(the new score of each hypothesis, the weights of all features, or None where the list's score was added to)."""
    import numpy as np

    from lmtk.nbest import lists as nbest

    if not (weights or references):
        if lists.form == nbest.SRILM:
            learned = np.array([1, lmw[0] if lmw else nbest.LMW, nbest.WTW if wtw is None else wtw])
            return nbest.totals(lists.features, learned), None
        columns = [lists.columns(name)[0] for name in added]
        sums = lists.totals + nbest.totals(lists.features[:, columns], np.array(lmw or []))
        return (sums if wtw is None else sums + wtw * nbest.word_counts(lists)), None
    if weights:
        learned = nbest.read_weights(weights, lists.names)
    elif lists.form == nbest.SRILM:
        learned = np.array([1, nbest.LMW, nbest.WTW])
    else:
        learned = np.ones(len(lists.names))
    if references:
        learned = tuned(lists, learned, references, seed, restarts, debug)
    return nbest.totals(lists.features, learned), learned


def tuned(lists, weights, references, seed, restarts, debug):
    """The weights that -tune learns; -debug 1 tells the BLEU before and after, 2 that of each start."""
    import numpy as np

    from lmtk.nbest import lists as nbest
    from lmtk.nbest import tuning

    spans = zip(lists.starts[:-1], lists.starts[1:])
    stats = np.concatenate(
        [tuning.statistics(lists.words[i:j], row) for (i, j), row in zip(spans, zip(*references, strict=True))]
    )
    say = lambda text: sys.stderr.write(text + "\n")
    tell = (lambda start, score: say(f"start {start}: BLEU = {100 * score:.2f}")) if debug >= 2 else None
    fixed = 0 if lists.form == nbest.SRILM else None
    learned = tuning.tune(lists.features, lists.starts, stats, weights, fixed, seed, restarts, tell)
    learned = nbest.as_written(learned)
    if debug:
        before = tuning.bleu_of(lists.totals, lists.starts, stats)
        after = tuning.bleu_of(nbest.totals(lists.features, learned), lists.starts, stats)
        size = f"{len(lists.starts) - 1} lists, {len(lists.words)} hypotheses"
        say(f"{size}: BLEU = {100 * before:.2f}, tuned {100 * after:.2f}")
    return learned


def read_references(path, L):
    """The lines of a file, one for each of L lists."""
    from lmtk.files.streams import lines

    rows = list(lines(path))
    for number, line in rows:
        try:
            line.decode()
        except UnicodeDecodeError:
            raise FormatError(path, "not UTF-8; convert it with iconv", number) from None
    if len(rows) != L:
        raise FormatError(path, f"{len(rows)} references for {L} lists; a line is wanted for each")
    return [line for _, line in rows]


def write_lists(path, lists, order, totals, added, best, file=None):
    """The lists, or their best hypotheses, to `path`: those of one of the input files, or all."""
    import numpy as np

    from lmtk.files.streams import open_out
    from lmtk.nbest import lists as nbest

    mine = np.flatnonzero((lists.files == file) | (file is None))
    first, end = lists.starts[mine[0]], lists.starts[mine[-1] + 1]
    with open_out(path) as out:
        if best:
            out.writelines(lists.words[i] + b"\n" for i in order[lists.starts[mine]])
        else:
            nbest.write(out, lists, order[first:end], totals, added)
