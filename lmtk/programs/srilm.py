"""SRILM's programs that are commands of lmtk's: their command lines as ours, (command, words) in turn."""

import glob
import os
import sys

from lmtk.errors import LmtkError, UsageError
from lmtk.files.decoding import WORD, lines
from lmtk.programs.lines import filtered_arpa, temporary

LONGEST = "99"  # an order that no n-gram in a count file is above
# options of smoothing methods -> the option of their files of discounts, or None; Good-Turing smoothing has no option
METHODS = {"kndiscount": "kn", "ukndiscount": "kn"}
METHODS |= dict.fromkeys(("wbdiscount", "ndiscount", "cdiscount", "addsmooth"))


def options_of(words, **taken):
    """Options that a program takes for itself, by name without the dash, with the values behind them (1: one value, 0:
    none); and the other words.
    """
    words, options, rest = list(words), {}, []
    while words:
        word = words.pop(0)
        name = "-" + word.lstrip("-").replace("_", "-") if word.startswith("-") else word
        values = taken.get(name[1:].replace("-", "_")) if name.startswith("-") else None
        if values is None:
            rest.append(word)
        elif values and not words:
            raise UsageError(f"{word} needs a value")
        else:
            options.setdefault(name[1:], []).append(words.pop(0) if values else "")
    return options, rest


def names_of(words):
    """The names of the options in a command line, without their dashes."""
    return {word.lstrip("-").replace("_", "-").partition("=")[0] for word in words if word.startswith("-")}


def without_maxent(words, *names):
    """The words of a command line without the options that say that a model is one of maximum entropy, or written as an
    ARPA file: lmtk has them so.
    """
    return [word for word in words if not (word.startswith("-") and word.lstrip("-").replace("_", "-") in names)]


def ngram(words):
    """The order is 3 where none is given. Above -debug 3 SRILM shows what it does at 2, and ranks of words, which lmtk
    lacks.
    """
    words = without_maxent(words, "maxent", "mix-maxent", "maxent-convert-to-arpa")
    options, words = options_of(words, debug=1)
    for level in options.get("debug", [])[-1:]:
        words += ["-debug", "2" if level.isdigit() and int(level) > 3 else level]
    return [("ngram", words if "order" in names_of(words) else ["-order", "3", *words])]


def ngram_count(words):
    """Nothing to do is no error: scripts call it so to see whether it is there, or with -write-vocab alone. Models have
    SRILM's order of lines.
    """
    words = without_maxent(words, "maxent-convert-to-arpa")
    _, words = options_of(words, tag=1)  # a name for SRILM's messages
    names = names_of(words)
    if not names & {"text", "read", "help", "h"} and "write-vocab" in names:
        words = [*words, "-text", os.devnull]
    if "prune" in names:  # SRILM prunes by the model's own probabilities of contexts
        words = ["-prune-contexts", "model", *words]
    return [("ngram-count", ["-sort", *words] if names & {"lm", "write-binary-lm"} else words)] if words else []


def ngram_class(words):
    """-read is -init; -save is of mergers, and SRILM's default is -incremental."""
    words = ["-init" if word in ("-read", "--read") else word for word in words]
    names = names_of(words)
    added = ["-incremental"] if "save" in names and not names & {"full", "incremental"} else []
    return [("ngram-class", [*added, *words])]


def ngram_merge(words):
    """Counts added up, in byte order."""
    options, files = options_of(words, write=1, float_counts=0)
    files = [word for word in files if word != "--"]
    if not files:
        raise UsageError("no count files; ngram-merge [-write FILE] [-float-counts] FILE ...")
    floats = ["-float-counts"] if "float-counts" in options else []
    out = options.get("write", ["-"])[-1]
    return [("ngram-count", ["-read", *files, "-order", LONGEST, "-sort", *floats, "-write", out])]


def make_batch_counts(words):
    """FILE-LIST [BATCH-SIZE [FILTER [COUNTDIR [OPTION ...]]]]: the counts of each batch of the listed files."""
    if not words:
        raise UsageError("no list of files; make-batch-counts FILE-LIST [BATCH-SIZE [FILTER [COUNTDIR [OPTION ...]]]]")
    listed, size, command, folder, *options = [*words, *["10", "cat", "counts"][max(len(words) - 1, 0) :]]
    if not size.isdigit() or not int(size):
        raise UsageError(f"the batch size must be a number of files, not '{size}'")
    with open(listed) as rows:
        files = [line.rstrip("\n") for line in rows if line.strip() and not line.startswith("#")]
    os.makedirs(folder, exist_ok=True)
    name = os.path.basename(listed).removesuffix(".files")
    open(f"{folder}/{name}.stats", "w").close()
    for number, first in enumerate(range(0, len(files), int(size)), 1):
        batch = files[first : first + int(size)]
        out = f"{folder}/{name}-{number}.ngrams.gz"
        sys.stderr.write(f"counting in {out} sources {' '.join(batch)}\n")
        if command not in ("cat", "/bin/cat"):
            batch = [filtered(command, batch)]
        yield "ngram-count", ["-text", *batch, "-sort", "-write", out, *options]


def filtered(command, files):
    """What a shell command prints with files behind it, in a file that goes when the program ends."""
    import subprocess  # its import takes as long as a small job

    name = temporary()
    with open(name, "wb") as out:
        done = subprocess.run(["sh", "-c", f'{command} "$@"', "sh", *files], stdout=out)
    if done.returncode:
        raise LmtkError(f"the filter '{command}' ended with status {done.returncode}")
    return name


def merge_batch_counts(words):
    """[-float-counts] [-l N] COUNTDIR [FILE-LIST]: the counts of a folder in one file; the others go."""
    options, rest = options_of(words, float_counts=0, l=1)
    if not 1 <= len(rest) <= 2:
        raise UsageError("merge-batch-counts [-float-counts] [-l N] COUNTDIR [FILE-LIST]")
    folder, name, width = rest[0], "merge", int(options.get("l", ["2"])[-1])
    if len(rest) == 2 and not rest[1].isdigit():
        name = os.path.basename(rest[1]).removesuffix(".files")
        with open(rest[1]) as rows:
            files = rows.read().split()
    else:
        files = sorted(glob.glob(f"{folder}/*.ngrams.gz") + glob.glob(f"{folder}/*.ngrams"))
    if not files:
        raise LmtkError(f"{folder}: no files *.ngrams or *.ngrams.gz to merge")
    # SRILM merges in rounds, and the file has the number of the last
    left, rounds = -(-len(files) // 2), 0
    while left > 1:
        left, rounds = -(-left // max(width, 2)), rounds + 1
    out = f"{folder}/{name}-iter{rounds}-1.ngrams.gz"
    if len(files) > 1:
        floats = ["-float-counts"] if "float-counts" in options else []
        yield from ngram_merge([*floats, "-write", out, *files])
        for path in files:
            if path != out:
                os.unlink(path)
    sys.stderr.write(f"final counts in {out if len(files) > 1 else files[0]}\n")


def make_big_lm(words):
    """ngram-count -read, whose counts need not fit into memory twice; Good-Turing goes up to 7 for words too. Discounts
    are made first, and have six digits.
    """
    taken = {"name": 1, "max_per_file": 1, "ngram_filter": 1, "text": 1, "trust_totals": 0, "read": 1}
    script_options, rest = options_of(words, **taken)
    if not script_options.get("read"):
        raise UsageError("no counts; make-big-lm -read FILE ... [-name PATH] [-ngram-filter FILTER] [OPTION ...]")
    files = script_options["read"]
    if command := script_options.get("ngram-filter"):
        files = [filtered(f'gzip -dcf "$@" | {command[-1]}; :', files)]
    model, options = options_of(rest, lm=1, order=1)
    option_names, order = names_of(options), model.get("order", ["3"])[-1]
    first = [] if "gt1max" in option_names else ["-gt1max", "7"]
    orders, names = range(1, int(order) + 1) if order.isdigit() else (), {}
    if "ukndiscount" in option_names:  # ngram-count has modified Kneser-Ney smoothing where files are given
        options = [word for word in options if word.lstrip("-") != "ukndiscount"]
        options += [f"-ukndiscount{n}" for n in orders]
    kinds = {}
    for n in orders:
        chosen = [method for method in METHODS if {method, f"{method}{n}"} & option_names]
        if kind := METHODS[chosen[0]] if chosen else "gt":
            kinds[n], names[f"-{kind}{n}"] = kind, temporary()
    # discounts, and which words stand before an n-gram, are found in all the counts, before -vocab; -limit-vocab has
    # no effect in SRILM's script
    vocabulary, options = options_of(options, vocab=1, limit_vocab=0)
    smoothed = [n for n, kind in kinds.items() if kind == "kn"]
    if vocabulary and smoothed:
        files, first = [words_before(files, int(order), smoothed)], [*first, "-kn-counts-modified"]
    every = ["-sort", "-read", *files, *first, *options, "-order", order]
    if names:
        # those of all n-grams, with <unk> among them
        yield "ngram-count", [*every, "-unk", *(word for item in names.items() for word in item)]
    every += [word for option, name in names.items() for word in (option, rounded(name))]
    every += ["-vocab", vocabulary["vocab"][-1]] if "vocab" in vocabulary else []
    yield "ngram-count", [*every, *(word for path in model.get("lm", [])[-1:] for word in ("-lm", path))]


def words_before(files, order, smoothed):
    """Counts for Kneser-Ney smoothing of some orders, in a file that goes when the program ends. Below the highest
    order an n-gram counts once for each word before it, and as it is where it begins with <s>.
    """
    name = temporary()
    with open(name, "wb") as out:
        for path in files:
            for _, line in lines(path):
                ngram = WORD.findall(line)[:-1]
                k = len(ngram)
                if 0 < k <= order and (k == order or k not in smoothed or ngram[0] == b"<s>"):
                    out.write(line + b"\n")
                if 1 < k <= order and k - 1 in smoothed and ngram[1] != b"<s>":
                    out.write(b" ".join(ngram[1:]) + b"\t1\n")
    return name


def rounded(path):
    """Gives the discounts in a file six digits, as those of SRILM's scripts have. Returns its name."""
    with open(path) as rows:
        fields = [(*names, float(value)) for *names, value in map(str.split, rows)]
    with open(path, "w") as out:
        out.writelines(f"{' '.join(names)} {value:.6g}\n" for *names, value in fields)
    return path


def change_lm_vocab(words):
    """-vocab FILE -lm FILE -write-lm FILE [-subset]: a model of the words of a list."""
    from lmtk.text.vocab import lower, read_vocab

    options, rest = options_of(words, vocab=1, lm=1, write_lm=1, subset=0, tolower=0)
    path, vocab = options.get("lm", ["-"])[-1], options.get("vocab", [os.devnull])[-1]
    listed = read_vocab(vocab, "tolower" in options)
    if not os.path.isfile(vocab):  # a pipe is read once
        vocab = temporary()
        with open(vocab, "wb") as out:
            out.writelines(word + b"\n" for word in listed)
    listed = {*listed, b"<s>", b"</s>"}
    mapped = lower if "tolower" in options else bytes
    name = temporary()
    filtered_arpa(path, [name], lambda word: () if mapped(word) in listed else None)
    new = os.devnull if "subset" in options else vocab
    return ngram(["-lm", name, "-vocab", new, "-renorm", *rest, "-write-lm", options.get("write-lm", ["-"])[-1]])
