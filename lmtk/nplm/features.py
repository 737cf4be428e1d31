"""The learned features of words, C: which words are alike, and a picture of them (Bengio et al. 2003, section 5.2)."""

from types import SimpleNamespace

import numpy as np

from lmtk.errors import LmtkError, shown
from lmtk.files.figure import figure
from lmtk.nplm.senses import names


def senses_of(model):
    """C as (words s, m), a row for each of a word's s senses, and a vocabulary of the senses."""
    words = names(model.vocab.words, model.senses)
    index = {word: i for i, word in enumerate(words)}
    return model.C.reshape(len(words), model.m), SimpleNamespace(words=words, index=index)


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


def two_dimensions(vectors, dimensions=None):
    """Vectors (N, m) -> (points (N, 2), the names of their two axes): two of the features, `dimensions`, numbered from
    1, or the first two principal components; with m = 2 the features as they are.

    A component's sign is the one that makes its largest weight positive.
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
    """word2vec's text form: a line with the sizes, then on each line a word and its features, blanks between."""
    out.write(b"%d %d\n" % vectors.shape)
    for word, vector in zip(words, vectors, strict=True):
        out.write(word + b" " + " ".join(f"{x:.9g}" for x in vector.tolist()).encode() + b"\n")


def plot(out, kind, words, points, names):
    """A picture, "svg" or "png", with a dot for each word: points (N, 2); names: of the axes. Same words and points,
    same bytes.

    A word stands beside its dot where it covers no other. The first words are placed first; a word without a place is
    left out.
    """
    with figure(out, kind, (12, 12)) as drawn:
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
    """Where the lower left corner of each label goes, (x, y) or None: beside its dot, on no other label, on the page.

    dots, sizes (N, 2) and page (left, bottom, right, top), gap: pixels. Earlier labels choose first.
    """
    taken = np.empty((0, 4))
    places = []
    for (x, y), (w, h) in zip(dots, sizes):
        sides = [(gap, -h / 2), (-gap - w, -h / 2), (-w / 2, gap), (-w / 2, -gap - h)]
        corners = [(gap, gap), (-gap - w, gap), (gap, -gap - h), (-gap - w, -gap - h)]
        found = None
        for dx, dy in sides + corners:
            box = left, bottom, right, top = np.array([x + dx, y + dy, x + dx + w, y + dy + h])
            covers = (taken[:, 0] < right) & (taken[:, 2] > left) & (taken[:, 1] < top) & (taken[:, 3] > bottom)
            inside = left >= page[0] and bottom >= page[1] and right <= page[2] and top <= page[3]
            if inside and not covers.any():
                found, taken = (left, bottom), np.vstack([taken, box])
                break
        places.append(found)
    return places


def ids_of(words, vocab, place):
    """Word ids; raises LmtkError where a word is not in the vocabulary."""
    for word in words:
        if word not in vocab.index:
            raise LmtkError(f"{place}: no word '{shown(word)}' in the vocabulary; lmtk vocab -lm {place} lists it")
    return np.array([vocab.index[word] for word in words], np.int64)
