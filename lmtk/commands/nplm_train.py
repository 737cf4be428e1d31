from lmtk.commands.options import MAX_ORDER, option, shared, takes
from lmtk.jobs.rules import build
from lmtk.jobs.training import TrainJob, train

OPTIONS = {
    "Data": {
        "text": option("Training text (-: stdin).", "FILE"),
        **shared("heldout vocab unk map_unk no_sos no_eos stream tolower field tokenizer encode normalize"),
    },
    "Output": {"lm": option("Output file for the model.", "FILE"), **shared("log plot debug quiet")},
    "Model": {
        "model": option(
            "nplm: a window of words; tdnn: time-delay; rnn, gru, lstm: recurrent; energy: section 5.1 of the paper.",
            "nplm|tdnn|rnn|gru|lstm|energy",
        ),
        "target_weights": option("With -model energy: separate output weights v for each word."),
        "order": option(
            "n: each word is predicted from the n-1 words before it; gru and lstm learn from n words at once (default: "
            "8, rnn 10, gru and lstm 32).",
            "N",
            low=1,
            high=MAX_ORDER,
        ),
        "layers": option("With -model gru or lstm: the number of hidden layers.", "L", low=1, high=4),
        "hidden": option("h, the number of units in a hidden layer (0 needs -direct).", "H", low=0),
        "features": option("m, the number of features of a word.", "M", low=1),
        "senses": option(
            "Give each word K feature vectors; the context decides how much each one counts.", "K", low=2, high=100
        ),
        "direct": option("Add W, direct connections from the features to the outputs."),
        "tied": option("Use the features of a word as its output weights too; -hidden and -features must be equal."),
        "init_features": option("Start from the features of words in this file (word2vec text format).", "FILE"),
    },
    "Training": {
        "paper": option(
            "Use the paper's rate, schedule and weight decay, with all words as outputs and one example per update."
        ),
        "epochs": option(
            "Passes over the text (default: 5; gru, lstm 8; with -paper 20; with -minutes no limit).", "N", low=1
        ),
        "rate": option(
            "eps_0, the initial learning rate for one example (default: 0.02; gru, lstm 0.03; with -paper 0.001).",
            "X",
            low=0,
        ),
        "decay": option(
            "r: the rate is eps_0/(1+rt) after t examples (default: the rate falls linearly to 0; with -paper 1e-8).",
            "R",
            low=0,
        ),
        "weight_decay": option(
            "Weight decay of U, W, H and C, not of the biases (default: 3e-5; gru, lstm 0; with -paper 1e-4).",
            "X",
            low=0,
        ),
        "feature_rate": option(
            "The learning rate of C, as a multiple of -rate (default: 4; gru, lstm 1; with -paper 1).", "X", low=0
        ),
        "dropout": option(
            "The fraction of features and hidden units that an update sets to 0, at random.", "X", low=0, high=0.99
        ),
        "word_dropout": option(
            "The fraction of the words whose features an update sets to 0, at random.", "X", low=0, high=0.99
        ),
        "weight_dropout": option(
            "With -model rnn, gru or lstm: the fraction of the recurrent weights that an update sets to 0, at random.",
            "X",
            low=0,
            high=0.99,
        ),
        "minibatch": option(
            "K, the number of examples in an update (default: 256; gru, lstm 1024; with -paper 1).", "K", low=1
        ),
        "patience": option(
            "Stop after N epochs without a better held-out perplexity (default: 3 with -decay or -paper, else never).",
            "N",
            low=1,
        ),
        **shared("minutes seed save_every resume finish"),
    },
    "Objective": {
        "objective": option(
            "Which output words an update trains (default: full with -paper or a vocabulary of at most 2000 words; "
            "otherwise sampled).",
            "full|shortlist|sampled|nce|class|tree",
        ),
        "shortlist": option(
            "With -objective shortlist: N, the number of words that the network predicts (default: 2000).", "N", low=1
        ),
        "lm_rest": option("With -objective shortlist, which needs it: the back-off model for the other words.", "FILE"),
        "classes": option(
            "Classes for -objective class, or paths for -objective tree (default: made from word frequencies).", "FILE"
        ),
        "tree_features": option("With -objective tree: features of words, from which the tree is built.", "FILE"),
        "samples": option(
            "With -objective sampled or nce: S, the number of words drawn for a minibatch (default: 250).",
            "S",
            low=1,
            high=1_000_000,
        ),
        "effective_samples": option(
            "With -objective sampled: draw more words until the effective sample size is at least X.",
            "X",
            low=1,
            high=1_000_000,
        ),
        "proposal": option(
            "The distribution from which words are drawn: uniform, or a back-off model (default: the unigram).", "FILE"
        ),
    },
    "Parallel": {
        **shared("threads"),
        "mpi": option("Train with the ranks started by mpiexec."),
        "parallel": option(
            "With -mpi: divide the output units or the text among the ranks (default: outputs).", "outputs|data"
        ),
    },
}


@takes(TrainJob, OPTIONS)
def command(**options):
    """Train the neural model of Bengio et al. 2003: y = b + Wx + U tanh(d + Hx).

    The model of the epoch with the lowest held-out perplexity is written; without held-out text, the model of the last
    epoch. -debug 1 prints one line per epoch.

    Example: lmtk nplm-train -text train.txt -heldout valid.txt -hidden 50 -lm nplm.bin
    """
    train(build(TrainJob, options))
