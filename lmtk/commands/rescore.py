import os

from lmtk.commands.options import MODELS, UNK_AS_IS, option, shared, takes
from lmtk.jobs.rescoring import RescoreJob, rescore
from lmtk.jobs.rules import build

OPTIONS = {
    "Data": {
        "lm": MODELS,
        "nbest": option("N-best lists of Moses or SRILM (several; -: stdin).", "FILE"),
        "model": option("A translation model (several).", "FILE"),
        "source": option("The text that the lists translate, for -model (-: stdin).", "FILE"),
        "name": option(
            "The features of -lm and -model in Moses's lists (default: LM0 .., NMT0 ..).",
            "NAME",
            parse=lambda values: tuple(map(os.fsencode, values or ())),
        ),
        "unk_penalty": option("log10 p of a word without probability (default: 0 for SRILM, -100 for Moses).", "X"),
        "unk": UNK_AS_IS,
        **shared("tolower"),
    },
    "Weights": {
        "weights": option("Weights of all features, lines Name= w w; with -tune the initial weights.", "FILE"),
        "lmw": option("A weight for each model, whose score is added to the list's.", "X"),
        "wtw": option("The weight of a word, added to the list's score.", "X"),
        "tune": option("References to learn the weights on, one line for each list (several).", "FILE"),
        "words": option("Add the number of words as the feature words= to Moses's lists without it."),
        "restarts": option("Random starts of -tune.", "N", low=0),
        **shared("seed"),
    },
    "Output": {
        "write_weights": option("Where to write the weights.", "FILE"),
        "best": option("Write only the words of the best hypothesis of each list."),
        **shared("write"),
        "write_nbest_dir": option("Write each file of lists under its own name into DIR.", "DIR"),
        **shared("debug"),
    },
    "Parallel": shared("threads"),
}


@takes(RescoreJob, OPTIONS)
def command(unk, **options):
    """Score the hypotheses of n-best lists by models; reorder them with weights given or learned on references.

    With -model and -source the hypotheses are translations, and the keys of the lists count the source's lines from 0.

    \b
    Example: lmtk rescore -lm big.lm -nbest lists.txt -tune references.txt -best
    """
    rescore(build(RescoreJob, options))
