"""The disambiguation of a text, as by SRILM's disambig: its words stand for tags, which a map and a model choose.

In: a DisambigJob, with a map, a text and, if wanted, an n-gram model of tags. Out: for each sentence the best sequence
of tags, the N best, or the probability of each candidate; then counts and the map as files. A block of the text becomes
Sentences, `trellis.Decoder` decodes them, and the results are printed before the next block is read.
"""

import math
import sys
import warnings
from dataclasses import dataclass

import numpy as np

from lmtk.errors import LmtkError, LmtkWarning, name_of, shown
from lmtk.files.decoding import WORD, decode_blocks, lines, passages, split_lines
from lmtk.files.inputs import open_in
from lmtk.files.outputs import open_out
from lmtk.files.registry import load
from lmtk.lm import LN10, kind_of_model
from lmtk.ngram.model.backoff import Backoff
from lmtk.tagging.candidates import Sentences, TagModel, make_candidates, make_sentences, make_tag_model
from lmtk.tagging.hashing import in_order
from lmtk.tagging.mapping import EOS, SOS, UNK, Map, Numbering
from lmtk.tagging.trellis import FILTERED, MAX_MARGINAL, PATHS, POSTERIOR, Decoder
from lmtk.text.corpus import TOKEN

TOGETHER = 1 << 14  # words of a text map that are decoded at once, or more


@dataclass(frozen=True)
class DisambigJob:
    """The options of disambig, which `programs.disambig` explains. All names of files may be None."""

    text: str | None = None
    map: str | None = None
    classes: str | None = None
    text_map: str | None = None
    lm: str | None = None
    order: int = 2
    lmw: float = 1.0
    mapw: float = 1.0
    logmap: bool = False
    scale: bool = False
    keep_unk: bool = False
    tolower1: bool = False
    tolower2: bool = False
    no_eos: bool = False
    continuous: bool = False
    escape: str = ""
    nbest: int = 1
    fb: bool = False
    fw_only: bool = False
    posteriors: bool = False
    totals: bool = False
    write_counts: str | None = None
    write_map: str | None = None
    write_vocab1: str | None = None
    write_vocab2: str | None = None

    @property
    def kind(self):
        """What to read from a trellis."""
        if self.fw_only:
            return FILTERED
        if self.fb:
            return POSTERIOR
        return MAX_MARGINAL if self.posteriors else PATHS


def disambiguate(job):
    """Runs a job; the text goes to standard output."""
    words, tags = Numbering(job.tolower1), Numbering(job.tolower2)
    mapping = Map(words, tags, job.logmap)
    if job.map:
        mapping.read(job.map)
    if job.classes:
        mapping.read_classes(job.classes)
    counts = {SOS: {}, EOS: {}, UNK: {}}
    if job.text or job.text_map:
        tagger = Tagger(job, mapping, counts, sys.stdout.buffer)
        if job.text:
            tagger.tag_text(job.text)
        if job.text_map:
            tagger.tag_text_map(job.text_map)
        sys.stdout.buffer.flush()
    if job.write_counts:
        write_counts(counts, words.names, tags.names, job.write_counts)
    if job.write_map:
        mapping.write(job.write_map)
    if job.write_vocab1:
        tags.write(job.write_vocab1)
    if job.write_vocab2:
        words.write(job.write_vocab2)


class Tagger:
    """Tags texts: prints their lines and adds to counts, {word: {tag: number}}, if they are wanted."""

    def __init__(self, job, mapping, counts, out):
        self.job, self.mapping, self.counts, self.out = job, mapping, counts, out
        self.words, self.tags, self.escape = mapping.words, mapping.tags, job.escape.encode("utf-8", "surrogateescape")
        self.index, self.ids, self.spaced = {}, [], []  # {tag name: id in the model}; by tag number: id, name + blank
        self.model = self.load_model() if job.lm else TagModel()
        self.decoder = Decoder(self.model, job.lmw, job.nbest, job.kind)

    def load_model(self):
        """The TagModel of -lm. Fills the index of its tags."""
        path = self.job.lm
        model = load(path)
        if not isinstance(model, Backoff):
            kind = kind_of_model(model)
            raise LmtkError(f"{name_of(path)}: expected a back-off n-gram model, but its kind is {kind}")
        tag_model = make_tag_model(model, self.job.order)
        for i in np.flatnonzero(tag_model.unigram >= 0).tolist():
            name = self.tags.fold(model.vocab.words[i])
            if self.index.setdefault(name, i) != i:
                both = " and ".join(shown(model.vocab.words[j]) for j in (self.index[name], i))
                raise LmtkError(
                    f"{name_of(path)}: the model has {both}, which -tolower2 makes one word; leave out -tolower2"
                )
            if self.job.text_map:  # numbered now, as in SRILM, where the numbers decide ties
                self.tags[name]
        return tag_model

    def candidates(self, rows):
        """The Candidates of rows, {tag: number in the map}."""
        numbers = {p for row in rows for p in row.values()}
        log10 = {p: p if self.job.logmap else math.log10(p) if p else -math.inf for p in numbers}
        self.ids += [self.index.get(name, -1) for name in self.tags.names[len(self.ids) :]]
        return make_candidates(self.model, rows, log10, self.ids, self.job.mapw, self.job.scale)

    def tag_text(self, path):
        """Tags a text by the map, a sentence a line, or as one sentence with -continuous."""
        numbers = range(len(self.words))
        candidates = self.candidates([self.mapping.rows.get(i, {}) for i in numbers])
        index, line, whole = dict(self.words) | {b"\n": -1}, 0, []
        with open_in(path) as stream:
            for block in decode_blocks(stream, path, eager=True):
                for text, escaped in passages(split_lines([block]), self.escape) if self.escape else [(block, b"")]:
                    words = TOKEN.findall(text)
                    folded = TOKEN.findall(self.words.fold(text)) if self.words.in_lower_case else words
                    ids = np.array([index.get(word, UNK) for word in folded] + [-1], np.int32)
                    if self.job.continuous:
                        whole.append(ids[ids >= 0])
                    else:
                        sentences = make_sentences(ids, SOS, EOS, not self.job.no_eos)
                        sentences.line[:] += line
                        self.tag(candidates, sentences, numbers, path, words)
                    self.out.write(escaped)
                    line += text.count(b"\n") + bool(escaped)
                self.out.flush()
        if sum(map(len, whole)):
            ids = np.concatenate(whole)
            self.tag(
                candidates, Sentences(ids, np.array([len(ids)]), np.full(len(ids), -1), np.zeros(1)), numbers, path
            )

    def tag_text_map(self, path):
        """Tags a text map: each line is a word with its own candidates. </s> or an escaped line ends a sentence."""
        numbers, rows, ends, places = [], [], [], []

        def end(line):
            if len(rows) > (ends[-1] if ends else 0):
                ends.append(len(rows))
                places.append(line)

        def flush():
            if ends:
                every = np.arange(len(rows), dtype=np.int32)
                sentences = Sentences(every, np.array(ends), np.full(len(rows), -1), np.array(places))
                self.tag(self.candidates(rows), sentences, numbers, path)
            for values in (numbers, rows, ends, places):
                values.clear()

        number = 0
        for number, line in lines(path):
            if self.escape and line.startswith(self.escape):
                end(number)
                flush()
                self.out.write(line + b"\n")
            elif fields := WORD.findall(line):
                numbers.append(self.words[self.words.fold(fields[0])])
                rows.append(self.mapping.pairs(fields[1:], path, number))
                if numbers[-1] == EOS:
                    end(number)
                    if len(rows) >= TOGETHER:
                        flush()
        end(number)
        flush()

    def tag(self, candidates, sentences, numbers, path, words=None):
        """Tags Sentences of a text and prints them. numbers: the word of each row of the candidates; words: those of
        the text, which -keep-unk prints. Without them, as in SRILM, a blank follows the last tag of a sentence.
        """
        job, has_tags = self.job, candidates.size[sentences.rows] > 0
        if not has_tags.all():
            sentences = self.without_untagged(sentences, has_tags, numbers, path)
        results = candidates.size[sentences.rows] if job.kind else np.full(len(sentences.rows), self.decoder.N)
        for part in sentences.parts(results):
            decoded, columns = self.decoder(candidates, part.rows, part.ends), []
            if job.posteriors:
                columns.append(self.posterior_lines(decoded, candidates, part, numbers))
            if job.totals:
                columns.append([figure(p) + b"\n" for p in decoded.score[:, 0].tolist()])
            elif not columns:
                columns.append(self.path_lines(decoded, part, words))
            for texts in zip(*columns):
                self.out.writelines(texts)
            if job.write_counts:
                self.count(decoded, candidates, part, numbers)

    def without_untagged(self, sentences, has_tags, numbers, path):
        """The Sentences whose words all have a candidate. Warns of each other sentence. has_tags (R,): whether a row
        has a candidate.
        """
        complete = np.logical_and.reduceat(has_tags, sentences.begins)
        for i in np.flatnonzero(~complete).tolist():
            first = sentences.begins[i] + int(has_tags[sentences.begins[i] :].argmin())
            word = shown(self.words.names[numbers[sentences.rows[first]]])
            line = f":{sentences.line[i]}" * bool(sentences.line[i])
            message = f"{name_of(path)}{line}: the map has no hidden word for {word}; the sentence is left out"
            warnings.warn(message, LmtkWarning, stacklevel=2)
        return sentences.select(complete)

    def path_lines(self, decoded, part, words):
        """The text of each sentence: a line for each of its best paths."""
        columns, bounds = [], list(zip(part.begins.tolist(), part.ends.tolist()))
        self.spaced += [name + b" " for name in self.tags.names[len(self.spaced) :]]
        for path in decoded.path:
            fields = [self.spaced[tag] for tag in path.tolist()]
            if self.job.keep_unk:
                kept = (path == UNK) & (part.source >= 0)
                kept[part.begins] = False
                for i in np.flatnonzero(kept).tolist():
                    fields[i] = words[part.source[i]] + b" "
            for _, end in bounds:
                fields[end - 1] = fields[end - 1][:-1] + (b"\n" if words is not None else b" \n")
            columns.append([b"".join(fields[begin:end]) for begin, end in bounds])
        if self.job.nbest == 1:
            return columns[0]
        rows = zip(decoded.score.tolist(), decoded.paths.tolist(), zip(*columns))
        return [
            b"".join(
                b"NBEST_%d %s %s" % (rank, figure(p), line) for rank, (p, line) in enumerate(zip(scores[:many], texts))
            )
            for scores, many, texts in rows
        ]

    def posterior_lines(self, decoded, candidates, part, numbers):
        """The text of each sentence: a line for each word, with its candidates and their probabilities."""
        tags, words, stops = self.tags.names, self.words.names, np.cumsum(candidates.size[part.rows]).tolist()
        share = decoded.share if self.job.logmap else np.exp(decoded.share * LN10)
        fields = [b" %s %s" % (tags[tag], figure(p)) for tag, p in zip(decoded.tag.tolist(), share.tolist())]
        places = zip(part.rows.tolist(), [0, *stops], stops)
        rows = [b"%s\t%s\n" % (words[numbers[row]], b"".join(fields[low:high])) for row, low, high in places]
        return [b"".join(rows[low:high]) for low, high in zip(part.begins.tolist(), part.ends.tolist())]

    def count(self, decoded, candidates, part, numbers):
        """Counts the tags of each word, by their probabilities or on the best paths."""
        if self.job.kind == PATHS:
            rows, tags, times = part.rows, decoded.path[0], np.ones(len(part.rows), int)
        else:
            rows, tags, times = np.repeat(part.rows, candidates.size[part.rows]), decoded.tag, 10**decoded.share
        for row, tag, more in zip(rows.tolist(), tags.tolist(), times.tolist()):
            counts = self.counts.setdefault(numbers[row], {})
            counts[tag] = counts.get(tag, 0) + more


def write_counts(counts, words, tags, path):
    """Writes counts, {word: {tag: number}}, in SRILM's order. words, tags: the names of their numbers."""
    (order,) = in_order([[*counts]])
    with open_out(path) as out:
        for word, sorted_tags in zip(order, in_order([[*counts[word]] for word in order])):
            out.writelines(b"%s %s\t%.16g\n" % (tags[tag], words[word], counts[word][tag]) for tag in sorted_tags)


def figure(x):
    """A number as C++ prints it."""
    text = f"{x:g}"
    return b"-nan" if text == "nan" else text.encode()
