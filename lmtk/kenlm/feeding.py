"""Where the n-grams of a KenLM file come from, piece by piece: an ARPA file, which is never in memory as a whole, or a
Backoff.
"""

from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np

from lmtk.errors import FormatError
from lmtk.machine.threads import map_in_order
from lmtk.ngram.arpa import reader
from lmtk.ngram.arpa.printing import PIECE


class Receiver(ABC):
    """Receives the n-grams of an ARPA file while the file is read; `reader.read_sections` calls it as it would call a
    `reader.GrowingTrie`. unigrams: the `reader.Unigrams` of the file. sizes: {k: N} of the orders that are complete.
    """

    def __init__(self, path):
        self.path, self.unigrams, self.sizes, self.size = path, reader.Unigrams(path), {}, 0
        self.problem = None  # the error about a word without a 1-gram; raised at the end, unless the file is cut short

    @abstractmethod
    def start(self, rows, stated):
        """Takes the 1-grams. rows (N, 3): as in `reader.Rows`; stated: {k: N} according to \\data\\."""

    @abstractmethod
    def take(self, rows):
        """Takes n-grams of the next order. rows (N, k + 2): as in `reader.Rows`."""

    @abstractmethod
    def end(self, k, size, stated):
        """Called when order k is complete. size: the number of its n-grams; stated: as for `start`."""

    def read(self, stream):
        """Reads the file. Returns ({order: the number of n-grams that \\data\\ states}, the number of positive log
        probabilities, the largest of them). Raises FormatError.
        """
        sections, stated, positive, worst = reader.read_sections(stream, self.path, self)
        if not sections:
            raise FormatError(self.path, "the model has no 1-grams")
        if self.problem:
            raise self.problem
        return stated, positive, worst

    def extend(self, section, rows, stated):
        """Takes Rows that follow the lines that `section` has so far."""
        k = rows.rows.shape[1] - 2
        if k == 1:
            section.append(replace(rows, rows=rows.rows.copy(), text=None))
        else:
            self.pass_on(k, [*section, rows])
            section.clear()

    def pass_on(self, k, pieces):
        """Takes the n-grams of order k of lines and Rows."""
        if not pieces or self.problem:
            return
        try:
            rows = reader.rows_of_pieces(k, pieces, self.unigrams)
        except FormatError as e:
            self.problem = e
            return
        self.size += len(rows)
        self.take(rows)

    def add(self, sections, stated):
        """Completes the last section."""
        k = len(sections)
        if not k:
            return
        if k > 1:
            self.pass_on(k, sections[k])
        elif not sections[1]:
            raise FormatError(self.path, "the model has no 1-grams")
        else:
            rows = reader.rows_of_pieces(1, sections[1], self.unigrams)
            self.size = len(rows)
            self.start(rows, stated)
        if not self.problem:
            self.end(k, self.size, stated)
        self.sizes[k], self.size = self.size, 0
        sections[k].clear()


def pieces_of(model, k):
    """Yields the n-grams of order k > 1 of a Backoff in rows (M, k + 2) as in `reader.Rows`, without bare prefixes."""
    nodes = model.nodes

    def rows_from(first):
        level = nodes.levels[k][:-1][first : first + PIECE]
        log10bow = level["log10bow"] if k < nodes.order else 0
        rows = reader.make_rows(nodes.rows(k, first, first + len(level)), level["log10p"], log10bow)
        return rows[~np.isnan(level["log10p"])]

    return map_in_order(rows_from, range(0, nodes.size(k), PIECE))
