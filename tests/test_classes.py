"""Word classes against their definition."""

from collections import Counter

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmtk.ngram.classes import files, induction, kernels
from lmtk.ngram.counting.collection import Sources, collect
from lmtk.text.corpus import Marks


def data_of(folder, text, marks):
    (folder / "t").write_text(text)
    return induction.bigrams(collect(Sources([str(folder / "t")], [], 2, marks=marks)))


def state_of(data, G, seed=None):
    words = induction.by_use(data, [w for w, uses in enumerate(data.uses) if uses and w > 1])
    return induction.Exchange(data, induction.frequency_classes(data, words, G, seed), G, words)


def made(data, G, unseen=()):
    state = state_of(data, G)
    return induction.name_classes(data, state.g, state.G, unseen)


@pytest.mark.parametrize("table", [2, 9, 1 << 22])
@given(st.data())
def test_the_exchange_tries_every_class(tmp_path_factory, table, data):
    """Also with words that follow themselves, and counts beyond the table of logarithms."""
    lines = data.draw(st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=12), min_size=3, max_size=9))
    marks = data.draw(st.sampled_from([Marks(), Marks(False, False, True)]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(induction, "TABLE", table)
        text = "\n".join(map(" ".join, lines))
        bigrams = data_of(tmp_path_factory.mktemp("t"), text + "\na b c d\n", marks)
        state = state_of(bigrams, data.draw(st.integers(2, 4)), data.draw(st.sampled_from([None, 1])))
    g = dict(enumerate(state.g.tolist()))
    counted = Counter(dict(zip(zip(bigrams.v.tolist(), bigrams.w.tolist()), bigrams.count.tolist())))
    for over, moved in induction.passes(state, 4):
        assert over == 1
        before = naive.class_bigram_likelihood(counted, g)
        assert moved == naive.exchange_pass(counted, state.order.tolist(), g, range(state.G))
        now = induction.log_likelihood(state)
        assert now == pytest.approx(naive.class_bigram_likelihood(counted, g), abs=1e-9) and now >= before - 1e-9
        assert state.g.tolist() == list(g.values())
        assert (state.N == state.M.T).all() and (state.n == [state.N.sum(1), state.N.sum(0)]).all()


def test_the_table_of_logarithms_is_not_read_behind_its_end(tmp_path, monkeypatch):
    """A word that makes up most of the text: Python checks the places that the kernel does not."""
    for name in ("best_class", "make_scratch"):
        monkeypatch.setattr(kernels, name, getattr(kernels, name).__wrapped__)
    state = state_of(data_of(tmp_path, "a b\n" * 90 + "c d\nd c\n", Marks(False, False)), 2)
    kernels.exchange.__wrapped__(state.order, state.g, state.G, state.neighbours, (state.N, state.M, state.n, state.f))


@pytest.mark.parametrize("table", [9, 1 << 22])
@settings(max_examples=20, deadline=None)
@given(st.data())
def test_threads_look_and_leave_things_as_they_are(tmp_path_factory, table, data):
    lines = data.draw(st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=12), min_size=3, max_size=9))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(induction, "TABLE", table)
        bigrams = data_of(tmp_path_factory.mktemp("t"), "\n".join(map(" ".join, lines)) + "\na b c d\n", Marks())
        starts = [state_of(bigrams, 3, 1) for _ in range(2)]
    counted = Counter(dict(zip(zip(bigrams.v.tolist(), bigrams.w.tolist()), bigrams.count.tolist())))
    for threads, state in zip((2, 3), starts):
        counts = state.N, state.M, state.n, state.f
        arrays = state.g, *state.neighbours, *counts
        before = [np.copy(a) for a in arrays]
        actual = np.empty_like(state.order)
        induction.kernels.find_best_classes(state.order, state.g, state.G, state.neighbours, counts, actual)
        assert all((a == b).all() for a, b in zip(before, arrays))
        for w, best in zip(state.order.tolist(), actual.tolist()):
            g = dict(enumerate(state.g.tolist()))
            naive.exchange_pass(counted, [w], g, range(state.G))
            assert g[w] == best
        moved = [m for share, m in induction.passes(state, threads=threads)]
        assert moved[-1] == 0 and list(induction.passes(state)) == [(1, 0)]
    assert starts[0].g.tolist() == starts[1].g.tolist()


def test_members_sum_to_one_with_unseen_words(tmp_path):
    data = data_of(tmp_path, "a b c d\na c c d e\n", Marks())
    unseen = [len(data.words), len(data.words) + 1]
    data.words.extend([b"x", b"y"])
    actual = made(data, 2, unseen)
    sums = Counter()
    for name, p in actual.values():
        sums[name] += p
    assert [*sums.values()] == pytest.approx([1, 1]) and actual[b"x"] == actual[b"y"]
    assert set(actual) == set(b"a b c d e x y".split())


def test_files_give_back_the_classes(tmp_path):
    actual = made(data_of(tmp_path, "a b c d\na c c d e\n", Marks()), 3)
    with open(tmp_path / "c", "wb") as out:
        files.write_classes(out, actual)
    again = files.read_classes(str(tmp_path / "c"))
    assert files.class_names(again) == files.class_names(actual) and again.keys() == actual.keys()
    for word, (name, p) in actual.items():
        assert again[word] == (name, pytest.approx(p, rel=1e-9))


@given(st.data())
def test_the_two_classes_that_cost_least_are_merged(tmp_path_factory, data):
    """Words come in turn, those still to come being one class; the cost is that of the likelihood counted anew."""
    lines = data.draw(st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=12), min_size=3, max_size=9))
    marks = data.draw(st.sampled_from([Marks(), Marks(False, False, True)]))
    text = "\n".join(map(" ".join, lines)) + "\na b c d\n"
    bigrams = data_of(tmp_path_factory.mktemp("t"), text, marks)
    counted = Counter(dict(zip(zip(bigrams.v.tolist(), bigrams.w.tolist()), bigrams.count.tolist())))
    order = induction.by_use(bigrams, [w for w, uses in enumerate(bigrams.uses) if uses and w > 1])
    apart = np.setdiff1d(np.union1d(bigrams.v, bigrams.w), order)
    window = data.draw(st.integers(1, 4))
    g = dict.fromkeys(order.tolist(), -1) | {w: -2 - i for i, w in enumerate(apart.tolist())}
    steps, m = [*([w] for w in order), *[[]] * (window - 1)], 0
    for words, (_, merged) in zip(steps, one_by_one(bigrams, order, window), strict=True):
        for w in words:
            g[w] = w
        before = {w for w in g.values() if w >= 0}
        if len(merged) == m:
            continue
        actual = {
            (a, b): naive.class_bigram_likelihood(counted, joined(g, a, b)) for a in before for b in before if a < b
        }
        m += 1
        a, b = merged[-1].tolist()
        assert len(merged) == m and actual[min(a, b), max(a, b)] == pytest.approx(max(actual.values()), abs=1e-7)
        g = joined(g, a, b)
        roots = [g[w] if g[w] >= 0 else w for w in order.tolist()]
        number = {w: c for c, w in enumerate(dict.fromkeys(roots))}
        actual = induction.merged_classes(merged, order, np.arange(len(bigrams.words)), order)
        assert actual[order].tolist() == [number[w] for w in roots]


def one_by_one(bigrams, order, window):
    """The mergers down to one class, with a call of the kernel for each word and for each merger after the last."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(induction, "STEPS", 0)
        yield from induction.mergers(bigrams, order, window, 1)


def joined(g, a, b):
    return {w: a if c == b else c for w, c in g.items()}


def test_paths_are_a_prefix_code(tmp_path):
    data = data_of(tmp_path, "a b c d\na c c d e\n", Marks())
    actual = induction.paths(data, made(data, 4)).values()
    assert sum(2.0 ** -len(path) for path in actual) == 1 and len(set(actual)) == 4


@pytest.mark.parametrize("window", [3, 5, 9])
def test_the_size_of_steps_changes_no_merger(tmp_path, monkeypatch, window):
    data = data_of(tmp_path, "a b c d e f\na c c d e g\nh b a d f i\n", Marks())
    order = induction.by_use(data, [w for w, uses in enumerate(data.uses) if uses and w > 1])
    outcomes = []
    for steps in (1, 20, 1 << 26):
        monkeypatch.setattr(induction, "STEPS", steps)
        shares, merged = zip(*induction.mergers(data, order, window, 3))
        assert shares[-1] == 1 and list(shares) == sorted(shares)
        outcomes.append(induction.merged_classes(merged[-1], order, np.arange(len(data.words)), order).tolist())
    assert outcomes[0] == outcomes[1] == outcomes[2] and set(outcomes[0]) == {-1, 0, 1, 2}
