"""Texts and count files -> their counts, added up."""

import numpy as np

from lmtk.files.column import Column
from lmtk.machine.parallel import ALONE
from lmtk.ngram import counts
from lmtk.ngram.counts import Counts, count_ids, from_rows, read_rows, to_rows
from lmtk.ngram.runs import count_spilling, tokens_in
from lmtk.ngram.sharing import common_words, gather_levels
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
    comm=ALONE,
    replace=None,
):
    """The counts of texts and count files, added up, as SRILM's ngram-count does it.

    words: a closed vocabulary, outside which a word is `unk` (or, with `limit`, its n-gram in a count file is dropped);
    None takes every word. The words of the result start with <s>, </s> and `unk`, unless the counts of a large text
    are wanted for a model: `arrange` takes the words and returns them in the model's order, so that the model needs no
    other sort. memory: about how many bytes counting texts takes besides the result; the rest goes to disk. comm: the
    ranks that count together; rank 0 has the result. replace: words -> (others, the id among them of each word), where
    others are to be counted in place of the words that were read.
    """
    index = Growing()
    unk_id = index[unk]
    for word in words or []:
        index[word]
    known, readable = index, index
    if words is not None:
        known, readable = Closed(index, unk_id), Closed(index, OUTSIDE if limit else unk_id)

    def read():
        """The count files, on rank 0, and this rank's part of the texts."""
        found = [read_rows(path, readable, order, floats, tolower) for path in files if comm.rank == 0]
        found = [inside(rows, weights) for rows, weights in found] if limit else found
        return found, *read_texts(texts, index, known, marks, tolower, memory, comm)

    found, ids, starts, blocks = comm.each(read)
    words = common_words(blocks, index.words(), comm) if comm.size > 1 else index.words()
    at = {word: i for i, word in enumerate(words)}
    new_id = np.array([at[word] for word in index.words()], np.int32)
    if replace:
        words, of = replace(words)
        new_id, found = of[new_id], [([of[row] for row in rows], weights) for rows, weights in found]
    W = len(words)
    tokens = comm.total(len(ids))
    links = arrange is not None and not files and tokens >= counts.LARGE
    if links:
        at = {word: i for i, word in enumerate(words)}
        words = arrange(words)
        arranged = np.empty(W, np.int32)
        arranged[[at[word] for word in words]] = np.arange(W)
        new_id = arranged[new_id]
    if memory and len(ids) > tokens_in(memory, order):
        levels = count_spilling(ids, new_id, starts, order, W, memory)
    else:
        levels = count_ids(new_id[ids], starts, order, W, links and comm.size == 1)
    if comm.size > 1:
        levels = gather_levels(levels, blocks, W, comm)
    if found:
        if tokens:
            found.append((to_rows(levels, W), [level.count for level in levels]))
        levels = from_rows(*merged(found), W)
    return Counts(words, levels, links)


def read_texts(texts, index, known, marks, tolower, memory, comm):
    """This rank's part of the texts as ids (N,), starts (S + 1,) and the list of its blocks, as `common_words` has it,
    from a first one on for what is known before the texts.
    """
    ids, starts, blocks = Column(np.int32, memory), Column(np.int64, memory), [(-1, -1, 0, len(index) - 1)]
    starts.append(np.zeros(1, np.int64))
    for path, name in enumerate(texts):
        top = len(index) - 1
        for number, (more, ends, blank) in enumerate(id_blocks(name, known, marks, tolower, comm.rank, comm.size)):
            if marks.blank:
                ends = np.concatenate((ends, len(more) + 2 * np.arange(1, blank + 1)))
                more = np.concatenate((more, np.tile(np.array([index[SOS], index[EOS]], np.int32), blank)))
            if not marks.stream:
                starts.append(ids.size + ends[1:])
            ids.append(more)
            top = max(top, int(more.max(initial=-1)) + 1)
            blocks.append((path, number * comm.size + comm.rank, len(more), top))
        if marks.stream:
            starts.append(np.array([ids.size]))
    return ids.array(), starts.array(), blocks


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
