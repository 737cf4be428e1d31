"""Small networks and updates of them, for the tests of layers and outputs."""

from functools import partial
from types import SimpleNamespace

import naive
import numpy as np
import pytest

from lmtk.nplm import classes, dropout, nce, outputs, pace, sampled, sgd, tree
from lmtk.nplm.layers import LAYERS
from lmtk.nplm.network import Network
from lmtk.text.vocab import make_vocab

NAMES = "CHdUWbR"


class Small:
    """Arrays by letter as they are trained: `step` updates them, and `arrays` has them in the order of the letters."""

    def __init__(self, theta, parts=1, output="full", layer="nplm", slow=None, decay=0, feature_rate=1, m=None):
        self.names = list(theta) if isinstance(theta, dict) else NAMES[: len(theta)]
        p = SimpleNamespace(**theta) if isinstance(theta, dict) else SimpleNamespace(**dict(zip(NAMES, theta)))
        self.p, self.rates = p, (decay, feature_rate)
        self.direct = 0 if p.W is None else p.W.shape[1] // (m or p.C.shape[1])
        before = sgd.place_copies({name: getattr(p, name) for name in ("C", *LAYERS[layer].shapes(2, 1, 1))})
        self.slow, self.output = slow or pace.full_pace(len(p.C), len(p.b), 9), output
        self.theta = sgd.Parameters(LAYERS[layer], before, m or p.C.shape[1], self.direct, self.slow)
        self.h, p.b_low = p.U.shape[1], np.zeros_like(p.b)
        if output == "full":
            self.rows = outputs.make_blocks(p, parts, decay=decay)
        elif output == "class":
            p.bc_low = np.zeros_like(p.bc)
            self.rows = classes.Classes(p)
        else:
            self.rows = rows = outputs.Rows(p, parts)
            # so little work would be one slice
            rows.slices = lambda words, z: outputs.slice_words(words, rows.first, len(rows), parts)

    def step(self, contexts, w, epsilon, *extra, factors=dropout.NONE, batch=None):
        """An update; extra: the candidates and ln c, or the noise and its chances. Returns L and the norm of dL/dz."""
        rows, slow = self.rows, self.slow
        update = {
            "full": lambda: partial(outputs.update_output, rows, slow.outputs),
            "sampled": lambda: partial(sampled.update_output, rows, extra, slow.outputs),
            "nce": lambda: partial(nce.update_output, rows, extra, slow.outputs),
            "class": lambda: partial(classes.update_output, rows, slow),
            "tree": lambda: partial(tree.update_output, rows, extra, slow.outputs),
        }[self.output]()
        return sgd.step(self.theta, update, contexts, w, pace.Rates(epsilon, *self.rates), factors, batch)

    def named(self):
        return sgd.copy_arrays(self.theta.p) | self.rows.gather(self.h, self.p.W is not None)

    def arrays(self):
        return [self.named()[name] for name in self.names]


def network(theta, output="full", layer="nplm", order=4, V=11):
    """A Network of V words; theta: arrays by letter."""
    vocab = make_vocab([b"%d" % i for i in range(V)], eos=False)
    return Network(vocab, order, layer, output, SimpleNamespace(**theta), {})


def same(a, b):
    """Whether two models have the same arrays."""
    a, b = a.named(), b.named()
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def parameters(seed=1, V=11, h=5, m=3, n=4, direct=True, dtype=np.float32):
    random = np.random.default_rng(seed)
    C, H, d, U, W, b = (
        random.normal(0, 0.5, shape).astype(dtype)
        for shape in ((V + 1, m), (h, (n - 1) * m), (h,), (V, h), (V, (n - 1) * m), (V,))
    )
    return C, H, d, U, W if direct else None, b


def assert_step(likelihood, before, after, names, every=1, shares=""):
    """A step of 0.01 has moved the arrays by that times the slope of likelihood(*arrays); `shares` by a third."""
    for i, (a, b, name) in enumerate(zip(before, after, names, strict=True)):
        if a is not None:
            for at, slope in naive.slopes(likelihood, before, i, every):
                wanted = slope / (3 if name in shares else 1)
                assert (b[at] - a[at]) / 1e-2 == pytest.approx(wanted, rel=2e-3, abs=2e-3), (name, at)


def minibatch(K, seed=2, V=11, n=4):
    random = np.random.default_rng(seed)
    return random.integers(0, V + 1, (K, n - 1)).astype(np.int32), random.integers(0, V, K)
