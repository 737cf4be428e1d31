"""SRILM's programs that lmtk has as commands.

Each function takes the words of a command line and returns or yields (command, words) of lmtk's commands to run, one
after the other.
"""

import glob
import os
import re
import sys
import warnings

from lmtk.errors import LmtkError, LmtkWarning, UsageError
from lmtk.files.decoding import WORD, lines
from lmtk.programs.arpa import filter_arpa
from lmtk.programs.scripts import temporary_file

LONGEST = "99"  # no n-gram in a count file is longer
# options of smoothing methods: the option for their files of discounts, or None. Good-Turing smoothing has no option.
METHODS = {"kndiscount": "kn", "ukndiscount": "kn"}
METHODS |= dict.fromkeys(("wbdiscount", "ndiscount", "cdiscount", "addsmooth"))

# options of a mixture, for `options_of`: how many values follow each of them
MIXING = dict.fromkeys(("lambda", "bayes", "bayes_scale"), 1) | {"loglinear_mix": 0}
MIXING |= dict.fromkeys((f"mix_{name}{n}" for n in range(2, 10) for name in ("lm", "lambda")), 1)


def options_of(words, **taken):
    """Splits a command line into ({name of an option without its dash: list of its values}, the other words).

    taken: the names of the options, with _ in place of -, and 1 if a value follows the option, 0 if not.
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
    """The names of the options in a command line, without dashes."""
    return {word.lstrip("-").replace("_", "-").partition("=")[0] for word in words if word.startswith("-")}


def ngram(words):
    """ngram -order 3 by default. At -debug 4 and above, SRILM prints the report of -debug 2 and ranks of words, which
    lmtk does not have.
    """
    # not needed: lmtk keeps maximum entropy models as back-off models
    _, words = options_of(words, maxent=0, mix_maxent=0, maxent_convert_to_arpa=0)
    if names_of(words).isdisjoint(("mix-lm", "read-mix-lms")):  # SRILM mixes only then
        options, words = options_of(words, **MIXING)
        if options:
            listed = ", ".join("-" + name for name in options)
            warnings.warn(f"no effect without -mix-lm, as in SRILM: {listed}", LmtkWarning, stacklevel=1)
    elif any(name.startswith("mix-lm") and name != "mix-lm" for name in names_of(words)):
        words = drop_later_weights(words)
    options, words = options_of(words, debug=1)
    for level in options.get("debug", [])[-1:]:
        words += ["-debug", "2" if level.isdecimal() and int(level) > 3 else level]
    return [("ngram", words if "order" in names_of(words) else ["-order", "3", *words])]


def drop_later_weights(words):
    """A command line in which one value follows -lambda. In SRILM the other models have -mix-lambdaN, and a second
    value of -lambda is a word without an option.
    """
    kept = []
    for word in words:
        if kept[-2:-1] in (["-lambda"], ["--lambda"]) and not word.startswith("-"):
            warnings.warn(f"'{word}' has no option before it and is ignored", LmtkWarning, stacklevel=1)
        else:
            kept.append(word)
    return kept


def ngram_count(words):
    """ngram-count -sort. A command line without options is accepted, since scripts test in this way whether the program
    exists; -write-vocab without a text is accepted too. -write-binary writes counts as text, which -read reads.
    """
    _, words = options_of(words, maxent_convert_to_arpa=0)  # not needed, as in `ngram`
    _, words = options_of(words, tag=1)  # only for SRILM's messages
    words = drop_unset_discounts(words)
    if "write" not in names_of(words):
        options, words = options_of(words, write_binary=1)
        words += [word for path in options.get("write-binary", [])[-1:] for word in ("-write", path)]
    names = names_of(words)
    if not names & {"text", "read", "help", "h"} and "write-vocab" in names:
        words = [*words, "-text", os.devnull]
    if "prune" in names:  # SRILM prunes by the model's own probabilities of contexts
        words = ["-prune-contexts", "model", *words]
    return [("ngram-count", ["-sort", *words] if names & {"lm", "write-binary-lm"} else words)] if words else []


def drop_unset_discounts(words):
    """A command line without options such as -cdiscount3 -1: for SRILM, -1 means that the option is not given."""
    kept, words = [], list(words)
    while words:
        option = words[0].lstrip("-").rstrip("123456789")
        if words[0].startswith("-") and option in ("cdiscount", "addsmooth") and words[1:2] in (["-1"], ["-1.0"]):
            words = words[2:]
        else:
            kept.append(words.pop(0))
    return kept


def ngram_class(words):
    """ngram-class; -read is -init here. With -save classes are merged, by default as with -incremental."""
    words = ["-init" if word in ("-read", "--read") else word for word in words]
    names = names_of(words)
    added = ["-incremental"] if "save" in names and not names & {"full", "incremental"} else []
    return [("ngram-class", [*added, *words])]


def ngram_merge(words):
    """[-write FILE] [-float-counts] FILE ...: add up counts, sorted by bytes."""
    options, files = options_of(words, write=1, float_counts=0)
    files = [word for word in files if word != "--"]
    if not files:
        raise UsageError("no count files; ngram-merge [-write FILE] [-float-counts] FILE ...")
    floats = ["-float-counts"] if "float-counts" in options else []
    out = options.get("write", ["-"])[-1]
    return [("ngram-count", ["-read", *files, "-order", LONGEST, "-sort", *floats, "-write", out])]


def make_batch_counts(words):
    """FILE-LIST [BATCH-SIZE [FILTER [COUNTDIR [OPTION ...]]]]: count the texts of a list in batches, with
    a count file for each batch.
    """
    if not words:
        raise UsageError("no list of files; make-batch-counts FILE-LIST [BATCH-SIZE [FILTER [COUNTDIR [OPTION ...]]]]")
    listed, size, command, folder, *options = [*words, *["10", "cat", "counts"][max(len(words) - 1, 0) :]]
    # one argument may have an option and its value, since SRILM's script leaves it to the shell to split arguments
    options = [part for word in options for part in (word.split() if word.startswith("-") else [word])]
    if not size.isdecimal() or not int(size):
        raise UsageError(f"the batch size must be a number of files, not '{size}'")
    with open(listed, errors="surrogateescape") as rows:
        files = [line.rstrip("\n") for line in rows if line.strip() and not line.startswith("#")]
    os.makedirs(folder, exist_ok=True)
    name = os.path.basename(listed).removesuffix(".files")
    open(f"{folder}/{name}.stats", "w").close()
    for number, first in enumerate(range(0, len(files), int(size)), 1):
        batch = files[first : first + int(size)]
        out = f"{folder}/{name}-{number}.ngrams.gz"
        sys.stderr.write(f"counting in {out} sources {' '.join(batch)}\n")
        if command not in ("cat", "/bin/cat"):
            batch = [run_filter(command, batch)]
        yield "ngram-count", ["-text", *batch, "-sort", "-write", out, *options]


def run_filter(command, files):
    """Runs a shell command with files as its arguments. Returns the name of a temporary file with its output."""
    import subprocess  # its import takes as long as a small job

    name = temporary_file()
    with open(name, "wb") as out:
        done = subprocess.run(["sh", "-c", f'{command} "$@"', "sh", *files], stdout=out)
    if done.returncode:
        raise LmtkError(f"the filter '{command}' ended with status {done.returncode}")
    return name


def merge_batch_counts(words):
    """[-float-counts] [-l N] COUNTDIR [FILE-LIST]: merge the count files of a folder into one file, and remove the
    others.
    """
    options, rest = options_of(words, float_counts=0, l=1)
    if not 1 <= len(rest) <= 2:
        raise UsageError("merge-batch-counts [-float-counts] [-l N] COUNTDIR [FILE-LIST]")
    folder, name, width = rest[0], "merge", options.get("l", ["2"])[-1]
    if not width.isdecimal():
        raise UsageError(f"-l takes a whole number, not {width}")
    if len(rest) == 2 and not rest[1].isdigit():
        name = os.path.basename(rest[1]).removesuffix(".files")
        with open(rest[1], errors="surrogateescape") as rows:
            files = rows.read().split()
    else:
        files = sorted(glob.glob(f"{folder}/*.ngrams.gz") + glob.glob(f"{folder}/*.ngrams"))
    if not files:
        raise LmtkError(f"{folder}: no files *.ngrams or *.ngrams.gz to merge")
    # SRILM merges in rounds, and names the file after the last round
    left, rounds = -(-len(files) // 2), 0
    while left > 1:
        left, rounds = -(-left // max(int(width), 2)), rounds + 1
    out = f"{folder}/{name}-iter{rounds}-1.ngrams.gz"
    if len(files) > 1:
        floats = ["-float-counts"] if "float-counts" in options else []
        yield from ngram_merge([*floats, "-write", out, *files])
        for path in files:
            if path != out:
                os.unlink(path)
    sys.stderr.write(f"final counts in {out if len(files) > 1 else files[0]}\n")


def make_big_lm(words):
    """-read FILE ... [-name PATH] [-ngram-filter FILTER] [OPTION ...]: estimate a model from count files.

    As in SRILM's script, discounts are computed first, from all counts, and rounded to six digits. Good-Turing
    smoothing discounts counts up to 7 for 1-grams too.
    """
    taken = {"name": 1, "max_per_file": 1, "ngram_filter": 1, "text": 1, "trust_totals": 0, "read": 1}
    script_options, rest = options_of(words, **taken)
    if not script_options.get("read"):
        raise UsageError("no counts; make-big-lm -read FILE ... [-name PATH] [-ngram-filter FILTER] [OPTION ...]")
    files = script_options["read"]
    rest, is_raw = read_kneser_options(rest)
    if command := script_options.get("ngram-filter"):
        files = [run_filter(f'gzip -dcf "$@" | {command[-1]}; :', files)]
    model, options = options_of(rest, lm=1, order=1)
    option_names, order = names_of(options), model.get("order", ["3"])[-1]
    first = [] if "gt1max" in option_names else ["-gt1max", "7"]
    orders, names = range(1, int(order) + 1) if order.isdecimal() else (), {}
    if "ukndiscount" in option_names:  # otherwise ngram-count takes -kn files as those of modified Kneser-Ney
        options = [word for word in options if word.lstrip("-") != "ukndiscount"]
        options += [f"-ukndiscount{n}" for n in orders]
    kinds = {}
    for n in orders:
        chosen = [method for method in METHODS if {method, f"{method}{n}"} & option_names]
        if kind := METHODS[chosen[0]] if chosen else "gt":
            kinds[n], names[f"-{kind}{n}"] = kind, temporary_file()
    # Discounts and continuation counts are those of all words, before -vocab leaves out some. -limit-vocab has no
    # effect in SRILM's script.
    vocabulary, options = options_of(options, vocab=1, limit_vocab=0)
    smoothed = [n for n, kind in kinds.items() if kind == "kn"]
    if smoothed and (vocabulary or is_raw):
        files = [make_kneser_counts(files, int(order), smoothed[1:] if is_raw else smoothed)]
        first += ["-kn-counts-modified"]
    every = ["-sort", "-read", *files, *first, *options, "-order", order]
    if names:
        # discounts of all n-grams, including those with <unk>
        yield "ngram-count", [*every, "-unk", *(word for item in names.items() for word in item)]
    every += [word for option, name in names.items() for word in (option, round_discounts(name))]
    every += ["-vocab", vocabulary["vocab"][-1]] if "vocab" in vocabulary else []
    yield "ngram-count", [*every, *(word for path in model.get("lm", [])[-1:] for word in ("-lm", path))]


def read_kneser_options(words):
    """(the command line with the methods that SRILM's make-big-lm uses; whether 1-grams keep their counts although they
    are smoothed by original Kneser-Ney).

    Two variables are exchanged in SRILM's script: -ukndiscount2 has the effect of -kndiscount2, and options such as
    -kndiscount2 smooth 1-grams by original Kneser-Ney. Without -kndiscount1, 1-grams do not get continuation counts.
    -ukndiscount holds for all orders, whatever options are given for single orders.
    """
    names = names_of(words)
    if "ukndiscount" in names:
        return [word for word in words if not re.fullmatch("--?u?kndiscount[1-9]", word)], False
    words = [re.sub("^--?ukndiscount(?=[1-9]$)", "-kndiscount", word) for word in words]
    if names.isdisjoint(f"kndiscount{n}" for n in range(1, 10)):
        return words, False
    is_raw = names.isdisjoint(("kndiscount", "kndiscount1", "ukndiscount", "ukndiscount1"))
    return [*(word for word in words if word.lstrip("-") != "kndiscount1"), "-ukndiscount1"], is_raw


def make_kneser_counts(files, order, smoothed):
    """Counts for Kneser-Ney smoothing of the orders `smoothed`: returns the name of a temporary file.

    Below the highest order, n-grams have continuation counts, except for n-grams that begin with <s>.
    """
    name = temporary_file()
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


def round_discounts(path):
    """Rounds the discounts in a file to six digits, as SRILM's scripts do. Returns the path."""
    with open(path) as rows:
        fields = [(*names, float(value)) for *names, value in map(str.split, rows)]
    with open(path, "w") as out:
        out.writelines(f"{' '.join(names)} {value:.6g}\n" for *names, value in fields)
    return path


def change_lm_vocab(words):
    """-vocab FILE -lm FILE -write-lm FILE [-subset]: change the vocabulary of a model."""
    from lmtk.text.vocab import lower, read_vocab

    options, rest = options_of(words, vocab=1, lm=1, write_lm=1, subset=0, tolower=0)
    path, vocab = options.get("lm", ["-"])[-1], options.get("vocab", [os.devnull])[-1]
    listed = read_vocab(vocab, "tolower" in options)
    if not os.path.isfile(vocab):  # a pipe is read once
        vocab = temporary_file()
        with open(vocab, "wb") as out:
            out.writelines(word + b"\n" for word in listed)
    listed = {*listed, b"<s>", b"</s>"}
    mapped = lower if "tolower" in options else bytes
    name = temporary_file()
    filter_arpa(path, [name], lambda word: () if mapped(word) in listed else None)
    new = os.devnull if "subset" in options else vocab
    return ngram(["-lm", name, "-vocab", new, "-renorm", *rest, "-write-lm", options.get("write-lm", ["-"])[-1]])
