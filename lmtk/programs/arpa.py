"""Reads ARPA files as lines, and filters their n-grams.

`arpa_lines` yields a file's lines for programs that change them. `arpa_pieces` yields blocks of n-grams as well, which
`filter_arpa` judges by kernels. Both check the file while they read it.
"""

import contextlib
import math
import re

from lmtk.errors import FormatError
from lmtk.files.decoding import WORD, decode_blocks
from lmtk.files.inputs import open_in
from lmtk.files.outputs import open_out

SECTION = re.compile(rb"\\(\d+)-grams:$")
SIZE = re.compile(rb"ngram +(\d+) *= *(\d+)")
BLOCK = 1 << 18  # bytes read at once
SPOOLED = 1 << 24  # bytes of a filtered model that stay in memory


class Sections:
    """The sections of an ARPA file, as far as its lines have been read.

    order: of the current section; 0 outside of sections. stated: {order: the number of n-grams that \\data\\ states}.
    sizes: {order: the number of n-grams}, which the reader counts. begun: whether the 1-grams have begun. ended:
    whether \\end\\ has been read.
    """

    def __init__(self, path, stated=None):
        self.path, self.order, self.sizes, self.stated = path, 0, {}, {} if stated is None else stated
        self.begun = self.ended = False

    def add(self, line):
        """Takes a line that is not an n-gram."""
        self.order, _ = order_of(line, self.order)
        if self.order:
            self.sizes.setdefault(self.order, 0)
        elif size := SIZE.match(line):
            self.stated[int(size[1])] = int(size[2])
        self.begun = self.begun or line.startswith(b"\\1-grams:")
        self.ended = self.begun and line.strip() == b"\\end\\"

    def finish(self, longest=math.inf):
        """Warns of orders up to `longest` that do not have the stated number of n-grams. Raises FormatError if the
        file is incomplete.
        """
        if not self.ended:
            problem = "the line \\end\\ is missing, so the file is incomplete"
            problem = problem if self.begun else "not an ARPA file: it has no line \\1-grams:"
            raise FormatError(self.path, problem)
        stated, sizes = ({k: size for k, size in x.items() if k <= longest} for x in (self.stated, self.sizes))
        if stated != sizes:
            from lmtk.ngram.arpa import reader

            reader.tell_sizes(self.path, stated, sizes)


def order_of(line, order):
    """(the order of the section at a line of an ARPA file, 0 outside of sections; whether the line is an n-gram).
    order: of the section before the line.
    """
    if line.startswith(b"\\"):
        match = SECTION.match(line.strip())
        return int(match[1]) if match else 0, False
    return order, bool(order and line.strip())


def arpa_pieces(path, stated=None):
    """Yields (order, line) for the lines of an ARPA file up to \\end\\; order 0 for lines that are not n-grams. In
    place of many lines of n-grams it yields (order, reader.Rows).

    stated: a dictionary that gets the numbers of n-grams in \\data\\. Raises FormatError for a wrong line and for an
    incomplete file.
    """
    from lmtk.ngram.arpa import reader

    sections = Sections(path, stated)
    with open_in(path) as stream:
        for number, piece in reader.numbered(stream, path, reader.Unigrams(path)):
            if isinstance(piece, reader.Rows):
                sections.sizes[sections.order] += len(piece.rows)
                yield sections.order, piece
            elif order_of(piece, sections.order)[1]:
                if isinstance(problem := reader.parse(piece, sections.order), str):
                    raise FormatError(path, problem, number)
                sections.sizes[sections.order] += 1
                yield sections.order, piece
            else:
                sections.add(piece)
                yield 0, piece
                if sections.ended:
                    break
    sections.finish()


def arpa_lines(path, longest=math.inf):
    """Yields (order, line, fields) for the lines of an ARPA file up to \\end\\; order 0 and no fields for lines that
    are not n-grams.

    Sections of an order above `longest` are left out and not checked. Raises FormatError as `arpa_pieces` does.
    """
    sections, number = Sections(path), 0
    with open_in(path) as stream:
        for block in decode_blocks(stream, path, BLOCK):
            if sections.order > longest and b"\n\\" not in block and block[:1] != b"\\":
                number += block.count(b"\n")
                continue
            for line in block.removesuffix(b"\n").split(b"\n"):
                number += 1
                line = line.rstrip(b"\r")
                if sections.order and line[:1] != b"\\":
                    if sections.order > longest:
                        continue
                    if fields := WORD.findall(line):
                        check(fields, line, sections.order, path, number)
                        sections.sizes[sections.order] += 1
                        yield sections.order, line, fields
                        continue
                sections.add(line)
                if sections.order <= longest:
                    yield 0, line, ()
                if sections.ended:
                    sections.finish(longest)
                    return
    sections.finish()


def check(fields, line, order, path, number):
    """Raises FormatError if the fields of a line are not an n-gram of this order."""
    more = len(fields) - order
    try:
        if (more == 1 or (more == 2 and float(fields[-1]) <= 1e30)) and float(fields[0]) <= 1e30:
            return
    except ValueError:
        pass
    from lmtk.ngram.arpa import reader

    if isinstance(problem := reader.parse(line, order), str):
        raise FormatError(path, problem, number)


def filter_arpa(path, outs, where, context=False, pad=False):
    """Writes the n-grams of an ARPA file that stay to the files `outs`. Their lines do not change.

    where: a criterion, as in `ngram.arpa.filtering`; if there are several files, each gets the n-grams of one sentence.
    context: judge an n-gram without its last word. pad: add blank lines to a shorter head, as KenLM's filter does.
    """
    import tempfile  # this import takes as long as a small file

    from lmtk.ngram.arpa import filtering, reader
    from lmtk.text.vocab import vocab_of_unigrams

    stated, sizes, words, criterion = {}, {}, [], None
    with contextlib.ExitStack() as files:
        bodies = [files.enter_context(tempfile.SpooledTemporaryFile(SPOOLED)) for _ in outs]
        for k, piece in arpa_pieces(path, stated):
            if not k:
                if piece.startswith(b"\\") and (match := SECTION.match(piece.strip())):
                    for body in bodies:
                        body.write(b"\n" * bool(sizes) + piece + b"\n")
                    sizes[int(match[1])] = [0] * len(outs)
                continue
            if isinstance(piece, reader.Rows):
                text = piece.text
                if k > 1 and piece.unknown is None:
                    criterion = criterion or filtering.sentences_of(vocab_of_unigrams(words).words, where)
                    text, number = filtering.lines_of(text, piece.rows, k - context, criterion)
                    if len(outs) == 1:
                        bodies[0].write(text)
                        sizes[k][0] += number
                        continue
                piece = text.tobytes()
            for line in piece.split(b"\n"):
                if not (ngram := WORD.findall(line)[1 : k + 1]):
                    continue
                words += ngram if k == 1 else []
                for i in filtering.files_of(ngram[: k - context], where, len(outs)):
                    bodies[i].write(line.rstrip(b"\r") + b"\n")
                    sizes[k][i] += 1
        for i, (out, body) in enumerate(zip(outs, bodies)):
            head = make_head({k: numbers[i] for k, numbers in sizes.items()})
            write_filtered(out, head + b"\n" * (pad * (len(make_head(stated)) - len(head))), body)


def make_head(sizes):
    """The head of an ARPA file. sizes: {order: the number of n-grams}."""
    return b"\n\\data\\\n" + b"".join(b"ngram %d=%d\n" % item for item in sorted(sizes.items())) + b"\n"


def write_filtered(path, head, body):
    """Writes an ARPA file of a head and the sections in `body`, a file that has been written to."""
    from shutil import copyfileobj  # its import takes as long as a small file

    body.write(b"\n\\end\\\n")
    body.seek(0)
    with open_out(path) as out:
        out.write(head)
        copyfileobj(body, out)
