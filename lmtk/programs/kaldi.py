"""Kaldi's arpa2fst, and kaldilm: their command lines become a FstJob."""

import warnings

from lmtk.errors import LmtkWarning, UsageError, nearest, typed

TRUTHS = {"true": True, "t": True, "": True, "false": False, "f": False}
# option: the field of a FstJob
FIELDS = {
    "bos-symbol": "sos",
    "eos-symbol": "eos",
    "disambig-symbol": "disambig",
    "read-symbol-table": "symbols",
    "write-symbol-table": "write_symbols",
    "keep-symbols": "keep_symbols",
    "ilabel-sort": "is_sorted",
    "max-order": "max_order",
    "max-arpa-warnings": None,
}
FLAGS = {"keep-symbols", "ilabel-sort"}
NUMBERS = {"max-order", "max-arpa-warnings"}
NAMES = {"sos": "bos-symbol", "symbols": "read-symbol-table", "write-symbols": "write-symbol-table"}
HELP = """usage: {usage}

Write an ARPA file as an FST. ARPA: a file, or - for standard input; compressed files are recognized.
  --disambig-symbol=WORD        the symbol of back-off arcs, such as #0; <s> and </s> are then not labels
  --read-symbol-table=FILE      the symbol table to use
  --write-symbol-table=FILE     write the symbol table
  --keep-symbols=true|false     store the symbol table in the FST
  --bos-symbol=WORD             the word that begins a sentence (default <s>)
  --eos-symbol=WORD             the word that ends a sentence (default </s>)
  --ilabel-sort=true|false      sort the arcs of each state (default true)
  --max-order=N                 leave out n-grams longer than N
  --max-arpa-warnings=N         0: no warnings about the model
"""


def arpa2fst(words):
    """[OPTION ...] ARPA [FST]: write an ARPA file as an FST, by default to stdout."""
    values, files = parse(words, "arpa2fst [OPTION ...] ARPA [FST]")
    if files:
        redundant = bool(values.get("disambig"))
        run(values | {"lm": files[0], "write": (files[1:] or ["-"])[0] or "-", "remove_redundant": redundant})


def kaldilm(words):
    """[OPTION ...] ARPA [FST]: print an ARPA file as an FST in text form, and write its binary form to FST."""
    values, files = parse(words, "kaldilm [OPTION ...] ARPA [FST]")
    if files:
        run(values | {"lm": files[0], "write": (files[1:] or [None])[0], "write_text": "-", "is_spaced": True})


def parse(words, usage):
    """Parses a command line: ({field of a FstJob: value}, the files). Prints the help if it is asked for, and then
    returns no files. Raises UsageError.
    """
    values, files, words = {}, [], list(words)
    while words:
        word = words.pop(0)
        if not word.startswith("--"):
            files.append(word)
            continue
        name, equals, value = word[2:].partition("=")
        name = name.replace("_", "-")
        if name in ("help", "h"):
            print(HELP.format(usage=usage), end="")
            return {}, []
        if name not in FIELDS:
            similar = nearest("--" + name, ["--" + field for field in FIELDS])
            raise UsageError(f"no option --{name}{similar or '; --help lists the options'}")
        if not equals and name not in FLAGS:
            if not words:
                raise UsageError(f"--{name} needs a value")
            value = words.pop(0)
        values[name] = read_value(name, value)
    if not 1 <= len(files) <= 2:
        raise UsageError(f"expected an ARPA file and at most one FST, got {len(files)} files; {usage}")
    if piped := [file for file in files if file.endswith("|") or file.startswith("|")]:
        raise UsageError(f"'{piped[0]}' is a command; give a file (compressed files are recognized), or - and a pipe")
    if values.pop("max-arpa-warnings", 30) == 0:
        warnings.simplefilter("ignore", LmtkWarning)
    return {FIELDS[name]: value for name, value in values.items() if value not in ("", -1)}, files


def read_value(name, value):
    """Parses the value of an option. Raises UsageError."""
    if name in FLAGS:
        if value.lower() not in TRUTHS:
            raise UsageError(f"--{name} takes true or false, not {value}")
        return TRUTHS[value.lower()]
    if name in NUMBERS:
        number = int(value) if value.removeprefix("-").isdecimal() else None
        if number is None or (name == "max-order" and number != -1 and number < 1):
            raise UsageError(f"--{name} takes a whole number{' of at least 1' * (name == 'max-order')}, not {value}")
        return number
    return value


def run(values):
    """Runs a FstJob with these values."""
    from lmtk.jobs.rules import build
    from lmtk.jobs.transducing import FstJob, write_fst
    from lmtk.machine.threads import import_numpy

    typed.update({"-" + name: "--" + option for name, option in NAMES.items()})
    import_numpy()
    write_fst(build(FstJob, values))
