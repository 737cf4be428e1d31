from lmtk.commands.options import MAX_ORDER, made, option, shared, takes
from lmtk.jobs.training import TrainJob, train

OPTIONS = {
    "Data": {
        "text": option("Training text (-: stdin).", "FILE"),
        **shared("heldout vocab unk map_unk no_sos no_eos stream tolower"),
    },
    "Output": {"lm": option("The model to write.", "FILE"), **shared("log plot debug quiet")},
    "Model": {
        "model": option(
            "nplm: a window of words; rnn, gru, lstm: recurrent; energy: section 5.1 of the paper.",
            "nplm|rnn|gru|lstm|energy",
        ),
        "target_weights": option("With -model energy: output weights v for each word."),
        "order": option(
            "n: predict a word from the n-1 before it (default: 8, rnn 10, gru and lstm 32).",
            "N",
            low=1,
            high=MAX_ORDER,
        ),
        "hidden": option("h, hidden units (0: none, with -direct).", "H", low=0),
        "features": option("m, features a word.", "M", low=1),
        "senses": option("K feature vectors a word, among which its context chooses.", "K", low=2, high=100),
        "direct": option("W: direct connections from the features to the outputs."),
        "tied": option("U is C: a word's features are its output's weights (h = m)."),
        "init_features": option("C of words known beforehand (word2vec text).", "FILE"),
    },
    "Training": {
        "paper": option("The paper's recipe: its rate, decay and weight decay, all words, an example an update."),
        "epochs": option("Passes over the text (default: 5; gru, lstm 8; with -paper 20).", "N", low=1),
        "rate": option(
            "eps_0, the rate of one example (default: 0.02; gru, lstm 0.03; with -paper 0.001).", "X", low=0
        ),
        "decay": option(
            "r: the rate is eps_0/(1+rt) after t examples (default: falls linearly to 0, with -paper 1e-8).",
            "R",
            low=0,
        ),
        "weight_decay": option(
            "Decay of U, W, H and C, not of the biases (default: 3e-5; gru, lstm 0; with -paper 1e-4).", "X", low=0
        ),
        "feature_rate": option("C learns with X times the rate (default: 4; gru, lstm 1; with -paper 1).", "X", low=0),
        "dropout": option("The share of x and a that an update leaves out.", "X", low=0, high=0.99),
        "minibatch": option("K, examples in an update (default: 256; gru, lstm 1024; with -paper 1).", "K", low=1),
        "patience": option(
            "Stop after N epochs without a better held-out perplexity (default: 3 with -decay, else never).",
            "N",
            low=1,
        ),
        **shared("seed save_every resume finish"),
    },
    "Objective": {
        "objective": option(
            "What an update sees (default: sampled; full with -paper or at most 2000 words).",
            "full|shortlist|sampled|nce|class|tree",
        ),
        "shortlist": option("N, words of the network with -objective shortlist (default: 2000).", "N", low=1),
        "lm_rest": option("The back-off model of the other words, with -objective shortlist.", "FILE"),
        "classes": option("Classes for -objective class, paths for tree (default: from the frequencies).", "FILE"),
        "tree_features": option("Features of words to make a tree of, for -objective tree.", "FILE"),
        "samples": option(
            "S, words drawn for a minibatch with -objective sampled or nce (default: 250).",
            "S",
            low=1,
            high=1_000_000,
        ),
        "effective_samples": option(
            "With -objective sampled: draw until the sample is worth X words.", "X", low=1, high=1_000_000
        ),
        "proposal": option("What words are drawn from: uniform, or a back-off model (default: unigram).", "FILE"),
    },
    "Parallel": {
        **shared("threads"),
        "mpi": option("Train with the ranks of mpiexec."),
        "parallel": option(
            "With -mpi: the ranks share the output units, or the text (default: outputs).", "outputs|data"
        ),
    },
}


@takes(TrainJob, OPTIONS)
def command(**options):
    """Train the neural model of Bengio et al. 2003: y = b + Wx + U tanh(d + Hx).

    The model with the best held-out perplexity is kept. -debug 1 prints a line an epoch.

    \b
    Example: lmtk nplm-train -text train.txt -heldout valid.txt -unk -hidden 50 -lm nplm.bin
    """
    train(made(TrainJob, options))
