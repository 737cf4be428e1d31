"""Any model as KenLM sees one: log10 p in single precision, lengths of n-grams, numbers of words, `query`'s report.

A word that the model does not have is <unk>, an OOV even where <unk> has a probability; where it has none, log10 p is
-100. Blank lines are sentences.
"""

import bisect
import math
import os
import re
import warnings
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lmtk.errors import LmtkWarning
from lmtk.files import container
from lmtk.files.streams import blocks, lines_of, open_in
from lmtk.lm import LN10
from lmtk.ngram.backoff import Backoff, decimal
from lmtk.ngram.counts import find, find_rows, to_rows, trie, values
from lmtk.text.corpus import Closed, Corpus, contexts
from lmtk.text.vocab import EOS, SOS, UNK, lower

MISSING = -100.0  # log10 p of an unknown word where <unk> has no probability
NEVER = -99.0  # log10 p of another word of probability 0: what an ARPA file holds
CAPITALS = b"<UNK>"  # as good as <unk>
TOKEN = re.compile(rb"[^ \t\r\n\v\f]+")  # query's blanks, two more than lmtk's own
LENGTH = re.compile(r"\[(?:(\d+)gram|[^\]]*)\]")


def unknown_id(vocab):
    """The id of the word that stands for unknown ones: <UNK> where the model has only that."""
    only_capitals = not vocab.predicts(vocab.unk) and vocab.predicts(CAPITALS)
    return vocab.index[CAPITALS] if only_capitals else vocab.unk_id


def closed(vocab):
    """Word -> id, both spellings of <unk> being the unknown word."""
    unk = unknown_id(vocab)
    return Closed(vocab.index | {UNK: unk, CAPITALS: unk}, unk)


@dataclass(frozen=True)
class Table:
    """The n-grams of one order of a back-off model, with those that KenLM puts in.

    It puts in every missing tail of an n-gram, so that longer ones are found from their end: these have no p of their
    own, but their length is the one reported. keys (N,) as in `counts`; log10p (N,), nan where p is found by backing
    off; bow (N,); counted (N,), whether it is an n-gram and no bare prefix. Both logs in single precision.
    """

    keys: np.ndarray
    log10p: np.ndarray
    bow: np.ndarray
    counted: np.ndarray


def tables(model):
    """The Table of each order of a Backoff model."""
    W = len(model.vocab.words)
    own = [~np.isnan(level.logp) for level in model.levels]
    rows = [row[there] for row, there in zip(to_rows(model.levels, W), own)]
    for k in range(len(rows) - 1, 1, -1):
        rows[k - 1] = np.concatenate((rows[k - 1], rows[k][:, 1:]))
    out = []
    for row, there, level, (keys, first, _) in zip(rows, own, model.levels, trie(rows, W)):
        log10p, bow = np.full(len(keys), np.nan, np.float32), np.full(len(keys), -0.0, np.float32)
        real = first < there.sum()
        log10p[real] = decimal(level.logp[there])[first[real]]
        log10p[log10p == 0] = -0.0  # as KenLM keeps and prints it
        bow[real] = decimal(level.bow[there])[first[real]]
        out.append(Table(keys, log10p, bow, first < len(row)))
    for level, above in pairwise(out):
        # a weight of 0 has the sign - until an n-gram goes on from there; -0 + -0 is -0, and -0 + 0 is 0
        zero = level.bow == 0
        level.bow[zero] = -0.0
        goes_on = np.zeros(len(zero), bool)
        goes_on[above.keys[above.counted] // W] = True
        level.bow[zero & goes_on] = 0.0
    return out


def scorer(model):
    """A function: Corpus -> (log10 p (N,), length of the n-gram used (N,)); nothing where a token is not scored.

    Of a back-off model log10 p is float32, its terms added in KenLM's order; of other models float64, and the length is
    that of the longest n-gram that any part used, or the words that a neural model looked at.
    """
    if isinstance(model, Backoff):
        levels = tables(model)
        return lambda corpus: score_backoff(levels, len(model.vocab.words), corpus)
    return lambda corpus: score_any(model, corpus)


def score_backoff(levels, W, corpus):
    at = np.flatnonzero(corpus.scored)
    rows, w = contexts(corpus, len(levels))[at], corpus.ids[at]
    log10p, length = np.full(len(at), MISSING, np.float32), np.ones(len(at), np.int64)
    orders = [level.keys for level in levels]
    for k, level in enumerate(levels, 1):
        # the node of w_(t-k+1) .. w_(t-1); the root, 0, stands for none of them
        node = find_rows(orders, rows[:, : k - 1][:, ::-1], W)
        if k > 1:
            # a missing <unk> has the weight +0, which makes 0 of -0
            missing = (k == 2) & (rows[:, 0] >= 0)
            log10p += values(levels[k - 2].bow, node, np.where(missing, np.float32(0), np.float32(-0.0)))
        child = find(level.keys, node, w, W)
        here = np.flatnonzero(child >= 0)
        child = child[here]
        length[here[level.counted[child]]] = k
        real = ~np.isnan(level.log10p[child])
        log10p[here[real]] = level.log10p[child[real]]
    whole, lengths = np.zeros(len(corpus.ids), np.float32), np.zeros(len(corpus.ids), np.int64)
    whole[at], lengths[at] = log10p, length
    return whole, lengths


def score_any(model, corpus):
    scores = model.score(corpus)
    log10p = scores.logp / LN10
    never = log10p == -np.inf
    log10p[never] = np.where(corpus.ids[never] == unknown_id(model.vocab), MISSING, NEVER)
    lengths = np.zeros(len(corpus.ids), np.int64)
    starts = np.repeat(corpus.starts[:-1], np.diff(corpus.starts))
    for t in np.flatnonzero(corpus.scored):
        looked = min(model.order, t - starts[t] + 1)
        lengths[t] = max([1, *(int(n) if n else looked for n in LENGTH.findall(scores.tag(t)))])
    return log10p, lengths


def numbers(model, path):
    """KenLM's number of each word, as a list by id: 0 for <unk>, the others from 1 in the order of the ARPA file.

    path: where the model is from. A regular file is read again for its order. Elsewhere (a pipe, a binary form) that of
    the model's own list serves, in which only the place of <s> is lost: <s> is put where SRILM or lmplz would have it.
    Other kinds of model: the order of their list.
    """
    vocab = model.vocab
    words = vocab.words
    if isinstance(model, Backoff):
        words = arpa_words(path)
        if words is None:
            words = [w for w in vocab.words if w != SOS]
            plain = [w for w in words[: vocab.V] if w not in (UNK, CAPITALS)]
            words.insert(bisect.bisect(words, SOS) if plain == sorted(plain) else int(words[0] == UNK), SOS)
    number = dict.fromkeys(words, 0)
    plain = (w for w in number if w not in (UNK, CAPITALS, vocab.unk))
    number.update((w, i) for i, w in enumerate(plain, 1))
    return [number.get(w, 0) for w in vocab.words]


def arpa_words(path):
    """The words of an ARPA file in their order; None where `path` can't be read twice, or is a binary form."""
    if not os.path.isfile(path):
        return None
    words = None
    with open_in(path) as stream:
        if container.looks_binary(stream.peek(64)[:64]):
            return None
        for _, line in lines_of(stream, path):
            fields = TOKEN.findall(line)
            if fields == [b"\\1-grams:"]:
                words = []
            elif words is not None and fields:
                if len(fields) == 1:
                    break
                words.append(fields[1])
    return words


def sentences(path, vocab, sos, eos, tolower=False, eager=False):
    """The text of `path` in blocks of whole lines: (Corpus, words, whether the last line is whole)."""
    index = closed(vocab)
    for block in blocks(path, eager=eager):
        *rows, rest = (lower(block) if tolower else block).split(b"\n")
        words, starts = [], [0]
        for row in rows:
            words += [SOS] * sos + TOKEN.findall(row) + [EOS] * eos
            starts.append(len(words))
        if rest:
            words += [SOS] * sos + TOKEN.findall(rest)
            starts.append(len(words))
        ids = np.fromiter(map(index.__getitem__, words), np.int32, len(words))
        scored = np.ones(len(ids), bool)
        if sos:
            scored[starts[:-1]] = False
        yield Corpus(ids, np.array(starts), scored), words, not rest


def in_turn(numbers):
    """The sum of an array, one after the other in its own precision."""
    return np.add.accumulate(numbers)[-1] + numbers.dtype.type(0) if len(numbers) else numbers.dtype.type(0)


def perplexity(log10p, count):
    """10^(-log10p / count), nan and infinity included, as text."""
    with np.errstate(divide="ignore", invalid="ignore"):
        exponent = -(np.float64(log10p) / np.float64(count))
    try:
        return shortest(np.float64(math.pow(10.0, exponent)))
    except OverflowError:
        return "inf"


def shortest(x):
    """The shortest digits that give back x, of its precision: plain from 1e-6 up to 1e21, 1e21 and 1e-7 beyond."""
    if not np.isfinite(x):
        return "NaN" if np.isnan(x) else "inf" if x > 0 else "-inf"
    digits, _, exponent = np.format_float_scientific(x, trim="-").partition("e")
    if x == 0 or -6 <= int(exponent) < 21:
        return np.format_float_positional(x, trim="-")
    return f"{digits}e{int(exponent)}"


LEVELS = ("summary", "sentence", "word")  # those of query -v; -debug shows so many and one


def report(model, lm, text, marks, shown, write, tolower=False, eager=False):
    """What `query` prints of a text through `write`, which takes bytes: `shown` has some of LEVELS.

    lm: the model's file, for the numbers of its words. eager: sentences are answered as they come.
    """
    score, unk, sos = scorer(model), unknown_id(model.vocab), marks.sos
    number = numbers(model, lm) if "word" in shown else None
    total = total_of_oovs = 0.0
    tokens = oovs = 0
    for corpus, words, whole in sentences(text, model.vocab, marks.sos, marks.eos, tolower, eager):
        log10p, lengths = score(corpus)
        log10p = log10p.astype(np.float32)
        unknown = corpus.scored & (corpus.ids == unk)
        for i in range(len(corpus.starts) - 1):
            start, end = corpus.starts[i] + sos, corpus.starts[i + 1]
            tokens += int(end - start)
            for p in log10p[start:end][unknown[start:end]].tolist():
                total_of_oovs += p
            if "word" in shown:
                for t in range(start, end):
                    about = f"={number[corpus.ids[t]]} {lengths[t]} {shortest(log10p[t])}\t"
                    write(words[t] + about.encode())
            if not whole and i == len(corpus.starts) - 2:
                # so does query: such a line's words are counted, their probabilities are not
                name = "stdin" if text == "-" else text
                warnings.warn(
                    f"{name}: the last line has no line end; as with KenLM its words count, their probabilities do not",
                    LmtkWarning,
                    stacklevel=2,
                )
                continue
            sum_, known = in_turn(log10p[start:end]), int(unknown[start:end].sum())
            if "sentence" in shown:
                write(f"Total: {shortest(sum_)} OOV: {known}\n".encode())
            total += float(sum_)
            oovs += known
    if "summary" not in shown:
        return
    including, excluding = perplexity(total, tokens), perplexity(total - total_of_oovs, tokens - oovs)
    write(f"Perplexity including OOVs:\t{including}\nPerplexity excluding OOVs:\t{excluding}\n".encode())
    write(f"OOVs:\t{oovs}\nTokens:\t{tokens}\n".encode())
