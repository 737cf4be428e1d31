"""The learned features of words, C: which words are alike, and a picture of them (Bengio et al. 2003, section 5.2)."""

import numpy as np

from lmtk.errors import LmtkError, shown
from lmtk.files.figure import figure


def unit(vectors):
    """(N, m) with rows of length 1; a row of zeros stays."""
    vectors = vectors.astype(np.float64)
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(length > 0, length, 1)


def nearest(C, target, candidates):
    """Candidates, an array of word ids, in the order of the cosine of their features with `target`, (m,).

    Returns (ids, cosines), the greatest first, equal ones by id.
    """
    cosine = unit(C[candidates]) @ unit(target[None])[0]
    order = np.lexsort((candidates, -cosine))
    return candidates[order], cosine[order]


def analogy(C, a, b, c):
    """The features, (m,), of a word that is to c as b is to a (word ids): b - a + c, each of length 1."""
    a, b, c = unit(C[[a, b, c]])
    return b - a + c


def two_dimensions(vectors):
    """(N, m) -> (N, 2): the two principal dimensions of the vectors; with m = 2 the features as they are.

    A dimension's sign is that which makes its largest weight positive.
    """
    if vectors.shape[1] == 2:
        return vectors
    centred = vectors - vectors.mean(axis=0, dtype=np.float64)
    _, axes = np.linalg.eigh(centred.T @ centred)
    axes = axes[:, :-3:-1]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), [0, 1]])
    return centred @ axes


def write_word2vec(out, words, vectors):
    """word2vec's text form: a line with the sizes, then on each line a word and its features, blanks between."""
    out.write(b"%d %d\n" % vectors.shape)
    for word, vector in zip(words, vectors, strict=True):
        out.write(word + b" " + " ".join(f"{x:.9g}" for x in vector.tolist()).encode() + b"\n")


def plot(out, kind, words, points):
    """A picture, "svg" or "png", with each word at its point: points (N, 2). Same words and points, same bytes."""
    with figure(out, kind, (10, 10)) as drawn:
        axes = drawn.add_subplot()
        axes.plot(*points.T, linestyle="none")  # sets the limits
        for word, (x, y) in zip(words, points.tolist(), strict=True):
            axes.text(x, y, shown(word), size=8, ha="center", va="center", clip_on=True, parse_math=False)


def ids_of(words, vocab, place):
    """Word ids; raises LmtkError where a word is not in the vocabulary."""
    for word in words:
        if word not in vocab.index:
            raise LmtkError(f"{place}: no word '{shown(word)}' in the vocabulary; lmtk vocab -lm {place} lists it")
    return np.array([vocab.index[word] for word in words], np.int64)
