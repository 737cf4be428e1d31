"""Counts what makes lmtk hard to take over.

`python tests/counters.py` prints each count, the limit that tests/test_counters.py enforces, and the target. A limit
above its target is lowered whenever the count has fallen.
"""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

LMTK = Path(__file__).parent.parent / "lmtk"
# names of values and functions that say nothing of their content
FILLERS = {"found", "given", "own", "there", "some", "mine", "here", "told", "what", "odd", "known"}
FILLERS |= {"of", "how", "which"}
# records of lmtk.ngram without n-grams: the form of a file, the files to count, how to smooth an order and a model
NO_NGRAMS = {"printing.Layout", "collection.Sources", "methods.Method", "methods.Recipe"}
FILES = Path(__file__).parent / "files"

# a profile of one small job: the modules of lmtk.ngram that it enters, and how often a call goes from one to another
PROFILE = """
import sys
from lmtk import cli
modules, switches = set(), 0

def follow(frame, event, argument):
    global switches
    running = frame.f_code.co_flags & 2  # a function, not a module or class that is imported
    if event == "call" and running and frame.f_globals.get("__name__", "").startswith("lmtk.ngram"):
        name = frame.f_globals["__name__"]
        modules.add(name)
        caller = frame.f_back.f_globals.get("__name__", "")
        switches += caller.startswith("lmtk.ngram") and caller != name

sys.argv[1:] = ["ngram-count", "-text", sys.argv[1], "-order", "3", "-lm", "/dev/null"]
sys.setprofile(follow)
try:
    cli.main()
except SystemExit:
    pass
sys.setprofile(None)
print(len(modules), switches)
"""


def sources(folder=""):
    return sorted((LMTK / folder).rglob("*.py"))


@cache
def functions(path):
    """(name, number of parameters, number of lines) of each function in a file."""
    nodes = ast.walk(ast.parse(path.read_text()))
    every = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    return [(f.name, parameters(f), f.end_lineno - f.lineno + 1) for f in every]


def parameters(function):
    arguments = function.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def many_parameters():
    """Functions with more than seven parameters."""
    return [f"{p.stem}.{name}" for p in sources() for name, number, _ in functions(p) if number > 7]


def long_functions(lines):
    """Functions with more than so many lines."""
    return [f"{p.stem}.{name}" for p in sources() for name, _, length in functions(p) if length > lines]


def records():
    """Record classes for n-grams, in lmtk.ngram: dataclasses and named tuples."""
    names = []
    for path in sources("ngram"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                marks = [ast.unparse(x) for x in (*node.decorator_list, *node.bases)]
                if any("dataclass" in x or "NamedTuple" in x for x in marks):
                    names.append(f"{path.stem}.{node.name}")
    return [name for name in names if name not in NO_NGRAMS]


def asking_pays():
    """Lines that ask whether kernels pay for a job of some size."""
    lines = (line for p in sources() for line in p.read_text().splitlines())
    return [line for line in lines if "pays(" in line and not line.lstrip().startswith("def ")]


def filler_names():
    """Variables, parameters, fields, functions and classes that have one of the FILLERS as their name."""
    names = []
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            name = node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else ""
            name = node.arg if isinstance(node, ast.arg) else name
            name = node.name if isinstance(node, ast.FunctionDef | ast.ClassDef) else name
            names += [f"{path.stem}.{name}"] * (name in FILLERS)
    return names


def lines_of(folder):
    return sum(len(p.read_text().splitlines()) for p in sources(folder))


def small_job():
    """(modules of lmtk.ngram entered, calls from one to another) by ngram-count of a small text to an ARPA file."""
    run = [sys.executable, "-c", PROFILE, str(FILES / "tr.txt")]
    modules, switches = subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()
    return int(modules), int(switches)


# what is counted: (the limit, the target)
LIMITS = {
    "record classes for n-grams": (14, 14),
    "lines that ask `pays`": (12, 12),
    "functions with more than 7 parameters": (4, 4),
    "functions of more than 60 lines": (6, 6),
    "functions of more than 100 lines": (0, 0),
    "names that say nothing, such as `given`": (0, 0),
    "modules that a small ngram-count enters": (15, 16),
    "calls between modules of a small ngram-count": (63, 64),
    "lines of lmtk/ngram": (9000, 9000),
    "lines of lmtk/machine": (1400, 1400),
}


def counters():
    """The counts, in the order of LIMITS."""
    modules, switches = small_job()
    functions = len(long_functions(60)), len(long_functions(100))
    return [
        len(records()),
        len(asking_pays()),
        len(many_parameters()),
        *functions,
        len(filler_names()),
        modules,
        switches,
        lines_of("ngram"),
        lines_of("machine"),
    ]


if __name__ == "__main__":
    print(f"{'':50}{'count':>8}{'limit':>8}{'target':>8}")
    for count, (name, (limit, target)) in zip(counters(), LIMITS.items(), strict=True):
        print(f"{name:50}{count:8}{limit:8}{target:8}")
