"""What `lmtk info` says about the file of a tokenizer: the kind, the number of pieces, and the SHA-256, which models
made with the tokenizer contain. The packages sentencepiece and tokenizers are not needed.
"""

import re

from lmtk.errors import FormatError

# SentencePiece's ModelProto begins with its first piece: a field of bytes, in it the name, then 0x15 and a score
SENTENCEPIECE = re.compile(rb"\n[\x03-\x7f]\n[\x01-\x20][^\n]{1,32}?\x15")
JSON = re.compile(rb'\s*\{\s*"version"\s*:\s*"[^"]*",\s*"truncation"')
PIECE = 1  # field of ModelProto in sentencepiece_model.proto


def find_description(head):
    """The function (content, path) -> [(name, value)] for a file that begins with `head`; None for other files."""
    return describe_sentencepiece if SENTENCEPIECE.match(head) else describe_json if JSON.match(head) else None


def describe_sentencepiece(content, path):
    """[(name, value)] of a SentencePiece model. Raises FormatError."""
    from lmtk.text.tokenizer import fields_in

    try:
        pieces = sum(number == PIECE for number, _ in fields_in(content))
    except IndexError:
        raise FormatError(path, "damaged: the SentencePiece model is incomplete") from None
    return [("kind", "SentencePiece model"), *sizes(content, pieces)]


def describe_json(content, path):
    """[(name, value)] of a tokenizer.json. Raises FormatError."""
    import json

    try:
        model = json.loads(content)["model"]
        kind, pieces = model.get("type", "unknown"), len(model["vocab"])
    except (ValueError, KeyError, AttributeError, TypeError):
        raise FormatError(path, "damaged: the tokenizer.json is incomplete, or it has no vocabulary") from None
    return [("kind", "tokenizer.json"), ("type", kind), *sizes(content, pieces)]


def sizes(content, pieces):
    """[(name, value)] of the number of pieces and of the digest of the file."""
    from hashlib import sha256

    return [("pieces", pieces), ("SHA-256", sha256(content).hexdigest())]
