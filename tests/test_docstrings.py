"""The names between backticks in docstrings and comments exist: `function`, `module.function`."""

import ast
import re
from functools import cache
from pathlib import Path

LMTK = Path(__file__).parent.parent / "lmtk"
FILES = sorted(LMTK.rglob("*.py"))
NAME = re.compile(r"`([A-Za-z_][\w.]*)`")


def names_in(path):
    """The names of a module: what it defines, imports, calls and takes, and its strings that could be names."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        for field in ("name", "asname", "id", "arg", "attr", "value"):
            value = getattr(node, field, None)
            names.add(value.split(".")[-1] if isinstance(value, str) and len(value) < 50 else None)
    return names


FOLDERS = {path.parent.name for path in FILES}


@cache
def names_of_all():
    """{name of a module: the names in all modules of this name, such as the two called `kernels`}, and all names."""
    modules = {}
    for path in FILES:
        modules.setdefault(path.stem, set()).update(names_in(path))
    return modules, set().union(*modules.values(), modules, FOLDERS)


def exists(name):
    modules, everywhere = names_of_all()
    *owner, last = name.split(".")
    is_module = owner and owner[-1] in modules and owner[-1] not in FOLDERS
    return last in (modules[owner[-1]] if is_module else everywhere)


def test_names_in_docstrings_exist():
    names = ((str(path.relative_to(LMTK)), name) for path in FILES for name in NAME.findall(path.read_text()))
    assert [(path, name) for path, name in names if not exists(name)] == []


def test_a_name_that_does_not_exist_is_found():
    assert not exists("names_in") and exists("walking.score_text") and not exists("walking.names_in")
