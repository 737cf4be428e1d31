"""Mutated files of every kind that lmtk reads: a command may do its work or say one line, and nothing else.

Binary files are decoded, their settings, arrays and words changed, and written again with checksums that hold, so that
readers are reached behind the checks of damage; texts are changed line by line and byte by byte. Commands run in
this process, each for a few seconds at most. A finding is a traceback, a second line of error, a status above 2, a line
"out of memory", output of a library, or no end.

    python tests/attacks/mutation.py [-seed N] [-cases N] [-seconds N] [-kinds A B ..] [-small] [-only CASE] [-keep DIR]

Case i of a seed is the same whatever ran before it: -only i runs it alone, -keep writes the mutated file. A signal, as
of a kernel that reads out of bounds, ends the process: the parent says which case it was.
"""

import argparse
import contextlib
import faulthandler
import io
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from pathlib import Path

import numpy as np

FILES = Path(__file__).parent.parent / "files"
LIMIT, LAST = 10, 120  # a case: CPU seconds until an exception, seconds until the process is ended
SPARE = 3 << 30  # bytes that a case may have beyond what the process has

NPLM = "nplm-train -text tr -heldout te -unk -hidden 3 -features 2 -order 3 -epochs 1 -minibatch 4 -threads 1 -quiet"
HELD = "-heldout-source held.en -heldout-target held.fr"
NMT = "nmt-train -source en -target fr -hidden 3 -embedding 2 -maxout 2 -alignment 2 -epochs 1 -threads 1 -quiet"
MADE = [  # the commands that make what is mutated
    "ngram-count -text tr -write counts -lm arpa -write-bin bin -unk -wbdiscount",
    "ngram-count -text tr -order 2 -lm arpa2 -unk -wbdiscount",
    "ngram-count -text words -kndiscount -kn1 kn1 -kn2 kn2 -order 2",
    "ngram-count -text words -gt1 gt1 -gt2 gt2 -order 2",
    "vocab -text tr te -write words.list",
    "ngram-class -text tr -numclasses 3 -classes classes -write-paths paths -full -quiet",
    "ngram-count -text tr -classes classes -order 2 -lm class.arpa -class-lm class -wbdiscount -unk",
    "ngram -lm class -write-bin class.bin",
    "ngram-interp -text tr -heldout te -order 2 -lm interp -write-bin interp.bin -unk",
    "mix -lm arpa interp -heldout te -write mixture",
    NPLM + " -direct -lm nplm -save-every 1",
    NPLM + " -model rnn -lm rnn",
    NPLM + " -objective class -direct -lm nplm-class -save-every 1",
    NPLM + " -objective tree -lm nplm-tree -save-every 1",
    NPLM + " -model energy -target-weights -lm energy -save-every 1",
    NPLM + " -objective shortlist -shortlist 3 -lm-rest arpa -lm shortlist",
    "features -lm nplm -write vectors",
    NMT + " -model nmt -save-every 2 " + HELD,
    NMT + " -bpe 40 -unit lstm -model bpe",
    "translate -model nmt -text held.en -n-best 3 -beam 3 -write nbest",
    "rescore -nbest nbest -lm arpa -tune held.fr -restarts 1 -write-weights weights -write /dev/null",
]
PPL = ["ppl -lm {} -text te", "ppl -lm {} -text long -debug 2", "info -lm {}"]
BACKOFF = [*PPL, "ngram -lm {} -write-lm out", "ngram -lm {} -prune 1e-3 -write-bin out", "ngram -lm {} -gen 3"]
BACKOFF += ["ngram -lm {} -mix-lm arpa -lambda 0.3 -write-lm out", "ppl -lm {} -text te -order 2", "vocab -lm {}"]
NEURAL = [*PPL, "features -lm {} -neighbours the", "mix -lm {} interp -heldout te", "rescore -lm {} -nbest nbest"]
TRANSLATION = ["translate -model {} -text held.en -batch 4", "translate -model {} -text odd -align out -beam 2"]
TRANSLATION += ["translate -model {} -score -target odd -text odd -debug 2", "info -lm {}"]
TRANSLATION += ["rescore -model {} -source held.en -nbest nbest"]
COUNTED = "ngram-count -read {} -lm out"
BITEXT = NMT.replace("-source en", "-source {}") + " -model out"
# kind: the file, and the commands that read it
KINDS = {
    "backoff": ("bin", [*BACKOFF, "mix -lm {} arpa -heldout te", "ngram -lm {} -renorm -write-lm out"]),
    "class-ngram": ("class.bin", [*PPL, "ngram -lm {} -expand-classes 0 -write-lm out"]),
    "interp": ("interp.bin", [*PPL, "mix -lm {} arpa -bins -heldout te"]),
    "nplm": ("nplm", NEURAL),
    "rnn": ("rnn", PPL),
    "nplm-class": ("nplm-class", PPL),
    "nplm-tree": ("nplm-tree", PPL),
    "energy": ("energy", PPL),
    "shortlist": ("shortlist", PPL),
    "nmt": ("nmt", TRANSLATION),
    "bpe": ("bpe", TRANSLATION),
    "nplm-checkpoint": ("nplm.ckpt", [NPLM + " -direct -lm {model} -resume", "info -lm {}"]),
    "class-checkpoint": ("nplm-class.ckpt", [NPLM + " -objective class -direct -lm {model} -resume"]),
    "tree-checkpoint": ("nplm-tree.ckpt", [NPLM + " -objective tree -lm {model} -resume"]),
    "energy-checkpoint": ("energy.ckpt", [NPLM + " -model energy -target-weights -lm {model} -resume"]),
    "nmt-checkpoint": ("nmt.ckpt", [NMT + " -model {model} " + HELD + " -resume", "info -lm {}"]),
    "arpa": ("arpa", BACKOFF),
    "counts": (
        "counts",
        [
            *(f"{COUNTED} {how}" for how in ("-wbdiscount", "-kndiscount -interpolate -write all", "-addsmooth 0.5")),
            *(f"{COUNTED} {how}" for how in ("-float-counts -wbdiscount", "-gt2min 1", "-cdiscount 0.5")),
            "ngram-interp -read {} -heldout te -lm out",
            "ngram-class -counts {} -numclasses 2 -classes out -quiet",
            "info -lm {}",
        ],
    ),
    "text": (
        "tr",
        [
            "ngram-count -text {} -lm out -wbdiscount -unk",
            "ngram-count -text {} -kenlm -order 2 -lm out",
            "vocab -text {} -mincount 2",
            "normalize -text {} -tolower -numbers -proper",
            "ngram-class -text {} -numclasses 2 -classes out -quiet",
            "ngram-interp -text {} -heldout {} -order 2 -lm out",
            "ppl -lm arpa -text {} -debug 3",
            "ppl -lm nplm -text {}",
            "mix -lm arpa interp -heldout {}",
            "translate -model nmt -text {} -align out",
            "translate -model bpe -text {} -align out -n-best 2 -beam 2",
            "ngram -lm arpa -gen-prefixes {}",
            "info -lm {}",
        ],
    ),
    "class-text": ("class", ["ppl -lm {} -text te", "info -lm {}"]),
    "mixture": ("mixture", ["ppl -lm {} -text te -debug 2", "info -lm {}"]),
    "interp-text": ("interp", ["ppl -lm {} -text te", "info -lm {}", "mix -lm {} arpa -bins -heldout te"]),
    "gt": ("gt2", ["ngram-count -text words -gt1 gt1 -gt2 {} -order 2 -lm out"]),
    "kn": (
        "kn2",
        [f"ngram-count -text words -kn1 kn1 -kn2 {{}} -order 2 -lm out{how}" for how in ("", " -interpolate")],
    ),
    "classes": (
        "classes",
        [
            "ngram-count -text tr -classes {} -lm out -wbdiscount -class-lm new",
            "ngram-class -text tr -init {} -classes out -quiet",
            "ngram -lm class.arpa -classes {} -expand-classes 0 -write-lm out",
            NPLM + " -objective class -classes {} -lm out",
        ],
    ),
    "paths": ("paths", [NPLM + " -objective tree -classes {} -lm out"]),
    "vectors": (
        "vectors",
        [f"{NPLM} {how} {{}} -lm out" for how in ("-init-features", "-objective tree -tree-features")],
    ),
    "word-list": (
        "words.list",
        [
            "ngram-count -text tr -vocab {} -lm out -wbdiscount -unk",
            "vocab -vocab {} -text tr -limit-vocab",
            "features -lm nplm -words {} -write out",
            "normalize -text tr -proper-list {}",
        ],
    ),
    "nbest": ("nbest", ["rescore -lm arpa -nbest {}", "rescore -nbest {} -lm arpa -tune held.fr -restarts 1 -best"]),
    "weights": ("weights", ["rescore -lm arpa -nbest nbest -weights {}"]),
    "bitext": ("en", [BITEXT, BITEXT + " -bpe 40", "translate -model bpe -text {} -target fr -score -align out"]),
    "dictionary": ("dictionary", ["translate -model nmt -text held.en -replace-unk -dictionary {}"]),
}
LIGHT = {"backoff", "class-ngram", "interp", "arpa", "class-text", "interp-text"}  # that need no training
BINARY = {name for name, (file, _) in KINDS.items() if "." in file and file not in ("words.list", "gt.arpa")}
BINARY |= {"backoff", "nplm", "rnn", "nplm-class", "nplm-tree", "energy", "shortlist", "nmt", "bpe"}

ODD = [
    None,
    True,
    False,
    -1,
    0,
    1,
    2,
    3,
    7,
    99,
    100,
    1000,
    2**31,
    2**53,
    2**63,
    2**64,
    10**30,
    -(2**63),
    0.5,
    2.0,
    1e300,
]
ODD += [
    float("nan"),
    float("inf"),
    "",
    "x",
    "a b",
    "a\nb",
    "\ud800",
    "\x1b[2J",
    "\u2581",
    "<s>",
    "x" * 5000,
    [],
    [1],
    [[1, 2]],
    {},
]
NUMBERS = [
    b"nan",
    b"inf",
    b"-inf",
    b"1e999",
    b"-1e999",
    b"9223372036854775807",
    b"9223372036854775808",
    b"9.2e18",
    b"-1",
    b"0",
]
NUMBERS += [
    b"1e-320",
    b"-0.0",
    b"0x10",
    b"1_0",
    b"",
    b"9" * 400,
    b"1e308",
    b"-99",
    b"+5",
    "\u0661".encode(),
    b"4294967296",
    b"1.5",
]
TOKENS = [
    b"<s>",
    b"</s>",
    b"<unk>",
    b"\\end\\",
    b"\\data\\",
    b"\0",
    b"\xff\xfe",
    b"\xe2\x96\x81",
    b"|||",
    b"\r",
    b"[UNK]",
]
TOKENS += [
    b"x" * 100_000,
    b"\xef\xbb\xbf",
    b"-",
    b"\\1-grams:",
    b"\\99-grams:",
    b"the",
    b"a",
    b"\x1b[2J",
    b"\xc2\x85",
    b"\xe2\x80\xa8",
]


class Slow(BaseException):
    """A case that takes too long."""


def decoded(data):
    """(about, arrays) of a binary file of ours."""
    size = int.from_bytes(data[:8], "little")
    table = json.loads(data[8 : 8 + size])
    about = json.loads(table.pop("__metadata__")["lmtk"].partition(" ")[2])
    kinds = {"I64": "<i8", "F64": "<f8", "F32": "<f4", "I32": "<i4", "U8": "<u1"}
    arrays = {}
    for name, entry in table.items():
        begin, end = (8 + size + x for x in entry["data_offsets"])
        arrays[name] = np.frombuffer(data[begin:end], kinds[entry["dtype"]]).reshape(entry["shape"]).copy()
    return about, arrays


def encoded(about, arrays, lie=None):
    """The bytes of a binary file; lie(table) changes what the header says of the arrays, on both sides alike."""
    kinds = {"int64": "I64", "float64": "F64", "float32": "F32", "int32": "I32", "uint8": "U8"}
    table, end, order = {}, 0, sorted(arrays, key=lambda n: (-arrays[n].itemsize, n))
    for name in order:
        begin, end = end, end + arrays[name].nbytes
        table[name] = {
            "dtype": kinds[arrays[name].dtype.name],
            "shape": list(arrays[name].shape),
            "data_offsets": [begin, end],
        }
    if lie:
        lie(table)
    crcs = {name: zlib.crc32(a.tobytes()) for name, a in arrays.items()}
    about = about | {"arrays": {n: [e["dtype"], e["shape"], crcs.get(n, 0)] for n, e in table.items()}}
    text = json.dumps(about)
    header = json.dumps({"__metadata__": {"lmtk": f"{zlib.crc32(text.encode()):08x} {text}"}, **table}).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + b"".join(arrays[name].tobytes() for name in order)


def places(settings, path=()):
    """The ways to all values of nested settings."""
    items = (
        settings.items() if isinstance(settings, dict) else enumerate(settings) if isinstance(settings, list) else ()
    )
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def mutate_settings(rng, about):
    settings = about["settings"]
    if not list(places(settings)):
        return
    path = rng.choice(list(places(settings)))
    for key in path[:-1]:
        settings = settings[key]
    how = rng.random()
    if how < 0.1 and isinstance(settings, dict):
        settings.pop(path[-1], None)
    elif how < 0.2 and isinstance(settings, dict):
        settings[rng.choice(["W", "x", "self", "", "size"])] = rng.choice(ODD)
    elif how < 0.4 and type(settings[path[-1]]) in (int, float):
        settings[path[-1]] += rng.choice([-1, 1, -2, 2, 0.5])
    else:
        settings[path[-1]] = rng.choice(ODD)


def mutate_array(rng, arrays):
    name = rng.choice(sorted(arrays))
    a = arrays[name]
    how = rng.randrange(12)
    if how == 0:
        del arrays[name]
    elif how == 1:
        arrays[name] = a.astype(rng.choice(["<i8", "<f8", "<f4", "<i4", "u1"]))
    elif how == 2 and a.size:
        axis = rng.randrange(a.ndim)
        arrays[name] = np.delete(a, rng.randrange(a.shape[axis]), axis)
    elif how == 3:
        arrays[name] = rng.choice([a.ravel(), a.T.copy(), a[None], a[..., None], a.reshape(-1, 1), a[:0]])
    elif how == 4:
        arrays[name] = np.concatenate((a, a[:1]))
    elif how == 5:
        arrays[name] = np.zeros((0, *a.shape[1:]) if rng.random() < 0.5 else (*a.shape, 0), a.dtype)
    elif how == 6:
        other = rng.choice(sorted(arrays))
        arrays[name] = arrays[other].copy()
    elif how == 7:
        a[...] = rng.choice([0, 1]) if rng.random() < 0.5 else np.roll(a, 1)
    elif a.size:
        flat = a.reshape(-1)
        for _ in range(rng.choice([1, 1, 1, 5, a.size])):
            i = rng.randrange(a.size)
            if a.dtype.kind == "f":
                flat[i] = rng.choice([np.nan, np.inf, -np.inf, 0, -1, 1e30, -1e30, 1e-45, float(flat[i]) * 2])
            else:
                info = np.iinfo(a.dtype)
                near = [int(flat[i]) + d for d in (-1, 1, 2, 10, 1000)]
                new = rng.choice(
                    [info.min, info.max, -1, 0, 1, a.size, len(a), info.max - 1, int(rng.choice(flat)), *near]
                )
                flat[i] = min(max(new, info.min), info.max)


def mutate_words(rng, arrays):
    if arrays.get("vocabulary", np.zeros(0)).dtype != np.uint8:
        return
    name = "classes" if arrays.get("classes", np.zeros(0)).dtype == np.uint8 and rng.random() < 0.5 else "vocabulary"
    words = arrays[name].tobytes().split(b"\n")
    i, how = rng.randrange(len(words)), rng.randrange(4)
    if how == 0:
        del words[i]
    elif how == 1:
        words.insert(i, rng.choice(words))
    elif how == 2:
        words[i] = rng.choice([*TOKENS, b"", b" ", b"a b", b"\t"])
    else:
        rng.shuffle(words)
    arrays[name] = np.frombuffer(b"\n".join(words), np.uint8).copy()


def lying(rng):
    """What makes a header say of an array what is not so."""

    def lie(table):
        entry = table[rng.choice(sorted(table))]
        how = rng.randrange(4)
        big = rng.choice([2**20, 2**31, 2**40, 2**62, 2**63, 2**64, 2**70, -1, 1.5, "x", None, True])
        if how == 0 and entry["shape"]:
            entry["shape"][rng.randrange(len(entry["shape"]))] = big
        elif how == 1:
            entry["data_offsets"][rng.randrange(2)] = big
        elif how == 2:
            entry["shape"] = rng.choice([[big, big], [0, big], [1] * 70, "x", None, {}, [-1]])
        else:
            last = max(table.values(), key=lambda e: e["data_offsets"][1])
            last["data_offsets"][1] = big
            last["shape"] = [big]

    return lie


def mutated_binary(rng, data):
    about, arrays = decoded(data)
    lie = None
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        how = rng.random()
        if how < 0.35:
            mutate_settings(rng, about)
        elif how < 0.8:
            if arrays:
                mutate_array(rng, arrays)
        elif how < 0.9:
            mutate_words(rng, arrays)
        elif how < 0.95:
            lie = lying(rng) if arrays else None
        else:
            about[rng.choice(["kind", "format", "lmtk", "settings"])] = rng.choice(
                [*ODD, "nplm", "backoff", "interp", "nplm-rnn"]
            )
    return encoded(about, arrays, lie)


def mutated_text(rng, data):
    lines = data.split(b"\n")
    for _ in range(rng.choice([1, 1, 2, 3, 8])):
        i, how = rng.randrange(len(lines)), rng.randrange(12)
        fields = lines[i].split()
        if how == 0:
            del lines[i : i + rng.choice([1, 1, 5])]
            lines = lines or [b""]
        elif how == 1:
            lines.insert(i, rng.choice(lines))
        elif how == 2:
            lines = lines[:i]
            lines.append(b"" if rng.random() < 0.5 else lines.pop()[:3] if lines else b"")
        elif how in (3, 4, 5) and fields:
            numbers = [j for j, f in enumerate(fields) if f.strip(b"+-.0123456789e") == b""] or range(len(fields))
            fields[rng.choice(numbers)] = rng.choice(NUMBERS)
            lines[i] = rng.choice([b" ", b"\t"]).join(fields)
        elif how in (6, 7) and fields:
            fields[rng.randrange(len(fields))] = rng.choice([*TOKENS, *NUMBERS])
            lines[i] = b" ".join(fields)
        elif how == 8:
            fields.insert(rng.randrange(len(fields) + 1), rng.choice([*TOKENS, *NUMBERS]))
            lines[i] = b"\t".join(fields)
        elif how == 9 and lines[i]:
            j = rng.randrange(len(lines[i]))
            lines[i] = lines[i][:j] + bytes([rng.randrange(256)]) + lines[i][j + rng.randrange(2) :]
        elif how == 10:
            j = rng.randrange(len(lines))
            lines[i], lines[j] = lines[j], lines[i]
        elif how == 11:
            lines[i] = b" ".join(fields * rng.choice([2, 20, 3000 if len(fields) < 20 else 2]))
    return b"\n".join(lines)


def mutated(rng, kind, data):
    if rng.random() < 0.05:  # what any damage does
        i = rng.randrange(len(data))
        data = data[:i] + bytes([rng.randrange(256)]) + data[i + 1 :] if rng.random() < 0.5 else data[:i]
    else:
        data = mutated_binary(rng, data) if kind in BINARY else mutated_text(rng, data)
    if rng.random() < 0.03:
        import gzip
        import lzma

        data = gzip.compress(data, 1, mtime=0) if rng.random() < 0.5 else lzma.compress(data, preset=0)
        data = data[: rng.randrange(len(data))] if rng.random() < 0.5 else data
    return data


def run(words):
    """(status, stdout, stderr, traceback or None) of a command in this process."""
    from lmtk import cli

    out, err, failed = (io.TextIOWrapper(io.BytesIO()) for _ in "oe"), None, None
    out, err = out
    streams, sys.stdout, sys.stderr, sys.argv = (sys.stdout, sys.stderr), out, err, ["lmtk", *words]
    status = 0
    try:
        cli.main()
    except SystemExit as e:
        status = e.code or 0
    except Slow:
        status, failed = "slow", traceback.format_exc()
    except BaseException:
        status, failed = "traceback", traceback.format_exc()
    finally:
        sys.stdout, sys.stderr = streams
        with contextlib.suppress(Exception):
            out.flush(), err.flush()
    return status, out.buffer.getvalue(), err.buffer.getvalue().decode("utf-8", "replace"), failed


def fault(command, status, err, failed):
    """What is wrong with an outcome, or None."""
    program = "lmtk " + command.split()[0]
    said = [line for line in err.splitlines() if line.startswith(program + ": ") and ": warning: " not in line]
    if failed:
        return failed
    if status not in (0, 1, 2):
        return f"status {status}"
    if status and (len(said) != 1 or err.splitlines()[-1] != said[0]):
        return f"status {status}, but not one line at the end:\n{err}"
    if "out of memory" in err:
        return err
    if any(len(line) > 2000 for line in said):
        return f"a line of {max(map(len, said))} bytes"
    return None


def make_seeds(kinds):
    """Make in the working folder what is mutated."""
    texts = {"tr": "tr.txt", "te": "te.txt", "words": "words.txt", "en": "nmt-train.en", "fr": "nmt-train.fr"}
    texts |= {"held.en": "nmt-held.en", "held.fr": "nmt-held.fr"}
    for name, file in texts.items():
        shutil.copy(FILES / file, name)
    for name in ("en", "fr"):
        Path(name).write_bytes(b"".join(Path(name).read_bytes().splitlines(True)[:40]))
    for name in ("held.en", "held.fr"):
        Path(name).write_bytes(b"".join(Path(name).read_bytes().splitlines(True)[:3]))
    Path("long").write_bytes(Path("tr").read_bytes() * 20)
    Path("odd").write_bytes(
        b"the red car\n\n\xe2\x96\x81 \xff the\xe2\x96\x81car\n" + b"the \0 " * 30 + b"\n[UNK] <s>\n"
    )
    Path("dictionary").write_bytes(b"the le\ncar voiture\nred rouge\n")
    unlink = os.unlink

    def keep(path, *rest, **how):
        if str(path).endswith(".ckpt"):
            shutil.copy(path, f"{path}.kept")
        unlink(path, *rest, **how)

    os.unlink = keep
    trained = {"nplm-train", "nmt-train", "translate", "rescore", "features"}
    for command in MADE:
        if LIGHT.issuperset(kinds) and command.split()[0] in trained:
            continue
        status, _, err, failed = run(command.split())
        assert status == 0, f"{command}: {status} {err} {failed}"
    os.unlink = unlink
    for name in Path(".").glob("*.ckpt.kept"):
        name.rename(name.with_suffix(""))
    lost = [file for kind in kinds if not Path(file := KINDS[kind][0]).exists()]
    assert not lost, lost


def kernels_for_all():
    """Small jobs go through compiled kernels too."""
    import lmtk.joint.classes
    import lmtk.nplm.energy
    import lmtk.nplm.tree  # noqa: F401
    from lmtk.files import container
    from lmtk.machine.large import LARGE

    LARGE.update(dict.fromkeys(LARGE, 1))
    container.LARGE = 1
    for module in [m for name, m in sys.modules.items() if name.startswith("lmtk.")]:
        for name in ("MANY", "PAIRS"):
            if hasattr(module, name) and module.__name__ != "lmtk.commands.options":
                setattr(module, name, 1)


def child(args):
    """Run the cases; a line of JSON on stdout for each that begins, and for each finding."""
    from lmtk.machine import memory

    report = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    kinds = args.kinds or list(KINDS)
    make_seeds(kinds)
    seeds = {kind: Path(KINDS[kind][0]).read_bytes() for kind in kinds}
    clean = set(os.listdir())
    if not args.small:
        kernels_for_all()
    signal.signal(signal.SIGVTALRM, slow)
    uncounted()
    memory.try_out = lambda work, _: work()  # under a limit, which follows, each compilation would be done twice
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + SPARE, resource.RLIM_INFINITY))
    numbers = [args.only] if args.only is not None else range(args.first, args.cases)
    end = time.monotonic() + (args.seconds or 1e9)
    for i in numbers:
        if time.monotonic() > end:
            break
        rng = random.Random(f"{args.seed} {i}")
        kind = rng.choice(kinds)
        file, commands = KINDS[kind]
        command = rng.choice(commands).replace("{model}", "mutated").replace("{}", "mutated")
        data = mutated(rng, kind, seeds[kind])
        target = "mutated.ckpt" if ".ckpt" in file else "mutated"
        command = (
            command.replace("-lm mutated", "-lm mutated.ckpt")
            if command.startswith("info") and ".ckpt" in file
            else command
        )
        Path(target).write_bytes(data)
        if args.keep:
            shutil.copy(target, args.keep)
        print(json.dumps({"case": i, "kind": kind, "command": command}), file=report, flush=True)
        faulthandler.dump_traceback_later(LAST, exit=True)
        signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT)
        status, _, err, failed = run(command.split())
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        faulthandler.cancel_dump_traceback_later()
        if args.only is not None:
            sys.stderr.write(f"{command}\nstatus {status}\n{err}")
        if problem := fault(command, status, err, failed):
            print(
                json.dumps({"finding": i, "kind": kind, "command": command, "what": problem}), file=report, flush=True
            )
        for name in set(os.listdir()) - clean:
            shutil.rmtree(name) if os.path.isdir(name) else os.unlink(name)
    print(json.dumps({"done": True}), file=report, flush=True)


def slow(*_):
    raise Slow


def uncounted():
    """A case's limit is one of its own work: it stands still while numba compiles kernels for it."""
    from numba.core import event

    class Stopped(event.Listener):
        compiling, left = 0, 0.0

        def on_start(self, _):
            if not self.compiling:
                self.left, _ = signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            self.compiling += 1

        def on_end(self, _):
            self.compiling -= 1
            if not self.compiling and self.left:
                signal.setitimer(signal.ITIMER_VIRTUAL, self.left)

    event.register("numba:compile", Stopped())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-seed", type=int, default=1)
    parser.add_argument("-cases", type=int, default=1 << 60)
    parser.add_argument("-seconds", type=float)
    parser.add_argument("-kinds", nargs="+", choices=KINDS)
    parser.add_argument("-small", action="store_true", help="as the commands run, without kernels for small jobs")
    parser.add_argument("-only", type=int)
    parser.add_argument("-keep")
    parser.add_argument("-first", type=int, default=0)
    parser.add_argument("-child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return child(args)
    findings, ran = fuzz(sys.argv[1:])
    for finding in findings:
        print(f"case {finding['case']} {finding['kind']}: lmtk {finding['command']}\n{finding['what']}\n")
    print(f"{ran} cases, {len(findings)} findings")
    sys.exit(bool(findings))


def fuzz(args, environment=None):
    """([what is wrong], how many cases ran), in a process of its own, begun anew behind a case that ended it."""
    findings, ran, first, begun = [], 0, 0, time.monotonic()
    while True:
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as err:
            command = [sys.executable, __file__, *args, "-child", "-first", str(first)]
            how = {"cwd": folder, "env": environment or os.environ | {"OPENBLAS_NUM_THREADS": "1", "COLUMNS": "80"}}
            done, last = subprocess.run(command, stdout=subprocess.PIPE, stderr=err, **how), None
            err.seek(0)
            said = err.read().decode("utf-8", "replace")
        for line in map(json.loads, done.stdout.splitlines()):
            if "case" in line:
                last, ran = line, ran + 1
            elif "finding" in line:
                findings.append(line | {"case": line["finding"]})
        if "-only" in args:
            print(said, end="")
        if b'"done"' in done.stdout:
            return findings, ran
        if last is None:
            raise RuntimeError(said)
        findings.append(last | {"what": f"the process ended with {done.returncode}:\n{said[-3000:]}"})
        if "-only" in args:
            return findings, ran
        first = last["case"] + 1
        if "-seconds" in args and time.monotonic() - begun > float(args[args.index("-seconds") + 1]):
            return findings, ran


if __name__ == "__main__":
    main()
