import math
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
    product_threads,
    show,
)
from lmtk.errors import UsageError


def command(
    model: Annotated[str | None, option("model", "The translation model (-: stdin).", "FILE")] = None,
    text: Annotated[str, option("text", "Text to translate, a sentence a line (-: stdin).", "FILE")] = "-",
    score: Annotated[bool, option("score", "Write log10 p of the -target of each line, and search for none.")] = False,
    target: Annotated[str | None, option("target", "Translations to score, line by line (-: stdin).", "FILE")] = None,
    write: Write = "-",
    beam: Annotated[int, option("beam", "Hypotheses kept a sentence; 1 is greedy.", "N", min=1)] = 12,
    length_power: Annotated[
        float, option("length-power", "Hypotheses are ranked by log p / length^X; 0: by log p.", "X", min=0)
    ] = 1,
    max_length_factor: Annotated[
        float, option("max-length-factor", "At most X times the source's words, and 10.", "X", min=0)
    ] = 2,
    no_unk: Annotated[bool, option("no-unk", "Never generate [UNK].")] = False,
    replace_unk: Annotated[
        bool, option("replace-unk", "Put the source word it looks at in the place of [UNK].")
    ] = False,
    n_best: Annotated[int | None, option("n-best", "The N best translations, in Moses' form.", "N", min=1)] = None,
    scores: Annotated[bool, option("scores", "log10 p and a tab before each translation.")] = False,
    align: Annotated[
        str | None, option("align", "Write which source word each word looks at, as 0-0 1-2.", "FILE")
    ] = None,
    batch: Annotated[int | None, option("batch", "Sentences at once (default: 240/beam).", "N", min=1)] = None,
    threads: ProductThreads = None,
    tolower: Tolower = False,
    debug: Debug = 0,
):
    """Translate text by beam search, or score translations that are given.

    With -score, -debug 1 and 2 write the report that ppl has for a language model.

    \b
    Example: lmtk translate -model en-fr.bin -text test.en > test.out
    """
    needed(model, "model")
    one_stdin(model, text, target)
    one_stdout(write, align)
    if score != bool(target):
        raise UsageError("-score and -target go together")
    if score:
        search = {"n-best": n_best, "scores": scores, "no-unk": no_unk, "replace-unk": replace_unk, "align": align}
        for name in [name for name, value in search.items() if value] + ["batch"] * bool(batch):
            raise UsageError(f"-{name} has no meaning with -score, which makes no translations")
        if debug > 2:
            raise UsageError("-debug goes to 2 here")
    if n_best and n_best > beam:
        raise UsageError(f"-n-best {n_best} needs a -beam as wide, not {beam}")
    if n_best and scores:
        raise UsageError("-scores has no meaning with -n-best, which has scores already")
    if no_unk and replace_unk:
        raise UsageError("-replace-unk has nothing to do with -no-unk; give one of them")

    from contextlib import nullcontext

    from lmtk.errors import FormatError
    from lmtk.files.registry import load_translation
    from lmtk.files.streams import blocks, open_out
    from lmtk.nmt.beam import Beam, Translator, scored_alone
    from lmtk.text.bitext import ids_of, word_index
    from lmtk.text.corpus import TOKEN
    from lmtk.text.vocab import lower

    product_threads(threads)
    loaded = load_translation(model)
    if score:
        write_scores(loaded, text, target, write, tolower, debug)
        return
    if (align or replace_unk) and not loaded.sizes["alignment"]:
        raise FormatError(model, "a model without attention (RNNencdec): no -align and no -replace-unk with it")
    search = Translator(loaded)
    unk, words = loaded.vocab.unk_id, loaded.vocab.words
    index, eos = word_index(loaded.source), loaded.source.eos_id
    how = Beam(beam, length_power, max_length_factor, banned=unk if no_unk else None, wanted=n_best or 1)
    together = batch or max(1, 240 // beam)

    def shown(row, hypothesis):
        pairs = zip(hypothesis.words, hypothesis.links or [0] * len(hypothesis.words), strict=True)
        return b" ".join(row[j] if replace_unk and w == unk else words[w] for w, j in pairs)

    def written(number, row, sentence, found):
        """The lines of one sentence: found, its hypotheses."""
        if n_best or scores:
            found = scored_alone(loaded, sentence, found, how)
        for hypothesis in found:
            line = shown(row, hypothesis)
            logp = show(hypothesis.logp / math.log(10)).encode()
            if n_best:
                rank = show(hypothesis.rank / math.log(10)).encode()
                line = b"%d ||| %s ||| logprob= %s ||| %s" % (number, line, logp, rank)
            elif scores:
                line = logp + b"\t" + line
            links = b" ".join(b"%d-%d" % (j, i) for i, j in enumerate(hypothesis.links))
            yield line + b"\n", links + b"\n"

    def empty(number):
        return b"%d |||  ||| logprob= 0 ||| 0\n" % number if n_best else b"0\t\n" if scores else b"\n"

    number = 0
    with open_out(write) as out, open_out(align) if align else nullcontext() as links:
        for block in blocks(text, eager=True):
            rows = [TOKEN.findall(lower(r) if tolower else r) for r in block.removesuffix(b"\n").split(b"\n")]
            sentences = [ids_of(row, index, eos) for row in rows if row]
            found = iter(zip(sentences, search(sentences, how, together), strict=True))
            for row in rows:
                for line, link in written(number, row, *next(found)) if row else [(empty(number), b"\n")]:
                    out.write(line)
                    if links:
                        links.write(link)
                number += 1
            out.flush()


def write_scores(model, source, target, path, tolower, debug):
    """log10 p of each line of `target` given that of `source`; from -debug 1 on SRILM's report of the target."""
    from lmtk.files.streams import open_out
    from lmtk.nmt.scoring import GivenSource, blocks, log10p
    from lmtk.scoring import report
    from lmtk.text.bitext import paired

    pairs = paired(source, target)
    with open_out(path) as out:
        if debug:
            report(GivenSource(model), target, blocks(model, pairs, tolower), debug, out.write)
            return
        for sums in log10p(model, pairs, tolower):
            out.writelines(f"{show(x)}\n".encode() for x in sums)
