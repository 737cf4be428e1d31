import math
from typing import Annotated

from lmtk.commands.options import ProductThreads, Tolower, Write, needed, one_stdin, option, product_threads, show
from lmtk.errors import UsageError


def command(
    model: Annotated[
        list[str] | None, option("model", "The translation model (several: an ensemble; -: stdin).", "FILE")
    ] = None,
    text: Annotated[str, option("text", "Text to translate, a sentence a line (-: stdin).", "FILE")] = "-",
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
):
    """Translate text by beam search.

    \b
    Example: lmtk translate -model en-fr.bin -text test.en > test.out
    """
    needed(model, "model")
    one_stdin(*model, text)
    if n_best and n_best > beam:
        raise UsageError(f"-n-best {n_best} needs a -beam as wide, not {beam}")
    if n_best and scores:
        raise UsageError("-scores has no meaning with -n-best, which has scores already")
    if no_unk and replace_unk:
        raise UsageError("-replace-unk has nothing to do with -no-unk; give one of them")
    if align == "-" and write == "-":
        raise UsageError("-align and -write cannot both be stdout (-)")

    from contextlib import nullcontext

    from lmtk.errors import FormatError
    from lmtk.files.registry import load_ensemble
    from lmtk.files.streams import blocks, open_out
    from lmtk.nmt.beam import Beam, Translator
    from lmtk.text import subwords
    from lmtk.text.bitext import ids_of, word_index
    from lmtk.text.corpus import TOKEN
    from lmtk.text.vocab import lower

    product_threads(threads)
    models = load_ensemble(model)
    loaded = models[0]
    if (align or replace_unk) and not any(m.sizes["alignment"] for m in models):
        raise FormatError(model[0], "a model without attention (RNNencdec): no -align and no -replace-unk with it")
    search = Translator(*models)
    split, joined = subwords.splitter(loaded.subwords, model[0]), subwords.joined if loaded.subwords else b" ".join
    unk, words = loaded.vocab.unk_id, loaded.vocab.words
    index, eos = word_index(loaded.source), loaded.source.eos_id
    how = Beam(beam, length_power, max_length_factor, banned=unk if no_unk else None, wanted=n_best or 1)
    together = batch or max(1, 240 // beam)

    def shown(row, hypothesis):
        pairs = zip(hypothesis.words, hypothesis.links or [0] * len(hypothesis.words), strict=True)
        return joined([row[j] if replace_unk and w == unk else words[w] for w, j in pairs])

    def linked(row, hypothesis):
        """Which word of the source each word looks at; a word in pieces looks where they do."""
        pairs = [(j, i) for i, j in enumerate(hypothesis.links)]
        if loaded.subwords:
            x, y = subwords.word_numbers(row), subwords.word_numbers([words[w] for w in hypothesis.words])
            pairs = dict.fromkeys((x[j], y[i]) for j, i in pairs)
        return b" ".join(b"%d-%d" % pair for pair in pairs)

    def written(number, row, found):
        """The lines of one sentence: found, its hypotheses."""
        for hypothesis in found:
            line = shown(row, hypothesis)
            logp = show(hypothesis.logp / math.log(10)).encode()
            if n_best:
                rank = show(hypothesis.rank / math.log(10)).encode()
                line = b"%d ||| %s ||| logprob= %s ||| %s" % (number, line, logp, rank)
            elif scores:
                line = logp + b"\t" + line
            yield line + b"\n", linked(row, hypothesis) + b"\n"

    def empty(number):
        return b"%d |||  ||| logprob= 0 ||| 0\n" % number if n_best else b"0\t\n" if scores else b"\n"

    number = 0
    with open_out(write) as out, open_out(align) if align else nullcontext() as links:
        for block in blocks(text, eager=True):
            rows = [split(TOKEN.findall(lower(r) if tolower else r)) for r in block.removesuffix(b"\n").split(b"\n")]
            found = iter(search([ids_of(row, index, eos) for row in rows if row], how, together))
            for row in rows:
                for line, link in written(number, row, next(found)) if row else [(empty(number), b"\n")]:
                    out.write(line)
                    if links:
                        links.write(link)
                number += 1
            out.flush()
