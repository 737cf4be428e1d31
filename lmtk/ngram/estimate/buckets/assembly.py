"""A model in buckets -> its nodes, sorted by prefix: in memory, or in a file if memory is bounded.

symbol  shape    meaning
place   (N_k,)   the place of each of a bucket's n-grams of order k among all nodes of the order, int32; -1 if the model
                 lacks it
contexts (N_k,)  the context of each event, one of the bucket's n-grams of order k - 1; at order 2 a word
range   -        `size` places, whose records fit into memory together

`put_from_memory` fills the records from the one bucket in memory. With buckets on a shelf, `put_from_shelf` makes each
record of two rows of int32, which are dealt to ranges of places. One row comes from the bucket in which the n-gram is
an event: its word, its probability and its suffix. The other row comes from the bucket in which the n-gram is a
context: its weight, and the number of n-grams that extend it. These numbers tell where the children of each node begin.
This goes back to the buckets, and gives the places of the next order's events.
"""

from functools import partial
from itertools import pairwise

import numpy as np

from lmtk.files.bounded import trim
from lmtk.files.column import Shelf, as_matrix
from lmtk.ngram.estimate import engine, suffix
from lmtk.ngram.estimate.buckets.division import begins_of, ends_of, fetch
from lmtk.ngram.estimate.suffix import sum_up
from lmtk.ngram.model.backoff import Backoff
from lmtk.ngram.model.building import finish
from lmtk.ngram.model.nodes import NODE, allocate
from lmtk.text.sorting import sorted_places

LEAST = 1 << 16  # places of a range
f32 = np.float32


def backoff_of(job, memory=None, home=None):
    """The Backoff model of the Buckets of one process. memory: bytes to use, or None. home: as for `building.finish`. A
    bucket in memory needs types, and its columns are emptied.
    """
    W, work = len(job.vocab.words), job.estimator
    if work:
        work.suffixes.oldest[:] = [None] * len(work.suffixes.oldest)  # not needed any more
        trim()
    nodes, where, records = allocate([W, *job.sizes[1:]], home)
    words = records[0][:-1]
    words["word"], words["log10p"] = np.arange(W), np.where(job.marks & engine.IN_MODEL, job.log10p, f32(np.nan))
    words["log10bow"] = np.where(np.isnan(job.log10bow), f32(0), job.log10bow)
    size = max(memory // (4 * NODE.itemsize), LEAST) if memory else 1 << 30
    lacking = put_from_memory(work, records) if work else put_from_shelf(job, size, records)
    trim()
    return Backoff(job.vocab, finish(nodes, where, W, linked=not lacking, home=home))


def put_from_memory(work, records):
    """Fills the records of the orders from 2 on from an engine.Estimator, segment by segment, and empties its columns.
    Returns how many n-grams lack their suffix.
    """
    lacking, place = 0, np.arange(len(work.log10p[1]), dtype=np.int32)
    records[0]["child"][:-1] = work.types[1]
    for k, (above, level) in enumerate(pairwise(records), 2):
        sum_up(above["child"], 0)
        new = np.full(len(work.log10bow[k]), -1, np.int32)
        rows = as_matrix(level)
        put = partial(put_segment, work, k, place, above["child"], (rows, rows.view(f32), new))
        lacking += sum(work.each_segment(put))
        place = new
        work.forget(k)  # for the pages of the file
    return lacking


def put_segment(work, k, place, child, records, room, segment):
    """Puts the n-grams of order k whose contexts are in a segment into records, as in `suffix.place`; those of each
    context from its first child on. Returns how many lack their suffix.
    """
    grams = engine.gather(work.suffixes, k, segment, room)
    head = room("head", grams.H, np.int32)
    head[:] = child[place[grams.contexts]]
    columns = place, work.marks[k], work.log10p[k], work.log10bow[k], work.types[k]
    grams = grams.node, grams.context, grams.suffix, grams.word
    return suffix.place(grams, head, columns, records)


def put_from_shelf(job, size, records):
    """Fills the records from order 2 on from the shelf, `size` at once. Returns how many n-grams lack their suffix."""
    lacking = 0
    for k, (above, level) in enumerate(pairwise(records), 2):
        base = place_bigrams(job, above["child"]) if k == 2 else place_children(job, k, size, above)
        dealt = Shelf()
        lacking += sum(job.each(partial(deal_events, job, k, size, base, dealt), f"nodes of order {k}"))
        for r in range(-(-len(level) // size)):
            place, word, p, end = dealt.get((r,), np.int32).reshape(-1, 4).T
            level["word"][place], level["log10p"][place], level["suffix"][place] = word, p.view(f32), end
        if k < job.order:
            for b, (place,) in zip(job.rank_buckets, fetch(job, k, {"place": np.int32})):
                job.shelf.add(("place of contexts", b), place)
    return lacking


def place_bigrams(job, child):
    """`place_children` for order 2. child: the first child of each record of order 1. The weights are there already."""

    def count(b):
        sizes = np.bincount(contexts_of(job, 2, b)[1])
        words = np.flatnonzero(sizes)  # contexts of this bucket's bigrams, and of no other's
        child[words] = sizes[words]

    job.each(count, "nodes of order 1")
    sum_up(child, 0)
    return lambda b: child[:-1]


def place_children(job, k, size, above):
    """Sets the weights and the first children of the records of order k - 1, which is above 1. Returns a function,
    bucket -> where the children of its n-grams of that order begin, (H,), numbered as in `contexts`.
    """
    child, dealt, back, total = above["child"], Shelf(), Shelf(), 0

    def deal(b):
        place, bow = job.shelf.get(("place of contexts", b), np.int32), job.shelf.get(("bow", b, k - 1), np.int32)
        types = np.bincount(contexts_of(job, k, b)[1], minlength=len(place)).astype(np.int32)
        rows = np.column_stack((place, types, bow))[place >= 0]
        dealt.deal(rows, ranges_of(rows[:, 0], size), (b,))

    job.each(deal, f"nodes of order {k - 1}")
    for r in range(-(-len(above) // size)):
        for b in job.rank_buckets:
            place, types, bow = dealt.get((b, r), np.int32).reshape(-1, 3).T
            bow = bow.view(f32)
            child[place], above["log10bow"][place] = types, np.where(np.isnan(bow), f32(0), bow)
        total = sum_up(child[r * size : (r + 1) * size], total)
        for b in job.rank_buckets:
            back.add(b, child[dealt.get((b, r), np.int32)[::3]])

    def base(b):
        place = job.shelf.take(("place of contexts", b), np.int32)
        child, kept = np.zeros(len(place), np.int32), np.flatnonzero(place >= 0)
        child[kept[np.argsort(ranges_of(place[kept], size), kind="stable")]] = back.get(b, np.int32)
        return child

    return base


def ranges_of(place, size):
    """The range of each place."""
    return (place // size).astype(np.uint16)  # numpy sorts 16 bits by a radix sort


def contexts_of(job, k, b):
    """(which of a bucket's events of order k the model has, (M,); their `contexts`, (M,))."""
    kept = np.flatnonzero(job.shelf.get(("marks", b, k), np.uint8) & np.uint8(engine.IN_MODEL))
    if k == 2:
        return kept, job.shelf.get(("events", "oldest", b, 2), np.int32)[kept]
    nodes = suffix.nodes_at(begins_of(job, b, "contexts"), k - 1)
    come = job.shelf.get(("come", b), np.int32)[suffix.is_begin(begins_of(job, b, "events"), k)]
    return kept, nodes[come[kept]]


def deal_events(job, k, size, base, dealt, b):
    """Deals the rows of a bucket's events of order k to ranges. Returns how many lack their suffix."""
    shelf, begins, child = job.shelf, begins_of(job, b, "events"), base(b)
    is_event, (kept, contexts) = suffix.is_begin(begins, k), contexts_of(job, k, b)
    sizes = np.diff(np.append(0, np.cumsum(is_event))[ends_of(job, b, "events")])
    words = suffixes = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    if k > 2:
        suffixes = shelf.get(("place", b, k - 1), np.int32)[suffix.nodes_at(begins, k - 1)[is_event]]
    # the events of a context are next to each other in the records
    order = sorted_places([contexts])
    before = np.append(0, np.cumsum(np.bincount(contexts, minlength=len(child))))[:-1]
    place = np.full(len(words), -1, np.int32)
    place[kept[order]] = (child - before)[contexts[order]] + np.arange(len(kept))
    rows = np.column_stack((place, words, shelf.get(("p", b, k), np.int32), suffixes))[kept]
    shelf.add(("place", b, k), place)
    dealt.deal(rows, ranges_of(rows[:, 0], size), ())
    return np.count_nonzero(rows[:, 3] < 0)
