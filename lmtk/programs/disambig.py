"""SRILM's disambig: the hidden words behind those of a text."""

import os
import re
import sys
import warnings
from collections import defaultdict
from itertools import count

from lmtk.commands.spelling import Option, spelled
from lmtk.errors import FormatError, LmtkError, LmtkWarning, UsageError, name_of, shown
from lmtk.files.streams import WORD
from lmtk.machine.threads import import_numpy

# option -> what may stand behind it, and what -help says of it
FILE, FLAG, NUMBER = Option("one"), Option(), Option("one", number=float)
OPTIONS = {
    "-help": (FLAG, "this list"),
    "-text": (FILE, "the text, a sentence a line"),
    "-map": (FILE, "what words may stand for: lines of a word and hidden words, each with p(word | hidden) or 1"),
    "-classes": (FILE, "the same as classes: lines of a hidden word, p(word | hidden) or nothing, and a word"),
    "-text-map": (FILE, "text and map in one: a line as those of -map for each word of the text"),
    "-lm": (FILE, "a back-off model of the hidden words; none: the map alone decides"),
    "-order": (Option("one", number=int, low=1), "how long its n-grams may be (2)"),
    "-lmw": (NUMBER, "the weight of its log probabilities (1)"),
    "-mapw": (NUMBER, "the weight of those of the map (1)"),
    "-logmap": (FLAG, "the map's numbers are log10 p"),
    "-scale": (FLAG, "the map's numbers are p(hidden | word)"),
    "-keep-unk": (FLAG, "a word that stands for <unk> stays as it is"),
    "-tolower1": (FLAG, "words of the text in lower case"),
    "-tolower2": (FLAG, "hidden words in lower case"),
    "-no-eos": (FLAG, "no </s> behind a line"),
    "-continuous": (FLAG, "the whole text as one sentence without <s> and </s>, a blank behind each word"),
    "-escape": (FILE, "lines that begin so are printed as they are"),
    "-nbest": (Option("one", number=int, low=1), "how many best paths are printed (1)"),
    "-fb": (FLAG, "the most likely hidden word at each place, by the forward-backward algorithm"),
    "-fwOnly": (FLAG, "the same by the words up to the place"),
    "-posteriors": (FLAG, "what each hidden word has of the probability"),
    "-totals": (FLAG, "log10 of the probability of each sentence"),
    "-write-counts": (FILE, "how often each word stood for which hidden word"),
    "-write-map": (FILE, "the map as it was understood"),
    "-write-vocab1": (FILE, "the hidden words, as SRILM has it"),
    "-write-vocab2": (FILE, "the words of the map"),
    "-debug": (NUMBER, "taken without an effect"),
}
TOGETHER = 1 << 14  # words of a text map that are decoded at once, or more
TEXTS, INPUTS = ("-text", "-text-map"), ("-map", "-classes", "-lm")
UNK, SOS, EOS = range(3)  # numbers of <unk>, <s>, </s> among words of both kinds


def disambig(words):
    """[OPTION ...]: the hidden words behind those of a text."""
    words = ["-fwOnly" if w.lstrip("-").lower().replace("_", "-") in ("fwonly", "fw-only") else w for w in words]
    words = spelled(words, {name: option for name, (option, _) in OPTIONS.items()}, stray=True)
    given = {}
    while words:
        name = words.pop(0)
        given[name] = words.pop(0) if OPTIONS[name][0].values == "one" else True
    if "-help" in given:
        width = max(map(len, OPTIONS))
        rows = [f"  {name:{width}}  {what}\n" for name, (_, what) in OPTIONS.items()]
        sys.stdout.write(f"usage: disambig -text FILE -map FILE [-lm FILE] [OPTION ...]\n\n{''.join(rows)}")
        return
    check(given)
    import_numpy()
    Job(given).run()


def check(given):
    """Raises UsageError where a command line makes no sense, OSError where a file is missing."""
    texts, inputs = ([given.get(name) for name in names] for names in (TEXTS, INPUTS))
    read = [path for path in texts + inputs if path]
    written = [path for name, path in given.items() if name.startswith("-write-")]
    if not {"-map", "-classes", "-text-map"} & {*given}:
        raise UsageError("no map; -map, -classes or -text-map says what the words of a text may stand for")
    if not any(texts) and not written:
        raise UsageError("no text; disambig -text FILE -map FILE [-lm FILE] [OPTION ...]")
    if read.count("-") > 1:
        raise UsageError("only one file can be standard input")
    for path in read:
        if path != "-":
            os.stat(path)
    if written:
        from lmtk.jobs.rules import check_outputs

        check_outputs(*written, texts=texts, inputs=inputs)


class Names(defaultdict):
    """Words of a kind -> their numbers, in the order in which they came."""

    def __init__(self, tolower):
        from lmtk.text.vocab import lower

        first = b"<unk>", b"<s>", b"</s>", b"-pau-"
        super().__init__(count(len(first)).__next__, zip(first, range(len(first))))
        self.lower, self.listed = lower if tolower else None, []

    def folded(self, text):
        return self.lower(text) if self.lower else text

    @property
    def words(self):
        if len(self.listed) < len(self):
            self.listed = list(self)
        return self.listed

    def write(self, path):
        from lmtk.files.streams import open_out

        with open_out(path) as out:
            out.writelines(word + b"\n" for word in sorted(self))


class Job:
    """A run of the program. words, hidden: Names; rows: number of a word -> {number of a hidden word: log10 p}."""

    def __init__(self, given):
        from lmtk.joint.hashing import Hashed

        self.given, self.one = given, 0.0 if "-logmap" in given else 1.0  # the number of p = 1 in a map
        self.words, self.hidden = Names("-tolower1" in given), Names("-tolower2" in given)
        self.table = Hashed  # of what is written in SRILM's order
        self.escape = given.get("-escape", "").encode("utf-8", "surrogateescape")
        self.spaced = []  # the hidden words with a blank behind each
        self.rows = Hashed() if "-write-map" in given else {}
        for number in (SOS, EOS, UNK):
            self.rows[number] = {number: self.one}
        self.counts = Hashed()
        for number in (SOS, EOS, UNK):
            self.counts[number] = Hashed()

    def run(self):
        from lmtk.files.streams import open_out

        given = self.given
        if "-map" in given:
            self.read_map(given["-map"])
        if "-classes" in given:
            self.read_classes(given["-classes"])
        if {"-text", "-text-map"} & {*given}:
            self.load()
            out = sys.stdout.buffer
            if "-text" in given:
                self.decode_text(given["-text"], out)
            if "-text-map" in given:
                self.decode_text_map(given["-text-map"], out)
            out.flush()
        if "-write-counts" in given:
            with open_out(given["-write-counts"]) as out:
                for word in self.counts.ordered():
                    row = self.counts[word]
                    for h in row.ordered():
                        what = self.hidden.words[h], self.words.words[word], b"%.16g" % row[h]
                        out.write(b"%s %s\t%s\n" % what)
        if "-write-map" in given:
            self.write_map(given["-write-map"])
        if "-write-vocab1" in given:
            self.hidden.write(given["-write-vocab1"])
        if "-write-vocab2" in given:
            self.words.write(given["-write-vocab2"])

    def number(self, field, path, line):
        """The number that a field of a map is, or None. Raises FormatError where it can be no probability."""
        from lmtk.ngram.arpa import NUMBER as WHOLE

        if field[0] not in b"+-.0123456789" or not WHOLE.match(field):
            return None
        p = float(field)
        if "-logmap" in self.given:
            import numpy as np

            return float(np.float32(p))
        if p < 0:
            raise FormatError(path, f"a probability of {p:g}; -logmap takes log10 p", line)
        return p

    def pairs(self, fields, path, line):
        """{hidden word: number} of fields that are hidden words, with a number behind them or none."""
        found, last = {}, None
        for field in fields:
            p = None if last is None else self.number(field, path, line)
            if p is None:
                last = self.hidden[self.hidden.folded(field)]
                found[last] = self.one
            else:
                found[last], last = p, None
        return found

    def read_map(self, path):
        from lmtk.files.streams import lines

        rows, words, hidden, folds = self.rows, self.words, self.hidden, self.hidden.lower is not None
        for number, line in lines(path):
            if not (fields := WORD.findall(line)):
                continue
            word = words[words.folded(fields[0])]
            if rows.get(word):
                if word > EOS:
                    told = f"{name_of(path)}:{number}: {shown(fields[0])} has a line already; this one takes its place"
                    warnings.warn(told, LmtkWarning, stacklevel=2)
                del rows[word]
            if folds or numeric(line):
                found = self.pairs(fields[1:], path, number)
            else:
                found = {hidden[field]: self.one for field in fields[1:]}
            if found:
                rows[word] = found

    def read_classes(self, path):
        from lmtk.files.streams import lines

        for number, line in lines(path):
            if not (fields := WORD.findall(line)):
                continue
            p = self.number(fields[1], path, number) if len(fields) > 1 else None
            if len(fields) != (2 if p is None else 3):
                what = f"expected a class, its probability or nothing, and one word, found '{shown(line)[:60]}'"
                raise FormatError(path, what, number)
            h = self.hidden[self.hidden.folded(fields[0])]
            word = self.words[self.words.folded(fields[-1])]
            if word not in self.rows:
                self.rows[word] = {}
            self.rows[word][h] = self.one if p is None else p

    def write_map(self, path):
        from lmtk.files.streams import open_out
        from lmtk.joint.hashing import in_order

        with open_out(path) as out:
            for word in self.rows.ordered():
                row = self.rows[word]
                fields = [
                    self.hidden.words[h] if row[h] == self.one else b"%s %.16g" % (self.hidden.words[h], row[h])
                    for h in in_order([*row])
                ]
                out.write(self.words.words[word] + b"\t" * bool(fields) + b" ".join(fields) + b"\n")

    def load(self):
        """The model, and what decodes sentences with it."""
        from lmtk.joint.disambiguation import Decoder, Scorer, scorer_of
        from lmtk.joint.trellis import ALL, BEST, FORWARD, PATHS

        given, scorer, self.index, self.ids = self.given, Scorer(), {}, []
        if "-lm" in given:
            from lmtk.files.registry import load
            from lmtk.ngram.backoff import Backoff

            path = given["-lm"]
            model = load(path)
            if not isinstance(model, Backoff):
                kind = next(value for name, value in model.describe() if name == "kind")
                raise LmtkError(f"{name_of(path)}: {kind}; a back-off n-gram was wanted")
            scorer = scorer_of(model, int(given.get("-order", 2)))
            for i, word in enumerate(model.vocab.words):
                if scorer.unigram[i] >= 0:
                    name = self.hidden.folded(word)
                    if self.index.setdefault(name, i) != i:
                        both = f"{shown(model.vocab.words[self.index[name]])} and {shown(word)}"
                        raise LmtkError(f"{name_of(path)}: -tolower2 makes one word of {both}")
                    if "-text-map" in given:  # as in SRILM, where this decides which of equals is first
                        self.hidden[name]
        kinds = {"-fwOnly": FORWARD, "-fb": ALL, "-posteriors": BEST}
        kind = next((kind for option, kind in kinds.items() if option in given), PATHS)
        self.decoder = Decoder(scorer, float(given.get("-lmw", 1)), int(given.get("-nbest", 1)), kind)

    def choices(self, rows):
        """The Choices of rows, {number of a hidden word: number in the map}."""
        import math

        from lmtk.joint.disambiguation import choices_of

        numbers = {p for row in rows for p in row.values()}
        logarithm = {p: p if "-logmap" in self.given else math.log10(p) if p else -math.inf for p in numbers}
        self.ids += [self.index.get(word, -1) for word in self.hidden.words[len(self.ids) :]]
        mapw, scale = float(self.given.get("-mapw", 1)), "-scale" in self.given
        return choices_of(self.decoder.scorer, rows, logarithm, self.ids, mapw, scale)

    def decode_text(self, path, out):
        import numpy as np

        from lmtk.files.streams import blocks_of, open_in, passages, rows_of
        from lmtk.joint.disambiguation import Sentences, sentences
        from lmtk.text.corpus import TOKEN

        choices = self.choices([self.rows.get(i, {}) for i in range(len(self.words))])
        index, line, whole = dict(self.words) | {b"\n": -1}, 0, []
        with open_in(path) as stream:
            for block in blocks_of(stream, path, eager=True):
                texts = passages(rows_of([block]), self.escape) if self.escape else [(block, b"")]
                for text, escaped in texts:
                    words = TOKEN.findall(text)
                    folded = TOKEN.findall(self.words.folded(text)) if self.words.lower else words
                    ids = np.array([index.get(word, UNK) for word in folded] + [-1], np.int32)
                    if "-continuous" in self.given:
                        whole.append(ids[ids >= 0])
                    else:
                        some = sentences(ids, SOS, EOS, "-no-eos" in self.given)
                        some.line[:] += line
                        self.decode(choices, some, range(len(self.words)), path, out, words)
                    out.write(escaped)
                    line += text.count(b"\n") + bool(escaped)
                out.flush()
        ids = np.concatenate([np.zeros(0, np.int32), *whole])
        if len(ids):
            some = Sentences(ids, np.array([len(ids)]), np.full(len(ids), -1), np.array([0]))
            self.decode(choices, some, range(len(self.words)), path, out, blank=b" ")

    def decode_text_map(self, path, out):
        import numpy as np

        from lmtk.files.streams import lines
        from lmtk.joint.disambiguation import Sentences

        numbers, rows, ends, places = [], [], [], []

        def end(line):
            """A sentence ends at a line."""
            if len(numbers) > (ends[-1] if ends else 0):
                ends.append(len(numbers))
                places.append(line)

        def decode():
            if ends:
                some = Sentences(
                    np.arange(len(rows), dtype=np.int32), np.array(ends), np.full(len(rows), -1), np.array(places)
                )
                self.decode(self.choices(rows), some, numbers, path, out, blank=b" ")
            for of_them in (numbers, rows, ends, places):
                of_them.clear()

        number = 0
        for number, line in lines(path):
            if self.escape and line.startswith(self.escape):
                end(number)
                decode()
                out.write(line + b"\n")
            elif fields := WORD.findall(line):
                numbers.append(self.words[self.words.folded(fields[0])])
                rows.append(self.pairs(fields[1:], path, number))
                if numbers[-1] == EOS:
                    end(number)
                    if len(rows) >= TOGETHER:
                        decode()
        end(number)
        decode()

    def decode(self, choices, some, numbers, path, out, words=(), blank=b""):
        """Decodes and prints Sentences of a text. numbers: of each row of the choices, that of its word; words: those
        that -keep-unk prints; blank: what stands behind the last word.
        """
        import numpy as np

        known = choices.size[some.rows] > 0
        if not known.all():
            some = self.known(some, known, numbers, path)
        kind, N = self.decoder.kind, self.decoder.N
        for part in some.parts(choices.size[some.rows] if kind else np.full(len(some.rows), N)):
            found, columns = self.decoder(choices, part.rows, part.ends), []
            if "-posteriors" in self.given:
                columns.append(self.posteriors(found, choices, part, numbers))
            if "-totals" in self.given:
                columns.append([figure(p) + b"\n" for p in found.score[:, 0].tolist()])
            elif not columns:
                columns.append(self.paths(found, part, words, blank))
            for texts in zip(*columns):
                out.writelines(texts)
            if "-write-counts" in self.given:
                self.count(found, choices, part, numbers)

    def known(self, some, known, numbers, path):
        """Those Sentences that have a hidden word for each word, known (R,); the others are told of."""
        import numpy as np

        whole = np.logical_and.reduceat(known, some.begins)
        for i in np.flatnonzero(~whole).tolist():
            first = some.begins[i] + int(known[some.begins[i] :].argmin())
            word = shown(self.words.words[numbers[some.rows[first]]])
            line = f":{some.line[i]}" * bool(some.line[i])
            told = f"{name_of(path)}{line}: the map has no hidden word for {word}; the sentence is left out"
            warnings.warn(told, LmtkWarning, stacklevel=2)
        return some.only(whole)

    def paths(self, found, part, words, blank):
        """The lines of each sentence: its best paths."""
        import numpy as np

        hidden, columns = self.hidden.words, []
        self.spaced += [word + b" " for word in hidden[len(self.spaced) :]]
        for path in found.path:
            fields = [self.spaced[h] for h in path.tolist()]
            if "-keep-unk" in self.given:
                kept = (path == UNK) & (part.source >= 0)
                kept[part.begins] = False
                for i in np.flatnonzero(kept).tolist():
                    fields[i] = words[part.source[i]] + b" "
            for i in (part.ends - 1).tolist():
                fields[i] = fields[i][:-1] + blank + b"\n"
            columns.append([b"".join(fields[low:high]) for low, high in zip(part.begins.tolist(), part.ends.tolist())])
        if int(self.given.get("-nbest", 1)) == 1:
            return columns[0]
        return [
            b"".join(
                b"NBEST_%d %s %s" % (rank, figure(p), line) for rank, (p, line) in enumerate(zip(scores[:many], lines))
            )
            for scores, many, lines in zip(found.score.tolist(), found.found.tolist(), zip(*columns))
        ]

    def posteriors(self, found, choices, part, numbers):
        """The lines of each sentence: what each word may stand for, and its share."""
        import numpy as np

        from lmtk.lm import LN10

        hidden, words = self.hidden.words, self.words.words
        share = found.share if "-logmap" in self.given else np.exp(found.share * LN10)
        fields = [b" %s %s" % (hidden[h], figure(p)) for h, p in zip(found.hidden.tolist(), share.tolist())]
        stops = np.cumsum(choices.size[part.rows])
        starts = np.append(0, stops)[:-1]
        places = zip(part.rows.tolist(), starts.tolist(), stops.tolist())
        lines = [b"%s\t%s\n" % (words[numbers[row]], b"".join(fields[low:high])) for row, low, high in places]
        return [b"".join(lines[low:high]) for low, high in zip(part.begins.tolist(), part.ends.tolist())]

    def count(self, found, choices, part, numbers):
        """Counts which hidden words stood behind which, by their shares or on the best paths."""
        import numpy as np

        if self.decoder.kind:
            rows = np.repeat(part.rows, choices.size[part.rows]).tolist()
            hidden, times = found.hidden.tolist(), (10**found.share).tolist()
        else:
            rows, hidden, times = part.rows.tolist(), found.path[0].tolist(), [1] * len(part.rows)
        for row, h, more in zip(rows, hidden, times):
            word = numbers[row]
            if word not in self.counts:
                self.counts[word] = self.table()
            counts = self.counts[word]
            counts[h] = counts.get(h, 0) + more


numeric = re.compile(rb"[ \t][-+.\d]").search  # whether a word of a line may be a number


def figure(x):
    """A number as C++ prints it."""
    text = f"{float(x):g}"
    return b"-nan" if text == "nan" else text.encode()
