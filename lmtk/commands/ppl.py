import os
import sys
import warnings
from dataclasses import replace
from functools import partial
from typing import Annotated

from lmtk.commands.options import (
    MAX_ORDER,
    ClassFile,
    Model,
    NoEos,
    NoSos,
    Stream,
    Strict,
    Threads,
    Tolower,
    UnkAsIs,
    Write,
    check_outputs,
    needed,
    one_stdin,
    option,
)
from lmtk.errors import LmtkWarning, UsageError, counted, name_of


def command(
    lm: Model = None,
    classes: ClassFile = None,
    simple_classes: Annotated[
        bool,
        option("simple-classes", "A word in a class never stands for itself.", group="Data"),
    ] = False,
    text: Annotated[
        list[str] | None, option("text", "Text to score, a sentence a line (several; -: stdin).", "FILE", group="Data")
    ] = None,
    ppl: Annotated[list[str] | None, option("ppl", "The same as -text, as SRILM has it.", "FILE", group="Data")] = None,
    counts: Annotated[
        list[str] | None,
        option("counts", "N-gram counts to score: the last word of each (several).", "FILE", group="Data"),
    ] = None,
    count_order: Annotated[
        int | None,
        option("count-order", "Score counts of n-grams up to N only.", "N", min=1, max=MAX_ORDER, group="Data"),
    ] = None,
    float_counts: Annotated[bool, option("float-counts", "Counts may be fractions.", group="Data")] = False,
    format: Annotated[
        str, option("format", "Whose report to print: srilm or kenlm.", "srilm|kenlm", group="Output")
    ] = "srilm",
    debug: Annotated[
        int,
        option("debug", "0: the report; 1: of each sentence too; 2: each word; 3: sums.", "N", min=0, group="Output"),
    ] = 0,
    order: Annotated[
        int | None, option("order", "Use n-grams up to N only.", "N", min=1, max=MAX_ORDER, group="Scoring")
    ] = None,
    unk: UnkAsIs = False,
    no_sos: NoSos = False,
    no_eos: NoEos = False,
    stream: Stream = False,
    tolower: Tolower = False,
    oov_features: Annotated[
        bool,
        option(
            "oov-features",
            "Neural models: words unseen in training get features from where they stand, and p.",
            group="Scoring",
        ),
    ] = False,
    threads: Threads = None,
    strict: Strict = False,
    write: Write = "-",
):
    """Perplexity of a text under any model, in SRILM's report or KenLM's.

    -debug 1 adds the sentences, 2 the words, 3 the sum of the probabilities over the vocabulary.

    \b
    Example: lmtk ppl -lm model.lm -unk -text test.txt
    """
    from lmtk.files import container
    from lmtk.files.registry import load, load_strictly
    from lmtk.files.streams import open_out
    from lmtk.jobs.bar import reading
    from lmtk.lm import running_text
    from lmtk.machine.threads import use
    from lmtk.text.corpus import Marks

    texts, counts = (text or []) + (ppl or []), counts or []
    needed(lm, "lm"), needed(texts + counts, "text")
    one_stdin(lm, *texts, *counts, classes)
    if format not in ("srilm", "kenlm"):
        raise UsageError(f"-format is srilm or kenlm, not {format}")
    if format == "kenlm" and (counts or stream):
        raise UsageError(f"-{'counts' if counts else 'stream'} has no report in KenLM's format")
    # with -oov-features a sum at the beginning of a text cannot know the words that join later
    most = 3 if format == "srilm" and not oov_features else 2
    if debug > most:
        raise UsageError(f"-debug goes to {most} here")
    if oov_features and (counts or format == "kenlm"):
        raise UsageError(f"-oov-features is for -text in SRILM's report, not for {'-counts' if counts else 'kenlm'}")
    check_outputs(write, texts=texts + counts, inputs=[lm, classes])
    use(threads)
    with reading([lm], "reading the model"):
        model = load_strictly(lm) if strict else load(lm, sums="beside")
    if classes:
        from lmtk.joint.classes import class_model

        model = class_model(model, lm, classes, simple=simple_classes)
    count_order = count_order or order or model.order
    if order:
        from lmtk.joint.mixture import lowered

        model = lowered(model, order)
    marks = Marks.of(no_sos, no_eos, stream, tolower)
    if texts and (clause := running_text([model], marks)):
        warnings.warn(f"{clause}; if it was trained with -stream, give it here too", LmtkWarning, stacklevel=1)
    # lines of words leave no room for a bar
    with open_out(write) as out, reading([*texts, *counts], "scoring", quiet=debug > 0) as bar:
        say = bar.aside(out.write)

        def tell(found):
            container.finish()  # a damaged file must not be reported on
            say(found)

        for path in texts:
            if format == "kenlm":
                from lmtk.reports.kenlm import LEVELS, report

                report(model, lm, path, marks, LEVELS[: debug + 1], tell)
            else:
                unknown = report_text(opened(model) if oov_features else model, path, marks, debug, tell)
                if debug and unknown and not oov_features:
                    name = os.fsdecode(model.vocab.words[model.vocab.unk_id])
                    sys.stderr.write(f"{name_of(path)}: {counted(unknown, 'word is', 'words are')} {name} or unknown\n")
        for path in counts:
            report_count_file(model, path, count_order, float_counts, debug, tell, tolower)


def report_text(model, path, marks, debug, write, escape=b"", unk=True, weighted=False):
    """SRILM's report of a text; the number of words that are <unk> or unknown, where that has a probability. Lines that
    begin with `escape` are written as they are; unk: whether sums over the vocabulary have <unk>. weighted: whether the
    other lines begin with how often they count.
    """
    from lmtk.files.streams import blocks, lines, passages
    from lmtk.machine.large import pays
    from lmtk.machine.threads import ahead
    from lmtk.ngram.backoff import Backoff
    from lmtk.reports.early import TOGETHER
    from lmtk.reports.srilm import report, report_passages, report_sums
    from lmtk.text.corpus import corpora

    index = getattr(model, "index", None)
    known = len(model.vocab.words)
    how = model.vocab, marks, model.order, debug >= 1, index
    read = partial(weighted_corpora, path) if weighted else corpora
    if escape:
        texts = ((read([text], *how), line) for text, line in passages(lines(path), escape))
        report_passages(model, path, texts, debug, write, unk)
        return 0
    large = os.path.isfile(path) and pays("text", os.path.getsize(path))
    pieces = debug == 0 and not (marks.reverse or weighted)  # otherwise sentences are printed, or read backwards
    plain = pieces and not marks.stream
    if large and isinstance(model, Backoff) and plain:
        return report_sums(model, path, blocks(path, TOGETHER, pieces=True), marks, write)[2]
    found = read(blocks(path, pieces=pieces), *how)
    if index is None and large:  # no read of a file can wait
        found = ahead(found)
    _, blank, unknown = report(model, path, found, debug, write, unk)
    if debug and blank:
        sys.stderr.write(f"{name_of(path)}: {counted(blank, 'blank line')} skipped\n")
    if debug and index is not None:
        joined = counted(len(model.vocab.words) - known, "word")
        sys.stderr.write(f"{name_of(path)}: {joined} joined the vocabulary\n")
    return unknown


def weighted_corpora(path, blocks, *how):
    """The `corpora` of a text whose lines begin with how often they count."""
    from lmtk.ngram.collection import weighted_lines
    from lmtk.text.corpus import corpora
    from lmtk.text.vocab import EOS

    for sentences, times in weighted_lines(path, blocks, True):
        # a line without words is a sentence that ends at once
        text = b"".join((sentence or EOS) + b"\n" for sentence in sentences)
        for corpus in corpora([text], *how):
            lines = corpus.lines
            if lines is not None:
                words = (line if sentence else b"" for line, sentence in zip(lines, sentences))
                lines = [b"%g* %s" % (n, line) for n, line in zip(times, words)]
            yield replace(corpus, lines=lines, times=times)


def report_count_file(model, path, order, floats, debug, write, tolower, escape=b"", unk=True, entropy=False):
    """SRILM's report of the n-grams up to `order` of a count file, and of each passage before a line that begins with
    `escape`, which is written as it is. entropy: as `reports.srilm.report_counts` has it.
    """
    from lmtk.files.streams import lines, passages
    from lmtk.ngram.counts import read_rows
    from lmtk.reports.srilm import report_counts
    from lmtk.text.corpus import Closed

    index = getattr(model, "index", None) or Closed(model.vocab.index, model.vocab.unk_id)
    texts = passages(lines(path), escape) if escape else [(None, b"")]
    how = index, order, floats, tolower
    found = ((zip(*read_rows(path, *how, text if text is None else [text])), line) for text, line in texts)
    report_counts(model, path, found, debug, write, unk, entropy)


def opened(model):
    """The model with a vocabulary that grows, anew for each text. Raises UsageError for other kinds than nplm."""
    from lmtk.nplm.network import Network
    from lmtk.nplm.oov import Open

    if not isinstance(model, Network) or model.kind != "nplm":
        raise UsageError(f"-oov-features needs a model of the kind nplm, not {next(model.describe())[1]}")
    return Open(model)
