"""The options of commands. The parser, -help, completion and the tests of manual pages all use these records.

A command is a function whose arguments are the values of its options. `takes` makes a function a command, with a table
{heading: {field: option(...)}} and the job that has these fields. The job gives each option its name, type and default.
"""

import inspect
import re
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Annotated, NamedTuple, get_args, get_origin

import typer

from lmtk.commands.spelling import Option, checked
from lmtk.errors import UsageError, option_name
from lmtk.jobs.rules import default_of, fields_of

MAX_ORDER = 99
MANY = 1024  # threads
LEAST = 64 << 20  # bytes of -memory


class Record(NamedTuple):
    """An option of a command.

    metavar: the name of its value in -help. also: other names. low, high: bounds of a number. parse: a function from
    the typed value, or from all typed values, to the value in the job. name, type, default: for options that are not
    fields of a job.
    """

    help: str
    metavar: str | None = None
    also: tuple = ()
    low: float | None = None
    high: float | None = None
    parse: Callable | None = None
    name: str | None = None
    type: object = None
    default: object = None


def option(help, metavar=None, *also, **settings):
    return Record(help, metavar, also, **settings)


def bytes_of(size, option="-memory", unit="K", example="2G"):
    """The number of bytes of a size such as "4G", with b, K, M, G or T, by default `unit`. None stays None."""
    if size is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([bkKMGT]?)", size)
    many = float(match[1]) * 1024.0 ** "bKMGT".index((match[2] or unit).replace("k", "K")) if match else 0
    if many < 1:
        raise UsageError(f"{option} {size} is not a size; give a number above 0 and b, K, M, G or T, such as {example}")
    return int(min(many, 2.0**60))


def memory_of(size):
    """The number of bytes of -memory, at least LEAST. The default unit is K, as in lmplz and sort."""
    return None if size is None else max(bytes_of(size), LEAST)


def file_size_of(size):
    """The number of bytes of -prune-to-size."""
    return bytes_of(size, "-prune-to-size", "b", "20M")


SHARED = {
    "text": option("Text to read, one sentence per line (-: stdin).", "FILE"),
    "vocab": option("Word list: the first word of each line is used.", "FILE"),
    "classes": option("Word classes, in the form that ngram-class writes.", "FILE"),
    "order": option("The number of words of the longest n-grams.", "N", low=1, high=MAX_ORDER),
    "unk": option("Predict <unk>, the word for all words outside the vocabulary."),
    "map_unk": option("The word that stands for unknown words.", "WORD"),
    "no_sos": option("Do not add <s> at the beginning of a sentence."),
    "no_eos": option("Do not add </s> at the end of a sentence."),
    "stream": option("Read the text as one running text: no <s> and </s>, and contexts cross line ends."),
    "tolower": option("Convert to lower case (Unicode)."),
    "field": option("Read the texts in this field of JSON lines, or in this column of parquet files.", "NAME"),
    "normalize": option("Normalise the text as CCNet does.", "ccnet"),
    "tokenizer": option("Split the text into pieces by a SentencePiece model or a tokenizer.json.", "FILE"),
    "encode": option("Name each piece by one character, chr(id + 100), as NeMo does.", "nemo"),
    "heldout": option("Held-out text.", "FILE"),
    "write": option("Output file (-: stdout).", "FILE"),
    "debug": option("How much to report: 0 is nothing, higher values give more details.", "N", low=0),
    "threads": option(
        "Number of threads for neural models (default: OPENBLAS_NUM_THREADS or OMP_NUM_THREADS, else all cores).",
        "N",
        low=1,
        high=MANY,
    ),
    "layout": option("Write ARPA files in the layout of SRILM or of KenLM (default: srilm).", "srilm|kenlm"),
    "prune_to": option("Prune until the model has at most N n-grams.", "N", low=1),
    "prune_to_size": option("Prune until the file has at most this size (500K, 20M).", "SIZE", parse=file_size_of),
    "minprune": option("Prune only n-grams of N words or more.", "N", low=2),
    "closed": option("Add the missing suffixes of n-grams: if the model has the n-gram a b c, add b c."),
    "write_kenlm": option("Write the model as a KenLM binary file.", "FILE"),
    "kenlm_type": option("The data structure of -write-kenlm (default: probing).", "probing|trie"),
    "compact": option("Make the file of -write-bin, or the trie of -write-kenlm, smaller."),
    "quantize": option("Like -compact; also round probabilities and back-off weights to N bits.", "N", low=3, high=16),
    "strict": option("Treat warnings about the model file as errors."),
    "quiet": option("Do not show a progress bar."),
    "resume": option("Continue from the checkpoint MODEL.ckpt, if it exists."),
    "finish": option("Write the best model of the checkpoint MODEL.ckpt and end the run."),
    "log": option("Write a table with one line per epoch, separated by tabs.", "FILE"),
    "plot": option("Draw the learning curve as .svg, .png or .pdf (needs matplotlib).", "FILE"),
    "minutes": option(
        "Train for X minutes, or until -epochs are done; the learning rate falls to its lowest value in this time.",
        "X",
        low=0.001,
    ),
    "save_every": option(
        "Write MODEL.ckpt after every N minibatches and after each epoch (0: only when interrupted; "
        "default: after each epoch).",
        "N",
        low=0,
    ),
    "iterations": option("Run at most N iterations of EM.", "N", low=0),
    "tolerance": option("Stop EM when an iteration changes no weight by more than X.", "X", low=0),
    "seed": option("Seed of the random numbers.", "N", low=0, high=2**64 - 1),
    "memuse": option("Print the peak memory use.", type=bool, default=False),
}
UNK_AS_IS = option("No effect; accepted for SRILM scripts.", type=bool, default=False)
MODELS = option("The models, of any kind.", "FILE")


def shared(names):
    """The SHARED options with these names, which are separated by blanks."""
    return {name: SHARED[name] for name in names.split()}


def takes(job, options):
    """A decorator that makes a function a command, which typer parses, with the types and defaults of a job.

    job: a class, a frozen dataclass. Its fields may be such classes too, whose fields are then options. options:
    {heading: {field: Record}}.
    """

    def decorate(function):
        declared, readers, parameters = fields_of(job), {}, []
        for heading, records in options.items():
            for name, record in records.items():
                field = declared.get(name)
                spelled = record.name or (option_name(field) if field else name.replace("_", "-"))
                kind = record.type or field.type
                default = default_of(field) if field and not record.type else record.default
                annotation, readers[name] = declaration(spelled, kind, record, heading)
                shown = None if default in ((), {}) else default
                parameters.append(
                    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=shown, annotation=annotation)
                )

        def command(**values):
            return function(**{name: readers[name](value) for name, value in values.items()})

        command.__doc__, command.__name__ = function.__doc__, "command"
        command.__signature__ = inspect.Signature(parameters)
        return command

    return decorate


def declaration(name, kind, record, heading):
    """(the annotation from which typer makes an option, a function from typer's value to the value in the job)."""
    bounds = {"min": record.low, "max": record.high}
    one = next((t for t in get_args(kind) if t is not NoneType), kind) if isinstance(kind, UnionType) else kind
    if get_origin(one) is dict:  # a family of options such as -gtNmin
        number, bounds = get_args(one)[1], {}
        typed, read = list[str] | None, lambda values: per_order(values, name, number, record.low, record.high)
    elif get_origin(one) is tuple:
        typed = list[get_args(one)[0]] | None
        read = lambda values: tuple(orders(values) if "N" in name else values or ())
    else:
        typed, read = one if one is bool else one | None, lambda value: value
    if record.parse:
        typed, read = (list[str] if get_origin(one) else str) | None, record.parse
    bounds = {bound: value for bound, value in bounds.items() if value is not None}
    names = [f"-{n}" for n in (name, *record.also)]
    typer_option = typer.Option(*names, help=record.help, metavar=record.metavar, rich_help_panel=heading, **bounds)
    return Annotated[typed, typer_option], read


def per_order(values, family, number=str, low=0, high=None):
    """The values of a family of options such as -gtNmin: {2: x, 3: y} of ["2=x", "3=y"]. A later value replaces an
    earlier one. number: the type of a value: int or float, from `low` to `high`, or str.
    """
    declared = Option("one", number=None if number is str else number, low=low or 0, high=high)
    typed = [value.partition("=") for value in values or []]
    orders([int(order) for order, *_ in typed])
    return {int(order): number(checked("-" + family.replace("N", order), text, declared)) for order, _, text in typed}


def orders(values):
    """Checks the orders of a family of flags such as -kndiscount2, and returns them. Raises UsageError."""
    for order in values or []:
        if not 1 <= order <= MAX_ORDER:
            raise UsageError(f"order {order} does not exist; orders go from 1 to {MAX_ORDER}")
    return values or []


def tell_memory():
    """Prints the peak memory use of the process on stderr: -memuse."""
    import resource
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 1 if sys.platform == "darwin" else 1 << 10  # bytes
    sys.stderr.write(f"memory used at most: {peak * unit / (1 << 20):.0f} MB\n")
