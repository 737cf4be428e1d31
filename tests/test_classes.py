"""Word classes against their definition."""

from collections import Counter

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmtk.ngram import classes
from lmtk.ngram.collection import collect
from lmtk.text.corpus import Marks


def data_of(folder, text, marks):
    (folder / "t").write_text(text)
    return classes.bigrams(collect([str(folder / "t")], [], 2, marks=marks))


def state_of(data, G, seed=None):
    words = classes.by_use(data, [w for w, uses in enumerate(data.uses) if uses and w > 1])
    return classes.exchange_of(data, classes.frequency_classes(data, words, G, seed), G, words)


@pytest.mark.parametrize("table", [2, 9, 1 << 22])
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_the_exchange_tries_every_class(tmp_path_factory, table, data):
    """Also with words that follow themselves, and counts beyond the table of logarithms."""
    lines = data.draw(st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=12), min_size=3, max_size=9))
    marks = data.draw(st.sampled_from([Marks(), Marks(False, False, True)]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classes, "TABLE", table)
        text = "\n".join(map(" ".join, lines))
        bigrams = data_of(tmp_path_factory.mktemp("t"), text + "\na b c d\n", marks)
        state = state_of(bigrams, data.draw(st.integers(2, 4)), data.draw(st.sampled_from([None, 1])))
    g = dict(enumerate(state.g.tolist()))
    counted = Counter(dict(zip(zip(bigrams.v.tolist(), bigrams.w.tolist()), bigrams.count.tolist())))
    for moved in classes.passes(state, 4):
        before = naive.class_bigram_likelihood(counted, g)
        assert moved == naive.exchange_pass(counted, state.order.tolist(), g, range(state.G))
        now = classes.log_likelihood(state)
        assert now == pytest.approx(naive.class_bigram_likelihood(counted, g), abs=1e-9) and now >= before - 1e-9
        assert state.g.tolist() == list(g.values())
        assert (state.N == state.M.T).all() and (state.n == [state.N.sum(1), state.N.sum(0)]).all()


def test_members_sum_to_one_with_unseen_words(tmp_path):
    data = data_of(tmp_path, "a b c d\na c c d e\n", Marks())
    unseen = [len(data.words), len(data.words) + 1]
    data.words.extend([b"x", b"y"])
    found = classes.made(data, state_of(data, 2), unseen)
    sums = np.bincount([c for c, _ in found.members.values()], [p for _, p in found.members.values()])
    assert sums == pytest.approx(1) and found.members[b"x"] == found.members[b"y"]
    assert set(found.members) == set(b"a b c d e x y".split())


def test_files_give_back_the_classes(tmp_path):
    found = classes.made((data := data_of(tmp_path, "a b c d\na c c d e\n", Marks())), state_of(data, 3))
    with open(tmp_path / "c", "wb") as out:
        classes.write_classes(out, found)
    again = classes.read_classes(str(tmp_path / "c"))
    assert again.names == found.names and again.members.keys() == found.members.keys()
    for word, (c, p) in found.members.items():
        assert again.members[word] == (c, pytest.approx(p, rel=1e-9))
