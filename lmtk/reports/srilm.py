"""SRILM's perplexity report, from scores.

`outcome` decides which tokens are OOVs and zeroprobs, `sentence_sums` adds up sentences, and `report` writes the lines
at each level of -debug. `report_sums` is for large texts at -debug 0, `report_counts` for counts instead of a text, and
`report_passages` for texts with lines that are copied as they are.
"""

from functools import partial
from itertools import groupby

import numpy as np

from lmtk.errors import FormatError
from lmtk.lm import ABSENT, LN10, NONE, UNKNOWN, unique_rows, vocabulary_sums
from lmtk.machine.threads import Scratch, map_in_order
from lmtk.ngram.model import walking
from lmtk.reports.tally import Tally, added
from lmtk.text.corpus import corpora, sentences
from lmtk.text.vocab import SOS, lower

BLOCK = 1 << 18  # bytes of a large text that a thread reads and scores at once


def outcome(vocab, corpus, scores):
    """(oov, zero, log10p) of each token: bool, bool, float64 with 0 for tokens that do not count.

    As in SRILM, an unknown word is an OOV only if <unk> has no probability. Unknown words have the id of <unk>
    (`text.corpus.Closed`). Any other word of probability 0 is a zeroprob. So is <s> inside a line, since it is not
    predicted. log10 p is rounded to single precision, which the last digits of SRILM's reports depend on. For a large
    text at -debug 0, `walking.sum_text` decides the same.
    """
    never = corpus.scored & (scores.logp == -np.inf)
    unknown = corpus.ids == vocab.unk_id
    log10p = (np.where(corpus.scored & ~never, scores.logp, 0.0) / LN10).astype(np.float32).astype(np.float64)
    return never & unknown, never & ~unknown, log10p


def sentence_sums(corpus, eos, oov, zero, log10p):
    """The numbers of a Tally for each sentence of the corpus, five arrays (S,); `eos` is the id of </s>.

    A sentence counts as often as the corpus says.
    """
    first = corpus.starts[:-1]
    if not len(corpus.ids):
        return np.zeros((5, 0))
    sums = [np.add.reduceat(x, first) for x in (eos & corpus.scored, corpus.scored & ~eos, oov, zero, log10p)]
    return sums if corpus.times is None else [x * corpus.times for x in sums]


def token_lines(words, corpus, scores, outcomes, sums, sentence):
    """The lines of -debug 2, one for each token of a sentence; with `sums` those of -debug 3. outcomes: the result of
    `outcome`.
    """
    (oov, zero, log10p), out, (start, end) = outcomes, [], corpus.starts[sentence : sentence + 2]
    for t in range(start, end):
        if not corpus.scored[t]:
            continue
        if t == start:
            context = b" "
        else:
            previous = words[corpus.ids[t - 1]]
            context = previous + (b" " if t - 1 == start and previous == SOS else b" ...")
        total, debug = (None, 2) if sums is None else (sums[t], 3)
        p_and_tag = prediction(tag(scores, t, oov[t], debug), oov[t], zero[t], log10p[t], total)
        out.append(b"\tp( %s | %s) \t= %s\n" % (words[corpus.ids[t]], context, p_and_tag))
    return b"".join(out)


def tags_of(scores, oov):
    """The different tags of tokens at -debug 2, bytes; and the number of the tag of each token, (N,)."""
    number, token = oov.astype(np.int64), np.arange(len(oov))
    for length in scores.length.T:
        code = number * 256 + length + 128
        place = np.full(256 * (int(number.max(initial=0)) + 1), -1)
        place[code] = token
        examples = place[place >= 0]
        place[place >= 0] = np.arange(len(examples))
        number = place[code]
    return [tag(scores, t, oov[t], 2).encode() for t in examples], number


def tag(scores, t, oov, debug):
    """The tag of a token in the report, which shows the models that gave it its probability: "[3gram][nplm]"."""
    shown = {UNKNOWN: "[OOV]", ABSENT: ""} | ({NONE: "[OOV]", 0: "[OOV]"} if oov else {})
    tags = [shown.get(n, f"[{kind if n == NONE else f'{n}gram'}]") for n, kind in zip(scores.length[t], scores.kinds)]
    for name, x, level in scores.more:
        figures = np.atleast_1d(x[t])
        if debug >= level and not np.isnan(figures).any():
            tags.append(f"[{name}={','.join(f'{v:.7g}' for v in figures)}]")
    return "".join(tags)


def prediction(tag, oov, zero, log10p, total=None, weight=1):
    """The part of a word's line after the equals sign: tag, p, log10 p, the weight if it is not 1, and `total`, the sum
    over the vocabulary, unless it is None.
    """
    p, logp = (0, "-inf") if oov or zero else (10**log10p, f"{log10p:.7g}")
    times = f" *{weight:.7g}" if weight != 1 else ""
    total = f" / {total:.7g}" if total is not None else ""
    return f"{tag} {p:.7g} [ {logp}{times} ]{total}".encode()


def report(model, name, corpora, debug, write, unk=True):
    """Write SRILM's report of a text through `write`, which takes bytes, at `debug` 0 to 3. Returns the same as
    `tally`.
    """
    total = tally(model, corpora, debug, write, unk)
    check_sum(model, total[0])
    write(total[0].lines(f"file {name}: "))
    return total


def check_sum(model, whole):
    """Raise FormatError if the log10 p of a Tally is nan because the file of a back-off model is damaged."""
    if np.isnan(whole.log10p) and hasattr(model, "nodes"):
        raise FormatError(model.nodes.path, "damaged: weights that are not numbers")


def report_passages(model, name, passages, debug, write, unk=True):
    """Write SRILM's report of a text with lines that are copied: each passage is corpora and the line after them."""
    whole, has_tokens, has_sums = Tally(), False, False
    for texts, line in passages:
        part = tally(model, texts, debug, write, unk)[0]
        has_tokens |= part.words + part.sentences > 0
        # as in SRILM, at -debug 0 a passage has sums if a copied line follows; the last has sums if one before it has
        if debug == 0 and (has_tokens if line else has_sums):
            write(part.lines() + b"\n")
            has_sums = True
        write(line)
        whole.add(part)
    write(whole.lines(f"file {name}: "))


def tally(model, corpora, debug, write, unk=True):
    """The Tally of a text, the number of blank lines, and the number of unknown words with the probability of <unk>.

    SRILM counts the latter as words, not as OOVs. Writes the sentences and words that `debug` asks for; unk: whether
    sums over the vocabulary include <unk>.
    """
    whole, blank, unknown, cells = Tally(), 0, 0, None
    for corpus in corpora:
        blank += corpus.blank
        scores, words = model.score(corpus), model.vocab.words
        sums = None
        if debug >= 3:
            sums = np.zeros(len(corpus.ids))
            sums[corpus.scored] = vocabulary_sums(model, corpus, corpus.scored, unk)
        oov, zero, log10p = outcome(model.vocab, corpus, scores)
        unknown += int((corpus.scored & ~oov & (corpus.ids == model.vocab.unk_id)).sum())
        eos = np.zeros(len(corpus.ids), bool)
        last = corpus.starts[1 : len(corpus.starts) - corpus.goes_on] - 1
        eos[last] = corpus.ids[last] == model.vocab.eos_id
        sums_of = sentence_sums(corpus, eos, oov, zero, log10p)
        if debug == 0 and corpus.times is None:
            *numbers, logs = sums_of
            whole.log10p = added(whole.log10p, logs)
            whole.add(Tally(*(int(column.sum()) for column in numbers)))
            continue
        large = debug == 2 and all(level > 2 for *_, level in scores.more) and corpus.is_large("report")
        if large:
            from lmtk.reports.lines import predictions
            from lmtk.text.cells import word_cells

            cells = cells if cells and len(cells[2]) == len(words) else word_cells(words)
            text, stops = predictions(cells, *tags_of(scores, oov), corpus, oov | zero, log10p, model.vocab.sos_id)
            stops = np.append(0, stops)
        for i, (*numbers, log) in enumerate(zip(*sums_of, strict=True)):
            part = Tally(*(x.item() for x in numbers), float(log))
            if corpus.lines is not None:
                write(corpus.lines[i] + b"\n")
            if large:
                write(text[stops[i] : stops[i + 1]])
            elif debug >= 2:
                write(token_lines(words, corpus, scores, (oov, zero, log10p), sums, i))
            if corpus.lines is not None:
                write(part.lines() + b"\n")
            whole.add(part)
    return whole, blank, unknown


def report_sums(model, name, texts, marks, write):
    """Write `report` at debug 0 of a large text, by a back-off model.

    texts: blocks of the text, each read and scored in one thread; pieces of long lines are scored by `tally` in
    between. marks: must not be those of a stream.
    """
    vocab = model.vocab
    table = vocab.table.arrays()
    ids = vocab.V, vocab.unk_id, vocab.sos_id, vocab.eos_id, marks.sos, marks.eos
    whole, blank, unknown, of_pieces, scratch = Tally(), 0, 0, [], Scratch()

    def whole_lines():
        for cut, blocks in groupby(texts, partial(is_piece, [b"\n"])):
            if cut:
                of_pieces.append(tally(model, corpora(blocks, vocab, marks, model.order), 0, write))
            elif marks.tolower:
                yield from map(lower, blocks)
            else:
                yield from blocks

    def summed(text):
        with scratch.lent() as room:
            arrays = tuple(room(name, n * (len(text) + 2), kind) for name, (kind, n) in walking.ROOM.items())
            lines, *numbers = walking.sum_text(model.walk.arrays, table, ids, text, arrays)
            return arrays[0][:lines].copy(), numbers

    for sums, (*numbers, unknown_here, blank_here) in map_in_order(summed, whole_lines()):
        whole.log10p = added(whole.log10p, sums)
        whole.add(Tally(*numbers))
        blank, unknown = blank + blank_here, unknown + unknown_here
    for other, *more in of_pieces:
        whole.add(other)
        blank, unknown = blank + more[0], unknown + more[1]
    check_sum(model, whole)
    write(whole.lines(f"file {name}: "))
    return whole, blank, unknown


def is_piece(ends, block):
    """Whether a block of a text is a piece of a long line.

    ends: a list whose last item is the last byte of the block before; the last byte of this block is appended.
    """
    ends[:] = [*ends[-1:], block[-1:]]
    return ends != [b"\n", b"\n"]


def report_counts(model, name, passages, debug, write, unk=True, entropy=False):
    """Write SRILM's report of n-gram counts. An n-gram is a prediction of its last word, with the count as its weight.

    entropy: the weight is the count times p of the whole n-gram, and a passage counts as one word. Otherwise an n-gram
    that ends in </s> counts as a sentence, any other as a word. passages: for each passage, its counts and a line that
    is written after them. Counts: a list with rows (N, k) of ids and their counts (N,) for each order that has any;
    equal rows are added up.
    """
    whole, by_bytes = Tally(), []
    for counts, line in passages:
        words = model.vocab.words
        if len(by_bytes) < len(words):
            by_bytes = sorted(range(len(words)), key=words.__getitem__)
        part = counts_tally(model, counts, by_bytes, debug, write, unk, entropy)
        if counts and entropy:
            part.sentences, part.words = 0, 1
        if debug >= 1 and counts:
            write(part.lines() + b"\n")
        write(line)
        whole.add(part)
    write(whole.lines(f"file {name}: "))


def counts_tally(model, counts, by_bytes, debug, write, unk, entropy):
    """The Tally of counts; the lines of -debug 2 are written.

    by_bytes: the ids in the order of the words' bytes. unk: whether sums over the vocabulary include <unk>; entropy: as
    in `report_counts`.
    """
    whole, vocab = Tally(), model.vocab
    words, rank = vocab.words, np.empty(len(vocab.words), np.int64)
    rank[by_bytes] = np.arange(len(words))
    for rows, weights in counts:
        ranks, inverse = unique_rows(rank[rows])
        weight = np.bincount(inverse, weights, len(ranks))
        ranks, weight = ranks[weight > 0], weight[weight > 0]
        corpus = sentences(np.array(by_bytes, np.int32)[ranks])
        scores = model.score(corpus)
        oov, zero, log10p = (x[corpus.scored] for x in outcome(vocab, corpus, scores))
        eos = corpus.ids[corpus.scored] == vocab.eos_id
        ends, inside, oovs, zeros = (weight[x].sum() for x in (eos, ~eos, oov, zero))
        if entropy:
            from lmtk.joint.dynamic import sequence_log10p

            scored = lambda corpus: model.score(corpus).logp
            log10p_whole = sequence_log10p(scored, vocab, corpus.ids.reshape(len(weight), -1), unk)
            weight = weight * 10 ** log10p_whole[:, 0]
        whole.add(Tally(ends, inside, oovs, zeros, weight @ log10p))
        if debug >= 2:
            sums = vocabulary_sums(model, corpus, corpus.scored, unk) if debug >= 3 else [None] * len(weight)
            for i, t in enumerate(np.flatnonzero(corpus.scored)):
                ngram = [words[w] for w in corpus.ids[corpus.starts[i] : t + 1]]
                p_and_tag = prediction(tag(scores, t, oov[i], debug), oov[i], zero[i], log10p[i], sums[i], weight[i])
                write(b"\tp( %s | %s ) \t= %s\n" % (ngram[-1], b" ".join(ngram[-2::-1]), p_and_tag))
    return whole
