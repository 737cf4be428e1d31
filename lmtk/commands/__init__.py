"""The commands, a module each."""

COMMANDS = {
    "normalize": "text to text: tokens, lower case, numbers to <num>, proper nouns to <name>",
    "vocab": "texts or models to a word list",
    "ngram-count": "text or counts to n-gram counts and back-off models",
    "ngram-class": "text to word classes",
    "ngram": "a back-off model to another: pruned, merged, cut, ARPA or binary; or random sentences",
    "ngram-interp": "counts and held-out text to a deleted-interpolation model",
    "nplm-train": "text to a neural model",
    "nmt-train": "a text and its translation to a translation model",
    "translate": "a translation model and a text to translations",
    "mix": "models and held-out text to a mixture",
    "select": "a pool of text and two models to the sentences that are most like a domain",
    "rescore": "models and n-best lists to rescored lists, with weights given or tuned",
    "ppl": "a model and a text to perplexity",
    "features": "a neural model to similar words, word vectors or a picture",
    "info": "any lmtk file to a description of it",
}


def click_command(name):
    """The command as typer's library for command lines has it; only its module is imported."""
    import importlib

    import typer

    module = importlib.import_module("lmtk.commands." + name.replace("-", "_"))
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command()(module.command)
    return typer.main.get_command(app)
