"""Phrases in a corpus: counts, documents and probabilities are those of plain loops over the documents."""

import itertools

import numpy as np
import pytest
from helpers import in_process
from hypothesis import given, settings
from hypothesis import strategies as st
from mutation import decoded, encoded

from lmtk.errors import FormatError
from lmtk.jobs import indexing
from lmtk.machine import threads
from lmtk.text import index as module
from lmtk.text.index import count_phrases, load, make_index, split, suffix_order, with_borders, write

LETTERS = st.lists(st.sampled_from("abc"), min_size=1, max_size=12)


def join(split_numbers):
    """The numbers (n,) int64 of rows of bytes (n, bytes)."""
    wide = np.zeros((len(split_numbers), 8), np.uint8)
    wide[:, : split_numbers.shape[1]] = split_numbers
    return wide.view("<i8")[:, 0]


def plain_count(documents, phrase):
    """(how often a phrase occurs, in how many documents)."""
    m = len(phrase)
    each = [sum(words[i : i + m] == phrase for i in range(len(words) - m + 1)) for words in documents]
    return sum(each), sum(count > 0 for count in each)


def plain_row(documents, phrase):
    """A row of `count_phrases`, by loops."""
    if not phrase:
        return [0] * 5
    places = sum(map(len, documents)) + len(documents)
    for begin in range(len(phrase)):
        context = phrase[begin:-1]
        total = plain_count(documents, context)[0] if context else places
        if total:
            break
    return [*plain_count(documents, phrase), len(context), plain_count(documents, [*context, phrase[-1]])[0], total]


def ids_of(index, phrases):
    """The arrays of phrases, lists of words; an unknown word has the id 0."""
    numbers = {word.decode(): i for i, word in enumerate(index.words, 1)}
    ids = np.array([numbers.get(word, 0) for phrase in phrases for word in phrase], np.int64)
    return ids, np.cumsum([0, *map(len, phrases)])


@settings(max_examples=60, deadline=None)
@given(st.lists(LETTERS, min_size=1, max_size=6), st.lists(st.lists(st.sampled_from("abcd"), max_size=5), max_size=8))
def test_counts_are_those_of_loops(documents, phrases):
    """d is a word that no document has."""
    text = "".join(" ".join(words) + "\n" for words in documents)
    index = made(text)
    expected = [plain_row(documents, phrase) for phrase in phrases]
    assert count_phrases(index, *ids_of(index, phrases)).tolist() == expected


def made(text, **how):
    """The Index of one text, a string."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "blocks", lambda path, **how: [path.encode()])
        return make_index([text], **how)


def test_suffixes_are_sorted():
    """Also if they share long beginnings."""
    random = np.random.default_rng(1)
    for text in ([1] * 70 + [0], [1, 2] * 40 + [0] + [1, 2] * 50 + [0], [*random.integers(1, 4, 300), 0] * 3):
        text = np.array(text, np.int32)
        words = [tuple(itertools.takewhile(bool, text[i:].tolist())) for i in range(len(text))]
        order = suffix_order(text).tolist()
        assert sorted(order) == np.flatnonzero(text).tolist()
        assert [words[i] for i in order] == sorted(words[i] for i in order)


@pytest.mark.parametrize(
    "documents, expected",
    [
        ("lines", "ab|c|d|e|"),
        ("paragraphs", "abc|de|"),
        ("files", "abcde|"),
    ],
)
def test_documents_are_lines_paragraphs_or_files(documents, expected):
    for text in ("\n\na b\nc\n\n\n \nd\ne\n", "a b\nc\n\nd\ne\n\n\n"):
        index = made(text, documents=documents)
        words = ["|", *(word.decode() for word in index.words)]
        assert "".join(words[w] for w in join(index.text)) == expected
        assert len(index.documents) == expected.count("|")
        starts = [i + 1 for i, letter in enumerate(expected[:-1]) if letter == "|"]
        assert join(index.documents).tolist() == [0, *starts]
    assert with_borders(np.zeros(0, np.int32), documents).tolist() == []


def test_numbers_are_split_into_as_few_bytes_as_they_need():
    for highest, width in ((0, 1), (255, 1), (256, 2), (65535, 2), (65536, 3), (1 << 40, 6)):
        numbers = np.array([0, highest, highest // 2])
        assert split(numbers, highest).shape == (3, width)
        assert join(split(numbers, highest)).tolist() == numbers.tolist()


def test_a_file_gives_the_index_back(tmp_path):
    index = made("the cat\nthe dog the cat\n", tolower=True)
    with open(tmp_path / "a", "wb") as out:
        write(out, index)
    same = load(str(tmp_path / "a"))
    assert (same.words, same.settings) == (index.words, {"documents": "lines", "tolower": True})
    for name, array in index.arrays.items():
        assert (same.arrays[name] == array).all()


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda about, arrays: arrays.pop("order"), "the array order is missing"),
        (
            lambda about, arrays: arrays.update(order=arrays["order"][:3]),
            "its text has 8 entries; expected 3 words and 2 documents",
        ),
        (lambda about, arrays: arrays.update(text=arrays["text"].repeat(2, 1)), "the array text is bytes (8, 2)"),
        (lambda about, arrays: about["settings"].update(documents="pages"), "the setting documents is"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, change, said):
    with open(tmp_path / "a", "wb") as out:
        write(out, made("the cat\nthe dog the cat\n"))
    about, arrays = decoded((tmp_path / "a").read_bytes())
    change(about, arrays)
    (tmp_path / "a").write_bytes(encoded(about, arrays))
    with pytest.raises(FormatError, match="a: ") as actual:
        load(str(tmp_path / "a"))
    assert said in str(actual.value)


def test_wrong_places_do_not_lead_out_of_the_file(tmp_path):
    """Of a file whose checksums are right, and whose places are above the text's end."""
    with open(tmp_path / "a", "wb") as out:
        write(out, made("the cat\nthe dog the cat\n"))
    about, arrays = decoded((tmp_path / "a").read_bytes())
    arrays["order"] = np.full_like(arrays["order"], 255)
    arrays["documents"] = np.full_like(arrays["documents"], 255)
    (tmp_path / "a").write_bytes(encoded(about, arrays))
    index = load(str(tmp_path / "a"))
    counts = count_phrases(index, *ids_of(index, [["the", "cat"], ["dog"], ["the"]]))
    assert counts[:, 0].tolist() == [0, 0, 0]


def test_many_phrases_are_counted_in_their_order(tmp_path, monkeypatch):
    """In several blocks, by several threads; each as alone."""
    monkeypatch.setattr(indexing, "BLOCK", 1 << 11)
    monkeypatch.setattr(threads, "wanted", 3)
    random = np.random.default_rng(1)
    words = [f"w{i}" for i in range(50)]
    lines = [" ".join(random.choice(words, 6)) for _ in range(300)]
    (tmp_path / "t").write_text("\n".join(lines) + "\n")
    phrases = [" ".join(random.choice(words, random.integers(1, 4))) for _ in range(5000)]
    (tmp_path / "p").write_text("\n".join(phrases) + "\n")
    assert in_process(tmp_path, "index", "-text", "t", "-write", "t.index")[0] == 0
    status, out, _ = in_process(tmp_path, "count-of", "-index", "t.index", "p")
    rows = [row.split("\t") for row in out.decode().splitlines()[1:]]
    assert status == 0 and [row[0] for row in rows] == phrases
    documents = [line.split() for line in lines]
    for row in rows[::250]:
        assert [int(row[1]), int(row[2])] == list(plain_count(documents, row[0].split()))
