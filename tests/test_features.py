"""Features of words: what is near, analogies and the plane of a picture against plain definitions."""

import io
import re
import sys

import numpy as np
import pytest
from helpers import FILES, in_process
from naive import cosine

from lmtk.nplm import features, training
from lmtk.text.vocab import make_vocab


def vectors(N=30, m=4):
    return np.random.default_rng(1).normal(size=(N, m)).astype(np.float32)


def test_the_nearest_are_those_of_the_greatest_cosine():
    C, candidates = vectors(), np.arange(1, 30)
    C[7] = 0
    ids, actual = features.rank_by_cosine(C, C[0], candidates)
    expected = sorted(candidates, key=lambda i: (-cosine(C[0].tolist(), C[i].tolist()), i))
    assert ids.tolist() == expected
    assert actual == pytest.approx([cosine(C[0].tolist(), C[i].tolist()) for i in ids], abs=1e-6)


def test_a_parallelogram_is_an_analogy():
    C = np.array([[2, 0], [0, 1], [-3, 0], [-5, 2.5]], np.float32)
    target = features.analogy(C, 0, 1, 2)
    assert target == pytest.approx([-2, 1])
    assert features.rank_by_cosine(C, target, np.arange(4))[0][0] == 3


def test_principal_dimensions_hold_the_most_variance():
    C = vectors() * np.array([1, 5, 0.1, 2], np.float32)
    points, names = features.project(C)
    centred = C - C.mean(axis=0)
    singular = np.linalg.svd(centred, compute_uv=False)[:2]
    assert np.linalg.norm(points, axis=0) == pytest.approx(singular, rel=1e-5)
    assert abs(points[:, 0] @ points[:, 1]) < 1e-3
    shares = 100 * singular**2 / (centred**2).sum()
    assert names == [f"principal component {k} ({share:.1f} % of the variance)" for k, share in enumerate(shares, 1)]
    assert (points == features.project(C.copy())[0]).all()
    assert (features.project(C[:, :2])[0] == C[:, :2]).all()
    points, names = features.project(C, [4, 1])
    assert (points == C[:, [3, 0]]).all() and names == ["feature 4", "feature 1"]


def test_word2vec_text_loses_nothing(tmp_path):
    vocab = make_vocab([b"a", b"\xc3\xa9", b"b\xa0c", b"\xff"])
    C, out = vectors(len(vocab.words)), io.BytesIO()
    features.write_word2vec(out, vocab.words, C)
    (tmp_path / "w2v").write_bytes(out.getvalue())
    actual = training.read_features(str(tmp_path / "w2v"), vocab, 4)
    assert all((actual[i] == C[i]).all() for i in range(len(vocab.words)))


def test_labels_cover_none_and_stand_beside_their_dots():
    r = np.random.default_rng(2)
    dots, sizes, page = r.uniform(0, 300, (200, 2)), r.uniform((8, 8), (60, 12), (200, 2)), (0, 0, 300, 300)
    places = features.free_places(dots, sizes, page)
    boxes = [(x, y, x + w, y + h) for (x, y), (w, h) in ((p, s) for p, s in zip(places, sizes) if p is not None)]
    assert 20 < len(boxes) < 200 and places[0] is not None
    for i, a in enumerate(boxes):
        assert a[0] >= 0 and a[2] <= 300 and a[1] >= 0 and a[3] <= 300
        assert not any(a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3] for b in boxes[:i])
    for dot, place, size in zip(dots, places, sizes):
        if place is not None:
            nearest = np.clip(dot, place, np.array(place) + size)
            assert np.abs(nearest - dot).max() == pytest.approx(3)


def test_odd_words_are_drawn():
    pytest.importorskip("matplotlib", reason="matplotlib is not installed; it draws")
    out = io.BytesIO()
    features.write_plot(out, "svg", [b"$x$", b"\xff", b"<unk>", "é".encode()], vectors(4, 2), ["x", "y"])
    text = out.getvalue().decode()
    assert all(word in text for word in (">$x$<", r">\xff<", ">&lt;unk&gt;<", ">é<"))


def test_fewer_words_have_a_smaller_page():
    pytest.importorskip("matplotlib", reason="matplotlib is not installed; it draws")
    widths = []
    for N in (1, 81, 200):
        out = io.BytesIO()
        features.write_plot(out, "svg", [b"w"] * N, np.zeros((N, 2)), ["x", "y"])
        widths.append(float(re.search(rb'<svg .*?width="([\d.]+)pt"', out.getvalue())[1]) / 72)
    assert widths == pytest.approx([5, 0.85 * 9, 12])


def test_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, _, err = in_process(tmp_path, "features", "-lm", FILES / "old" / "plain", "-plot", "p.svg")
    assert (status, err) == (2, "lmtk features: -plot needs the package matplotlib; pip install matplotlib\n")
    assert not (tmp_path / "p.svg").exists()
