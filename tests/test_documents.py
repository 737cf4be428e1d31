"""Documents of JSON lines: their figures are those of plain loops, in batches of any size, and no line is lost."""

import io
import json
import unicodedata
from itertools import chain, pairwise, repeat

import numpy as np
import pyarrow
import pytest
import sentencepiece
import tokenizers
from helpers import FILES, random_text, set_large
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import lmtk
from lmtk.files import documents as files
from lmtk.files.documents import Part
from lmtk.files.inputs import Source, open_in
from lmtk.text import tokenizer
from lmtk.text.ccnet import PUNCTUATION, normalize
from lmtk.text.corpus import NEWLINE, Closed, Growing
from lmtk.text.tokenizer import Encoder, SentencePiece, load_tokenizer, nemo_names, piece_ids, piece_text

WORDS = ["the", "cat", "sat", "a", "zebra", ",", "3.14", "The", "CAFÉ", "x" * 7, "a" + "x" * 9, "—", "\u0301"]
TEXTS = st.lists(st.sampled_from([*WORDS, "\n", "\t", " "]), max_size=12).map(" ".join)


def plain_normalize(text):
    """CCNet's normalization, a character at a time."""
    out, place, text = [], 0, text.lower()
    while place < len(text):
        end = place
        while end < len(text) and text[end].isdecimal():
            end += 1
        if end > place:
            more = end + 1
            while end < len(text) and text[end] in ".,،٫⎖⎗⎘" and more < len(text) and text[more].isdecimal():
                more += 1
            place = more if more > end + 1 else end
            out.append("0")
        else:
            out.append(text[place])
            place += 1
    marks = {mark: ascii_mark for ascii_mark, all_marks in PUNCTUATION.items() for mark in all_marks}
    letters = [c for c in unicodedata.normalize("NFD", "".join(out)) if unicodedata.category(c) != "Mn"]
    return "".join(marks.get(c, "" if unicodedata.category(c) == "Cc" else c) for c in letters)


@settings(max_examples=100)
@given(st.text(st.sampled_from("aÉß1٣.,٫ \n\t—…”ΑΣ́２\x7f\x85")))
def test_normalization_is_that_of_single_characters(text):
    assert normalize(text) == plain_normalize(text)


def test_normalization():
    """The figures are those of datatrove 0.10.1, the last line but one of which joins words at a line's end."""
    assert normalize("Café — 3,000.50 “naïve” ２ 1.2.3…") == 'cafe  -  0.0 "naive" 0 0.0...'
    assert normalize("end.\nStart\x00") == "end.start"


@pytest.fixture(scope="module")
def pieces():
    """SentencePiece models by kind, and what each encodes."""
    lines = (FILES / "nmt-train.en").read_text().split("\n") * 2
    # so that xx and xxx are pieces, and xxxxx has two splits
    beginnings = [a + b for a in "abcdefghijklmnop" for b in "rstuv"]
    lines += [" ".join(word + "x" * n for word in beginnings) for n in (1, 3, 3)] * 2
    models = {}
    for kind in ("unigram", "bpe"):
        out = io.BytesIO()
        how = {"vocab_size": 200, "model_type": kind, "minloglevel": 9, "hard_vocab_limit": False}
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, **how)
        models[kind] = out.getvalue()
    return models


@pytest.mark.parametrize("large", [1, 1 << 40])
@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@settings(max_examples=30, deadline=None)
@given(blocks=st.lists(st.lists(TEXTS.map(lambda text: text.replace("\n", " ")), max_size=5), max_size=3))
def test_pieces_of_words_are_the_pieces_of_lines(pieces, kind, large, blocks):
    split = sentencepiece.SentencePieceProcessor(model_proto=pieces[kind]).encode
    with pytest.MonkeyPatch.context() as patch:
        set_large(patch, large, "text")
        patch.setattr(tokenizer, "KEPT", 4)
        index = Growing(())
        reader = piece_ids(Encoder(None, SentencePiece(pieces[kind], "sp")), index)
        for lines in blocks:
            ids = reader.ids("".join(line + "\n" for line in lines).encode()).tolist()
            plain = [[*(index[piece.encode()] for piece in split(line, out_type=str)), NEWLINE] for line in lines]
            assert ids == [*chain.from_iterable(plain)]


def test_words_whose_pieces_depend_on_their_neighbours(pieces):
    """The same pieces in two orders, as xx xxxx and xxx xx, are equally probable, and rounding chooses."""
    model = SentencePiece(pieces["unigram"], "sp")
    assert model.has_ties and model.by_words
    words = [first + "x" * n + last for first in ("", "a", "the") for n in range(1, 9) for last in ("", "b")]
    tied = [word for word, split in zip(words, model.split_words(words)) if split is None]
    best = lambda word: model.processor.nbest_encode_as_pieces(word, 2)
    assert tied and all(sorted(best(word)[0]) == sorted(best(word)[1]) for word in tied)
    index = Growing(())
    reader = piece_ids(Encoder(None, model), index)
    lines = ["a", f"the {tied[0]} cat", "b", tied[-1], "c"]
    ids = reader.ids("".join(line + "\n" for line in lines).encode()).tolist()
    plain = ([*(index[p.encode()] for p in line.split()), NEWLINE] for line in model.split(lines))
    assert ids == [*chain.from_iterable(plain)]


def test_pieces_that_reach_over_blanks_are_split_by_lines():
    out = io.BytesIO()
    how = {"vocab_size": 40, "minloglevel": 9, "hard_vocab_limit": False, "split_by_whitespace": False}
    lines = ["in the end of the day"] * 50 + ["the cat sat"] * 20
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, **how)
    model = SentencePiece(out.getvalue(), "sp")
    assert not model.by_words
    reader = piece_ids(Encoder(None, model), Closed({}, 7))
    assert len(reader.ids(b"in the end of the day\n\n")) == len(model.split(["in the end of the day"])[0].split()) + 2


def plain_figures(model, text):
    """(perplexity, words, OOVs, log10 p) of a text, a word at a time; None for a text without words."""
    rows = text.removesuffix("\n").split("\n")
    lines = [[*model.full_scores(row)] for row in rows]
    total, tokens = sum(map(model.score, rows)), sum(map(len, lines))
    words, oovs = tokens - len(lines), sum(oov for line in lines for *_, oov in line)
    return (10 ** (-total / tokens), words, oovs, total) if words else None


@pytest.fixture
def model(tmp_path):
    return lmtk.estimate(random_text(tmp_path, 1), 3, "wb")


@pytest.mark.filterwarnings("ignore::lmtk.errors.LmtkWarning")
@pytest.mark.parametrize(("block", "large"), [(1 << 22, 1), (300, 1 << 40), (1, 1 << 40)])
def test_figures_are_those_of_the_lines(model, monkeypatch, block, large):
    monkeypatch.setattr(files, "BLOCK", block)
    set_large(monkeypatch, large, "ngrams", "text")
    random = np.random.default_rng(2)
    line = lambda: " ".join(f"w{i}" for i in random.integers(0, 110, random.integers(0, 6)))
    texts = ["\n".join(line() for _ in range(random.integers(1, 5))) for _ in range(60)] + ["w1 " * 3000]
    scored = lmtk.score_documents(model, texts)
    for i, text in enumerate(texts):
        if plain := plain_figures(model, text):
            figures = scored.perplexity[i], scored.words[i], scored.oovs[i], scored.log10p[i]
            assert figures == pytest.approx(plain, rel=1e-6), i
        else:
            assert np.isnan(scored.perplexity[i]) and scored.words[i] == 0 == scored.oovs[i]
    assert scored.kept.all() and (scored.bucket == -1).all()


def test_models_of_other_kinds(tmp_path, model):
    texts = ["w1 w2\nw3", "w5 w500"]
    for other in (lmtk.mix([model, model]), lmtk.load(FILES / "old" / "plain")):
        scored = lmtk.score_documents(other, texts)
        for i, text in enumerate(texts):
            figures = scored.perplexity[i], scored.words[i], scored.oovs[i], scored.log10p[i]
            assert figures == pytest.approx(plain_figures(other, text), rel=1e-5)


def test_no_documents(model):
    scored = lmtk.score_documents(model, [])
    assert (scored.kept.dtype, scored.bucket.dtype) == (bool, int)
    assert repr(scored) == "<figures of 0 documents, 0 kept>"


@pytest.mark.filterwarnings("ignore::lmtk.errors.LmtkWarning")
def test_the_best_share_and_buckets(model):
    texts = [f"w{i} w{i % 7} w1" for i in range(50)] + ["", "w1 w1 w1"]
    scored = lmtk.score_documents(model, [{"body": text} for text in texts], field="body", keep=0.3)
    order = sorted([*range(50), 51], key=lambda i: (scored.perplexity[i], i))
    assert set(np.flatnonzero(scored.kept)) == set(order[: round(0.3 * 51)])
    three = lmtk.score_documents(model, texts, buckets=["head", "middle", "tail"])
    assert [three.bucket[i] for i in order] == [0] * 17 + [1] * 17 + [2] * 17 and three.bucket[50] == -1
    limits = [float(scored.perplexity[order[10]]), float(scored.perplexity[order[20]])]
    cut = lmtk.score_documents(model, texts, buckets="head,middle,tail", cutoffs=limits)
    for i in order:
        assert cut.bucket[i] == sum(limit <= scored.perplexity[i] for limit in limits)
    kept = lmtk.score_documents(model, texts, max=limits[1], min=limits[0]).kept
    assert (kept == (scored.perplexity >= limits[0]) & (scored.perplexity <= limits[1])).all()


LINES = st.lists(
    st.sampled_from(['{"text": "w1 w2"}', '{"text": "w3"}', "", "x", '{"a": 1}', '{"text": ""}', '{"text": 2}']),
    max_size=12,
)


@pytest.mark.filterwarnings("ignore::lmtk.errors.LmtkWarning")
@given(lines=LINES, parts=st.integers(1, 5), end=st.booleans(), block=st.sampled_from([1, 30, 1 << 22]))
def test_no_line_is_lost(tmp_path_factory, lines, parts, end, block):
    """Every line is written unchanged, or with new fields behind its own; parts make the whole; and what -max leaves
    out is in -write-rest.
    """
    folder = tmp_path_factory.mktemp("lines")
    lines = ['{"text": "w1"}', *lines]  # or the first documents have no text, which is an error
    data = "\n".join(lines) + "\n" * end
    (folder / "docs").write_text(data)
    model = lmtk.estimate(["w1 w2 w3", "w1 w1"], 2, "wb")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "BLOCK", block)
        lmtk.score_documents(model, folder / "docs", add=["perplexity", "words"], write=folder / "out")
        for i in range(1, parts + 1):
            options = {"shard": f"{i}/{parts}", "add": "perplexity,words", "write": folder / f"{i}"}
            lmtk.score_documents(model, folder / "docs", **options)
        lmtk.score_documents(model, folder / "docs", max=4, write=folder / "kept", write_rest=folder / "rest")
    out = (folder / "out").read_text()
    assert "".join((folder / f"{i}").read_text() for i in range(1, parts + 1)) == out
    for before, after in zip(lines, out.split("\n")):
        if before.startswith("{"):
            more = json.loads(after)
            assert set(more) - set(json.loads(before)) == {"perplexity", "words"}
            assert after.startswith(before[:-1]) and (more["perplexity"] is None) == (more["words"] == 0)
        else:
            assert after == before
    kept, rest = ((folder / name).read_text().split("\n") for name in ("kept", "rest"))
    assert sorted(line for line in kept + rest if line) == sorted(line for line in lines if line)


@settings(max_examples=100)
@given(size=st.integers(0, 1000), parts=st.integers(1, 40))
def test_parts_cover_the_file(size, parts):
    spans = [Part(i, parts).span(size) for i in range(1, parts + 1)]
    assert spans[0][0] == 0 and spans[-1][1] == size and all(a[1] == b[0] for a, b in pairwise(spans))
    for text in ("0/3", "4/3", "3", "a/b", "1/0", "-1/3", "1/3/4"):
        assert Part.parse(text) is None


def test_wrong_documents(model):
    for documents, message in (
        (3, "documents must be the name of a file or a list of texts, not 3"),
        ([3], r"each document must be a text \(str\) or a dictionary, not 3"),
        ([{"text": {1}}], "a document cannot be written as JSON"),
    ):
        with pytest.raises(lmtk.errors.UsageError, match=message):
            lmtk.score_documents(model, documents)
    with pytest.raises(lmtk.errors.UsageError, match="keep takes the fraction of documents"):
        lmtk.score_documents(model, ["a"], keep=2)
    with pytest.raises(lmtk.errors.LmtkError, match='the documents:1: the documents have no field "x"'):
        lmtk.score_documents(model, [{"text": "a"}], field="x")


@pytest.fixture
def tokenizer_json(tmp_path):
    """A small tokenizer.json of bytes, one piece of which has blanks."""
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["a  b", "<s>"],
        show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    model.train_from_iterator((FILES / "nmt-train.en").read_text().split("\n"), trainer)
    model.enable_padding(length=50)
    model.enable_truncation(3)
    model.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


@pytest.mark.parametrize("encode", [None, "nemo"])
def test_a_tokenizer_json(tokenizer_json, encode):
    lines = ["a  b dog", "", "  two dogs\tplay in the snow — again\u0301 and again", "<s> x"]
    reader = piece_text(Encoder(None, load_tokenizer(str(tokenizer_json), encode)))
    text = reader.ids("".join(line + "\n" for line in lines).encode()).tobytes().decode()
    model = tokenizers.Tokenizer.from_file(str(tokenizer_json))
    model.no_padding()
    model.no_truncation()
    for line, pieces in zip(lines, text.split("\n")):
        encoded = model.encode(line, add_special_tokens=False)
        plain = [piece.replace(" ", "\u2581") for piece in encoded.tokens]
        assert pieces.split() == ([chr(i + 100) for i in encoded.ids] if encode else plain)


def test_too_many_pieces_for_nemo():
    assert len(nemo_names(0xD800 - 100, "sp")) == 0xD800 - 100
    with pytest.raises(lmtk.errors.LmtkError, match="sp: it has 55197 pieces"):
        nemo_names(0xD800 - 99, "sp")


@pytest.mark.parametrize("large", [1, 1 << 40])
def test_a_text_of_pieces_is_that_of_lines(pieces, monkeypatch, large):
    """Also after bytes that are not UTF-8, and in blocks of any size. CCNet's normalization joins words at a tab."""
    set_large(monkeypatch, large, "text")
    model = SentencePiece(pieces["unigram"], "sp")
    reader = piece_text(Encoder(normalize, model))
    lines = ["A dog\tplays 3.5 hours", "", "the " + "x" * 9 + " the", "caf\ufffd", "a"]
    data = "".join(line + "\n" for line in lines).encode().replace("\ufffd".encode(), b"\xff")
    plain = [model.processor.encode(normalize(line), out_type=str) for line in lines]
    for _ in range(2):
        text = reader.ids(data).tobytes().decode()
        assert [line.split() for line in text.split("\n")[:-1]] == plain


def test_parquet_files_are_read_as_json_lines(tmp_path):
    texts = ["the cat sat\na dog", "", "a cat\n", "on the mat"] * 3000
    parquet.write_table(pyarrow.table({"body": texts}), tmp_path / "docs.parquet", row_group_size=1000)
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps({"body": text}) + "\n" for text in texts))
    (tmp_path / "text").write_text("".join(text.removesuffix("\n") + "\n" for text in texts))
    plain = lmtk.estimate(tmp_path / "text", 2, "wb").score("the cat on a dog")
    for name in ("docs.parquet", "docs.jsonl"):
        assert lmtk.estimate(tmp_path / name, 2, "wb", field="body").score("the cat on a dog") == plain


@given(blocks=st.lists(st.binary(max_size=9), max_size=6), sizes=st.lists(st.integers(1, 20), min_size=1))
@settings(max_examples=100)
def test_a_converted_source_is_a_stream_of_its_blocks(blocks, sizes):
    with open_in(Source("x", lambda path: (block for block in [path.encode(), *blocks]))) as stream:
        data, sizes = b"x" + b"".join(blocks), chain(sizes, repeat(7))
        assert b"".join(iter(lambda: stream.read(next(sizes)), b"")) == data


@pytest.mark.parametrize("line", [b"{}\n", b'{ "a": 1 }\r\n', b'{"a": {}}'])
def test_fields_are_added(line):
    assert json.loads(files.with_fields(line, b'"words": 3')) == json.loads(line) | {"words": 3}
