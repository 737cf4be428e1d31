import os
import sys
from typing import Annotated

from lmtk.commands.options import Tolower, Write, check_outputs, needed, one_stdin, option
from lmtk.errors import LmtkError, UsageError


def command(
    lm: Annotated[str | None, option("lm", "A neural model.", "FILE", group="Data")] = None,
    neighbours: Annotated[
        str | None,
        option("neighbours", "Print the words most like this one.", "WORD", "neighbors", "word", group="Job"),
    ] = None,
    analogy: Annotated[
        list[str] | None, option("analogy", "Print the words that are to C as B is to A.", "A B C", group="Job")
    ] = None,
    write: Write = None,
    plot: Annotated[
        str | None, option("plot", "Draw the words in two dimensions (.svg or .png).", "FILE", group="Job")
    ] = None,
    dimensions: Annotated[
        list[int] | None,
        option("dimensions", "Draw these features (default: the principal components).", "I J", group="Show"),
    ] = None,
    words: Annotated[str | None, option("words", "Only the words of this list.", "FILE", group="Data")] = None,
    top: Annotated[
        int | None,
        option("top", "So many neighbours (default: 10) or words (plot: 200, write: all).", "N", min=1, group="Show"),
    ] = None,
    tolower: Tolower = False,
):
    """Show the features of words that a neural model has learned: neighbours by cosine, a table, a picture.

    A model trained with -senses has several vectors a word, word/1, word/2 and so on, and neighbours for each.

    \b
    Example: lmtk features -lm nplm.bin -neighbours three
    """
    jobs = {"neighbours": neighbours, "analogy": analogy, "write": write, "plot": plot}
    needed(lm, "lm")
    one_stdin(lm, words)
    if sum(map(bool, jobs.values())) != 1:
        raise UsageError("one of -neighbours, -analogy, -write and -plot is wanted")
    if analogy and len(analogy) != 3:
        raise UsageError(f"-analogy takes three words, not {len(analogy)}")
    kind = os.path.splitext(plot)[1][1:] if plot else None
    if kind not in (None, "svg", "png"):
        raise UsageError(f"-plot takes the name of a .svg or .png file, not {plot}")
    if dimensions and (not plot or len(dimensions) != 2):
        raise UsageError("-dimensions takes two numbers, and -plot")

    import numpy as np

    from lmtk.files import figure
    from lmtk.files.outputs import open_out
    from lmtk.files.registry import load
    from lmtk.nplm import features
    from lmtk.nplm.model import Neural
    from lmtk.text.vocab import EOS, lower, read_vocab

    if plot:
        figure.check_matplotlib("plot")
    check_outputs(write, plot, inputs=[lm, words])
    model = load(lm)
    if not isinstance(model, Neural):
        raise LmtkError(f"{lm}: expected a neural model, which has features, got another kind; see lmtk nplm-train")
    senses = getattr(model, "senses", 1)
    C, vocab = features.senses_of(model) if senses > 1 else (model.C, model.vocab)
    if senses > 1 and (whole := [word for word in analogy or [] if os.fsencode(word) in model.vocab.index]):
        raise LmtkError(f"{lm}: {whole[0]} has {senses} senses; give one of them, as {whole[0]}/1")

    def asked(typed):
        word = os.fsencode(typed)
        return lower(word) if tolower else word

    if words:
        ids = features.ids_of(read_vocab(words, tolower), model.vocab, lm)
        if not len(ids):
            raise LmtkError(f"{words}: no words in it")
    else:
        # </s> never stands in a context, so that it has no features to speak of
        ids = np.array([i for i, word in enumerate(model.vocab.words) if write or word != EOS])
    ids = (ids[:, None] * senses + np.arange(senses)).ravel()
    if neighbours or analogy:
        if neighbours and senses > 1:
            (word,) = features.ids_of([asked(neighbours)], model.vocab, lm)
            targets = [[word * senses + k] for k in range(senses)]
        else:
            targets = [features.ids_of([asked(word) for word in analogy or [neighbours]], vocab, lm)]
        for given in targets:
            target = features.analogy(C, *given) if analogy else C[given[0]]
            own = os.fsdecode(vocab.words[given[0]]) + "\t" if neighbours and senses > 1 else ""
            for i, cosine in list(zip(*features.rank_by_cosine(C, target, ids[~np.isin(ids, given)])))[: top or 10]:
                sys.stdout.write(f"{own}{os.fsdecode(vocab.words[i])}\t{cosine:.7g}\n")
        return
    ids = ids[: top or (200 if plot else None)]
    shown = [vocab.words[i] for i in ids]
    if write:
        with open_out(write) as out:
            features.write_word2vec(out, shown, C[ids])
        return
    m = C.shape[1]
    if m < 2:
        raise LmtkError(f"{lm}: expected two features or more to draw, got one; train with -features 2 or more")
    if not all(1 <= i <= m for i in dimensions or []):
        raise UsageError(f"-dimensions takes numbers from 1 to {m}, the features of {lm}")
    points, names = features.project(C[ids], dimensions)
    with open_out(plot) as out:
        features.write_plot(out, kind, shown, points, names)
