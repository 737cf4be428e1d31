"""Operations on back-off models: sums, pruning against its definition, merging against the exact mixture, sentences."""

import itertools
import math
import warnings

import naive
import numpy as np
import pytest
from helpers import FILES, random_model
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.edit import model_of

import lmtk
from lmtk.errors import LmtkError, LmtkWarning
from lmtk.files import registry
from lmtk.jobs.editing import EditJob
from lmtk.jobs.pruning import prune_model
from lmtk.joint.mixture import Mixture
from lmtk.lm import probability, vocabulary_sums
from lmtk.ngram.arpa.writer import write_text
from lmtk.ngram.edit import prune as pruning
from lmtk.ngram.edit.prune import prune
from lmtk.ngram.edit.renormalize import renormalize
from lmtk.ngram.edit.vocabulary import add_words, limit, merge, merge_in_turn
from lmtk.ngram.estimate.growing import grow
from lmtk.ngram.estimate.methods import ModifiedKneserNey
from lmtk.ngram.generation import make_chances, sentences
from lmtk.ngram.model.backoff import write_binary
from lmtk.ngram.model.walking import find_context_nodes
from lmtk.text.corpus import Corpus
from lmtk.text.corpus import sentences as corpus_of_rows
from lmtk.text.vocab import EOS, SOS, UNK, Vocab, make_vocab

LN10 = math.log(10)


def sums(model, tries=40):
    """The sums over the vocabulary after every context of the model, and after random ones."""
    W = len(model.vocab.words)
    rows = [row for k in range(1, model.order) for row in model.nodes.rows(k).tolist()]
    random = np.random.default_rng(0)
    rows += [*random.integers(0, W, (tries, model.order)).tolist(), []]
    ids = [i for row in rows for i in [*row, 0]]
    starts = np.cumsum([0, *(len(row) + 1 for row in rows)])
    corpus = Corpus(np.array(ids, np.int32), starts, np.zeros(len(ids), bool))
    return vocabulary_sums(model, corpus, starts[1:] - 1)


def entries(model):
    """{words: (log10 p, log10 bow)} of the n-grams that have a probability."""
    out = {}
    for k in range(1, model.order + 1):
        for ids, log10p, log10bow in zip(*(column.tolist() for column in model.ngrams(k))):
            if not math.isnan(log10p):
                out[tuple(model.vocab.words[i] for i in ids)] = (log10p, log10bow)
    return out


models = st.builds(
    random_model, st.integers(0, 9999), st.integers(1, 4), st.sampled_from(["ab", "abcde", "xyabc"]), st.booleans()
)
whole_models = st.builds(random_model, st.integers(0, 9999), st.integers(2, 4), unk=st.booleans(), holes=st.just(False))


def cut(model, words, unk=False):
    return renormalize(add_words(limit(model, words), words, unk))


@given(models, st.data())
def test_all_words_after_a_context_have_the_scores_of_sentences(model, data):
    context = np.array(data.draw(st.lists(st.integers(0, len(model.vocab.words) - 1), max_size=4)), np.int32)
    rows = np.column_stack((np.broadcast_to(context, (model.vocab.V, len(context))), np.arange(model.vocab.V)))
    L = len(context) + 1
    assert np.array_equal(model.after(context), model.score(corpus_of_rows(rows)).logp[L - 1 :: L])
    used = model.used(context)
    assert np.array_equal(model.after(context), model.after(context[len(context) - used :]))


@given(models, models, st.data())
def test_every_operation_leaves_sums_of_one(a, b, data):
    order = data.draw(st.integers(1, a.order))
    threshold = data.draw(st.sampled_from([0, 1e-6, 1e-3, 1e-2, 0.1, 10]))
    weight = data.draw(st.sampled_from([0, 0.1, 0.5, 1]))
    words = data.draw(st.lists(st.sampled_from([b"a", b"b", b"x", b"new"]), min_size=1, unique=True))
    for model in (
        a,
        a.lower(order),
        renormalize(a),
        prune(a, threshold, data.draw(st.integers(2, 3))),
        merge([a, b], [weight, 1 - weight]),
        merge_in_turn([a, b, a], [weight, 1 - weight, 0]),
        cut(a, words, data.draw(st.booleans())),
        prune(cut(merge([a, b], [weight, 1 - weight]), words), threshold),
    ):
        # a weight multiplies what rounding to single precision leaves of the mass of unseen words
        weights = [model.ngrams(k)[2] for k in range(1, model.order + 1)]
        largest = float(max(10 ** bow.max(initial=0) for bow in weights))
        assert sums(model) == pytest.approx(1, abs=1e-5 + 2e-7 * largest)
        assert not any(np.isposinf(bow).any() for bow in weights)


@given(whole_models, st.data())
def test_pruning_drops_what_costs_less_than_the_threshold(model, data):
    """Against the change in entropy summed over the whole vocabulary, one n-gram left out at a time."""
    whole, words = entries(model), model.vocab.words[: model.vocab.V]
    rise = {n: naive.prune_rise(whole, words, n) for n in whole if len(n) > 1}
    if not rise:
        return
    # a threshold that no n-gram is near to: the model's logs have seven digits
    steps = sorted(rise.values())
    between = [(a + b) / 2 for a, b in zip([0, *steps], [*steps, 1]) if b - a > max(0.01 * b, 1e-5)]
    if not between:
        return
    threshold = data.draw(st.sampled_from(between))
    kept = set(whole)
    for n in sorted(rise, key=len, reverse=True):
        context = any(other[:-1][-len(n) :] == n for other in kept if len(other) > len(n))
        if rise[n] < threshold and not context:
            kept.discard(n)
    assert set(entries(prune(model, threshold))) == kept


@given(whole_models, st.data())
def test_limits_say_what_every_threshold_leaves(model, data):
    """The n-grams of any threshold, and the lowest threshold for any number of n-grams."""
    whole, limits_of_orders = pruning.find_limits(model, data.draw(st.integers(2, 3)))
    limits = np.concatenate(limits_of_orders)
    thresholds = np.unique(limits[np.isfinite(limits)]).tolist()
    for threshold in thresholds[:: max(len(thresholds) // 5, 1)]:
        pruned = pruning.cut(whole, pruning.mark_kept(limits_of_orders, threshold))
        assert sum(pruned.sizes) == np.count_nonzero(limits >= np.float32(threshold))
    for most in range(len(limits) + 2):
        threshold = pruning.threshold_for(limits_of_orders, most)
        assert np.count_nonzero(limits >= threshold) <= most or threshold == np.inf
        assert most >= len(limits) or np.count_nonzero(limits >= np.nextafter(threshold, np.float32(-np.inf))) > most


@given(models, st.data())
def test_pruning_to_a_number_ends(model, data):
    """Also for models with bare prefixes, which stay with the n-grams that extend them."""
    most = data.draw(st.integers(1, sum(model.sizes) + 1))
    job = EditJob(lm="model", prune_to=most)
    try:
        pruned, _ = prune_model(job, job.model_files, model, None, None, False)
    except LmtkError:
        assert model.sizes[0] > most
    else:
        assert sum(pruned.sizes) <= most


@pytest.fixture(scope="module")
def discounts(tmp_path_factory):
    """(D1, D2 and D3+, a file that has them)."""
    path, D = tmp_path_factory.mktemp("discounts") / "kn", (0.4, 0.9, 1.3)
    path.write_text("".join(f"discount{name} {value}\n" for name, value in zip(("1", "2", "3+"), D)))
    return D, str(path)


texts = st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=9), min_size=1, max_size=9)
thresholds = st.sampled_from([1e-6, 1e-4, 1e-3, 3e-3, 0.01, 0.03, 1])


@given(texts, st.integers(1, 4), thresholds, st.integers(2, 3))
def test_kneser_ney_pruning_is_that_of_its_definition(discounts, text, order, threshold, minorder):
    """The n-grams that stay, their probabilities, and those of all words after all contexts, which sum to one."""
    D, path = discounts
    files = dict.fromkeys(range(1, order + 1), path)
    options = {"kn": files, "unk": False, "minprune": minorder, "prune_kneser": threshold}
    model = lmtk.estimate(list(map(" ".join, text)), order, **options).lm
    sentences = [[SOS, *(word.encode() for word in sentence), EOS] for sentence in text]
    words = model.vocab.words[: model.vocab.V]
    kept, p = naive.prune_kneser(sentences, order, D, [*words, SOS], threshold, minorder)
    pruned = entries(model)
    assert {*pruned} - {(SOS,)} == kept
    assert all(10 ** pruned[n][0] == pytest.approx(p(n[:-1], n[-1]), rel=1e-4) for n in kept)
    assert sums(model) == pytest.approx(1, abs=1e-5)
    for context in itertools.product([SOS, *words[1:]], repeat=order - 1) if order < 4 else ():
        ids = np.array([model.vocab.index[word] for word in context], np.int32)
        expected = [math.log(p(context, word)) for word in words]
        assert model.after(ids) == pytest.approx(expected, abs=1e-4)


@settings(max_examples=20, deadline=None)
@given(texts, st.integers(1, 60))
def test_kneser_ney_pruning_to_a_number(discounts, text, most):
    """At most so many n-grams stay, by the threshold that -debug prints; a threshold for a size is a least one."""
    files = dict.fromkeys(range(1, 4), discounts[1])
    estimate = lambda **options: lmtk.estimate(list(map(" ".join, text)), 3, kn=files, unk=False, **options).lm
    whole = estimate()
    try:
        model = estimate(prune_kneser=0, prune_to=most)
    except LmtkError:
        assert sum(estimate(prune_kneser=1e3).sizes) > most
    else:
        assert sum(model.sizes) <= most
        assert sum(whole.sizes) > most or entries(model).keys() == entries(whole).keys()


@given(texts, st.integers(1, 4), st.sampled_from([1e-9, 1e-3, 0.01, 0.03, 0.1]))
def test_growing_lets_in_the_ngrams_of_its_definition(text, order, threshold):
    D = 0.4, 0.9, 1.3
    sentences = [[SOS, *(word.encode() for word in sentence), EOS] for sentence in text]
    vocab = make_vocab([EOS, *dict.fromkeys(word for sentence in sentences for word in sentence[1:-1]), SOS], False)
    ids = [vocab.index[word] for sentence in sentences for word in sentence]
    starts = np.cumsum([0, *map(len, sentences)])
    corpus = Corpus(np.array(ids, np.int32), starts, np.array(ids) != vocab.sos_id)
    model = grow(corpus, vocab, [ModifiedKneserNey(D, True)] * order, threshold)
    rows = [
        tuple(vocab.words[i] for i in row) for k in range(1, model.order + 1) for row in model.nodes.rows(k).tolist()
    ]
    assert {*rows} - {(UNK,)} == naive.grow(sentences, order, D, vocab.V, threshold)


def test_pruning_nothing_changes_nothing():
    model = registry.load(str(FILES / "wb.arpa"))
    again = entries(prune(model, 0))
    assert again.keys() == entries(model).keys()
    assert all(again[n] == pytest.approx(e, abs=1e-5) for n, e in entries(model).items())
    assert entries(prune(model, 1e9)).keys() == entries(model.lower(1)).keys()
    assert len(entries(prune(model, 1e9, 3))) == len(entries(model.lower(2)))


@given(models, models, st.floats(0.01, 0.99))
def test_a_merged_model_has_the_mixtures_probability_of_every_ngram(a, b, weight):
    """That of the exact mixture, where the words of both are the same; back-off estimates are left out."""
    both = merge([a, b], [weight, 1 - weight])
    named = {*entries(a), *entries(b)}
    assert named == entries(both).keys()
    if set(a.vocab.words) != set(b.vocab.words) or a.vocab.V != b.vocab.V:
        return
    exact = Mixture([a, b], np.array([[weight, 1 - weight]]))
    for ngram in named:
        ids = np.array([a.vocab.index[w] for w in ngram], np.int32)
        corpus = Corpus(ids, np.array([0, len(ids)]), np.arange(len(ids)) == len(ids) - 1)
        assert entries(both)[ngram][0] * LN10 == pytest.approx(exact.score(corpus).logp[-1], abs=2e-6)


def test_merging_is_no_exact_merge_in_turn():
    """What the manual warns of: the figure of `lmtk mix` for p(cat | <s> the) is 0.09333333."""
    a, b = (registry.load(str(FILES / name)) for name in ("wb.arpa", "uni.arpa"))
    both = entries(merge([a, b], [0.7, 0.3]))
    assert 10 ** naive.backoff(both, [b"<s>", b"the"], b"cat") == pytest.approx(0.09377386, rel=1e-6)


@given(models, st.booleans())
def test_a_limited_model_has_only_the_listed_words(model, unk):
    words = [b"a", b"new", b"<s>"]
    small = cut(model, words, unk)
    predicted = set(small.vocab.words[: small.vocab.V])
    assert predicted - {UNK} == {EOS, b"a", b"new"}
    assert (UNK in predicted) == (unk or model.vocab.predicts(UNK))
    old = entries(model)
    for ngram, (log10p, _) in entries(small).items():
        if len(ngram) > 1:
            assert log10p > old[ngram][0] - 1e-5  # more where it had to take what nothing else could
    assert entries(cut(model, model.vocab.words)) == entries(renormalize(model))


def test_more_than_one_stays_with_a_warning():
    """As SRILM has it: no weight can make such a context's probabilities sum to one."""
    vocab = Vocab([EOS, b"a", b"b", SOS, UNK], 3)
    one = np.array([0, 1, 2, 3]), [*np.log10([0.7, 0.5, 0.3]), -np.inf], np.zeros(4)
    model = model_of(vocab, [one, (np.array([5, 6]), np.log10([0.9, 0.8]), np.zeros(2))])
    with pytest.warns(LmtkWarning, match="after 'a' and 1 other context sum to more than one"):
        again = renormalize(model)
    assert probability(again.ngrams(1)[1]) == pytest.approx([0.7, 0.5, 0.3, 0], rel=1e-6)
    assert again.ngrams(1)[2][1] == -np.inf
    with pytest.warns(LmtkWarning, match="after 'a' and 1 other context"):
        assert prune(model, 10).nodes.size(2) == 2


def test_what_nothing_can_take_goes_to_the_context_itself():
    """All words stand after a context: its probabilities are scaled to sum to one."""
    vocab = Vocab([EOS, b"a", SOS, UNK], 2)
    one = np.array([0, 1, 2]), [*np.log10([0.5, 0.5]), -np.inf], np.zeros(3)
    whole = renormalize(model_of(vocab, [one, (np.array([4, 5]), np.log10([0.3, 0.3]), np.zeros(2))]))
    assert probability(whole.ngrams(2)[1]) == pytest.approx(0.5, abs=1e-6)


@given(models)
def test_sentences_are_drawn_from_the_models_probabilities(model):
    chances = make_chances(model)
    random = np.random.default_rng(1)
    for length in range(model.order):
        context = random.integers(0, len(model.vocab.words), length).tolist()
        nodes = find_context_nodes(model.nodes, model.walk.unigram, context)
        every = np.array([[*context, w] for w in range(model.vocab.V)], np.int32)
        ends = np.arange(1, len(every) + 1) * (length + 1)
        scored = np.isin(np.arange(every.size), ends - 1)
        logp = model.score(Corpus(every.ravel(), np.concatenate(([0], ends)), scored)).logp[scored]
        assert chances(nodes) == pytest.approx(np.exp(logp), abs=1e-6)


def test_first_words_are_as_frequent_as_probable():
    model = registry.load(str(FILES / "wb.arpa"))
    N, sos = 4000, model.vocab.sos_id
    actual = list(sentences(model, [[sos]] * N, 3))
    first = np.bincount([s[0] if s else model.vocab.eos_id for s in actual], minlength=model.vocab.V) / N
    p = make_chances(model)(find_context_nodes(model.nodes, model.walk.unigram, [sos]))
    assert (abs(first - p) < 4 * np.sqrt(p * (1 - p) / N) + 1e-9).all()
    assert list(sentences(model, [[sos]] * 10, 3)) == actual[:10]
    assert list(sentences(model, [[sos]] * 10, 4)) != actual[:10]
    assert list(sentences(model, [[sos, model.vocab.eos_id]], 3)) == [[]]


def test_unknown_words_are_generated_where_asked_for():
    model = registry.load(str(FILES / "unk.arpa"))
    unk, sos = model.vocab.unk_id, model.vocab.sos_id
    assert not any(unk in s for s in sentences(model, [[sos]] * 100))
    assert any(unk in s for s in sentences(model, [[sos]] * 100, unk=True))


def test_sentences_need_an_end():
    with pytest.raises(LmtkError, match="never predicts </s>"):
        list(sentences(model_of(Vocab([b"a", EOS, SOS, UNK], 1), [(np.array([0]), [0], [0])]), [[2]]))
    with pytest.raises(LmtkError, match="the probability 0"):
        zero = np.array([0, 1]), [-np.inf, -np.inf], np.zeros(2)
        list(sentences(model_of(Vocab([b"a", EOS, SOS, UNK], 2), [zero]), [[2]]))


@given(models, models)
def test_both_forms_give_back_the_model(tmp_path_factory, a, b):
    """The weights of what were bare prefixes too."""
    model = prune(merge([a, b], [0.4, 0.6]), 1e-3)
    path = tmp_path_factory.mktemp("m") / "m"
    for write in (write_text, write_binary):
        with open(path, "wb") as out:
            write(out, model)
        again = registry.load(str(path))
        assert sums(again) == pytest.approx(1, abs=1e-5)
        assert entries(again).keys() == entries(model).keys()
        assert all(entries(again)[n] == pytest.approx(e, abs=1e-5) for n, e in entries(model).items())


def test_operations_bring_no_warnings_of_numpy():
    a, b = random_model(1), random_model(2, words="xyz", unk=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        prune(cut(merge([a, b], [0.3, 0.7]), [b"a", b"q"], True), 1e-3)
