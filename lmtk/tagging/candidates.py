"""The tags that each position of a sentence may have, and the n-gram model that scores them.

A source of candidates, such as a map (`mapping`), gives rows: {tag: p(word | tag)}. `make_candidates` looks the tags up
in the model and lays all rows out in arrays for `trellis.decode`. A text is then Sentences: the row of each position.

symbol  shape    meaning
start   (R + 1,) the candidates of row r are those from start[r] up to start[r + 1]
tag     (C,)     the tag of each candidate, int32
word    (C,)     its id in the model, -1 if the model lacks it, int32
node    (C,)     its 1-gram, -1 for none, int32
alone   (C,)     log10 p(tag) without a context, float32
first   (C,)     log10 of the map's number: the whole score at the first position of a sentence, float32
later   (C,)     mapw log10 p(word | tag): the map's part of the score at the other positions, float64
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lmtk.ngram.model.nodes import find_unigrams, mark_suffixes
from lmtk.tagging.hashing import in_order

f32 = np.float32
MANY = 1 << 20  # numbers in the results that are made at once


@dataclass(frozen=True)
class TagModel:
    """The arrays of a back-off model of tags that the trellis reads. nodes is None if there is no model; then all tags
    are equally good.

    unigram (W,): the 1-gram of each word, -1 for none; log10p (W,) float32, its probability. is_context (N,) bool:
    whether an n-gram is a state of the trellis, for the orders below the highest; order k begins at begins[k - 1].
    """

    nodes: object = None
    unigram: np.ndarray | None = None
    log10p: np.ndarray | None = None
    is_context: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))
    begins: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))

    @property
    def order(self):
        return self.nodes.order if self.nodes else 1

    def arrays(self):
        if self.nodes is None:
            return np.zeros(1, np.int32), np.zeros(1, f32), np.zeros((1, 4), np.int64), self.is_context, self.begins
        return self.nodes.memory, self.nodes.logs, self.nodes.where, self.is_context, self.begins


def make_tag_model(model, order):
    """The TagModel of a Backoff, of its n-grams up to an order. As in SRILM, a state is an n-gram that has a back-off
    weight or that longer n-grams extend, or a suffix of such an n-gram.
    """
    nodes = model.nodes
    is_context = []
    for level in nodes.levels[1:-1]:
        bow, child = level["log10bow"][:-1], level["child"]
        is_context.append((bow != 0) | np.signbit(bow) | (child[1:] > child[:-1]))
    for k in range(len(is_context), 1, -1):
        mark_suffixes(nodes, k, is_context)
    nodes = nodes.lower(min(order, nodes.order))
    unigram, first = find_unigrams(nodes, len(model.vocab.words)), nodes.levels[1]["log10p"]
    log10p = np.where((unigram < 0) | np.isnan(first[unigram]), f32(-np.inf), first[unigram])
    is_context = is_context[: nodes.order - 1]
    begins = np.cumsum([0, *map(len, is_context)])
    return TagModel(nodes, unigram, log10p, np.concatenate([np.zeros(0, bool), *is_context]), begins)


class Candidates(NamedTuple):
    """The arrays above."""

    start: np.ndarray
    tag: np.ndarray
    word: np.ndarray
    node: np.ndarray
    alone: np.ndarray
    first: np.ndarray
    later: np.ndarray

    @property
    def size(self):
        """The number of candidates in each row."""
        return np.diff(self.start)


def make_candidates(model, rows, log10, ids, mapw=1.0, is_inverse=False):
    """The Candidates of rows, {tag: number}, for a TagModel. log10: number -> log10 p(word | tag). ids: the model's id
    of each tag, -1 for none. mapw: the weight of the map. is_inverse: the numbers are p(tag | word); for `later`, they
    are divided by p(tag).
    """
    ordered = in_order([[*row] for row in rows])
    tag = np.array([tag for tags in ordered for tag in tags], np.int32)
    log10p = np.array([log10[row[tag]] for row, tags in zip(rows, ordered) for tag in tags], f32)
    if model.nodes is None:
        word = node = np.full(len(tag), -1, np.int32)
        alone = np.zeros(len(tag), f32)
    else:
        word = np.array(ids, np.int32)[tag]
        node = np.where(word < 0, np.int32(-1), model.unigram[word])
        alone = np.where(word < 0, f32(-np.inf), model.log10p[word])
    local = log10p - np.where(alone > -np.inf, alone, f32(0)) if is_inverse else log10p
    later = mapw * local.astype(np.float64) if mapw else np.zeros(len(tag))
    return Candidates(np.cumsum([0, *map(len, rows)]), tag, word, node, alone, log10p, later)


@dataclass(frozen=True)
class Sentences:
    """Sentences one after another. rows (R,) int32: the row of each position in the candidates; ends (S,): the position
    before which each sentence ends; source (R,): the word of the text at each position, -1 for none; line (S,): the
    line of the text that each sentence is.
    """

    rows: np.ndarray
    ends: np.ndarray
    source: np.ndarray
    line: np.ndarray

    @cached_property
    def begins(self):
        return np.append(0, self.ends)[:-1]

    def select(self, mask):
        """The sentences for which mask (S,) is true."""
        length = self.ends - self.begins
        positions = np.repeat(mask, length)
        return Sentences(self.rows[positions], np.cumsum(length[mask]), self.source[positions], self.line[mask])

    def parts(self, weight, size=MANY):
        """The sentences in parts of about `size` results; weight (R,): how many each position has."""
        part = np.append(0, np.cumsum(weight))[self.begins] // size
        yield from (self.select(part == k) for k in np.unique(part)) if part.any() else [self] * bool(len(part))


def make_sentences(ids, sos, eos, add_eos=True):
    """The Sentences of a text, ids (N,), -1 at the end of each line. Each gets sos and eos where it lacks them. Empty
    lines are not sentences. add_eos: whether sentences get eos.
    """
    stops = np.flatnonzero(ids < 0)
    starts = np.append(0, stops + 1)[:-1]
    line = np.flatnonzero(starts < stops)
    starts, stops = starts[line], stops[line]
    before = ids[starts] != sos
    behind = (ids[stops - 1] != eos) & add_eos
    ends = np.cumsum(stops - starts + before + behind)
    begins = np.append(0, ends)[:-1]
    size = ends[-1] if len(ends) else 0
    rows, source = np.full(size, eos, np.int32), np.full(size, -1)
    rows[begins[before]] = sos
    places = np.flatnonzero(ids >= 0)
    target = places + np.repeat(begins + before - starts, stops - starts)
    rows[target], source[target] = ids[places], places
    return Sentences(rows, ends, source, line + 1)
