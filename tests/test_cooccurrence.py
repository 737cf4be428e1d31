"""Features from co-occurrences: the matrix against plain loops, its reduction against numpy's SVD."""

import naive
import numpy as np
import pytest
from helpers import random_text

from lmtk.files import decoding
from lmtk.nplm import cooccurrence
from lmtk.text.corpus import Marks, read_corpus
from lmtk.text.vocab import make_vocab


def dense(row, column, value, columns, W):
    M = np.zeros((W, columns))
    M[row, column] = value
    return M


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("block", [100, 1 << 22])
def test_the_matrix_is_that_of_plain_loops(tmp_path, monkeypatch, stream, block):
    monkeypatch.setattr(decoding.blocks, "__defaults__", (block, *decoding.blocks.__defaults__[1:]))
    path, marks = random_text(tmp_path, 1), Marks.from_options(stream, stream, stream)
    vocab = make_vocab([f"w{i}".encode() for i in range(60)], True, not stream)
    W, window = len(vocab.words), 3
    lines = [line.split() for line in open(path, "rb").read().splitlines()]
    mapped = lambda word: word if word in vocab.index else b"<unk>"
    sentences = [[mapped(word) for line in lines for word in line]] if stream else []
    sentences = sentences or [[b"<s>", *map(mapped, line), b"</s>"] for line in lines]
    pairs = cooccurrence.count_pairs(read_corpus(path, vocab, marks, window + 1), window, W)
    *entries, columns = cooccurrence.weigh(*pairs, W, neighbours=20)
    assert columns == 40 and (np.diff(entries[0]) >= 0).all()
    left, right, n = pairs
    total = np.bincount(left, n, W) + np.bincount(right, n, W)
    neighbours = [vocab.words[i] for i in np.argsort(-total, kind="stable")[:20]]
    plain = naive.associations(sentences, vocab.words, window, neighbours)
    np.testing.assert_allclose(dense(*entries, columns, W), plain, atol=1e-12)


@pytest.mark.parametrize("rows", [7, 1 << 12])
def test_the_features_are_those_of_the_largest_singular_values(monkeypatch, rows):
    monkeypatch.setattr(cooccurrence, "ROWS", rows)
    random = np.random.default_rng(1)
    M = random.random((30, 12)) * (random.random((30, 12)) < 0.4)
    row, column = np.nonzero(M)
    C = cooccurrence.reduce_rows(row, column, M[row, column], M.shape, 4)
    U, S, _ = np.linalg.svd(M)
    whole = (U[:, :4] * S[:4]) @ U[:, :4].T
    np.testing.assert_allclose(C @ C.T, whole / np.trace(whole) * 30, atol=1e-4)
    assert np.square(C).sum(axis=1).mean() == pytest.approx(1, rel=1e-5)


def test_features_beyond_the_rank_are_0():
    M = np.outer([1, 2, 3, 4], [1, 0, 2])
    row, column = np.nonzero(M)
    C = cooccurrence.reduce_rows(row, column, M[row, column], M.shape, 3)
    assert (C[:, 1:] == 0).all() and C[:, 0] / C[0, 0] == pytest.approx([1, 2, 3, 4], rel=1e-5)
