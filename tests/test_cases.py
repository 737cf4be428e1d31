"""Golden cases: each folder below cases/ is a command and what it prints.

cmd: a shell script, its first line a comment that says what it shows and where the figures come from; it runs by
`sh -eu` in an empty folder that holds a copy of files/. out, err, status: what is expected; nothing, nothing and 0
where the file is absent. tol: a relative tolerance for numbers, else every byte counts. $FILES is tests/files, $BIN
is bin. Digits that depend on the processor, as those of trained models and of sums do, need a tol. Whole numbers are
always exact.

Commands are forked from a process that has imported lmtk (`forking`), unless the script needs processes of its own.
"""

import math
import re
import shutil
import subprocess

import pytest
from helpers import ENVIRONMENT, TESTS

from lmtk.cli import PROGRAMS
from lmtk.commands import COMMANDS

CASES = sorted(cmd.parent for cmd in (TESTS / "cases").glob("*/*/cmd"))
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
PADDED = re.compile(" *" + NUMBER.pattern)
# what shows that a script closes or opens streams, sets limits, sends signals to commands, sets what Python reads when
# it starts, or needs the launcher in bin/
PROCESSES = re.compile(
    r"&-|[3-9][<>]|/dev/(fd|std)|/proc/|ulimit|(?<!os\.)kill|timeout|trap|exec |PYTHON|mpiexec|\bmake -|ln -s \$BIN"
)


def same(actual, expected, tol):
    """Whether two texts are equal, but for fractions, which may differ by the relative tolerance, and for blanks before
    numbers.
    """
    if actual == expected or tol is None:
        return actual == expected
    if PADDED.sub("#", actual) != PADDED.sub("#", expected):
        return False
    pairs = zip(NUMBER.findall(actual), NUMBER.findall(expected), strict=True)
    return all(a == b or is_close(a, b, tol) for a, b in pairs)


def is_close(a, b, tol):
    """Whether two numbers, as texts, are not both whole, and within a relative tolerance."""
    whole = a.lstrip("+-").isdigit() and b.lstrip("+-").isdigit()
    return not whole and math.isclose(float(a), float(b), rel_tol=tol)


def test_whole_numbers_are_exact_and_fractions_relative():
    assert same("4531 words, p 0.0009", "4531 words, p 0.000900001", 1e-3)
    assert not same("4531 words", "4534 words", 1e-3) and not same("p 0.0001", "p 0.0009", 1e-3)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.parent.name}/{c.name}")
def test_case(case, tmp_path, request, forked):
    if (case / "files").is_dir():
        shutil.copytree(case / "files", tmp_path, dirs_exist_ok=True)
    script = (case / "cmd").read_text()
    assert script.startswith("# "), "the first line says what the case shows"
    done = subprocess.run(
        ["sh", "-euc", script],
        cwd=tmp_path,
        env=ENVIRONMENT if PROCESSES.search(script) else forked,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
    )
    actual = {
        "out": done.stdout.decode("utf-8", "surrogateescape"),
        "err": done.stderr.decode("utf-8", "surrogateescape"),
        "status": f"{done.returncode}\n",
    }
    nothing = {"out": "", "err": "", "status": "0\n"}
    if request.config.getoption("--update"):
        for name, text in actual.items():
            path = case / name
            if text == nothing[name]:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(text.encode("utf-8", "surrogateescape"))
        return
    tol = float((case / "tol").read_text()) if (case / "tol").exists() else None
    for name, text in actual.items():
        path = case / name
        expected = path.read_bytes().decode("utf-8", "surrogateescape") if path.exists() else nothing[name]
        assert same(text, expected, tol), f"{name}: found\n{text}\nexpected\n{expected}"


def test_every_command_and_every_program_has_a_case():
    assert {case.parent.name for case in CASES} == {*COMMANDS, "cli", "programs"}
    scripts = "\n".join((case / "cmd").read_text() for case in CASES)
    assert [name for name in PROGRAMS if not re.search(rf"(^|[ /;|(]){name}( |$)", scripts, re.M)] == []


def test_every_file_below_cases_belongs_to_a_case():
    names = {"cmd", "out", "err", "status", "tol", "files"}
    files = [path.relative_to(TESTS / "cases").parts for path in (TESTS / "cases").rglob("*") if path.is_file()]
    assert [parts for parts in files if len(parts) < 3 or parts[2] not in names] == []
    assert {parts[:2] for parts in files} == {(case.parent.name, case.name) for case in CASES}
