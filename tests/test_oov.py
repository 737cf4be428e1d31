"""Words unseen in training: against plain loops, their sum, and where their features land."""

import math

import naive
import numpy as np
import pytest
from small_models import SENTENCES, neural

from lmtk.files.decoding import blocks
from lmtk.nplm import oov, training
from lmtk.text.corpus import Marks, contexts, corpora, whole_corpus
from lmtk.text.vocab import make_vocab

OPEN = (
    "the zebra sat on the zebra\nzebra zebra yak saw\n\nthe cat saw a yak\nthe gnu sat\na yak saw the zebra\nthe cat\n"
)


def scored(model, path, marks=SENTENCES):
    """(the opened model, ids, ln p, the contexts) of a text's scored tokens."""
    opened, parts = oov.OpenNetwork(model), []
    for corpus in corpora(blocks(str(path)), model.vocab, marks, model.order, index=opened.index):
        rows = model.padded(contexts(corpus, model.order))
        parts.append([x[corpus.scored] for x in (corpus.ids, opened.score(corpus).logp, rows)])
    return opened, *map(np.concatenate, zip(*parts))


def assert_is_twin(twin, letters, model, rows, ids, logp):
    """The plain loops `twin` give each word its p, and all words together 1."""
    arrays = [getattr(model.theta, name) for name in letters]
    theta = [None if a is None else a.astype(float).tolist() for a in arrays]
    expected = twin(*theta, rows.tolist(), ids.tolist())
    assert np.exp(logp) == pytest.approx([p for p, _ in expected], rel=1e-5)
    assert [total for _, total in expected] == pytest.approx([1] * len(ids))


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("unk", [False, True])
@pytest.mark.parametrize("rows", [2, 2048])
def test_new_words_are_those_of_plain_loops(texts, monkeypatch, direct, unk, rows):
    monkeypatch.setattr(oov, "ROWS", rows)
    monkeypatch.setattr(oov, "COLUMNS", 4)
    model = neural(texts, unk=unk, direct=direct)
    (texts / "open").write_text(OPEN)
    opened, ids, logp, contexts_ = scored(model, texts / "open")
    assert opened.vocab.words == [*model.vocab.words, b"zebra", b"yak", b"gnu"]
    assert opened.count.tolist() == [5, 3, 1]
    assert_is_twin(naive.open_vocabulary, "CHdUWb", model, contexts_, ids, logp)


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("unk", [False, True])
@pytest.mark.parametrize("rows", [2, 2048])
def test_new_words_of_the_energy_network_are_those_of_plain_loops(texts, monkeypatch, each, unk, rows):
    monkeypatch.setattr(oov, "ROWS", rows)
    monkeypatch.setattr(oov, "COLUMNS", 4)
    model = neural(texts, unk=unk, model="energy", direct=False, target_weights=each)
    (texts / "open").write_text(OPEN)
    opened, ids, logp, contexts_ = scored(model, texts / "open")
    assert opened.count.tolist() == [5, 3, 1]
    assert_is_twin(naive.open_energy, "CHdvb", model, contexts_, ids, logp)


@pytest.mark.parametrize("unk", [False, True])
@pytest.mark.parametrize("end", [0, 1, 4, 7, 12])
def test_the_enlarged_vocabulary_sums_to_one(texts, unk, end):
    """After the same words each known word, each that has joined, and one new one."""
    model = neural(texts, marks=Marks(False, False, True), unk=unk)
    words = OPEN.split()[:end]
    in_vocab = {w.decode() for w in model.vocab.words[: model.vocab.V]}
    total = 0
    for word in sorted(in_vocab | set(words) | {"never"}):
        (texts / "one").write_text(" ".join([*words, word]))
        total += math.exp(scored(model, texts / "one", Marks(False, False, True))[2][-1])
    assert total == pytest.approx(1, abs=2e-6)


def test_without_new_words_one_is_expected_all_the_same(texts):
    """p of the words of training falls by the share of a new word: e^-entropy to 1."""
    model = neural(texts, unk=True)
    (texts / "one").write_text("the cat sat")
    _, ids, logp, rows = scored(model, texts / "one")
    theta = [model.named()[name].astype(float).tolist() for name in "CHdUWb"]
    for i, row, actual in zip(ids, rows, logp, strict=True):
        p, _, _ = naive.forward(*theta, row.tolist())
        share = math.exp(sum(v * math.log(v) for v in p))
        assert math.exp(actual) == pytest.approx(p[i] / (1 + share), rel=1e-5)


def grammar(animals, sentences=400):
    random = np.random.default_rng(1)
    food, verbs = ["bread", "corn", "rice", "soup"], ["eats", "wants", "finds"]
    pick = lambda words: words[random.integers(len(words))]
    return [f"the {pick(animals)} {pick(verbs)} some {pick(food)} today" for _ in range(sentences)]


def test_a_word_in_20_contexts_of_another_lands_near_what_it_stands_for(tmp_path):
    animals = ["cat", "dog", "horse", "cow"]
    (tmp_path / "train").write_text("\n".join(grammar(animals)))
    (tmp_path / "new").write_text("\n".join(grammar(["wug"], 20)))
    made = training.Settings(3, 8, 6, False, 0.02, None, 1e-4, 2, 16, 6, 6, 1)
    vocab = make_vocab(sorted(set((tmp_path / "train").read_bytes().split())), True, True)
    data = training.make_examples(whole_corpus(str(tmp_path / "train"), vocab, Marks()), vocab, 3, None)
    progress = training.Progress(training.initial_network(vocab, made, data.w))
    for _ in training.train(progress, data, made, 1):
        pass
    opened = scored(progress.best, tmp_path / "new")[0]
    assert opened.count.tolist() == [20]
    C, wug = progress.best.C[: vocab.V], opened.F[0, :6]
    cosine = C @ wug / np.linalg.norm(C, axis=1) / np.linalg.norm(wug)
    nearest = [vocab.words[i].decode() for i in np.argsort(-cosine)]
    assert set(nearest[:4]) == set(animals)


def test_blocks_of_a_text_are_one_text(texts, monkeypatch, large_from):
    model = neural(texts, unk=True)
    (texts / "open").write_text(OPEN * 3)
    _, ids, logp, _ = scored(model, texts / "open")
    from lmtk.files import decoding
    from lmtk.text import corpus

    monkeypatch.setattr(corpus, "blocks", lambda path, **how: decoding.blocks(path, 30, **how))
    large_from(1, "text")
    _, again, actual, _ = scored(model, texts / "open")
    assert (again == ids).all() and actual == pytest.approx(logp, abs=1e-5)
