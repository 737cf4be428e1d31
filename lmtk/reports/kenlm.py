"""Any model as in KenLM: log10 p in single precision, lengths of n-grams, numbers of words, and the report of `query`.

A word that the model does not have is <unk>. It is an OOV even if <unk> has a probability; if <unk> has none, log10 p
is -100. Blank lines are sentences. `scorer` makes a scoring function of a model, `numbers` the numbers of its words,
and `report` prints what `query` prints.
"""

import bisect
import math
import re
import warnings

import numpy as np

from lmtk.errors import LmtkWarning, name_of
from lmtk.files import container
from lmtk.files.decoding import WORD, blocks, lines_in
from lmtk.files.inputs import is_file, open_in
from lmtk.kenlm.hashed import Hashed
from lmtk.kenlm.layout import CAPITALS, MISSING
from lmtk.lm import LN10, ranges
from lmtk.machine.jit import jit
from lmtk.machine.threads import map_in_order
from lmtk.ngram.arpa.reader import make_rows, nodes_of_few, rows_of_model
from lmtk.ngram.model.backoff import Backoff, Walk
from lmtk.ngram.model.nodes import find_unigrams, is_suffix_closed
from lmtk.reports.tally import added
from lmtk.text.cells import shortest_digits
from lmtk.text.corpus import NEWLINE, Closed, Corpus, Reader
from lmtk.text.vocab import EOS, SOS, UNK, lower

f32 = np.float32
BLOCK = 1 << 18  # bytes of a text that a thread reads and scores at once
NEVER = -99.0  # log10 p of another word of probability 0: what an ARPA file holds
TOKEN = re.compile(rb"[^ \t\r\n\v\f]+")  # query also splits words at \v and \f
LEVELS = ("summary", "sentence", "word")  # those of query -v; -debug N shows the first N + 1


def unknown_id(vocab):
    """The id of the word that stands for unknown words: <UNK> if the model has only that spelling."""
    only_capitals = not vocab.predicts(vocab.unk) and vocab.predicts(CAPITALS)
    return vocab.index[CAPITALS] if only_capitals else vocab.unk_id


def closed(vocab):
    """Word -> id, where both spellings of <unk> are the unknown word."""
    unk = unknown_id(vocab)
    return Closed(vocab.index | {UNK: unk, CAPITALS: unk}, unk)


def walk(model, lengths=True):
    """The Walk of a Backoff model as in KenLM: log10 p in single precision, -100 for a word without a 1-gram.

    lengths: whether the lengths of n-grams are KenLM's too, which takes a pass over the model.
    """
    W, nodes = len(model.vocab.words), model.nodes
    if lengths and not is_suffix_closed(nodes):
        nodes = with_suffixes(model)
    first, log10p = nodes.levels[1][:-1], np.full(W, MISSING, np.float32)
    has_p = ~np.isnan(first["log10p"])
    log10p[first["word"][has_p]] = first["log10p"][has_p]
    return Walk(nodes, find_unigrams(nodes, W), log10p, W, kenlm=True)


def with_suffixes(model):
    """The Nodes of a Backoff model with the n-grams that KenLM adds: every missing suffix of an n-gram.

    KenLM finds longer n-grams through these suffixes, and reports the lengths of the suffixes. A suffix has +inf in
    place of log10 p, since it has no probability of its own.
    """
    rows = rows_of_model(model)
    for k in range(len(rows) - 1, 1, -1):
        rows[k - 1] = np.concatenate((rows[k - 1], make_rows(rows[k][:, 1:-2], np.inf, 0)))
    return nodes_of_few(rows, len(model.vocab.words))[0]


def scorer(model, lengths=True):
    """A function: Corpus -> (log10 p (N,), length of the n-gram used (N,)); both are undefined for tokens not scored.

    For a back-off model, log10 p is float32, and its terms are added in KenLM's order. For other models, log10 p is
    float64. A mixture reports the greatest of its parts' lengths, and a neural model the number of words that it uses.
    """
    if isinstance(model, Hashed):
        return model.log10p
    if not isinstance(model, Backoff):
        return lambda corpus: score_any(model, corpus)
    walked = walk(model, lengths)

    def score(corpus):
        log10p, used = walked(corpus.ids, corpus.fresh)
        log10p[~corpus.scored] = used[~corpus.scored] = 0
        return log10p, used

    return score


def score_any(model, corpus):
    scores = model.score(corpus)
    log10p = scores.logp / LN10
    never = log10p == -np.inf
    log10p[never] = np.where(corpus.ids[never] == unknown_id(model.vocab), MISSING, NEVER)
    place = ranges(0, np.diff(corpus.starts))
    longest = np.minimum(place + 1, model.order)
    lengths = np.where(scores.length < 0, longest[:, None], scores.length).max(axis=1, initial=1)
    return log10p, np.where(corpus.scored, lengths, 0)


def numbers(model, path):
    """KenLM's number of each word, as a list by id: 0 for <unk>.

    path: the file of the model. A KenLM binary file contains the numbers. For an ARPA file, the numbers follow the
    order of the 1-grams, so the file is read again. For other models, they follow the order of the vocabulary. The
    vocabulary of a back-off model does not tell where <s> was; <s> gets the number that SRILM or lmplz would give it.
    """
    if getattr(model, "number", None) is not None:
        return model.number.tolist()
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
    """The words of an ARPA file in their order; None if `path` cannot be read twice, or is a binary form."""
    if not is_file(path):
        return None
    words = None
    with open_in(path) as stream:
        if container.looks_binary(stream.peek(64)[:64]):
            return None
        for _, line in lines_in(stream, path):
            fields = WORD.findall(line)
            if fields == [b"\\1-grams:"]:
                words = []
            elif words is not None and fields:
                if len(fields) == 1:
                    break
                words.append(fields[1])
    return words


def block_corpus(ids_of, block, vocab, marks):
    """(the Corpus of a block of lines, blank ones included; the block; whether its last line is complete).

    ids_of: gives the ids of a text by the `closed` index of the vocabulary. A last line without a line end has no </s>.
    """
    if b"\v" in block or b"\f" in block:
        block = block.replace(b"\v", b" ").replace(b"\f", b" ")
    whole = block.endswith(b"\n") or not block
    ids = ids_of(block if whole else block + b"\n")
    sos, eos = marks.sos, marks.eos
    ends = np.flatnonzero(ids == NEWLINE)
    before = ends - np.arange(len(ends))  # how many words there are up to each line's end
    starts = np.append(0, before + np.arange(1, len(ends) + 1) * (sos + eos))
    if not whole:
        starts[-1] -= eos
    line = np.repeat(np.arange(len(ends)), np.diff(before, prepend=0))
    out = np.empty(starts[-1], np.int32)
    out[np.arange(len(line)) + line * (sos + eos) + sos] = ids[ids != NEWLINE]
    scored = np.ones(len(out), bool)
    if sos:
        out[starts[:-1]], scored[starts[:-1]] = vocab.index[SOS], False
    if eos:
        out[starts[1:][: len(ends) - (not whole)] - 1] = vocab.index[EOS]
    return Corpus(out, starts, scored), block, whole


def sentence_sums(corpus, log10p, sos):
    """The sum of log10p (N,) over the words of each sentence, (S,) float32, added one after the other in single
    precision. sos: whether sentences begin with <s>, which does not count.
    """
    log10p, first, last = log10p.astype(np.float32, copy=False), corpus.starts[:-1] + sos, corpus.starts[1:]
    if not corpus.is_large("sums"):
        return np.array([np.add.accumulate(np.append(f32(0), log10p[i:j]))[-1] for i, j in zip(first, last)], f32)
    sums = np.empty(len(first), f32)
    add_up(log10p, first, last, sums)
    return sums


@jit
def add_up(numbers, first, last, sums):
    """sums (S,) <- the sums of numbers[first[i] : last[i]], added one after the other."""
    for i in range(len(sums)):
        total = f32(0)
        for t in range(first[i], last[i]):
            total += numbers[t]
        sums[i] = total


def perplexity(log10p, count):
    """10^(-log10p / count), nan and infinity included, as text."""
    with np.errstate(divide="ignore", invalid="ignore"):
        exponent = -(np.float64(log10p) / np.float64(count))
    try:
        return shortest_digits(np.float64(math.pow(10.0, exponent)))
    except OverflowError:
        return "inf"


def answers(block, lines, number, tokens, totals):
    """The same as `lines.answers`, in Python."""
    (first, last, whole), (ids, length, log10p), (sums, oovs), out = lines, tokens, totals, []
    for i, row in enumerate(block.split(b"\n")[: len(first)]):
        words = TOKEN.findall(row) + [EOS] * (i < whole)
        for t, word in zip(range(first[i], last[i]), words):
            out.append(word + f"={number[ids[t]]} {length[t]} {shortest_digits(log10p[t])}\t".encode())
        if i < len(sums):
            out.append(f"Total: {shortest_digits(sums[i])} OOV: {oovs[i]}\n".encode())
    return b"".join(out)


def report(model, lm, text, marks, shown, write, eager=False):
    """Print what `query` prints about a text, through `write`, which takes bytes; `shown` has some of LEVELS.

    lm: the file of the model, for the numbers of its words. eager: sentences are answered as they come.
    """
    each, ends = "word" in shown, "sentence" in shown
    score, unk = scorer(model, each), unknown_id(model.vocab)
    number = np.array(numbers(model, lm) if each else [], np.int32)

    def read():
        reader = Reader(closed(model.vocab), marks.tolower)
        for block in blocks(text, BLOCK, eager, as_is=True):
            yield reader.reading(block), block

    def answered(item):
        """The lines of a block; log10 p of its OOVs; the sums and OOVs of its whole lines; its tokens."""
        corpus, block, whole = block_corpus(*item, model.vocab, marks)
        log10p, length = score(corpus)
        log10p = log10p.astype(np.float32, copy=False)
        unknown = corpus.scored & (corpus.ids == unk)
        first, last = corpus.starts[:-1] + marks.sos, corpus.starts[1:]
        if not whole:
            # so does query: such a line's words are counted, their probabilities are not
            name = name_of(text)
            warnings.warn(
                f"{name}: the last line has no line end, so (as in KenLM) its words are counted but not scored",
                LmtkWarning,
                stacklevel=2,
            )
        kept = len(first) - (not whole)
        sums = sentence_sums(corpus, log10p, marks.sos)[:kept]
        oovs = np.diff(np.append(0, np.cumsum(unknown))[corpus.starts])[:kept]
        lines = b""
        if each or ends:
            block = lower(block) if marks.tolower and each else block
            if corpus.is_large("answer"):
                from lmtk.reports.lines import answers as write_lines
            else:
                write_lines = answers
            places = first if each else last, last, kept * marks.eos
            totals = (sums, oovs) if ends else (sums[:0], oovs[:0])
            lines = write_lines(block, places, number, (corpus.ids, length, log10p), totals)
        return lines, log10p[unknown], sums, oovs, int((last - first).sum())

    total = total_of_oovs = 0.0
    tokens = oovs = 0
    for lines, of_oovs, sums, line_oovs, size in (map if eager else map_in_order)(answered, read()):
        write(lines)
        total, total_of_oovs = added(total, sums), added(total_of_oovs, of_oovs)
        tokens, oovs = tokens + size, oovs + int(line_oovs.sum())
    if "summary" not in shown:
        return
    including, excluding = perplexity(total, tokens), perplexity(total - total_of_oovs, tokens - oovs)
    write(f"Perplexity including OOVs:\t{including}\nPerplexity excluding OOVs:\t{excluding}\n".encode())
    write(f"OOVs:\t{oovs}\nTokens:\t{tokens}\n".encode())
