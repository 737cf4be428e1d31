"""The surprisal of words: each row is that of plain loops over whole distributions, for models of any kind."""

import math
import sys

import numpy as np
import pytest
from helpers import FILES
from small_models import models
from test_following import every_kind, ids_of

import lmtk
from lmtk.errors import FormatError, UsageError
from lmtk.lm import after_by_scores, reach
from lmtk.text.corpus import Marks
from lmtk.text.items import split

SENTENCES = ["the cat sat on the mat", "", "the zébra saw a dog , the dog", "a"]


def plain_rows(model, sentences, unit, bos=True, eos=True):
    """(sentence, position, word, surprisal, entropy, oov, start, end) of each word."""
    number, index = 0, model.vocab.index
    for sentence in sentences:
        number += bool(sentence.split())
        words, at = sentence.split(), 0
        for position, word in enumerate([*words, "</s>"] if words and eos else words, 1):
            logp = after_by_scores(model, ids_of(model, " ".join(words[: position - 1]), bos))
            w = index.get(word.encode(), model.vocab.unk_id)
            surprisal = -logp[w] / unit if w < len(logp) else math.inf
            entropy = -sum(math.exp(x) * x for x in logp if x > -math.inf) / unit
            start = len(sentence) if position > len(words) else sentence.index(word, at)
            at = len(sentence) if position > len(words) else start + len(word)
            yield number, position, word, surprisal, entropy, w == model.vocab.unk_id, start, at


def test_rows_are_those_of_plain_loops(texts):
    for model in every_kind(texts):
        for options, unit in (
            ({}, math.log(2)),
            ({"no_eos": True, "unit": "nats"}, 1),
            ({"no_sos": True}, math.log(2)),
        ):
            if "no_sos" in options and reach(model) == sys.maxsize:
                continue  # a recurrent network takes the first word of such a context for the state's beginning
            marks = {"bos": "no_sos" not in options, "eos": "no_eos" not in options}
            rows = lmtk.surprisal(model, SENTENCES, entropy=True, **options)
            expected = list(plain_rows(model, SENTENCES, unit, **marks))
            names = "sentence", "position", "word", "surprisal", "entropy", "oov", "start", "end"
            assert len(rows) == len(expected)
            for row, values in zip(rows, expected):
                for name, value in zip(names, values):
                    same = pytest.approx(value, rel=1e-4, abs=1e-4) if isinstance(value, float) else value
                    assert row[name] == same, (type(model), options, name, row, values)


def test_sums_are_the_perplexity_reports(texts):
    """Of each kind of model, with sentence marks and as running text."""
    (texts / "t").write_text("\n".join(SENTENCES) + "\n")
    for model in every_kind(texts):
        for options in ({}, {"stream": True}, {"no_eos": True}):
            rows = lmtk.surprisal(model, texts / "t", unit="log10", **options)
            report = lmtk.perplexity(model, texts / "t", **options)
            finite = [row["surprisal"] for row in rows if math.isfinite(row["surprisal"])]
            assert -sum(finite) == pytest.approx(report.log10p, rel=1e-6, abs=1e-6)
            assert len(rows) - len(finite) == report.oovs + report.zeroprobs


def test_lengths_are_those_of_full_scores():
    """Of n-grams alone; other models have none."""
    model = lmtk.load(FILES / "wb.arpa")
    for sentence in SENTENCES[::3]:
        lengths = [length for _, length, _ in model.full_scores(sentence)]
        assert [row["ngram"] for row in lmtk.surprisal(model, [sentence])] == lengths


def test_networks_have_no_lengths(texts):
    network = list(models(texts))[3]
    assert {row["ngram"] for row in lmtk.surprisal(network, SENTENCES)} == {None}


@pytest.mark.parametrize(
    "pieces, words",
    [
        ("the c@@ at s@@ a@@ t", ["the", "cat", "sat", "</s>"]),
        ("\u2581the \u2581c at \u2581s a t", ["the", "cat", "sat", "</s>"]),
        ("the c@@ at@@", ["the", "cat", "</s>"]),
        ("\u2581 the @@", ["the@@", "</s>"]),
        ("@@ the", ["@@", "the", "</s>"]),
    ],
)
def test_pieces_of_a_word_are_added_up(texts, pieces, words):
    model = lmtk.estimate(["the c@@ at@@ s@@ a@@ t", "\u2581the \u2581c at \u2581s a t", "@@ \u2581"], 2, "wb")
    tokens = lmtk.surprisal(model, [pieces], entropy=True)
    rows = lmtk.surprisal(model, [pieces], entropy=True, by="word")
    assert [row["word"] for row in rows] == words and [row["position"] for row in rows] == [*range(1, len(words) + 1)]
    at = 0
    for row in rows:
        last = [t["end"] for t in tokens[at:]].index(row["end"])
        of_word, first = tokens[at : at + last + 1], tokens[at]
        at += len(of_word)
        assert row["surprisal"] == pytest.approx(sum(t["surprisal"] for t in of_word))
        assert [row[name] for name in ("entropy", "ngram", "start")] == [
            first[n] for n in ("entropy", "ngram", "start")
        ]
        assert row["oov"] == any(t["oov"] for t in of_word)
    assert at == len(tokens)


def test_places_count_characters():
    for line in ("  ab  c", "\u00e9t\u00e9 \u4e2d | \U0001f600x", "a\tb |c| d"):
        words = split(line.encode(), Marks(), b"|")
        texts = [line[a:b] for a, b in zip(words.start, words.end)]
        assert texts[:-1] == line.replace("|", " ").split() and texts[-1] == "" and words.end[-1] == len(line)
        assert words.region[:-1] == [1 + line[:a].count("|") for a in words.start[:-1]]
    broken = split(b"\xff\xe9 a", Marks())
    assert (broken.start, broken.end) == ([0, 3, 4], [2, 4, 4])


def test_marks_that_a_line_has_are_not_doubled():
    for line in (b"<s> a b </s>", b"a b </s>", b"<s> a b"):
        assert split(line, Marks()).words == [b"a", b"b", b"</s>"]
    assert split(b"<S> a", Marks(tolower=True)).words == [b"a", b"</s>"]
    assert split(b"<s> a", Marks.from_options(False, False, True)).words == [b"<s>", b"a"]
    for line in ("<s> the cat </s>", "</s>", "<s>", "<S> The </S>"):
        for options in ({}, {"no_sos": True}, {"no_eos": True}, {"tolower": True}, {"stream": True}):
            rows = lmtk.surprisal(FILES / "wb.arpa", [line, "the cat"], **options)
            ends = "no_eos" not in options and "stream" not in options
            assert [row["word"] for row in rows if row["sentence"] == 2] == ["the", "cat", *["</s>"] * ends]


def test_several_models_and_many_sentences_have_the_rows_of_each():
    """More sentences than are scored at once; models with other words."""
    lines = [f"the {word} sat" for word in ("cat", "dog", "newt")] * 200
    both = lmtk.surprisal([FILES / "wb.arpa", FILES / "uni.arpa"], lines, entropy=True)
    for name in ("wb", "uni"):
        rows = lmtk.surprisal(FILES / f"{name}.arpa", lines, entropy=True)
        for measure in ("surprisal", "entropy", "oov", "ngram"):
            assert [row[f"{measure}_{name}"] for row in both] == [row[measure] for row in rows]
        assert [row["word"] for row in both] == [row["word"] for row in rows]
    alone = lmtk.surprisal(FILES / "wb.arpa", lines[:3])
    assert [row["surprisal_wb"] for row in both[-len(alone) :]] == [row["surprisal"] for row in alone]


def test_models_in_memory_have_numbers():
    model = lmtk.load(FILES / "wb.arpa")
    (first, *_) = lmtk.surprisal([model, model], ["the cat"])
    assert first["surprisal_1"] == first["surprisal_2"]


@pytest.mark.parametrize("name", ["items.tsv", "ITEMS.TSV"])
def test_columns_of_a_table_are_kept(tmp_path, name):
    table = tmp_path / name
    table.write_text("condition\tstimulus\titem\na\tthe cat | sat\tx\nb\ta dog\ty\n")
    rows = lmtk.surprisal(FILES / "wb.arpa", table, column="stimulus", region_separator="|")
    values = [(row["item"], row["condition"], row["sentence"], row["region"], row["word"]) for row in rows]
    assert values[:4] == [
        ("x", "a", 1, 1, "the"),
        ("x", "a", 1, 1, "cat"),
        ("x", "a", 1, 2, "sat"),
        ("x", "a", 1, None, "</s>"),
    ]
    assert values[4:] == [("y", "b", 2, 1, "a"), ("y", "b", 2, 1, "dog"), ("y", "b", 2, None, "</s>")]
    with pytest.raises(FormatError, match="the header has no column 'sentence'"):
        lmtk.surprisal(FILES / "wb.arpa", table)
    with pytest.raises(UsageError, match="model must be"):
        lmtk.surprisal(3, table)


def test_a_surprisal_of_0_has_no_sign():
    (word, end) = lmtk.surprisal(lmtk.estimate(["a a a"], 1, ("add", 0), unk=False), ["a"])
    assert np.copysign(1, word["surprisal"]) == 1 and end["word"] == "</s>"
