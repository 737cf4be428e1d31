"""Texts and count files -> their counts, added up."""

import numpy as np

from lmtk.files.column import Column
from lmtk.ngram import counts
from lmtk.ngram.counts import Counts, count_ids, from_rows, read_rows, to_rows
from lmtk.ngram.runs import count_spilling, tokens_in
from lmtk.text.corpus import Closed, Growing, Marks, id_blocks
from lmtk.text.vocab import EOS, SOS, UNK

SENTENCES = Marks()
OUTSIDE = -2  # the id of a word whose n-gram is dropped


def collect(
    texts,
    files,
    order,
    words=None,
    marks=SENTENCES,
    unk=UNK,
    tolower=False,
    limit=False,
    floats=False,
    arrange=None,
    memory=None,
):
    """The counts of texts and count files, added up, as SRILM's ngram-count does it.

    words: a closed vocabulary, outside which a word is `unk` (or, with `limit`, its n-gram in a count file is dropped);
    None takes every word. The words of the result start with <s>, </s> and `unk`, unless the counts of a large text
    are wanted for a model: `arrange` takes the words and returns them in the model's order, so that the model needs no
    other sort. memory: about how many bytes counting texts takes besides the result; the rest goes to disk.
    """
    index = Growing()
    unk_id = index[unk]
    for word in words or []:
        index[word]
    known, readable = index, index
    if words is not None:
        known, readable = Closed(index, unk_id), Closed(index, OUTSIDE if limit else unk_id)
    found = [read_rows(path, readable, order, floats, tolower) for path in files]
    found = [inside(rows, weights) for rows, weights in found] if limit else found
    ids, starts = Column(np.int32, memory), Column(np.int64, memory)
    starts.append(np.zeros(1, np.int64))
    for path in texts:
        blank = 0
        for more, ends, empty in id_blocks(path, known, marks, tolower):
            if not marks.stream:
                starts.append(ids.size + ends[1:])
            ids.append(more)
            blank += empty
        if marks.stream:
            starts.append(np.array([ids.size]))
        if marks.blank:
            starts.append(ids.size + 2 * np.arange(1, blank + 1))
            ids.append(np.tile([index[SOS], index[EOS]], blank))
    ids, starts = ids.array(), starts.array()
    words = index.words()
    W = len(words)
    new_id = np.arange(W, dtype=np.int32)
    links = arrange is not None and not found and len(ids) >= counts.LARGE
    if links:
        words = arrange(words)
        new_id[[index[word] for word in words]] = np.arange(W)
    if memory and len(ids) > tokens_in(memory, order):
        levels = count_spilling(ids, new_id, starts, order, W, memory)
    else:
        levels = count_ids(new_id[ids] if links else ids, starts, order, W, links)
    if found:
        if len(ids):
            found.append((to_rows(levels, W), [level.count for level in levels]))
        levels = from_rows(*merged(found), W)
    return Counts(words, levels, links)


def inside(rows, weights):
    """Only the n-grams all of whose words have an id."""
    kept = [(row >= 0).all(axis=1) for row in rows]
    return [row[k] for row, k in zip(rows, kept, strict=True)], [w[k] for w, k in zip(weights, kept, strict=True)]


def merged(found):
    """Several (rows, weights) as one."""
    longest = max(len(rows) for rows, _ in found)
    rows = [np.concatenate([r[k] for r, _ in found if k < len(r)]) for k in range(longest)]
    weights = [np.concatenate([w[k] for _, w in found if k < len(w)]) for k in range(longest)]
    return rows, weights
