"""lmtk from Python: the interface of lmtk.load, KenLM's figures, and the README's examples."""

import copy
import math
import os
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
from helpers import ENVIRONMENT, FILES, TESTS
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import models

import lmtk
from lmtk.api import Model
from lmtk.errors import FormatError, LmtkError
from lmtk.machine.large import LARGE
from lmtk.ngram.estimate.methods import Method
from lmtk.reports import kenlm

KENLM = (TESTS / "cases/ppl/kenlm-words/out").read_text().splitlines()
SENTENCES = (FILES / "te.txt").read_text().splitlines()


@pytest.fixture
def model():
    return lmtk.load(FILES / "wb.arpa")


@pytest.mark.parametrize("i", range(len(SENTENCES)))
def test_scores_are_kenlms(model, i):
    """What `query` prints of each sentence: prob, length, OOV of each word, and their sum."""
    *words, total = KENLM[i].split("\t")
    expected = [tuple(word.rpartition("=")[2].split(" ")) for word in words]
    found = list(model.full_scores(SENTENCES[i]))
    assert [(int(n), kenlm.shortest(np.float32(p))) for p, n, _ in found] == [(int(n), p) for _, n, p in expected]
    assert [oov for *_, oov in found] == [number == "0" for number, *_ in expected]
    assert kenlm.shortest(np.float32(model.score(SENTENCES[i]))) == total.split(" ")[1]


def test_sentence_marks(model):
    sentence = "the cat saw"
    whole = [p for p, *_ in model.full_scores(sentence)]
    assert model.score(sentence) == pytest.approx(sum(whole), abs=1e-6)
    assert model.score(sentence, eos=False) == pytest.approx(sum(whole[:-1]), abs=1e-6)
    inside = list(model.full_scores(sentence, bos=False, eos=False))
    assert len(inside) == 3 and inside[0] == (pytest.approx(-0.7112045), 1, False)
    assert model.score("the cat saw </s>", eos=False) == model.score(sentence)
    assert model.score("", bos=False, eos=False) == 0
    assert list(model.full_scores("", bos=False, eos=False)) == []


def test_perplexity_counts_the_sentence_end(model):
    assert model.perplexity("the cat saw") == pytest.approx(10 ** (-model.score("the cat saw") / 4))


def test_words_and_order(model):
    assert "the" in model and b"the" in model and "</s>" in model and "<s>" in model
    assert "zebra" not in model and "<unk>" not in model
    assert model.order == 3 and len(model.vocab.words) == 12
    assert "<unk>" not in lmtk.load(FILES / "unk.arpa")
    assert repr(model) == "<Backoff model of order 3 from wb.arpa>"
    with pytest.raises(TypeError):
        model.score(["the", "cat"])


def test_bytes_blanks_and_unknown_words(model):
    assert model.score(b" the\tcat \n") == model.score("the cat")
    (_, length, oov), _ = model.full_scores("\udcff")
    assert (length, oov) == (1, True)
    unknown = lmtk.load(FILES / "unk.arpa")
    (p, length, oov), *_ = unknown.full_scores("zebra")
    assert (length, oov) == (2, True) and p == pytest.approx(-0.7781513)


def test_errors(tmp_path):
    with pytest.raises(OSError):
        lmtk.load(tmp_path / "nothing")
    (tmp_path / "text").write_text("no model")
    with pytest.raises(FormatError):
        lmtk.load(tmp_path / "text")


@pytest.mark.parametrize("unk", [False, True])
def test_every_kind_of_model(tmp_path, unk):
    """The probabilities of all words sum to one through this door too, and an unknown word is an OOV."""
    from test_models import HELD, TRAIN

    (tmp_path / "train").write_text(TRAIN)
    (tmp_path / "held").write_text(HELD)
    for inside in models(tmp_path, unk=unk):
        model = Model(inside)
        for start in ("", "the", "a cat", "the zebra"):
            words = [w.decode() for w in model.vocab.words[: model.vocab.V]]
            sums = [list(model.full_scores(f"{start} {w}", eos=False))[-1][0] for w in words]
            assert sum(10**p for p in sums) == pytest.approx(1, abs=2e-6)
        for word, (p, length, oov) in zip(["the", "zebra", "cat"], model.full_scores("the zebra cat", eos=False)):
            assert oov == (word == "zebra") == (word not in model)
            assert 1 <= length <= model.order
            assert p == -100 if oov and not unk else -5 < p < 0


@settings(max_examples=300)
@given(st.floats(width=32) | st.integers(-50, 50).map(lambda e: 10.0**e))
def test_shortest_digits(x):
    """They give the number back, and no shorter ones do; written plainly from 1e-6 up to 1e21."""
    with np.errstate(over="ignore"):
        x = np.float32(x)
    text = kenlm.shortest(x)
    if not np.isfinite(x):
        assert text in ("NaN", "inf", "-inf")
        return
    assert np.float32(text) == x and math.copysign(1, float(text)) == math.copysign(1, x)
    digits = re.sub("e.*|[-.]", "", text).strip("0")
    assert len(digits) < 2 or np.float32(f"{x:.{len(digits) - 2}e}") != x
    assert ("e" in text) == bool(x and not 1e-6 <= abs(np.float64(x)) < 1e21) or abs(x) == np.float32(1e-6)
    assert "+" not in text


SMOOTHINGS = {
    "kn": ["-kndiscount"],
    "ukn": ["-ukndiscount"],
    "gt": [],
    "wb": ["-wbdiscount"],
    "n": ["-ndiscount"],
    ("cd", 0.7): ["-cdiscount", "0.7"],
    ("add", 0.1): ["-addsmooth", "0.1"],
}


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("large", [1, 1 << 40])
def test_estimate_is_ngram_count(tmp_path, monkeypatch, smoothing, large):
    """The file that its `write` makes has the bytes of `ngram-count -sort -lm`, whatever the text comes as."""
    monkeypatch.setitem(LARGE, "ngrams", large)
    text, vocab = FILES / "words.txt", ["a", "b", "the", "of", "one"]
    (tmp_path / "vocab").write_text("\n".join(vocab))
    command = ["ngram-count", "-text", text, "-unk", "-interpolate", "-discount-fallback", "0.5", "1", "1.5"]
    command += ["-gt2min", "2", "-vocab", tmp_path / "vocab", "-sort", "-lm", tmp_path / "lm"]
    ran = [sys.executable, "-m", "lmtk", *map(str, command + SMOOTHINGS[smoothing])]
    subprocess.run(ran, env=ENVIRONMENT, check=True, capture_output=True)
    wanted, lines = (tmp_path / "lm").read_bytes(), text.read_text().splitlines(True)
    for sentences in (str(text), text, lines, (line.strip().encode() for line in lines)):
        model = lmtk.estimate(sentences, 3, smoothing, vocab=vocab, minimum=[1, 2], fallback=(0.5, 1, 1.5))
        model.write(tmp_path / "mine.arpa")
        assert (tmp_path / "mine.arpa").read_bytes() == wanted
    model.write(tmp_path / "mine.bin", binary=True)
    assert lmtk.load(tmp_path / "mine.bin").score("one of the") == model.score("one of the")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"order": 0}, "an order of 1 or more is wanted, not 0"),
        ({"smoothing": "x"}, "no method 'x'; there are gt, wb, n, cd, add, ukn, kn"),
        ({"smoothing": "cd"}, "have a parameter, and they want it"),
        ({"smoothing": ("kn", 0.7)}, "have a parameter, and they want it"),
        ({"minimum": []}, "minimum is a number, or one for each order"),
        ({"fallback": (0.5,)}, "fallback is D1, D2 and D3+"),
        ({"vocab": "the"}, "vocab is a list of words, not a text"),
        ({"text": []}, "the text: no words in it"),
        ({"text": ["one\ntwo"]}, "no Kneser-Ney discounts for order 1"),
    ],
)
def test_what_cannot_be_estimated(wrong, why):
    with pytest.raises((ValueError, LmtkError), match=re.escape(why)):
        lmtk.estimate(**{"text": FILES / "words.txt"} | wrong)


def test_other_models_are_not_written_from_python(tmp_path):
    with pytest.raises(TypeError, match="expected a back-off model to write, not a Network"):
        lmtk.load(FILES / "old" / "plain").write(tmp_path / "m")


def test_the_readmes_examples(tmp_path, monkeypatch):
    """What the README shows of Python runs, and gives what its comments say."""
    section = (TESTS.parent / "README.md").read_text().split("## In Python\n")[1].split("\n## ")[0]
    code = "\n".join(line[4:] for line in section.splitlines() if line.startswith("    "))
    (tmp_path / "wb.arpa").write_bytes((FILES / "wb.arpa").read_bytes())
    for name, source in (("train.txt", "tr.txt"), ("valid.txt", "te.txt")):
        (tmp_path / name).write_bytes((FILES / source).read_bytes())
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(code, names)
    shown = re.findall(r"^(model\..*?|mine\.score.*?|\".*?)  +# (.*)$", code, re.MULTILINE)
    assert len(shown) >= 4
    for expression, comment in shown:
        assert repr(eval(expression, names)).startswith(comment.split(" ")[0].rstrip(".,:")), expression


@pytest.mark.parametrize("name", ["wb.arpa", "unk.arpa"])
@pytest.mark.parametrize("large", [1, 1 << 40])
def test_states_and_many_sentences_give_the_same_numbers(monkeypatch, name, large):
    """BaseScore word by word, score with numba and without, score_many of texts and of ids: one number."""
    monkeypatch.setitem(LARGE, "ngrams", large)
    random = np.random.default_rng(1)
    model = lmtk.Model(os.fsencode(FILES / name))
    words = [w.decode() for w in model.vocab.words if w not in (b"<s>", b"</s>")] + ["zebra", "<unk>", "<UNK>"]
    lines = [" ".join(random.choice(words, random.integers(0, 9))) for _ in range(50)]
    lines += ["", "\tthe\x0ccat\n sat", "\udcff", "the " * 5000]
    for bos, eos in ((True, True), (False, True), (True, False), (False, False)):
        expected = []
        for line in lines:
            state, total = lmtk.State(), np.float32(0)
            (model.BeginSentenceWrite if bos else model.NullContextWrite)(state)
            for word, (p, length, oov) in zip(line.split() + ["</s>"] * eos, model.full_scores(line, bos, eos)):
                before, after = copy.copy(state), lmtk.State()
                full = model.BaseFullScore(state, word, after)
                assert (full.log_prob, full.ngram_length, full.oov) == (p, length, oov)
                assert model.BaseScore(state, word, state) == p  # in and out may be the same
                assert state == after and hash(state) == hash(after) and before is not state
                total += np.float32(p)
            expected.append(float(total))
        assert [model.score(line, bos, eos) for line in lines] == expected
        assert model.score_many(lines, bos, eos).tolist() == expected
        assert model.score_many(map(str.encode, lines[:40]), bos, eos).tolist() == expected[:40]
        ids = [[model.vocab.index.get(w.encode(), model.vocab.unk_id) for w in x.split()] for x in lines[:40]]
        starts = np.cumsum([0, *map(len, ids)])
        pair = np.concatenate(ids).astype(np.int32), starts
        capitals = [i for i in range(40) if "<UNK>" not in lines[i]]
        assert model.score_many(pair, bos, eos)[capitals].tolist() == [expected[i] for i in capitals]
    assert model.score_many([]).tolist() == []
    with pytest.raises(ValueError):
        model.score_many((np.array([len(model.vocab.words)]), np.array([0, 1])))


def test_states_are_equal_where_nothing_else_can_follow():
    model, states = lmtk.Model(FILES / "wb.arpa"), {}
    for text in ("zebra the", "dog zebra the", "the zebra the"):
        state = lmtk.State()
        model.NullContextWrite(state)
        for word in text.split():
            model.BaseScore(state, word, state)
        states[text] = state
    assert len(set(states.values())) == 1 and states["zebra the"] == states["the zebra the"]
    begin, null = lmtk.State(), lmtk.State()
    model.BeginSentenceWrite(begin), model.NullContextWrite(null)
    assert begin != null and copy.deepcopy(begin) == begin
    assert model.BaseScore(begin, "the", lmtk.State()) != model.BaseScore(null, "the", lmtk.State())


def test_the_names_of_kenlms_module(tmp_path):
    from lmtk import kenlm_module

    assert all(getattr(lmtk, name) is getattr(kenlm_module, name) for name in kenlm_module.__all__)
    config = lmtk.Config()
    config.load_method, config.arpa_complain = lmtk.LoadMethod.LAZY, lmtk.ARPALoadComplain.NONE
    model = lmtk.LanguageModel(FILES / "wb.arpa", config)
    assert model.path == os.path.abspath(os.fsencode(FILES / "wb.arpa"))
    assert pickle.loads(pickle.dumps(model)).score("the cat") == model.score("the cat")
    with pytest.raises(OSError, match="Cannot read model"):
        lmtk.Model(os.fsencode(TESTS / "conftest.py"))
    with pytest.raises(OSError):
        lmtk.Model(str(tmp_path / "nothing"))
    with pytest.raises(AttributeError):
        getattr(lmtk, "Nothing")  # noqa: B009


def test_other_models_have_states_too(tmp_path):
    from test_models import HELD, TRAIN

    (tmp_path / "train").write_text(TRAIN)
    (tmp_path / "held").write_text(HELD)
    for inside in models(tmp_path, unk=True):
        model, state, total = Model(inside), lmtk.State(), np.float32(0)
        model.BeginSentenceWrite(state)
        for word in ("the", "zebra", "cat", "</s>"):
            p = model.BaseScore(state, word, state)
            total += np.float32(p)
        assert float(total) == pytest.approx(model.score("the zebra cat"), abs=1e-5)
        many = model.score_many(["the zebra cat", "", "the"])
        assert many[0] == pytest.approx(model.score("the zebra cat"), abs=1e-5)


def test_what_is_no_state_and_no_method_is_said():
    model = lmtk.load(FILES / "unk.arpa")
    for call in (model.BaseScore, model.BaseFullScore):
        for states in ((None, lmtk.State()), (lmtk.State(), None)):
            with pytest.raises(TypeError, match="expected a State, not NoneType"):
                call(states[0], "a", states[1])
    with pytest.raises(ValueError, match="no method 'kneser'; there are"):
        Method("kneser")
