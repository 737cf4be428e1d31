"""The scripts of tests/bench run, at sizes that measure nothing: what they say of speed is looked at by people."""

import shlex
import subprocess
import sys

import pytest
from helpers import ENVIRONMENT, FILES, TESTS

SMALL = {
    "api": "-tokens 5000 -rounds 1",
    "classes": f"-text {FILES / 'nmt-train.en'} -numclasses 5 -lines 50 -few 3 -rounds 1",
    "mpi": "-minibatch 4 -rounds 1",
    "ngram": "-tokens 20000 -rounds 1",
    "nmt_vs_torch": "-minibatch 2 -hidden 8 -rounds 1",
    "nplm_vs_torch": "-minibatch 2 -rounds 1 -threads 1",
    "scale": "-words 0.02 -ranks 2 -memory 50M",
    "stability": "-texts tiny -objectives 'nplm full,lstm sampled' -quick",
    "stability_nmt": "-languages grammar -pairs 300 -epochs 3 -hidden 16 -minibatches 10 -seeds 1 -rates default",
}


def test_every_script_is_here():
    assert sorted(SMALL) == sorted(path.stem for path in (TESTS / "bench").glob("*.py"))


@pytest.mark.parametrize("name", SMALL)
def test_script_runs(name, tmp_path):
    line = [sys.executable, TESTS / "bench" / f"{name}.py", *shlex.split(SMALL[name])]
    done = subprocess.run(line, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.strip()
