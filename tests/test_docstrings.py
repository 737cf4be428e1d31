"""The names between backticks in docstrings and comments exist: `function`, `module.function`."""

import ast
import re
from pathlib import Path

import pytest

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
MODULES = {}  # the names in all modules of a name, such as the two called `kernels`
for path in FILES:
    MODULES.setdefault(path.stem, set()).update(names_in(path))
EVERYWHERE = set().union(*MODULES.values(), MODULES, FOLDERS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(LMTK)))
def test_names_in_docstrings_exist(path):
    for name in NAME.findall(path.read_text()):
        *owner, last = name.split(".")
        is_module = owner and owner[-1] in MODULES and owner[-1] not in FOLDERS
        assert last in (MODULES[owner[-1]] if is_module else EVERYWHERE), name


def test_a_name_that_does_not_exist_is_found():
    assert "names_in" not in EVERYWHERE and "score_text" in MODULES["walking"]
