from lmtk.commands.options import MANY, option, shared, takes
from lmtk.jobs.rules import build
from lmtk.jobs.translating import TranslateJob, translate

OPTIONS = {
    "Data": {
        "model": option("The translation model (-: stdin); several models are used as an ensemble.", "FILE"),
        "text": option("Text to translate, one sentence per line (-: stdin).", "FILE"),
        "score": option("Write log10 p of each line of -target, instead of a translation."),
        "target": option("Translations to score, line by line (-: stdin).", "FILE"),
        **shared("tolower field"),
    },
    "Output": {
        "write": option("Write the translations (-: stdout).", "FILE"),
        "n_best": option("Write the N best translations, in Moses format.", "N", low=1),
        "scores": option("Write log10 p and a tab before each translation."),
        "reference": option("Print BLEU against these reference translations, one per line.", "FILE"),
        **shared("debug quiet"),
    },
    "Search": {
        "beam": option(
            "Number of hypotheses kept for a sentence (1: greedy search) (default: 12).", "N", low=1, high=10_000
        ),
        "length_power": option("Rank hypotheses by log p / length^X (0: by log p) (default: 1).", "X", low=0, high=10),
        "max_length_factor": option(
            "Limit a translation to X times the number of source words, plus 10 (default: 2).", "X", low=0, high=1000
        ),
        "no_unk": option("Never generate [UNK]."),
        "replace_unk": option("Replace [UNK] by the source word with the greatest attention weight."),
        "dictionary": option(
            "With -replace-unk: translate the source word by this list; each line has a word and its translation.",
            "FILE",
        ),
        "mbr": option(
            "Choose among the N best translations by minimum Bayes risk: the one most similar to the others.",
            "N",
            low=1,
        ),
        "mbr_scale": option("With -mbr: weight each translation by p^X (default: 0.8).", "X", low=0, high=100),
        "batch": option("Number of sentences translated at once (default: 240/beam).", "N", low=1),
    },
    "Alignment": {
        "align": option(
            "For each word of a translation, write the source word with the greatest attention weight, as in 0-0 2-1.",
            "FILE",
        ),
        "soft_align": option(
            "For each word of a translation, write the attention weights of all source words.", "FILE"
        ),
        "align_html": option("Write an HTML page that shows the attention weights.", "FILE"),
        "align_plot": option("Draw the attention weights of each sentence into this folder.", "DIR"),
        "plot_format": option("The format of the pictures: svg, png or pdf (default: svg).", "svg|png|pdf"),
    },
    "Parallel": {
        "threads": option(
            "Number of threads, which translate different sentences (default: OPENBLAS_NUM_THREADS or OMP_NUM_THREADS, "
            "else 1).",
            "N",
            low=1,
            high=MANY,
        ),
    },
}


@takes(TranslateJob, OPTIONS)
def command(**options):
    """Translate a text by beam search, or score existing translations.

    -debug 1 prints the numbers of sentences and words. With -score, -debug 1 writes the report of lmtk ppl, and
    -debug 2 adds each word.

    Example: lmtk translate -model en-fr.bin -text test.en > test.out
    """
    *models, last = options["model"] or [None]
    # -model takes several values, so in "-model m text" the parser also takes text as a model
    if models and options["text"] == "-" and is_text(last):
        options |= {"model": tuple(models), "text": last}
    translate(build(TranslateJob, options))


def is_text(path):
    """Whether a path is a regular file that does not begin like a binary file, such as a model."""
    from lmtk.files.container import looks_binary
    from lmtk.files.inputs import is_file, open_in

    if not is_file(path):
        return False
    with open_in(path) as stream:
        return not looks_binary(stream.peek(64)[:64])
