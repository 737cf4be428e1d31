"""A share of what tests/fuzz.py finds, the same each time; by hand it runs for hours: python tests/fuzz.py -seed 7."""

import os

import fuzz
import pytest
from conftest import ENVIRONMENT

CASES = 1000


def shown(findings):
    return "\n".join(f"{f['case']} lmtk {f['command']}\n{f['what']}" for f in findings)


@pytest.mark.parametrize("how", ["", "-small"])
def test_mutated_files_are_read_or_are_a_line(how):
    findings, ran = fuzz.fuzz(["-seed", "1", "-cases", str(CASES), *how.split()])
    assert not findings, shown(findings)
    assert ran == CASES


def test_kernels_stay_in_bounds(tmp_path):
    environment = os.environ | ENVIRONMENT | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    arguments = ["-seed", "2", "-cases", "250", "-kinds", "backoff", "class-ngram"]
    findings, ran = fuzz.fuzz(arguments, environment)
    assert not findings, shown(findings)
    assert ran == 250
