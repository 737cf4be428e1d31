"""Damaged, strange and hostile ARPA and count files: one line, or one warning a kind; the same whether the plain reader
or the kernels for large files read them.
"""

import io
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import random_model

from lmtk.errors import FormatError, LmtkError, LmtkWarning
from lmtk.files import decoding
from lmtk.fst.ngrams import read_ngrams
from lmtk.ngram.arpa import reader, rows, writer
from lmtk.ngram.counting import collection
from lmtk.ngram.counting.collection import Sources, collect
from lmtk.ngram.model import backoff
from lmtk.text.corpus import Marks, Table
from lmtk.text.kernels import read_lines
from lmtk.text.vocab import UNK

MODEL = b"""
\\data\\
ngram 1=5
ngram 2=4
ngram 3=2

\\1-grams:
-1.2\t</s>
-99\t<s>\t-0.5
-0.6\ta\t-0.25
-0.7\tb\t-0.125
-2\t<unk>

\\2-grams:
-0.1\t<s> a\t-0.3
-0.2\ta b\t-0.4
-0.3\tb </s>
-0.9\tb b

\\3-grams:
-0.05\t<s> a b
-0.06\ta b </s>

\\end\\
"""

# name: what is replaced, by what, and what is said: an error (a str with the line first) or warnings
CASES = {
    "whole": (b"", b"", []),
    "no mark": (b"\\data\\", b"data", "not a model; it looks like a text"),
    "text before": (b"\n\\data\\", b"hello\n\\1-grams:\n -1 a\n\\data\\", []),
    "a count too large": (b"ngram 2=4", b"ngram 2=5", ["data\\ says 5 2-grams; there are 4"]),
    "a huge count": (b"ngram 2=4", b"ngram 2=" + b"9" * 18, ["says 999999999999999999 2-grams"]),
    "a monstrous count": (b"ngram 2=4", b"ngram 2=" + b"9" * 5000, "4: expected 'ngram N=count'"),
    "a negative count": (b"ngram 2=4", b"ngram 2=-4", "4: expected 'ngram N=count'"),
    "no count": (b"ngram 2=4\n", b"", ["says nothing of 2-grams; there are 4"]),
    "counts of an order without section": (b"ngram 3=2", b"ngram 3=2\nngram 4=7", ["says 7 4-grams; there are 0"]),
    "no end": (b"\\end\\\n", b"", "the line \\end\\ is missing, so the file is incomplete"),
    "a line is cut": (b"</s>\n\n\\end\\\n", b"", "22: expected 3 words after the probability, got 2"),
    "an end within": (b"\\3-grams:", b"\\end\\\n\\3-grams:", ["says 2 3-grams; there are 0"]),
    "blanks before marks": (b"\\2-grams:", b" \t\\2-grams: \r", []),
    "blanks before the end": (b"\\end\\", b"  \\end\\ ", []),
    "an order gap": (b"\\2-grams:", b"\\3-grams:", "14: expected 2-grams, found 3-grams"),
    "sections swapped": (b"\\1-grams:", b"\\2-grams:", "7: expected 1-grams, found 2-grams"),
    "a section twice": (b"\\3-grams:", b"\\2-grams:", "20: expected 3-grams, found 2-grams"),
    "1-grams again": (b"\\3-grams:", b"\\1-grams:", "20: expected 3-grams, found 1-grams"),
    "an order beyond measure": (b"\\3-grams:", b"\\99999999999999999999-grams:", "20: expected 2 words"),
    "an order of 5000 digits": (b"\\3-grams:", b"\\" + b"9" * 5000 + b"-grams:", "20: expected 2 words"),
    "order 0": (b"\\1-grams:", b"\\0-grams:", "7: expected 1-grams, found 0-grams"),
    "no 1-grams": (
        MODEL[MODEL.index(b"-1.2") : MODEL.index(b"\\2-grams")],
        b"",
        "the model has no 1-grams",
    ),
    "positive": (b"-0.1\t<s> a", b"0.1\t<s> a", ["1 positive log probability, up to 0.1"]),
    "two positive": (b"-0.2\ta b\t-0.4\n-0.3", b"2e1 a b\n+.5", ["2 positive log probabilities, up to 20"]),
    "exponents": (b"-0.6\ta\t-0.25", b"-6e-1\ta\t-.25E+0", []),
    "odd numbers": (b"-0.6\ta\t-0.25", b"-00000000000000000000.6\ta\t-25.e-00002", []),
    "many digits": (b"-0.6\ta\t-0.25", b"-0.60000002384185791015625\ta\t-0.2499999999999999999999999", []),
    "a number below float32": (b"-0.6\ta\t-0.25", b"-1e39\ta\t-1e-60", []),
    "minus zero": (b"-0.6\ta\t-0.25", b"-0.0\ta\t-0", []),
    "-inf": (b"-99\t<s>", b"-inf\t<s>", []),
    "-Infinity": (b"-0.2\ta b\t-0.4", b"-Infinity\ta b\t-inf", []),
    "+inf": (b"-0.2\ta b", b"inf\ta b", "16: a probability or back-off weight is not a number"),
    "nan": (b"-0.2\ta b", b"nan\ta b", "16: a probability or back-off weight is not a number"),
    "a weight that is nan": (b"a b\t-0.4", b"a b\tnan", "16: a probability or back-off weight is not a number"),
    "hexadecimal": (b"-0.2\ta b", b"-0x1p3\ta b", "16: a probability or back-off weight is not a number"),
    "underscore": (b"-0.2\ta b", b"-1_0\ta b", "16: a probability or back-off weight is not a number"),
    "no digits": (b"-0.2\ta b", b"-.\ta b", "16: a probability or back-off weight is not a number"),
    "an exponent without digits": (b"-0.2\ta b", b"-1e\ta b", "16: a probability or back-off weight is not a number"),
    "two points": (b"-0.2\ta b", b"-1.2.3\ta b", "16: a probability or back-off weight is not a number"),
    "a comma": (b"-0.2\ta b", b"-0,2\ta b", "16: a probability or back-off weight is not a number"),
    "too large": (b"a b\t-0.4", b"a b\t1e31", "16: a probability or back-off weight is too large"),
    "far too large": (b"-0.2\ta b", b"1e999\ta b", "16: a probability or back-off weight is too large"),
    "large": (b"a b\t-0.4", b"a b\t1e30", []),
    "a word missing": (b"-0.2\ta b\t-0.4", b"-0.2\ta", "16: expected 2 words after the probability, got 1"),
    "words too many": (b"-0.2\ta b\t-0.4", b"-0.2\ta b b b", "16: expected 2 words after the probability, got 4"),
    "a longer n-gram": (b"-0.2\ta b\t-0.4", b"-0.2\ta b b", "16: a probability or back-off weight is not a number"),
    "a number alone": (b"-0.2\ta b\t-0.4", b"-0.2", "16: expected 2 words after the probability, got 0"),
    "blanks": (b"-0.2\ta b\t-0.4", b"  -0.2 \t a \t b   -0.4\t\r", []),
    "blank lines": (b"-0.2\ta b\t-0.4", b"\n \t\n\r\n-0.2\ta b\t-0.4\n\n", []),
    "CRLF": (b"\n", b"\r\n", []),
    "a weight on the top order": (b"-0.05\t<s> a b", b"-0.05\t<s> a b\t-0.7", []),
    "an unknown word": (
        b"-0.06\ta b </s>",
        b"-0.06\tb zebra </s>",
        "the word zebra of an n-gram is not among the 1-grams",
    ),
    "an unknown word by an odd number": (
        b"-0.2\ta b",
        b"-1e-99\tzebra b",
        "the word zebra of an n-gram is not among the 1-grams",
    ),
    "bytes that are no UTF-8": (
        b"-0.06\ta b </s>",
        b"-0.06\tb \xff\xfe </s>",
        "the word \\xff\\xfe of an n-gram is not among the 1-grams",
    ),
    "a byte of 0": (b"-0.06\ta b </s>", b"-0.06\tb \0 </s>", "the word \0 of an n-gram is not among the 1-grams"),
    "a missing prefix": (b"-0.1\t<s> a\t-0.3\n", b"", ["says 4 2-grams; there are 3"]),
    "all prefixes missing": (MODEL[MODEL.index(b"-0.1\t") : MODEL.index(b"\n\\3-")], b"", ["there are 0"]),
    "no <s>": (b"-99\t<s>\t-0.5\n", b"", ["says 5 1-grams; there are 4", "no <s>"]),
    "no </s>": (b"-1.2\t</s>\n", b"", ["says 5 1-grams; there are 4", "no </s>"]),
    "no <unk>": (b"-2\t<unk>\n", b"", ["says 5 1-grams; there are 4"]),
    "repeated": (b"-0.3\tb </s>", b"-0.3\ta b", ["1 repeated n-gram"]),
    "a repeated word": (b"-0.7\tb\t-0.125", b"-0.7\tb\t-0.125\n-0.8\tb", ["says 5", "1 repeated n-gram"]),
    "no blank line": (b"\n\\2-grams", b"\\2-grams", []),
    "two models": (b"\\end\\\n", b"\\end\\\n" + MODEL, []),
    "rubbish behind": (b"\\end\\\n", b"\\end\\\n\\7-grams:\n\xffnan nan", []),
    "no newline at the end": (b"\\end\\\n", b"\\end\\", []),
    "a byte order mark": (b"\n\\data", b"\xef\xbb\xbf\n\\data", ["byte order mark skipped"]),
}


def outcome(text, monkeypatch, large_from, large, size):
    """What reading gives: the binary file or the error, and the warnings."""
    large_from(large, "arpa")
    monkeypatch.setattr(reader, "BLOCK", size)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            out = io.BytesIO()
            backoff.write_binary(out, reader.read_text(io.BytesIO(text), "m"))
            result = out.getvalue()
        except FormatError as e:
            result = str(e)
    monkeypatch.undo()
    return result, [str(w.message) for w in caught if issubclass(w.category, LmtkWarning)]


def lengthened(text):
    """The model with many more n-grams before those that it has: line numbers below the first 2-gram do not change."""
    rng = np.random.default_rng(1)
    words = [f"w{i}" for i in range(50)]
    one = "".join(f"{-rng.random():.7g}\t{w}\t{-rng.random():.7g}\n" for w in words)
    two = "".join(f"{-rng.random():.7g}\t{v} {w}\n" for v in words for w in words[:20])
    text = text.replace(b"\n\\2-grams:", one.encode() + b"\n\\2-grams:", 1)
    return text.replace(b"\n\\3-grams:", two.encode() + b"\n\\3-grams:", 1)


@pytest.mark.parametrize("name", CASES)
def test_small_and_large_files_are_read_alike(monkeypatch, large_from, name):
    old, new, said = CASES[name]
    text = MODEL.replace(old, new) if old else MODEL
    assert not old or text != MODEL
    plain, messages = outcome(text, monkeypatch, large_from, 1 << 40, 1 << 22)
    if isinstance(said, str):
        place = "m:" if said[0].isdigit() else "m: "
        assert plain.startswith(place + said) and "\n" not in plain and len(plain) < 200
    else:
        assert isinstance(plain, bytes) and len(messages) == len(said)
        assert all(part in line for part, line in zip(said, messages))
    for size in (1 << 22, 7, 60, 150):
        assert outcome(text, monkeypatch, large_from, 0, size) == (plain, messages)
    text = lengthened(text)
    expected = outcome(text, monkeypatch, large_from, 1 << 40, 1 << 22)
    for size in (1 << 22, 500):
        assert outcome(text, monkeypatch, large_from, 0, size) == expected


@pytest.mark.parametrize("large", [0, 1 << 40])
def test_a_model_of_order_100_is_one_line(monkeypatch, large_from, large):
    head = b"".join(b"ngram %d=1\n" % k for k in range(1, 101))
    text = b"\\data\\\n" + head + b"".join(b"\n\\%d-grams:\n-1 %s\n" % (k, b"a " * k) for k in range(1, 101))
    error, _ = outcome(text + b"\n\\end\\\n", monkeypatch, large_from, large, 1 << 22)
    assert error == "m:400: the order 100 is too high; lmtk reads models up to order 99"


def test_words_behind_the_end_of_a_large_file_are_not_read(monkeypatch, large_from, tmp_path):
    """A block begins in the 1-grams of a second model."""
    large_from(0, "arpa")
    (tmp_path / "m").write_bytes(MODEL + lengthened(MODEL))
    for size in range(100, 2000, 100):
        monkeypatch.setattr(reader, "BLOCK", size)
        assert len(read_ngrams(str(tmp_path / "m"), None).rows[0]) == 5


@pytest.mark.parametrize("seed", range(12))
def test_a_large_file_in_any_order_is_read_as_a_small_one(monkeypatch, large_from, seed):
    """Sorted by contexts, as SRILM does, from the last word back, or not at all; some prefixes are missing, and what
    \\data\\ says is right once these are written.
    """
    monkeypatch.setattr(rows, "DEAL", 1)
    model, out = random_model(seed, order=2 + seed % 4, words="abcdefghijklmnop", holes=seed % 2 > 0), io.BytesIO()
    writer.write_text(out, model, seed % 3 > 0)
    text = out.getvalue()
    if seed % 3 == 2:
        head, *sections = text.split(b"\n\n")
        random, mixed = np.random.default_rng(seed), []
        for name, *lines in (section.split(b"\n") for section in sections):
            mixed.append(b"\n".join([name, *(lines[i] for i in random.permutation(len(lines)))]))
        text = b"\n\n".join([head, *mixed])
    assert outcome(text, monkeypatch, large_from, 0, 300) == outcome(text, monkeypatch, large_from, 1 << 40, 1 << 22)


COUNTS = b"a\t4\na b\t3\na b c\t2\nb c\t1\nc\t1\n"

# name: what is replaced, by what, and the error
COUNT_CASES = {
    "whole": (b"", b"", None),
    "repeated": (b"c\t1\n", b"c\t1\nc\t1\nc 5\n", None),
    "zero": (b"b c\t1", b"b c\t0", None),
    "leading zeros": (b"b c\t1", b"b c\t" + b"0" * 30 + b"7", None),
    "past 2^32": (b"b c\t1", b"b c\t4294967297", None),
    "the largest": (b"b c\t1", b"b c\t9223372036854775807", None),
    "past 2^63": (b"b c\t1", b"b c\t9223372036854775808", "m:4: expected words and a whole count"),
    "of 5000 digits": (b"b c\t1", b"b c\t" + b"9" * 5000, "m:4: expected words and a whole count"),
    "adding up past 2^63": (b"b c\t1", b"b c\t9223372036854775807\nb c\t1", "the sum of the counts is above 2^63"),
    "negative": (b"b c\t1", b"b c\t-1", "m:4: expected words and a whole count"),
    "a plus": (b"b c\t1", b"b c\t+1", "m:4: expected words and a whole count"),
    "fractional": (b"b c\t1", b"b c\t1.5", "m:4: expected words and a whole count (-float-counts allows fractions)"),
    "exponent": (b"b c\t1", b"b c\t1e3", "m:4: expected words and a whole count"),
    "nan": (b"b c\t1", b"b c\tnan", "m:4: expected words and a whole count"),
    "infinite": (b"b c\t1", b"b c\tinf", "m:4: expected words and a whole count"),
    "underscore": (b"b c\t1", b"b c\t1_0", "m:4: expected words and a whole count"),
    "digits of another script": (b"b c\t1", "b c\t\u0661".encode(), "m:4: expected words and a whole count"),
    "a word for a count": (b"b c\t1", b"b c", "m:4: expected words and a whole count"),
    "a count alone": (b"b c\t1", b"7", "m:4: expected words and a whole count"),
    "blanks": (b"b c\t1", b" \t b   c  1\t \r", None),
    "blank lines": (b"b c\t1", b"\n \t\n\r\nb c\t1\n", None),
    "words that are numbers": (b"b c\t1", b"1 2 3 3", None),
    "a long n-gram": (b"b c\t1", b"x " * 40 + b"3", None),
    "no newline at the end": (b"c\t1\n", b"c\t1", None),
    "bytes that are no UTF-8": (b"b c\t1", b"\xff\xfe \xc3 2", None),
    "upper case": (b"b c\t1", b"B \xc3\x89 2", None),
    "bytes that are no UTF-8 and no count": (b"b c\t1", b"\xff\xfe B", "m:4: expected words and a whole count"),
}


def count_outcome(text, folder, monkeypatch, large_from, large, size, options):
    """What reading gives: words and levels, or the error."""
    large_from(large, "text")
    blocks = decoding.blocks
    monkeypatch.setattr(collection, "blocks_of", lambda path, _: blocks(path, size))
    (folder / "m").write_bytes(text)
    monkeypatch.chdir(folder)
    try:
        result = collect(Sources([], ["m"], **{"order": 50} | options))
        result = result.words, [(x.keys.tolist(), x.count.tolist(), x.first.tolist()) for x in result.levels]
    except LmtkError as e:
        result = str(e)
    monkeypatch.undo()
    return result


COUNT_OPTIONS = [
    {},
    {"order": 2},
    {"words": [b"a", UNK]},
    {"words": [b"b", b"c"], "limit": True},
    {"marks": Marks(tolower=True)},
]


@pytest.mark.sample(46)
@pytest.mark.parametrize("name", COUNT_CASES)
@pytest.mark.parametrize("options", COUNT_OPTIONS)
def test_small_and_large_count_files_are_read_alike(tmp_path, monkeypatch, large_from, name, options):
    old, new, said = COUNT_CASES[name]
    short = COUNTS.replace(old, new) if old else COUNTS
    for text in (short, short + b"".join(b"w%d v%d\t%d\n" % (i % 97, i % 89, i) for i in range(900))):
        plain = count_outcome(text, tmp_path, monkeypatch, large_from, 1 << 40, 1 << 22, options)
        if said and not (name.startswith("adding") and options.get("limit")):
            assert plain.startswith(said) and "\n" not in plain and len(plain) < 200
        for size in (1 << 22, 9, 500):
            assert count_outcome(text, tmp_path, monkeypatch, large_from, 0, size, options) == plain


def test_numbers_are_read_as_python_reads_them():
    """In a large file: of one to eight digits behind the point at once, of others one after the other."""
    random, table = np.random.default_rng(1), Table([b"a"], [0]).arrays()
    texts = [f"{x:.{d}f}" for d in range(12) for x in -(10 ** random.uniform(-9, 1.2, 200))]
    texts += [f"{x:.7g}" for x in -(10 ** random.uniform(-9, 2, 2000))] + [
        "-0.00000000",
        "0.5",
        "9.99999999",
        "-1.",
        "+2.5",
    ]
    block = "".join(f"{text}\ta\t{text}\n" for text in texts).encode()
    rows = np.empty((len(texts), 3), np.int32)
    text = np.frombuffer(block, np.uint8)
    _, count, *_ = read_lines(text, 0, 1, table, reader.NO_UNIGRAM, rows, rows.view(np.float32))
    expected = np.array([float(text) for text in texts]).astype(np.float32) + np.float32(0)
    assert count == len(texts)
    assert all(np.array_equal(rows.view(np.float32)[:, column], expected) for column in (1, 2))


def test_sizes_that_are_only_claimed_want_no_memory(monkeypatch, large_from):
    """Where there is none for as many n-grams as \\data\\ says."""
    text = lengthened(MODEL).replace(b"ngram 2=", b"ngram 2=3000000", 1)
    expected = outcome(text, monkeypatch, large_from, 1 << 40, 1 << 22)

    def little(give, size):
        def given(*how):
            if size(*how) > 1 << 20:
                raise MemoryError
            return give(*how)

        return given

    little_empty = little(np.empty, lambda shape, *_: np.prod(shape))
    monkeypatch.setattr(reader, "Trie", little(reader.Trie, lambda sizes, *_: sum(sizes)))
    monkeypatch.setattr(reader, "np", SimpleNamespace(**vars(np) | {"empty": little_empty}))
    large_from(0, "arpa")
    monkeypatch.setattr(reader, "BLOCK", 500)
    with pytest.warns(LmtkWarning) as caught:
        model = reader.read_text(io.BytesIO(text), "m")
    out = io.BytesIO()
    backoff.write_binary(out, model)
    assert (out.getvalue(), [str(w.message) for w in caught]) == expected
