"""Little memory (ulimit -v): one line, status 1, whichever library would meet the limit."""

import subprocess

import pytest
from helpers import ENVIRONMENT, FILES

COMMANDS = {
    "ppl": f"ppl -lm {FILES}/wb.arpa -text {FILES}/te.txt",
    "nplm": f"nplm-train -text {FILES}/tr.txt -hidden 2 -features 2 -epochs 1 -threads 2 -quiet -lm out",
    "nmt": f"translate -model {FILES}/nmt.bin -text {FILES}/nmt-held.en -write /dev/null",
}


@pytest.mark.parametrize("name, megabytes", [("ppl", 60), ("nplm", 105), ("nplm", 135), ("nmt", 90), ("nmt", 125)])
def test_little_memory_is_one_line(tmp_path, name, megabytes):
    command = f"ulimit -v {megabytes << 10}; exec lmtk {COMMANDS[name]}"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(f"lmtk {COMMANDS[name].split()[0]}: out of memory") and done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
