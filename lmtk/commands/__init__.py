"""The commands, one module each.

A module has a table OPTIONS, with the help of each option, and a function `command`, whose docstring is the help of the
command. `options` makes the parser of a command line from the table and from the fields of the command's job.
`spelling` checks and spells the words of a command line before they are parsed. `absent` says what to use in place of
the options and programs of SRILM and KenLM that lmtk does not have.
"""

COMMANDS = {
    "normalize": "split text into tokens, convert to lower case, replace numbers and names by symbols",
    "vocab": "make a word list of texts or models",
    "ngram-count": "count n-grams and estimate back-off models",
    "ngram-class": "make word classes",
    "ngram": "prune, merge, convert and score back-off models; print random sentences",
    "ngram-interp": "estimate a deleted-interpolation model",
    "nplm-train": "train a neural language model",
    "nmt-train": "train a translation model",
    "translate": "translate text, or score translations",
    "mix": "mix models of any kind",
    "fst": "write a back-off model as a finite-state transducer, for Kaldi, k2 and Vosk",
    "select": "select the sentences of a large text that are most similar to a domain",
    "rescore": "rescore n-best lists",
    "ppl": "measure the perplexity of texts",
    "surprisal": "make a table of the surprisal of words",
    "next": "print the most probable next words",
    "sample": "print random sentences",
    "index": "make an index of a corpus",
    "count-of": "count phrases of any length in an index",
    "features": "show which words are similar, by a neural model or a text",
    "info": "describe any file",
}


def click_command(name):
    """The command as an object of typer's command-line library. Imports the module of this command alone."""
    import importlib

    import typer

    module = importlib.import_module("lmtk.commands." + name.replace("-", "_"))
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command()(module.command)
    return typer.main.get_command(app)
