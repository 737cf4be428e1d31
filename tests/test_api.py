"""lmtk from Python: the interface of lmtk.load, KenLM's figures, and the README's examples."""

import copy
import gc
import inspect
import json
import math
import os
import pickle
import random
import re
import sys
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import FILES, TESTS, in_process
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import models

import lmtk
from lmtk.api import FEW, Model
from lmtk.arguments import run_of
from lmtk.errors import FormatError, LmtkError, LmtkWarning, UsageError
from lmtk.files import bounded
from lmtk.jobs.editing import EditJob
from lmtk.jobs.mixing import MixJob
from lmtk.machine import blas, threads
from lmtk.ngram.counting import collection
from lmtk.reports import kenlm

KENLM = (TESTS / "cases/ppl/kenlm-words/out").read_text().splitlines()
SENTENCES = (FILES / "te.txt").read_text().splitlines()


def test_a_job_with_bounded_memory_does_not_bound_later_jobs(large_from, monkeypatch):
    large_from(1)
    monkeypatch.setattr(collection, "whole_size", lambda *_: 1 << 60)
    lmtk.estimate(FILES / "tr.txt", fallback=(0.5, 1, 1.5), memory=64 << 20)
    assert bounded.bound is None and threads.wanted is None


@pytest.fixture
def model():
    return lmtk.load(FILES / "wb.arpa")


@pytest.mark.parametrize("i", range(len(SENTENCES)))
def test_scores_are_kenlms(model, i):
    """What `query` prints of each sentence: prob, length, OOV of each word, and their sum."""
    *words, total = KENLM[i].split("\t")
    expected = [tuple(word.rpartition("=")[2].split(" ")) for word in words]
    actual = list(model.full_scores(SENTENCES[i]))
    assert [(int(n), kenlm.shortest_digits(np.float32(p))) for p, n, _ in actual] == [
        (int(n), p) for _, n, p in expected
    ]
    assert [oov for *_, oov in actual] == [number == "0" for number, *_ in expected]
    assert kenlm.shortest_digits(np.float32(model.score(SENTENCES[i]))) == total.split(" ")[1]


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


@pytest.mark.parametrize("sentence", [*SENTENCES, "", "the cat saw"])
def test_perplexity_is_kenlms_to_the_last_bit(model, sentence):
    assert model.perplexity(sentence) == 10.0 ** (-model.score(sentence) / (len(sentence.split()) + 1))


def test_perplexity_can_be_too_large_for_a_float(tmp_path):
    (tmp_path / "unlikely.arpa").write_text("\\data\\\nngram 1=2\n\n\\1-grams:\n-400 a\n-400 </s>\n\n\\end\\\n")
    assert lmtk.Model(tmp_path / "unlikely.arpa").perplexity("a a") == math.inf


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


def test_half_a_surrogate_pair_becomes_the_replacement_character():
    """UTF-8 cannot write it. \udc80 to \udcff stand for bytes that are not UTF-8."""
    model = lmtk.estimate(["\ud800 the", "\udce9"], order=1, smoothing="wb")
    assert {b"\xef\xbf\xbd", b"\xe9"} < set(model.vocab.words)
    assert model.score("\udfff the") == model.score("\ufffd the") == model.score_many(["\udfff the"])[0]


def test_errors(tmp_path):
    with pytest.raises(OSError):
        lmtk.load(tmp_path / "nothing")
    (tmp_path / "text").write_text("no model")
    with pytest.raises(FormatError):
        lmtk.load(tmp_path / "text")


@pytest.mark.parametrize("unk", [False, True])
def test_every_kind_of_model(tmp_path, unk):
    """The probabilities of all words sum to one through this door too, and an unknown word is an OOV."""
    from helpers import HELD, TRAIN

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
    text = kenlm.shortest_digits(x)
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
def test_estimate_is_ngram_count(tmp_path, large_from, smoothing, large):
    """The file that its `write` makes has the bytes of `ngram-count -sort -lm`, whatever the text comes as."""
    large_from(1 << 40)  # the command's way is that of small jobs
    text, vocab = FILES / "words.txt", ["a", "b", "the", "of", "one"]
    (tmp_path / "vocab").write_text("\n".join(vocab))
    command = ["ngram-count", "-text", text, "-unk", "-interpolate", "-discount-fallback", "0.5", "1", "1.5"]
    command += ["-gt2min", "2", "-vocab", tmp_path / "vocab", "-sort", "-lm", tmp_path / "lm"]
    assert in_process(tmp_path, *command, *SMOOTHINGS[smoothing])[0] == 0
    large_from(large)
    wanted, lines = (tmp_path / "lm").read_bytes(), text.read_text().splitlines(True)
    for sentences in (str(text), text, lines, (line.strip().encode() for line in lines)):
        model = lmtk.estimate(sentences, 3, smoothing, vocab=vocab, minimum=[1, 2], fallback=(0.5, 1, 1.5))
        model.write(tmp_path / "mine.arpa")
        assert (tmp_path / "mine.arpa").read_bytes() == wanted
    model.write(tmp_path / "mine.bin", format="binary")
    assert lmtk.load(tmp_path / "mine.bin").score("one of the") == model.score("one of the")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"order": 0}, "order must be a whole number from 1 to 99, not 0"),
        ({"smoothing": "x"}, "smoothing 'x' does not exist; choose one of gt, wb, n, cd, add, ukn, kn"),
        ({"smoothing": "cd"}, 'only "cd" and "add" take a number, and they need it'),
        ({"smoothing": ("kn", 0.7)}, 'only "cd" and "add" take a number, and they need it'),
        ({"minimum": []}, "minimum must be a count, or a list with a count for each order, not []"),
        ({"fallback": (0.5,)}, "fallback must be the three numbers D1, D2 and D3+, not (0.5,)"),
        ({"text": []}, "the text: no words in it"),
        (
            {"text": ["one\ntwo"]},
            "Kneser-Ney discounts (n1 = 3, n2 = 0, n3 = 0, n4 = 0); add fallback=",
        ),
        ({"text": ["one\ntwo"], "kenlm": True}, "add fallback=(0.5, 1, 1.5)"),
    ],
)
def test_what_cannot_be_estimated(wrong, why):
    with pytest.raises(LmtkError, match=re.escape(why)):
        lmtk.estimate(**{"text": FILES / "words.txt"} | wrong)


def test_other_models_are_not_written_from_python(tmp_path):
    with pytest.raises(TypeError, match=r"not models of the class Network; lmtk\.train"):
        lmtk.load(FILES / "old" / "plain").write(tmp_path / "m")
    lmtk.load(FILES / "wb.arpa").write(tmp_path / "probing", "kenlm-probing")
    with pytest.raises(TypeError, match="this model does not store the words of n-grams; give the ARPA file"):
        lmtk.load(tmp_path / "probing").write(tmp_path / "m")


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


def examples():
    """(where they stand, the Python code) of the examples that lmtk-python(7) and help(lmtk) show."""
    page = (TESTS.parent / "man" / "lmtk-python.7").read_text()
    blocks = re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed", page, re.MULTILINE | re.DOTALL)
    yield "page", "\n".join(block for block in blocks if not block.startswith("$ "))
    for name in ["lmtk", *lmtk.FUNCTIONS]:
        text = inspect.getdoc(lmtk if name == "lmtk" else getattr(lmtk, name))
        if code := "\n".join(line[4:] for line in text.splitlines() if line.startswith("    ")):
            yield name, code


@pytest.fixture(scope="module")
def files_of_examples(tmp_path_factory):
    """A folder with the files that the examples read."""
    sentencepiece = pytest.importorskip("sentencepiece")
    folder = tmp_path_factory.mktemp("examples")
    chosen = random.Random(1)
    words = ["the", "a", *(f"w{i}" for i in range(60))]
    line = lambda: " ".join(words[int(chosen.paretovariate(0.7)) % len(words)] for _ in range(6))
    train, held = ("".join(line() + "\n" for _ in range(lines)) for lines in (500, 40))  # enough for Kneser-Ney
    for name, text in (("train.txt", train), ("valid.txt", held), ("test.txt", held), ("pool.txt", train)):
        (folder / name).write_text(text)
    (folder / "words.txt").write_text("\n".join([*sorted(set(train.split())), "<unk>"]))
    (folder / "docs.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in held.splitlines()))
    (folder / "en-fr.bin").write_bytes((FILES / "old" / "nmt").read_bytes())
    model = lmtk.estimate(folder / "train.txt", fallback=(0.5, 1, 1.5))
    for name in ("model.arpa", "model.lm", "kn.arpa", "news.arpa", "talks.arpa", "big.arpa.gz"):
        model.write(folder / name)
    for name in ("news.bin", "domain.bin", "general.bin", "en.bin"):
        model.write(folder / name, format="binary")
    options = {"vocab_size": 60, "hard_vocab_limit": False, "minloglevel": 2}
    pieces = str(folder / "en.sp")
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(train.splitlines()), model_prefix=pieces, **options)
    lmtk.train(folder / "train.txt", folder / "nplm.bin", unk=True, hidden=5, features=5, epochs=1)
    return folder


def test_the_examples_for_python_run(files_of_examples, monkeypatch):
    monkeypatch.chdir(files_of_examples)
    shown = dict(examples())
    assert len(shown) > 8
    for code in shown.values():
        exec(code, {"lmtk": lmtk, "texts": SENTENCES, "batch": [SimpleNamespace(text=text) for text in SENTENCES]})
    called = {name for name in lmtk.__all__ if f"lmtk.{name}(" in shown["page"]}
    assert called >= {"load", *lmtk.FUNCTIONS} and ".next_words(" in shown["page"]


@pytest.mark.parametrize("name", ["wb.arpa", "unk.arpa"])
@pytest.mark.parametrize("large", [1, 1 << 40])
def test_states_and_many_sentences_give_the_same_numbers(large_from, name, large):
    """BaseScore word by word, score with numba and without, score_many of texts and of ids: one number."""
    large_from(large)
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
    for starts in ([0, 3, 2, 3], [0, 2, 30], [-1, 2], [0.0, 2.0], [[0, 2], [2, 3]]):
        with pytest.raises(ValueError, match="starts must be ascending whole numbers from 0 to 3, "):
            model.score_many((np.array([1, 2, 3]), starts))
    assert len(model.score_many((np.array([1, 2, 3]), []))) == 0


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint32, np.uint64])
def test_word_ids_and_their_starts_may_be_of_any_whole_type(model, kind):
    ids, starts = np.array([1, 2, 3, 4]), np.array([0, 2, 3, 4])
    expected = model.score_many((ids, starts)).tolist()
    assert model.score_many((ids.astype(kind), starts.astype(kind))).tolist() == expected


def test_a_method_keeps_the_arrays_of_its_model():
    model, state = lmtk.Model(FILES / "wb.arpa"), lmtk.State()
    model.BeginSentenceWrite(state)
    before = [model.BaseScore(state, "the", lmtk.State()) for _ in range(2 * FEW)]
    memory, base_score = weakref.ref(model.lm.nodes.memory), model.BaseScore
    del model
    gc.collect()
    assert memory() is not None and base_score(state, "the", lmtk.State()) == before[0]


def test_a_large_model_is_loaded_with_its_tables(large_from):
    """So the first call need not make them."""
    for size, is_ready in ((1 << 40, False), (1, True)):
        large_from(size)
        for model in (lmtk.load(FILES / "wb.arpa"), lmtk.Model(FILES / "wb.arpa")):
            assert ("_table" in vars(model)) is is_ready


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
    from helpers import HELD, TRAIN

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
        (_, _, _), (p, _, _) = model.full_scores("<s> the", bos=False, eos=False)  # <s> as a word of the sentence
        assert p == pytest.approx(model.score("the", eos=False), abs=1e-6)


def test_what_is_no_state_is_said():
    model = lmtk.load(FILES / "unk.arpa")
    for call in (model.BaseScore, model.BaseFullScore):
        for states in ((None, lmtk.State()), (lmtk.State(), None)):
            with pytest.raises(TypeError, match=r"expected an lmtk\.State, not NoneType"):
                call(states[0], "a", states[1])
    for call in (model.BeginSentenceWrite, model.NullContextWrite):
        with pytest.raises(TypeError, match=r"expected an lmtk\.State, not types\."):
            call(SimpleNamespace(nodes=()))
    with pytest.raises(TypeError, match="not supported between"):
        assert lmtk.State() < 5


@pytest.mark.parametrize("nodes", [1 << 32 | 1000, 1 << 32 | 0xFFFFFFFF, 2 << 32 | 1000, 90 << 32 | 1, -1, -1 << 63])
def test_a_state_of_a_larger_model_is_an_error(model, nodes):
    state = lmtk.State()
    state.nodes = nodes
    for call in (model.BaseScore, model.BaseFullScore):
        with pytest.raises(ValueError, match="the State belongs to another model"):
            call(state, "the", lmtk.State())


def test_a_state_with_an_unknown_id_is_an_error(tmp_path):
    model, state = lmtk.train(["a b", "b a"], tmp_path / "nplm", epochs=1, order=3), lmtk.State()
    state.nodes = (1000, 1)
    with pytest.raises(ValueError, match="the State belongs to another model"):
        model.BaseScore(state, "a", lmtk.State())


def run_lmtk(folder, *words):
    """Runs a command in a folder; its stdout, and the line on stderr if it fails."""
    status, out, err = in_process(folder, *words)
    return out.decode() if status == 0 else err.partition(": ")[2].rstrip("\n")


def assert_same_file(model, path, tmp_path):
    """The file of a Model has the bytes of a command's file."""
    model.write(tmp_path / "from-python")
    assert (tmp_path / "from-python").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("in_memory", [False, True])
def test_prune_is_ngram_prune(tmp_path, in_memory):
    run_lmtk(tmp_path, "ngram", "-lm", FILES / "wb.arpa", "-prune", "0.01", "-minprune", "3", "-write-lm", "pruned")
    model = lmtk.load(FILES / "wb.arpa") if in_memory else FILES / "wb.arpa"
    before = model.score("the cat") if in_memory else None
    assert sum(lmtk.prune(model, prune_to=20).lm.sizes) <= 20
    small = lmtk.prune(model, 0.01, minprune=3)
    assert_same_file(small, tmp_path / "pruned", tmp_path)
    assert not in_memory or model.score("the cat") == before
    assert sum(small.lm.sizes) < sum(lmtk.load(FILES / "wb.arpa").lm.sizes)


@pytest.mark.parametrize("in_memory", [False, True])
def test_merge_is_ngram_mix_lm(tmp_path, in_memory):
    paths = FILES / "wb.arpa", FILES / "uni.arpa"
    words = ["-lm", paths[0], "-mix-lm", paths[1], "-lambda", "0.3", "-renorm", "-write-lm", "merged"]
    run_lmtk(tmp_path, "ngram", *words)
    models = list(map(lmtk.load, paths)) if in_memory else paths
    assert_same_file(lmtk.merge(models, [0.3], renorm=True), tmp_path / "merged", tmp_path)


def test_mix_is_mix(tmp_path):
    paths, held = (FILES / "wb.arpa", FILES / "uni.arpa"), FILES / "te.txt"
    run_lmtk(tmp_path, "mix", "-lm", paths[0], "-lm", paths[1], "-heldout", held, "-write", tmp_path / "mixed")
    mixed = lmtk.load(tmp_path / "mixed")
    sentences = held.read_text().splitlines()
    for parts, heldout in ((paths, held), (map(lmtk.load, paths), sentences)):
        learned = lmtk.mix(parts, heldout=heldout)
        assert learned.score("the cat saw") == mixed.score("the cat saw")
    assert lmtk.mix(paths, [0.5]).lm.weights.tolist() == [[0.5, 0.5]]
    assert lmtk.mix(paths, [0.1, 0.9], write=tmp_path / "given").lm.weights.tolist() == [[0.1, 0.9]]
    assert lmtk.load(tmp_path / "given").score("the") == lmtk.mix(paths, [0.1, 0.9]).score("the")
    with pytest.raises(LmtkError, match="first write the models to files"):
        lmtk.mix(map(lmtk.load, paths), write=tmp_path / "none")


def test_classes_are_those_of_ngram_class(tmp_path):
    run_lmtk(tmp_path, "ngram-class", "-text", FILES / "tr.txt", "-numclasses", "4", "-classes", "c")
    rows = [line.split() for line in (tmp_path / "c").read_text().splitlines()]
    wanted = {row[-1]: row[0] for row in rows}
    sentences = (FILES / "tr.txt").read_text().splitlines()
    assert lmtk.classes(FILES / "tr.txt", 4) == lmtk.classes(sentences, 4) == wanted


def test_perplexity_is_that_of_ppl(tmp_path):
    model, text = FILES / "wb.arpa", FILES / "te.txt"
    report = run_lmtk(tmp_path, "ppl", "-lm", model, "-text", text)
    for lm in (model, lmtk.load(model)):
        for sentences in (text, text.read_text().splitlines()):
            p = lmtk.perplexity(lm, sentences)
            assert f"{p.sentences} sentences, {p.words} words, {p.oovs} OOVs" in report
            assert f"{p.zeroprobs} zeroprobs, logprob= {p.log10p:.7g} ppl= {p.ppl:.7g} ppl1= {p.ppl1:.7g}" in report
    assert math.isnan(lmtk.perplexity(model, []).ppl)
    assert lmtk.perplexity(model, ["THE CAT"], tolower=True).oovs == 0
    assert lmtk.Model(FILES / "wb.arpa").perplexity("the cat") == pytest.approx(lmtk.perplexity(model, ["the cat"]).ppl)


def test_a_list_of_sentences_has_the_words_of_a_file(tmp_path):
    """Of Python's blanks, only space, tab and the ends of lines separate words."""
    sentences, words = ["a\vb\tc\f", "c\f a\vb d"], ["a\vb", "c\f"]
    (tmp_path / "text").write_bytes("\n".join(sentences).encode())
    (tmp_path / "words").write_bytes("\n".join(words).encode())
    for text, vocab in ((sentences, words), (tmp_path / "text", tmp_path / "words")):
        model = lmtk.estimate(text, 1, "wb", vocab=vocab)
        assert {*model.vocab.words} == {b"a\vb", b"c\f", b"<s>", b"</s>", b"<unk>"}
        assert str(lmtk.perplexity(model, text)) == str(lmtk.perplexity(model, tmp_path / "text"))


def test_a_vocabulary_is_a_list_or_a_word_list(tmp_path):
    words, listed = ["cat", "dog", "the"], tmp_path / "words"
    listed.write_text("cat\ndog\nthe\n")
    for vocab in (words, listed):
        model = lmtk.estimate(FILES / "tr.txt", smoothing="wb", vocab=vocab)
        network = lmtk.train(FILES / "tr.txt", tmp_path / "net", vocab=vocab, unk=True, hidden=3, features=3, epochs=1)
        assert {*model.vocab.words} == {*network.vocab.words} == {b"cat", b"dog", b"the", b"<s>", b"</s>", b"<unk>"}


def test_numbers_and_arrays_of_numpy_are_taken(tmp_path):
    text, one = FILES / "tr.txt", np.int64(1)
    model = lmtk.estimate(text, np.int32(2), minimum=np.array([1, 1]), fallback=np.array([0.5, 1, 1.5]))
    assert model.lm.sizes == lmtk.estimate(text, 2, fallback=(0.5, 1, 1.5)).lm.sizes
    assert lmtk.estimate(text, 2, "wb", gtmin_n={one: one}, memory=one << 26).lm.sizes == model.lm.sizes
    options = {"hidden": np.int32(3), "features": one, "epochs": one, "rate": np.float32(0.5), "order": np.int8(3)}
    assert lmtk.train(text, tmp_path / "net", **options).order == 3


def test_a_list_of_words_is_lowered_and_may_repeat_words():
    model = lmtk.estimate(FILES / "tr.txt", 2, "wb", vocab=["The", "cat", b"the", "cat"], tolower=True)
    assert {*model.vocab.words} == {b"the", b"cat", b"<s>", b"</s>", b"<unk>"} and model.order == 2


def test_train_is_nplm_train(tmp_path):
    text, held = FILES / "tr.txt", FILES / "te.txt"
    words = ["-text", text, "-heldout", held, "-unk", "-hidden", 4, "-features", 3, "-epochs", 2]
    run_lmtk(tmp_path, "nplm-train", *words, "-lm", "net")
    how = {"unk": True, "hidden": 4, "features": 3, "epochs": 2}
    model = lmtk.train(text, tmp_path / "mine", heldout=held, **how)
    net = lmtk.load(tmp_path / "net")
    assert (model.order, model.vocab.words) == (net.order, net.vocab.words)
    assert model.score("the cat") == pytest.approx(net.score("the cat"), rel=1e-4)  # BLAS may add in another order


def test_a_thread_can_train(tmp_path):
    with ThreadPoolExecutor(1) as pool:
        model = pool.submit(lmtk.train, FILES / "tr.txt", tmp_path / "m", hidden=2, features=2, epochs=1).result()
    assert model.order == 8


def test_jobs_leave_the_threads_of_numpy_alone():
    before = blas.product_threads()
    blas.set_threads(2)
    lmtk.perplexity(WB, ["a b"])
    assert blas.product_threads() in (2, None)
    blas.set_threads(before)


def test_jobs_of_several_threads_leave_the_process_as_it_was():
    """Whichever of them ends first."""
    state = lambda: (warnings.showwarning, bounded.bound, threads.wanted, blas.product_threads())
    before, first, second = state(), *(run_of(EditJob, {"lm": str(WB), "keep": True}, {}) for _ in range(2))
    with second:
        first.__enter__()
        threads.use(3)
    assert threads.wanted == 3
    first.__exit__(None, None, None)
    assert state() == before


def test_a_program_without_stdin_and_stderr_can_call_functions(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert lmtk.load(FILES / "wb.arpa").order == 3
    model = lmtk.estimate(FILES / "tr.txt", 2, fallback=(0.5, 1, 1.5))
    assert lmtk.score_documents(model, ["the cat"], min=0, debug=1).kept.all()
    assert sys.stderr is None


def test_warnings_of_threads_have_the_names_of_their_functions():
    warn = lambda: warnings.warn("-lm is odd", LmtkWarning, stacklevel=1)
    with pytest.warns(LmtkWarning) as caught, run_of(EditJob, {"lm": str(WB), "keep": True}, {}, {"lm": "model"}):
        with run_of(MixJob, {"lm": (str(WB),)}, {}, {"lm": "models"}), ThreadPoolExecutor(1) as pool:
            warn()
            pool.submit(lmtk.prune, WB, 5).result()
        warn()
    messages = [str(warning.message) for warning in caught]
    assert messages[0] == "models is odd" and messages[-1] == "model is odd" and "threshold takes" in messages[1]


def test_a_pickled_model_is_found_from_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(FILES)
    pickled = [pickle.dumps(load("wb.arpa")) for load in (lmtk.load, lmtk.Model)]
    monkeypatch.chdir(tmp_path)
    assert {pickle.loads(model).path for model in pickled} == {os.fsencode(FILES / "wb.arpa")}


def test_a_surprisal_table_is_written_too(tmp_path):
    rows = lmtk.surprisal(WB, ["the cat"], write=tmp_path / "table")
    assert [line.split("\t")[0] for line in (tmp_path / "table").read_text().splitlines()] == [
        "item",
        *["1"] * len(rows),
    ]


def test_a_pool_from_a_pipe_is_selected_from(tmp_path):
    os.mkfifo(tmp_path / "pool")
    text = (FILES / "tr.txt").read_bytes()
    with ThreadPoolExecutor(1) as pool:
        pool.submit((tmp_path / "pool").write_bytes, text)
        selected = lmtk.select(tmp_path / "pool", [WB, FILES / "uni.arpa"], 2)
    assert selected == lmtk.select(FILES / "tr.txt", [WB, FILES / "uni.arpa"], 2)


def test_translate_is_translate(tmp_path):
    sentences = ["a b", "", "c a"]
    (tmp_path / "text").write_text("a b\n\nc a\n")
    model = FILES / "old" / "nmt"
    for more, options in (([], {}), (["-n-best", "2"], {"n_best": 2})):
        wanted = run_lmtk(tmp_path, "translate", "-model", model, "-text", "text", "-beam", 3, *more).split("\n")[:-1]
        assert lmtk.translate(model, sentences, beam=3, **options) == wanted
        assert lmtk.translate([model], tmp_path / "text", beam=3, **options, write=tmp_path / "out") == wanted
        assert (tmp_path / "out").read_text().split("\n")[:-1] == wanted


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda f: lmtk.prune(f / "wb.arpa", 0.1, limit_vocab=True), "ngram -lm wb.arpa -prune 0.1 -limit-vocab"),
        (lambda f: lmtk.merge([f / "wb.arpa", f / "uni.arpa"], [2]), "ngram -lm wb.arpa -mix-lm uni.arpa -lambda 2"),
        (lambda f: lmtk.mix([f / "wb.arpa"], [0.5, 0.5, 0]), "mix -lm wb.arpa -lambda 0.5 0.5 0"),
        (lambda f: lmtk.classes(f / "te.txt", 2, save=3), "ngram-class -text te.txt -numclasses 2 -save 3"),
        (lambda f: lmtk.perplexity(f / "wb.arpa", [], format="x"), "ppl -lm wb.arpa -text te.txt -format x"),
        (lambda f: lmtk.select(f / "te.txt", ["a", "b"], 1.5), "select -text te.txt -lm a b -keep 1.5"),
        (lambda f: lmtk.train(f / "te.txt", "m", tied=True), "nplm-train -text te.txt -lm m -tied"),
        (lambda f: lmtk.translate("m", [], mbr=3, n_best=2), "translate -model m -mbr 3 -n-best 2"),
        (lambda f: lmtk.estimate(f / "te.txt", maxent=True, kenlm=True), "ngram-count -text te.txt -maxent -kenlm"),
        (lambda f: lmtk.estimate(f / "te.txt", kenlm=True, stream=True), "ngram-count -text te.txt -kenlm -stream"),
    ],
)
def test_errors_are_those_of_the_commands(call, words):
    """But for the names of options, which are Python's."""
    with pytest.raises(UsageError) as error:
        call(FILES)
    more = ["-lm", "/dev/null"] if "ngram-count" in words else []
    python = lambda option: "weights" if option[1] == "lambda" else option[1].replace("-", "_")
    assert re.sub(r"(?<!\w)-([a-z-]+)", python, run_lmtk(FILES, *words.split(), *more)) == str(error.value)


WB, UNI = FILES / "wb.arpa", FILES / "uni.arpa"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lmtk.mix([]), "models is empty; give at least one model"),
        (lambda: lmtk.merge([]), "models is empty; give at least one model"),
        (lambda: lmtk.merge([WB]), "models has one model; give at least two"),
        (lambda: lmtk.mix(WB), "models must be a list of models, not "),
        (lambda: lmtk.mix([WB, 3]), "a model in models must be the name of a file or a Model, not 3"),
        (
            lambda: lmtk.mix([WB, UNI], "te.txt"),
            "weights must be a list of numbers, not 'te.txt'; give a held-out text as heldout='te.txt'",
        ),
        (lambda: lmtk.mix([WB, UNI], 0.5), "weights must be a list of numbers, not 0.5"),
        (lambda: lmtk.mix([WB, UNI], [0.5, "a"]), "weights must be a list of numbers, not [0.5, 'a']"),
        (lambda: lmtk.mix([WB], iterations="x"), "iterations must be a whole number, not 'x'"),
        (lambda: lmtk.mix([WB, FILES / "unk.arpa"]), "make both models with the same vocab and unk, or use lmtk.merge"),
        (lambda: lmtk.prune(WB, "x"), "threshold must be a number, not 'x'"),
        (lambda: lmtk.prune(WB), "give a threshold, or the option prune_to=N for at most N n-grams"),
        (lambda: lmtk.estimate("no such file"), "text is the name of a file, but 'no such file' does not exist; "),
        (lambda: lmtk.perplexity(WB, ["a b"], format="kenlm"), "leave out format, escape and counts"),
        (lambda: lmtk.perplexity(WB, ["a b"], counts=["counts"]), "leave out format, escape and counts"),
        (lambda: lmtk.score_documents(WB, ["a b"], reverse=True), "documents cannot be combined with reverse"),
        (lambda: lmtk.score_documents(WB, ["2 b"], text_has_weights=True), "combined with text_has_weights"),
        (lambda: lmtk.merge([WB, FILES / "uni.arpa"], bayes=2), "they do not make a back-off model"),
        (lambda: lmtk.merge([WB, FILES / "uni.arpa"], prune=[1e-9, 1e-8]), "one model is wanted; give one value of"),
        (lambda: lmtk.prune(3, 1e-7), "model must be the name of a file or a Model, not 3"),
        (lambda: lmtk.prune(WB, 1e-7, mix_lm="x"), "mix_lm must be a list of strings, not 'x'"),
        (lambda: lmtk.estimate(5), "text must be the name of a file or a list of sentences, not 5"),
        (lambda: lmtk.estimate(["a b", 3]), "text must have sentences as str or bytes, not 3"),
        (lambda: lmtk.estimate(["a b"], "3"), "order must be a whole number from 1 to 99, not '3'"),
        (lambda: lmtk.estimate(["a b"], vocab=3), "vocab must be a list of words or the name of a word list, not 3"),
        (
            lambda: lmtk.estimate(["a b"], minimum="x"),
            "minimum must be a count, or a list with a count for each order, not 'x'",
        ),
        (lambda: lmtk.estimate(["a b"], gtmax_n=3), "gtmax_n must be a dictionary from orders to whole numbers, not 3"),
        (
            lambda: lmtk.estimate(["a b"], smoothing=("cd", 2)),
            "the parameter of smoothing takes a number from 0 to 1, not 2",
        ),
        (lambda: lmtk.estimate(["a b"], minimum=-1), "minimum must be a count, or a list with a count for each order"),
        (lambda: lmtk.estimate(["a b"], fallback=(3, 4, 5)), "fallback takes up to three discounts: D1 from 0 to 1, "),
        (lambda: lmtk.estimate(["a b"], vocab="the a b"), "'the a b' does not exist; give words as a list"),
        (lambda: lmtk.estimate(sources=[["a b"]]), "sources needs heldout=FILE"),
        (lambda: lmtk.score_documents(WB, "the cat"), "'the cat' does not exist; give texts as a list"),
        (lambda: lmtk.train(["a b"], "m", dropout=2.0), "dropout takes a number from 0 to 0.99, not 2.0"),
        (lambda: lmtk.perplexity(WB, 3), "text must be the name of a file or a list of sentences, not 3"),
        (lambda: lmtk.perplexity(WB, [], tolower="x"), "tolower must be True or False, not 'x'"),
        (lambda: lmtk.perplexity(WB, [], tolower=np.ones(2)), "tolower must be True or False, not array([1., 1.])"),
        (lambda: lmtk.classes(["a b"], "x"), "number must be a whole number, not 'x'"),
        (lambda: lmtk.classes(["a b"], 0), "number takes a whole number of at least 2, not"),
        (
            lambda: lmtk.select(["a b", "b"], [WB, FILES / "uni.arpa"], 3),
            "the text: it has 2 sentences, and keep is 3; give at most 2",
        ),
        (lambda: lmtk.perplexity(WB, ["a"], dynamic=True), "dynamic needs a model of nplm-train"),
        (lambda: lmtk.train(["a b"], 3), "path must be the name of a file, not 3"),
        (lambda: lmtk.train(["a b"], "-", epochs=1), "path must be the name of a file, not '-'"),
        (
            lambda: lmtk.train(["a b"], "m", heldout=3),
            "heldout must be the name of a file or a list of sentences, not 3",
        ),
        (lambda: lmtk.train(["a b"], "m", patience=3), "patience needs heldout"),
        (lambda: lmtk.translate(3, []), "model must be the file of a translation model, or a list of files, not 3"),
        (lambda: lmtk.estimate(["a b"], 10**30), "order must be a whole number from 1 to 99, not 1000"),
        (lambda: lmtk.estimate(["a b"], smoothing=[]), "smoothing [] does not exist"),
        (lambda: lmtk.estimate(["a b"], unk="no"), "unk must be True or False, not 'no'"),
        (lambda: lmtk.estimate(["a b"], unk=np.ones(2)), "unk must be True or False, not array([1., 1.])"),
        (lambda: lmtk.estimate(["a b"], memory=-5), "memory must be above 0, not -5"),
        (lambda: lmtk.estimate(["a b"], vocab=["a", "a b"]), "vocab must have words without blanks, not 'a b'"),
        (lambda: lmtk.estimate(["a b"], vocab=[""]), "vocab must have words without blanks, not ''"),
        (lambda: lmtk.estimate(["a b"], vocab=[1]), "vocab must have words as str or bytes, not 1"),
        (lambda: lmtk.mix([WB, UNI], heldout=[]), "the held-out text: the models predict none of its words"),
        (
            lambda: lmtk.train(["a b"], "m", ["c"], no_eos=True, epochs=1, hidden=2, features=2),
            "the held-out text: none of its words is in the vocabulary",
        ),
        (lambda: lmtk.prune(WB, prune_to_size=1000), "prune_to_size needs exactly one model file, such as write_bin="),
        (lambda: lmtk.prune(WB, 1e-7, keep=False), "keep is set by the other arguments of this function; leave it out"),
        (lambda: lmtk.prune(WB, 1e-7, prune_to=9), "prune_to cannot be combined with threshold"),
        (
            lambda: lmtk.estimate(["a b"], smoothing="gt", heldout=["a"]),
            'interpolated Kneser-Ney smoothing only; add smoothing="kn" interpolate',
        ),
        (
            lambda: lmtk.mix([lmtk.estimate([text], 1, "wb") for text in ("a -pau-", "a -b-")]),
            "2 words are in only one of them (-b-, -pau-)",
        ),
        (lambda: lmtk.estimate(["a b"], vocab=""), "vocab got an empty value"),
        (lambda: lmtk.prune(WB, 1e-7, write_lm=""), "write_lm got an empty value"),
        (lambda: lmtk.estimate(["a b"], gtmin_n={0: 2}), "gtmin_n must be a dictionary from orders to numbers, not {0"),
        (lambda: lmtk.translate("m", 3), "text must be the name of a file or a list of sentences, not 3"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(LmtkError, match=re.escape(message)):
        call()


def test_warnings_have_the_names_of_python(monkeypatch):
    with pytest.warns(LmtkWarning, match="train the model with unk or kenlm") as caught:
        lmtk.score_documents(WB, ["x"])
    assert caught[0].filename == __file__
    with pytest.warns(LmtkWarning, match=re.escape("convert it: iconv -f latin1 -t utf-8")):
        lmtk.perplexity(WB, [b"caf\xe9"])
    monkeypatch.setattr("lmtk.ngram.mass.is_far_from_text", lambda model: True)
    with pytest.warns(LmtkWarning, match=re.escape("; prune in lmtk.estimate(prune=...), or add prune_history_lm")):
        lmtk.prune(WB, 1e-6)


def test_numpys_warnings_are_not_shown():
    with warnings.catch_warnings(), pytest.raises(LmtkError, match="too small to be summed"):
        warnings.simplefilter("error")
        lmtk.merge([WB, UNI], [1e6, -1e6], loglinear_mix=True)


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("smooting", "; did you mean 'smoothing'?"),
        ("gt3min", "; did you mean gtmin_n={3: ...}?"),
        ("wbdiscount1", "; did you mean wbdiscount_n=[1]?"),
        ("x", ""),
    ],
)
def test_unknown_options_have_hints(option, hint):
    with pytest.raises(TypeError, match=re.escape(f"unknown option '{option}'{hint}") + "$"):
        lmtk.estimate(["a b"], **{option: 2})
    with pytest.raises(TypeError, match="unknown option 'lambda_'; did you mean 'weights'"):
        lmtk.merge([WB, UNI], lambda_=[1])


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: lmtk.prune(WB, 1e-8, prune=[1e-6]), "'prune'; did you mean 'threshold'?"),
        (lambda: lmtk.prune(WB, 1e-8, lm="x"), "'lm'; did you mean 'model'?"),
        (lambda: lmtk.merge([WB, UNI], mix_lm=["x"]), "'mix_lm'; did you mean 'models'?"),
        (lambda: lmtk.merge([WB, UNI], [0.5], weight=[0.9]), "'weight'; did you mean 'weights'?"),
        (lambda: lmtk.mix([WB, UNI], [0.5], weight=[0.9]), "'weight'; did you mean 'weights'?"),
        (lambda: lmtk.estimate(["a b"], gtmin=2), "'gtmin'; did you mean 'minimum'?"),
        (
            lambda: lmtk.estimate(["a b"], smoothing="gt", wbdiscount=True),
            "'wbdiscount'; did you mean 'smoothing=\"wb\"'",
        ),
        (lambda: lmtk.estimate(["a b"], discount_fallback=(0, 0, 0)), "'discount_fallback'; did you mean 'fallback'?"),
    ],
)
def test_an_option_does_not_override_an_argument(call, hint):
    with pytest.raises(TypeError, match=re.escape(f"unknown option {hint}")):
        call()


def test_the_minimum_of_one_order_leaves_those_of_others():
    sizes = lambda **options: lmtk.estimate(FILES / "tr.txt", smoothing="wb", **options).lm.sizes
    assert sizes(gtmin_n={3: 2})[:2] == sizes()[:2] and sizes(gtmin_n={2: 2})[2] == sizes()[2]
    assert sizes(minimum=2, gtmin_n={2: 1, 3: 1}) == sizes()


def test_unknown_options_are_errors():
    for call in (lmtk.estimate, lambda text, **how: lmtk.prune(FILES / "wb.arpa", 0.1, **how)):
        with pytest.raises(TypeError, match="unknown option 'ordre'; did you mean 'order'"):
            call(FILES / "te.txt", ordre=3)
