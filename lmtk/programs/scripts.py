"""SRILM's awk scripts: small programs over the lines of ARPA files, texts, classes and reports.

The first part of each docstring has the arguments, as the shell gives them.
"""

import atexit
import contextlib
import os
import re
import sys
from collections import Counter

from lmtk.errors import FormatError, UsageError, counted, shown
from lmtk.files.bounded import named_file
from lmtk.files.decoding import WORD, lines
from lmtk.files.outputs import open_out
from lmtk.machine.threads import import_numpy
from lmtk.programs.arpa import SIZE, arpa_lines

MANY = 1 << 12  # lines written at once
ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
temporaries = contextlib.ExitStack()  # the files of `temporary_file`
atexit.register(temporaries.close)


def temporary_file():
    """The name of a new file that is removed when the program ends."""
    return temporaries.enter_context(named_file())[1]


def parse_arguments(words, **defaults):
    """Parses arguments as awk does, which skips empty arguments: ({name: value} of the arguments name=value, and of
    `defaults` for other names; the files, or ["-"]).
    """
    settings, files = dict(defaults), []
    for word in filter(None, words):
        if not ASSIGNED.match(word):
            files.append(word)
            continue
        name, _, text = word.partition("=")
        if name not in defaults:
            raise UsageError(f"no variable {name}; the variables are {', '.join(defaults)}")
        settings[name] = text
    return settings, files or ["-"]


def number(settings, name):
    """The number that the variable `name` has. Raises UsageError."""
    try:
        return float(settings[name])
    except ValueError:
        raise UsageError(f"{name} takes a number, not '{settings[name]}'") from None


def get_unigram_probs(words):
    """[linear=1] [FILE]: print the words of an ARPA file with log10 p, or with p."""
    settings, files = parse_arguments(words, linear="0")
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
    """[FILE]: print an ARPA file of order 3 or less without the n-grams that have a higher probability by back-off. The
    head and the back-off weights do not change.
    """
    p, bow, seen, gone, kept = {}, {}, {}, {}, []
    for path in parse_arguments(words)[1]:
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
    """[FILE]: make a bigram model of reversed text from an ARPA file, with p(v | w) = p(v) p(w | v) / p(w) and new
    back-off weights.
    """
    swapped, p, name = {b"<s>": b"</s>", b"</s>": b"<s>"}, {}, temporary_file()
    path, *more = parse_arguments(words)[1]
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
                for word in (v, w):
                    if word not in p:
                        raise FormatError(path, f"the word {shown(word)} of a 2-gram is not among the 1-grams")
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
    """[FILE]: print an ARPA file with the n-grams of each order sorted by the bytes of their words."""
    rows, out = [], sys.stdout.buffer
    for path in parse_arguments(words)[1]:
        for order, line, fields in arpa_lines(path):
            if order:
                rows.append((fields[1 : order + 1], line))
                continue
            out.writelines(row + b"\n" for _, row in sorted(rows))
            rows = []
            out.write(line + b"\n")


def add_dummy_bows(words):
    """[FILE]: print an ARPA file with missing back-off weights as 0, below the highest order."""
    for path in parse_arguments(words)[1]:
        highest = 0
        for order, line, fields in arpa_lines(path):
            if size := SIZE.match(line):
                highest = max(highest, int(size[1]))
            bare = order and order < highest and len(fields) < order + 2
            sys.stdout.buffer.write(line + (b"\t0\n" if bare else b"\n"))


def uniform_classes(words):
    """[FILE]: print a class file. Expansions without a probability get equal probabilities."""
    classes = {}
    for path in parse_arguments(words)[1]:
        for _, line in lines(path):
            if fields := WORD.findall(line):
                has_p = len(fields) > 1 and re.match(rb"[-+]?[.]?[0-9][0-9.]*(e[+-]?[0-9]+)?$", fields[1])
                expansion = b" ".join(fields[2 if has_p else 1 :])
                classes.setdefault(fields[0], []).append((fields[1] if has_p else None, expansion))
    sys.stderr.write(f"read {sum(map(len, classes.values()))} class expansions\n")
    for name, expansions in classes.items():
        equal = b"%.6g" % (1 / len(expansions))
        for p, expansion in expansions:
            sys.stdout.buffer.write(b"%s %s %s\n" % (name, p or equal, expansion))


FRAGMENT = re.compile(rb"[A-Za-z\x80-\xff]-$|-[A-Za-z\x80-\xff]")  # the end or the beginning of a word fragment


def compute_oov_rate(words):
    """[write_oov_words=FILE] [write_oov_frags=FILE] [VOCAB COUNTS ...]: print how many of the counted words are not in
    the vocabulary, with and without word fragments.
    """
    settings, files = parse_arguments(words, debug="", write_oov_words="", write_oov_frags="")
    listed = {fields[0] for _, line in lines(files[0]) if (fields := WORD.findall(line))}
    tokens, types = Counter(), Counter()  # keys: (whether it is unknown, whether it is a fragment)
    unknown_lines, longer = {"write_oov_words": [], "write_oov_frags": []}, 0
    for path in files[1:]:
        for number, line in lines(path):
            word, *rest = WORD.findall(line) or [b""]
            if word in (b"<s>", b"</s>", b"-pau-", b""):
                continue
            longer += len(rest) > 1
            try:
                n = float(rest[0]) if len(rest) == 1 else 0
            except ValueError:
                problem = f"expected a word and its count, not '{os.fsdecode(line)[:60]}'"
                problem += "; ngram-count -order 1 -write makes such a file"
                raise FormatError(path, problem, number) from None
            unknown, broken = word not in listed, bool(FRAGMENT.search(word[-2:]) or FRAGMENT.match(word))
            tokens[unknown, broken] += n
            types[unknown, broken] += 1
            if unknown:
                unknown_lines["write_oov_frags" if broken else "write_oov_words"].append(line)
    if longer:
        clause = f"{counted(longer, 'line has', 'lines have')} more than one word and a count"
        sys.stderr.write(f"warning: {clause}; as in SRILM, they are types; use counts of ngram-count -order 1\n")
    for name, rows in unknown_lines.items():
        if settings[name]:
            with open_out(settings[name]) as out:
                out.writelines(row + b"\n" for row in rows)
    for unit, n in (("tokens", tokens), ("types", types)):
        unknown, in_vocab = n[True, False], n[False, False]
        every = format_share(unknown + n[True, True], n.total())
        print(f"OOV {unit}: {every} excluding fragments: {format_share(unknown, unknown + in_vocab)}")


def format_share(part, whole):
    return f"{int(part)} / {int(whole)} ({100 * part / whole if whole else 0:.2f}%)"


def replace_words_with_classes(words):
    """classes=FILE [have_counts=1] [outfile=FILE] [normalize=0] [addone=X] [partial=1] [TEXT ...]: print a text with
    classes in place of their expansions, the longest expansion at each place. Write the classes to outfile, with
    probabilities from the text.
    """
    names = {"classes": "", "have_counts": "0", "outfile": "", "normalize": "1", "addone": "1", "partial": "0"}
    settings, files = parse_arguments(words, **names)
    if not settings["classes"]:
        raise UsageError("no classes=FILE")
    expansions = []  # class, words
    for _, line in lines(settings["classes"]):
        if fields := WORD.findall(line):
            number = len(fields) > 1 and re.match(rb"[-+0-9.][-+0-9e.]*$", fields[1])
            expansions.append((fields[0], tuple(fields[2 if number else 1 :])))
    sys.stderr.write(f"read {len(expansions)} class expansions\n")
    class_of = {expansion: name for name, expansion in reversed(expansions)}  # the first class of an expansion
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
            replaced = b" ".join(replace_expansions(fields[: len(fields) - len(last)], class_of, longest, uses))
            if partial:
                replaced = re.sub(rb"[|]$", b" ", re.sub(rb"^[|]", b" ", replaced.replace(b" | ", b" ")))
            sys.stdout.buffer.write(b" ".join([replaced, *last]) + b"\n")
    if settings["outfile"]:
        write_expansions(settings, expansions, class_of, uses)


def replace_expansions(words, class_of, longest, uses):
    """A list of words with classes in place of their expansions.

    class_of: {expansion, a tuple of words: its class}. longest: {word: the length of the longest expansion that begins
    with it}. uses: {expansion: how often it was replaced}, which is updated.
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
    """Writes the classes to outfile, each expansion with the probability (uses + addone) / (uses of the class + addone
    times the size of the class), or with its uses if normalize=0.
    """
    plus, total, size = number(settings, "addone"), Counter(), Counter(name for name, _ in expansions)
    for expansion, name in class_of.items():
        total[name] += uses[expansion]
    with open_out(settings["outfile"]) as out:
        for name, expansion in expansions:
            below = total[name] + size[name] * plus
            value = (uses[expansion] + plus) / below if below else 0
            text = f"{value:.6g}" if settings["normalize"] not in ("", "0") else str(uses[expansion])
            out.write(b"%s %s %s\n" % (name, text.encode(), b" ".join(expansion)))


def compute_best_mix(words):
    """[lambda="L1 L2 ..."] [precision=P] FILE ...: print the weights of models that maximize the likelihood of a text,
    by EM. The files are reports of ngram -debug 2 -ppl or -counts, one for each model.
    """
    import_numpy()
    import numpy as np

    from lmtk.em import estimate_weights
    from lmtk.files.curve import perplexity
    from lmtk.lm import LN10

    settings, files = parse_arguments(words, **{"lambda": "0.5", "precision": "0.001", "verbose": "0"})
    columns = [read_report(path) for path in files]
    for column, path in zip(columns, files):
        if not column[0]:
            raise FormatError(path, "no probabilities of words in it; make it by ngram -debug 2 -ppl TEXT")
        if len(column[0]) != len(columns[0][0]):
            sizes = f"{len(column[0])} words, but {files[0]} has {len(columns[0][0])}"
            raise FormatError(path, f"{sizes}; make both reports from the same text")
    warn_of_differences(columns, files)
    logp = np.array([column[1] for column in columns]).T.reshape(-1, len(files))
    times = np.array(columns[-1][2])
    precision = number(settings, "precision")
    start = [number({"lambda": x}, "lambda") for x in settings["lambda"].replace(",", " ").split()][: len(files)]
    start += [(1 - sum(start)) / max(len(files) - len(start), 1)] * (len(files) - len(start))
    has_p = (logp > NEVER).any(axis=1)
    logp, times = logp[has_p] * LN10, times[has_p]
    if not len(logp):
        raise FormatError(files[0], "none of its words has a probability")
    total = times.sum()

    def tell(iteration, weights, L):
        sys.stderr.write(
            f"iteration {iteration}, lambda = ({format_numbers(weights[0])}), ppl = {perplexity(L / total):g}\n"
        )

    where = np.zeros(len(logp), np.int64)
    best = estimate_weights(logp, where, np.array([start]), 1_000_000, precision, tell, times)[0].tolist()
    shares = [w / total if (total := sum(best[: i + 1])) else 0 for i, w in enumerate(best)]
    print(f"{int(times.sum())} non-oov words, best lambda ({format_numbers(best)})")
    print(f"pairwise cumulative lambda ({format_numbers([1, *shares[1:]])})")


SCORE = re.compile(rb"\[ (\S+)(?: \*(\S+))? \]")  # log10 p of a word, and how often it counts
NEVER = -320.0  # log10 p for the probability 0


def read_report(path):
    """(the words in a report of -debug 2, log10 p of each word, how often each word counts): lists."""
    columns = [], [], []
    for _, line in lines(path):
        if not line.lstrip().startswith(b"p( "):
            continue
        # the last brackets, since a word of the context may be a bracket
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
    """Warns of words that differ between reports. <unk> may differ from any word."""
    for (words, _, _), path in zip(columns[1:], files[1:]):
        for i, (a, b) in enumerate(zip(words, columns[0][0]), 1):
            if a != b and b"<unk>" not in (a, b):
                names = f"{os.fsdecode(a)} != {os.fsdecode(b)}"
                sys.stderr.write(f"warning: word mismatch in file {path}, token {i}: {names}\n")


def format_numbers(numbers):
    return " ".join(f"{x:.6g}" for x in numbers)
