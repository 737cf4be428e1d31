"""lmtk: a language-modelling toolkit for the command line and for Python.

    model = lmtk.estimate("train.txt", order=3)        # as lmtk ngram-count does
    model.write("model.arpa")
    model = lmtk.load("model.arpa")                    # a model of any kind
    model.score("the dog barks")                       # log10 of the probability
    model.next_words("the dog", k=3)                   # the most probable words, with their probabilities
    small = lmtk.prune(model, 1e-7)                    # edit, as lmtk ngram does
    network = lmtk.train("train.txt", "nplm.bin", heldout="valid.txt", unk=True)
    mixed = lmtk.mix([model, network], heldout="valid.txt")
    lmtk.perplexity(mixed, "test.txt").ppl
    lmtk.translate("en-fr.bin", ["a dog barks"])       # a list of translations

load                                  reads a model of any kind, and returns a Model
estimate, prune, merge, mix, classes  make n-gram models and mixtures
perplexity, score_documents           score texts, and documents
surprisal                             measures the words of a text
select                                chooses the sentences of a text that are most like a domain
train, translate                      neural language models and translation
Model, LanguageModel, State, ...      the names of the module kenlm
errors.LmtkError                      bad data or a failure at run time; errors.FormatError is one about a file
errors.UsageError                     a wrong argument, or options that do not fit together

man lmtk-python describes all of them.
"""

import os

__version__ = "0.1.0"


FUNCTIONS = (
    "estimate",
    "prune",
    "merge",
    "mix",
    "classes",
    "perplexity",
    "score_documents",
    "surprisal",
    "select",
    "train",
    "translate",
)
KENLM = "ARPALoadComplain", "Config", "FullScoreReturn", "LanguageModel", "LoadMethod", "Model", "State"
__all__ = ["errors", "load", *FUNCTIONS, *KENLM]


def __getattr__(name):
    """Imports what the name belongs to when it is first used, so that `import lmtk` is quick."""
    from importlib import import_module

    if name == "errors":
        return import_module("lmtk.errors")
    if name in FUNCTIONS:
        return getattr(import_module("lmtk.functions"), name)
    if name in KENLM:
        return getattr(import_module("lmtk.kenlm_module"), name)
    raise AttributeError(f"module 'lmtk' has no attribute '{name}'")


def __dir__():
    return [*__all__, "__version__"]


def load(path, check=False):
    """Read a model of any kind (n-gram, interpolated, neural, mixture) from a file (str, bytes or os.PathLike) or "-".

    A binary file is mapped into memory. check: whether to compare the checksums of a file above 16 MB too; those of
    smaller files are always compared. Returns a Model: score(sentence), full_scores(sentence), perplexity(sentence),
    "word" in model, order. All logarithms are to base 10. Raises OSError if the file cannot be read, and
    lmtk.errors.FormatError if it is not a complete model.
    """
    from lmtk.api import Model
    from lmtk.files.registry import load as read

    path = os.fsdecode(path)
    model = Model(read(path, sums="now" if check else "never"))
    model.path = os.fsencode(path)
    return model
