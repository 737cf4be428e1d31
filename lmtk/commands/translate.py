import os

from lmtk.commands.options import MANY, option, shared, takes
from lmtk.jobs.rules import build
from lmtk.jobs.translating import TranslateJob, translate

OPTIONS = {
    "Data": {
        "model": option("The translation model (several: an ensemble; -: stdin).", "FILE"),
        "text": option("Text to translate, a sentence a line (-: stdin).", "FILE"),
        "score": option("Write log10 p of each line of -target, instead of a translation."),
        "target": option("Translations to score, line by line (-: stdin).", "FILE"),
        **shared("tolower"),
    },
    "Output": {
        **shared("write"),
        "n_best": option("Write the N best translations, in Moses' form.", "N", low=1),
        "scores": option("Write log10 p and a tab before each translation."),
        "reference": option("Print BLEU against these translations, line by line.", "FILE"),
        **shared("debug quiet"),
    },
    "Search": {
        "beam": option("Hypotheses kept for a sentence; 1 is greedy (default: 12).", "N", low=1, high=10_000),
        "length_power": option(
            "Hypotheses are ranked by log p / length^X; 0: by log p (default: 1).", "X", low=0, high=10
        ),
        "max_length_factor": option(
            "A translation has at most X times the words of its source, and 10 (default: 2).", "X", low=0, high=1000
        ),
        "no_unk": option("Never generate [UNK]."),
        "replace_unk": option("Replace [UNK] by the source word that it attends to."),
        "dictionary": option("-replace-unk: lines with a source word and its translation.", "FILE"),
        "mbr": option("Choose among the N best the one most like the others (minimum Bayes risk).", "N", low=1),
        "mbr_scale": option("-mbr: weight each translation by p^X (default: 0.8).", "X", low=0, high=100),
        "batch": option("Sentences translated at once (default: 240/beam).", "N", low=1),
    },
    "Alignment": {
        "align": option("Write the source word that each word attends to, as 0-0 1-2.", "FILE"),
        "soft_align": option("Write how much each word attends to each source word.", "FILE"),
        "align_html": option("Write a page that shows the attention.", "FILE"),
        "align_plot": option("Draw the attention of each sentence.", "DIR"),
        "plot_format": option("The format of the pictures: svg, png or pdf (default: svg).", "svg|png|pdf"),
    },
    "Parallel": {
        "threads": option(
            "Threads, each with sentences of its own (default: OPENBLAS_NUM_THREADS, else 1).", "N", low=1, high=MANY
        ),
    },
}


@takes(TranslateJob, OPTIONS)
def command(**options):
    """Translate text by beam search, or score translations that are given.

    -debug 1 counts sentences and words; with -score, 1 and 2 write the report that ppl has for a language model.

    \b
    Example: lmtk translate -model en-fr.bin -text test.en > test.out
    """
    *models, last = options["model"] or [None]
    if models and options["text"] == "-" and is_text(last):  # -model takes several values: in "-model m text" also text
        options |= {"model": tuple(models), "text": last}
    translate(build(TranslateJob, options))


def is_text(path):
    """Whether a file is there and is not in binary form, as a model would be."""
    from lmtk.files.container import looks_binary
    from lmtk.files.inputs import open_in

    if not os.path.isfile(path):
        return False
    with open_in(path) as stream:
        return not looks_binary(stream.peek(64)[:64])
