"""ARPA files: the text form of back-off models. Probabilities are log10 in the file, natural inside."""

import re
import warnings
from itertools import pairwise

import numpy as np

from lmtk.errors import FormatError, LmtkWarning
from lmtk.files.streams import lines_of
from lmtk.ngram import kernels
from lmtk.ngram.backoff import Backoff, Probabilities, decimal, natural
from lmtk.ngram.counts import ranks, sorted_by, trie
from lmtk.text.corpus import TOKEN
from lmtk.text.vocab import EOS, SOS, UNK, Vocab
from lmtk.threads import in_threads

NUMBER = re.compile(rb"([-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|-[Ii]nf(inity)?)$")
LARGE = 100_000  # n-grams for which loading numba pays
SOME = 1 << 13  # lines made together: their numbers stay in a cache
SECTION = re.compile(rb"\\(\d+)-grams:$")


def read_text(stream, path, seen=()):
    """The Backoff model in an ARPA file, forward only. Raises FormatError.

    Text before \\data\\, tabs or blanks, CRLF, exponents and missing back-off weights are taken as they come; wrong
    numbers of n-grams, positive log probabilities, repeated n-grams and a missing <s> or </s> are one warning each.
    """
    sections, stated, order, ended = {}, {}, None, False
    positive, worst = 0, 0.0
    for number, line in lines_of(stream, path):
        line = line.strip(b" \t\r")
        if order is None:
            if line == b"\\data\\":
                order = 0
        elif not line:
            continue
        elif line == b"\\end\\":
            ended = True
            break
        elif found := SECTION.match(line):
            order = int(found[1])
            if order != len(sections) + 1:
                raise FormatError(path, f"the {order}-grams follow the {len(sections)}-grams", number)
            sections[order] = []
        elif order == 0:
            if not (found := re.fullmatch(rb"ngram\s+(\d+)\s*=\s*(\d+)", line)):
                raise FormatError(path, "expected 'ngram N=count'", number)
            stated[int(found[1])] = int(found[2])
        else:
            entry = parse(line, order)
            if isinstance(entry, str):
                raise FormatError(path, entry, number)
            if entry[0] > 0:
                positive, worst = positive + 1, max(worst, entry[0])
            sections[order].append(entry)
    if order is None:
        raise FormatError(
            path, "no model: neither a binary file of lmtk's, nor \\interp\\, \\mixture\\ or ARPA's \\data\\"
        )
    if not ended:
        raise FormatError(path, "no \\end\\; the file is cut short")
    if not sections.get(1):
        raise FormatError(path, "the model has no 1-grams")
    if positive:
        warnings.warn(f"{path}: {positive} positive log probabilities, up to {worst:.7g}", LmtkWarning, stacklevel=2)
    for k, entries in sections.items():
        if stated.get(k) != len(entries):
            text = f"{path}: \\data\\ says {stated.get(k, 'nothing of')} {k}-grams; there are {len(entries)}"
            warnings.warn(text, LmtkWarning, stacklevel=2)
    return model_of(sections, path)


def parse(line, k):
    """A line of order k -> (log10 p, words, log10 back-off weight), or what is wrong with it."""
    fields = TOKEN.findall(line)
    if len(fields) not in (k + 1, k + 2):
        return f"expected {k} words after the probability, got {len(fields) - 1}; is this a {k}-gram section?"
    numbers = [fields[0], *fields[k + 1 :], b"0"]
    if not all(map(NUMBER.match, numbers[:2])):
        return "a probability or back-off weight is not a number"
    p, bow = float(numbers[0]), float(numbers[1])
    if max(p, bow) > 1e30:
        return "a probability or back-off weight is too large"
    return p, fields[1 : k + 1], bow


def model_of(sections, path):
    """The model of parsed sections: {k: [(log10 p, words, log10 bow)]}."""
    predicted = [words[0] for _, words, _ in sections[1] if words[0] != SOS]
    missing = [w for w in (SOS, EOS, UNK) if w not in predicted]
    names = list(dict.fromkeys(predicted)) + missing
    vocab = Vocab(names, len(names) - len(missing))
    for mark in (SOS, EOS):
        if all(words[0] != mark for _, words, _ in sections[1]):
            warnings.warn(f"{path}: the model has no {mark.decode()}", LmtkWarning, stacklevel=2)
    W, rows, levels, repeated = len(names), [], [], 0
    for entries in sections.values():
        try:
            rows.append(np.array([[vocab.index[w] for w in words] for _, words, _ in entries], np.int32))
        except KeyError as e:
            raise FormatError(path, f"the word {e.args[0].decode(errors='backslashreplace')} has no 1-gram") from None
    rows = [row.reshape(-1, k) for k, row in enumerate(rows, 1)]
    for entries, (keys, first, _) in zip(sections.values(), trie(rows, W), strict=True):
        own = first < len(entries)  # the others are prefixes that the file lacks
        repeated += len(entries) - int(own.sum())
        logp, bow = np.full(len(keys), np.nan), np.zeros(len(keys))
        for array, column in ((logp, 0), (bow, 2)):
            array[own] = natural([entries[i][column] for i in first[own]])
        levels.append(Probabilities(keys, logp, bow))
    if repeated:
        warnings.warn(f"{path}: {repeated} repeated n-grams; the first of each is kept", LmtkWarning, stacklevel=2)
    return Backoff(vocab, len(levels), levels)


def write_text(out, model):
    """Write a Backoff model as SRILM does: seven digits, a weight where an n-gram is a context, n-grams in the byte
    order of their words, those of the context compared from the last one back.
    """
    sizes = [int(np.count_nonzero(~np.isnan(level.logp))) for level in model.levels]
    out.write(b"\n\\data\\\n" + b"".join(b"ngram %d=%d\n" % (k, size) for k, size in enumerate(sizes, 1)))
    sections = print_sections if LARGE <= sum(sizes) < 1 << 31 else format_sections
    sections(out, model, ranks(model.vocab.words))
    out.write(b"\n\\end\\\n")


def format_sections(out, model, rank):
    """The n-grams of each order; rank (W,): the place of each word in byte order."""
    words = np.array(model.vocab.words, object)
    for k, (rows, logp, bow, weighted) in enumerate(ngrams(model), 1):
        out.write(b"\n\\%d-grams:\n" % k)
        ranks = rank[rows]
        place = np.lexsort((ranks[:, -1], *ranks.T[:-1]))
        columns = [words[rows[place, j]] for j in range(k)]
        line = b"%s\t" + b" ".join([b"%s"] * k) + b"%s\n"
        p = [b"%.7g" % x for x in decimal(logp[place]).tolist()]
        weights = [b"\t%.7g" % x if there else b"" for x, there in zip(decimal(bow[place]).tolist(), weighted[place])]
        out.writelines(map(line.__mod__, zip(p, *columns, weights)))


def print_sections(out, model, rank):
    """`format_sections` of a large model."""
    W = len(rank)
    ends = np.concatenate(([0], np.cumsum([len(word) for word in model.vocab.words])))
    letters = np.frombuffer(b"".join((*model.vocab.words, bytes(16))), np.uint8)
    base = np.cumsum([0, *(len(level.keys) for level in model.levels)])
    link = np.empty((base[-1], 2), np.int32)
    starts, straight, weighted = [], [], []
    for k, level in enumerate(model.levels):
        above = len(model.levels[k - 1].keys) if k else 1
        here = slice(base[k], base[k + 1])
        starts.append(np.empty(above + 1, np.int32))
        weighted.append(np.zeros(above, np.uint8))
        links = (link[here], starts[k], weighted[k])
        straight.append(kernels.link_children(level.keys, W, level.logp, rank, *links))
    weighted = [*weighted[1:], np.zeros(0, np.uint8)]
    contexts = np.zeros(1, np.int32)
    for k, level in enumerate(model.levels, 1):
        out.write(b"\n\\%d-grams:\n" % k)
        here, nodes = slice(base[k - 1], base[k]), np.zeros(0, np.int32)
        if not straight[k - 1]:
            nodes = np.arange(len(level.keys), dtype=np.int32)
            parent, word = link[here].T
            nodes = sorted_by(sorted_by(nodes, rank[word], W), parent, len(starts[k - 1]))
        cuts = np.empty((len(level.keys) // SOME + 2, 2), np.int64)
        cuts = cuts[: kernels.cut_lines(contexts, starts[k - 1], SOME, cuts)].tolist()

        def section(cut, k=k, level=level, nodes=nodes, contexts=contexts):
            (begin, before), (end, after) = cut
            rows, numbers = np.empty((after - before, k), np.int32), np.zeros((2, after - before), np.float32)
            there = np.empty(after - before, np.uint8)
            trie = (contexts[begin:end], starts[k - 1], nodes, base, link)
            values = (level.logp, level.bow, weighted[k - 1])
            found, size = kernels.gather_lines(*trie, *values, ends, rows, *numbers, there)
            p, bow = (printed(x[:found]) for x in numbers)
            bow[1][there[:found] == 0] = 0
            text = np.empty(size + found * (64 + k), np.uint8)
            return text[: kernels.print_lines(rows[:found], letters, ends, *p, *bow, text)].data

        out.writelines(in_threads(section, pairwise(cuts)))
        if k < model.order:
            last, contexts = contexts, np.empty(len(level.keys), np.int32)
            kernels.order_contexts(last, starts[k - 1], link[here], rank, contexts)


def printed(x):
    """b"%.7g" of float32 numbers (N,), in cells (N, 16), and their lengths (N,)."""
    cells, length = np.empty((len(x), 16), np.uint8), np.empty(len(x), np.uint8)
    kernels.print_numbers(x, cells, length)
    for i in np.flatnonzero(length == 0):
        found = b"%.7g" % x[i].item()
        cells[i, : len(found)], length[i] = np.frombuffer(found, np.uint8), len(found)
    return cells, length


def written_weights(model, k):
    """Whether the back-off weight of each n-gram of order k stands in the file, (N,): it is a context, or has one."""
    level = model.levels[k - 1]
    context = np.zeros(len(level.keys), bool)
    if k < model.order:
        above = model.levels[k]
        context[(above.keys // len(model.vocab.words))[~np.isnan(above.logp)]] = True
        context |= level.bow != 0
    return context


def ngrams(model):
    """For each order: rows (N, k) of ids, logp, bow (N,), and whether the weight stands in the file, (N,)."""
    W = len(model.vocab.words)
    rows = np.zeros((1, 0), np.int64)
    for k, level in enumerate(model.levels, 1):
        parent = level.keys // W if k > 1 else np.zeros(len(level.keys), np.int64)
        rows = np.column_stack((rows[parent], level.keys % W))
        kept = ~np.isnan(level.logp)
        yield rows[kept], level.logp[kept], level.bow[kept], written_weights(model, k)[kept]
