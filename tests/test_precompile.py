"""lmtk -compile runs jobs of every kind, and the jobs that it runs exist."""

import subprocess
from itertools import chain

import pytest
from helpers import ENVIRONMENT

from lmtk import cli, precompile
from lmtk.commands.spelling import spelled, table


def test_its_jobs_have_options_that_exist():
    for command in (job for job in chain(*precompile.STAGES) if isinstance(job, str)):
        name, *words = command.split()
        if name == "-as":
            assert words[0] in cli.PROGRAMS
            continue
        spelled(words, table(cli.click_command(name)), cli.INPUT.get(name), False)


@pytest.mark.skipif("not config.getoption('--all')", reason="runs seventy jobs")
def test_all_jobs_run():
    done = subprocess.run(["lmtk", "-compile"], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.splitlines()[-1].startswith("compiled in ")


def test_a_job_that_fails_is_named(monkeypatch, capsys):
    jobs = ["vocab -text missing -write words", "vocab -text text -write words", precompile.score_from_python]
    monkeypatch.setattr(precompile, "STAGES", [[job] for job in jobs])  # there is no model for the last one
    assert precompile.precompile(cli.carry_out) == 1
    out, err = capsys.readouterr()
    assert out.startswith("compiled in") and err == (
        "lmtk: this job failed, so its kernels may not be compiled: lmtk vocab -text missing -write words\n"
        "lmtk: this job failed, so its kernels may not be compiled: score_from_python\n"
    )
