"""lmtk: a language-modelling toolkit for the command line and for Python.

    model = lmtk.estimate("train.txt", order=3)        # like lmtk ngram-count
    model.write("model.arpa")
    model = lmtk.load("model.arpa")                    # a model of any kind
    model.score("the dog barks")                       # log10 of the probability
    model.next_words("the dog", k=3)                   # the most probable words, with their probabilities
    small = lmtk.prune(model, 1e-7)                    # like lmtk ngram -prune
    network = lmtk.train("train.txt", "nplm.bin", heldout="valid.txt")
    mixed = lmtk.mix([model, network], heldout="valid.txt")
    lmtk.perplexity(mixed, "test.txt").ppl
    lmtk.translate("en-fr.bin", ["a dog barks"])       # a list of translations

load                                  reads a model of any kind, and returns a Model
estimate, prune, merge, mix           make n-gram models and mixtures
classes                               sorts words into classes
perplexity, score_documents           score texts and documents
surprisal                             computes the surprisal of each word of a text
select                                chooses the sentences of a text that are most similar to a domain
train                                 trains a neural language model
translate                             translates a text with a model of lmtk nmt-train
Model, LanguageModel, State, ...      the same names as in KenLM's module kenlm
errors.LmtkError                      bad data or a failure at run time
errors.FormatError                    a file with wrong content; a subclass of LmtkError
errors.UsageError                     a wrong argument, or options that cannot be combined; a subclass of LmtkError

man lmtk-python describes these functions and classes.
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
    """Imports a function or class when it is first used, so that `import lmtk` is quick."""
    from importlib import import_module

    if name == "errors":
        return import_module("lmtk.errors")
    if name not in (*FUNCTIONS, *KENLM):
        raise AttributeError(f"module 'lmtk' has no attribute '{name}'")
    module = import_module("lmtk.functions" if name in FUNCTIONS else "lmtk.kenlm_module")
    value = globals()[name] = getattr(module, name)  # later uses do not call this function
    return value


def __dir__():
    return [*__all__, "__version__"]


def load(path, check=False):
    """Read a model of any kind (n-gram, interpolated, neural, mixture), and return a Model.

    path: the name of a file (str, bytes or os.PathLike), or "-" for stdin. A binary file is mapped into memory.
    check: True verifies the checksums of a binary file of any size. With False, only the checksums of files of at most
    16 MB are verified.

    Raises OSError if the file cannot be read, and lmtk.errors.FormatError if the file is not a complete model.
    """
    from lmtk.api import Model
    from lmtk.files.registry import load as read

    path = os.fsdecode(path)
    model = Model(read(path, sums="now" if check else "never"))
    model.path = None if path == "-" else os.path.abspath(os.fsencode(path))
    return model
