from lmtk.commands.options import option, shared, takes
from lmtk.jobs.measuring import SurprisalJob, write_surprisal
from lmtk.jobs.rules import build

OPTIONS = {
    "Data": {
        "lm": option("Models of any kind; each adds its columns to the table.", "FILE"),
        "text": option("Sentences, one per line, or tables (.tsv) with a header (-: stdin).", "FILE"),
        "column": option("The column of a table that has the sentences (default: sentence).", "NAME"),
        "region_separator": option("The character that separates the regions of a sentence.", "CHARACTER"),
        **shared("no_sos no_eos stream tolower field tokenizer encode"),
    },
    "Output": {
        "unit": option("The unit of surprisal and entropy (default: bits).", "bits|nats|log10"),
        "bits": option("Another name for -unit bits."),
        "by": option(
            "Make a row for each token, or for each word that the pieces of a tokenizer form (default: token).",
            "token|word",
        ),
        "entropy": option("Add the entropy of the distribution of the next word."),
        "write": option("Write the table to this file (-: stdout).", "FILE"),
        **shared("quiet"),
    },
    "Parallel": shared("threads"),
}


@takes(SurprisalJob, OPTIONS)
def command(**options):
    """Write a table of the surprisal of each word, -log2 p(word | words before it), under models of any kind.

    A row has the item, the number of the sentence, the number of the word in the sentence, the word, its surprisal,
    whether the word is unknown to the model, the length of the n-gram that was used, and the positions of the
    characters where the word starts and ends.

    Example: lmtk surprisal -lm model.arpa -text items.tsv -write table.tsv
    """
    write_surprisal(build(SurprisalJob, options))
