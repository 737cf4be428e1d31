"""ARPA files as SRILM writes them: seven digits, and a back-off weight where an n-gram is a context.

A small model is formatted here; a large one is printed by kernels (`printing`), and with -memory its lines are sorted
on disk (`printing.write_sections`). A log10 of -inf is written as -99.
"""

import numpy as np

from lmtk.files import bounded
from lmtk.files.bounded import zeros
from lmtk.ngram.counting.counts import ranks
from lmtk.ngram.model.nodes import ZERO, are_contexts, mark_suffixes


def write_text(out, model, sort=True, may_reuse=False):
    """Writes a Backoff model as SRILM does: seven digits, and a weight where an n-gram is a context.

    N-grams are sorted by their contexts, compared from the last word back, then by their last words, in byte order.
    Without `sort` they are sorted by word ids, from the last word back. may_reuse: as in `printing.write_sorted`.
    """
    sizes, words, plain = model.sizes, model.vocab.words, sort and not bounded.bound
    rank = ranks(words) if sort else np.arange(len(words), dtype=np.int32)
    out.write(b"\n\\data\\\n" + b"".join(b"ngram %d=%d\n" % (k, size) for k, size in enumerate(sizes, 1)))
    if not model.is_large("write" if plain else "") or sum(sizes) >= 1 << 31:
        format_sections(out, model, rank, sort)
    else:
        from lmtk.ngram.arpa.printing import srilm_layout, write_sections, write_sorted

        if plain:
            write_sorted(out, model, rank, may_reuse)
        else:
            write_sections(out, model, rank, srilm_layout(sorted(words) if sort else words).lines, sort)
    out.write(b"\n\\end\\\n")


def format_sections(out, model, rank, context_first):
    """Writes the sections of `write_text`. rank, context_first: as for `printing.write_sections`."""
    words = np.array(model.vocab.words, object)
    for k, (rows, log10p, log10bow, weighted) in enumerate(printed_ngrams(model), 1):
        out.write(b"\n\\%d-grams:\n" % k)
        place = np.lexsort((rank[rows[:, -1]], *rank[rows[:, :-1]].T) if context_first else rank[rows].T)
        columns = [words[rows[place, j]] for j in range(k)]
        line = b"%s\t" + b" ".join([b"%s"] * k) + b"%s\n"
        p = [b"%.7g" % x for x in log10p[place].tolist()]
        weights = [b"\t%.7g" % x if has_bow else b"" for x, has_bow in zip(log10bow[place].tolist(), weighted[place])]
        out.writelines(map(line.__mod__, zip(p, *columns, weights)))


def weights_stated(model):
    """Whether an ARPA file states the weight of each n-gram, (N,) uint8 for each order; 0 at the highest order. It
    does if the n-gram is a context or a suffix of one, or if the weight is not 0, or -0.0, which has to be stated.
    Raises FormatError if the nodes of a file are damaged.
    """
    nodes, levels = model.nodes, model.nodes.checked_levels(len(model.vocab.words))
    stated = []
    for k, level in enumerate(levels[2:], 2):
        log10bow = levels[k - 1]["log10bow"][:-1]
        marks = (log10bow != 0) | np.signbit(log10bow) | are_contexts(nodes, k, ~np.isnan(level["log10p"][:-1]))
        stated.append(marks.view(np.uint8))
    stated.append(zeros(len(levels[-1]) - 1, np.uint8))
    for k in range(nodes.order - 1, 1, -1):  # SRILM states the weights of suffixes of contexts too
        mark_suffixes(nodes, k, stated)
    return stated


def printed_ngrams(model):
    """Yields each order's rows (N, k) of ids, log10p, log10bow (-99 for log 0), `weights_stated`; no bare prefixes."""
    for k, stated in enumerate(weights_stated(model), 1):
        rows, *logs = model.ngrams(k)
        kept = ~np.isnan(logs[0])
        log10p, log10bow = (np.where(np.isneginf(x), np.float32(ZERO), x + np.float32(0))[kept] for x in logs)
        yield rows[kept], log10p, log10bow, stated[kept]
