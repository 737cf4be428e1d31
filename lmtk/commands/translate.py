from typing import Annotated

from lmtk.commands.options import (
    Debug,
    ProductThreads,
    Tolower,
    Write,
    needed,
    one_stdin,
    one_stdout,
    option,
    show,
)
from lmtk.errors import UsageError


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
    beam: Annotated[int, option("beam", "Hypotheses kept a sentence; 1 is greedy.", "N", min=1, group="Search")] = 12,
    length_power: Annotated[
        float,
        option(
            "length-power",
            "Hypotheses are ranked by log p / length^X; 0: by log p.",
            "X",
            min=0,
            max=10,
            group="Search",
        ),
    ] = 1,
    max_length_factor: Annotated[
        float,
        option(
            "max-length-factor", "At most X times the source's words, and 10.", "X", min=0, max=1000, group="Search"
        ),
    ] = 2,
    no_unk: Annotated[bool, option("no-unk", "Never generate [UNK].", group="Search")] = False,
    replace_unk: Annotated[
        bool, option("replace-unk", "Put the source word it looks at in the place of [UNK].", group="Search")
    ] = False,
    dictionary: Annotated[
        str | None,
        option("dictionary", "For -replace-unk: lines of a source word and its translation.", "FILE", group="Search"),
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
        str, option("plot-format", "The format of the pictures: svg or png.", "NAME", group="Alignment")
    ] = "svg",
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
    needed(model, "model")
    one_stdin(*model, text, target, dictionary)
    one_stdout(write, align, soft_align, align_html)
    weights = soft_align or align_html or align_plot
    if score != bool(target):
        raise UsageError("-score and -target go together")
    if score:
        search = {"n-best": n_best, "scores": scores, "no-unk": no_unk, "replace-unk": replace_unk, "batch": batch}
        for name in [name for name, value in search.items() if value]:
            raise UsageError(f"-{name} has no meaning with -score, which makes no translations")
        if debug > 2:
            raise UsageError("-debug goes to 2 here")
        if debug and (align or weights):
            raise UsageError("alignments and the report of -debug do not go together")
    if plot_format not in ("svg", "png"):
        raise UsageError(f"-plot-format is svg or png, not {plot_format}")
    if n_best and n_best > beam:
        raise UsageError(f"-n-best {n_best} needs a -beam as wide, not {beam}")
    if n_best and scores:
        raise UsageError("-scores has no meaning with -n-best, which has scores already")
    if no_unk and replace_unk:
        raise UsageError("-replace-unk has nothing to do with -no-unk; give one of them")
    if dictionary and not replace_unk:
        raise UsageError("-dictionary is for -replace-unk, which is missing")

    import sys
    from collections import Counter

    from lmtk.errors import FormatError
    from lmtk.files import figure
    from lmtk.files.registry import load_ensemble
    from lmtk.files.streams import blocks, check_out, open_out
    from lmtk.lm import LN10
    from lmtk.machine.threads import stated, use
    from lmtk.nmt import alignment
    from lmtk.nmt.beam import Beam, Hypothesis, Translator
    from lmtk.nmt.scoring import scored_alone
    from lmtk.text import subwords
    from lmtk.text.bitext import ids_of, read_dictionary, word_index
    from lmtk.text.corpus import TOKEN
    from lmtk.text.vocab import lower

    for path in (write, align, soft_align, align_html):
        if path:
            check_out(path)
    if align_plot:
        figure.need("align-plot")
    use(threads, products=threads or stated() or 1)
    models = load_ensemble(model)
    loaded = models[0]
    if not any(m.sizes["alignment"] for m in models):
        wanted = {"align": align, "soft-align": soft_align, "align-html": align_html, "align-plot": align_plot}
        for name in [name for name, value in (wanted | {"replace-unk": replace_unk}).items() if value]:
            raise FormatError(model[0], f"a model without attention (RNNencdec) looks at no word: no -{name} with it")
    aligned = alignment.written(align, soft_align, align_html, align_plot, plot_format, bool(loaded.subwords))
    split, joined = subwords.splitter(loaded.subwords, model[0]), subwords.joined if loaded.subwords else b" ".join
    if score:
        write_scores(models, split, text, target, write, aligned, tolower, debug)
        return
    known = read_dictionary(dictionary) if dictionary else {}
    search = Translator(*models)
    unk, words = loaded.vocab.unk_id, loaded.vocab.words
    index, eos = word_index(loaded.source), loaded.source.eos_id
    how = Beam(beam, length_power, max_length_factor, banned=unk if no_unk else None, wanted=n_best or 1)
    together = batch or max(1, 240 // beam)

    def shown(row, hypothesis):
        pairs = zip(hypothesis.words, hypothesis.links or [0] * len(hypothesis.words), strict=True)
        return [known.get(row[j], row[j]) if replace_unk and w == unk else words[w] for w, j in pairs]

    def line_of(number, target, hypothesis):
        line = joined(target)
        logp = show(hypothesis.logp / LN10).encode()
        if n_best:
            rank = show(hypothesis.rank / LN10).encode()
            words = len(TOKEN.findall(line))
            return b"%d ||| %s ||| logprob= %s words= %d ||| %s\n" % (number, line, logp, words, rank)
        return logp + b"\t" + line + b"\n" if scores else line + b"\n"

    empty = Hypothesis([], True, 0.0, 0.0, [])
    number, tally = 0, Counter()
    with open_out(write) as out, aligned as write_alignment:
        for block in blocks(text, eager=True):
            rows = [split(TOKEN.findall(lower(r) if tolower else r)) for r in block.removesuffix(b"\n").split(b"\n")]
            sentences = [ids_of(row, index, eos) for row in rows if row]
            found = iter(zip(sentences, search(sentences, how, together), strict=True))
            for row in rows:
                sentence, hypotheses = next(found) if row else (None, [empty])
                if row and (n_best or scores or weights):
                    hypotheses = scored_alone(models, sentence, hypotheses, how)
                for rank, h in enumerate(hypotheses, 1):
                    target = shown(row, h)
                    out.write(line_of(number, target, h))
                    name = f"{number}-{rank}" if n_best else f"{number}"
                    write_alignment(number, name, row, target, h.logp / LN10, h.links, h.alpha)
                number += 1
                best = hypotheses[0]
                many = len(TOKEN.findall(joined(shown(row, best))))
                tally.update(sentences=int(bool(row)), blank=int(not row), words=many, unknown=best.words.count(unk))
            out.flush()
    if debug:
        told = "{sentences} sentences, {blank} blank lines, {words} words, {unknown} of them [UNK]\n"
        sys.stderr.write(told.format_map(tally))


def write_scores(models, split, source, target, path, aligned, tolower, debug):
    """log10 p of each line of `target` given that of `source`; from -debug 1 on SRILM's report of the target.

    split: of words into those of the models; aligned: what writes alignments.
    """
    from lmtk.files.streams import open_out
    from lmtk.lm import LN10
    from lmtk.nmt.alignment import strongest
    from lmtk.nmt.scoring import GivenSource, blocks, score_pairs
    from lmtk.reports.srilm import report
    from lmtk.text.bitext import paired

    corpora = blocks(models[0], split, paired(source, target), tolower)
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
                looks = [] if alpha is None else strongest(alpha)
                alpha = alpha if x and y else None
                write_alignment(number, f"{number}", x, y, log10p, looks, alpha)
                number += 1
