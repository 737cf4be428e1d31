"""Small programs over the lines of ARPA files and texts, which SRILM has as awk scripts."""

import atexit
import contextlib
import math
import os
import re
import sys
from collections import Counter

from lmtk.errors import FormatError, UsageError
from lmtk.files.decoding import WORD, decode_blocks, lines
from lmtk.files.inputs import open_in
from lmtk.files.outputs import open_out
from lmtk.machine.memory import named_file
from lmtk.machine.threads import import_numpy

SECTION = re.compile(rb"\\(\d+)-grams:$")
SIZE = re.compile(rb"ngram +(\d+) *= *(\d+)")
SOME, MANY = 1 << 18, 1 << 12  # bytes that are read, lines that are written together
SPOOLED = 1 << 24  # bytes of a filtered model that stay in memory
ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
temporaries = contextlib.ExitStack()  # of files that are open until the program ends
atexit.register(temporaries.close)


def temporary():
    """The name of a file that goes when the program ends."""
    return temporaries.enter_context(named_file())[1]


def assigned(words, **defaults):
    """awk's arguments: {name: text} of "name=text" with `defaults`, and the files, "-" where there is none."""
    settings, files = dict(defaults), []
    for word in words:
        if not ASSIGNED.match(word):
            files.append(word)
            continue
        name, _, text = word.partition("=")
        if name not in defaults:
            raise UsageError(f"no variable {name}; the variables are {', '.join(defaults)}")
        settings[name] = text
    return settings, files or ["-"]


class Marks:
    """What the lines of an ARPA file that are no n-grams have said so far. order: of the section, 0 outside; stated,
    sizes: how many n-grams of each order the head says, and the reader has counted; begun: whether there are 1-grams;
    ended: whether the file is whole.
    """

    def __init__(self, path, stated=None):
        self.path, self.order, self.sizes, self.stated = path, 0, {}, {} if stated is None else stated
        self.begun = self.ended = False

    def add(self, line):
        self.order, _ = order_of(line, self.order)
        if self.order:
            self.sizes.setdefault(self.order, 0)
        elif size := SIZE.match(line):
            self.stated[int(size[1])] = int(size[2])
        self.begun = self.begun or line.startswith(b"\\1-grams:")
        self.ended = self.begun and line.strip() == b"\\end\\"

    def finish(self, most=math.inf):
        """Warns where the head says other numbers of n-grams of orders up to `most`. Raises FormatError where it is no
        whole file.
        """
        if not self.ended:
            problem = "the line \\end\\ is missing, so the file is incomplete"
            problem = problem if self.begun else "not an ARPA file: it has no line \\1-grams:"
            raise FormatError(self.path, problem)
        stated, sizes = ({k: size for k, size in x.items() if k <= most} for x in (self.stated, self.sizes))
        if stated != sizes:
            from lmtk.ngram.arpa import reader

            reader.tell_sizes(self.path, stated, sizes)


def arpa_pieces(path, stated=None):
    """(order, line) of each line of an ARPA file up to \\end\\, order 0 where it is no n-gram; or Rows instead of
    lines of n-grams that follow each other. stated: takes what the head says of the numbers of n-grams. Raises
    FormatError where a line is none, and at the end of what is no whole ARPA file.
    """
    from lmtk.ngram.arpa import reader

    marks = Marks(path, stated)
    with open_in(path) as stream:
        for number, piece in reader.numbered(stream, path, reader.Unigrams()):
            if isinstance(piece, reader.Rows):
                marks.sizes[marks.order] += len(piece.rows)
                yield marks.order, piece
                piece.free.append(piece.rows.base)
            elif order_of(piece, marks.order)[1]:
                if isinstance(wrong := reader.parse(piece, marks.order), str):
                    raise FormatError(path, wrong, number)
                marks.sizes[marks.order] += 1
                yield marks.order, piece
            else:
                marks.add(piece)
                yield 0, piece
                if marks.ended:
                    break
    marks.finish()


def arpa_lines(path, longest=None):
    """(order, line, fields) of each line of an ARPA file up to \\end\\; no fields, and order 0, where it is no n-gram.
    Lines of n-grams above the `longest` order are left out, and not looked at. Raises FormatError as `arpa_pieces`.
    """
    marks, number, most = Marks(path), 0, longest or math.inf
    with open_in(path) as stream:
        for block in decode_blocks(stream, path, SOME):
            if marks.order > most and b"\n\\" not in block and block[:1] != b"\\":
                number += block.count(b"\n")
                continue
            for line in block.removesuffix(b"\n").split(b"\n"):
                number += 1
                line = line.rstrip(b"\r")
                if marks.order and line[:1] != b"\\":
                    if marks.order > most:
                        continue
                    if fields := WORD.findall(line):
                        check(fields, line, marks.order, path, number)
                        marks.sizes[marks.order] += 1
                        yield marks.order, line, fields
                        continue
                marks.add(line)
                if marks.order <= most:
                    yield 0, line, ()
                if marks.ended:
                    marks.finish(most)
                    return
    marks.finish()


def check(fields, line, order, path, number):
    """Raises FormatError where the fields of a line are those of no n-gram."""
    more = len(fields) - order
    try:
        if (more == 1 or (more == 2 and float(fields[-1]) <= 1e30)) and float(fields[0]) <= 1e30:
            return
    except ValueError:
        pass
    from lmtk.ngram.arpa import reader

    if isinstance(wrong := reader.parse(line, order), str):
        raise FormatError(path, wrong, number)


def order_of(line, order):
    """The order of the section that a line of an ARPA file stands in, 0 for none, and whether it is an n-gram."""
    if line.startswith(b"\\"):
        match = SECTION.match(line.strip())
        return int(match[1]) if match else 0, False
    return order, bool(order and line.strip())


def sections(rows):
    """(order, line, fields) of lines as of an ARPA file."""
    order = 0
    for line in rows:
        order, in_section = order_of(line, order)
        yield order if in_section else 0, line, WORD.findall(line) if in_section else ()


def filtered_arpa(path, outs, where, context=False, pad=False):
    """The n-grams of an ARPA file that stay, as they stand in it, written to `outs`; `where` as in ngram.filtering.

    Of several files each has those of its sentence. `context`: the last word is not looked at; `pad`: with blank lines
    that make the head as long as it was, as KenLM's filter leaves it.
    """
    import tempfile  # these imports take as long as a small file
    from dataclasses import replace

    from lmtk.ngram.arpa import filtering, reader

    stated, sizes, words, criterion, last = {}, {}, [], None, 0
    with contextlib.ExitStack() as files:
        rests = [files.enter_context(tempfile.SpooledTemporaryFile(SPOOLED)) for _ in outs]
        for k, piece in arpa_pieces(path, stated):
            if not k:
                if piece.startswith(b"\\") and (match := SECTION.match(piece.strip())):
                    for rest in rests:
                        rest.write(b"\n" * bool(last) + piece + b"\n")
                    last = int(match[1])
                    sizes[last] = [0] * len(outs)
                continue
            if isinstance(piece, reader.Rows):
                if k > 1 and piece.unknown is None:
                    criterion = criterion or filtering.sentences_of(reader.vocabulary(words).words, where)
                    kept, number = filtering.lines_of(piece.text, piece.rows, k - context, criterion)
                    if len(outs) == 1:
                        rests[0].write(kept)
                        sizes[k][0] += number
                        continue
                    piece = replace(piece, text=kept)
                piece = piece.text.tobytes()
            for line in piece.split(b"\n"):
                if not (ngram := WORD.findall(line)[1 : k + 1]):
                    continue
                words += ngram if k == 1 else []
                for i in filtering.files_of(ngram[: k - context], where, len(outs)):
                    rests[i].write(line + b"\n")
                    sizes[k][i] += 1
        for i, out in enumerate(outs):
            write_head(out, stated, {k: numbers[i] for k, numbers in sizes.items()}, pad, rests[i])


def write_head(path, stated, sizes, pad, rest):
    """The head of an ARPA file with these sizes, and the rest of it."""
    from shutil import copyfileobj  # its import takes as long as a small file

    heads = [
        b"\n\\data\\\n" + b"".join(b"ngram %d=%d\n" % item for item in sorted(numbers.items())) + b"\n"
        for numbers in (stated, sizes)
    ]
    rest.write(b"\n\\end\\\n")
    rest.seek(0)
    with open_out(path) as out:
        out.write(heads[1] + b"\n" * (pad * (len(heads[0]) - len(heads[1]))))
        copyfileobj(rest, out)


def get_unigram_probs(words):
    """[linear=1] [FILE]: the words of an ARPA file and their log10 p, or p."""
    settings, files = assigned(words, linear="0")
    linear, rows = settings["linear"] not in ("", "0"), []
    for path in files:
        for k, _, fields in arpa_lines(path, 1):
            if not k:
                continue
            zero = float(fields[0]) == -99
            if linear:
                rows.append(b"%s %s\n" % (fields[1], b"0" if zero else f"{10 ** float(fields[0]):.6g}".encode()))
            else:
                rows.append(b"%s %s\n" % (fields[1], b"-infinity" if zero else fields[0]))
    sys.stdout.buffer.write(b"".join(rows))


def remove_lowprob_ngrams(words):
    """[FILE]: an ARPA file of order 3 at most without the n-grams that backing off gives a higher probability. The
    head and the weights stay as they are.
    """
    p, bow, seen, gone, kept = {}, {}, {}, {}, []
    for path in assigned(words)[1]:
        for k, line, fields in arpa_lines(path):
            if k > 3:
                raise FormatError(path, "n-grams longer than 3; ngram -prune-lowprobs takes any order")
            if k:
                log10p, seen[k], word = float(fields[0]), seen.get(k, 0) + 1, fields[k]
                context = b" ".join(fields[1:k])
                if k < 3:
                    ngram = b" ".join(fields[1 : k + 1])
                    p[ngram], bow[ngram] = log10p, float(fields[k + 1]) if len(fields) > k + 1 else 0.0
                    lower = p.get(word, 0.0)
                else:
                    lower = p.get(b" ".join(fields[2:4]))
                    if lower is None:
                        lower = bow.get(fields[2], 0.0) + p.get(word, 0.0)
                if k > 1 and bow.get(context, 0.0) + lower > log10p:
                    gone[k] = gone.get(k, 0) + 1
                    continue
            kept.append(line)
            if len(kept) == MANY:
                sys.stdout.buffer.write(b"\n".join([*kept, b""]))
                kept = []
    sys.stdout.buffer.write(b"\n".join([*kept, b""]))
    for k, name in ((2, "bigrams"), (3, "trigrams")):
        if k in seen:
            sys.stderr.write(f"{gone.get(k, 0)} out of {seen[k]} {name} removed\n")


def reverse_lm(words):
    """[FILE]: a bigram model of reversed text, p(v | w) = p(v) p(w | v) / p(w), from an ARPA file; weights anew."""
    swapped, p, name = {b"<s>": b"</s>", b"</s>": b"<s>"}, {}, temporary()
    path, *more = assigned(words)[1]
    if more:
        raise UsageError("only one file can be read")
    with open(name, "wb") as out:
        for k, line, fields in arpa_lines(path):
            if k == 1:
                for word in (b"<s>", b"</s>") if fields[1] == b"</s>" else (fields[1],):
                    if fields[1] != b"<s>":
                        p[word] = float(fields[0])
                out.write(b"%s %s 0\n" % (fields[0], fields[1]))
            elif k == 2:
                v, w = (swapped.get(word, word) for word in fields[1:3])
                new = p[v] + float(fields[0]) - p[w]
                if new > 0:
                    sys.stderr.write(f"warning: p({os.fsdecode(v)}|{os.fsdecode(w)}) > 0\n")
                out.write(b"%s\t%s %s\n" % (f"{new:.6g}".encode(), w, v))
            elif k or ((size := SIZE.match(line)) and int(size[1]) > 2 and int(size[2])):
                raise FormatError(path, "expected a bigram model; ngram -order 2 -write-lm makes one")
            else:
                out.write(line + b"\n")
    return [("ngram", ["-order", "2", "-lm", name, "-renorm", "-write-lm", "-"])]


def sort_lm(words):
    """[FILE]: an ARPA file with the n-grams of each order in byte order of their words; the lines stay as they are."""
    _, files = assigned(words)
    rows, out = [], sys.stdout.buffer
    for path in files:
        for order, line, fields in arpa_lines(path):
            if order:
                rows.append((fields[1 : order + 1], line))
                continue
            out.writelines(row + b"\n" for _, row in sorted(rows))
            rows = []
            out.write(line + b"\n")


def add_dummy_bows(words):
    """[FILE]: an ARPA file with a back-off weight of 0 behind each n-gram below the highest order that has none."""
    _, files = assigned(words)
    for path in files:
        highest = 0
        for order, line, fields in arpa_lines(path):
            if size := SIZE.match(line):
                highest = max(highest, int(size[1]))
            bare = order and order < highest and len(fields) < order + 2
            sys.stdout.buffer.write(line + (b"\t0\n" if bare else b"\n"))


def uniform_classes(words):
    """[FILE]: classes whose expansions have equal probabilities where none are given."""
    _, files = assigned(words)
    classes, number = {}, 0
    for path in files:
        for _, line in lines(path):
            if fields := WORD.findall(line):
                has_p = len(fields) > 1 and re.match(rb"[-+]?[.]?[0-9][0-9.]*(e[+-]?[0-9]+)?$", fields[1])
                expansion = b" ".join(fields[2 if has_p else 1 :])
                classes.setdefault(fields[0], []).append((fields[1] if has_p else None, expansion))
                number += 1
    sys.stderr.write(f"read {number} class expansions\n")
    for name, expansions in classes.items():
        equal = b"%.6g" % (1 / len(expansions))
        for p, expansion in expansions:
            sys.stdout.buffer.write(b"%s %s %s\n" % (name, p or equal, expansion))


FRAGMENT = re.compile(rb"[A-Za-z\x80-\xff]-$|-[A-Za-z\x80-\xff]")  # what a broken-off word ends or begins with


def compute_oov_rate(words):
    """[write_oov_words=FILE] [write_oov_frags=FILE] [VOCAB COUNTS ...]: how many of the words that are counted are not
    in a list, with fragments of words and without them.
    """
    settings, files = assigned(words, debug="", write_oov_words="", write_oov_frags="")
    listed = {fields[0] for _, line in lines(files[0]) if (fields := WORD.findall(line))}
    tokens, types = Counter(), Counter()  # by (whether unknown, whether a fragment)
    unknown_lines = {"write_oov_words": [], "write_oov_frags": []}
    for path in files[1:]:
        for number, line in lines(path):
            word, *rest = WORD.findall(line) or [b""]
            if word in (b"<s>", b"</s>", b"-pau-", b""):
                continue
            try:
                n = float(rest[0]) if rest else 0
            except ValueError:
                problem = f"expected a word and its count, not '{os.fsdecode(line)[:60]}'"
                problem += "; ngram-count -order 1 -write makes such a file"
                raise FormatError(path, problem, number) from None
            unknown, broken = word not in listed, bool(FRAGMENT.search(word[-2:]) or FRAGMENT.match(word))
            tokens[unknown, broken] += n
            types[unknown, broken] += 1
            if unknown:
                unknown_lines["write_oov_frags" if broken else "write_oov_words"].append(line)
    for name, rows in unknown_lines.items():
        if settings[name]:
            with open_out(settings[name]) as out:
                out.writelines(row + b"\n" for row in rows)
    for unit, n in (("tokens", tokens), ("types", types)):
        unknown, in_vocab = n[True, False], n[False, False]
        every = share(unknown + n[True, True], n.total())
        print(f"OOV {unit}: {every} excluding fragments: {share(unknown, unknown + in_vocab)}")


def share(part, whole):
    return f"{int(part)} / {int(whole)} ({100 * part / whole if whole else 0:.2f}%)"


def replace_words_with_classes(words):
    """classes=FILE [have_counts=1] [outfile=FILE] [normalize=0] [addone=X] [partial=1] [TEXT ...]: the text with
    classes in place of their expansions, the longest first; outfile gets the classes with probabilities from it.
    """
    names = {"classes": "", "have_counts": "0", "outfile": "", "normalize": "1", "addone": "1", "partial": "0"}
    settings, files = assigned(words, **names)
    if not settings["classes"]:
        raise UsageError("no classes=FILE")
    expansions = []  # class, words
    for _, line in lines(settings["classes"]):
        if fields := WORD.findall(line):
            number = len(fields) > 1 and re.match(rb"[-+0-9.][-+0-9e.]*$", fields[1])
            expansions.append((fields[0], tuple(fields[2 if number else 1 :])))
    sys.stderr.write(f"read {len(expansions)} class expansions\n")
    class_of = {}
    for name, expansion in expansions:
        class_of.setdefault(expansion, name)
    longest, uses = {}, dict.fromkeys(class_of, 0)
    for expansion in filter(None, class_of):
        longest[expansion[0]] = max(longest.get(expansion[0], 0), len(expansion))
    counted, partial = settings["have_counts"] not in ("", "0"), settings["partial"] not in ("", "0")
    for path in files:
        for _, line in lines(path):
            if partial:
                line = re.sub(rb"[ \t][ \t]*[ \t]", b" | ", line)
            fields = WORD.findall(line)
            last = fields[-1:] if counted else []
            replaced = b" ".join(classed(fields[: len(fields) - len(last)], class_of, longest, uses))
            if partial:
                replaced = re.sub(rb"[|]$", b" ", re.sub(rb"^[|]", b" ", replaced.replace(b" | ", b" ")))
            sys.stdout.buffer.write(b" ".join([replaced, *last]) + b"\n")
    if settings["outfile"]:
        write_expansions(settings, expansions, class_of, uses)


def classed(words, class_of, longest, uses):
    """Words with the class of the longest expansion at each place; `uses` counts them. longest: of the expansions that
    begin with a word.
    """
    replaced, at = [], 0
    while at < len(words):
        length = longest.get(words[at], 0)
        while length and (expansion := tuple(words[at : at + length])) not in class_of:
            length -= 1
        if length:
            uses[expansion] += 1
            replaced.append(class_of[expansion])
        else:
            replaced.append(words[at])
        at += length or 1
    return replaced


def write_expansions(settings, expansions, class_of, uses):
    """The file of classes: (uses + addone) / (those of the class + addone times its size), or uses alone."""
    plus, total, size = float(settings["addone"]), {}, {}
    for expansion, name in class_of.items():
        total[name] = total.get(name, 0) + uses[expansion]
    for name, _ in expansions:
        size[name] = size.get(name, 0) + 1
    with open_out(settings["outfile"]) as out:
        for name, expansion in expansions:
            below = total.get(name, 0) + size[name] * plus
            value = (uses[expansion] + plus) / below if below else 0
            text = f"{value:.6g}" if settings["normalize"] not in ("", "0") else str(uses[expansion])
            out.write(b"%s %s %s\n" % (name, text.encode(), b" ".join(expansion)))


def compute_best_mix(words):
    """[lambda="L1 L2 ..."] [precision=P] FILE ...: the weights of models that make a text most likely, from the reports
    of ngram -debug 2 -ppl or -counts, by EM.
    """
    import_numpy()
    import numpy as np

    from lmtk.em import estimate_weights
    from lmtk.lm import LN10

    settings, files = assigned(words, **{"lambda": "0.5", "precision": "0.001", "verbose": "0"})
    columns = [samples(path) for path in files]
    for column, path in zip(columns, files):
        if not column[0]:
            raise FormatError(path, "no probabilities of words in it; make it by ngram -debug 2 -ppl TEXT")
        if len(column[0]) != len(columns[0][0]):
            sizes = f"{len(column[0])} words, but {files[0]} has {len(columns[0][0])}"
            raise FormatError(path, f"{sizes}; make both reports from the same text")
    warn_of_differences(columns, files)
    logp = np.array([column[1] for column in columns]).T.reshape(-1, len(files))
    times = np.array(columns[-1][2])
    start = [float(x) for x in settings["lambda"].replace(",", " ").split()][: len(files)]
    start += [(1 - sum(start)) / max(len(files) - len(start), 1)] * (len(files) - len(start))
    has_p = (logp > NEVER).any(axis=1)
    logp, times = logp[has_p] * LN10, times[has_p]
    if not len(logp):
        raise FormatError(files[0], "none of its words has a probability")
    total = times.sum()

    def tell(iteration, weights, L):
        sys.stderr.write(f"iteration {iteration}, lambda = ({show(weights[0])}), ppl = {np.exp(-L / total):g}\n")

    where = np.zeros(len(logp), np.int64)
    best = estimate_weights(logp, where, np.array([start]), 1_000_000, float(settings["precision"]), tell, times)[
        0
    ].tolist()
    shares = [w / sum(best[: i + 1]) for i, w in enumerate(best)]
    print(f"{int(total)} non-oov words, best lambda ({show(best)})")
    print(f"pairwise cumulative lambda ({show([1, *shares[1:]])})")


SCORE = re.compile(rb"\[ (\S+)(?: \*(\S+))? \]")  # log10 p of a word, and how often it counts
NEVER = -320.0  # log10 p of what has the probability 0


def samples(path):
    """The words of a report of -debug 2, log10 p of each, and how often it counts."""
    columns = [], [], []
    for _, line in lines(path):
        if not line.lstrip().startswith(b"p( "):
            continue
        # the last brackets: a context may be a bracket itself
        logp, times = (SCORE.findall(line) or [(b"", b"")])[-1]
        try:
            log10p = NEVER if logp.lower() in (b"-inf", b"-1.#inf") else float(logp)
            times = float(times or 1)
        except ValueError:
            raise FormatError(path, f"not a line of ngram -debug 2: {os.fsdecode(line.strip())[:60]}") from None
        fields = WORD.findall(line)
        for column, value in zip(columns, (fields[1], log10p, times)):
            column.append(value)
    return columns


def warn_of_differences(columns, files):
    """Warn of words that differ between reports, <unk> aside."""
    for (words, _, _), path in zip(columns[1:], files[1:]):
        for i, (a, b) in enumerate(zip(words, columns[0][0]), 1):
            if a != b and b"<unk>" not in (a, b):
                names = f"{os.fsdecode(a)} != {os.fsdecode(b)}"
                sys.stderr.write(f"warning: word mismatch in file {path}, token {i}: {names}\n")


def show(weights):
    return " ".join(f"{w:.6g}" for w in weights)
