from lmtk.commands.options import option, shared, takes
from lmtk.jobs.features import FeaturesJob, show_features
from lmtk.jobs.rules import build

OPTIONS = {
    "Data": {
        "lm": option("A neural model.", "FILE"),
        "words": option("Show only the words in this list.", "FILE"),
        **shared("tolower"),
    },
    "Text": {
        "text": option("Make word vectors from these texts, instead of reading -lm (-: stdin).", "FILE"),
        "svd": option("The number of features of each vector made from -text.", "M", low=1),
        "window": option("Count pairs of words that are at most N words apart.", "N", low=1, high=100),
        **shared("vocab no_sos no_eos stream field tokenizer encode normalize"),
    },
    "Job": {
        "neighbours": option("Print the words nearest to WORD.", "WORD", "neighbors", "word"),
        "analogy": option("Print the words that are to C as B is to A.", "A B C"),
        "plot": option("Draw the words in two dimensions (.svg, .png or .pdf).", "FILE"),
    },
    "Output": {"write": option("Write the features in word2vec's text form (-: stdout).", "FILE")},
    "Show": {
        "dimensions": option("Draw the features I and J (default: the first two principal components).", "I J"),
        "top": option("How many words to show (default: 10; with -plot 200; with -write all).", "N", low=1),
    },
}


@takes(FeaturesJob, OPTIONS)
def command(**options):
    """Show the features of words that a neural model has learned: the nearest words by cosine, a table or a picture.

    If the model was trained with -senses, a word has several vectors: word/1, word/2 and so on. Each vector has
    its own neighbours. -text and -svd make vectors from a text without a model.

    Example: lmtk features -lm nplm.bin -neighbours three
    """
    show_features(build(FeaturesJob, options))
