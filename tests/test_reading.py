"""Texts in fields and in pieces, in jobs of all kinds: pieces have the places and sums of plain loops over a text."""

import io
import json
import unicodedata
import warnings

import pytest
import sentencepiece
import tokenizers
from helpers import FILES
from hypothesis import given, settings
from hypothesis import strategies as st

import lmtk
from lmtk.errors import FormatError, LmtkWarning, UsageError
from lmtk.jobs.texts import Reading
from lmtk.text.tokenizer import load_tokenizer

WORDS = ["the", "cat", "ｃａｔ", "Élan", "e\u0301t", "３", "🙂", "zebra", "▁", "x" * 5]
LINES = st.lists(st.sampled_from([*WORDS, "", " ", "\t"]), max_size=8).map(" ".join)
SP = str(FILES / "sp.model")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The files of tokenizers: two kinds of SentencePiece with NFKC, one without, and a tokenizer.json."""
    folder = tmp_path_factory.mktemp("tokenizers")
    lines = (FILES / "tr.txt").read_text().split("\n") * 4
    for kind in ("unigram", "bpe"):
        out = io.BytesIO()
        how = {"vocab_size": 25, "model_type": kind, "minloglevel": 9, "hard_vocab_limit": False}
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, **how)
        (folder / kind).write_bytes(out.getvalue())
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel()
    letters = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    how = {"vocab_size": 280, "show_progress": False, "initial_alphabet": letters}
    model.train_from_iterator(lines, tokenizers.trainers.BpeTrainer(**how))
    model.save(str(folder / "json"))
    return [SP, *(str(folder / name) for name in ("unigram", "bpe", "json"))]


@given(line=LINES)
def test_places_of_pieces_are_those_in_the_line(files, line):
    for path in files:
        tokenizer = load_tokenizer(path)
        places = tokenizer.places(line)
        assert [name for _, name, *_ in places if name != "\t"] == tokenizer.split([line])[0].split()
        ends = [0, *(end for *_, end in places)]
        assert ends == sorted(ends) and ends[-1] <= len(line)
        if not path.endswith("json"):  # whose pieces are parts of characters too
            for piece, _, begin, end in places:
                written = unicodedata.normalize("NFKC", line[begin:end]) if path != SP else line[begin:end]
                # a blank without a place begins the line; several blanks are one
                assert "▁".join(f" {written} ".split()) == piece.strip("▁") or piece.strip("▁") in written, places


@pytest.fixture(scope="module")
def models(files):
    """A model of the pieces of each tokenizer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {path: lmtk.estimate(FILES / "tr.txt", 3, "wb", tokenizer=path) for path in files}


@settings(max_examples=25)
@given(lines=st.lists(LINES.map(lambda line: line.replace("▁", "a")).filter(str.strip), min_size=1, max_size=4))
def test_words_are_the_sums_of_their_pieces(models, lines):
    """And all of them are the sum of ppl. With -by word there is a row for each word of the text, at its place."""
    for path, model in models.items():
        how = {"tokenizer": path, "unit": "log10"}
        pieces, words = (lmtk.surprisal(model, lines, by=by, **how) for by in ("token", "word"))
        report = lmtk.perplexity(model, lines, tokenizer=path)
        assert -sum(row["surprisal"] for row in pieces) == pytest.approx(report.log10p, rel=1e-6, abs=1e-6)
        written = {(row["sentence"], row["start"], row["end"]): row["word"] for row in words}
        for number, line in enumerate(lines, 1):
            at = 0
            for word in line.split():
                at = line.index(word, at)
                assert written.pop((number, at, at + len(word))) == word
                at += len(word)
        assert set(written.values()) <= {"</s>"}
        for row in words:
            if row["word"] != "</s>":
                place = row["sentence"], row["start"], row["end"]
                sums = [p["surprisal"] for p in pieces if p["word"] != "</s>" and is_inside(p, *place)]
                assert row["surprisal"] == pytest.approx(sum(sums), rel=1e-5, abs=1e-6)


def is_inside(piece, sentence, start, end):
    return piece["sentence"] == sentence and start <= piece["start"] <= end


def test_held_out_texts_are_read_by_their_suffix():
    reading = Reading("text", SP)
    for name in ("a.jsonl", "b/a.json.gz", "a.NDJSON", "a.parquet", "a.txt.jsonl.zst"):
        assert reading.of_other(name) == reading
    for name in ("a.txt", "jsonl", "a.jsonl.txt", "-", "a.gz", "/dev/fd/3"):
        assert reading.of_other(name) == Reading(None, SP)


@pytest.fixture
def docs(tmp_path):
    rows = [{"text": line} for line in (FILES / "tr.txt").read_text().split("\n") if line]
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "docs.jsonl"


def test_a_long_word_is_named_by_the_line_of_its_document(tmp_path):
    texts = ["a b\nc"] * 2000 + ["\u00e9" * (1 << 19), "\u00e9" * (1 << 19) + "x"]
    (tmp_path / "docs").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    with pytest.raises(FormatError, match="docs:2002: the text has a word longer than 1 MB"):
        lmtk.estimate(tmp_path / "docs", 2, "wb", field="text")


def test_functions_read_fields_and_pieces(docs, tmp_path):
    """A held-out text in memory is plain text; sentences are selected as they are written."""
    how = {"field": "text", "tokenizer": SP}
    network = lmtk.train(docs, tmp_path / "nplm", ["the cat sat"], unk=True, hidden=2, features=2, epochs=1, **how)
    model = lmtk.estimate(docs, 2, "wb", **how)
    mixed = lmtk.mix([model, network], heldout=["the dog saw a cat"], tokenizer=SP)
    digest = Reading(tokenizer=SP).digest()
    assert {m.lm.vocab.tokenizer for m in (network, model, mixed)} == {digest}
    chosen = lmtk.select(docs, [model, lmtk.estimate(docs, 1, "wb", **how)], 2, **how)
    assert len(chosen) == 2 and all(line in (FILES / "tr.txt").read_text().split("\n") for line in chosen)
    assert set(lmtk.classes(docs, 3, **how)) > {"▁", "t", "h"}
    with pytest.warns(LmtkWarning, match="the model was made with a tokenizer, but this text is read as words"):
        lmtk.perplexity(model, ["the cat"])
    with pytest.raises(UsageError, match="tokenizer cannot be combined with tolower"):
        lmtk.surprisal(model, ["the cat"], tokenizer=SP, tolower=True)
