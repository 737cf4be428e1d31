from lmtk.commands.options import option, shared, takes
from lmtk.jobs.rules import build
from lmtk.jobs.translation_training import TrainTranslationJob, train

OPTIONS = {
    "Data": {
        "source": option("The training text to translate from.", "FILE"),
        "target": option("The translation of -source, line by line.", "FILE"),
        "heldout_source": option("Held-out text to translate from.", "FILE"),
        "heldout_target": option("The translation of -heldout-source, line by line.", "FILE"),
        "shortlist": option("Keep the N most frequent words of each side; other words are [UNK].", "N", low=1),
        "bpe": option(
            "Learn N subwords from both sides, and split words into them (default: whole words).", "N", low=2
        ),
        "max_length": option("Leave out pairs with a sentence of more than N words.", "N", low=1),
        **shared("tolower"),
    },
    "Output": {"model": option("Output file for the model.", "FILE"), **shared("log plot debug quiet")},
    "Model": {
        "attention": option("The attention: additive, as in RNNsearch, or none, as in RNNencdec.", "additive|none"),
        "unit": option("The kind of hidden unit: gated (the paper's), lstm, or rnn (plain tanh).", "gated|lstm|rnn"),
        "hidden": option("n, the number of hidden units (default: 256; 1000 with -paper).", "N", low=1),
        "embedding": option("m, the size of the word embeddings (default: 256; 620 with -paper).", "M", low=1),
        "maxout": option(
            "l, the maxout units of the deep output (default: 128; 500 with -paper; with -tied as -embedding).",
            "L",
            low=1,
        ),
        "tied": option("Use the embedding of a target word as its output weights too."),
        "alignment": option(
            "n', the number of hidden units of the alignment model (default: 256; 1000 with -paper).", "N'", low=1
        ),
    },
    "Training": {
        "minibatch": option("Number of sentence pairs in an update (default: 40; 80 with -paper).", "N", low=1),
        "epochs": option(
            "The highest number of passes over the text (default: 16; with -minutes no limit).", "N", low=1
        ),
        "keep": option(
            "Write the model of the epoch with the best BLEU, or likelihood, of the held-out text.", "bleu|likelihood"
        ),
        "patience": option("Stop after N epochs without an improvement (0: never).", "N", low=0),
        "rate": option(
            "Adam's rate at the start; at the end it is 1/20 of this (default: 0.001; up to 0.004 for few updates).",
            "X",
            low=0,
        ),
        "dropout": option(
            "The fraction of units dropped in training (default: 0.3; 0 with -paper).", "X", low=0, high=0.99
        ),
        "smoothing": option(
            "Label smoothing: the fraction of the target probability that is spread over all words (default: 0.1, with "
            "-paper 0).",
            "X",
            low=0,
            high=0.99,
        ),
        "average": option(
            "Average the weights over the last fraction X of the updates, such as 0.1 (default: no averaging).",
            "X",
            low=0,
            high=1,
        ),
        "paper": option(
            "Use the paper's sizes, initial weights and minibatches of 80; Adadelta; no dropout, no smoothing."
        ),
        **shared("minutes seed save_every resume finish"),
    },
    "Parallel": shared("threads"),
}


@takes(TrainTranslationJob, OPTIONS)
def command(**options):
    """Train the translation model of Bahdanau et al. 2015, RNNsearch.

    The model of the epoch with the highest held-out BLEU is written; without held-out text, the model of the last
    epoch. -debug 1 prints one line per epoch.

    Example: lmtk nmt-train -source train.en -target train.fr -shortlist 6000 -model en-fr.bin
    """
    train(build(TrainTranslationJob, options))
