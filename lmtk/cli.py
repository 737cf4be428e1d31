"""The command table, the check of option names, and the one place where an error becomes a line and a status."""

import atexit
import contextlib
import errno
import gc
import math
import os
import re
import signal
import sys
import warnings
from typing import NamedTuple

from lmtk import __version__
from lmtk.errors import LmtkError, LmtkWarning, UsageError
from lmtk.machine import memory
from lmtk.machine.threads import import_numpy

COMMANDS = {
    "normalize": "text to text: tokens, lower case, numbers to <num>, proper nouns to <name>",
    "vocab": "texts or models to a word list",
    "ngram-count": "text or counts to n-gram counts and back-off models",
    "ngram-class": "text to word classes",
    "ngram": "a back-off model to another: pruned, merged, cut, ARPA or binary; or random sentences",
    "ngram-interp": "counts and held-out text to a deleted-interpolation model",
    "nplm-train": "text to a neural model",
    "nmt-train": "two sides of a bitext to a translation model",
    "translate": "a translation model and a text to translations",
    "mix": "models and held-out text to a mixture",
    "rescore": "models and n-best lists to rescored lists, with weights given or tuned",
    "ppl": "a model and a text to perplexity",
    "features": "a neural model to the words that are alike, vectors or a picture",
    "info": "any file of lmtk's, described",
}
# the one obvious input of a command: words in front of which no option stands are its values
INPUT = {"normalize": "-text", "vocab": "-text", "ppl": "-text", "features": "-lm", "info": "-lm"}
# modules whose function `early` gets the words as they are, before what reads them and numpy are imported, for work
# beside that; it returns whether all is done
EARLY = {"ppl": "lmtk.reports.early"}
# two names of one thing: what one command calls so is the other here
ALIKE = {"-model": "-lm", "-lm": "-model", "-text": "-read", "-write": "-lm", "-ppl": "-text"}

# programs of SRILM and KenLM that lmtk stands in for, by the names in bin/. A function takes the words behind the name
# and does the job, or says which commands do it: [(command, words)].
PROGRAMS = {
    "ngram": "srilm:ngram",
    "ngram-count": "srilm:ngram_count",
    "ngram-class": "srilm:ngram_class",
    "ngram-merge": "srilm:ngram_merge",
    "make-batch-counts": "srilm:make_batch_counts",
    "merge-batch-counts": "srilm:merge_batch_counts",
    "make-big-lm": "srilm:make_big_lm",
    "change-lm-vocab": "srilm:change_lm_vocab",
    "compute-best-mix": "lines:compute_best_mix",
    "get-unigram-probs": "lines:get_unigram_probs",
    "remove-lowprob-ngrams": "lines:remove_lowprob_ngrams",
    "reverse-lm": "lines:reverse_lm",
    "replace-words-with-classes": "lines:replace_words_with_classes",
    "select-vocab": "selection:select_vocab",
    "lmplz": "kenlm:lmplz",
    "build_binary": "kenlm:build_binary",
    "query": "kenlm:query",
    "filter": "kenlm:filter",
}

MOST = 2**31 - 1  # of a whole number in an option that says no other bound
LONGEST = 1000  # characters of a message; what is longer is cut in its middle

HELP = """usage: lmtk COMMAND [OPTION ...]

{commands}

lmtk COMMAND -help lists a command's options; man lmtk-COMMAND says more.
lmtk completion bash (zsh, fish) writes the shell's completion of all of them.
lmtk -bin prints the folder of SRILM's and KenLM's program names: PATH=$(lmtk -bin):$PATH make
Options have one dash or two; "-" is stdin or stdout; numbers in reports are log10.
"""


def nearest(word, names):
    """ "; did you mean X?" for the name most like `word`, or nothing."""
    import difflib

    found = difflib.get_close_matches(word, names, 1, 0.7)
    return f"; did you mean {found[0]}?" if found else ""


def elsewhere(name, options):
    """What to say of an option that the command lacks: its name here, a name like it, or the commands that have it."""
    if ALIKE.get(name) in options:
        return f"; did you mean {ALIKE[name]}?"
    if hint := nearest(name.replace("N", "2"), [o.replace("N", "2") for o in options]):
        return hint
    others = [other for other in COMMANDS if name in table(click_command(other))]
    if not others:
        return ""
    return f"; lmtk {others[0]} has it" if len(others) == 1 else f"; {', '.join(others)} have it"


def spelled(words, options, plain=None):
    """Words of a command line -> the same with every option spelled as it is declared, one value behind each.

    options: declared name -> Option. "--x" becomes "-x", "_" becomes "-", "-x=v" becomes "-x v"; the words behind an
    option that takes several get one each; "-write2 F" is folded into "-writeN 2=F". Words behind no option are
    values of `plain`, where the command has one obvious input. Raises UsageError at a name that is not declared or
    a value that is missing or no number.
    """
    out, words = [], list(words)
    while words:
        word = words.pop(0)
        if not is_option(word):
            if not plain:
                raise UsageError(f"unexpected word '{word}'; values stand behind their option")
            out += [plain, checked(plain, word, options[plain])]
            continue
        word, equals, value = word.partition("=")
        if equals:
            words.insert(0, value)
        name, order = declared(word), None
        family = re.fullmatch(r"(-\D+?)(\d+)(\D*)", name)
        if name not in options and family and f"{family[1]}N{family[3]}" in options:
            name, order = f"{family[1]}N{family[3]}", family[2]
        elif name not in options or "N" in name:
            raise UsageError(f"no option {word}{elsewhere(name, options)}")
        option = options[name]
        if option.values == "none":
            if equals:
                raise UsageError(f"{word} takes no value")
            out += [name, order] if order else [name]
            continue
        if option.values == "optional" and not equals and (not words or is_option(words[0])):
            out += [name, "default"]
            continue
        if not words or (not equals and is_option(words[0]) and declared(words[0]) in options):
            raise UsageError(f"{word} needs a value")
        while True:
            value = checked(word, words.pop(0), option)
            out += [name, f"{order}={value}" if order else value]
            if not option.several or order or equals or not words or is_option(words[0]):
                break
    return out


def checked(word, value, option):
    """The value of an option as typed. Raises UsageError if it is empty, or not the number that the option takes."""
    if not value:
        raise UsageError(f"{word} got an empty value")
    if option.number is None:
        return value
    low, high, found = option.low, option.high, None
    with contextlib.suppress(ValueError):
        found = option.number(value)
    if found is not None and not math.isfinite(found):
        raise UsageError(f"{word} takes a finite number, not {value}")
    if found is None or (low is not None and found < low) or (high is not None and found > high):
        kind = "a whole number" if option.number is int else "a number"
        low, high = (x if option.number is int or x is None else f"{x:g}" for x in (low, high))
        span = "" if low is None else f" from {low} to {high}" if high is not None else f" of at least {low}"
        raise UsageError(f"{word} takes {kind}{span}, not {value}")
    if option.number is int and high is None and found > MOST:
        raise UsageError(f"{word} takes a whole number of at most {MOST}, not {value}")
    return value


def declared(word):
    """The spelling under which an option is declared: "--no_sos" -> "-no-sos"."""
    return "-" + re.sub("^--?", "", word).replace("_", "-")


def is_option(word):
    """Whether a word is an option's name: "-" is a file, "-1.5" a number."""
    return len(word) > 1 and word[0] == "-" and not re.fullmatch(r"-(\d[\d.e+-]*|\.\d+|inf|nan)", word)


class Option(NamedTuple):
    """What the command line may say behind an option's name."""

    values: str = "none"  # none, one or optional
    several: bool = False
    number: type | None = None  # int or float, else any word
    low: float | None = None
    high: float | None = None


def click_command(name):
    """The command as typer's library for command lines has it; only its module is imported."""
    import importlib

    import typer

    module = importlib.import_module("lmtk.commands." + name.replace("-", "_"))
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command()(module.command)
    return typer.main.get_command(app)


def table(command):
    """The options of a command: declared name -> Option."""
    options = {"-help": Option()}
    for p in command.params:
        number = {"int": int, "flo": float}.get(p.type.name[:3])
        # a family of flags, as -kndiscount2, is told by its orders alone
        none = p.is_flag or ("N" in p.opts[0] and number is int)
        values = "none" if none else "optional" if (p.metavar or "").startswith("[") else "one"
        low, high = getattr(p.type, "min", None), getattr(p.type, "max", None)
        option = Option(values, p.multiple, None if "N" in p.opts[0] else number, low, high)
        options.update(dict.fromkeys(p.opts, option))
    return options


def run(name, words):
    """Run one command."""
    import importlib

    if name in EARLY and importlib.import_module(EARLY[name]).early(words):
        return
    import typer

    command = click_command(name)
    if {"-h", "-help", "--help"}.intersection(words):
        from lmtk.help import page

        sys.stdout.write(page(name, command))
        return
    words = spelled(words, table(command), INPUT.get(name))
    memory.need(memory.NUMPY, "numpy")
    import_numpy()
    try:
        # not command.main, which would turn an interrupt and a closed pipe into statuses of its own
        with command.make_context(f"lmtk {name}", words) as context:
            command.invoke(context)
    except typer.exceptions.TyperException as e:
        message = e.format_message()
        raise UsageError(message[:1].lower() + message[1:].rstrip(".")) from None


def say(program, message):
    """One line on stderr, whatever bytes the message holds."""
    try:
        text = " ".join(str(message).split())
        # a terminal is told nothing by what stands in a file
        text = re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda c: f"\\x{ord(c[0]):02x}", text)
        text = text if len(text) < LONGEST else f"{text[: LONGEST - 100]} ... {text[-80:]}"
        sys.stderr.write(f"{program}: {text}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass


def explain(e):
    """An OSError as "file: what the system says"."""
    name = os.fsdecode(e.filename) if e.filename is not None else "stdout"
    return f"{name}: {e.strerror or e}"


def overview():
    """The commands and what they do, a line each."""
    width = max(map(len, COMMANDS))
    return HELP.format(commands="\n".join(f"  {name:{width}}  {what}" for name, what in COMMANDS.items()))


def top(words):
    """What to do when the first word is no command; the exit status."""
    if words and words[0] in ("-help", "--help", "-h", "help"):
        if words[1:]:
            if words[1] not in COMMANDS:
                raise UsageError(no_command(words[1]))
            run(words[1], ["-help"])
            return 0
        sys.stdout.write(overview())
        return 0
    if words and words[0] == "completion":
        from lmtk.help import completion

        sys.stdout.write(completion(words[1:]))
        return 0
    if words and words[0] in ("-bin", "--bin"):
        print(programs_folder())
        return 0
    if words and words[0] == "-as":
        name = words[1] if len(words) > 1 else ""
        raise UsageError(f"-as takes the name of a program, not '{name}'{nearest(name, PROGRAMS)}")
    if words and words[0] in ("-version", "--version"):
        print(f"lmtk {__version__}")
        return 0
    if not words:
        sys.stderr.write(overview())
        return 2
    raise UsageError(no_command(words[0]))


def no_command(word):
    if word in PROGRAMS:
        return f"no command {word}; the program of that name is lmtk -as {word}, or in the folder that lmtk -bin names"
    return f"no {'option' if word.startswith('-') else 'command'} {word}{nearest(word, COMMANDS)}"


def programs_folder():
    """The folder with the names of PROGRAMS: that of the installation, else that of the checkout."""
    from importlib.metadata import PackageNotFoundError, files
    from pathlib import Path

    try:
        found = next((f for f in files("lmtk") or () if f.match("libexec/lmtk/ngram")), None)
    except PackageNotFoundError:
        found = None
    name = Path(found.locate()) if found else Path(__file__).parent.parent / "bin" / "ngram"
    folder = Path(os.path.normpath(name)).parent
    if not (folder / "ngram").exists():
        raise LmtkError(f"no folder {folder}; was lmtk installed with its data files?")
    return folder


def as_program(name, words):
    """What a program of SRILM's or KenLM's does: the steps that are commands of lmtk's, [(command, words)]."""
    import importlib

    if words and words[0] in ("-version", "--version"):
        print(f"lmtk {__version__}")
        return []
    module, _, function = PROGRAMS[name].partition(":")
    return getattr(importlib.import_module("lmtk.programs." + module), function)(words) or []


def program():
    """`main`, behind which the process ends at once: Python would take apart what ends with it for 0.015 s and more."""
    status = 1  # of what is raised

    def end():
        with contextlib.suppress(OSError, ValueError):
            close_stdout()
            sys.stderr.flush()
        if "mpi4py.MPI" not in sys.modules:  # which ends MPI behind all of Python
            os._exit(status)

    atexit.register(end)  # the first to come is the last to run
    try:
        main()
    except SystemExit as e:
        status = e.code
        raise


def main():
    """The `lmtk` program: exits with 0 done, 1 bad data, 2 usage, 130 interrupted, 141 closed pipe."""
    gc.set_threshold(10_000)  # what is imported stays: to look through it again and again takes 0.03 s
    # streams that were closed: opened the wrong way round, so that using them is an error and not using them is none
    if sys.stdin is None:
        sys.stdin = open(os.open(os.devnull, os.O_WRONLY))
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")
    # names of files and words may be any bytes
    sys.stdout.reconfigure(errors="surrogateescape")
    sys.stderr.reconfigure(errors="backslashreplace")
    words, steps = sys.argv[1:], []
    if words[:2] == ["-as", "lmtk"]:
        words = words[2:]
    program = f"lmtk {words[0]}" if words and words[0] in COMMANDS else "lmtk"
    # numpy's warnings are not shown: nan and inf are checked for where they matter
    warnings.simplefilter("ignore")
    warnings.simplefilter("once", LmtkWarning)
    warnings.showwarning = lambda message, *_: speaks(words) and say(program, f"warning: {message}")
    # a job that is ended removes its temporary files as one that fails does
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    status = 0
    try:
        if words and words[0] in COMMANDS:
            steps = [(words[0], words[1:])]
        elif words[:1] == ["-as"] and words[1:2] and words[1] in PROGRAMS:
            program = words[1]
            steps = as_program(program, words[2:])
        else:
            status = top(words)
        for name, rest in steps:
            run(name, rest)
        sys.stdout.flush()
    except BrokenPipeError:
        close_stdout()
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)
    except UsageError as e:
        if speaks(words):
            say(program, e)
        status = 2
    except LmtkError as e:
        say(program, e)
        status = 1
    except ModuleNotFoundError as e:
        if not sys.modules.get("lmtk") or (e.name or "").startswith("lmtk"):
            raise
        say(program, f"{sys.executable} lacks the package {e.name}; lmtk wants the Python that it is installed for")
        status = 1
    except KeyboardInterrupt:
        status = 130
    except MemoryError as e:
        say(program, f"out of memory{': ' if str(e) else ''}{e}")
        status = 1
    except ValueError as e:
        if not str(e).startswith(("Maximum allowed dimension", "array is too big")):
            raise
        say(program, f"out of memory: {e}")  # more than numpy could count the bytes of
        status = 1
    except OSError as e:
        say(program, "out of memory" if e.errno == errno.ENOMEM else explain(e))
        status = 1
    except RuntimeError as e:
        if "new thread" not in str(e):
            raise
        say(program, "out of memory, or of processes: no new thread can be started; a lower -threads may help")
        status = 1
    if status == 1:
        close_stdout()
    gc.freeze()  # nor does the end look through it
    sys.exit(status)


def speaks(words):
    """Whether this process says what all ranks of an mpiexec with this command line would say."""
    rank = os.environ.get("PMI_RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or "0"
    return rank == "0" or not {"-mpi", "--mpi"}.intersection(words)


def close_stdout():
    """Stop Python from trying, and failing, to write what is left when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
