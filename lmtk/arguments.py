"""Checks the arguments of lmtk's Python functions, writes texts in memory to temporary files, and gives options their
Python names in messages.
"""

import difflib
import json
import os
import re
import reprlib
import sys
import warnings
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stderr
from importlib import import_module
from numbers import Integral, Real
from threading import Lock, get_ident
from types import NoneType, UnionType
from typing import get_args, get_origin

import numpy as np

from lmtk.api import Model, as_bytes
from lmtk.errors import LmtkError, LmtkWarning, UsageError, named, option_name
from lmtk.files import bounded
from lmtk.files.decoding import WORD
from lmtk.jobs.rules import build, default_of, fields_of
from lmtk.machine import threads

# The parts of a message, in the order of the alternatives: an option of ngram-count, which becomes an argument of
# lmtk.estimate; advice about a command, which stays as it is; an option with its value, which gets its Python name.
# An option does not end in "-", so the word -pau- is not an option.
OPTION = re.compile(
    r"ngram-count \(-(?P<estimate>[a-z-]+)\)|(?:lmtk [a-z-]+|iconv) [^;]*|[a-z]+-(?:count|train|class|interp) \(?-|"
    r"(?<![\w-])-(?!inf\b)(?P<option>[a-z](?:[a-zN-]*[a-zN])?)(?![a-zN-])(?: (?P<value>[A-Z]+\b|[0-9][0-9.e-]*\b))?"
)
LONGEST = 100  # characters of a value in a message
LINE_ENDS = bytes.maketrans(b"\n\r", b"  ")
# the module of the command that has the options of a job
COMMANDS = {
    "EstimateJob": "ngram_count",
    "EditJob": "ngram",
    "MixJob": "mix",
    "ClassJob": "ngram_class",
    "ScoreJob": "ppl",
    "SurprisalJob": "surprisal",
    "SelectJob": "select",
    "TrainJob": "nplm_train",
    "TranslateJob": "translate",
}
# what messages call the file of an argument; of other arguments "the" and the name
IN_MESSAGES = {"heldout": "the held-out text", "vocab": "the vocabulary", "a text in sources": "a text in sources"}
KINDS = {
    bool: ("True or False", lambda x: isinstance(x, Real) and x in (True, False)),
    int: ("a whole number", lambda x: isinstance(x, Integral)),
    float: ("a number", lambda x: isinstance(x, Real)),
    str: ("a string", lambda x: isinstance(x, str)),
}
FREE = "quiet", "write"  # fields that functions set and options may change
PLURALS = {bool: "switches", int: "whole numbers", float: "numbers", str: "strings"}


@contextmanager
def run_of(job, arguments, options, names=None):
    """Makes a job of the class `job` from a function's arguments and options, {field: value} each, and yields it to the
    block that runs it. In errors and warnings of the block, options have their Python names, and warnings name the line
    that called lmtk.

    names: {option: argument} for arguments that are not called like their field. An option whose value is a dictionary
    adds to the argument of this name. Raises TypeError for an option that does not exist, and UsageError for an option
    that would override an argument.
    """
    declared, renamed = fields_of(job), names or {}
    arguments, options = ({name: plain(value) for name, value in values.items()} for values in (arguments, options))
    names = {option_name(field): name for name, field in declared.items()} | renamed
    for name, value in options.items():
        option = option_name(declared[name]) if name in declared else name
        if name not in declared or (option in renamed and name in arguments):
            raise TypeError(f"unknown option '{name}'{similar(option, names, declared)}")
        if wanted := mismatch(value, declared[name].type):
            raise UsageError(f"{name} must be {wanted}, not {reprlib.repr(value)}")
        if value == "" and default_of(declared[name]) != "":
            raise UsageError(f"{name} got an empty value")
        if isinstance(value, dict):
            options[name] = arguments.get(name, {}) | value
        elif name not in FREE and arguments.get(name) not in (None, (), value):
            raise UsageError(f"{name} is set by the other arguments of this function; leave it out")
    with registered(names):
        try:
            check_ranges(job, arguments | options)
            yield build(job, arguments | options)
        except (LmtkError, LmtkWarning) as e:
            rename_options(e, names)
            raise


calls = []  # (thread, names as in `rename_options`) of each call of a function that is running
calls_lock, at_end = Lock(), ExitStack()  # at_end: what is done when the last running call ends


@contextmanager
def registered(names):
    """Adds a call to `calls` while the block runs. Several threads may call functions at once, so the call that begins
    first saves the state of the process, and the call that ends last restores it.
    """
    call = get_ident(), names
    with calls_lock:
        if not calls:
            at_end.enter_context(process_state_kept())
            at_end.enter_context(warnings_renamed())
        calls.append(call)
    try:
        yield
    finally:
        with calls_lock:
            calls.remove(call)
            if not calls:
                at_end.close()


@contextmanager
def warnings_renamed():
    """Shows warnings with Python's names of options, as warnings about the line that called lmtk. numpy's warnings are
    not shown, since nan and inf are checked where they matter.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"lmtk\.")
        show = warnings.showwarning

        def show_renamed(message, category, path, line, *more):
            names = dict(calls)
            names = names.get(get_ident()) or next(iter(names.values()), {})  # a helper may warn for another thread
            show(rename_options(message, names), category, *(caller() or (path, line)), *more)

        warnings.showwarning = show_renamed
        yield


@contextmanager
def process_state_kept():
    """Restores what jobs set for the whole process: the bound of memory, the numbers of threads, and the list of checks
    of files that are still to be made. In a program without stderr, such as a daemon, nothing is printed.
    """
    from lmtk.files import container
    from lmtk.machine import blas

    limits, products, n_unfinished = (bounded.bound, threads.wanted), blas.product_threads(), len(container.unfinished)
    try:
        with ExitStack() as silence:
            if sys.stderr is None:
                silence.enter_context(redirect_stderr(silence.enter_context(open(os.devnull, "w"))))
            yield
    finally:
        bounded.bound, threads.wanted = limits
        del container.unfinished[n_unfinished:]
        blas.set_threads(products)


def caller():
    """(file, line) of the call to lmtk by another program, or None."""
    frame, place = sys._getframe(), None
    while frame.f_back:
        is_ours = frame.f_globals.get("__name__", "").startswith("lmtk.")
        frame = frame.f_back
        place = (frame.f_code.co_filename, frame.f_lineno) if is_ours else place
    return place


def rename_options(problem, names):
    """An error or a warning of lmtk, with Python's names of options. names: {option: argument} where they differ."""
    if isinstance(problem, (LmtkError, LmtkWarning)):
        problem.args = (OPTION.sub(lambda match: python_name(match, names), str(problem)),)
    return problem


def python_name(match, names):
    """What Python's message has in place of a match of OPTION."""
    if option := match["estimate"]:
        return f"lmtk.estimate({option.replace('-', '_')}=...)"
    if not (option := match["option"]):
        return match[0]
    name = names.get(option, option.replace("-", "_"))
    return f"{name}={match['value']}" if match["value"] else name


def similar(name, names, declared):
    """ "; did you mean X?" for an unknown option, or "". names: {option: argument}; declared: as from `fields_of`."""
    if order := re.search("[0-9]+", name):
        family = names.get(name.replace("_", "-").replace(order[0], "N"))
        if not family:
            return ""
        value = f"[{order[0]}]" if get_origin(declared[family].type) is tuple else f"{{{order[0]}: ...}}"
        return f"; did you mean {family}={value}?"
    near = difflib.get_close_matches(name.replace("_", "-"), names, 1, 0.7)
    return f"; did you mean '{names[near[0]]}'?" if near else ""


def check_ranges(job, values):
    """Raises UsageError for a number that the command of the job, a class, would refuse. values: {field: value}."""
    from lmtk.commands.spelling import Option, checked

    records = import_module(f"lmtk.commands.{COMMANDS[job.__name__]}").OPTIONS.values()
    records = {name: record for group in records for name, record in group.items()}
    for name, field in fields_of(job).items():
        value, record = values.get(name), records.get(name)
        if value is None or record is None or record.parse or (record.low is None and record.high is None):
            continue
        number = float if float in (field.type, *get_args(field.type)) else int
        option = Option("one", number=number, low=record.low, high=record.high)
        for one in value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else (value,):
            checked(f"-{option_name(field)}", str(one), option)


def mismatch(value, kind):
    """What a field of the type `kind` takes, in words, if `value` does not fit; None if it fits."""
    if isinstance(kind, UnionType):
        if value is None and NoneType in get_args(kind):
            return None
        kind = next(t for t in get_args(kind) if t is not NoneType)
    if get_origin(kind) is tuple:
        one = get_args(kind)[0]
        fits = isinstance(value, tuple) and not any(mismatch(x, one) for x in value)
        return None if fits else f"a list of {PLURALS[one]}"
    if get_origin(kind) is dict:
        one = get_args(kind)[1]
        fits = isinstance(value, dict) and all(isinstance(k, Integral) and k > 0 for k in value)
        fits = fits and not any(mismatch(x, one) for x in value.values())
        return None if fits else f"a dictionary from orders to {PLURALS[one]}"
    words, fits = KINDS[kind]
    return None if fits(value) else words


def plain(value):
    """A value in the form that jobs use: a str for a file name, a tuple for a list, Python's numbers for numpy's."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(map(plain, value))
    return os.fsdecode(value) if is_name(value) else value


def inner_model(model, name="model"):
    """A model in the form that a job takes: the name of a file, or the model inside a Model. Raises UsageError."""
    if is_name(model):
        return os.fsdecode(model)
    inner = model.lm if isinstance(model, Model) else model
    if not hasattr(inner, "vocab"):
        raise UsageError(f"{name} must be the name of a file or a Model, not {model!r}")
    return inner


def inner_models(models):
    """A list of models in the form that a job takes, a tuple. Raises UsageError."""
    if is_name(models) or not is_iterable(models):
        raise UsageError(f"models must be a list of models, not {models!r}")
    inner = tuple(inner_model(model, "a model in models") for model in models)
    if not inner:
        raise UsageError("models is empty; give at least one model")
    return inner


def checked_weights(weights):
    """Weights in the form that a job takes, a tuple. Raises UsageError."""
    if not are_numbers(weights):
        more = f"; give a held-out text as heldout={weights!r}" if is_name(weights) else ""
        raise UsageError(f"weights must be a list of numbers, not {weights!r}{more}")
    return tuple(weights)


def is_name(value):
    return isinstance(value, (str, bytes, os.PathLike))


def is_iterable(value):
    return hasattr(value, "__iter__")


def are_numbers(values):
    return not is_name(values) and hasattr(values, "__len__") and all(isinstance(x, Real) for x in values)


def in_json_lines(documents, field):
    """A context with the name of a JSONL file. documents: that name, or a list, for which a file is written. The list
    has dictionaries or texts. A text becomes a document that has the text as its `field`. Raises UsageError.
    """

    def line_of(document):
        if not isinstance(document, (str, dict)):
            raise UsageError(f"each document must be a text (str) or a dictionary, not {document!r}")
        try:
            return json.dumps({field: document} if isinstance(document, str) else document).encode() + b"\n"
        except (TypeError, ValueError) as e:
            raise UsageError(f"a document cannot be written as JSON ({e})") from None

    return file_of(documents, "documents", "texts", line_of)


def in_file(text, name="text", needed=True, items="sentences"):
    """A context with the name of a file that has one sentence on each line. text: that name, or a list of sentences,
    for which a file is written. Without `needed`, text may be None, and the context has None.

    name, items: what the UsageError about another kind of value calls the argument and its parts.
    """

    def line_of(line):
        if not isinstance(line, (str, bytes)):
            raise UsageError(f"{name} must have {items} as str or bytes, not {line!r}")
        line = as_bytes(line).translate(LINE_ENDS)
        if items == "words" and len(WORD.findall(line)) != 1:
            raise UsageError(f"{name} must have words without blanks, not {os.fsdecode(line)!r}")
        return line + b"\n"

    return nullcontext() if text is None and not needed else file_of(text, name, items, line_of)


@contextmanager
def file_of(value, name, items, line_of):
    """Yields the name of a file. value: that name, or a list, for which a temporary file is written. line_of: the
    function from an item of the list to its line, bytes. name, items: as in `in_file`.
    """
    if is_name(value):
        yield path_of(value, name, items)
        return
    if not is_iterable(value):
        raise UsageError(f"{name} must be the name of a file or a list of {items}, not {value!r}")
    with bounded.named_file() as (file, path):
        file.writelines(map(line_of, value))
        file.flush()
        named[path] = IN_MESSAGES.get(name, f"the {name}")
        try:
            yield path
        finally:
            del named[path]


def path_of(value, name, items):
    """The name of a file, as a string. Raises UsageError if it looks like the content of a file. name, items: as in
    `in_file`.
    """
    path = os.fsdecode(value)
    if not path:
        raise UsageError(f"{name} got an empty value")
    if " " in path and not os.path.exists(path):
        quoted = repr(path if len(path) < LONGEST else f"{path[:LONGEST]} ...")
        raise UsageError(f"{name} is the name of a file, but {quoted} does not exist; give {items} as a list")
    return path
