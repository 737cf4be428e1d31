"""SRILM's programs that are commands of lmtk's: their command lines as ours, [(command, words)]."""


def ngram(words):
    """The order is 3 where none is given."""
    given = {word.lstrip("-").partition("=")[0] for word in words}
    return [("ngram", words if "order" in given else ["-order", "3", *words])]


def ngram_count(words):
    return [("ngram-count", words)]


def ngram_class(words):
    """-read is -init."""
    return [("ngram-class", ["-init" if word in ("-read", "--read") else word for word in words])]
