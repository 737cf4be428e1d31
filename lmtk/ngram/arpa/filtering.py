"""Filters the lines of an ARPA file by the words of their n-grams, as KenLM's filter and SRILM's change-lm-vocab do.

A criterion is a function where(word). It returns None if no n-gram with the word stays, else the sorted numbers of the
sentences that contain the word. An empty list stands for all sentences. An n-gram stays if some sentence contains all
its words. `files_of` judges one n-gram; `lines_of` judges the lines of a block of text by kernels.
"""

import numpy as np

from lmtk.machine.jit import jit
from lmtk.ngram.model.searching import count_below


def files_of(ngram, where, files):
    """Return the numbers of the output files that get an n-gram. files: the number of output files: either one for each
    sentence, or 1 for the n-grams of all sentences.
    """
    sentence_lists = [where(word) for word in ngram]
    if None in sentence_lists:
        return ()
    first, *others = sorted(filter(None, sentence_lists), key=len) or [range(files)]
    shared = sorted(set(first).intersection(*others)) if others else first
    return shared if files > 1 else shared and (0,)


def sentences_of(words, where):
    """A criterion as arrays for `choose`: many (W,), the number of sentences of each word, -1 if no n-gram with the
    word stays, 0 for all sentences; first (W,), where its sentences begin in the third array; the sentences' numbers.
    """
    sentence_lists = [where(word) for word in words]
    many = np.array([-1 if sentences is None else len(sentences) for sentences in sentence_lists], np.int64)
    first = np.append(0, np.cumsum(np.maximum(many, 0))[:-1])
    return many, first, np.array([i for sentences in sentence_lists for i in sentences or ()], np.int64)


def lines_of(text, rows, k, criterion):
    """Return the lines of a text that stay, uint8, and how many stay. rows (N, k or more): the word ids of lines that
    are not blank; the first k are used. criterion: the result of `sentences_of`.
    """
    kept, out = np.empty(len(rows), np.uint8), np.empty(len(text), np.uint8)
    number = choose(rows, k, *criterion, kept)
    return out[: copy_lines(text, kept, out) if number else 0], number


@jit
def choose(rows, k, many, first, sentences, kept):
    """kept (N,) <- whether the words rows[:, :k], all of them known, have a sentence in common. Returns the number of
    rows whose words do. Each sentence of a row's rarest word is looked up among the sentences of its other words.
    """
    number = 0
    for i in range(len(rows)):
        begin, least, good = np.int64(-1), np.int64(1) << 62, True
        for j in range(k):
            size = many[rows[i, j]]
            good &= size >= 0
            if 0 < size < least:
                begin, least = first[rows[i, j]], size
        if good and begin >= 0:
            for place in range(begin, begin + least):
                good, j = True, 0
                while good and j < k:
                    begin_j, size = first[rows[i, j]], many[rows[i, j]]
                    at = count_below(sentences, begin_j, 1, size, sentences[place])
                    good = size == 0 or (at < size and sentences[begin_j + at] == sentences[place])
                    j += 1
                if good:
                    break
        kept[i] = good
        number += good
    return number


@jit
def copy_lines(text, kept, out):
    """out <- the lines of a text that stay, without carriage returns at their ends. kept: whether each line that is not
    blank stays. Returns the size of the lines in bytes.
    """
    size, row, begin, blank = 0, 0, 0, True  # begin: where the line begins in `out`
    for c in text:
        if c != 10:
            out[size] = c
            size += 1
            blank &= c == 32 or c == 9 or c == 13
            continue
        if blank or not kept[row]:
            size = begin
        else:
            while out[size - 1] == 13:
                size -= 1
            out[size] = 10
            size += 1
        row += not blank
        begin, blank = size, True
    return begin
