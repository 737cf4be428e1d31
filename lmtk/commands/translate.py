from types import SimpleNamespace
from typing import Annotated

from lmtk.commands.options import (
    Debug,
    ProductThreads,
    Tolower,
    Write,
    check_outputs,
    needed,
    one_stdin,
    option,
    show,
)
from lmtk.errors import FormatError, UsageError

ALIGNMENTS = "align", "soft_align", "align_html", "align_plot"
SEARCH = {"beam": 12, "length_power": 1, "max_length_factor": 2}  # where these options are not given


def command(
    model: Annotated[
        list[str] | None,
        option("model", "The translation model (several: an ensemble; -: stdin).", "FILE", group="Data"),
    ] = None,
    text: Annotated[
        str, option("text", "Text to translate, a sentence a line (-: stdin).", "FILE", group="Data")
    ] = "-",
    score: Annotated[
        bool, option("score", "Write log10 p of the -target of each line, and search for none.", group="Data")
    ] = False,
    target: Annotated[
        str | None, option("target", "Translations to score, line by line (-: stdin).", "FILE", group="Data")
    ] = None,
    write: Write = "-",
    beam: Annotated[
        int | None,
        option(
            "beam", "Hypotheses kept a sentence; 1 is greedy (default: 12).", "N", min=1, max=10_000, group="Search"
        ),
    ] = None,
    length_power: Annotated[
        float | None,
        option(
            "length-power",
            "Hypotheses are ranked by log p / length^X; 0: by log p (default: 1).",
            "X",
            min=0,
            max=10,
            group="Search",
        ),
    ] = None,
    max_length_factor: Annotated[
        float | None,
        option(
            "max-length-factor",
            "At most X times the source's words, and 10 (default: 2).",
            "X",
            min=0,
            max=1000,
            group="Search",
        ),
    ] = None,
    no_unk: Annotated[bool, option("no-unk", "Never generate [UNK].", group="Search")] = False,
    replace_unk: Annotated[
        bool, option("replace-unk", "Put the source word it looks at in the place of [UNK].", group="Search")
    ] = False,
    dictionary: Annotated[
        str | None,
        option("dictionary", "For -replace-unk: lines of a source word and its translation.", "FILE", group="Search"),
    ] = None,
    mbr: Annotated[
        int | None,
        option("mbr", "Of the N best the one most like the others (minimum Bayes risk).", "N", min=1, group="Search"),
    ] = None,
    mbr_scale: Annotated[
        float | None,
        option("mbr-scale", "For -mbr: one counts by p^X (default: 0.8).", "X", min=0, max=100, group="Search"),
    ] = None,
    n_best: Annotated[
        int | None, option("n-best", "The N best translations, in Moses' form.", "N", min=1, group="Output")
    ] = None,
    scores: Annotated[bool, option("scores", "log10 p and a tab before each translation.", group="Output")] = False,
    align: Annotated[
        str | None,
        option("align", "Write which source word each word looks at, as 0-0 1-2.", "FILE", group="Alignment"),
    ] = None,
    soft_align: Annotated[
        str | None,
        option("soft-align", "Write how much each word looks at each source word.", "FILE", group="Alignment"),
    ] = None,
    align_html: Annotated[
        str | None, option("align-html", "A page with the same as pictures.", "FILE", group="Alignment")
    ] = None,
    align_plot: Annotated[
        str | None, option("align-plot", "A picture of it for each sentence.", "DIR", group="Alignment")
    ] = None,
    plot_format: Annotated[
        str | None,
        option("plot-format", "The format of the pictures: svg or png (default: svg).", "svg|png", group="Alignment"),
    ] = None,
    batch: Annotated[
        int | None, option("batch", "Sentences at once (default: 240/beam).", "N", min=1, group="Search")
    ] = None,
    threads: ProductThreads = None,
    tolower: Tolower = False,
    debug: Debug = 0,
):
    """Translate text by beam search, or score translations that are given.

    -debug 1 counts sentences and words; with -score, 1 and 2 write the report that ppl has for a language model.

    \b
    Example: lmtk translate -model en-fr.bin -text test.en > test.out
    """
    o = SimpleNamespace(**locals())
    check(o)

    from lmtk.files import figure
    from lmtk.files.registry import load_ensemble
    from lmtk.machine.threads import stated, use
    from lmtk.nmt import alignment
    from lmtk.text import subwords

    check_outputs(write, align, soft_align, align_html, texts=[text, target], inputs=[*model, dictionary])
    if align_plot:
        figure.check_matplotlib("align-plot")
    o.threads = threads or stated() or 1
    use(threads, products=o.threads)
    models = load_ensemble(model)
    check_attention(o, models)
    pieces = models[0].subwords
    aligned = alignment.alignment_writer(align, soft_align, align_html, align_plot, plot_format or "svg", bool(pieces))
    split = subwords.make_splitter(pieces, model[0])
    if score:
        write_scores(models, split, text, target, write, aligned, tolower, debug)
    else:
        write_translations(o, models, split, subwords.join_pieces if pieces else b" ".join, aligned)


def check(o):
    """Raise UsageError where options do not go together. Options of SEARCH that are not given get their defaults."""
    needed(o.model, "model")
    one_stdin(*o.model, o.text, o.target, o.dictionary)
    if o.score != bool(o.target):
        raise UsageError("-score and -target go together")
    if o.score:
        for name in ("n_best", "mbr", "scores", "no_unk", "replace_unk", "batch", *SEARCH):
            given = getattr(o, name)
            if given is not None and given is not False:
                raise UsageError(f"-{name.replace('_', '-')} has no meaning with -score, which makes no translations")
        if o.debug > 2:
            raise UsageError("-debug goes to 2 here")
        if o.debug and any(getattr(o, name) for name in ALIGNMENTS):
            raise UsageError("alignments and the report of -debug do not go together")
    vars(o).update({name: default for name, default in SEARCH.items() if getattr(o, name) is None})
    if o.plot_format and not o.align_plot:
        raise UsageError("-plot-format is for -align-plot, which is missing")
    if o.plot_format not in (None, "svg", "png"):
        raise UsageError(f"-plot-format is svg or png, not {o.plot_format}")
    for name, number in (("n-best", o.n_best), ("mbr", o.mbr)):
        if number and number > o.beam:
            raise UsageError(f"-{name} {number} needs a -beam as wide, not {o.beam}")
    if o.n_best and o.mbr:
        raise UsageError("-mbr chooses one translation, -n-best writes several; give one of them")
    if o.mbr_scale is not None and not o.mbr:
        raise UsageError("-mbr-scale is for -mbr, which is missing")
    if o.n_best and o.scores:
        raise UsageError("-scores has no meaning with -n-best, which has scores already")
    if o.no_unk and o.replace_unk:
        raise UsageError("-replace-unk has nothing to do with -no-unk; give one of them")
    if o.dictionary and not o.replace_unk:
        raise UsageError("-dictionary is for -replace-unk, which is missing")


def check_attention(o, models):
    """Raise FormatError where what is asked for needs attention and no model has it."""
    if not any(m.sizes["alignment"] for m in models):
        for name in (*ALIGNMENTS, "replace_unk"):
            if getattr(o, name):
                wanted = f"no -{name.replace('_', '-')} with it"
                raise FormatError(o.model[0], f"a model without attention (RNNencdec) looks at no word: {wanted}")


def write_translations(o, models, split, joined, aligned):
    """The translations of a text, as the options o have it.

    split(words) -> words of the models; joined(words of the models) -> a line; aligned: an `alignment_writer`.
    """
    import sys
    from collections import Counter

    from lmtk.files.decoding import blocks
    from lmtk.files.outputs import open_out
    from lmtk.lm import LN10
    from lmtk.nmt.beam import Beam, Hypothesis, Translator
    from lmtk.nmt.scoring import rescore_alone
    from lmtk.text.bitext import ids_of, read_dictionary, word_index
    from lmtk.text.corpus import TOKEN
    from lmtk.text.vocab import lower

    first = models[0]
    known = read_dictionary(o.dictionary) if o.dictionary else {}
    search = Translator(*models, threads=o.threads)
    unk, words = first.vocab.unk_id, first.vocab.words
    index, eos = word_index(first.source), first.source.eos_id
    banned, wanted = unk if o.no_unk else None, o.n_best or o.mbr or 1
    how = Beam(o.beam, o.length_power, o.max_length_factor, banned=banned, wanted=wanted)
    together = o.batch or max(1, 240 // o.beam)

    def shown(row, hypothesis):
        pairs = zip(hypothesis.words, hypothesis.links or [0] * len(hypothesis.words), strict=True)
        return [known.get(row[j], row[j]) if o.replace_unk and w == unk else words[w] for w, j in pairs]

    def words_of(row, hypothesis):
        return TOKEN.findall(joined(shown(row, hypothesis)))

    empty = Hypothesis([], True, 0.0, 0.0, [])
    weighed = o.n_best or o.scores or o.soft_align or o.align_html or o.align_plot
    number, tally = 0, Counter()
    with open_out(o.write) as out, aligned as write_alignment:
        for block in blocks(o.text, eager=True):
            lines = block.removesuffix(b"\n").split(b"\n")
            rows = [split(TOKEN.findall(lower(line) if o.tolower else line)) for line in lines]
            sentences = [ids_of(row, index, eos) for row in rows if row]
            found = iter(zip(sentences, search(sentences, how, together), strict=True))
            for row in rows:
                sentence, hypotheses = next(found) if row else (None, [empty])
                if row and o.mbr:
                    hypotheses = [safest(o, hypotheses, [words_of(row, h) for h in hypotheses])]
                if row and weighed:
                    hypotheses = rescore_alone(models, sentence, hypotheses, how)
                for rank, h in enumerate(hypotheses, 1):
                    target = shown(row, h)
                    out.write(shown_as(o, number, joined(target), h))
                    name = f"{number}-{rank}" if o.n_best else f"{number}"
                    write_alignment(number, name, row, target, h.logp / LN10, h.links, h.alpha)
                number += 1
                best, there = hypotheses[0], bool(row)
                many = len(words_of(row, best))
                tally.update(sentences=int(there), blank=int(not there), words=many, unknown=best.words.count(unk))
            out.flush()
    if o.debug:
        told = "{sentences} sentences, {blank} blank lines, {words} words, {unknown} of them [UNK]\n"
        sys.stderr.write(told.format_map(tally))


def shown_as(o, number, line, hypothesis):
    """The line of the output for a translation; number: of its sentence, for n-best lists."""
    from lmtk.lm import LN10
    from lmtk.text.corpus import TOKEN

    logp = show(hypothesis.logp / LN10).encode()
    if o.n_best:
        rank, many = show(hypothesis.rank / LN10).encode(), len(TOKEN.findall(line))
        return b"%d ||| %s ||| logprob= %s words= %d ||| %s\n" % (number, line, logp, many, rank)
    return logp + b"\t" + line + b"\n" if o.scores else line + b"\n"


def safest(o, hypotheses, targets):
    """That of the least risk among the hypotheses of a sentence, best first; targets: the words of each, as written."""
    from lmtk.nbest import risk

    mean = sum(len(h.words) + h.ended for h in hypotheses) / len(hypotheses)
    ranks = [h.rank * mean**o.length_power for h in hypotheses]
    return hypotheses[risk.least_risk(targets, ranks, risk.SCALE if o.mbr_scale is None else o.mbr_scale)]


def write_scores(models, split, source, target, path, aligned, tolower, debug):
    """log10 p of each line of `target` given that of `source`; from -debug 1 on SRILM's report of the target.

    split, aligned: as in write_translations.
    """
    from lmtk.files.outputs import open_out
    from lmtk.lm import LN10
    from lmtk.nmt.alignment import strongest_links
    from lmtk.nmt.scoring import GivenSource, read_targets, score_pairs
    from lmtk.reports.srilm import report
    from lmtk.text.bitext import read_line_pairs

    corpora = read_targets(models[0], split, read_line_pairs(source, target), tolower)
    with open_out(path) as out, aligned as write_alignment:
        if debug:
            report(GivenSource(models), target, corpora, debug, out.write)
            return
        number = 0
        for targets in corpora:
            found = score_pairs(models, targets.sources, targets.sentences())
            for (x, y), (logp, alpha) in zip(targets.words, found, strict=True):
                log10p = logp.sum() / LN10
                out.write(f"{show(log10p)}\n".encode())
                looks = [] if alpha is None else strongest_links(alpha)
                alpha = alpha if x and y else None
                write_alignment(number, f"{number}", x, y, log10p, looks, alpha)
                number += 1
