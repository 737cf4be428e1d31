"""The learned features C of words: which words are alike, and a picture (Bengio et al. 2003, section 5.2).

Vectors of words come in. `rank_by_cosine` and `analogy` compare them, `write_word2vec` writes them, `project` reduces
them to two dimensions, and `write_plot` draws the result with labels that do not overlap.
"""

from types import SimpleNamespace

import numpy as np

from lmtk.errors import LmtkError, shown
from lmtk.files.figure import figure


def senses_of(model):
    """C with a row for each of the s senses of a word, (words s, m), and a vocabulary of the senses, such as word/1."""
    words = [b"%s/%d" % (word, k + 1) for word in model.vocab.words for k in range(model.senses)]
    index = {word: i for i, word in enumerate(words)}
    return model.C.reshape(len(words), model.m), SimpleNamespace(words=words, index=index)


def normalize_rows(vectors):
    """The rows (N, m) scaled to length 1; a row of zeros stays as it is."""
    vectors = vectors.astype(np.float64)
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(length > 0, length, 1)


def rank_by_cosine(C, target, candidates):
    """Sort candidates, an array of word ids, by the cosine of their features with `target`, (m,).

    Returns (ids, cosines), the greatest cosine first, equal ones by id.
    """
    cosine = normalize_rows(C[candidates]) @ normalize_rows(target[None])[0]
    order = np.lexsort((candidates, -cosine))
    return candidates[order], cosine[order]


def analogy(C, a, b, c):
    """The features, (m,), of a word that is to c as b is to a: b - a + c, each scaled to length 1; a, b, c are word
    ids.
    """
    a, b, c = normalize_rows(C[[a, b, c]])
    return b - a + c


def project(vectors, dimensions=None):
    """Vectors (N, m) -> (points (N, 2), the names of the two axes).

    dimensions: the numbers of two features, from 1. Without them the axes are the first two principal components, each
    with the sign that makes its largest weight positive; with m = 2 the points are the features.
    """
    if dimensions or vectors.shape[1] == 2:
        dimensions = dimensions or (1, 2)
        return vectors[:, [i - 1 for i in dimensions]], [f"feature {i}" for i in dimensions]
    centred = vectors - vectors.mean(axis=0, dtype=np.float64)
    variances, axes = np.linalg.eigh(centred.T @ centred)
    axes = axes[:, :-3:-1]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), [0, 1]])
    shares = variances[:-3:-1] / (variances.sum() or 1)
    names = [f"principal component {k} ({100 * share:.1f} % of the variance)" for k, share in enumerate(shares, 1)]
    return centred @ axes, names


def write_word2vec(out, words, vectors):
    """Write the text format of word2vec: a line with the sizes, then a line for each word and its features."""
    out.write(b"%d %d\n" % vectors.shape)
    for word, vector in zip(words, vectors, strict=True):
        out.write(word + b" " + " ".join(f"{x:.9g}" for x in vector.tolist()).encode() + b"\n")


def write_plot(out, kind, words, points, names):
    """Draw a picture, of a kind in figure.KINDS, with a dot for each word: points (N, 2); names: of the axes.

    A word is written beside its dot, in a place where it covers no other word. Words are placed in their order; a word
    that finds no place is left out. The same words and points give the same bytes.
    """
    side = min(max(0.85 * len(words) ** 0.5, 5), 12)  # inches; labels have one size, so fewer words need a smaller page
    with figure(out, kind, (side, side)) as drawn:
        axes = drawn.add_subplot(xlabel=names[0], ylabel=names[1])
        axes.plot(*points.T, ".", markersize=3, color="0.6")
        labels = [axes.text(*xy, shown(word), size=8, parse_math=False) for word, xy in zip(words, points.tolist())]
        drawn.draw_without_rendering()  # sets the scales
        boxes = [label.get_window_extent() for label in labels]
        to_page = axes.transData
        places = free_places(
            to_page.transform(points), np.array([(b.width, b.height) for b in boxes]), axes.bbox.extents
        )
        for label, place in zip(labels, places):
            if place is None:
                label.remove()
            else:
                label.set_position(to_page.inverted().transform(place))


def free_places(dots, sizes, page, gap=3):
    """Choose the lower left corner of each label: (x, y) beside its dot, on no other label and on the page, else None.

    dots, sizes (N, 2), page (left, bottom, right, top) and gap are in pixels. Earlier labels choose first.
    """
    taken = np.empty((0, 4))
    places = []
    for (x, y), (w, h) in zip(dots, sizes):
        sides = [(gap, -h / 2), (-gap - w, -h / 2), (-w / 2, gap), (-w / 2, -gap - h)]
        corners = [(gap, gap), (-gap - w, gap), (gap, -gap - h), (-gap - w, -gap - h)]
        corner = None
        for dx, dy in sides + corners:
            box = left, bottom, right, top = np.array([x + dx, y + dy, x + dx + w, y + dy + h])
            covers = (taken[:, 0] < right) & (taken[:, 2] > left) & (taken[:, 1] < top) & (taken[:, 3] > bottom)
            inside = left >= page[0] and bottom >= page[1] and right <= page[2] and top <= page[3]
            if inside and not covers.any():
                corner, taken = (left, bottom), np.vstack([taken, box])
                break
        places.append(corner)
    return places


def ids_of(words, vocab, source):
    """The ids of words. source: -lm or -text and the file of the vocabulary. Raises LmtkError if a word is not in the
    vocabulary.
    """
    for word in words:
        if word not in vocab.index:
            _, place = source.split(" ", 1)
            raise LmtkError(f"{place}: '{shown(word)}' is not in the vocabulary; lmtk vocab {source} lists its words")
    return np.array([vocab.index[word] for word in words], np.int64)
