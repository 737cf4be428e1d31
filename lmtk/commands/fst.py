from lmtk.commands.options import MAX_ORDER, option, shared, takes
from lmtk.jobs.rules import build
from lmtk.jobs.transducing import FstJob, write_fst

OPTIONS = {
    "Model": {
        "lm": option("A back-off model, as text or binary (-: stdin).", "FILE"),
        "order": option("Drop n-grams longer than N.", "N", low=1, high=MAX_ORDER),
    },
    "Labels": {
        "symbols": option("The symbol table to use: lines with a word and its number, or an FST that has one.", "FILE"),
        "write_symbols": option("Write the symbol table: lines with a word and its number.", "FILE"),
        "disambig": option(
            "The label of back-off arcs, such as #0 (<eps>: the empty label); <s> and </s> are then not labels.", "WORD"
        ),
    },
    "Output": {
        **shared("write"),
        "text": option("Write OpenFst's text form instead of its binary form."),
        "keep_symbols": option("Store the symbol table in the binary form."),
        "remove_redundant": option("Remove states that have only a back-off arc, as Kaldi's arpa2fst does."),
    },
}


@takes(FstJob, OPTIONS)
def command(**options):
    """Write a back-off model as a finite-state transducer in OpenFst's binary or text form, as Kaldi's arpa2fst and
    kaldilm do.

    Example: lmtk fst -lm lm.arpa -symbols words.txt -disambig '#0' -write G.fst
    """
    write_fst(build(FstJob, options))
