"""Which options go together: tables of rules beside the fields of a job, and the one function that reads them. A rule
is a function: job -> the message that says why the job cannot run, or None.

    RULES = (
        required("lm"),
        needs("limit_vocab", "vocab"),                       # -limit-vocab needs -vocab
        excludes("skipoovs", "multiwords classes"),          # -skipoovs cannot be combined with -classes
        wrong(lambda job: job.debug > 3, "-debug goes to 3 here"),
    )

A field that does not have its default value counts as given. A message may name fields in braces.
"""

import math
import os
import shlex
import stat
from dataclasses import MISSING, field, fields, is_dataclass

from lmtk.errors import LmtkError, UsageError, counted, option_name


def option_named(name, default=None):
    """A field of a job whose option has another name."""
    about = {"option": name}
    return field(default_factory=dict, metadata=about) if default == {} else field(default=default, metadata=about)


def marks_of(job):
    """The text.corpus.Marks of a job's fields no_sos, no_eos, stream, tolower and, if it has one, reverse."""
    from lmtk.text.corpus import Marks

    return Marks.from_options(job.no_sos, job.no_eos, job.stream, job.tolower, getattr(job, "reverse", False))


def fields_of(job):
    """{name: field} of a job's class, including the fields of the records inside the job."""
    by_name = {}
    for about in fields(job):
        by_name |= fields_of(about.type) if is_dataclass(about.type) else {about.name: about}
    return by_name


def build(job, values):
    """Makes a job of the class `job`. values: {field: value}; other fields have their defaults. If the job and a record
    inside it have fields of the same name, such as `order`, both get the value. Raises TypeError for a name that is not
    a field, UsageError if a rule is broken.
    """
    if unknown := values.keys() - fields_of(job):
        raise TypeError(f"unknown option '{min(unknown)}'")

    def part(job):
        inside = {about.name: part(about.type) for about in fields(job) if is_dataclass(about.type)}
        return job(**inside | {about.name: values[about.name] for about in fields(job) if about.name in values})

    return part(job)


def flatten(job):
    """{name: value} of a job's fields, including the fields of the records inside the job."""
    values = {}
    for about in fields(job):
        value = getattr(job, about.name)
        values |= flatten(value) if is_dataclass(about.type) else {about.name: value}
    return values


def default_of(about):
    return about.default if about.default_factory is MISSING else about.default_factory()


def options_given(job, names):
    """The options whose values are not their defaults, as "-name". names: the fields to look at, "a b c"."""
    values, declared = flatten(job), fields_of(job)
    return [f"-{option_name(declared[x])}" for x in names.split() if values[x] != default_of(declared[x])]


def required(name):
    """The option cannot be left out."""

    def broken(job):
        if flatten(job)[name] not in (None, "", ()):
            return None
        hint = from_stdin() if name == "text" else ""
        return f"-{option_name(fields_of(job)[name])} is missing{hint}"

    return broken


def model_repeated(models, option="-lm"):
    """The message about a model that is listed twice, or None. models: of the option; those in memory do not count."""
    names = [name for name in models if isinstance(name, str)]
    again = next((name for name in names if names.count(name) > 1), None)
    return again and f"{option} lists {again} twice; give each model once"


def names_of(models):
    """What messages call models, which are names of files, or models in memory."""
    return [model if isinstance(model, str) else f"model {i}" for i, model in enumerate(models, 1)]


def model_missing(lm, texts, option="-lm", content="model"):
    """The message for a user who forgot -lm before the model's file, so that the file was taken as a text; else None.
    option, content: the option that takes the file, and what the file contains.
    """
    if lm or not texts or texts[0] == "-":
        return None
    were = "was taken as a text" if len(texts) == 1 else "were taken as texts"
    names = " and ".join(f"'{text}'" for text in texts)
    return f"{option} is missing; {names} {were}; give the {content} as {option} FILE"


def text_missing(models, most, clause="-text is missing"):
    """The message about a missing -text. models: of -lm. most: how many models the user can have meant; if there are
    more, the last of them was probably the text. clause: the beginning of the message.
    """
    if len(models) > most:
        return f"{clause}, and {models[-1]} was taken as a model; give the text as -text FILE"
    return f"{clause}{from_stdin()}"


def needs(names, others, message=None):
    """Each of the options `names` needs one of the options `others`."""

    def broken(job):
        first = options_given(job, names)
        if not first or options_given(job, others):
            return None
        wanted = [f"-{option_name(fields_of(job)[name])}" for name in others.split()]
        return fill_in(message, job) or f"{first[0]} needs {either(wanted)}"

    return broken


def excludes(names, others, message=None, more=""):
    """None of the options `names` can be combined with any of the options `others`. more: the end of the usual message,
    if there is no `message`.
    """

    def broken(job):
        first, second = options_given(job, names), options_given(job, others)
        if not (first and second):
            return None
        return fill_in(message, job) or f"{first[0]} cannot be combined with {second[0]}{more}"

    return broken


def one_of(name, values):
    """The option takes one of these words."""
    unknown = lambda job: flatten(job)[name] not in (None, *values)
    option = name.replace("_", "-")
    return wrong(unknown, f"-{option} is {either(values)}, not {{{name}}}")


def wrong(when, message):
    """`when(job)` must not be true."""
    return lambda job: fill_in(message, job) if when(job) else None


def wrong_without_text(when, message):
    """`wrong` for a job that has nothing to read; the message ends in a hint if something is piped into the command."""
    return lambda job: message + from_stdin() if when(job) else None


def fill_in(message, job):
    return message and message.format_map(flatten(job))


def check(job, rules):
    """Raises UsageError for the first rule that a job breaks."""
    for rule in rules:
        if message := rule(job):
            raise UsageError(message)


def either(names):
    """ "a, b or c"."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


def from_stdin():
    """A hint for the message that a text is missing, when something is piped into the command."""
    try:
        kind = stat.S_IFMT(os.fstat(0).st_mode)
    except OSError:
        return ""
    return "; -text - reads stdin" if kind in (stat.S_IFIFO, stat.S_IFREG) else ""


def check_texts(texts, content, command, model):
    """Raises LmtkError if the file of a text does not exist. The user may have given the text itself, so the message
    shows how to pipe it into `command` with `model`. content: what a line of the text is, such as "phrase".
    """
    for path in texts:
        if path != "-" and not os.path.exists(path):
            echo = f"echo {shlex.quote(path)} | {command} {shlex.quote(os.fspath(model))}"
            raise LmtkError(f"{path}: No such file or directory; to give a {content} itself: {echo}")


def one_stdin(*paths):
    """Raises UsageError if more than one of the inputs is stdin."""
    if sum(path == "-" for path in paths) > 1:
        raise UsageError("only one input can be stdin (-)")


def unknown_word(text):
    """The value of -map-unk as bytes. Raises UsageError if it is not one word."""
    word = os.fsencode(text)
    if word in (b"<s>", b"</s>") or len(word.split()) != 1 or word.strip() != word:
        raise UsageError(f"-map-unk takes one word other than <s> and </s>, not '{text}'")
    return word


def complete_weights(weights, parts, any_sum=False):
    """The weights of `parts` models, which sum to one: equal weights if none are given; the last may be left out.
    any_sum: whether weights may be any numbers.
    """
    if not weights:
        return [1 / parts] * parts
    if len(weights) not in (parts - 1, parts):
        models = counted(parts, "model")
        raise UsageError(f"-lambda takes {parts - 1} or {counted(parts, 'weight')} for {models}, not {len(weights)}")
    whole = [*weights, 1 - sum(weights)] if len(weights) < parts else weights
    if any_sum:
        if not all(map(math.isfinite, whole)):
            raise UsageError(f"the weights ({format_weights(whole)}) must be finite")
        return [*whole]
    whole = [0.0 if -1e-9 < w < 0 else w for w in whole]  # 1 - 0.9 - 0.1 is slightly below 0
    if not all(0 <= w <= 1 for w in whole) or abs(sum(whole) - 1) > 1e-4:
        raise UsageError(f"the weights ({format_weights(whole)}) must lie between 0 and 1 and sum to one")
    return whole


def format_number(number):
    """A number with seven digits, for reports."""
    return f"{number:.7g}"


def format_weights(weights):
    """The weights of a mixture with six digits, for reports and messages, "0.25 0.75"."""
    return " ".join(f"{w:.6g}" for w in weights)


def check_outputs(*paths, texts=(), inputs=()):
    """Checks, before any work, that each output (None: not wanted) can be written, that no two outputs are the same
    file, and that no output would replace one of the texts and other inputs, or a file that an input names as a part.
    Models in memory among the inputs do not count.

    Raises UsageError, OSError.
    """
    from lmtk.files.inputs import files_named_in
    from lmtk.files.outputs import STDOUT, check_output, is_written_in_place

    paths = [path for path in paths if path]
    if sum(path in STDOUT for path in paths) > 1:
        raise UsageError("only one output can be stdout (-); name a file for each of the others")
    files = [path for path in paths if not is_written_in_place(path)]
    named = [name for path in inputs if files and type(path) is str for name in files_named_in(path)]
    kept = {os.path.realpath(path): "a file" for path in (*inputs, *named) if isinstance(path, str) and path}
    kept |= {os.path.realpath(path): "a text" for path in texts if path}
    taken = [os.path.realpath(path) for path in files]
    for path, file in zip(files, taken):
        if taken.count(file) > 1:
            raise UsageError(f"two outputs would be written to {path}; give them different names")
        if file in kept:
            raise UsageError(
                f"the output file {path} would replace {kept[file]} that the job reads; choose another name"
            )
    for path in paths:
        check_output(path)
