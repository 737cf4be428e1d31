"""Class n-grams with several readings: a class stands for several words, or a word has several classes or also itself.

A sentence then has several readings as classes and words. Its probability is the sum over the readings, computed by the
forward algorithm: p(w_1 .. w_t) is summed over states. A state is a context of the model of classes and the rest of the
expansion that the reading is in. p(w_t | w_1 .. w_(t-1)) is the ratio of two such sums. `expanded` writes the model out
as an n-gram model of words.
"""

import math
import os
import re
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product
from math import prod

import numpy as np

from lmtk.errors import FormatError, LmtkError, shown
from lmtk.files.declared import MAX_ORDER
from lmtk.files.decoding import WORD
from lmtk.lm import probability, scores_of
from lmtk.ngram.arpa.reader import nodes_of_few, rows_of_lines
from lmtk.ngram.edit.renormalize import renormalize
from lmtk.ngram.model.backoff import Backoff
from lmtk.text.corpus import Corpus
from lmtk.text.vocab import EOS, SOS, Vocab, make_vocab, with_tokenizer

LONG = 10  # -expand-most N allows N n-grams, with N * LONG words in all
NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")


def parse_expansion(line):
    """(class, p, words) of a line "CLASS [P] WORD ..." of a class file, bytes. p is None if the line does not state it.
    For a blank line the class is None, and `words` is empty.
    """
    fields = WORD.findall(line)
    states_p = len(fields) > 2 and NUMBER.match(fields[1])
    return fields[0] if fields else None, fields[1] if states_p else None, fields[2 if states_p else 1 :]


def expansions_of(rows, path):
    """[(class, p, words)] of a class file, given as the `lines` of "CLASS [P] WORD ...".

    Without P, the expansions of a class are equally likely. Raises FormatError.
    """
    entries, size = [], {}
    for number, line in rows:
        name, p, words = parse_expansion(line)
        if name is None:
            continue
        p = None if p is None else float(p)
        if not words or (p is not None and not 0 <= p <= 1):
            raise FormatError(path, f"expected a class, a probability and words, found '{shown(line)[:60]}'", number)
        entries.append((name, p, tuple(words)))
        size[name] = size.get(name, 0) + 1
    return [(name, 1 / size[name] if p is None else p, words) for name, p, words in entries]


def names_in_file(rows):
    """({classes}, {words}) of a class file, given as its `lines`."""
    parsed = [parse_expansion(line) for _, line in rows]
    return {name for name, *_ in parsed if name is not None}, {word for *_, words in parsed for word in words}


def several_readings(rows, vocab):
    """Whether a text can be read in several ways with a class file, given as its `lines`.

    That is so if a class has an expansion of several words, if a word has several classes, or if a word has a class and
    is also a word of the model. vocab: the vocabulary of the model.
    """
    class_of = {}
    for _, line in rows:
        name, _, words = parse_expansion(line)
        if name is None:
            continue
        word = words[0] if words else name  # a line without words gets its error message later
        if len(words) > 1 or class_of.setdefault(word, name) != name:
            return True
    return any(map(vocab.predicts, class_of)) and any(map(vocab.predicts, class_of.values()))


@dataclass(frozen=True)
class Expanding:
    """lm: a back-off model of classes and words; inner_ids (W,): for each word, its id in lm as a word.

    starts: for each first word, the expansions that begin with it: the id of the class in lm, p(words | class) and the
    other words.
    """

    vocab: Vocab
    lm: Backoff
    inner_ids: np.ndarray
    starts: dict
    names: tuple = ()
    reach = math.inf  # an expansion may be longer than the order

    @property
    def order(self):
        return self.lm.order

    @property
    def has_sentence_starts(self):
        return self.lm.has_sentence_starts

    @cached_property
    def ngrams(self):
        """({ids: p} for each order, {ids: back-off weight}) of lm, as sequences of ids."""
        p, weights = {}, {}
        for k in range(1, self.order + 1):
            rows, log10p, log10bow = self.lm.ngrams(k)
            keys = list(map(tuple, rows.tolist()))
            p |= {ids: x for ids, x in zip(keys, probability(log10p).tolist()) if not math.isnan(x)}
            weights |= dict(zip(keys, probability(log10bow).tolist()))
        return p, weights

    def chance(self, context, w):
        """p(w | context) by lm."""
        p, weights = self.ngrams
        if w >= self.lm.vocab.V:
            return 0.0
        weight = 1.0
        for start in range(len(context) + 1):
            p_here = p.get((*context[start:], w))
            if p_here is not None:
                return weight * p_here
            weight *= weights.get(context[start:], 1.0)
        return 0.0

    def seen(self, context):
        """The part of a context that lm uses."""
        context, weights = context[max(len(context) - self.order + 1, 0) :], self.ngrams[1]
        while context and context not in weights:
            context = context[1:]
        return context

    def score(self, corpus):
        """ln p of every scored token. Words that are not scored are read.

        After <s>, and after a word of probability 0, the words themselves are the context.
        """
        logp, ids = np.zeros(len(corpus.ids)), corpus.ids.tolist()
        for start, end in pairwise(corpus.starts.tolist()):
            states = {((), ()): 1.0}
            for t in range(start, end):
                states, p = self.read(states, ids[start : t + 1], bool(corpus.scored[t]))
                if corpus.scored[t]:
                    logp[t] = np.log(p) if p > 0 else -np.inf
        return scores_of("class-ngram", logp)

    def read(self, states, ids, scored):
        """(the states {(context, rest): p} after the last of `ids`, p of this word). states: those before the word."""
        if ids[-1] == self.vocab.sos_id and not scored:
            return {(self.seen((int(self.inner_ids[ids[-1]]),)), ()): 1.0}, 1.0
        new = {}
        for (context, rest), p in states.items():
            for w, q, left in self.steps(context, rest, ids[-1]):
                at = (context if w is None else self.seen((*context, w)), left)
                new[at] = new.get(at, 0.0) + p * q
        total = sum(new.values())
        if total > 0:
            return {at: p / total for at, p in new.items() if p > 0}, total
        return {(self.seen(tuple(self.inner_ids[ids].tolist())), ()): 1.0}, 0.0

    def after(self, context):
        """ln p of each predicted word, (V,), after all words of a sentence so far."""
        states, ids, V = {((), ()): 1.0}, np.asarray(context).tolist(), self.vocab.V
        for t in range(len(ids)):
            states, _ = self.read(states, ids[: t + 1], False)
        p, inner_ids = np.zeros(V), np.minimum(self.inner_ids[:V], self.lm.vocab.V)
        for (seen, rest), q in states.items():
            if rest:
                p[rest[0]] += q
                continue
            class_p = np.append(np.exp(self.lm.after(np.array(seen, np.int32))), 0)  # by ids of lm
            p += q * class_p[inner_ids]
            for word, expansions in self.starts.items():
                p[word] += q * sum(x * class_p[c] for c, x, _ in expansions)
        with np.errstate(divide="ignore"):
            return np.log(p)

    def steps(self, context, rest, word):
        """The ways to read a word: (what lm reads, or None inside an expansion; p; the rest of the expansion)."""
        if rest:
            if rest[0] == word:
                yield None, 1.0, rest[1:]
            return
        inner_id = int(self.inner_ids[word])
        yield inner_id, self.chance(context, inner_id), ()
        for c, p, left in self.starts.get(word, ()):
            yield c, p * self.chance(context, c), left

    def lower(self, order):
        """The same model with shorter contexts."""
        return replace(self, lm=self.lm.lower(order))

    def describe(self):
        yield "kind", "class n-gram with expansions of several words"
        for role, name in zip(("model of classes", "word classes"), self.names):
            yield role, os.path.relpath(name)
        yield "order", self.order
        yield "predicted words |V|", self.vocab.V


def expanding_model(lm, name, rows, path):
    """Make the Expanding of a back-off model, read from `name`, and of the classes in the file `path`.

    rows: the `lines` of the class file. Raises LmtkError.
    """
    if not isinstance(lm, Backoff):
        raise LmtkError(f"{name}: classes with expansions of several words need a back-off n-gram")
    expansions, inner = expansions_of(rows, path), lm.vocab
    names = {c for c, _, _ in expansions}
    words = {w for _, _, expansion in expansions for w in expansion} - {SOS, EOS}
    words |= {w for w in inner.words[: inner.V] if w not in names}
    unk = inner.predicts(inner.unk) or inner.unk in words
    vocab = with_tokenizer(make_vocab(sorted(words), unk, inner.predicts(EOS), inner.unk, path), inner.tokenizer)
    inner_ids = np.array([inner.index.get(w, inner.unk_id) if w not in names else inner.unk_id for w in vocab.words])
    # a word that lm lacks can only be read as a part of a class: this id has the probability 0
    inner_ids[[w not in inner.index for w in vocab.words]] = len(inner.words)
    starts = {}
    for c, p, (first, *rest) in expansions:
        if inner.predicts(c):
            left = tuple(vocab.index[w] for w in rest)
            starts.setdefault(vocab.index[first], []).append((inner.index[c], p, left))
    return Expanding(vocab, lm, inner_ids, starts, (name, path))


def expanded(model, order, exact, most, path):
    """A back-off model of words, about equal to an Expanding one, with n-grams up to `order` (0: all), as in SRILM.

    The joint probability of an n-gram of words is the sum over the n-grams of `model.lm` that expand to it; expansions
    at its ends may be cut. If `model.lm` does not list the words themselves as an n-gram, their joint probability by
    it is added. p(w | h) is the ratio of two joint probabilities; for n-grams of `exact` words or more (0: for none),
    the model scores w after h instead. Raises LmtkError if there are more than `most` n-grams, or longer ones than
    lmtk reads.
    """
    joint = joint_probabilities(model, most, path)
    longest = max(map(len, joint))
    N = min(order or longest, longest)
    if N > MAX_ORDER:
        problem = f"the expansion has n-grams of {N} words; lmtk reads models up to order {MAX_ORDER}"
        raise LmtkError(f"{path}: {problem}; use -expand-classes {MAX_ORDER}")
    exact = exact or N + 1
    listed, vocab = model.ngrams[0], model.vocab
    for words in list(joint):
        while words[:-1] and words[:-1] not in joint:
            words = words[:-1]
            joint[words] = 0.0
    for words in joint:
        inner_ids = tuple(model.inner_ids[list(words)].tolist())
        if len(words) < exact and inner_ids not in listed:
            joint[words] += context_probability(model, inner_ids)
    follow = {}
    for words in joint:
        if len(words) <= N:
            follow.setdefault(words[:-1], []).append(words[-1])
    sections, end = {k: [] for k in range(1, N + 1)}, model.chance((), int(model.inner_ids[vocab.eos_id]))
    for context, after in follow.items():
        p = np.array([joint[*context, w] for w in after])
        if len(context) + 1 >= exact:
            p = after_context(model, context, after)
        else:
            below = end if context == (vocab.sos_id,) else joint.get(context, 0)
            p = p / max(below, p.sum())
        with np.errstate(divide="ignore"):
            log10p = np.log10(p).tolist()
        named = [vocab.words[w] for w in context]
        sections[len(context) + 1] += [(x, (*named, vocab.words[w]), 0.0) for x, w in zip(log10p, after)]
    rows = [rows_of_lines(k, lines, vocab.index) for k, lines in sections.items()]
    return renormalize(Backoff(vocab, nodes_of_few(rows, len(vocab.words))[0]))


def joint_probabilities(model, most, path):
    """{ids of words: p} of all n-grams of words that the n-grams of the model of classes expand to."""
    joint, listed, inner, total = {}, model.ngrams[0], model.lm.vocab, 0
    expansions = {}  # id in lm -> the expansions of a class, or the word
    for first, readings in model.starts.items():
        for c, p, left in readings:
            expansions.setdefault(c, []).append((p, (first, *left)))
    for i, word in enumerate(inner.words):
        expansions.setdefault(i, [(1.0, (model.vocab.index[word],))] if word in model.vocab.index else [])
    for ngram, p in listed.items():
        p *= context_probability(model, ngram[:-1])
        for parts in product(*(expansions[c] for c in ngram)):
            q, words = prod((x for x, _ in parts), start=p), tuple(w for _, expansion in parts for w in expansion)
            for cut in range(len(parts[-1][1])):
                for start in range(len(parts[0][1])):
                    if inside := words[start : len(words) - cut]:
                        total += len(inside) * (inside not in joint)
                        joint[inside] = joint.get(inside, 0.0) + q
                    if total > LONG * most:
                        excess = f"the expansion has more than {len(joint)} n-grams, which have {total} words in total"
                        remedy = "use shorter expansions or a lower -order"
                        raise LmtkError(f"{path}: {excess}, too many for -expand-most {most}; {remedy}")
        if len(joint) > most:
            message = f"the expansion has more than {most} n-grams, the limit of -expand-most"
            raise LmtkError(f"{path}: {message}; raise -expand-most, or lower -expand-classes or -order")
    return joint


def context_probability(model, ids):
    """p of a sequence of ids in the model of classes. An opening <s> has p(</s>); other words not predicted are
    skipped.
    """
    inner, total = model.lm.vocab, 1.0
    for i, w in enumerate(ids):
        p = model.chance(ids[max(i - model.order + 1, 0) : i], inner.eos_id if i == 0 and w == inner.sos_id else w)
        total *= p if p or w < inner.V or w == len(inner.words) else 1.0
    return total


def after_context(model, context, words):
    """p of each of `words` after a context, by the model itself."""
    rows = np.array([[*context, w] for w in words])
    N, k = rows.shape
    ids = rows.astype(np.int32).ravel()
    scored = ids != model.vocab.sos_id
    p = np.exp(model.score(Corpus(ids, np.arange(N + 1) * k, scored)).logp)
    return np.where(scored, p, 0)[k - 1 :: k]
