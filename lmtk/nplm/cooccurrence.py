"""Word vectors without a network: the co-occurrences of words in a text, reduced by a truncated SVD.

A network can start its training from them (Bengio et al. 2003, sections 1.2 and 5.2, item 4). The method is latent
semantic indexing (Deerwester et al. 1990) with the neighbours of a word instead of documents. A text comes in as Corpus
pieces, a vector for each word goes out:

1. `count_pairs`: how often word j stands within `window` words before word i.
2. `weigh`: each word gets a row of M, with an entry for each of the most frequent words as its left neighbour and as
   its right neighbour: the positive pointwise mutual information, max(0, ln(n N / (n_word n_neighbour))), N = sum of n.
3. `reduce_rows`: M = U S V'; the features of a word are its row of U S^(1/2), for the m largest singular values.
"""

import numpy as np

from lmtk.machine.blas import one_thread
from lmtk.text.corpus import contexts

NEIGHBOURS = 1000  # words whose co-occurrences are counted, on each side
ROWS = 1 << 12  # rows of M that are made at once


def count_pairs(corpora, window, W):
    """(left, right, n), (N,) int64 each: word `left` stands n times before word `right` with fewer than `window` words
    between them, in one sentence. corpora: as text.corpus.corpora yields them with the order window + 1; W: the number
    of words.
    """
    keys, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for corpus in corpora:
        rows, right = contexts(corpus, window + 1)[corpus.scored], corpus.ids[corpus.scored].astype(np.int64)
        pairs = (rows.astype(np.int64) * W + right[:, None])[rows >= 0]
        for part, column in zip((keys, counts), np.unique(pairs, return_counts=True)):
            part.append(column)
    keys, inverse = np.unique(np.concatenate(keys), return_inverse=True)
    n = np.bincount(inverse, np.concatenate(counts), len(keys)).astype(np.int64)
    return keys // W, keys % W, n


def weigh(left, right, n, W, neighbours=NEIGHBOURS):
    """The entries of M above 0, sorted by row: (row, column, value), (N,) each, and the number of columns.

    M is (W, 2c): column j is the j-th most frequent word on the left, column c + j on the right.
    """
    total = np.bincount(left, n, W) + np.bincount(right, n, W)
    c = min(neighbours, int(np.count_nonzero(total)))
    place = np.full(W, -1)
    place[np.argsort(-total, kind="stable")[:c]] = np.arange(c)
    row, column = np.concatenate((right, left)), np.concatenate((place[left], place[right]))
    column[len(left) :] += np.where(column[len(left) :] >= 0, c, 0)
    kept = column >= 0
    row, column, n = row[kept], column[kept], np.concatenate((n, n))[kept].astype(np.float64)
    value = np.log(n * n.sum() / (np.bincount(row, n, W)[row] * np.bincount(column, n, 2 * c)[column]))
    kept = np.flatnonzero(value > 0)
    kept = kept[np.argsort(row[kept], kind="stable")]
    return row[kept], column[kept], value[kept], 2 * c


def reduce_rows(row, column, value, shape, m):
    """U S^(1/2) of M's m largest singular values, (W, m) float32, scaled so that the mean square of the rows' lengths
    is 1, as in the random C before training. row, column, value: from `weigh`; shape: (W, columns), the shape of M.

    The right singular vectors are the eigenvectors of M'M, each with the sign that makes its largest weight positive.
    Singular values that are 0 give features that are 0.
    """

    def dense():
        """Yields (the first row of a part of M, the part)."""
        for first in range(0, shape[0], ROWS):
            begin, end = np.searchsorted(row, (first, first + ROWS))
            part = np.zeros((min(ROWS, shape[0] - first), shape[1]), np.float32)
            part[row[begin:end] - first, column[begin:end]] = value[begin:end]
            yield first, part

    product = sum((part.T @ part).astype(np.float64) for _, part in dense())
    with one_thread():  # on a busy machine, two threads take many times as long
        squares, axes = np.linalg.eigh(product)
    squares, axes = np.maximum(squares[::-1][:m], 0), axes[:, ::-1][:, :m]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    real = squares > 1e-9 * squares[0]
    axes = (axes * np.where(real, squares, 1) ** -0.25 * real).astype(np.float32)
    C = np.zeros((shape[0], m), np.float32)
    for first, part in dense():
        C[first : first + len(part), : axes.shape[1]] = part @ axes
    return C / np.sqrt(max(float(np.square(C).sum(axis=1).mean()), 1e-30)).astype(np.float32)
