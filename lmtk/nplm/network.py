"""The network of Bengio et al. 2003, section 2, with any hidden layer and any output: its parameters, its scores."""

import sys
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np

from lmtk.files import container
from lmtk.files.declared import held, reals, whole
from lmtk.machine import threads
from lmtk.nplm import classes, energy, kernels, model, outputs, running, senses, tree
from lmtk.nplm.layers import LAYERS, Given
from lmtk.text.vocab import Vocab, vocab_of

OUTPUTS = {
    "full": outputs.FULL, "tied": outputs.TIED, "class": classes.OUTPUT, "tree": tree.OUTPUT, "shortlist": outputs.FULL,
}  # fmt: skip
OUTPUTS |= {name: energy.output(weights) for name, weights in energy.WEIGHTS.items()}


@dataclass(frozen=True)
class Network(model.Neural):
    """theta = (b, d, W, U, H, C), equation (1): y = b + Wx + U tanh(d + Hx), or those of other layers and outputs.

    layer, output: names in LAYERS and OUTPUTS.
    theta: the arrays by letter, float32, ids and classes int32; shapes as in `layers`, `kernels` and the module of the
    output. C is (words, m), or (words, s m) with s senses a word. W is None without direct connections.
    """

    vocab: Vocab
    order: int
    layer: str
    output: str
    theta: SimpleNamespace
    settings: dict

    @property
    def kind(self):
        return kind_of(self.layer, self.output)

    @property
    def C(self):
        return self.theta.C

    @property
    def m(self):
        return features(self.layer, self.order, lambda name, axis: vars(self.theta)[name].shape[axis])

    @property
    def senses(self):
        return self.C.shape[1] // self.m

    @property
    def h(self):
        return len(self.theta.d) // LAYERS[self.layer].shapes(self.order, self.m, 1)["d"][0]

    @property
    def direct(self):
        """How many words' features the outputs see directly, through W; 0 without direct connections."""
        return 0 if getattr(self.theta, "W", None) is None else LAYERS[self.layer].sees(self.order)

    @property
    def reach(self):
        """How many preceding words a probability depends on; where the layer carries its state, all of the sentence."""
        return sys.maxsize if LAYERS[self.layer].carries else self.order - 1

    def places(self, w):
        """The output unit of each of the words w; below 0: it has none."""
        return w

    def named(self):
        return {name: a for name, a in vars(self.theta).items() if a is not None}

    def having(self, arrays):
        return replace(self, theta=SimpleNamespace(**vars(self.theta) | arrays))

    def hidden(self, rows):
        """z = [a | x | 1] (K, D), the input of the output layer, for contexts (K, n-1)."""
        return self.stacked(rows, Given())

    def stacked(self, rows, given):
        x, _ = senses.choose(self.C[rows], self.m)
        a, _, _ = LAYERS[self.layer].forward(self.theta, x, given)
        return kernels.stack(a, x[:, : self.direct].reshape(len(x), -1))

    def score_contexts(self, rows, w):
        """ln p(w | context), (N,) float64, for contexts (N, n-1) and words w (N,); the layer must not carry a state."""
        return OUTPUTS[self.output].log_p(self.theta, self.hidden, rows, w, len(self.C))

    def log_p(self, corpus, at, w):
        if not LAYERS[self.layer].carries:
            return super().log_p(corpus, at, w)
        logp, wanted, found, team = np.empty(len(at)), np.full(len(corpus.ids), -1), [], threads.Team(threads.count())
        wanted[at] = np.arange(len(at))

        def score():
            z, which = (np.concatenate(parts) for parts in zip(*found))
            found.clear()
            places = np.arange(len(z))[:, None]  # a context is an index into z
            of = OUTPUTS[self.output].log_p
            logp[which] = of(self.theta, lambda k: z[k[:, 0]], places, w[which], len(z))

        for text, sizes, counted in running.stretches(corpus, self.vocab.sos_id, self.order):
            mine = np.flatnonzero(counted & (wanted[text.at] >= 0))
            if len(mine):
                z = self.stacked(text.inputs[:, None], Given(sizes, team=team))
                found.append((z[mine], wanted[text.at[mine]]))
            if sum(len(which) for _, which in found) > model.MANY:
                score()
        if found:
            score()
        return logp

    def describe(self):
        yield "kind", f"{self.kind}: {OUTPUTS[self.output].what}"
        yield "order n", self.order
        yield "hidden units h", self.h
        yield "features m", self.m
        if self.senses > 1:
            yield "senses a word", self.senses
        yield "direct connections", "yes" if self.direct else "no"
        yield "parameters", sum(a.size for a in self.named().values() if a.dtype == np.float32)
        yield from self.predicted()
        told = {"order", "hidden", "features", "senses", "direct"}
        yield from container.shown({name: value for name, value in self.settings.items() if name not in told})

    def predicted(self):
        yield "predicted words |V|", self.vocab.V
        yield from OUTPUTS[self.output].about(self.theta)


def kind_of(layer, output):
    """The kind of a network in its file: nplm, nplm-rnn, nplm-class, nplm-rnn-class ..; both energy outputs:
    nplm-energy.
    """
    names = layer, output.removesuffix("-each")
    return "-".join(["nplm", *dict.fromkeys(name for name in names if name not in ("nplm", "full"))])


KINDS = {kind_of(layer, output): (layer, output) for layer in LAYERS for output in OUTPUTS if output != "energy-each"}


def told(about, arrays):
    """The names of the layer and the output of a file's network. The shape of v tells the two energy outputs apart."""
    layer, output = KINDS[about["kind"]]
    each = output == "energy" and "v" in arrays and arrays["v"].shape[1:] != (1,)
    return layer, "energy-each" if each else output


def features(layer, n, size):
    """m, the features of a word, from the sizes of the arrays: size(name, axis)."""
    words = LAYERS[layer].shapes(n, 1, 1)["H"][1]
    return size("H", 1) // words if words else size("C", 1)


def declared(sizes, size, layer, output, V):
    """The arrays of a network with V outputs, as `files.declared` describes them."""
    m, known = features(layer, sizes.order, size), LAYERS[layer]
    h = size("d", 0) // known.shapes(sizes.order, m, 1)["d"][0]
    arrays = {name: reals(*shape) for name, shape in known.shapes(sizes.order, m, h).items()}
    arrays["C"] = reals(sizes.W, m * max(size("C", 1) // max(m, 1), 1))  # as many senses as there are
    arrays |= OUTPUTS[output].declared(V, h, known.sees(sizes.order) * m, size)
    # an output that reads C says how many columns C has; the rows are words whatever the output
    return arrays | {"C": replace(arrays["C"], shape=(sizes.W, arrays["C"].shape[1]))}


def from_arrays(about, arrays, path):
    """The model in a file's arrays. Raises FormatError where they do not fit together."""
    layer, output = told(about, arrays)
    made = Network.told | {"V": whole(OUTPUTS[output].least)}
    words, sizes = held(about, arrays, path, made, lambda sizes, size: declared(sizes, size, layer, output, sizes.V))
    network = taken(about, arrays, path, words, sizes, layer, output)
    OUTPUTS[output].check(network.theta, sizes.V, path)
    return network


def taken(about, arrays, path, words, sizes, layer, output):
    absent = {"W": None, "Wc": None} if output == "class" else {"W": None}
    theta = absent | {name: a for name, a in arrays.items() if name != "vocabulary"}
    vocab = vocab_of(about["settings"], words, path)
    return Network(vocab, sizes.order, layer, output, SimpleNamespace(**theta), sizes.training)
