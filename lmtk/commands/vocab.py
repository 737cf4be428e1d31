from lmtk.commands.options import option, shared, takes
from lmtk.jobs.rules import build
from lmtk.jobs.vocabulary import VocabularyJob, write_vocabulary

OPTIONS = {
    "Data": {
        **shared("text"),
        "lm": option("Add the words of these models, of any kind.", "FILE"),
        **shared("vocab tolower field tokenizer encode normalize"),
    },
    "Words": {
        "mincount": option("Write only words that occur N times or more in the texts.", "N", low=0),
        "top": option("Write only the N most frequent words.", "N", low=1),
        "limit_vocab": option("Write only the words of the texts that are also in -vocab."),
    },
    "Output": {"write": option("Write the word list (-: stdout).", "FILE")},
}


@takes(VocabularyJob, OPTIONS)
def command(**options):
    """Write the words of texts and models, the most frequent first; words of equal count are in byte order.

    The counts of several texts are added. The words of -lm and -vocab are added to the words of the texts, and
    -mincount does not remove them. With -limit-vocab, -vocab adds no words.

    Example: lmtk vocab -text train.txt -mincount 4 -write vocab.txt
    """
    write_vocabulary(build(VocabularyJob, options))
