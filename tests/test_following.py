"""The next word: the probabilities of all words after contexts, for every kind of model."""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers import FILES
from small_models import models, neural, of_classes

import lmtk
from lmtk.api import Model, State
from lmtk.jobs.following import SampleJob, random_sentences
from lmtk.joint.dynamic import Cached, LogLinear
from lmtk.joint.mixture import Mixture
from lmtk.lm import after_by_scores, after_each, scores_of
from lmtk.text.corpus import Corpus
from lmtk.text.vocab import SOS, make_vocab

CONTEXTS = ["", "the", "the cat", "the zebra sat on", "on the mat the dog saw"]


def every_kind(folder):
    yield lmtk.load(FILES / "wb.arpa").lm
    yield lmtk.load(FILES / "lacking.arpa").lm
    yield lmtk.load(FILES / "kenlm" / "probing").lm
    yield of_classes(folder)
    yield neural(folder, model="energy", direct=False)
    yield from (made := list(models(folder)))
    yield Mixture([made[0], made[3], made[-1]], np.array([[0.2, 0.3, 0.5]]))


def ids_of(model, context, bos=True):
    index, unk = model.vocab.index, model.vocab.unk_id
    return [index[SOS]] * bos + [index.get(word, unk) for word in context.encode().split()]


def test_all_words_have_the_probabilities_of_their_sentences(texts):
    """All at once, and for several contexts at once, for each kind of model."""
    for model in every_kind(texts):
        for bos in (True, False):
            contexts = [ids_of(model, context, bos) for context in CONTEXTS]
            expected = [after_by_scores(model, context) for context in contexts]
            assert np.allclose(np.exp(after_each(model, contexts)), np.exp(expected), rtol=1e-5, atol=1e-9)


def test_states_go_on_as_sentences(texts):
    """scores after advance are those of BaseScore; next_words and distribution are their largest and all."""
    for lm in every_kind(texts):
        model, V = Model(lm), lm.vocab.V
        words = [lm.vocab.words[w] for w in range(V)]
        states, single = model.states(3), [State() for _ in range(3)]
        for state in single:
            model.BeginSentenceWrite(state)
        for step in (["the", "a", "cat"], ["cat", "dog", "sat"], ["on", "zebra", "on"]):
            states = model.advance(states, [ids_of(lm, word, False)[0] for word in step])
            for state, word in zip(single, step):
                model.BaseScore(state, word, state)
        scores = model.scores(states)
        assert scores.shape == (3, V) and scores.dtype == np.float32
        for state, row in zip(single, scores):
            expected = [model.BaseScore(state, word, State()) for word in words]
            assert np.allclose(row, np.maximum(expected, -99), rtol=1e-5, atol=1e-5)
        p = model.distribution("the cat on")
        assert p.shape == (V,) and p.sum() == pytest.approx(1, abs=1e-4)
        best = model.next_words("the cat on", 4)
        assert [x for _, x in best] == sorted([x for _, x in best], reverse=True) and len(best) <= 4
        assert all(p[lm.vocab.index[word.encode()]] == x for word, x in best)
        assert "<unk>" not in dict(best)


def test_wrong_numbers_of_words_are_refused():
    model = Model(FILES / "wb.arpa")
    with pytest.raises(ValueError, match="ids must lie between"):
        model.advance(model.states(1), [len(model.vocab.words)])
    with pytest.raises(ValueError, match="there are 2000 states and 1 ids; give an id for each state"):
        model.advance(model.states(2000), [1])
    for ids in (["the"], [1.5], [[1]]):
        with pytest.raises(ValueError, match="ids must be a list of whole numbers"):
            model.advance(model.states(1), ids)


def test_states_of_no_model_are_refused():
    model = Model(FILES / "wb.arpa")
    for number in (-5, 3, 1 << 32 | 10**6, 9 << 32, 2**62 + 7):
        with pytest.raises(ValueError, match="states must be an array that states"):
            model.scores(np.array([number]))
    for states in ([1 << 32], np.array([1.0]), np.array([[0]])):
        with pytest.raises(ValueError, match="states must be an array that states"):
            model.advance(states, [1])
    with pytest.raises(ValueError, match="size must be a whole number of states, not -1"):
        model.states(-1)


def test_samples_have_the_frequencies_of_the_model():
    """Of the words after "the", and of sharpened probabilities; sentences do not depend on their number."""
    model = Model(FILES / "wb.arpa")
    for temperature in (1, 0.5):
        job = SampleJob("wb", temperature=temperature, most=1)
        drawn = [
            s.split()[1] if len(s.split()) > 1 else b"</s>"
            for s in random_sentences(model._follower, iter([b"the"] * 4000), job)
        ]
        p = model.distribution("the") ** (1 / temperature)
        if model.vocab.unk_id < len(p):
            p[model.vocab.unk_id] = 0
        p /= p.sum()
        counts = np.array([drawn.count(word) for word in model.vocab.words[: len(p)]])
        assert ((counts - 4000 * p) ** 2 / np.maximum(4000 * p, 1)).sum() < 40
    few, many = (list(random_sentences(model._follower, iter([b""] * n), SampleJob("wb"))) for n in (3, 70))
    assert many[:3] == few and len(set(many)) > 20


def test_a_part_of_a_mixture_may_lack_unk(tmp_path):
    """It gives <unk> the probability 0, in distributions as in scores."""
    for name, unk in (("a", ["-unk"]), ("b", [])):
        lmtk.estimate(FILES / "tr.txt", 2, "wb", vocab=["the", "cat", "dog"], unk=bool(unk)).write(tmp_path / name)
    a, b = (lmtk.load(tmp_path / name).lm for name in "ab")
    model = Mixture([a, b], np.array([[0.5, 0.5]]))
    ids = [[model.vocab.index[b"the"]], [model.vocab.index[b"cat"], model.vocab.unk_id]]
    expected = [after_by_scores(model, context) for context in ids]
    assert np.allclose(np.exp(after_each(model, ids)), np.exp(expected), rtol=1e-5)


def test_a_unigram_cache_counts_words_of_large_texts():
    """The products of words and places are above 2^31."""
    vocab = make_vocab([b"%d" % i for i in range(60_000)], False)
    one = SimpleNamespace(vocab=vocab, order=1, score=lambda corpus: scores_of("x", np.full(len(corpus.ids), -9.0)))
    ids = np.random.default_rng(1).integers(0, 60_000, 90_000).astype(np.int32)
    corpus = Corpus(ids, np.array([0, len(ids)]), np.ones(len(ids), bool))
    (_, shares, _), _ = Cached(one, 50_000, 0.5).score(corpus).more
    for i in (1, 7, 40_000, 89_999):
        assert shares[i] == (ids[max(i - 50_000, 0) : i] == ids[i]).sum() / min(i, 50_000)


def test_the_order_of_a_mixtures_models_does_not_matter():
    """Also if only one of them predicts <unk>."""
    parts = [lmtk.estimate(FILES / "tr.txt", order, "wb", unk=order == 2) for order in (2, 3)]
    for ordered in (parts, parts[::-1]):
        mixed = lmtk.mix(ordered, [0.5])
        p = mixed.distribution("the")
        assert p.sum() == pytest.approx(1, abs=1e-6)
        both = [model.distribution("the")[model.vocab.index[b"dog"]] for model in ordered]
        assert p[mixed.vocab.index[b"dog"]] == pytest.approx(sum(both) / 2)
        assert p[mixed.vocab.unk_id] == pytest.approx(parts[0].distribution("the")[parts[0].vocab.unk_id] / 2)
        assert p[mixed.vocab.unk_id] == pytest.approx(10 ** list(mixed.full_scores("the zebra", eos=False))[1][0])


def arpa(path, p):
    """The model with these probabilities of 1-grams, in a file."""
    lines = [f"{np.log10(x)}\t{word}\n" for word, x in p.items()]
    path.write_text(f"\\data\\\nngram 1={len(p)}\n\n\\1-grams:\n{''.join(lines)}\n\\end\\\n")
    return lmtk.load(path)


def test_the_parts_of_a_mixture_may_lack_different_marks(tmp_path):
    """One has </s>, the other <unk>."""
    parts = [
        arpa(tmp_path / "a", {"a": 0.75, "</s>": 0.25}),
        arpa(tmp_path / "b", {"a": 0.75, "<unk>": 0.25}),
    ]
    for ordered in (parts, parts[::-1]):
        mixed = lmtk.mix(ordered, [0.5])
        p = dict(zip(mixed.vocab.words, mixed.distribution("a").round(6).tolist()))
        assert p == {b"a": 0.75, b"</s>": 0.125, b"<unk>": 0.125}


def test_the_parts_of_a_product_may_lack_different_marks(tmp_path):
    """A word that only one of them predicts has the probability 0."""
    every = arpa(tmp_path / "a", {"a": 0.5, "b": 0.125, "</s>": 0.25, "<unk>": 0.125}).lm
    some = arpa(tmp_path / "b", {"a": 0.5, "b": 0.5}).lm
    for ordered in ([every, some], [some, every]):
        model = LogLinear(ordered, [1, 1])
        p = dict(zip(model.vocab.words, np.exp(model.after(np.array([model.vocab.index[b"a"]]))).round(6).tolist()))
        assert {word: x for word, x in p.items() if x} == {b"a": 0.8, b"b": 0.2}
