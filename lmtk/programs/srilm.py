"""SRILM's programs that are commands of lmtk's: their command lines as ours, [(command, words)]."""


def ngram(words):
    """-ppl and -counts are perplexity, the rest is one model to another; the order is 3 where none is given."""
    names = {word.lstrip("-") for word in words}
    order = [] if "order" in names else ["-order", "3"]
    return [("ppl" if names & {"ppl", "counts"} else "ngram", order + words)]


def ngram_count(words):
    return [("ngram-count", words)]


def ngram_class(words):
    """-read is -init."""
    return [("ngram-class", ["-init" if word in ("-read", "--read") else word for word in words])]
