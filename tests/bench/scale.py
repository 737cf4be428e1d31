"""How ngram-count grows: texts of so many words by 1, 2 and 4 ranks of one thread each, and in bounded memory. "nodes"
are ranks that MPICH is told to take for as many machines, "ranks" have this one in common.

The job is an interpolated modified Kneser-Ney 5-gram model, nothing cut, written as ARPA. wall/one is the wall time
over that of one process of one thread on the same text in the same round; each figure is the median of the rounds. CPU
is that of all ranks, MB the most that one of them took, sent what the ranks sent one another, in bytes a word. Ranks
that wait for one another use the processor meanwhile. "memory" is one process with -memory. A text is the first words
of -text, which is read again from its beginning, its lines shuffled, where it is too short: such words are marked "*",
as few of their n-grams are new. Where mpi4py is missing ranks are left out.
"""

import argparse
import importlib.util
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from ngram import STARTER, draw


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-text", help="the text; else words are drawn at random")
    parser.add_argument("-words", type=float, nargs="+", default=[0.5, 1, 2], help="millions of words")
    parser.add_argument("-ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("-memory", default="300M")
    parser.add_argument("-rounds", type=int, default=1)
    args = parser.parse_args()
    mpiexec = Path(sys.executable).parent / "mpiexec"
    ranks = args.ranks if importlib.util.find_spec("mpi4py") and mpiexec.exists() else []
    print(f"{'M words':>8}{'':>10}{'n-grams':>12}{'wall s':>9}{'CPU s':>8}{'MB':>7}{'wall/one':>10}{'sent/word':>11}")
    with tempfile.TemporaryDirectory() as folder:
        for millions in args.words:
            text, words, again = cut(args.text, folder, int(millions * 1e6))
            jobs = {"one": (1, {}, []), "memory": (1, {}, ["-memory", args.memory])}
            for where, environment in (("ranks", {}), ("nodes", {"MPIR_CVAR_NOLOCAL": "1"})):
                jobs |= {f"{P} {where}": (P, environment, ["-mpi", "-debug", "1"]) for P in ranks}
            times = {name: [] for name in jobs}
            for _ in range(args.rounds):
                for name, job in jobs.items():
                    times[name].append(run(mpiexec, text, os.path.join(folder, "lm"), *job))
            one = statistics.median(x[0] for x in times["one"])
            for name, rows in times.items():
                wall, cpu, memory, sent, ngrams = (statistics.median(column) for column in zip(*rows))
                print(
                    f"{words / 1e6:7.1f}{'*' if again else ' '}{name:>10}{ngrams:12.0f}{wall:9.2f}{cpu:8.2f}"
                    f"{memory:7.0f}{wall / one:10.2f}{sent / words:11.1f}"
                )


def cut(text, folder, words):
    """A file of the first `words` of a text, how many it has, and whether the text is read again for them."""
    import random

    path, size, again = os.path.join(folder, "text"), 0, False
    text = text or draw(os.path.join(folder, "drawn"), words)
    with open(text, "rb") as stream:
        lines = stream.readlines()
    chance = random.Random(1)
    with open(path, "wb") as out:
        while size < words:
            for line in lines:
                out.write(line)
                size += len(line.split())
                if size >= words:
                    return path, size, again
            again = True
            chance.shuffle(lines)
    return path, size, again


def run(mpiexec, text, model, ranks, where, options):
    """Wall and processor seconds, the most memory of a process in MB, bytes sent, n-grams of the model."""
    line = [sys.executable, "-m", "lmtk", "ngram-count", "-text", text, "-order", "5", "-kenlm", "-discount-fallback"]
    line += ["-lm", model, *options]
    if ranks > 1:
        line = [str(mpiexec), "-n", str(ranks), *line]
    starter = STARTER.replace("stderr=subprocess.DEVNULL", "stderr=sys.stderr")
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | where
    command = [sys.executable, "-Sc", starter, *line]
    done = subprocess.run(command, check=True, capture_output=True, env=environment)
    wall, cpu, memory = map(float, done.stdout.split())
    sent = re.search(rb"sent one another (\d+) bytes", done.stderr)
    with open(model, "rb") as stream:
        head = stream.read(1 << 12)
    ngrams = sum(int(n) for n in re.findall(rb"^ngram \d+=(\d+)$", head, re.MULTILINE))
    return wall, cpu, memory, int(sent[1]) if sent else 0, ngrams


if __name__ == "__main__":
    main()
