"""Log-linear interpolation: the product of the models' probabilities, summed over the vocabulary in plain loops."""

import numpy as np
import pytest
from helpers import HELD, random_model, set_large

import lmtk
from lmtk.errors import LmtkError, LmtkWarning, UsageError
from lmtk.joint import loglinear
from lmtk.lm import after
from lmtk.ngram.edit.prune import prune
from lmtk.text.corpus import Marks, whole_corpus


def product(models, vocab, weights, context):
    """p of each predicted word of `vocab` after a context of words: the normalized product of all models. A word that a
    model lacks has the 1-gram probability of <unk> times the back-off weights, or 1e-99 times those.
    """
    total = np.zeros(vocab.V)
    for model, weight in zip(models, weights):
        index, words = model.vocab.index, model.vocab
        begin = max([i + 1 for i, word in enumerate(context) if word not in index], default=0)
        ids = [index[word] for word in context[begin:]]
        logp = after(model, ids)
        # the product of the back-off weights, from the p of a word that follows no context
        first = after(model, [])
        lonely = weights_after(model, ids)
        unknown = first[words.unk_id] if words.predicts(words.unk) else -99 * np.log(10)
        values = [logp[index[w]] if words.predicts(w) else unknown + lonely for w in vocab.words[: vocab.V]]
        total += weight * np.array(values)
    p = np.exp(total)
    return p / p.sum()


def weights_after(model, ids):
    """ln of the product of the back-off weights of all suffixes of a context."""
    total = 0.0
    for begin in range(max(len(ids) - model.order + 1, 0), len(ids)):
        rows, _, log10bow = model.ngrams(len(ids) - begin)
        place = np.flatnonzero((rows == ids[begin:]).all(axis=1))
        total += log10bow[place].sum() * np.log(10)
    return total


def models_of(seed, **more):
    """Two or three random models with n-grams of different orders and words."""
    random = np.random.default_rng(seed)
    kinds = [("abcde", 3), ("abc", 2), ("bcdef", 4)][: int(random.integers(2, 4))]
    unk = bool(random.integers(2)) if "unk" not in more else more["unk"]
    models = [random_model(seed + 100 * i, order, words, unk, False) for i, (words, order) in enumerate(kinds)]
    return [prune(model, 0.01) if random.integers(2) else model for model in models], random


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.filterwarnings("ignore::lmtk.errors.LmtkWarning")
def test_probabilities_are_normalized_products(seed, monkeypatch):
    set_large(monkeypatch, 1 if seed % 2 else 1 << 40)
    models, random = models_of(seed, unk=True)
    weights = random.uniform(-0.3, 1.5, len(models))
    united = loglinear.unite_models(models, ["x"] * len(models))
    model = loglinear.interpolate(united, weights)
    index = model.vocab.index
    for _ in range(30):
        context = [b"<s>"] * int(random.integers(2))
        context += [bytes([97 + int(i)]) for i in random.integers(0, 6, random.integers(0, 4))]
        context = [word for word in context if word in index]
        p = np.exp(after(model, [index[word] for word in context]))
        assert p.sum() == pytest.approx(1, abs=2e-5)
        np.testing.assert_allclose(p, product(models, model.vocab, weights, context), rtol=2e-4, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_models_of_the_same_words_with_one_weight_stay(seed):
    models = [random_model(seed, holes=False), random_model(seed + 50, holes=False)]
    model = loglinear.interpolate(loglinear.unite_models(models, ["x", "y"]), [1, 0])
    for context in ([], [1], [2, 3], [model.vocab.sos_id, 4]):
        np.testing.assert_allclose(after(model, context), after(models[0], context), rtol=1e-4, atol=1e-4)


@pytest.fixture
def held(tmp_path):
    (tmp_path / "held").write_text("a b c\nb c d e\nc a\nx a b\nd d d\n" * 3)
    return str(tmp_path / "held")


@pytest.mark.parametrize("seed", range(4))
def test_derivatives_are_finite_differences(seed, held):
    models, random = models_of(seed, unk=True)
    united = loglinear.unite_models(models, ["x"] * len(models))
    needed = random.random(united.base[-2]) < 0.5
    sums, _ = loglinear.sums_of(united, needed)
    weights = random.uniform(0.1, 1, len(models))
    _, first, second = sums(weights)
    for i in range(len(weights)):
        change = np.eye(len(weights))[i] * 1e-5
        (up, up_first, _), (down, down_first, _) = sums(weights + change), sums(weights - change)
        np.testing.assert_allclose(first[:, i], (up - down) / 2e-5, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(second[:, i], (up_first - down_first) / 2e-5, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_tuned_weights_are_best_and_the_likelihood_is_that_of_the_model(seed, held):
    models, _ = models_of(seed, unk=True)
    united = loglinear.unite_models(models, ["x"] * len(models))
    weights, words, logp = loglinear.tune(united, whole_corpus(held, united.vocab, Marks()))
    figures = lambda weights: lmtk.perplexity(lmtk.Model(loglinear.interpolate(united, weights)), held)
    best = figures(weights)
    assert best.oovs == 0 and words == best.words + best.sentences
    assert best.ppl == pytest.approx(np.exp(-logp), rel=1e-4)
    for i in range(len(weights)):
        for change in (-0.05, 0.05):
            assert figures(weights + change * np.eye(len(weights))[i]).ppl > best.ppl * (1 - 1e-5)


def test_merge_of_python_interpolates(held, tmp_path, capsys):
    one, two = (lmtk.Model(random_model(seed, unk=True)) for seed in (1, 2))
    tuned = lmtk.merge([one, two], loglinear_mix=True, heldout=held)
    assert capsys.readouterr() == ("", "")
    lmtk.merge([one, two], loglinear_mix=True, heldout=held, debug=1)
    out, err = capsys.readouterr()
    assert out == "" and "non-oov words, best lambda (" in err
    weighted = lmtk.merge([one, two], (0.9, 0.9), loglinear_mix=True)
    assert lmtk.perplexity(tuned, held).ppl < lmtk.perplexity(weighted, held).ppl
    with pytest.raises(UsageError, match="heldout needs loglinear_mix"):
        lmtk.merge([one, two], heldout=held)


@pytest.mark.filterwarnings("ignore:model 2")
def test_a_model_without_unknown_words_causes_a_warning(tmp_path):
    (tmp_path / "held").write_text(HELD)
    models = lmtk.Model(random_model(1)), lmtk.Model(random_model(2, words="abcxy"))
    with pytest.warns(
        LmtkWarning, match="model 1: the model does not predict <unk>, so 2 words of the other models get"
    ):
        lmtk.merge(models, (0.5, 0.5), loglinear_mix=True)
    with pytest.raises(LmtkError, match="no word of it is in the models; is it the right text"):
        (tmp_path / "zeros").write_text("nothing known\n")
        lmtk.merge(models[:1] * 2, loglinear_mix=True, heldout=str(tmp_path / "zeros"), no_eos=True)


ARPA = """
\\data\\
ngram 1={}
ngram 2={}

\\1-grams:
{}

\\2-grams:
{}

\\end\\
"""


def hand_made(path, unigrams, bigrams):
    """The path of a model. unigrams, bigrams: lines with | in place of tabs."""
    sections = ("\n".join(line.replace("|", "\t") for line in lines) for lines in (unigrams, bigrams))
    path.write_text(ARPA.format(len(unigrams), len(bigrams), *sections))
    return str(path)


@pytest.mark.filterwarnings("ignore::lmtk.errors.LmtkWarning")
def test_weights_stay_where_sums_are_exact(tmp_path):
    """The weights of a text without typical words have no maximum: each step of the search goes farther."""
    unigrams = ["-1|</s>|0", "-99|<s>|-0.3", "-0.5|<unk>|-0.3", "-0.5|a|0", "-3|b|-0.3", "-3|c|0"]
    one = hand_made(tmp_path / "one", unigrams, ["-0.5|<unk> c", "-1|a </s>", "-0.7|b <unk>", "-0.7|c a"])
    two = hand_made(tmp_path / "two", ["-0.7|</s>", "-0.1|a|0", "-99|<s>|-0.64"], ["-0.6|a </s>", "-0.02|<s> a"])
    (tmp_path / "held").write_text("a\nc b\nb a a\na b\nc\n")
    model = lmtk.merge([one, two], loglinear_mix=True, heldout=str(tmp_path / "held")).lm
    for context in ([], [model.vocab.sos_id]):
        assert np.exp(after(model, context)).sum() == pytest.approx(1, abs=1e-5)


def test_sums_that_rounding_loses_are_an_error(tmp_path):
    """Of a sum of 1, all but 1e-18 is b, which is rare after a."""
    path = hand_made(tmp_path / "one", ["-3|</s>", "-99|<s>", "-3|a|0", "-0.001|b"], ["-3|a b"])
    models = loglinear.unite_models([lmtk.Model(path).lm] * 2, ["x", "y"])
    assert loglinear.interpolate(models, [0.5, 0.5]).sizes == [5, 1]
    with pytest.raises(LmtkError, match="too small to be summed; give smaller weights, or learn them on a longer"):
        loglinear.interpolate(models, [3, 3])


def test_no_probability_is_above_one(tmp_path):
    """Programs of KenLM refuse positive logarithms."""
    path = hand_made(tmp_path / "one", ["-30|</s>", "-99|<s>|0", "-0.3|a"], ["-0.3|<s> a"])
    models = loglinear.unite_models([lmtk.Model(path).lm] * 3, ["x"] * 3)
    for weights in np.random.default_rng(1).uniform(-1, 1, (50, 3)):
        assert all((log10p <= 0).all() for _, log10p, _ in map(loglinear.interpolate(models, weights).ngrams, (1, 2)))
