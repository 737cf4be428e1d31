"""Vocabularies: words as bytes, their ids, and which of them a model predicts."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from lmtk.errors import FormatError, LmtkError, LmtkWarning, name_of, shown
from lmtk.files.decoding import lines
from lmtk.files.words import Words
from lmtk.machine.large import pays

UNK, SOS, EOS = b"<unk>", b"<s>", b"</s>"
FIRST = 100  # lines of a word list that are checked for more than one word
AS_BLANKS = bytes.maketrans(b"\t\r", b"  ")
PAUSE = b"-pau-"  # as in SRILM, it occurs only in contexts and is never predicted


@dataclass(frozen=True)
class Vocab:
    """The words of a model. Words with ids below V are predicted; the others occur only in contexts.

    words: all words, bytes, the predicted ones first; <unk>, <s> and </s> are among them, each once. They are a list
    or, from a binary file or a large text, a `files.words.Words`.
    V: the number of predicted words, |V| in the papers.
    unk: the word that stands for unknown ones, <unk> or that of -map-unk.
    tokenizer: the SHA-256 of the file of the tokenizer whose pieces the words are, None if they are words of a text.
    """

    words: Sequence
    V: int
    unk: bytes = UNK
    tokenizer: str | None = field(default=None, compare=False)

    @cached_property
    def index(self):
        """Word -> id."""
        return dict(zip(self.words, range(len(self.words))))

    @cached_property
    def table(self):
        """The words as a `text.corpus.Table`, which takes less time and memory than the index."""
        import numpy as np

        from lmtk.text.corpus import Table

        return Table(self.words, np.arange(len(self.words)), self.unk_id)

    def __reduce__(self):  # without index and table
        return Vocab, ([*self.words], self.V, self.unk, self.tokenizer)

    def __repr__(self):
        first = b" ".join(self.words[:3]).decode("utf-8", "backslashreplace")
        return f"<Vocab of {len(self.words)} words, {self.V} of them predicted: {first} ...>"

    @cached_property
    def unk_id(self):
        return self.words.index(self.unk)

    @cached_property
    def sos_id(self):
        return self.words.index(SOS)

    @cached_property
    def eos_id(self):
        return self.words.index(EOS)

    def predicts(self, word):
        return self.index.get(word, self.V) < self.V

    def ids_of_words(self, words):
        """The ids of words, (N,) int32. A word outside the vocabulary gets the id of the unknown word."""
        import numpy as np

        return np.array([self.index.get(word, self.unk_id) for word in words], np.int32)


def common_tokenizer(vocabs):
    """The `tokenizer` that all of the vocabularies have; None if they differ."""
    first, *others = {vocab.tokenizer for vocab in vocabs}
    return None if others else first


def with_tokenizer(vocab, tokenizer):
    """The Vocab with another tokenizer."""
    return vocab if vocab.tokenizer == tokenizer else replace(vocab, tokenizer=tokenizer)


def vocab_settings(vocab):
    """The settings of a binary file about a vocabulary; the words are an array of their own."""
    settings = {"V": vocab.V, "unk": vocab.unk.decode("latin-1")}
    return settings | ({"tokenizer": vocab.tokenizer} if vocab.tokenizer else {})


def vocab_of(settings, words, path):
    """The Vocab of a model's file. Raises FormatError if the settings do not fit the words, or the words are wrong."""
    V, unk = settings["V"], settings["unk"].encode("latin-1")
    if not 0 < V <= len(words):
        raise FormatError(path, f"damaged: it predicts {V} words, but its vocabulary has {len(words)}")
    for word in (unk, SOS, EOS):
        if word not in words:
            raise FormatError(path, f"its vocabulary has no {shown(word)}")
    vocab = Vocab(words, V, unk, settings.get("tokenizer"))
    # a table leaves out words with gaps
    large = isinstance(words, Words) and not words.gaps and pays("text", len(words.text), "look-up")
    if (vocab.table.n_words if large else len(vocab.index)) != len(words):
        raise FormatError(path, "damaged: a word occurs twice in its vocabulary")
    return vocab


def make_vocab(words, unk=False, eos=True, unk_word=UNK, source="the vocabulary", nonevents=()):
    """A Vocab that predicts `words` (each once, in their order, without marks and -pau-; a list or Words), </s> if
    `eos`, and `unk_word` if `unk`; but none of `nonevents`.

    Raises LmtkError if `words` has only marks, `unk_word`, -pau- and nonevents. source: the file of the words, for the
    message.
    """
    as_lines = isinstance(words, Words) and not nonevents
    words = words if as_lines else dict.fromkeys(words)
    unpredicted = [w for w in (PAUSE, *nonevents) if w in words and w != SOS]
    # whether each word that comes before or after the plain ones is predicted
    special = {EOS: eos, unk_word: unk} | dict.fromkeys(unpredicted, False) | {SOS: False}
    plain = words.without(special) if as_lines else [w for w in words if w not in special]
    if not len(plain):
        besides = " besides those of -nonevents" if nonevents else ""
        raise LmtkError(f"{name_of(source)}: no words in it{besides}, so no vocabulary can be made")
    first, last = ([w for w in special if special[w] == predicted] for predicted in (True, False))
    texts = (Words.join(part).text for part in (first, plain, last))
    return Vocab(Words(b"".join(texts)) if as_lines else first + plain + last, len(first) + len(plain), unk_word)


def vocab_of_unigrams(words):
    """The Vocab of a model with these 1-grams, a list or Words. It never predicts <s>, and </s> and <unk> only if they
    have 1-grams.
    """
    as_lines = isinstance(words, Words)
    predicted = words.without([SOS]) if as_lines else [w for w in dict.fromkeys(words) if w != SOS]
    missing = [w for w in (SOS, EOS, UNK) if w not in predicted]
    every = Words(predicted.text + Words.join(missing).text) if as_lines else predicted + missing
    vocab = Vocab(every, len(predicted))
    if as_lines and (SOS in predicted or vocab.table.n_words < len(every)):  # a word occurs twice
        return vocab_of_unigrams(words.items)
    return vocab


def lower(text):
    """A text, bytes, in Unicode's lower case; bytes that are not UTF-8 stay as they are."""
    return text.decode("utf-8", "surrogateescape").lower().encode("utf-8", "surrogateescape")


def read_vocab(path, tolower=False):
    """The words of a word list, each once: the first field of each line, so that a count file can be used too."""
    rows = [line.translate(AS_BLANKS).strip(b" ") for _, line in lines(path, True)]
    words = (row.split(b" ", 1)[0] for row in rows)
    if 2 * sum(len(row.split()) > 2 for row in rows[:FIRST]) > len(rows[:FIRST]):
        message = f"{name_of(path)}: a word list has a word on each line; of these lines, only the first words are read"
        warnings.warn(f"{message}; lmtk vocab makes a word list of a text", LmtkWarning, stacklevel=2)
    return list(dict.fromkeys(lower(w) if tolower else w for w in words if w))


def count_missing(words, vocab):
    """{"seen": the number of words of a text, "missing": how many of them a Vocab lacks, "upper": how many of the
    missing words it has in lower case}.
    """
    missing = [word for word in words if word not in vocab.index]
    return {"seen": len(words), "missing": len(missing), "upper": sum(lower(word) in vocab.index for word in missing)}


def differences(a, b):
    """The words that only one of two vocabularies has, <unk> and the marks aside, in byte order."""
    special = {UNK, SOS, EOS, a.unk, b.unk}
    return sorted((set(a.words) ^ set(b.words)) - special)
