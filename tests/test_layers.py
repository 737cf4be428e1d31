"""The shape of the code: imports go one way, and a command imports only what it needs."""

import ast
import re
import subprocess
import sys
from functools import cache

import pytest
from helpers import ENVIRONMENT, FILES, TESTS

from lmtk.commands import COMMANDS

ROOT = TESTS.parent
# a module imports from its own layer or an earlier one; folders and modules of lmtk/
LAYERS = [
    ["errors"],
    ["machine"],
    ["files"],
    ["text"],
    ["em", "exponential", "lm", "units"],
    ["ngram", "nplm", "nmt"],
    ["tagging", "kenlm"],
    ["joint"],
    ["fst"],
    ["reports"],
    ["nbest", "run"],
    ["jobs"],
    ["commands"],
    ["api", "arguments", "functions", "kenlm_module"],
    ["programs", "help"],
    ["precompile"],
    ["cli"],
]
RANK = {name: i for i, names in enumerate(LAYERS) for name in names}
APART = {"ngram", "nplm", "nmt"}


@cache
def imports(path):
    """The lmtk modules that a file imports anywhere, as their first name below lmtk."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("lmtk"):
            parts = node.module.split(".")
            names += [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            names += [a.name.split(".")[1] for a in node.names if a.name.startswith("lmtk.")]
    return names


def test_imports_go_one_way():
    wrong = []
    for path in sorted((ROOT / "lmtk").rglob("*.py")):
        importer = path.relative_to(ROOT / "lmtk").with_suffix("").parts[0]
        for name in imports(path) if importer not in ("__init__", "__main__") else ():
            apart = {name, importer} <= APART and name != importer
            if name in RANK and (RANK[name] > RANK[importer] or apart):
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert wrong == []


def test_contributing_lists_the_folders_in_the_order_of_imports():
    table = (ROOT / "CONTRIBUTING.md").read_text().split("## Where things are")[1].split("\n## ")[0]
    rows = [re.findall(r"`(\w+)", names) for names in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)]
    place = {name: i for i, names in enumerate(rows) for name in names}
    listed = {path.stem for path in (ROOT / "lmtk").iterdir() if not path.name.startswith("_")}
    assert place.keys() >= listed
    for name in listed:
        path = ROOT / "lmtk" / name
        for module in path.rglob("*.py") if path.is_dir() else [path.with_suffix(".py")]:
            below = [other for other in imports(module) if place.get(other, 0) > place[name]]
            assert not below, f"{module} imports {below}"


def test_every_folder_says_what_it_does():
    folders = (ROOT / "lmtk").rglob("__init__.py")
    assert [path for path in folders if not ast.get_docstring(ast.parse(path.read_text()))] == []


def test_the_table_of_jobs_names_what_each_command_calls():
    table = (ROOT / "lmtk/jobs/__init__.py").read_text()
    rows = re.findall(r"^\| ([\w-]+) \| (\w+).* \| (\w+Job) \| (\w+) \|$", table, re.MULTILINE)
    assert [command for command, *_ in rows] == sorted(COMMANDS)
    for command, module, job, function in rows:
        code = (ROOT / f"lmtk/commands/{command.replace('-', '_')}.py").read_text()
        assert f"from lmtk.jobs.{module} import {job}, {function}\n" in code


def modules_after(*arguments):
    """The modules loaded when a command has ended."""
    code = (
        "import sys, lmtk.cli\n"
        f"sys.argv = ['lmtk', *{list(arguments)!r}]\n"
        "try: lmtk.cli.main()\n"
        "except SystemExit: pass\n"
        "print('MODULES', *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("MODULES")[2].split())


def test_help_is_light():
    loaded = modules_after("-help")
    assert not loaded & {"typer", "numpy", "numba", "rich", "mpi4py", "lmtk.commands.ppl"}


@pytest.mark.parametrize("more", [[], ["-format", "kenlm", "-debug", "2"], ["-counts", "/dev/null"]])
def test_a_small_ppl_does_without_numba(more):
    loaded = modules_after("ppl", "-lm", str(FILES / "wb.arpa"), "-text", str(FILES / "te.txt"), *more)
    assert "numpy" in loaded and ("lmtk.reports.kenlm" in loaded) == ("kenlm" in more)
    assert not loaded & {
        "numba",
        "llvmlite",
        "rich",
        "mpi4py",
        "pydantic",
        "safetensors",
        "lmtk.commands.mix",
        "lmtk.nplm.network",
    }
