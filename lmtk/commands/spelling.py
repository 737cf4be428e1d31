"""Checks the words of a command line against the options of a command, and spells them as the command declares them."""

import contextlib
import math
import os
import re
import warnings
from typing import NamedTuple

from lmtk.commands import COMMANDS, click_command
from lmtk.errors import LmtkError, LmtkWarning, UsageError, nearest

# the main input of a command: words without an option before them are values of this option
INPUT = {"features": "-lm", "info": "-lm"} | dict.fromkeys(
    ("normalize", "vocab", "ppl", "select", "surprisal", "index", "count-of", "next", "translate"), "-text"
)
# the name of an option in some commands or programs: its names in other commands
ALIKE = {
    "-model": ["-lm"],
    "-lm": ["-model"],
    "-text": ["-read", "-source", "-heldout"],
    "-heldout": ["-heldout-source"],
    "-write": ["-write-lm", "-lm"],
    "-ppl": ["-text"],
    "-valid": ["-heldout"],
    "-num": ["-count"],
    "-n": ["-count", "-top"],
    "-k": ["-top"],
    "-n-best": ["-nbest"],
    "-beam-size": ["-beam"],
    "-embedding": ["-features"],
    "-mix-lambda": ["-lambda"],
    "-weights": ["-lambda"],
    "-batch-size": ["-minibatch"],
    "-read-symbols": ["-symbols"],
    "-read-symbol-table": ["-symbols"],
    "-write-symbol-table": ["-write-symbols"],
    "-disambig-symbol": ["-disambig"],
}
DASHES = "\N{HYPHEN}", "\N{EN DASH}", "\N{EM DASH}", "\N{MINUS SIGN}"  # in pasted text
LISTED = 6  # the most commands in a message
MOST = 2**31 - 1  # the largest whole number for options without an upper bound


def elsewhere(name, options, command):
    """The end of the message about an unknown option: its name in this command, commands that have it, or a similar
    name.
    """
    for alike in ALIKE.get(name, ()):
        if alike in options:
            return f"; did you mean {alike}?"
    from lmtk.commands.absent import about_option

    if hint := about_option(name, options, command):
        return hint
    others = [other for other in COMMANDS if name not in options and name in table(click_command(other))]
    if len(others) > LISTED:
        return f"; lmtk {', '.join(others[:LISTED])} and other commands have it"
    if others:
        *first, last = others
        return f"; lmtk {', '.join(first)} and {last} have it" if first else f"; lmtk {last} has it"
    starting = [option for option in options if option.startswith(name) and option != name]
    if len(starting) == 1:
        return f"; did you mean {starting[0].replace('N', '2')}?"
    order = re.search(r"\d+", name)
    similar = nearest(name.replace("N", "2"), [o.replace("N", order[0] if order else "2") for o in options])
    return similar or "; -help lists the options"


def spelled(words, options, main=None, stray=False, command=None):
    """The words of a command line with every option as it is declared, and one value after each option.

    "--x" becomes "-x", "_" becomes "-", "-x=v" becomes "-x v", and "-x v w" becomes "-x v -x w" if the option takes
    several values. "-write2 F" becomes "-writeN 2=F". A word without an option before it becomes a value of the
    option `main`. Without `main` it is an error or, with `stray`, is left out with a warning.

    options: {declared name: Option}. command: the name of the command, for messages. Raises UsageError for an unknown
    option, a missing value, and a value that is not a number although the option needs one.
    """
    out, words = [], list(words)
    while words:
        word = words.pop(0)
        if not is_option(word):
            if word.startswith(DASHES):
                raise UsageError(f"{word} begins with a dash that is not the minus sign of options; type -{word[1:]}")
            if stray:
                warnings.warn(f"'{word}' has no option before it and is ignored", LmtkWarning, stacklevel=1)
                continue
            if not main:
                raise UsageError(f"'{word}' has no option before it{likely_option(word, options, out)}")
            if main in out and not options[main].several:
                value = out[out.index(main) + 1]
                model = next((o for o in ("-lm", "-model") if o in options and o not in out), None)
                hint = f"; give the model as {model} FILE" if model else ""
                hint = f"; did you mean -neighbours {word}?" if "-neighbours" in options else hint
                raise UsageError(f"'{word}' has no option before it; {main} takes one value and has {value}{hint}")
            out += [main, checked(main, word, options[main])]
            continue
        word, equals, value = word.partition("=")
        if equals:
            words.insert(0, value)
        name, order = declared(word), None
        family = re.fullmatch(r"(-\D+?)(\d+)(\D*)", name)
        if name not in options and family and f"{family[1]}N{family[3]}" in options:
            name, order = f"{family[1]}N{family[3]}", family[2]
        elif name not in options or "N" in name:
            raise UsageError(f"no option {word}{elsewhere(name, options, command)}")
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
            if stray and not words[0]:  # an empty shell variable in quotes, which names no file
                break
    return out


def likely_option(word, options, out):
    """The end of the message about a word without an option: the option that was probably meant, or the option before
    the word if it takes one value. out: the words so far, as `spelled` returns them.
    """
    _, first, *_ = options  # the first option after -help names what the command reads
    free = [o for o in (first, "-mix-lm", "-ppl") if o in options and (options[o].several or o not in out)]
    if os.path.exists(word):
        if "-mix-lm" in free and not is_model(word):
            free.remove("-mix-lm")
        return f"; did you mean {free[0]} {word}?" if free else ""
    before = next((o for o in out[-2:-1] if o in options and options[o].values == "one"), None)
    return f"; {before} takes one value here" if before else ""


def is_model(path):
    """Whether a file begins like a model."""
    from lmtk.files.container import looks_binary
    from lmtk.files.inputs import open_in
    from lmtk.files.registry import find_reader

    try:
        with open_in(path) as stream:
            head = stream.peek(1 << 12)
    except (OSError, LmtkError):
        return False
    return looks_binary(head) or find_reader(head) is not None


def checked(word, value, option):
    """The value of an option as typed. Raises UsageError if it is empty, or not the number that the option takes."""
    if not value:
        raise UsageError(f"{word} got an empty value")
    parts, is_value = value.split(","), is_number if option.number else os.path.exists
    if option.several and len(parts) > 1 and not os.path.exists(value) and all(map(is_value, parts)):
        raise UsageError(f"{word} takes values with blanks between them: {' '.join(parts)}")
    if option.number is None:
        return value
    low, high, number = option.low, option.high, None
    with contextlib.suppress(ValueError):
        number = option.number(value)
    is_finite = number is not None and math.isfinite(number)
    if not is_finite or (low is not None and number < low) or (high is not None and number > high):
        kind = "a whole number" if option.number is int else "a number"
        if low is None and not is_finite and number is not None:
            kind = "a finite number"
        low, high = (x if option.number is int or x is None else f"{x:g}" for x in (low, high))
        span = "" if low is None else f" from {low} to {high}" if high is not None else f" of at least {low}"
        typed = f"'{value}'" if number is None else value  # a word could be read as a part of the sentence
        raise UsageError(f"{word} takes {kind}{span}, not {typed}{plain_number(value, option.number)}")
    if option.number is int and high is None and number > MOST:
        raise UsageError(f"{word} takes a whole number of at most {MOST}, not {value}")
    return value


def is_number(text):
    with contextlib.suppress(ValueError):
        return math.isfinite(float(text))
    return False


def plain_number(value, number):
    """A hint how to write a value such as 100k or 70% as an int or float; "" for other values."""
    if number is int and (thousands := re.fullmatch(r"(\d+)([kKmM])", value)):
        return f"; write {int(thousands[1]) * (1000 if thousands[2] in 'kK' else 1_000_000)}"
    if number is float and (percent := re.fullmatch(r"(\d+(?:\.\d+)?)%", value)):
        return f"; write {float(percent[1]) / 100:g}"
    return ""


def declared(word):
    """The declared form of an option's name: "-no-sos" for "--no_sos"."""
    return "-" + re.sub("^--?", "", word).replace("_", "-")


def is_option(word):
    """Whether a word is the name of an option. "-" is a file, and "-1.5" a number."""
    return len(word) > 1 and word[0] == "-" and not re.fullmatch(r"-(\d[\d.e+-]*|\.\d+|inf|nan)", word)


class Option(NamedTuple):
    """The values that an option takes."""

    values: str = "none"  # none, one or optional
    several: bool = False
    number: type | None = None  # int or float; None: any word
    low: float | None = None
    high: float | None = None


def table(command):
    """The options of a command: {declared name: Option}."""
    options = {"-help": Option()}
    for p in command.params:
        number = {"int": int, "flo": float}.get(p.type.name[:3])
        # the values of a family of flags such as -kndiscount2 are orders
        none = p.is_flag or ("N" in p.opts[0] and number is int)
        values = "none" if none else "optional" if (p.metavar or "").startswith("[") else "one"
        low, high = getattr(p.type, "min", None), getattr(p.type, "max", None)
        option = Option(values, p.multiple, None if "N" in p.opts[0] else number, low, high)
        options.update(dict.fromkeys(p.opts, option))
    return options
