"""SRILM's select-vocab."""

import itertools
import re
import sys
from collections import Counter

from lmtk.errors import FormatError, UsageError
from lmtk.files.decoding import WORD, lines
from lmtk.machine.threads import import_numpy
from lmtk.programs.arpa import order_of

OPTIONS = {"-quiet": "quiet", "-q": "quiet", "-scale": "scale"}
OPTIONS |= dict.fromkeys(("-heldout", "-held-out", "-held"), "heldout")


def select_vocab(words):
    """[-quiet] [-scale X] -heldout FILE FILE FILE ...: print the words of all files, each with its probability times
    the scale.

    The probability is that of a mixture of the unigram models of the files, except for the held-out file, whose
    likelihood the weights of the mixture maximize (Venkataraman and Wang 2003).
    """
    import_numpy()
    import numpy as np

    from lmtk.em import estimate_weights
    from lmtk.files.curve import perplexity

    usage = "select-vocab [-quiet] [-scale X] -heldout FILE FILE FILE ..."
    options, files = {}, list(words)
    while files and files[0].startswith("-"):
        option = files.pop(0)
        name = OPTIONS.get(option)
        if not name or (name != "quiet" and not files):
            raise UsageError(f"{option} needs a value" if name else f"no option {option}; {usage}")
        options[name] = True if name == "quiet" else files.pop(0)
    if "heldout" not in options or len(files) < 2:
        raise UsageError(usage)
    try:
        scale = float(options.get("scale", 1e6))
    except ValueError:
        raise UsageError(f"-scale takes a number, not {options['scale']}") from None
    heldout, *counts = (unigrams(path) for path in (options["heldout"], *files))
    for path, tally in zip(files, counts):
        if tally and not sum(tally.values()):
            raise FormatError(path, "all of its counts are 0")
    every = list(dict.fromkeys(word for tally in (heldout, *counts) for word in tally))
    index = {word: i for i, word in enumerate(every)}
    total = sum(heldout.values())
    if not total:
        raise FormatError(options["heldout"], "no words in it")
    p = np.array([unigram_model(tally, every) for tally in counts]).T
    at, times = np.array([index[word] for word in heldout]), np.array(list(heldout.values()), float)
    has_p = (p[at] > 0).any(axis=1)
    if not has_p.any():
        raise FormatError(options["heldout"], "none of its words has a probability")
    with np.errstate(divide="ignore"):
        logp, times = np.log(p[at[has_p]]), times[has_p]
    steps = []
    weights = np.full((1, len(files)), 1 / len(files))
    tell = lambda _, weights, L: steps.append((weights[0], L))
    weights = estimate_weights(logp, np.zeros(len(logp), np.int64), weights, 500, 1e-5, tell, times)[0]
    after = [new for new, _ in steps[1:]] + [weights]
    for number, (new, (_, L)) in enumerate(zip(after, steps), 1):
        if "quiet" not in options:
            shown = " ".join(f"{w:.6f}" for w in new)
            ppl = perplexity(L / total)
            sys.stderr.write(f"Iter {number}: lambdas = ({shown}) log P(held-out) = {L:.4f} PPL = {ppl:.4f}\n")
    for word, score in zip(every, (p @ weights * scale).tolist()):
        sys.stdout.buffer.write(b"%s\t %s\n" % (word, f"{score:.15g}".encode()))


def unigrams(path):
    """{word: its count in a file}.

    The file is a text, a text with a name before each sentence (.sentid), a count file, or an ARPA file, whose
    probabilities are taken as counts. Words such as <s> are left out of count files and ARPA files.
    """
    named, counts = re.search(r"\.sentid(\.gz|\.Z)?$", path), {}
    rows = (line for _, line in lines(path))
    first = list(itertools.islice(rows, 5))
    rows = itertools.chain(first, rows)
    counted = len(first) == 5 and all(
        (fields := WORD.findall(line)) and re.search(rb"\d", fields[-1]) for line in first
    )
    try:
        if not named and not counted and re.search(rb"\\data\\\s*ngram\s+1\s*=", b" ".join(first)):
            pairs = [(fields[1], 10 ** float(fields[0])) for fields in unigram_lines(rows)]
        elif not named and counted:
            pairs = [(fields[0], float(fields[1])) for line in rows if len(fields := WORD.findall(line)) == 2]
        else:
            return Counter(word for line in rows for word in WORD.findall(line)[1 if named else 0 :])
    except (ValueError, IndexError):
        raise FormatError(path, "expected word counts or an ARPA file") from None
    for word, count in pairs:
        if not re.search(rb"<.*>", word):
            counts[word] = counts.get(word, 0) + count
    return counts


def unigram_lines(rows):
    """Yields the fields of the 1-grams among the lines of an ARPA file."""
    order = 0
    for line in rows:
        order, is_ngram = order_of(line, order)
        if is_ngram and order == 1:
            yield WORD.findall(line)


def unigram_model(counts, words):
    """p of each word. Words without a count share the left-over mass of Witten-Bell smoothing in equal parts.

    Counts whose sum is at most 1 are probabilities of a model. Then the left-over mass is the rest, or 0.1 if nothing
    is left.
    """
    total, seen = sum(counts.values()), sum(count > 0 for count in counts.values())
    new = len(words) - len(counts)
    if not new:
        return [counts[word] / total for word in words]
    if total < 1:
        scale, rest = 1, 1 - total
    elif total == 1:
        scale, rest = 0.9, 0.1
    else:
        scale, rest = 1 / (total + seen), seen / (total + seen)
    return [counts[word] * scale if counts.get(word) else rest / new for word in words]
