"""Splits lines into pieces by a SentencePiece model or a tokenizer.json, and normalizes documents before.

A SentencePiece or a TokenizerJson splits strings. An Encoder normalizes them too. A PieceReader reads blocks of text:
bytes -> words -> pieces -> ids, or a text of pieces.

Most of a text's words occur many times. Where the pieces of a word do not depend on the words around it, the
PieceReader splits each distinct word once and looks it up in a table when it occurs again.
"""

from itertools import accumulate, islice, pairwise

import numpy as np

from lmtk.errors import FormatError, UsageError
from lmtk.files.inputs import open_in
from lmtk.text.corpus import NEWLINE, Growing, Reader, tokens
from lmtk.text.kernels import join_parts
from lmtk.text.subwords import import_sentencepiece

MARK = "\u2581"  # SentencePiece's sign for a blank
INSIDE = "\x1f"  # a control character that does not separate words
PIECES, PIECE, BEGIN, END = 2, 1, 4, 5  # numbers of fields in sentencepiece.proto
KEPT = 1 << 19  # words whose pieces are cached
NEMO_OFFSET = 100  # NeMo's name of a piece is the character with the piece's number and this offset
SURROGATES = 0xD800  # from here on, numbers are not characters that UTF-8 can encode
IN_WORDS = bytes.maketrans(b"\t\r", INSIDE.encode() * 2)
BLANKS = str.maketrans(" \t\r\n", MARK * 4)


class SentencePiece:
    """Splits by a SentencePiece model. by_words: whether the pieces of a line are the pieces of its words.

    nemo: pieces are written as NeMo writes them.
    """

    def __init__(self, data, path, nemo=False):
        try:
            if not data:  # the package takes no bytes for no model yet
                raise ValueError
            self.processor = import_sentencepiece().SentencePieceProcessor(model_proto=data)
        except (RuntimeError, ValueError):
            message = "neither a SentencePiece model nor a tokenizer.json"
            raise FormatError(path, f"{message}; give the file that the model was trained with") from None
        self.size = self.processor.get_piece_size()
        self.names = nemo_names(self.size, path) if nemo else None
        self.by_words = self.splits_by_words()
        self.has_ties = self.by_words and self.is_unigram()

    def splits_by_words(self):
        """Whether no piece reaches over a blank, and tabs, carriage returns and blanks at the ends leave no piece."""
        pieces = self.processor.id_to_piece(list(range(self.size)))
        if any(MARK in piece[1:] for piece in pieces) or MARK not in pieces:
            return False
        one, three = self.split(["a", " a\ta\ra "])
        return three == " ".join([one] * 3) and self.processor.encode("a", out_type=str)[0].startswith(MARK)

    def is_unigram(self):
        """Whether the pieces are those of the most probable split; BPE has no other splits to choose from."""
        try:
            return bool(self.processor.nbest_encode_as_pieces("a", 2))
        except RuntimeError:
            return False

    def split(self, lines):
        """The pieces of each of the lines, as a string with blanks between them."""
        return self.joined(lines, self.processor.encode(lines, out_type=str, num_threads=1))

    def joined(self, lines, pieces):
        if self.names is None:
            return list(map(" ".join, pieces))
        numbers = self.processor.encode(lines, out_type=int, num_threads=1)
        return [" ".join([self.names[i] for i in line]) for line in numbers]

    def places(self, line):
        """[(piece, its name in the model, begin, end)] of a line; the places are counted in characters of the line."""
        names, out = self.split([line])[0].split(" "), []
        text = line.encode()
        character = accumulate((byte & 0xC0 != 0x80 for byte in text), initial=-1)  # of each byte; the lowest is -1
        character = [*islice(character, 1, None), len(line)]
        for number, message in fields_in(self.processor.encode(line, out_type="serialized_proto")):
            if number == PIECES:
                piece = dict(fields_in(message))
                begin, end = piece.get(BEGIN, 0), piece.get(END, 0)
                out.append((piece[PIECE].decode(), names[len(out)], character[begin], character[end]))
        return out

    def split_words(self, words):
        """`split` of words; None for a word whose neighbours decide between two splits that are equally probable.

        Such splits have the same pieces in another order, as "aa a" and "a aa". Rounding then decides, and it depends
        on the sum of the words before.
        """
        pieces = self.processor.encode(words, out_type=str, num_threads=1)
        split = self.joined(words, pieces)
        if self.has_ties:
            for i, parts in enumerate(pieces):
                # in two orders of the same pieces, one piece begins like another at the place where they differ
                if len(parts) > 2 and begin_alike(parts):
                    splits = self.processor.nbest_encode_as_pieces(words[i], 2)
                    if len(splits) == 2 and sorted(splits[0]) == sorted(splits[1]):
                        split[i] = None
        return split


def fields_in(message):
    """Yield (number, value) of the fields of a message of Protocol Buffers: whole numbers, and bytes. The numbers of
    the fields are those of SentencePieceText in sentencepiece.proto. The serialized message is the only form of it that
    all versions of sentencepiece from 0.2 on return without the package protobuf.
    """
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at, value, shift = at + 1, value | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = number()
        kind = key & 7
        if kind == 0:
            yield key >> 3, number()
            continue
        size = number() if kind == 2 else 4 if kind == 5 else 8
        yield key >> 3, message[at : at + size]
        at += size


def begin_alike(pieces):
    """Whether a piece is the beginning of a longer one."""
    ranked = sorted(pieces)
    return any(longer != piece and longer.startswith(piece) for piece, longer in pairwise(ranked))


class TokenizerJson:
    """Splits by a tokenizer.json, the form of the package tokenizers. Blanks in the name of a piece become MARK."""

    by_words = False

    def __init__(self, data, path, nemo=False):
        try:
            import tokenizers
        except ImportError:
            raise UsageError("a tokenizer.json needs the package tokenizers; pip install tokenizers") from None
        try:
            self.tokenizer = tokenizers.Tokenizer.from_buffer(data)
        except Exception as e:  # the package raises nothing narrower
            raise FormatError(path, f"not a tokenizer.json ({str(e).splitlines()[0]})") from None
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.path = path
        size = 1 + max(self.tokenizer.get_vocab().values(), default=-1)  # some numbers may have no piece
        self.names = nemo_names(size, path) if nemo else None

    def encode(self, lines):
        """The package's Encoding of each of the lines. Raises FormatError, for instance without an <unk>."""
        try:
            return self.tokenizer.encode_batch(lines, add_special_tokens=False)
        except Exception as e:  # the package raises nothing narrower
            raise FormatError(self.path, f"the tokenizer cannot split this text ({str(e).splitlines()[0]})") from None

    def split(self, lines):
        encoded = self.encode(lines)
        if self.names:
            return [" ".join(map(self.names.__getitem__, line.ids)) for line in encoded]
        return [" ".join([piece.translate(BLANKS) for piece in line.tokens]) for line in encoded]

    def places(self, line):
        """[(piece, its name in the model, begin, end)] of a line; the places are counted in characters of the line."""
        (encoded,) = self.encode([line])
        pieces = [piece.translate(BLANKS) for piece in encoded.tokens]
        names = [self.names[i] for i in encoded.ids] if self.names else pieces
        return [(piece, name, *offsets) for piece, name, offsets in zip(pieces, names, encoded.offsets)]


def nemo_names(size, path):
    """NeMo's names of pieces: chr(number + 100). Raises FormatError if there are too many pieces for that."""
    if size + NEMO_OFFSET > SURROGATES:
        limit = SURROGATES - NEMO_OFFSET
        raise FormatError(path, f"it has {size} pieces, and -encode nemo has names for {limit}; leave out -encode")
    return list(map(chr, range(NEMO_OFFSET, size + NEMO_OFFSET)))


def load_tokenizer(path, encode=None):
    """A SentencePiece or a TokenizerJson. encode: None or "nemo". Raises FormatError, UsageError, OSError."""
    with open_in(path) as stream:
        data = stream.read()
    kind = TokenizerJson if data.lstrip()[:1] == b"{" else SentencePiece
    return kind(data, path, encode == "nemo")


class Encoder:
    """Normalizes text by `normalize`, a function on strings or None, and splits it by `tokenizer`, or None.

    by_words: whether the pieces of a line are the pieces of its words.
    """

    def __init__(self, normalize=None, tokenizer=None):
        self.normalize, self.tokenizer = normalize, tokenizer
        self.by_words = tokenizer is None or tokenizer.by_words

    def lines(self, lines):
        """The lines, a list of strings, with blanks between the pieces of each."""
        lines = list(map(self.normalize, lines)) if self.normalize else lines
        return self.tokenizer.split(lines) if self.tokenizer else lines

    def words(self, words):
        """The pieces of each of the words, a list of strings; None for a word where they depend on its neighbours."""
        words = list(map(self.normalize, words)) if self.normalize else words
        return self.tokenizer.split_words(words) if self.tokenizer else words


class PieceReader:
    """Converts the words of a text to units of their pieces: blocks of whole lines, bytes -> units.

    encoder: makes the pieces. units: a function from lines of pieces, bytes with blanks between the pieces, to their
    units. line_end: the unit that ends a line; its type is that of all units. If the encoder splits by words, each
    distinct word is split once, and its units are kept until there are KEPT words.

    Word j has the units pieces[starts[j] : starts[j] + lengths[j]]; is_tied[j]: they depend on its neighbours. The last
    entry stands for the end of a line.
    """

    def __init__(self, encoder, units, line_end):
        self.encoder, self.units, self.line_end = encoder, units, np.array([line_end])
        self.clear()

    def clear(self):
        self.reader = Reader(Growing(()), job="pieces")
        self.pieces, self.is_tied = self.line_end, np.zeros(1, bool)
        self.starts, self.lengths, self.n_letters = np.zeros(1, np.int64), np.ones(1, np.int64), 0

    def ids(self, block):
        """(n,) the units of a block."""
        if self.encoder.normalize:  # CCNet removes tabs and carriage returns, which separate no words then
            block = block.translate(IN_WORDS)
        if not self.encoder.by_words:
            return self.split_lines(block.decode("utf-8", "replace").split("\n")[:-1])
        if len(self.starts) > KEPT:
            self.clear()
        words = self.reader.ids(block)
        if new := self.new_words():
            self.add(new)
        units, is_tied = self.units_of_words(words), self.is_tied[words]
        if is_tied.any():
            line_of = np.searchsorted(np.flatnonzero(words == NEWLINE), np.flatnonzero(is_tied))
            return self.with_whole_lines(units, block, sorted(set(line_of.tolist())))
        return units

    def units_of_words(self, words):
        """The units of words (N,)."""
        lengths = self.lengths[words]
        if self.reader.table:
            units = np.empty(lengths.sum(), self.pieces.dtype)
            join_parts(self.pieces, self.starts, self.lengths, words, units)
            return units
        ends = np.cumsum(lengths)
        places = np.repeat(self.starts[words] - ends + lengths, lengths)
        places += np.arange(len(places))
        return self.pieces[places]

    def new_words(self):
        """The words that were read since the last call."""
        if self.reader.table:
            return self.reader.table.words(self.n_letters)
        return list(islice(self.reader.index, len(self.starts), None))

    def add(self, words):
        """Split new words, and keep their units."""
        n_words = len(self.starts) - 1
        self.n_letters += sum(map(len, words)) + len(words)  # with their line ends, as in the reader's table
        texts = self.encoder.words([word.decode("utf-8", "replace") for word in words])
        units = self.units_of_pieces([text or "" for text in texts])
        self.pieces = np.concatenate((self.pieces[:-1], units[units != self.line_end], self.line_end))
        self.lengths = np.concatenate((self.lengths[:n_words], np.diff(self.line_starts(units)) - 1, [1]))
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.is_tied = np.concatenate((self.is_tied[:n_words], [text is None for text in texts], [False]))

    def with_whole_lines(self, units, block, lines):
        """The units of a block in which some lines, in ascending order, are split as wholes."""
        rows = block.split(b"\n")
        whole = self.split_lines([rows[line].decode("utf-8", "replace") for line in lines])
        starts, begins, parts, done = self.line_starts(units), self.line_starts(whole), [], 0
        for line, begin, end in zip(lines, begins, begins[1:]):
            parts += [units[done : starts[line]], whole[begin:end]]
            done = starts[line + 1]
        return np.concatenate((*parts, units[done:]))

    def line_starts(self, units):
        """Where the lines of some units begin, and where the last line ends."""
        return np.append(0, np.flatnonzero(units == self.line_end) + 1)

    def split_lines(self, lines):
        """The units of lines, strings, each split as a whole."""
        return self.units_of_pieces(self.encoder.lines(lines))

    def units_of_pieces(self, lines):
        """The units of lines of pieces, strings."""
        return self.units("".join([line + "\n" for line in lines]).encode())


def piece_ids(encoder, index):
    """A PieceReader whose units are the ids of pieces. index: Closed or Growing; NEWLINE ends a line."""

    def ids(text):
        pieces = tokens(text)
        return np.fromiter(map(index.__getitem__, pieces), np.int32, len(pieces))

    return PieceReader(encoder, ids, np.int32(NEWLINE))


def piece_text(encoder):
    """A PieceReader whose units are the bytes of a text with a blank after each piece."""
    return PieceReader(encoder, lambda text: np.frombuffer(text.replace(b"\n", b" \n"), np.uint8), np.uint8(10))
