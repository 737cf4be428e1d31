"""Mutated files of every kind are read, or are one line of error: a share of what mutation.py tries."""

import os

import mutation
import pytest
from helpers import BOUNDS_CHECKED


def shown(findings):
    return "\n".join(f"{f['case']} lmtk {f['command']}\n{f['what']}" for f in findings)


@pytest.mark.parametrize("how", ["", "-small"])
def test_mutated_files_are_read_or_are_a_line(how, amount, seed):
    cases = amount(150, 400)
    findings, ran = mutation.fuzz(["-seed", str(seed), "-cases", str(cases), *how.split()])
    assert not findings, f"seed {seed}\n{shown(findings)}"
    assert ran == cases


def test_kernels_stay_in_bounds(amount, seed):
    if not (cases := amount(0, 100)):
        pytest.skip("half a minute of compilation: with --all")
    arguments = ["-seed", str(seed + 1), "-cases", str(cases), "-kinds", "backoff", "class-ngram"]
    findings, ran = mutation.fuzz(arguments, os.environ | BOUNDS_CHECKED)
    assert not findings, f"seed {seed + 1}\n{shown(findings)}"
    assert ran == cases
