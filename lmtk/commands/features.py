import os
import sys
from typing import Annotated

from lmtk.commands.options import Tolower, Write, needed, one_stdin, option
from lmtk.errors import LmtkError, UsageError


def command(
    lm: Annotated[str | None, option("lm", "A neural model.", "FILE", group="Data")] = None,
    neighbours: Annotated[
        str | None, option("neighbours", "Print the words most like this one.", "WORD", "neighbors", group="Job")
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
        option("dimensions", "Draw these features (default: the principal dimensions).", "I J", group="Show"),
    ] = None,
    words: Annotated[str | None, option("words", "Only the words of this list.", "FILE", group="Data")] = None,
    top: Annotated[
        int | None,
        option("top", "So many neighbours (default: 10) or words (plot: 200, write: all).", "N", min=1, group="Show"),
    ] = None,
    tolower: Tolower = False,
):
    """Show the features of words that a neural model has learned: neighbours by cosine, a table, a picture.

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
    from lmtk.files.registry import load
    from lmtk.files.streams import open_out
    from lmtk.nplm import features
    from lmtk.nplm.model import Neural
    from lmtk.text.vocab import EOS, lower, read_vocab

    if plot:
        figure.need("plot")
    model = load(lm)
    if not isinstance(model, Neural):
        raise LmtkError(f"{lm}: expected a neural model, which has features, got another kind; see lmtk nplm-train")
    C, vocab = model.C, model.vocab

    def asked(typed):
        word = os.fsencode(typed)
        return lower(word) if tolower else word

    if words:
        ids = features.ids_of(read_vocab(words, tolower), vocab, lm)
        if not len(ids):
            raise LmtkError(f"{words}: no words in it")
    else:
        # </s> never stands in a context, so that it has no features to speak of
        ids = np.array([i for i, word in enumerate(vocab.words) if write or word != EOS])
    if neighbours or analogy:
        given = features.ids_of([asked(word) for word in analogy or [neighbours]], vocab, lm)
        target = features.analogy(C, *given) if analogy else C[given[0]]
        found = zip(*features.nearest(C, target, ids[~np.isin(ids, given)]))
        for i, cosine in list(found)[: top or 10]:
            sys.stdout.write(f"{os.fsdecode(vocab.words[i])}\t{cosine:.7g}\n")
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
    points = C[ids][:, [i - 1 for i in dimensions]] if dimensions else features.two_dimensions(C[ids])
    with open_out(plot) as out:
        features.plot(out, kind, shown, points)
