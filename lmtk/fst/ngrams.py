"""The n-grams of a back-off model in the order of an ARPA file's lines, which gives states their numbers."""

from dataclasses import dataclass

from lmtk.errors import LmtkError, name_of
from lmtk.ngram.arpa.reader import GrowingTrie, read_model, rows_of_model, rows_of_pieces


@dataclass(frozen=True)
class Ngrams:
    """words: the words of the 1-grams, in order, and <s>, </s> and <unk> if they are missing; their places are their
    ids. rows: for each order k an array (N, k + 2), int32: the ids of an n-gram, its log10 p and the log10 of its
    back-off weight, both as float32. path: the model's file.
    """

    words: list
    rows: list
    path: str


class InFileOrder(GrowingTrie):
    """Leaves the sections of an ARPA file as they are read; a GrowingTrie would sort them into a trie."""

    def add(self, sections, stated):
        pass


def read_ngrams(path, strict_kind):
    """The Ngrams of the back-off model in a file, which may be an ARPA file or in binary form. strict_kind: a function
    of the file's name and a model that raises LmtkError unless the model is a back-off model. Raises FormatError.
    """
    from lmtk.files.registry import load

    model = load(path, arpa=ngrams_of_arpa)
    if isinstance(model, Ngrams):
        return model
    strict_kind(path, model)
    return ngrams_of_model(model, path)


def ngrams_of_arpa(stream, path):
    """The Ngrams of an ARPA file, which is read forward only. Warns as `reader.read_text` does. Raises FormatError."""
    growing = InFileOrder(path)
    sections = read_model(stream, path, growing)
    rows = [rows_of_pieces(k, pieces, growing.unigrams) for k, pieces in sections.items()]
    return Ngrams(growing.unigrams.vocab.words, rows, path)


def ngrams_of_model(model, path):
    """The Ngrams of a Backoff. N-grams without a probability, which are needed only for longer ones, are left out."""
    rows = rows_of_model(model)
    if not len(rows[0]):
        raise LmtkError(f"{name_of(path)}: the model has no 1-grams")
    return Ngrams(list(model.vocab.words), rows, path)
