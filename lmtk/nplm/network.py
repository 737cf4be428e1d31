"""The network of Bengio et al. 2003, section 2, with any hidden layer and any output layer: parameters, scores, file.

`Network` holds the arrays and scores a text: contexts go through the hidden layer (`layers`) to z, and the output layer
(OUTPUTS) computes ln p of the words. A layer that carries its state reads the text in stretches instead (`running`).
`declare_arrays` and `from_arrays` check and read a model file.
"""

import sys
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np

from lmtk.files import container
from lmtk.files.declared import MAX_ORDER, OPTIONS, VOCABULARY, check_contents, reals, whole
from lmtk.lm import last_word_corpus, scores_of
from lmtk.machine.threads import thread_count
from lmtk.nplm import classes, energy, kernels, model, outputs, running, senses, tree
from lmtk.nplm.layers import LAYERS, Batch
from lmtk.text.corpus import contexts as text_contexts
from lmtk.text.vocab import Vocab, vocab_of, vocab_settings

OUTPUTS = {
    "full": outputs.FULL, "tied": outputs.TIED, "class": classes.OUTPUT, "tree": tree.OUTPUT, "shortlist": outputs.FULL,
    "energy": energy.OUTPUT,
}  # fmt: skip


@dataclass(frozen=True)
class Network:
    """The parameters theta = (b, d, W, U, H, C) of equation (1), y = b + Wx + U tanh(d + Hx), or those of other layers.

    layer, output: names in LAYERS and OUTPUTS. theta: the arrays by letter, float32; ids and classes are int32. Their
    shapes are in `layers`, in `kernels` and in the module of the output layer. C is (words, m), or (words, s m) with s
    senses a word. W is None without direct connections. settings: the options of the training run.
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
        return count_features(self.layer, self.order, lambda name, axis: vars(self.theta)[name].shape[axis])

    @property
    def senses(self):
        return self.C.shape[1] // self.m

    @property
    def h(self):
        return len(self.theta.d) // LAYERS[self.layer].shapes(self.order, self.m, 1)["d"][0]

    @property
    def direct(self):
        """The number of words whose features the outputs see directly, through W; 0 without direct connections."""
        return 0 if getattr(self.theta, "W", None) is None else LAYERS[self.layer].sees(self.order)

    @property
    def reach(self):
        """The number of preceding words that a probability depends on; the whole sentence if the layer carries its
        state.
        """
        return sys.maxsize if LAYERS[self.layer].carries else self.order - 1

    def places(self, w):
        """The output unit of each of the words w; below 0 if a word has no unit."""
        return w

    def named(self):
        """The arrays by their names in files and checkpoints."""
        return {name: a for name, a in vars(self.theta).items() if a is not None}

    def having(self, arrays):
        """A copy with these arrays, by name, in place of its own."""
        return replace(self, theta=SimpleNamespace(**vars(self.theta) | arrays))

    def parts(self):
        """The contents of the model's file, as `container.write` takes them."""
        about = {"order": self.order, **vocab_settings(self.vocab), "training": self.settings}
        return self.kind, about, self.named(), self.vocab.words

    def score(self, corpus):
        """Exact ln p of every scored token. Memory does not grow with the text."""
        logp = np.where(corpus.scored, -np.inf, 0)
        at = np.flatnonzero(corpus.scored & (corpus.ids < self.vocab.V))
        if len(at):
            logp[at] = self.log_p(corpus, at, corpus.ids[at])
        return scores_of(self.kind, logp)

    def padded(self, rows):
        """Contexts in which <s> replaces ids below 0, the places before the start of a sentence."""
        return np.where(rows < 0, self.vocab.sos_id, rows)

    def hidden(self, rows, batch=None):
        """z = [a | x | 1] (K, D), the input of the output layer, for contexts (K, n-1). batch: a `layers.Batch`."""
        x, _ = senses.choose(self.C[rows], self.m)
        a, _, _ = LAYERS[self.layer].forward(self.theta, x, batch or Batch())
        return kernels.stack_activations(a, x[:, : self.direct].reshape(len(x), -1))

    def score_contexts(self, rows, w):
        """ln p(w | context), (N,) float64, for contexts (N, n-1) and words w (N,); the layer must not carry a state."""
        return OUTPUTS[self.output].log_p(self.theta, self.hidden, rows, w)

    def score_inputs(self, z, w):
        """ln p of words w (K,), (K,) float64, from the inputs z (K, D) of the output layer."""
        places = np.arange(len(z))[:, None]  # a context is an index into z
        return OUTPUTS[self.output].log_p(self.theta, lambda k: z[k[:, 0]], places, w)

    def log_p(self, corpus, at, w):
        """ln p of the words w, (K,), at the places `at` of a text."""
        if not LAYERS[self.layer].carries:
            return self.score_contexts(self.padded(text_contexts(corpus, self.order)[at]), w)
        logp, pending = np.empty(len(at)), []

        def score():
            z, numbers = (np.concatenate(parts) for parts in zip(*pending))
            pending.clear()
            logp[numbers] = self.score_inputs(z, w[numbers])

        for stretch in self.stretches(corpus, at):
            pending.append(stretch)
            if sum(len(numbers) for _, numbers in pending) > model.MANY:
                score()
        if pending:
            score()
        return logp

    def stretches(self, corpus, at):
        """Yield (z, numbers), stretch by stretch of a text for a layer that carries its state: the inputs z of the
        output layer at the places at[numbers].
        """
        number, threads = np.full(len(corpus.ids), -1), thread_count()
        number[at] = np.arange(len(at))
        for text, sizes, counted in running.cut_stretches(corpus, self.vocab.sos_id):
            scored = np.flatnonzero(counted & (number[text.at] >= 0))
            if len(scored):
                z = self.hidden(text.inputs[:, None], Batch(sizes, threads=threads))
                yield z[scored], number[text.at[scored]]

    def after_each(self, contexts):
        """ln p of each predicted word after each of B contexts, lists of ids: (B, V)."""
        if not len(contexts):
            return np.empty((0, self.vocab.V))
        corpus = last_word_corpus(contexts)
        at = corpus.starts[1:] - 1
        if LAYERS[self.layer].carries:
            parts, numbers = zip(*self.stretches(corpus, at))
            z = np.empty((len(at), parts[0].shape[1]), np.float32)
            z[np.concatenate(numbers)] = np.concatenate(parts)
        else:
            z = self.hidden(self.padded(text_contexts(corpus, self.order)[at]))
        return outputs.log_all(OUTPUTS[self.output], self.theta, z, self.vocab.V)

    def describe(self):
        yield "kind", f"{self.kind}: {OUTPUTS[self.output].title}"
        yield "order n", self.order
        if LAYERS[self.layer].depth > 1:
            yield "hidden layers", LAYERS[self.layer].depth
        yield "hidden units h", self.h
        yield "features m", self.m
        if self.senses > 1:
            yield "senses a word", self.senses
        yield "direct connections", "yes" if self.direct else "no"
        yield "parameters", sum(a.size for a in self.named().values() if a.dtype == np.float32)
        yield from self.predicted()
        shown_above = {"order", "layers", "hidden", "features", "senses", "direct"}
        yield from container.settings_for_people(
            {name: value for name, value in self.settings.items() if name not in shown_above}
        )

    def predicted(self):
        yield "predicted words |V|", self.vocab.V
        yield from OUTPUTS[self.output].describe(self.theta)


def kind_of(layer, output):
    """The kind of a network in its file: nplm, nplm-rnn, nplm-class, nplm-rnn-class, and so on."""
    return "-".join(["nplm", *dict.fromkeys(name for name in (layer, output) if name not in ("nplm", "full"))])


KINDS = {kind_of(layer, output): (layer, output) for layer in LAYERS for output in OUTPUTS}


def count_features(layer, n, size):
    """m, the number of features of a word, from the sizes of the arrays: size(name, axis)."""
    words = LAYERS[layer].shapes(n, 1, 1)["H"][1]
    return size("H", 1) // words if words else size("C", 1)


def declare_arrays(sizes, size, layer, output, V):
    """The arrays of a network with V outputs, in the notation of `files.declared`."""
    m, hidden = count_features(layer, sizes.order, size), LAYERS[layer]
    h = size("d", 0) // hidden.shapes(sizes.order, m, 1)["d"][0]
    arrays = {name: reals(*shape) for name, shape in hidden.shapes(sizes.order, m, h).items()}
    arrays["C"] = reals(sizes.W, m * max(size("C", 1) // max(m, 1), 1))  # m for each sense
    arrays |= OUTPUTS[output].declare(V, h, hidden.sees(sizes.order) * m, size)
    # an output layer that reads C declares its columns; the rows are always words
    return arrays | {"C": replace(arrays["C"], shape=(sizes.W, arrays["C"].shape[1]))}


def from_arrays(about, arrays, path):
    """Make the Network from the arrays of a file. Raises FormatError if the arrays do not fit together."""
    layer, output = KINDS[about["kind"]]
    settings = layer_settings(layer) | {"V": whole(OUTPUTS[output].least)}
    words, sizes = check_contents(
        about, arrays, path, settings, lambda sizes, size: declare_arrays(sizes, size, layer, output, sizes.V)
    )
    network = make_network(about, arrays, path, words, sizes, layer, output)
    OUTPUTS[output].check(network.theta, sizes.V, path)
    return network


def layer_settings(layer):
    """The settings that the file of a network must have. layer: its name in LAYERS."""
    return VOCABULARY | {"order": whole(1 + LAYERS[layer].needs_context, MAX_ORDER), "training": OPTIONS}


def make_network(about, arrays, path, words, sizes, layer, output):
    absent = {"W": None, "Wc": None} if output == "class" else {"W": None}
    theta = absent | {name: a for name, a in arrays.items() if name != "vocabulary"}
    vocab = vocab_of(about["settings"], words, path)
    return Network(vocab, sizes.order, layer, output, SimpleNamespace(**theta), sizes.training)
