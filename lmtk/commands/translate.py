from lmtk.commands.options import MANY, made, option, shared, takes
from lmtk.jobs.translating import TranslateJob, translate

OPTIONS = {
    "Data": {
        "model": option("The translation model (several: an ensemble; -: stdin).", "FILE"),
        "text": option("Text to translate, a sentence a line (-: stdin).", "FILE"),
        "score": option("Write log10 p of the -target of each line, and search for none."),
        "target": option("Translations to score, line by line (-: stdin).", "FILE"),
        **shared("tolower"),
    },
    "Output": {
        **shared("write"),
        "n_best": option("The N best translations, in Moses' form.", "N", low=1),
        "scores": option("log10 p and a tab before each translation."),
        **shared("debug"),
    },
    "Search": {
        "beam": option("Hypotheses kept a sentence; 1 is greedy (default: 12).", "N", low=1, high=10_000),
        "length_power": option(
            "Hypotheses are ranked by log p / length^X; 0: by log p (default: 1).", "X", low=0, high=10
        ),
        "max_length_factor": option("At most X times the source's words, and 10 (default: 2).", "X", low=0, high=1000),
        "no_unk": option("Never generate [UNK]."),
        "replace_unk": option("Put the source word it looks at in the place of [UNK]."),
        "dictionary": option("For -replace-unk: lines of a source word and its translation.", "FILE"),
        "mbr": option("Of the N best the one most like the others (minimum Bayes risk).", "N", low=1),
        "mbr_scale": option("For -mbr: one counts by p^X (default: 0.8).", "X", low=0, high=100),
        "batch": option("Sentences at once (default: 240/beam).", "N", low=1),
    },
    "Alignment": {
        "align": option("Write which source word each word looks at, as 0-0 1-2.", "FILE"),
        "soft_align": option("Write how much each word looks at each source word.", "FILE"),
        "align_html": option("A page with the same as pictures.", "FILE"),
        "align_plot": option("A picture of it for each sentence.", "DIR"),
        "plot_format": option("The format of the pictures: svg or png (default: svg).", "svg|png"),
    },
    "Parallel": {
        "threads": option(
            "Threads, each for some sentences (default: OPENBLAS_NUM_THREADS, else 1).", "N", low=1, high=MANY
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
    translate(made(TranslateJob, options))
