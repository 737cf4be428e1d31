"""Files as streams: "-", compression (read by content, written by suffix), output that appears whole or not at all."""

import codecs
import io
import os
import re
import stat
import sys
import time
import warnings
import zlib
from contextlib import contextmanager, suppress
from functools import cache

from lmtk.errors import FormatError, LmtkWarning, UsageError, counted, name_of

BLOCK = 4 << 20  # bytes of a text that are read together
LONGEST_LINE = 16 << 20  # bytes, where lines are read whole
LONGEST_WORD = 1 << 20  # bytes
BLANK = re.compile(rb"[ \t\r\n]")
BOM = b"\xef\xbb\xbf"
watch = None  # a function that is called with the number of bytes of each read, or None
read = set()  # stdin and unnamed pipes that have been opened: nothing is left in them
UTF16 = (b"\xff\xfe", b"\xfe\xff")  # its byte order marks
MODEL = b'{"__metadata__":'  # from the ninth byte on, in a file of arrays
KENLM = b"mmap lm http://kheafield.com/code "
FORMS = {"latin1": "Latin-1", "utf-16le": "UTF-16"}
ARPA = re.compile(rb"\s*\\data\\[ \t\r]*\n[ \t]*ngram[ \t]")
NO_UTF8 = re.compile("[\udc80-\udcff].*")  # the rest of a line, in a text decoded with surrogateescape
MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
WORD = re.compile(rb"[^ \t\r\n]+")  # as in SRILM and KenLM, no other character separates words
STDOUT = "-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"  # it may be a file to which others write too
OPEN = re.compile(r"/dev/stderr|/(?:dev|proc/self)/fd/(\d{1,9})")  # names of other open files
EARLY = 16 << 20  # bytes of a file after which the disk gets them
SYNC_FILE_RANGE_WRITE = 2  # of fcntl.h
SUFFIX = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd"}


def zstd_module():
    try:
        from compression import zstd  # Python 3.14
    except ImportError:
        try:
            from backports import zstd
        except ImportError:
            raise UsageError("zstd files need the package backports.zstd; pip install backports.zstd") from None
    return zstd


def decompressed(raw, kind):
    """The decompressed stream of `raw`, which starts with the magic number of `kind`."""
    import bz2
    import gzip
    import lzma

    readers = {"gzip": lambda raw: gzip.GzipFile(fileobj=raw), "bz2": bz2.BZ2File, "xz": lzma.LZMAFile}
    reader = readers[kind](raw) if kind in readers else zstd_module().ZstdFile(raw)
    return io.BufferedReader(reader, 1 << 20)


class Output(io.FileIO):
    """A file to write, parts of which may be mapped (`container.mapped`). early: bytes go to the disk while the file is
    written. Otherwise a rename over another file would wait until the whole file has its room on the disk, half a
    second a GB.
    """

    def __init__(self, *how, early=False):
        super().__init__(*how)
        self.mappings = []  # as container.mapped makes them
        self.early, self.waiting = early, 0

    def write(self, data):
        size = super().write(data)
        self.waiting += size * self.early
        if self.waiting >= EARLY:
            self.waiting = 0
            begin_writing(self.fileno())
        return size


def begin_writing(number):
    """Asks the system, if possible, to begin to write an open file's pages to the disk. Does not wait."""
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).sync_file_range(number, ctypes.c_int64(0), ctypes.c_int64(0), SYNC_FILE_RANGE_WRITE)


class Watched(io.FileIO):
    """A file that calls `watch` with the size of each read."""

    def readinto(self, buffer):
        size = super().readinto(buffer)
        if watch:
            watch(size)
        return size


def opened(path):
    if watch is None:
        return open(path, "rb", buffering=1 << 20)
    return io.BufferedReader(Watched(path), 1 << 20)


def once(raw, path):
    """Raises UsageError if stdin, or an unnamed pipe, has been opened before: nothing is left in it, and it would be
    taken for an empty text.
    """
    found = os.fstat(raw.fileno())
    nameless = stat.S_ISFIFO(found.st_mode) and path.startswith(("/dev/", "/proc/"))
    if nameless or (path == "-" and not raw.isatty()):
        if (place := (found.st_dev, found.st_ino)) in read:
            raise UsageError(f"{name_of(path)} can be read once, and here it is read a second time; give a file")
        read.add(place)


@contextmanager
def open_in(path):
    """Opens `path` ("-": stdin) for reading bytes, forward only, and decompresses it if need be.

    Raises OSError (missing, a directory, not readable), FormatError (a compressed file cut short or damaged),
    UsageError (stdin, or a process substitution, a second time).
    """
    import lzma

    raw = sys.stdin.buffer if path == "-" else opened(path)
    try:
        once(raw, path)
        head = raw.peek(6)
        kind = next((k for magic, k in MAGIC.items() if head.startswith(magic)), None)
        yield decompressed(raw, kind) if kind else raw
    except (EOFError, zlib.error, lzma.LZMAError) as e:
        raise FormatError(path, f"the compressed data is cut short or damaged ({e})") from None
    except OSError as e:
        # gzip and bz2 report damage as an OSError without a number
        if e.errno is None:
            raise FormatError(path, f"the compressed data is cut short or damaged ({e})") from None
        if e.filename is None:
            e.filename = name_of(path)
        raise
    finally:
        if raw is not sys.stdin.buffer:
            raw.close()


def blocks(path, size=BLOCK, eager=False, pieces=False, as_is=False):
    """Yields the text of `path` as `blocks_of` does, with one warning for lines that are not UTF-8 and one for carriage
    returns inside lines. Raises as `blocks_of` and `open_in`.
    """
    with open_in(path) as stream:
        yield from with_warnings(blocks_of(stream, path, size, eager, pieces, as_is), path)


def with_warnings(blocks, path):
    """Yields the blocks of a text; at the end, warns of lines that are not UTF-8 and carriage returns inside lines."""
    odd = returns = 0
    name, form = name_of(path), "latin1"
    for block in but_no_model(blocks, path):
        if not block.isascii() and (here := odd_lines(block)):
            odd += here
            form = "utf-16le" if 4 * block.count(b"\0") > len(block) else form
        if b"\r" in block:
            returns += block.count(b"\r") - block.count(b"\r\n")
        yield block
    if odd:
        line = f"{name}: {counted(odd, 'line is', 'lines are')} no UTF-8"
        warnings.warn(f"{line}; for {FORMS[form]}: iconv -f {form} -t utf-8", LmtkWarning, stacklevel=2)
    if returns:
        line = f"{name}: {counted(returns, 'carriage return')} inside lines, taken as blanks; tr '\\r' '\\n'"
        warnings.warn(f"{line} makes them ends of lines", LmtkWarning, stacklevel=2)


def but_no_model(blocks, path):
    """Yields the blocks of a text; warns if it is an ARPA file."""
    for i, block in enumerate(blocks):
        if i == 0 and ARPA.match(block):
            told = f"{name_of(path)}: a model by its first lines, taken as a text"
            warnings.warn(told, LmtkWarning, stacklevel=2)
        yield block


def odd_lines(block):
    """How many lines of a block are not UTF-8."""
    with suppress(UnicodeDecodeError):
        block.decode()
        return 0
    return len(NO_UTF8.findall(block.decode("utf-8", "surrogateescape")))


def blocks_of(stream, path, size=BLOCK, eager=False, pieces=False, as_is=False):
    """Yields a text in blocks of whole lines, of about `size` bytes.

    pieces: a line longer than BLOCK, and than `size`, is cut between words into several blocks, so that memory does not
    grow with the length of a line. Otherwise a line longer than LONGEST_LINE is an error. as_is: a last line without a
    newline stays without it.

    eager: lines in a pipe are yielded at once, so that a filter answers line by line. A byte order mark is skipped,
    UTF-16 with its mark becomes UTF-8, and NUL bytes stay; the first and the last of these give a warning. path: for
    messages. Raises FormatError for a binary model, for a line that is too long, and for a word longer than
    LONGEST_WORD.
    """
    read, offset, fills = stream.read1 if eager else stream.read, 0, not eager
    block = read(size)
    while block and len(block) < len(BOM) and (more := read(size)):
        block += more
    if block[8:].startswith(MODEL) or block.startswith(KENLM):
        raise FormatError(path, "a binary file, as of models; a text was wanted")
    if block.startswith(b"SRILM_BINARY"):
        raise FormatError(path, "SRILM's binary form, which lmtk does not read; its -write and -write-lm give text")
    if block.startswith(UTF16):
        texts, fills = utf8(block, stream, size, path), False
        read = lambda _: next(texts, b"")
        block = read(size)
    elif block.startswith(BOM):
        warnings.warn(f"{name_of(path)}: byte order mark skipped", LmtkWarning, stacklevel=2)
        # a full block again, since a shorter one would count as the last
        block, offset = block[len(BOM) :] + read(len(BOM)), len(BOM)
    limit, parts, last, has_nul = max(size, BLOCK) if pieces else LONGEST_LINE, [], b"", False
    number, counts_lines = 1, not os.path.isfile(path)  # a file is read again if an error needs the line's number

    def checked(text, whole):
        """The text, of which `whole` tells if it ends with a line. Raises FormatError."""
        begin = long_word(text)
        if begin < 0 and (whole or pieces):
            return text
        place = (number if counts_lines else line_number(path, offset)) + text.count(b"\n", 0, max(begin, 0))
        if begin < 0:
            raise FormatError(path, f"the line is longer than {LONGEST_LINE >> 20} MB; break it into sentences", place)
        what = f"a word longer than {LONGEST_WORD >> 20} MB, from byte {offset + begin} on; is this a text?"
        raise FormatError(path, what, place)

    while block:
        if not has_nul and b"\0" in block:
            has_nul = True
            warnings.warn(
                f"{name_of(path)}: NUL bytes in the text, taken as part of their words", LmtkWarning, stacklevel=2
            )
        end = len(block) if fills and len(block) < size else block.rfind(b"\n") + 1
        if not end and sum(map(len, parts)) + len(block) < limit:
            parts.append(block)
        else:
            text, rest = memoryview(block)[: end or len(block)], block[end:] if end else b""
            text = checked(b"".join((*parts, text)) if parts or rest else block, end > 0)
            if not end:
                end = last_blank(text) + 1
                text, rest = text[:end], text[end:]
            elif not (as_is or text.endswith(b"\n")):
                text += b"\n"
            if text:
                last = text[-1:]
                yield text
            parts, offset = [rest] if rest else [], offset + len(text)
            number += text.count(b"\n") if counts_lines else 0
        block = read(size)
    last = parts[-1] if parts else last
    newline = b"" if as_is or not last or last.endswith(b"\n") else b"\n"
    if parts or newline:
        yield checked(b"".join(parts), True) + newline


def long_word(text):
    """The place of the first word of a text that is longer than LONGEST_WORD, or -1.

    Such a word covers one of the steps of LONGEST_WORD / 2 bytes, so only the words at the steps' ends are measured.
    """
    step = LONGEST_WORD // 2
    for at in range(step, len(text), step):
        if not BLANK.search(text, at - step, at):
            begin, end = last_blank(text, at) + 1, BLANK.search(text, at)
            if (end.start() if end else len(text)) - begin > LONGEST_WORD:
                return begin
    return -1


def last_blank(text, end=None):
    """The place of the last blank or newline before text[end], or -1."""
    return max(text.rfind(blank, 0, end) for blank in (b" ", b"\t", b"\r", b"\n"))


def line_number(path, offset):
    """The number of the line of a file at a place, in bytes, of its decompressed text."""
    with open_in(path) as stream:
        number = 1
        while offset > 0 and (block := stream.read(min(offset, BLOCK))):
            number, offset = number + block.count(b"\n"), offset - len(block)
        return number


def utf8(block, stream, size, path):
    """Yields UTF-16 text with its mark as UTF-8, in blocks. block: what has been read of the stream. Raises
    FormatError.
    """
    decoder, at = codecs.getincrementaldecoder("utf-16")(), 0
    while True:
        pending = len(decoder.getstate()[0])
        try:
            text = decoder.decode(block, not block)
        except UnicodeDecodeError as e:
            place = at - pending + e.start
            raise FormatError(path, f"a byte order mark of UTF-16, but at byte {place} no UTF-16: {e.reason}") from None
        at += len(block)
        if text:
            yield text.encode()
        if not block:
            return
        block = stream.read(size)


def lines(path, words=False):
    """Yields (number, line without its end) of a text file. words: the file may hold any words, so that there is a
    warning if it is an ARPA file.
    """
    with open_in(path) as stream:
        blocks = blocks_of(stream, path)
        yield from rows_of(but_no_model(blocks, path) if words else blocks)


def lines_of(stream, path):
    """`lines` of an open stream; `path` is for messages."""
    return rows_of(blocks_of(stream, path))


def rows_of(blocks):
    """`lines` of a text in blocks of whole lines, as `blocks_of` yields them."""
    number = 0
    for block in blocks:
        rows = block.split(b"\n")
        if rows[-1] == b"":
            rows.pop()
        for row in rows:
            number += 1
            yield number, row.rstrip(b"\r")


def passages(rows, escape):
    """Yields (the text between two lines that begin with `escape`, the second of these lines, or b"" at the end). rows:
    as from `lines`.
    """
    text = []
    for _, row in rows:
        if row.startswith(escape):
            yield b"".join(text), row + b"\n"
            text = []
        else:
            text.append(row + b"\n")
    yield b"".join(text), b""


def compressor(raw, kind):
    import bz2
    import gzip
    import lzma

    if kind == "gzip":
        # level 1 is 10 times faster than 9 for a tenth more bytes; no name and no time stamp: same input, same bytes
        return gzip.GzipFile("", "wb", 1, raw, mtime=0)
    if kind == "bz2":
        return bz2.BZ2File(raw, "wb")
    if kind == "xz":
        return lzma.LZMAFile(raw, "wb", preset=1)
    return zstd_module().ZstdFile(raw, "wb")


def digest(path):
    """The SHA-256, in hexadecimal, of a file's decompressed content; None for a pipe, which can be read only once."""
    import hashlib

    if path is None or not os.path.isfile(path):
        return None
    with open_in(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def descriptor(path):
    """The number of the open file that a name such as /dev/stderr or /dev/fd/3 stands for, or None. It may be a regular
    file to which others write too, which a rename must not replace.
    """
    found = OPEN.fullmatch(os.fspath(path))
    return found and int(found[1] or 2)


def written_in_place(path):
    """Whether `path` is stdout, another open file, a device or a FIFO, which a rename must not replace."""
    try:
        return path in STDOUT or descriptor(path) is not None or not stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return False


def temporary_name(path):
    """The name under which `path` is written until it is whole: beside it, or beside the file that it links to."""
    return f"{os.path.realpath(path)}{temporary_suffix()}{os.getpid()}"


def temporary_suffix():
    """The part of a temporary name between the file's name and the process's number. It names the host: on a shared
    disk, this host does not know the processes of others.
    """
    return f".tmp.{os.uname().nodename[:32]}."


@cache
def temporaries(folder):
    """The names in a folder that can be temporary files of this host, at the time of the first call."""
    with suppress(OSError):
        return [name for name in os.listdir(folder) if temporary_suffix() in name]
    return []


def clear_away(temporary):
    """Removes the unlocked temporary files and folders of the same output, which killed processes have left."""
    folder, name = os.path.split(temporary.removesuffix(str(os.getpid())))
    for other in temporaries(folder):
        if other.startswith(name) and other[len(name) :].isdigit():
            other = os.path.join(folder, other)
            with suppress(OSError):
                number = os.open(other, os.O_RDONLY)
                try:
                    lock(number)
                    remove_folder(other) if os.path.isdir(other) else os.unlink(other)
                finally:
                    os.close(number)


def remove_folder(path):
    import shutil  # its import takes as long as reading a small file

    shutil.rmtree(path, ignore_errors=True)


def lock(number):
    """Locks an open file or folder until this process ends. Raises OSError if another process has the lock."""
    import fcntl

    fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)


def created(temporary, early=False):
    """A new Output in a buffer, locked so that no other process clears it away."""
    clear_away(temporary)
    while True:
        raw = io.BufferedWriter(Output(temporary, "wb+", early=early))
        try:
            lock(raw.fileno())
        except BlockingIOError:
            time.sleep(0.01)  # another process is about to clear it away
        except OSError:
            return raw  # on a file system without locks, nothing is cleared away
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(raw.fileno()), os.stat(temporary)):
                return raw
        raw.close()


def in_its_place(path):
    """A stream that writes to a file, a device or a FIFO under its own name, or to an open file."""
    number = descriptor(path)
    return open(path if number is None else os.dup(number), "wb")


def check_out(path):
    """Raises OSError now if `open_out(path)` would later, so that no long work is done in vain."""
    if path in STDOUT:
        return
    try:
        if (number := descriptor(path)) is not None:
            os.fstat(number)
        elif not written_in_place(path):
            with created(temporary := temporary_name(path)):
                os.unlink(temporary)  # while locked, since another process may check the same output
    except OSError as e:
        e.filename = path
        raise


@contextmanager
def open_out(path, lasting=False):
    """Opens `path` for writing bytes ("-": stdout). A regular file appears, whole, when the block ends without an
    error. lasting: the file is on the disk before it appears, and so is whole even if the power fails.

    A device, a FIFO or a file that is already open (`descriptor`) is written in place. The suffix chooses the
    compression. Raises OSError with the name `path`.
    """
    kind = SUFFIX.get(os.path.splitext(path)[1])
    if path in STDOUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    in_place = written_in_place(path)
    temporary = path if in_place else temporary_name(path)
    try:
        with in_its_place(path) if in_place else created(temporary, os.path.exists(path)) as raw:
            if kind:
                with io.BufferedWriter(compressor(raw, kind), 1 << 16) as out:
                    yield out
            else:
                yield raw
            raw.flush()
            if lasting and not in_place:
                os.fsync(raw.fileno())
        if not in_place:
            with suppress(FileNotFoundError):
                os.chmod(temporary, stat.S_IMODE(os.stat(path).st_mode))
            os.replace(temporary, os.path.realpath(path))
    except BaseException as e:
        if not in_place:
            with suppress(OSError):
                os.unlink(temporary)
        if isinstance(e, OSError) and (e.filename is None or e.filename == temporary):
            e.filename = path
        raise


@contextmanager
def open_folder(path):
    """Yields a hidden folder. If the block ends without an error, all its files move to the folder `path`, which is
    made if need be; otherwise none does.
    """
    made = not os.path.isdir(path)
    os.makedirs(path, exist_ok=True)
    hidden = temporary_name(os.path.join(path, "new"))
    clear_away(hidden)
    number = None
    try:
        os.mkdir(hidden)
        number = os.open(hidden, os.O_RDONLY)
        with suppress(OSError):
            lock(number)
        yield hidden
        for name in sorted(os.listdir(hidden)):
            os.replace(os.path.join(hidden, name), os.path.join(path, name))
    except BaseException as e:
        if isinstance(e, OSError) and e.filename and str(e.filename).startswith(hidden):
            e.filename = path + str(e.filename)[len(hidden) :]
        raise
    finally:
        remove_folder(hidden)
        if number is not None:
            os.close(number)
        if made:
            with suppress(OSError):
                os.rmdir(path)  # where nothing has come into it
