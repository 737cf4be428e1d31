"""The job of lmtk fst, and of arpa2fst and kaldilm: from a back-off model to an FST in OpenFst's forms."""

import contextlib
import os
import warnings
from dataclasses import dataclass, replace

from lmtk.errors import FormatError, LmtkWarning, counted, first_words, shown
from lmtk.jobs.rules import check, check_outputs, excludes, needs, one_stdin, required, wrong


@dataclass(frozen=True)
class FstJob:
    """Write a back-off model as an FST.

    lm: the model's file. order: the order of the longest n-grams to keep.
    symbols: a symbol table, as a text or in an FST. None: the words get new numbers. write_symbols: a file for the
    table.
    disambig: the label of back-off arcs. None: they have the label 0, and <s> and </s> are labels.
    max_order: like order, but the longest n-grams are states too, as in kaldilm.
    write, write_text: files for the binary form and the text form. text: `write` gets the text form.
    is_sorted: sort the arcs of each state by label. is_spaced: put empty lines around the text form, as kaldilm does.
    """

    lm: str | None = None
    symbols: str | None = None
    write_symbols: str | None = None
    keep_symbols: bool = False
    disambig: str | None = None
    order: int | None = None
    max_order: int | None = None
    remove_redundant: bool = False
    write: str | None = "-"
    write_text: str | None = None
    text: bool = False
    sos: str = "<s>"
    eos: str = "</s>"
    is_sorted: bool = True
    is_spaced: bool = False

    def __post_init__(self):
        check(self, RULES)
        one_stdin(self.lm, self.symbols)


RULES = (
    required("lm"),
    needs("remove_redundant", "disambig"),
    excludes("keep_symbols", "text", "-keep-symbols needs the binary form; leave out -text"),
    wrong(
        lambda job: job.text and not (job.symbols or job.write_symbols),
        "-text needs -symbols FILE or -write-symbols FILE, because otherwise the words of the labels are lost",
    ),
    wrong(
        lambda job: job.disambig and len(job.disambig.split()) != 1,
        "-disambig takes one word, not '{disambig}'",
    ),
    wrong(lambda job: job.sos == job.eos, "the symbols for the begin and the end of a sentence are both {sos}"),
)


def make_fst(job):
    """(the Fst of a FstJob, its Symbols). Raises FormatError, LmtkError, OSError."""
    from lmtk.fst import compiling
    from lmtk.fst.ngrams import read_ngrams
    from lmtk.fst.symbols import read_symbols
    from lmtk.jobs.bar import reading_bar
    from lmtk.jobs.changing import check_kind

    check_outputs(job.write, job.write_text, job.write_symbols, inputs=[job.lm, job.symbols])
    symbols = read_symbols(job.symbols) if job.symbols else None
    with reading_bar([job.lm], f"reading {os.path.basename(job.lm)}"):
        ngrams = read_ngrams(job.lm, check_kind)
    symbols = complete_symbols(job, ngrams, symbols)
    numbers = numbers_of(job, ngrams, symbols)
    kept = replace(ngrams, rows=ngrams.rows[: job.order or job.max_order])
    number = lambda symbol: None if symbol is None else symbols.number[os.fsencode(symbol)]
    highest = len(kept.rows if job.order else ngrams.rows)
    form = compiling.Form(number(job.sos), number(job.eos), number(job.disambig), highest, job.is_sorted)
    fst = compiling.compile_ngrams(kept, numbers, form)
    return (compiling.remove_redundant(fst) if job.remove_redundant else fst), symbols


def complete_symbols(job, ngrams, symbols):
    """The Symbols of a FstJob: those read, or new ones if `symbols` is None. Raises FormatError if a label of arcs is
    missing: that of -disambig or, without it, <s> and </s>. With -disambig, missing <s> and </s> get unused numbers.
    """
    from lmtk.fst.symbols import Symbols, new_symbols

    marks, disambig = [os.fsencode(job.sos), os.fsencode(job.eos)], [os.fsencode(job.disambig)] if job.disambig else []
    if symbols is None:
        return new_symbols([*disambig, *marks, *(ngrams.words[i] for i in ngrams.rows[0][:, 0])])
    symbols = Symbols(dict(symbols.number), symbols.path)
    for word in disambig or marks:
        if word not in symbols.number:
            remedy = "add it" if disambig else "add it, or give -disambig"
            raise FormatError(symbols.name, f"the symbol {shown(word)} is missing; {remedy}")
    for word in marks:
        symbols.add(word)
    return symbols


def numbers_of(job, ngrams, symbols):
    """(W,) int32: the number of each word of Ngrams, -1 for a word that the Symbols lack. Warns of such words. Raises
    FormatError for a word that would be an empty label or the label of back-off arcs.
    """
    import numpy as np

    numbers = np.array([symbols.number.get(word, -1) for word in ngrams.words], np.int32)
    unigrams = ngrams.rows[0][:, 0]
    if missing := [ngrams.words[i] for i in unigrams[numbers[unigrams] < 0]]:
        count = counted(len(missing), "word of the model is", "words of the model are")
        left_out = f"n-grams with {'this word' if len(missing) == 1 else 'these words'} are left out"
        line = f"{symbols.name}: {count} missing ({first_words(missing)}); {left_out}"
        warnings.warn(line, LmtkWarning, stacklevel=2)
    for symbol, use in ((None, "the empty label"), (job.disambig, "the label of back-off arcs")):
        number = 0 if symbol is None else symbols.number[os.fsencode(symbol)]
        if words := [ngrams.words[i] for i in unigrams[numbers[unigrams] == number]]:
            message = f"the word {shown(words[0])} of the model has the number {number}, which is {use}"
            raise FormatError(symbols.name, f"{message}; give the word another number")
    return numbers


def write_fst(job):
    """Runs a FstJob."""
    from lmtk.files.outputs import open_out
    from lmtk.fst import writing
    from lmtk.fst.symbols import as_text

    fst, symbols = make_fst(job)
    kept = symbols if job.keep_symbols or not (job.symbols or job.write_symbols) else None
    with contextlib.ExitStack() as files:
        if job.write_symbols:
            files.enter_context(open_out(job.write_symbols)).write(as_text(symbols))
        if job.write and not job.text:
            writing.write_binary(files.enter_context(open_out(job.write)), fst, kept)
        if text := job.write if job.text else job.write_text:
            out = files.enter_context(open_out(text))
            out.write(b"\n" * job.is_spaced)
            writing.write_text(out, fst)
            out.write(b"\n\n" * job.is_spaced)
