import warnings
from typing import Annotated

from lmtk.commands.options import (
    MAX_ORDER,
    Debug,
    Model,
    NoEos,
    NoSos,
    Stream,
    Threads,
    Tolower,
    UnkAsIs,
    needed,
    one_stdin,
    option,
)
from lmtk.errors import LmtkWarning, UsageError


def command(
    lm: Model = None,
    text: Annotated[
        list[str] | None, option("text", "Text to score, a sentence a line (several; -: stdin).", "FILE")
    ] = None,
    ppl: Annotated[list[str] | None, option("ppl", "The same as -text, as SRILM has it.", "FILE")] = None,
    debug: Debug = 0,
    order: Annotated[int | None, option("order", "Use n-grams up to N only.", "N", min=1, max=MAX_ORDER)] = None,
    unk: UnkAsIs = False,
    no_sos: NoSos = False,
    no_eos: NoEos = False,
    stream: Stream = False,
    tolower: Tolower = False,
    threads: Threads = None,
):
    """Perplexity of a text under any model, in SRILM's report.

    -debug 1 adds the sentences, 2 the words, 3 the sum of the probabilities over the vocabulary.

    Example: lmtk ppl -lm model.lm -unk -text test.txt
    """
    import sys

    from lmtk import load
    from lmtk.mixture import lowered
    from lmtk.scoring import report
    from lmtk.text.corpus import Marks, read_corpus

    texts = (text or []) + (ppl or [])
    needed(lm, "lm"), needed(texts, "text")
    one_stdin(lm, *texts)
    if debug > 3:
        raise UsageError("-debug goes to 3 here")
    limit_threads(threads)
    model = load(lm)
    if order:
        model = lowered(model, order)
    marks = Marks.of(no_sos, no_eos, stream)
    if marks.eos and not model.vocab.predicts(b"</s>"):
        warnings.warn(
            "the model predicts no </s>; if it was trained with -stream, give it here too", LmtkWarning, stacklevel=1
        )
    for path in texts:
        corpora = read_corpus(path, model.vocab, marks, model.order, debug >= 1, tolower)
        blank = report(model, path, corpora, debug, sys.stdout.buffer.write)
        if debug and blank:
            sys.stderr.write(f"{path}: {blank} blank lines skipped\n")


def limit_threads(threads):
    """Neural models score on so many threads."""
    if threads:
        from lmtk.nplm.threads import limit

        limit(threads)
