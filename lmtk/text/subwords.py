"""Words in pieces: byte pair encoding, by sentencepiece. The first piece of each word begins with a mark.

Sennrich, Haddow, Birch (2016), "Neural machine translation of rare words with subword units", section 3.2.
"""

import io
from functools import lru_cache

from lmtk.errors import FormatError, LmtkError, UsageError
from lmtk.text.bitext import UNKNOWN

MARK = "\u2581".encode()
LONGEST = 200  # bytes of a word that is split: a translation takes time in the square of the pieces of a line


def library():
    try:
        import sentencepiece
    except ImportError:
        raise UsageError("subwords need the package sentencepiece; pip install 'lmtk[bpe]'") from None
    return sentencepiece


def learn(rows, size):
    """A model of sentencepiece, as bytes: `size` pieces learned from lists of words. Raises LmtkError."""
    lines, out = (b" ".join(row).decode("utf-8", "replace") for row in rows), io.BytesIO()
    how = {"model_type": "bpe", "vocab_size": size, "num_threads": 1, "minloglevel": 9}
    # words are taken as they are, with all their characters; sentence marks are ours
    how |= {"normalization_rule_name": "identity", "character_coverage": 1.0, "bos_id": -1, "eos_id": -1}
    try:
        library().SentencePieceTrainer.train(sentence_iterator=lines, model_writer=out, **how)
    except (RuntimeError, OSError):
        raise LmtkError(
            f"-bpe {size}: these texts have no {size} subwords, or as many characters; give another number"
        ) from None
    return out.getvalue()


def splitter(model, path):
    """A function of a list of words that gives their pieces; words themselves where `model` is empty.

    A word that sentencepiece would not give back as it was, not being UTF-8 or holding the mark, is one piece, and so
    is one of more than LONGEST bytes.
    Raises FormatError.
    """
    if not model:
        return lambda words: words
    try:
        encode = library().SentencePieceProcessor(model_proto=bytes(model)).encode
    except (RuntimeError, ValueError):
        raise FormatError(path, "its subwords are no model of sentencepiece; was it written whole?") from None

    @lru_cache(1 << 16)
    def pieces(word):
        try:
            found = [piece.encode() for piece in encode(word.decode(), out_type=str)] if len(word) <= LONGEST else []
        except UnicodeDecodeError:
            found = []
        whole = b"".join(found) == MARK + word and not any(map(begins, found[1:]))
        return found if whole else [MARK + word]

    return lambda words: [piece for word in words for piece in pieces(word)]


def begins(piece):
    """Whether a word begins with a piece; [UNK] is one."""
    return piece.startswith(MARK) or piece == UNKNOWN


def joined(pieces):
    """The text whose pieces these are."""
    return b"".join(b" " + p.removeprefix(MARK) if begins(p) else p for p in pieces).removeprefix(b" ")


def word_numbers(pieces):
    """The word to which each piece belongs, from 0."""
    out, number = [], -1
    for piece in pieces:
        number += begins(piece) or number < 0
        out.append(number)
    return out
