"""The scripts of tests/bench run, at sizes that measure nothing, and print the rows that people look at."""

import re
import shlex
import subprocess
import sys

import pytest
from helpers import ENVIRONMENT, FILES, TESTS

SMALL = {
    "api": "-tokens 5000 -rounds 1",
    "classes": f"-text {FILES / 'nmt-train.en'} -numclasses 5 -lines 50 -few 3 -rounds 1",
    "documents": "-tokens 5000 -pieces 50 -rounds 1",
    "mpi": "-minibatch 4 -rounds 1",
    "ngram": "-tokens 5000 -rounds 1",
    "nmt_vs_torch": "-minibatch 2 -hidden 8 -rounds 1",
    "nplm_vs_torch": "-minibatch 2 -rounds 1 -threads 1",
    "scale": "-words 0.02 -ranks 2 -memory 50M",
    "stability": "-texts tiny -objectives 'nplm full,lstm sampled' -quick",
    "stability_nmt": "-languages grammar -pairs 300 -epochs 3 -hidden 16 -minibatches 10 -seeds 1 -rates default",
}


# what each prints, a pattern for each line that has to be there
LINES = {
    "api": ["load, s +[0-9.]+", "score, us a sentence +[0-9.]+", "score_many, us a word +[0-9.]+"],
    "classes": [r"nmt-train.en +5 +\d+ +[0-9.]+ +[0-9.]+ .* -\d+$"],
    "documents": [r"lmtk +\d+ documents/s", "(largest difference|datatrove or kenlm is missing)"],
    "mpi": [r"(MLP9 K=4: one process \d+ examples/s, 2 ranks [0-9.]+ times|mpi4py .* not installed)"],
    "ngram": [rf"{row}( +[0-9.]+){{5}}  lmtk" for row in ("np.sort", "lmtk ngram-count", "lmtk ppl", "lmtk -prune")],
    "nmt_vs_torch": [r"RNNsearch n=8 minibatch=2: lmtk \d+ words/s", r"beam 12: lmtk \d+ sentences/s"],
    "nplm_vs_torch": [r"MLP[19] .* K=2 threads=1: lmtk \d+ examples/s"] * 2,
    "scale": [rf" +0.0 +{row} +\d+( +[0-9.]+){{5}}" for row in ("one", "memory", "2 ranks", "2 nodes")],
    "stability": [r"default rate / best, worst +tiny", r"10 runs; "],
    "stability_nmt": [r"grammar\t300\t16\t3\t10\t1\tdefault\t", "1 runs; "],
}


def test_every_script_is_here():
    assert sorted(SMALL) == sorted(LINES) == sorted(path.stem for path in (TESTS / "bench").glob("*.py"))


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", SMALL)
def test_a_script_prints_its_rows(name, tmp_path):
    line = [sys.executable, TESTS / "bench" / f"{name}.py", *shlex.split(SMALL[name])]
    done = subprocess.run(line, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    for pattern in LINES[name]:
        assert re.search(f"^{pattern}", done.stdout, re.M), f"no line like {pattern} in\n{done.stdout}"
