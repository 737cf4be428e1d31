"""Lines of any length, long words and compression bombs: the same figures in pieces, and memory that does not grow."""

import gzip
import subprocess
import sys

import numpy as np
import pytest
from helpers import ENVIRONMENT, FILES
from hypothesis import given, settings
from hypothesis import strategies as st

from lmtk.errors import FormatError
from lmtk.files import decoding, registry
from lmtk.files.decoding import blocks
from lmtk.machine.parallel import ALONE
from lmtk.ngram.counting.collection import Blocks, SourceReader, Sources, bordered, collect
from lmtk.ngram.counting.counts import to_rows
from lmtk.reports import srilm
from lmtk.text import corpus
from lmtk.text.corpus import NEWLINE, Growing, Marks, corpora, read_ids, with_marks

MB = 1 << 20
MARKS = [Marks(), Marks(sos=False), Marks(eos=False), Marks(False, False), Marks.from_options(False, False, True)]
ids_of_text = st.lists(st.sampled_from([NEWLINE, 0, 1, 2, 3]), max_size=20)


@pytest.fixture
def small_pieces(monkeypatch):
    """Lines are cut after 24 bytes."""
    monkeypatch.setattr(decoding, "BLOCK", 24)
    monkeypatch.setattr(decoding.blocks, "__defaults__", (10, False, False, False))
    monkeypatch.setattr(corpus, "TOGETHER", 7)


@pytest.fixture
def text(tmp_path):
    """Lines of 0 to 40 words, some with marks; the last one has no newline."""
    random = np.random.default_rng(1)
    words = [b"the", b"cat", b"sat", b"on", b"mat", b"unseen-word", b"dogs"]
    lines = [b" ".join(random.choice(words, n)) for n in random.integers(0, 40, 60)]
    lines[3], lines[7], lines[20] = b"<s> " + lines[3] + b" </s>", b"\t \r", lines[20] + b"  </s>"
    path = tmp_path / "text"
    path.write_bytes(b"\n".join(lines) + b"\nthe cat")
    return str(path)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([b" ", b"\n", b"\t", b"a", b"bcd"]), max_size=60).map(b"".join), st.integers(1, 9))
def test_pieces_are_the_text_cut_between_words(tmp_path_factory, data, size):
    path = tmp_path_factory.mktemp("pieces") / "text"
    path.write_bytes(data)
    before, decoding.BLOCK = decoding.BLOCK, 1
    try:
        actual = list(blocks(str(path), size, pieces=True))
    finally:
        decoding.BLOCK = before
    assert b"".join(actual) == (data if data.endswith(b"\n") or not data else data + b"\n")
    assert all(block[-1:] in b" \n\t" or actual[i + 1] == b"\n" for i, block in enumerate(actual))


@settings(max_examples=300, deadline=None)
@given(ids_of_text, st.lists(st.integers(0, 20), max_size=4), st.sampled_from(MARKS))
def test_marks_of_parts_are_those_of_the_whole(ids, cuts, marks):
    """1 is <s>, 2 is </s>."""
    ids = np.array([*ids, NEWLINE], np.int32)
    whole = with_marks(ids, marks, 1, 2)
    parts = corpus.sentences_of(np.split(ids, np.sort(np.minimum(cuts, len(ids)))), marks, 1, 2)
    joined, ends, blank = [], [], 0
    for part, part_ends, part_blank in parts:
        ends += (part_ends + len(joined)).tolist()
        joined += part.tolist()
        blank += part_blank
    assert (joined, ends, blank) == (whole[0].tolist(), whole[1].tolist(), whole[2])


@pytest.mark.parametrize("marks", [*MARKS, Marks(blank=True)])
def test_counts_of_pieces_are_those_of_lines(text, marks, monkeypatch, request):
    def counted():
        counts = collect(Sources([text], [], 3, marks=marks))
        return counts.words, [rows.tolist() for rows in to_rows(counts.levels, len(counts.words))]

    def positions():
        reader = SourceReader(Sources([text], [], 1, marks=marks), None)
        raw = Blocks(reader.raw(ALONE), reader.n_initial, True).read()
        return np.concatenate([*bordered(raw, reader.index[b"<s>"], reader.index[b"</s>"], marks)])

    def sentence_sets(ids):
        """The sentences between borders, in any order: blank lines may move."""
        return sorted(tuple(part.tolist()) for part in np.split(ids, np.flatnonzero(ids == NEWLINE)))

    clean = marks.sos and marks.eos
    expected = counted(), read_ids(text, Growing(), marks), sentence_sets(positions()) if clean else None
    request.getfixturevalue("small_pieces")
    actual = counted(), read_ids(text, Growing(), marks), sentence_sets(positions()) if clean else None
    assert actual[0] == expected[0] and actual[2] == expected[2]
    assert [np.array_equal(a, b) for a, b in zip(actual[1], expected[1])] == [True] * 3


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("marks", MARKS[:4])
def test_scores_of_pieces_are_those_of_lines(text, marks, large, large_from, request):
    model = registry.load(str(FILES / "wb.arpa"))
    if large:
        large_from(1, "text")
    expected, actual = [], []
    blank = srilm.report(model, text, corpora(blocks(text), model.vocab, marks, 3), 0, expected.append)[1]
    request.getfixturevalue("small_pieces")
    pieces = blocks(text, pieces=True)
    if large:
        more = srilm.report_sums(model, text, pieces, marks, actual.append)[1]
    else:
        more = srilm.report(model, text, corpora(pieces, model.vocab, marks, 3), 0, actual.append)[1]
    assert actual == expected and more == blank > 0


def test_a_long_word_is_named(tmp_path):
    """By its line and its first byte, in a file, in a compressed file and in a pipe."""
    word = b"x" * (MB + 1)
    for data, line, begin in [(word, 1, 0), (b"a b\n" * 9 + b"c " + word, 10, 38), (b"\xef\xbb\xbf" + word, 1, 3)]:
        (tmp_path / "t").write_bytes(data)
        (tmp_path / "z").write_bytes(gzip.compress(data, 1))
        for name in ("t", "z"):
            with pytest.raises(FormatError, match=f"{name}:{line}: a word longer than 1 MB begins at byte {begin};"):
                list(blocks(str(tmp_path / name)))
        done = subprocess.run(["lmtk", "vocab", "-text", "-"], input=data, env=ENVIRONMENT, capture_output=True)
        assert done.returncode == 1 and f"stdin:{line}: a word".encode() in done.stderr
    (tmp_path / "t").write_bytes(b"a " * (9 * MB))
    assert sum(map(len, blocks(str(tmp_path / "t"), pieces=True))) == 18 * MB + 1
    with pytest.raises(FormatError, match="t:1: the line is longer than 16 MB; break it into sentences"):
        list(blocks(str(tmp_path / "t")))


# run by a small Python: a process starts with the peak of the one that forked it, and this one may be large
MEASURE = """import resource, subprocess, sys
status = subprocess.run(["sh", "-c", sys.argv[1]]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, status)
"""


def peak(command, cwd, most):
    """(the most resident memory of a command in MB, its exit status, its stderr). Above `most` it is run again,
    since compiling a kernel for the first time takes memory too.
    """
    run = [sys.executable, "-S", "-c", MEASURE, f"{command} >&2"]
    for _ in range(2):
        done = subprocess.run(run, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True)
        used, status = done.stdout.split()
        if int(used) < most * 1024:
            break
    return int(used) / 1024, int(status), done.stderr


COUNT = "exec lmtk ngram-count -memory 20M -text"


@pytest.mark.parametrize(
    "command, most",
    [
        ("exec lmtk vocab -text line", 150),
        (f"exec lmtk ppl -lm {FILES}/wb.arpa -text line", 170),
        (f"{COUNT} line -order 3 -write counts", 170),
        (f"{COUNT} line -order 3 -lm model", 170),
    ],
)
def test_memory_does_not_grow_with_a_line(tmp_path, command, most):
    words = [b"%d" % w for w in np.random.default_rng(1).integers(0, 20_000, 100_000)]
    with open(tmp_path / "line", "wb") as out:
        for _ in range(40):  # 22 MB
            out.write(b" ".join(words) + b" ")
    used, status, message = peak(command, tmp_path, most)
    assert status == 0 and used < most, message


@pytest.mark.sample(5)
@pytest.mark.parametrize("content", [b"\0", b"x", b"\n", b" "])
@pytest.mark.parametrize("command", [f"{COUNT} bomb", "exec lmtk vocab -text bomb", "exec lmtk info bomb"])
def test_a_bomb_takes_little_memory(tmp_path, command, content):
    with gzip.open(tmp_path / "bomb", "wb", 1) as out:
        for _ in range(200):
            out.write(content * MB)
    most = 170 if "-memory" in command else 200
    used, status, message = peak(command, tmp_path, most)
    fails = content == b"x" or content == (b" " if "info" in command else b"\0")
    assert used < most and status == fails, (message, used, status)
