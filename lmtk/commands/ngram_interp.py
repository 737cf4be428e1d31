import sys
from typing import Annotated

from lmtk.commands.options import (
    Debug,
    Heldout,
    Iterations,
    MapUnk,
    NoEos,
    NoSos,
    Order,
    Stream,
    Texts,
    Tolerance,
    Tolower,
    Unk,
    VocabFile,
    check_outputs,
    from_stdin,
    needed,
    one_stdin,
    option,
    show,
    unknown_word,
)
from lmtk.errors import LmtkWarning, UsageError


def command(
    read: Annotated[list[str] | None, option("read", "Training counts (several).", "FILE", group="Data")] = None,
    text: Texts = None,
    heldout: Heldout = None,
    lm: Annotated[str | None, option("lm", "The model to write, as text (-: stdout).", "FILE", group="Output")] = None,
    write_bin: Annotated[
        str | None, option("write-bin", "The model to write in binary form.", "FILE", group="Output")
    ] = None,
    order: Order = 3,
    vocab: VocabFile = None,
    unk: Unk = False,
    map_unk: MapUnk = "<unk>",
    iterations: Iterations = 5,
    tolerance: Tolerance = 0.001,
    no_sos: NoSos = False,
    no_eos: NoEos = False,
    stream: Stream = False,
    tolower: Tolower = False,
    float_counts: Annotated[
        bool, option("float-counts", "Read counts that are not whole numbers.", group="Data")
    ] = False,
    debug: Debug = 0,
):
    """Estimate the deleted-interpolation model of Jelinek and Mercer: counts give the relative frequencies, EM on
    held-out text the weights for each bin of context frequency.

    -debug 1 prints the held-out perplexity of each iteration and each bin's weights.

    \b
    Example: lmtk ngram-interp -read train.counts -heldout valid.txt -unk -lm interp.lm
    """
    import warnings

    from lmtk.files.streams import open_out
    from lmtk.ngram import interp
    from lmtk.ngram.collection import collect
    from lmtk.text.corpus import Marks, whole_corpus
    from lmtk.text.vocab import EOS, make_vocab, read_vocab

    needed(heldout, "heldout")
    if not (read or text):
        raise UsageError(f"nothing to learn from: give -read or -text{from_stdin()}")
    if not (lm or write_bin):
        raise UsageError("nothing to write: give -lm or -write-bin")
    one_stdin(*(read or []), *(text or []), heldout, vocab)
    check_outputs(lm, write_bin, texts=[*(text or []), heldout], inputs=[*(read or []), vocab])
    marks, unk_word = Marks.of(no_sos, no_eos, stream, tolower), unknown_word(map_unk)
    words = read_vocab(vocab, tolower) if vocab else None
    counts = collect(text or [], read or [], order, words, marks, unk_word, floats=float_counts)
    source = vocab or (read or text)[0]
    known = make_vocab(words if vocab else sorted(counts.words), unk, marks.eos, unk_word, source)
    if marks.eos and not counts.levels[0].count[counts.levels[0].keys == counts.words.index(EOS)].sum():
        warnings.warn(
            "the counts have no </s>; if they were made with -stream, give it here too", LmtkWarning, stacklevel=1
        )

    def tell(iteration, ppl):
        when = f"iteration {iteration}" if iteration else "at the end"
        sys.stderr.write(f"{when}: held-out ppl= {show(ppl)}\n")

    held = whole_corpus(heldout, known, marks)
    model, mass = interp.estimate(counts, known, order, held, iterations, tolerance, tell if debug else None)
    if debug:
        for i, (alpha, tokens) in enumerate(zip(model.alpha, mass, strict=True)):
            weights = " ".join(map(show, alpha))
            sys.stderr.write(f"bin {i}: {tokens} held-out words ({show(tokens / mass.sum())}), alpha = ({weights})\n")
    if lm:
        with open_out(lm) as out:
            interp.write_text(out, model)
    if write_bin:
        with open_out(write_bin) as out:
            interp.write_binary(out, model)
