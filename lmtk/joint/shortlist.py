"""A network for the frequent words and a back-off model for the rest.

Schwenk and Gauvain 2002; Bengio et al. 2003, section 5.2, item 3.

P(w | context) = P_N(w | context) P_S(context)   for w in the shortlist
                 P_B(w | context)                for other words

P_N is a softmax over the shortlist, and P_B is by the back-off model. P_S(context) is the sum of P_B over the
shortlist, which P_N distributes among its words. So the probabilities sum to one if those of the back-off model do. If
that model predicts words that the network's vocabulary lacks, such as </s> in a running text, P_B is divided by its sum
over the network's vocabulary.
"""

import os
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lmtk.errors import FormatError, LmtkError, first_words
from lmtk.files.declared import NAME, check_contents, ids
from lmtk.joint.mixture import folder_of, part_of
from lmtk.lm import NONE, Scores, after_each_by_scores, kind_of_model
from lmtk.ngram import mass
from lmtk.ngram.model.backoff import Backoff
from lmtk.nplm.network import KINDS, Network, declare_arrays, layer_settings, make_network
from lmtk.text.corpus import Corpus, contexts

TINY = 1e-300


@dataclass(frozen=True)
class Shortlist(Network):
    """A Network with outputs U (N, h), W (N, (n-1)m) or None, b (N,) for the words `shortlist`, (N,) int32, ascending.

    rest: the Backoff model of the other words; name: the file of `rest`, relative to the folder of this model's file.
    """

    rest: Backoff = None
    name: str = ""

    @property
    def shortlist(self):
        return self.theta.shortlist

    @cached_property
    def place(self):
        """(V,): the place of each word in the shortlist, or -1."""
        place = np.full(self.vocab.V, -1)
        place[self.shortlist] = np.arange(len(self.shortlist))
        return place

    @cached_property
    def rest_ids(self):
        """(words,): the ids of the words in the vocabulary of the rest."""
        return self.rest.vocab.ids_of_words(self.vocab.words)

    @cached_property
    def masses(self):
        """(the sums of P_B over the shortlist, the sums of P_B over the network's vocabulary).

        Each has one sum for every context of the back-off model, as `mass.of_contexts` returns them. The second is None
        if both models predict the same words.
        """
        whole = self.vocab.V == self.rest.vocab.V
        return self.masses_of(self.shortlist), None if whole else self.masses_of(np.arange(self.vocab.V))

    def masses_of(self, words):
        chosen = np.zeros(self.rest.vocab.V, bool)
        chosen[self.rest_ids[words]] = True
        return mass.of_contexts(self.rest, chosen)

    def places(self, w):
        return np.where(w < 0, w, self.place[w])

    def score(self, corpus):
        """Exact ln p of every scored token; the length is that of the rest, NONE for words of the shortlist."""
        at = np.flatnonzero(corpus.scored & (corpus.ids < self.vocab.V))
        logp, length = np.where(corpus.scored, -np.inf, 0), np.full((len(corpus.ids), 1), NONE, np.int8)
        logp[at], listed, all_lengths = self.of_tokens(corpus, at)
        length[at[~listed]] = all_lengths[at[~listed]]
        return Scores(logp, length, ("nplm",))

    def after_each(self, contexts):
        """ln p of each predicted word after each of B contexts, lists of ids: (B, V)."""
        return after_each_by_scores(self, contexts)

    def log_p(self, corpus, at, w):
        """ln p of the words w at the places `at` of a text."""
        return self.of_tokens(corpus, at)[0]

    def of_tokens(self, corpus, at):
        """ln p of the tokens `at`; which of them are in the shortlist; the rest's lengths."""
        inside = Corpus(self.rest_ids[corpus.ids], corpus.starts, corpus.scored)
        scores, place, (row_sums, whole) = self.rest.score(inside), self.place[corpus.ids[at]], self.masses
        logp, listed = scores.logp[at], place >= 0
        rows = contexts(inside, self.rest.order)[at][:, ::-1]
        if listed.any():
            logp[listed] = super().log_p(corpus, at[listed], place[listed])
            logp[listed] += np.log(np.maximum(mass.in_rows(self.rest, row_sums, rows[listed]), TINY))
        if whole is not None:
            logp -= np.log(mass.in_rows(self.rest, whole, rows))
        return logp, listed, scores.length

    def parts(self):
        kind, about, arrays, words = super().parts()
        return kind, about | {"rest": self.name}, arrays, words

    def predicted(self):
        yield "shortlist", len(self.shortlist)
        yield "rest", self.name
        yield "predicted words |V|", self.vocab.V


def shortlisted(network, w, N, rest, path, name):
    """The network, before training, with outputs for the N most frequent of the words w, and a back-off model.

    path: the file of the back-off model; name: its name in the network's file. Raises LmtkError.
    """
    V = network.vocab.V
    if N >= V:
        raise LmtkError(
            f"a shortlist of {N} words covers all {V} words, so {path} has nothing to predict; lower -shortlist"
        )
    check_rest(network.vocab, network.order, rest, path)
    counts = np.bincount(w[w >= 0], minlength=V)
    listed = np.sort(np.argsort(-counts, kind="stable")[:N]).astype(np.int32)
    outputs = {key: getattr(network.theta, key) for key in "UWb"}
    outputs = {key: a if a is None else a[listed] for key, a in outputs.items()} | {"shortlist": listed}
    made = vars(network.having(outputs)) | {"output": "shortlist"}
    return Shortlist(**made, rest=rest, name=name)


def check_rest(vocab, order, rest, path):
    """Raises LmtkError if a model is not a back-off model, lacks words of the network, or has longer contexts."""
    if not isinstance(rest, Backoff):
        expected = "expected a back-off model, which lmtk ngram-count makes"
        raise LmtkError(f"{path}: {expected}, but its kind is {kind_of_model(rest)}")
    if rest.order > order:
        raise LmtkError(f"{path}: its order {rest.order} is above the order {order} of the network; raise -order")
    lacking = sorted(w for w in vocab.words[: vocab.V] if not rest.vocab.predicts(w))
    if lacking:
        raise LmtkError(
            f"{path}: the model lacks words of the network ({first_words(lacking)}); make both with the same -vocab"
        )


def from_arrays(about, arrays, path):
    """The model in a file's arrays, with its rest. Raises FormatError."""
    layer, output = KINDS[about["kind"]]

    def wanted(sizes, size):
        N = size("shortlist", 0)
        return declare_arrays(sizes, size, layer, output, N) | {"shortlist": ids(sizes.V, N, ascending=True)}

    words, sizes = check_contents(about, arrays, path, layer_settings(layer) | {"rest": NAME}, wanted)
    made, rest_name = vars(make_network(about, arrays, path, words, sizes, layer, output)), sizes.rest
    if not len(arrays["shortlist"]):
        raise FormatError(path, "its shortlist is empty")
    name = os.path.join(folder_of(path), rest_name)
    its_own = FormatError(path, "a network that refers to itself for the other words")
    if os.path.realpath(name) == os.path.realpath(path):
        raise its_own
    try:
        rest = part_of(path, name)
    except RecursionError:  # two that name each other
        raise its_own from None
    check_rest(made["vocab"], made["order"], rest, name)
    return Shortlist(**made, rest=rest, name=rest_name)
