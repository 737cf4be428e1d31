"""The program `lmtk`: runs the command that its first word names. Here, and only here, errors become messages and exit
statuses.
"""

import errno
import gc
import io
import os
import re
import signal
import sys
import warnings
from contextlib import suppress

from lmtk import __version__
from lmtk.commands import COMMANDS, click_command
from lmtk.commands.spelling import INPUT, spelled, table
from lmtk.errors import LmtkError, LmtkWarning, UsageError, nearest, notes, typed
from lmtk.machine import large, mpiexec
from lmtk.machine.threads import import_numpy

# programs of SRILM, KenLM and Kaldi: {module of lmtk.programs: names in bin/}. The function with the same name, but "_"
# for "-", takes the words after the name. It does the job, or returns the commands that do it, [(command, words)].
MODULES = {
    "srilm": "ngram ngram-count ngram-class ngram-merge make-batch-counts merge-batch-counts make-big-lm "
    "change-lm-vocab",
    "scripts": "compute-best-mix get-unigram-probs remove-lowprob-ngrams reverse-lm replace-words-with-classes "
    "uniform-classes compute-oov-rate sort-lm add-dummy-bows",
    "disambig": "disambig",
    "selection": "select-vocab",
    "kenlm": "lmplz build_binary query filter interpolate",
    "kaldi": "arpa2fst kaldilm",
}
PROGRAMS = {name: module for module, names in MODULES.items() for name in names.split()}

LONGEST = 1000  # characters of a message; longer ones are shortened
MOST = 5  # warnings printed of one kind
ended = []  # numbers of the signals that end this process

HELP = """usage: lmtk COMMAND [OPTION ...]

{commands}

lmtk COMMAND -help lists a command's options; man lmtk-COMMAND says more.
lmtk completion bash (or zsh, fish) prints a completion script for the shell.
lmtk -compile compiles all kernels now, so that later jobs hardly ever have to; use it for containers and clusters.
lmtk -bin prints a folder of programs for SRILM and KenLM scripts: PATH=$(lmtk -bin):$PATH make
Options have one dash or two. The file name "-" is stdin or stdout. logprob in reports is log10 p.
"""


def run(name, words, stray=False):
    """Runs one command. stray: whether a word without an option before it gives a warning, not an error."""
    import typer

    command = click_command(name)
    if {"-h", "-help", "--help"}.intersection(words):
        if re.search(r"(^| )-h \d", " ".join(words)) and "-hidden" in table(command):
            raise UsageError("-h prints the help; give the number of hidden units as -hidden N")
        from lmtk.help import page

        sys.stdout.write(page(name, command))
        return
    words = spelled(words, table(command), INPUT.get(name), stray, name)
    import_numpy()
    try:
        # command.main would give its own exit statuses to interrupts and closed pipes
        with command.make_context(f"lmtk {name}", words) as context:
            command.invoke(context)
    except typer.exceptions.TyperException as e:
        message = e.format_message()
        raise UsageError(message[:1].lower() + message[1:].rstrip(".")) from None


def carry_out(words):
    """Runs a command or, after -as, the commands that do the job of a program."""
    steps, stray = [(words[0], words[1:])], False
    if words[0] == "-as":
        steps, stray = as_program(words[1], words[2:]), True  # these programs ignore stray words
    for name, rest in steps:
        run(name, rest, stray)


def say(program, message):
    """Prints "PROGRAM: MESSAGE" as one line on stderr. Any bytes can be printed. A closed stderr is ignored."""
    try:
        text = " ".join(str(message).split())
        text = re.sub(r"(?<![\w-])-[a-z][a-z-]*", lambda option: typed.get(option[0], option[0]), text)
        # control characters from a file must not reach the terminal
        text = re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda c: f"\\x{ord(c[0]):02x}", text)
        text = text if len(text) < LONGEST else f"{text[: LONGEST - 100]} ... {text[-80:]}"
        sys.stderr.write(f"{program}: {text}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass
    except MemoryError:  # this message needs memory too
        with suppress(OSError):
            os.write(2, f"{program}: out of memory\n".encode())


class Warnings:
    """Prints the first MOST warnings of each kind, by `say`. Warnings from one line of code are of one kind."""

    def __init__(self, say):
        self.say, self.kinds = say, {}  # {(file, line) of the code: [number of warnings, the first warning]}

    def show(self, message, *_):
        """Replaces `warnings.showwarning`."""
        frame = sys._getframe(1)
        while frame.f_back and not frame.f_globals.get("__name__", "").startswith("lmtk"):
            frame = frame.f_back
        kind = self.kinds.setdefault((frame.f_code.co_filename, frame.f_lineno), [0, message])
        kind[0] += 1
        if kind[0] <= MOST:
            self.say(f"warning: {message}")

    def finish(self):
        """Prints a line for each kind with more than MOST warnings: how many there were."""
        for number, first in self.kinds.values():
            if number > MOST:
                self.say(f"warning: {number} warnings of this kind; only {MOST} are printed. The first: {first}")
        self.kinds.clear()


def explain(e):
    """An OSError as "FILE: MESSAGE", with the system's message."""
    name = os.fsdecode(e.filename) if e.filename is not None else "stdout"
    return f"{name}: {e.strerror or e}"


def overview():
    """The text of `lmtk -help`: a line for each command."""
    width = max(map(len, COMMANDS))
    return HELP.format(commands="\n".join(f"  {name:{width}}  {summary}" for name, summary in COMMANDS.items()))


def run_other(words):
    """Runs a command line whose first word is not a command. Returns the exit status."""
    if not words:
        sys.stderr.write(overview())
        return 2
    first, *rest = words
    if first in ("-help", "--help", "-h", "help"):
        if not rest:
            sys.stdout.write(overview())
        elif rest[0] in COMMANDS:
            run(rest[0], ["-help"])
        else:
            raise UsageError(no_command(rest[0]))
    elif first == "completion":
        from lmtk.help import completion

        sys.stdout.write(completion(rest))
    elif first in ("-bin", "--bin"):
        print(programs_folder())
    elif first in ("-compile", "--compile"):
        from lmtk.precompile import precompile

        if rest:
            raise UsageError(f"-compile takes no options and no values; leave out '{rest[0]}'")
        return precompile(carry_out)
    elif first == "-as":
        lacking = "-as needs the name of a program, as in lmtk -as ngram -help"
        raise UsageError(no_program(rest[0]) if rest and rest[0] else lacking)
    elif first in ("-version", "--version"):
        print(f"lmtk {__version__}")
    else:
        raise UsageError(no_command(first))
    return 0


def no_program(name):
    from lmtk.commands.absent import about_program

    more = about_program(name) or nearest(name, PROGRAMS) or "; lmtk-programs(1) lists the programs"
    return f"-as: no program {name}{more}"


def no_command(word):
    if word in PROGRAMS:
        return f"no command {word}; run lmtk -as {word}, or the program in the folder that lmtk -bin prints"
    from lmtk.commands.absent import about_program

    kind, remedy = "command", "; lmtk -help lists the commands"
    if word.startswith("-"):
        kind, remedy = "option", f"; give the command first, as in lmtk ppl {word}, or see lmtk -help"
    return f"no {kind} {word}{about_program(word) or nearest(word, COMMANDS) or remedy}"


def programs_folder():
    """The folder with the names of PROGRAMS, of the installation or else of the checkout. Raises LmtkError."""
    from importlib.metadata import PackageNotFoundError, files
    from pathlib import Path

    try:
        installed = next((f for f in files("lmtk-toolkit") or () if f.match("libexec/lmtk/ngram")), None)
    except PackageNotFoundError:
        installed = None
    name = Path(installed.locate()) if installed else Path(__file__).parent.parent / "bin" / "ngram"
    folder = Path(os.path.normpath(name)).parent
    if not (folder / "ngram").exists():
        raise LmtkError(f"no folder {folder}; was lmtk installed with its data files?")
    return folder


def as_program(name, words):
    """Does the job of another toolkit's program, or returns the commands that do it, [(command, words)]."""
    import importlib

    if words and words[0] in ("-version", "--version"):
        print(f"lmtk {__version__}")
        return []
    module = importlib.import_module("lmtk.programs." + PROGRAMS[name])
    return getattr(module, name.replace("-", "_"))(words) or []


def main():
    """Runs the command line. Exit statuses: 0 done, 1 bad data, 2 wrong usage, 130 interrupted, 141 closed pipe."""
    gc.set_threshold(10_000)  # fewer garbage collections, which search all imported objects in vain; saves 0.03 s
    mend_streams()
    words = sys.argv[1:]
    if words[:2] == ["-as", "lmtk"]:
        words = words[2:]
    program = name_of_program(words)
    if {"-mpi", "--mpi"}.intersection(words):
        mpiexec.supervise(program)

    def tell(line):
        if speaks(words):
            say(program, line)

    # numpy's warnings are not shown, since nan and inf are checked where they matter
    warnings.simplefilter("ignore")
    warnings.simplefilter("once", LmtkWarning)
    warned = Warnings(tell)
    warnings.showwarning = warned.show
    # on a terminal, notes explain a long wait
    on = sys.stderr.isatty() and not {"-quiet", "--quiet"}.intersection(words)
    notes[:] = [tell] if on else []
    # a job that is terminated removes its temporary files first; nohup makes SIGHUP ignored
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end_by)
    ended.clear()
    try:
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # by `lmtk.__main__`
            signal.signal(signal.SIGINT, end_by)
        status = attempt(program, words)
    except BaseException:
        # Python and libraries may replace the exception that the handler of a signal has raised
        if not ended:
            raise
    if ended:
        status = 128 + ended[0]
    warned.finish()
    if status == 0 and "lmtk.machine.compiling" in sys.modules:
        from lmtk.machine.kernel_cache import refused

        message = refused()
        if message:
            tell(f"warning: {message}")
        else:
            for note in notes:
                note("compiled; the next run of this kind starts at once")
    if status in (1, 128 + signal.SIGPIPE):
        close_stdout()
    gc.freeze()  # no garbage collection at exit either
    sys.exit(status)


def mend_streams():
    """Makes the standard streams usable: open, with whole writes, and for any bytes in words and file names."""
    # a closed stream is opened in the wrong direction, so that using it is an error
    if sys.stdin is None:
        sys.stdin = open(os.open(os.devnull, os.O_WRONLY))
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")
    if isinstance(sys.stdout.buffer, io.RawIOBase):  # PYTHONUNBUFFERED; a raw write may write less than all
        sys.stdout = open(sys.stdout.fileno(), "w", closefd=False)
    sys.stdout.reconfigure(errors="surrogateescape")
    sys.stderr.reconfigure(errors="backslashreplace")


def name_of_program(words):
    """What messages call the program: "lmtk", "lmtk COMMAND", or the name of a program of PROGRAMS after -as."""
    if words[:1] == ["-as"] and words[1:2] and words[1] in PROGRAMS:
        return words[1]
    return f"lmtk {words[0]}" if words and words[0] in COMMANDS else "lmtk"


def end_by(number, _):
    """Handles a signal that ends the program, by an exception, so that the job can clean up."""
    ended.append(number)
    raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)


def attempt(program, words):
    """Runs a command line, and prints errors with the name of the program. Returns the exit status."""
    try:
        if program in PROGRAMS or (words and words[0] in COMMANDS):
            carry_out(words)
        elif status := run_other(words):
            return status
        sys.stdout.flush()
        large.learn()
        return 0
    except BrokenPipeError:
        return 128 + signal.SIGPIPE
    except UsageError as e:
        if speaks(words):
            say(program, e)
        return 2
    except LmtkError as e:
        message = e
    except ModuleNotFoundError as e:
        if not sys.modules.get("lmtk") or (e.name or "").startswith("lmtk"):
            raise
        message = (
            f"{sys.executable} cannot import {e.name}, which lmtk needs; activate the environment where lmtk is "
            "installed, or run PATH=$(lmtk -bin):$PATH"
        )
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except MemoryError as e:
        message = f"out of memory{': ' if str(e) else ''}{e}"
    except ValueError as e:
        if not str(e).startswith(("Maximum allowed dimension", "array is too big")):
            raise
        message = f"out of memory: {e}"  # the size of an array is above numpy's limit
    except OSError as e:
        message = "out of memory" if e.errno == errno.ENOMEM else explain(e)
    except RuntimeError as e:
        if "new thread" not in str(e):
            raise
        message = "out of memory, or of processes: no new thread can be started; lower -threads or OMP_NUM_THREADS"
    say(program, message)
    return 1


def speaks(words):
    """Whether this process prints messages that would come from every rank: with -mpi, only the first rank does."""
    return mpiexec.first() or not {"-mpi", "--mpi"}.intersection(words)


def close_stdout():
    """Writes the rest of stdout. If that fails, Python must not try again at exit, so stdout becomes /dev/null."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
