import os

from lmtk.commands.options import MODELS, UNK_AS_IS, option, shared, takes
from lmtk.jobs.rescoring import RescoreJob, rescore
from lmtk.jobs.rules import build

OPTIONS = {
    "Data": {
        "lm": MODELS,
        "nbest": option("N-best lists of Moses or SRILM (-: stdin).", "FILE"),
        "model": option("Translation models.", "FILE"),
        "source": option("The source text of the lists, for -model (-: stdin).", "FILE"),
        "name": option(
            "The names of the features of -lm and -model in Moses lists (default: LM0 .., NMT0 ..).",
            "NAME",
            parse=lambda values: tuple(map(os.fsencode, values or ())),
        ),
        "unk_penalty": option(
            "log10 p of a word without a probability (default: 0 for SRILM lists, -100 for Moses lists).", "X"
        ),
        "unk": UNK_AS_IS,
        **shared("tolower tokenizer encode"),
    },
    "Weights": {
        "weights": option(
            "Weights of all features, in lines such as LM0= 0.5; with -tune, the start of the search.", "FILE"
        ),
        "lmw": option("A weight for each model: X times its score is added to the score in the list.", "X"),
        "wtw": option("A weight for words: X times the number of words is added to the score in the list.", "X"),
        "tune": option("Reference texts on which the weights are learned, one line for each list.", "FILE"),
        "words": option("Add the number of words as the feature words= to Moses lists that do not have this feature."),
        "metric": option("The measure that -tune improves: BLEU or the word error rate (default: bleu).", "bleu|wer"),
        "restarts": option("Number of random starts of -tune.", "N", low=0),
        **shared("seed"),
    },
    "Output": {
        "write_weights": option("Output file for the weights.", "FILE"),
        "best": option("Write only the best hypothesis of each list."),
        "write": option("Write the lists (-: stdout).", "FILE"),
        "write_nbest_dir": option("Write the lists of each input file to a file of the same name in DIR.", "DIR"),
        **shared("debug"),
    },
    "Parallel": shared("threads"),
}


@takes(RescoreJob, OPTIONS)
def command(unk, **options):
    """Score the hypotheses of n-best lists with models, and reorder them.

    -model needs -source: the key of a list must then be the number of the source line, from 0.

    Example: lmtk rescore -lm big.lm -nbest lists.txt -tune references.txt -best
    """
    rescore(build(RescoreJob, options))
