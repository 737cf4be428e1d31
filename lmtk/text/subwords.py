"""Splits words into pieces by byte pair encoding (sentencepiece). The first piece of each word begins with MARK.

Sennrich, Haddow, Birch (2016), "Neural machine translation of rare words with subword units", section 3.2.
"""

import io
import re
from functools import lru_cache

from lmtk.errors import FormatError, LmtkError, UsageError
from lmtk.text.bitext import UNKNOWN

MARK = "\u2581".encode()
LONGEST = 200  # bytes of a word that is split; translation time grows with the square of the pieces of a line


def import_sentencepiece():
    try:
        import sentencepiece
    except ImportError:
        raise UsageError("subwords need the package sentencepiece; pip install sentencepiece") from None
    return sentencepiece


def remedy(error):
    """What to do about an error of sentencepiece's trainer: its text may state the limit for the number."""
    for side, pattern in ("most", r"value <= (\d+)"), ("least", r"required_chars\. \d+ vs (\d+)"):
        if bound := re.search(pattern, str(error)):
            return f"give a number of at {side} {bound[1]}"
    return f"sentencepiece says: {error}"


def learn_pieces(rows, size):
    """Learn a sentencepiece model, as bytes, with `size` pieces from lists of words.

    Raises LmtkError if the words do not have that many pieces.
    """
    lines, out = (b" ".join(row).decode("utf-8", "replace") for row in rows), io.BytesIO()
    options = {"model_type": "bpe", "vocab_size": size, "num_threads": 1, "minloglevel": 9}
    # no normalization, and all characters are kept; sentence marks are lmtk's own
    options |= {"normalization_rule_name": "identity", "character_coverage": 1.0, "bos_id": -1, "eos_id": -1}
    try:
        import_sentencepiece().SentencePieceTrainer.train(sentence_iterator=lines, model_writer=out, **options)
    except (RuntimeError, OSError) as e:
        raise LmtkError(f"-bpe {size}: these texts cannot be split into {size} subwords; {remedy(e)}") from None
    return out.getvalue()


def make_splitter(model, path):
    """A function that splits a list of words into pieces; with an empty model, the pieces are the words themselves.

    A word that sentencepiece would not give back unchanged, since it is not UTF-8 or contains MARK, is one piece; so is
    a word of more than LONGEST bytes. Raises FormatError.
    """
    if not model:
        return lambda words: words
    try:
        encode = import_sentencepiece().SentencePieceProcessor(model_proto=bytes(model)).encode
    except (RuntimeError, ValueError):
        raise FormatError(path, "damaged: its subwords are not a sentencepiece model") from None

    @lru_cache(1 << 16)
    def pieces(word):
        try:
            subwords = [piece.encode() for piece in encode(word.decode(), out_type=str)] if len(word) <= LONGEST else []
        except UnicodeDecodeError:
            subwords = []
        whole = b"".join(subwords) == MARK + word and not any(map(begins, subwords[1:]))
        return subwords if whole else [MARK + word]

    return lambda words: [piece for word in words for piece in pieces(word)]


def begins(piece):
    """Whether a piece begins a word. So does [UNK], which stands for a whole word."""
    return piece.startswith(MARK) or piece == UNKNOWN


def join_pieces(pieces):
    """Join pieces into a text. A MARK that is a whole word is left out."""
    text = b"".join(b" " + p.removeprefix(MARK) if begins(p) else p for p in pieces)
    return b" ".join(filter(None, text.split(b" ")))


def word_numbers(pieces):
    """For each piece, the number of its word, from 0; a list."""
    out, number = [], -1
    for piece in pieces:
        number += begins(piece) or number < 0
        out.append(number)
    return out


def whole_words(pieces):
    """For each piece of a text, the word that it is a part of, without MARK."""
    words, numbers = {}, word_numbers(pieces)
    for number, piece in zip(numbers, pieces):
        words[number] = words.get(number, b"") + piece
    return [words[number].removeprefix(MARK) for number in numbers]


def joined_numbers(pieces):
    """For each piece, the number of its word in the text that `join_pieces` returns; None if the word is left out."""
    numbers = word_numbers(pieces)
    joined = dict.fromkeys(number for number, word in zip(numbers, whole_words(pieces)) if word)
    places = {number: place for place, number in enumerate(joined)}
    return [places.get(number) for number in numbers]
