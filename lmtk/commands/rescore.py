import os
import sys
import warnings
from types import SimpleNamespace
from typing import Annotated

from lmtk.commands.options import (
    Debug,
    Threads,
    Tolower,
    UnkAsIs,
    Write,
    check_outputs,
    needed,
    one_stdin,
    option,
    seed_in,
)
from lmtk.errors import FormatError, LmtkError, LmtkWarning, UsageError, counted


def command(
    lm: Annotated[list[str] | None, option("lm", "A model of any kind (several).", "FILE", group="Data")] = None,
    nbest: Annotated[
        list[str] | None, option("nbest", "N-best lists of Moses or SRILM (several; -: stdin).", "FILE", group="Data")
    ] = None,
    model: Annotated[list[str] | None, option("model", "A translation model (several).", "FILE", group="Data")] = None,
    source: Annotated[
        str | None, option("source", "What the lists translate, for -model (-: stdin).", "FILE", group="Data")
    ] = None,
    name: Annotated[
        list[str] | None,
        option(
            "name", "The features of -lm and -model in Moses's lists (default: LM0 .., NMT0 ..).", "NAME", group="Data"
        ),
    ] = None,
    weights: Annotated[
        str | None,
        option(
            "weights", "Weights of all features: lines Name= w w; with -tune the first ones.", "FILE", group="Weights"
        ),
    ] = None,
    lmw: Annotated[
        list[float] | None, option("lmw", "A weight for each model, added to the list's score.", "X", group="Weights")
    ] = None,
    wtw: Annotated[
        float | None, option("wtw", "The weight of a word, added to the list's score.", "X", group="Weights")
    ] = None,
    tune: Annotated[
        list[str] | None,
        option("tune", "References, a line a list, to learn the weights on (several).", "FILE", group="Weights"),
    ] = None,
    write_weights: Annotated[
        str | None, option("write-weights", "Where to write the weights.", "FILE", group="Output")
    ] = None,
    words: Annotated[
        bool,
        option(
            "words", "Add the number of words as the feature words= of Moses's lists that lack it.", group="Weights"
        ),
    ] = False,
    restarts: Annotated[int, option("restarts", "Random starts of -tune.", "N", min=0, group="Weights")] = 20,
    seed: seed_in("Weights") = 1,
    best: Annotated[
        bool, option("best", "Write the words of the best hypothesis of each list alone.", group="Output")
    ] = False,
    write: Write = "-",
    write_nbest_dir: Annotated[
        str | None,
        option("write-nbest-dir", "Write each file of lists under its own name into DIR.", "DIR", group="Output"),
    ] = None,
    unk_penalty: Annotated[
        float | None,
        option(
            "unk-penalty",
            "log10 p of a word without probability (default: 0 for SRILM, -100 for Moses).",
            "X",
            group="Data",
        ),
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
    o = SimpleNamespace(**locals())
    o.lm, o.model, o.tune, o.name = lm or [], model or [], tune or [], [os.fsencode(n) for n in name or []]
    check(o)

    import numpy as np

    from lmtk.files.streams import open_folder, open_out
    from lmtk.machine.threads import stated, use
    from lmtk.nbest import lists as forms

    written = None if write_nbest_dir else write
    check_outputs(written, write_weights, texts=[*nbest, source, *o.tune], inputs=[*o.lm, *o.model])
    use(threads, products=threads or stated() or 1)
    lists = forms.read(nbest)
    own = lists.names
    check_form(o, lists)
    references = [read_references(path, len(lists.starts) - 1) for path in o.tune]
    rows = forms.weights_in(weights) if weights else []
    added = o.name or default_names(lists, len(o.lm), len(o.model))
    columns = lm_columns(lists, o.lm, unk_penalty, tolower)
    if model:
        columns += translation_columns(lists, nbest, model, source, tolower)
    lists = forms.rescored(lists, columns, added)
    if lists.form == forms.MOSES:
        lists = forms.making(lists, [row[1] for row in rows] + [b"words"] * words)
    totals = learned = None
    if weights or tune:
        learned = forms.weights_of(rows, lists.names, weights) if weights else first_weights(lists)
        if tune:
            lists, learned = tuned(lists, learned, references, seed, restarts, debug)
        totals = forms.totals(lists.features, learned)
    elif lmw or wtw is not None:
        totals = sums(lists, added, lmw, wtw)
    if totals is not None and not np.isfinite(totals[np.isfinite(lists.features).all(axis=1)]).all():
        raise LmtkError("with these weights scores are beyond what a number can be")
    added = added + [name for name in lists.names if name in forms.MADE and name not in own]
    order = np.arange(len(lists.words)) if totals is None else forms.ordered(totals, lists.starts)
    if write_weights:
        with open_out(write_weights) as out:
            forms.write_weights(out, lists.names, learned)
    if not write_nbest_dir:
        write_lists(write, lists, order, totals, added, best)
        return
    with open_folder(write_nbest_dir) as folder:
        for i, path in enumerate(nbest):
            base = "stdin" if path == "-" else os.path.basename(path)
            write_lists(os.path.join(folder, base), lists, order, totals, added, best, i)


def check(o):
    """Raise UsageError where options do not go together."""
    models, weighted = len(o.lm) + len(o.model), bool(o.weights or o.tune or o.lmw or o.wtw is not None)
    needed(o.nbest, "nbest")
    if not (models or weighted or o.words):
        raise UsageError("-lm is missing")
    if bool(o.model) != bool(o.source):
        raise UsageError("-model and -source go together")
    if (o.weights or o.tune) and (o.lmw or o.wtw is not None):
        given, other = "lmw" if o.lmw else "wtw", "tune" if o.tune else "weights"
        raise UsageError(f"-{given} adds to the list's score, and -{other} makes it anew; give one of them")
    if o.best and not weighted:
        raise UsageError("-best needs weights: -weights, -lmw or -tune")
    if o.write_weights and not (o.weights or o.tune):
        raise UsageError("-write-weights needs -tune or -weights")
    if o.name and len(o.name) != models:
        wanted = f"{counted(models, 'model needs', 'models need')} {counted(models, 'name')}"
        raise UsageError(f"{wanted} (-name), not {len(o.name)}")
    if len(set(o.name)) < len(o.name):
        raise UsageError("-name: two models have the same one")
    if o.write_nbest_dir and len({os.path.basename(path) for path in o.nbest}) < len(o.nbest):
        raise UsageError("-write-nbest-dir: two of the lists have the same name")
    if o.write_nbest_dir and os.path.realpath(o.write_nbest_dir) in {
        os.path.dirname(os.path.realpath(path)) for path in o.nbest
    }:
        raise UsageError(f"-write-nbest-dir {o.write_nbest_dir}: the lists that are read are there")
    if o.write_nbest_dir and o.write != "-":
        raise UsageError("-write and -write-nbest-dir: give one of them")
    one_stdin(*o.lm, *o.model, o.source, *o.nbest, *o.tune, *([o.weights] if o.weights else []))


def check_form(o, lists):
    """Raise UsageError where an option does not suit the form of the lists."""
    from lmtk.nbest.lists import SRILM

    models, lmw = len(o.lm) + len(o.model), o.lmw
    wanted = 1 if lists.form == SRILM else models
    if lmw and len(lmw) != wanted:
        srilm = "the score of SRILM's lists needs"
        scores = srilm if lists.form == SRILM else counted(models, "model needs", "models need")
        raise UsageError(f"{scores} {counted(wanted, 'weight')} (-lmw), not {len(lmw)}")
    if lists.form == SRILM:
        if o.model:
            raise UsageError("-model is for lists of Moses's, whose keys are the numbers of the source's lines")
        if len(o.nbest) > 1 and not (o.best or o.write_nbest_dir):
            raise UsageError("several lists of SRILM's can't stand in one file; give -write-nbest-dir or -best")
        if models > 1:
            raise UsageError(
                f"a list of SRILM's has room for one model's score, not {models}; mix them first (lmtk mix)"
            )
        if o.name:
            raise UsageError("-name is for lists of Moses's; the scores in SRILM's have no names")
        if o.words:
            raise UsageError("-words is for lists of Moses's; SRILM's have the number of words")
        return
    if models and o.wtw is not None and not lmw:
        raise UsageError("-lmw is missing, a weight for each model")
    for name in o.name if lmw else []:
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


def sums(lists, added, lmw, wtw):
    """The new score of each hypothesis, (N,): the list's own and the weighted ones of -lmw and -wtw."""
    import numpy as np

    from lmtk.nbest import lists as forms

    if lists.form == forms.SRILM:
        weights = [1, lmw[0] if lmw else forms.LMW, forms.WTW if wtw is None else wtw]
        return forms.totals(lists.features, np.array(weights))
    columns = [lists.columns(name)[0] for name in added]
    found = lists.totals + forms.totals(lists.features[:, columns], np.array(lmw or []))
    return found if wtw is None else found + wtw * forms.word_counts(lists)


def first_weights(lists):
    """The weights that -tune begins from where none are given."""
    import numpy as np

    from lmtk.nbest import lists as forms

    return np.array([1, forms.LMW, forms.WTW]) if lists.form == forms.SRILM else np.ones(len(lists.names))


def tuned(lists, weights, references, seed, restarts, debug):
    """(the lists, the weights that -tune learns); -debug 1 tells the BLEU before and after, 2 that of each start.

    Where no weights of Moses's lists come to the BLEU that they came with, the score that they came with is made a
    feature, `score`.
    """
    import numpy as np

    from lmtk.nbest import lists as forms
    from lmtk.nbest import tuning

    spans = zip(lists.starts[:-1], lists.starts[1:])
    stats = np.concatenate(
        [tuning.statistics(lists.words[i:j], row) for (i, j), row in zip(spans, zip(*references, strict=True))]
    )
    say = lambda text: sys.stderr.write(text + "\n")
    tell = (lambda start, score: say(f"start {start}: BLEU = {100 * score:.2f}")) if debug >= 2 else None
    srilm = lists.form == forms.SRILM
    bleu = lambda totals: tuning.bleu_of(totals, lists.starts, stats)
    before = bleu(lists.totals)

    def best_of(lists, given):
        fixed = 0 if srilm else None
        found = tuning.tune(lists.features, lists.starts, stats, given, fixed, seed, restarts, tell)
        found = forms.as_written(found)
        return bleu(forms.totals(lists.features, found)), found

    after, learned = best_of(lists, [weights] if srilm else [weights, forms.own_weights(lists)])
    if after < before and not srilm and b"score" not in lists.names:
        lists = forms.making(lists, [b"score"])
        alone = np.append(np.zeros(len(weights)), 1.0)
        after, learned = max(best_of(lists, [alone]), (before, alone), key=lambda found: found[0])
        if debug:
            say("no weights of the features come to the lists' own order: their score is a feature too, score=")
    if debug:
        size = f"{counted(len(lists.starts) - 1, 'list')}, {counted(len(lists.words), 'hypothesis', 'hypotheses')}"
        say(f"{size}: BLEU = {100 * before:.2f}, tuned {100 * after:.2f}")
    if after < before:
        what = f"BLEU = {100 * after:.2f}, and {100 * before:.2f} as they came"
        warnings.warn(f"no weights come to the lists' own order: {what}", LmtkWarning, stacklevel=2)
    return lists, learned


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
        raise FormatError(
            path, f"{counted(len(rows), 'reference')} for {counted(L, 'list')}; a line is wanted for each"
        )
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
