"""Time of ngram-class and the likelihood that it reaches, by the number of classes, beside SRILM's ngram-class.

A pass of the exchange is bound by look-ups of x ln x: two for each class that a word may move to and each class among
its neighbours, after it and before it. The reference is numpy's look-up of as many small numbers in as large a table,
taken in the same round. SRILM's merging takes long, so that it gets few lines and few classes; its classes and ours are
judged by the same likelihood, log10 p. Times are medians of the rounds, in seconds of processor time; "command" has
the start of Python and the reading of the text in it.
"""

import argparse
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from functools import partial

from ngram import draw, measured

SRILM = "ngram-class"
TIMES = 10_000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-text", nargs="+", help="texts; else words are drawn at random")
    parser.add_argument("-vocab", help="a word list, else all words")
    parser.add_argument("-stream", action="store_true", help="each text is one running text")
    parser.add_argument("-numclasses", type=int, nargs="+", default=[100, 500])
    parser.add_argument("-lines", type=int, default=3000, help="lines for SRILM")
    parser.add_argument("-few", type=int, default=50, help="classes for SRILM")
    parser.add_argument("-rounds", type=int, default=3)
    args = parser.parse_args()
    options = (["-vocab", args.vocab] if args.vocab else []) + ["-stream"] * args.stream
    with tempfile.TemporaryDirectory() as folder:
        texts = args.text or [draw(os.path.join(folder, "text"), 500_000)]
        columns = f"{'passes':>8}{'s':>8}{'ns a look-up':>14}{'numpy':>7}{'command s':>11}{'log10 p':>12}"
        print(f"{'text':16}{'classes':>8}{columns}")
        for text in texts:
            for G in args.numclasses:
                print(f"{os.path.basename(text):16}{G:8}{row(text, G, args, options)}")
        few = os.path.join(folder, "few")
        with open(texts[0], "rb") as lines, open(few, "wb") as out:
            out.writelines(line for line, _ in zip(lines, range(args.lines)))
        beside_srilm(few, args, options, os.path.join(folder, "classes"))


def row(text, G, args, options):
    """The columns for one text and number of classes."""
    import numpy as np

    from lmtk.ngram.classes import induction
    from lmtk.ngram.counting.collection import Sources, collect
    from lmtk.text.corpus import Marks
    from lmtk.text.vocab import EOS, SOS, read_vocab

    marks = Marks.from_options(False, False, args.stream)
    data = induction.bigrams(collect(Sources([text], [], 2, read_vocab(args.vocab) if args.vocab else None, marks)))
    words = induction.by_use(data, [w for w, word in enumerate(data.words) if data.uses[w] and word not in (SOS, EOS)])
    small = np.random.default_rng(1).integers(0, 100, 1 << 12)
    out = np.empty(len(small))
    inside, numpys, commands = [], [], []
    for i in range(args.rounds + 1):
        state = induction.Exchange(data, induction.frequency_classes(data, words, G), G, words)
        moved = []
        seconds = measured(partial(moved.extend, (m for share, m in induction.passes(state) if share == 1)))[1]
        taken = measured(partial(look_up, state.f, small, out))[1]
        command = measured(lambda: run("lmtk", text, G, options) and None)[0]
        if i:  # the first round compiles
            inside.append(seconds)
            numpys.append(taken / len(small) / TIMES * 1e9)
            commands.append(command)
    # the classes next to each word, as they are at the end
    free = np.isin(np.arange(len(data.words)), words)
    after = {*zip(data.v[free[data.v]].tolist(), state.g[data.w[free[data.v]]].tolist())}
    before = {*zip(data.w[free[data.w]].tolist(), state.g[data.v[free[data.w]]].tolist())}
    look_ups = 2 * G * (len(after) + len(before)) * len(moved)
    s, numpy, command = map(statistics.median, (inside, numpys, commands))
    L = induction.log_likelihood(state) / math.log(10)
    return f"{len(moved):8}{s:8.2f}{s / look_ups * 1e9:14.2f}{numpy:7.2f}{command:11.2f}{L:12.0f}"


def look_up(table, places, out):
    for _ in range(TIMES):
        table.take(places, out=out, mode="clip")


def run(program, text, G, options, *more):
    """Make classes; what was said on standard error."""
    line = [program] if program == SRILM else [sys.executable, "-m", "lmtk", "ngram-class", "-debug", "1"]
    line += ["-text", text, "-numclasses", str(G), *options, "-classes", os.devnull, *more]
    return subprocess.run(line, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True).stderr


def beside_srilm(text, args, options, made):
    """Their merging, ours and the exchange: times as ratios to ours of the same kind, likelihoods as they are."""
    if shutil.which(SRILM) is None:
        print(f"{SRILM} is not on PATH: no comparison with it")
        return
    if args.stream:
        print("SRILM has no -stream: sentences here")
        options = [o for o in options if o != "-stream"]
    works = {
        "lmtk exchange": lambda: run("lmtk", text, args.few, options),
        "lmtk -incremental": lambda: run("lmtk", text, args.few, options, "-incremental", "-classes", made),
        "SRILM -incremental": lambda: run(SRILM, text, args.few, options, "-incremental", "-classes", made),
    }
    times, said = {name: [] for name in works}, {}
    for i in range(args.rounds + 1):
        for name, work in works.items():
            seconds = measured(lambda name=name, work=work: said.update({name: work()}))[0]
            if i:
                times[name].append(seconds)
    judged = run("lmtk", text, args.few, options, "-init", made, "-iterations", "0")
    said["SRILM -incremental"] = judged
    medians = {name: statistics.median(column) for name, column in times.items()}
    print(f"the first {args.lines} lines in {args.few} classes")
    print(f"{'':20}{'s':>8}{'of SRILM':>10}{'log10 p':>14}")
    for name, s in medians.items():
        L = re.findall(r"logprob= (\S+)", said[name])[-1]
        print(f"{name:20}{s:8.2f}{s / medians['SRILM -incremental']:10.2f}{L:>14}")


if __name__ == "__main__":
    main()
