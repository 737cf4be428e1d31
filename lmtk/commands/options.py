"""Option types that commands share: the same thing has the same name everywhere."""

import os
import re
import stat
from typing import Annotated

import typer

from lmtk.commands.spelling import Option, checked
from lmtk.errors import UsageError, counted

MAX_ORDER = 99
MANY = 1024  # threads
LEAST = 64 << 20  # bytes of -memory


def option(name, help, metavar=None, *also, group=None, **settings):
    """An option; also: other names of it; group: the heading under which -help shows it."""
    names = [f"-{n}" for n in (name, *also)]
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=group, **settings)


def seed_in(group):
    """-seed, for what the other options under a heading do."""
    return Annotated[int, option("seed", "Seed of the random numbers.", "N", min=0, max=2**64 - 1, group=group)]


Texts = Annotated[
    list[str], option("text", "Text to read, a sentence a line (several; -: stdin).", "FILE", group="Data")
]
Models = Annotated[list[str], option("lm", "A model of any kind (several).", "FILE", group="Data")]
Model = Annotated[str, option("lm", "A model of any kind.", "FILE", group="Data")]
VocabFile = Annotated[str, option("vocab", "Word list: the first field of each line.", "FILE", group="Data")]
ClassFile = Annotated[str, option("classes", "Word classes, as ngram-class writes them.", "FILE", group="Data")]
Order = Annotated[int, option("order", "The longest n-grams.", "N", min=1, max=MAX_ORDER, group="Model")]
Unk = Annotated[
    bool, option("unk", "Treat unknown words as the word <unk>, which is predicted like others.", group="Data")
]
UnkAsIs = Annotated[
    bool, option("unk", "Accepted as SRILM has it; unknown words are <unk> with it and without.", group="Data")
]
MapUnk = Annotated[
    str, option("map-unk", "The word that stands for unknown ones, in place of <unk>.", "WORD", group="Data")
]
NoSos = Annotated[bool, option("no-sos", "No <s> before a sentence.", group="Data")]
NoEos = Annotated[bool, option("no-eos", "No </s> after a sentence.", group="Data")]
Stream = Annotated[
    bool, option("stream", "The text is one running text: no <s>, no </s>, contexts cross line ends.", group="Data")
]
Tolower = Annotated[bool, option("tolower", "Lower case, as Unicode has it.", group="Data")]
Heldout = Annotated[str, option("heldout", "Held-out text.", "FILE", group="Data")]
Write = Annotated[str, option("write", "Where to write (-: stdout).", "FILE", group="Output")]
Debug = Annotated[int, option("debug", "How much to tell: 0 nothing, 1 and more.", "N", min=0, group="Output")]
Threads = Annotated[
    int,
    option(
        "threads",
        "Threads that the neural model works on (default: all cores).",
        "N",
        min=1,
        max=MANY,
        group="Parallel",
    ),
]
Memory = Annotated[
    str, option("memory", "Work in about this much memory, the rest on disk: 500M, 4G.", "SIZE", group="Parallel")
]
Compact = Annotated[
    bool, option("compact", "Write -write-bin in fewer bytes; it takes longer to load.", group="Output")
]
Quantize = Annotated[
    int | None,
    option("quantize", "The same, log10 p and weights rounded to N bits.", "N", min=3, max=16, group="Output"),
]
Strict = Annotated[bool, option("strict", "What is odd in a model file is an error, not a warning.", group="Data")]
ProductThreads = Annotated[
    int,
    option(
        "threads",
        "Threads, each for some sentences (default: OPENBLAS_NUM_THREADS, else 1).",
        "N",
        min=1,
        max=MANY,
        group="Parallel",
    ),
]
Quiet = Annotated[bool, option("quiet", "No progress bar.", group="Output")]
Resume = Annotated[bool, option("resume", "Go on from MODEL.ckpt if it is there.", group="Training")]
Finish = Annotated[
    bool, option("finish", "Make a model of the best so far in MODEL.ckpt, and train no more.", group="Training")
]
LogFile = Annotated[
    str | None, option("log", "Write the figures of each epoch as a line (tab-separated).", "FILE", group="Output")
]
PlotFile = Annotated[
    str | None,
    option("plot", "Draw the curve after each epoch, as SVG or PNG (needs matplotlib).", "FILE", group="Output"),
]
SaveEvery = Annotated[
    int | None,
    option(
        "save-every",
        "A checkpoint (MODEL.ckpt) every N minibatches and epoch (0: only when cut off).",
        "N",
        min=0,
        group="Training",
    ),
]
Iterations = Annotated[int, option("iterations", "At most N iterations of EM.", "N", min=0, group="Training")]
Tolerance = Annotated[
    float, option("tolerance", "Stop EM when no weight moves by more than X.", "X", min=0, group="Training")
]


def needed(value, name):
    """A value that the command cannot do without."""
    if value in (None, "", []):
        raise UsageError(f"-{name} is missing{from_stdin() if name == 'text' else ''}")
    return value


def from_stdin():
    """What to say behind a message that a text is missing, where something is piped in."""
    try:
        kind = stat.S_IFMT(os.fstat(0).st_mode)
    except OSError:
        return ""
    return "; -text - reads stdin" if kind in (stat.S_IFIFO, stat.S_IFREG) else ""


def only_with(value, name, **others):
    """Other options that mean nothing without this one."""
    for other, given in others.items():
        if given and not value:
            raise UsageError(f"-{other} is for -{name}, which is missing")


def one_stdin(*paths):
    """Only one of the inputs may be stdin."""
    if sum(p == "-" for p in paths) > 1:
        raise UsageError("only one input can be stdin (-)")


def check_outputs(*paths, texts=(), inputs=()):
    """Find out now whether the outputs, those that are not None, can be written, and that each is a file of its own,
    and none of the texts and the other inputs that it must not replace.

    Raises UsageError, OSError.
    """
    from lmtk.files.outputs import STDOUT, check_output, is_written_in_place

    paths = [path for path in paths if path]
    if sum(path in STDOUT for path in paths) > 1:
        raise UsageError("only one output can be stdout (-)")
    files = [path for path in paths if not is_written_in_place(path)]
    kept = {os.path.realpath(path): "a file" for path in inputs if path}
    kept |= {os.path.realpath(path): "a text" for path in texts if path}
    taken = [os.path.realpath(path) for path in files]
    for path, file in zip(files, taken):
        if taken.count(file) > 1:
            raise UsageError(f"two outputs would be written to {path}; give them names of their own")
        if file in kept:
            raise UsageError(f"the output {path} would take the place of {kept[file]} that is read")
    for path in paths:
        check_output(path)


def bytes_of(size):
    """The bytes of "4G" or "1.5G", K where no unit is given; b, K, M, G, T. At least LEAST."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([bKMGT]?)", size)
    many = float(found[1]) * 1024.0 ** "bKMGT".index(found[2] or "K") if found else 0
    if many < 1:
        raise UsageError(f"-memory {size}: a size is a number above 0 and b, K, M, G or T")
    return int(min(max(many, LEAST), 2.0**60))


def check_trained(texts, model, log, plot, inputs=()):
    """Find out now whether a training's model and the files of -log and -plot can be written."""
    from lmtk.files import figure

    if plot:
        if os.path.splitext(plot)[1] not in (".svg", ".png"):
            raise UsageError(f"-plot {plot}: the picture is .svg or .png")
        figure.check_matplotlib("plot")
    check_outputs(model, log, plot, texts=texts, inputs=inputs)


def per_order(values, family, number=None, low=0, high=None):
    """The folded values of a family of options as -gtNmin: ["2=x", "3=y"] -> {2: x, 3: y}, the last wins. number: int
    or float, from `low` to `high`, else any word.
    """
    declared = Option("one", number=number, low=low, high=high)
    typed = [value.partition("=") for value in values or []]
    orders([int(order) for order, *_ in typed])
    return {
        int(order): (number or str)(checked("-" + family.replace("N", order), text, declared))
        for order, _, text in typed
    }


def orders(values):
    """The orders of a family of flags, as -kndiscount2."""
    for order in values or []:
        if not 1 <= order <= MAX_ORDER:
            raise UsageError(f"there is no order {order}")
    return values or []


def show(number):
    return f"{number:.7g}"


def tell_memory():
    """-memuse: what the process has had at most, on stderr."""
    import resource
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sys.stderr.write(f"memory used at most: {peak / 1024:.0f} MB\n")


def unknown_word(text):
    """The value of -map-unk, as the bytes it was typed in."""
    word = os.fsencode(text)
    if word in (b"<s>", b"</s>") or len(word.split()) != 1 or word.strip() != word:
        raise UsageError(f"-map-unk takes a word that is no sentence mark, not '{text}'")
    return word


def given_weights(given, parts):
    """Weights that sum to one from those of -lambda; equal ones where none was given."""
    if not given:
        return [1 / parts] * parts
    if len(given) not in (parts - 1, parts):
        models = counted(parts, "model needs", "models need")
        raise UsageError(f"{models} {parts - 1} or {counted(parts, 'weight')} (-lambda), not {len(given)}")
    weights = [*given, 1 - sum(given)] if len(given) < parts else given
    weights = [0.0 if -1e-9 < w < 0 else w for w in weights]  # what rounding leaves of 1 - 0.9 - 0.1
    if not all(0 <= w <= 1 for w in weights) or abs(sum(weights) - 1) > 1e-4:
        raise UsageError(f"the weights ({short(weights)}) must lie between 0 and 1 and sum to one")
    return weights


def short(weights):
    return " ".join(f"{w:.6g}" for w in weights)
