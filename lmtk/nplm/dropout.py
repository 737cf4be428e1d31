"""Dropout: an update sets a random part of the network to 0 and scales the rest, so that the mean stays the same.

`make_draw` draws the factors of an update, `Factors`. They are 0 in a random share of the places and 1 / (1 - share) in
the others. Scoring uses no dropout.

option           sets to 0
-dropout         features and activations, for each example (Srivastava et al. 2014)
-word-dropout    all features of a word, for all its places in the minibatch (Gal and Ghahramani 2016)
-weight-dropout  recurrent weights, for all steps of the minibatch (Wan et al. 2013; Merity et al. 2018)
"""

import math
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

f32 = np.float32


@dataclass(frozen=True)
class Factors:
    """The factors of an update. x (K, (n-1)m): of the features; a (K, h): of the activations; between: of the
    activations of each layer of a stack but the highest; words (rows of C,): of the features of each word; R: name ->
    factors of an array of recurrent weights, with its shape. None: nothing is set to 0.

    Recurrent connections read the activations without these factors.
    """

    x: np.ndarray | None = None
    a: np.ndarray | None = None
    words: np.ndarray | None = None
    R: dict | None = None
    between: list | None = None

    def scale_features(self, x, contexts):
        """Multiply x, or dL/dx, (K, n-1, m) by the factors of the features of contexts (K, n-1), in place."""
        if self.x is not None:
            x *= self.x.reshape(x.shape)
        if self.words is not None:
            x *= self.words[contexts][:, :, None]

    def scale_activations(self, a):
        """a, or dL/da, (K, h) times the factors of the activations."""
        return a if self.a is None else a * self.a

    def scale_weights(self, p):
        """The arrays p, the recurrent weights times their factors."""
        if self.R is None:
            return p
        return SimpleNamespace(**vars(p) | {name: getattr(p, name) * factors for name, factors in self.R.items()})

    def scale_gradients(self, arrays):
        """Multiply dL/dR by the factors of R, in place; arrays: the gradients of a layer by name."""
        for name, factors in (self.R or {}).items():
            if name in arrays:
                arrays[name] *= factors


NONE = Factors()


def draw_factors(shapes, share, random):
    """An array of factors for each shape: 0 in a random share of the places, else 1 / (1 - share).

    random: a numpy Generator. The share is rounded to a multiple of 1/65536.
    """
    limit, scale = round(share * 65536), f32(1 / (1 - share))
    sizes = [math.prod(shape) for shape in shapes]
    # random.bytes gives the same bytes, but takes three times as long
    drawn = random.bit_generator.random_raw(-(-sum(sizes) // 4)).view(np.uint16)[: sum(sizes)] >= limit
    return [part.reshape(shape) * scale for part, shape in zip(np.split(drawn, np.cumsum(sizes)[:-1]), shapes)]


def make_draw(settings, theta):
    """A function draw(rows, K, epoch, number) -> the Factors for `rows` rows of x and K rows of a.

    theta: the `sgd.Parameters` in training. The factors depend only on the seed and the minibatch, so that a resumed
    run draws the same ones.
    """
    if not (settings.dropout or settings.word_dropout or settings.weight_dropout):
        return lambda *_: NONE
    words = 1 if theta.layer.carries else settings.order - 1
    wide, h = words * settings.features, settings.hidden

    def draw(rows, K, epoch, number):
        random, drawn = np.random.default_rng([settings.seed, epoch, number, 1]), {}
        if settings.dropout:
            shapes = (rows, wide), *[(K, h)] * theta.layer.depth
            drawn["x"], drawn["a"], *between = draw_factors(shapes, settings.dropout, random)
            drawn["between"] = between or None
        if settings.word_dropout:
            (drawn["words"],) = draw_factors([(len(theta.p.C),)], settings.word_dropout, random)
        if settings.weight_dropout:
            names = theta.layer.recurrent_arrays
            shapes = [getattr(theta.p, name).shape for name in names]
            drawn["R"] = dict(zip(names, draw_factors(shapes, settings.weight_dropout, random)))
        return Factors(**drawn)

    return draw
