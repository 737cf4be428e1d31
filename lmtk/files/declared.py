"""The contents of binary files: each kind declares what a file must hold, and files are checked before use.

A reader declares its settings as a dict, name -> Setting or another dict, and its arrays as a function of the sizes,
which returns name -> Array. `check_contents` compares a file with both. A file that passes has all settings, and arrays
of the right types, shapes and ranges.
"""

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np

from lmtk.errors import FormatError
from lmtk.files import curve
from lmtk.files.container import KINDS
from lmtk.files.words import Words

MOST = 1 << 48  # the largest size
NAMES = {"F64": "float64", "F32": "float32", "I64": "int64", "I32": "int32", "U8": "bytes"}


@dataclass(frozen=True)
class Setting:
    """A setting whose values satisfy fits(value). wanted: a description of these values; needed: whether it must be
    present.
    """

    wanted: str
    fits: Callable
    needed: bool = True


def whole(low=0, high=MOST):
    return Setting(f"a whole number from {low} to {high}", lambda x: type(x) is int and low <= x <= high)


def one_of(*values):
    return Setting(" or ".join(map(str, values)), lambda x: any(type(x) is type(v) and x == v for v in values))


def optional(declared):
    """A Setting or Array that may be missing."""
    return replace(declared, needed=False)


def is_printable(x):
    """Whether a text can be written in UTF-8 as one line."""
    return isinstance(x, str) and x.isprintable()


def is_option_value(x, depth=2):
    """Whether a value is one that an option can have: a scalar, a list of scalars, or a list of such lists."""
    if isinstance(x, list):
        return depth > 0 and all(is_option_value(y, depth - 1) for y in x)
    return x is None or type(x) in (bool, int) or is_printable(x) or (type(x) is float and math.isfinite(x))


REAL = Setting("a finite number", curve.is_real)
NAME = Setting("a text of one line", is_printable)
GROUP = Setting("several settings", lambda x: isinstance(x, dict))
MAX_ORDER = 99  # of n-gram models; commands.options has the same number, since it must not import numpy
ORDER = whole(1, MAX_ORDER)
WORD = Setting("a word in Latin-1", lambda x: isinstance(x, str) and x != "" and all(ord(c) < 256 for c in x))
OPTIONS = Setting(
    "options with their values",
    lambda x: isinstance(x, dict) and all(map(is_printable, x)) and all(map(is_option_value, x.values())),
)
DIGEST = Setting("64 hexadecimal digits", lambda x: isinstance(x, str) and re.fullmatch("[0-9a-f]{64}", x) is not None)
VOCABULARY = {"V": whole(1), "unk": WORD, "tokenizer": optional(DIGEST)}
MODEL = {"kind", "settings"}
# the settings of every checkpoint: the run's options, its inputs and their digests, the best model so far (with its
# arrays in the file), and how far the run is
CHECKPOINT = {
    "run": OPTIONS, "inputs": OPTIONS,
    "model": Setting("kind and settings, or null", lambda x: x is None or (type(x) is dict and set(x) == MODEL)),
    "state": {
        **dict.fromkeys(("epoch", "step", "best_epoch"), whole()), **dict.fromkeys(("L", "seconds"), REAL),
        "diverged": one_of(True, False), "curve": Setting("a table of epochs", curve.is_table),
    },
}  # fmt: skip


@dataclass(frozen=True)
class Array:
    """An array of one of the types ("F32 F64") with finite numbers from low to high; with low None, any numbers.

    ascending: each number is greater than the one before. needed: whether the array must be present.
    """

    types: str
    shape: tuple
    low: float | None = None
    high: float | None = None
    ascending: bool = False
    needed: bool = True


def reals(*shape):
    """An Array of finite float32."""
    return Array("F32", shape, -math.inf, math.inf)


def ids(size, *shape, ascending=False):
    """An Array of int32 from 0 to below `size`."""
    return Array("I32", shape, 0, size - 1, ascending)


def like(arrays):
    """The declaration {name: Array} of existing arrays: their types and shapes, and finite real numbers."""
    return {
        name: Array(KINDS[a.dtype], a.shape, *((-math.inf, math.inf) if a.dtype.kind == "f" else ()))
        for name, a in arrays.items()
    }


def check_contents(about, arrays, path, settings, wanted):
    """Check a binary file, (about, arrays) from `container.read`. Returns (words, sizes). Raises FormatError.

    settings: the declared settings. wanted(sizes, size) returns name -> Array: sizes has the settings as attributes,
    and W, the number of words; size(name, axis) is the length of an array along an axis, for sizes that are not
    settings.
    """
    check_settings(about["settings"], settings, path)
    words = vocabulary(arrays, path)

    def size(name, axis):
        if name not in arrays:
            raise FormatError(path, f"damaged: the array {name} is missing")
        shape = arrays[name].shape
        if axis >= len(shape):
            raise FormatError(path, f"damaged: the array {name} has {len(shape)} dimensions; expected more")
        return shape[axis]

    sizes = SimpleNamespace(**about["settings"] | {"W": len(words)})
    for name, declared in wanted(sizes, size).items():
        check_array(arrays.get(name), declared, name, path)
    return words, sizes


def vocabulary(arrays, path):
    """The words of a file. Raises FormatError if a word is empty or has a blank in it."""
    letters = arrays.get("vocabulary")
    check_array(letters, Array("U8", (0 if letters is None else letters.size,)), "vocabulary", path)
    words = Words(letters.tobytes() + b"\n")
    if words.gaps - {b"\r"}:
        raise FormatError(path, "damaged: its vocabulary has words that are empty or contain blanks")
    return words


def check_settings(settings, wanted, path, above=""):
    """Raise FormatError if a setting is missing or does not fit. above: the name of the settings that contain these."""
    for name, declared in wanted.items():
        full, value = above + name, settings.get(name)
        expected = GROUP if isinstance(declared, dict) else declared
        if (expected.needed or name in settings) and not expected.fits(value):
            is_now = format_value(value) if name in settings else "missing"
            raise FormatError(path, f"damaged: the setting {full} is {is_now}; expected {expected.wanted}")
        if isinstance(declared, dict):
            check_settings(value, declared, path, full + ".")


def format_value(value):
    """A value as JSON, cut to 40 characters."""
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def check_array(a, declared, name, path):
    """Raise FormatError if an array differs from its declaration. a: the array, or None if it is missing."""
    if a is None and not declared.needed:
        return
    wanted = f"{' or '.join(NAMES[t] for t in declared.types.split())} {format_shape(declared.shape)}"
    if a is None:
        raise FormatError(path, f"damaged: the array {name} is missing; expected {wanted}")
    kind = KINDS[a.dtype]
    if kind not in declared.types.split() or a.shape != declared.shape:
        actual = f"{NAMES[kind]} {format_shape(a.shape)}"
        raise FormatError(path, f"damaged: the array {name} is {actual}; expected {wanted}")
    if declared.low is None or not a.size:
        return
    if kind[0] == "F" and not (np.isfinite(a.min()) and np.isfinite(a.max())):
        raise FormatError(path, f"damaged: the array {name} has numbers that are not finite")
    if declared.ascending and not (a[1:] > a[:-1]).all():
        raise FormatError(path, f"damaged: the numbers of the array {name} are not in ascending order")
    least, most = (a[0], a[-1]) if declared.ascending else (a.min(), a.max())
    if least < declared.low or most > declared.high:
        wanted = f"{declared.low} to {declared.high}"
        raise FormatError(path, f"damaged: the array {name} has numbers from {least} to {most}; expected {wanted}")


def format_shape(shape):
    return f"({', '.join(map(str, shape))})"
