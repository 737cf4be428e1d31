"""Speed of ngram-count on a large text: lmtk's stages and whole command beside KenLM's lmplz and SRILM's ngram-count;
of the way from ARPA to a binary file of lmtk or of KenLM, beside KenLM's build_binary; of a perplexity by that file and
by smaller forms of it, beside KenLM's query; and of weights made anew, beside SRILM's ngram.

The job is an interpolated modified Kneser-Ney model, every n-gram kept, written as ARPA. It is bound by random
accesses to memory (a sort of positions, the look-ups of contexts) and by the bytes of the file; the
reference for the stages is one np.sort of as many 64-bit keys as the text has positions, taken in the same round.
Marks ARPA is bound by instructions (a step a byte, and branches at the ends of words and numbers that cannot be
foretold), then by the sort of its rows, a line of memory a row and pass; writing a binary file by its bytes; scoring by
two random reads a token and order.
"wall/lmtk" is the wall time over that of the command of ours that is named behind it. Each figure is the median of the
rounds, in seconds, as wall time and processor time, and in MB, the most that a command took. Programs that are not on
PATH are named and left out.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ORDER = 5
# a command of ours -> what does the same job, or a part of it
RIVALS = {
    "lmtk -kenlm": ["lmtk -kenlm", "lmplz"],
    "lmtk ARPA -> binary": ["lmtk ARPA -> binary", "ARPA -> model", "model -> binary", "compact", "8 bits"],
    "lmtk ARPA -> probing": ["lmtk ARPA -> probing", "build_binary"],
    "lmtk ARPA -> trie": ["lmtk ARPA -> trie", "build_binary trie"],
    "lmtk text -> binary": ["lmtk text -> binary", "lmplz, build_binary"],
    "lmtk text -> trie": ["lmtk text -> trie", "lmplz, build_binary trie"],
    "lmtk ppl": ["lmtk ppl", "lmtk ppl, probing", "query"],
    "lmtk ppl, compact": ["lmtk ppl, compact", "lmtk ppl, 8 bits", "query of a trie"],
    "lmtk ppl, held out": ["lmtk ppl, held out", "query, held out", "query of a trie, held out"],
    "lmtk -renorm": ["lmtk -renorm", "SRILM -renorm"],
    "lmtk -prune": ["lmtk -prune", "SRILM -prune"],
    "lmtk -mix-lm": ["lmtk -mix-lm", "SRILM -mix-lm"],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-text", help="the text; else words are drawn at random")
    parser.add_argument("-tokens", type=int, default=2_000_000, help="words to draw")
    parser.add_argument("-held", help="a text to score by the model of the other; else that is scored twice")
    parser.add_argument("-rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = args.text or draw(os.path.join(folder, "text"), args.tokens)
        works = {**stages(text, folder), **commands(text, args.held or text, folder)}
        times = {name: [] for name in works}
        for i in range(args.rounds + 1):
            for name, work in works.items():
                seconds = measured(work)
                if i:  # the first round compiles, and fills caches
                    times[name].append(seconds)
        medians = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in times.items()}
    sort = medians["np.sort"][1]
    print(f"{text if args.text else 'random words'}, order {ORDER}, {len(os.sched_getaffinity(0))} cores")
    print(f"{'':24}{'wall s':>9}{'CPU s':>9}{'CPU/sort':>10}{'MB':>8}{'wall/lmtk':>11}  of")
    for name, (wall, cpu, memory) in medians.items():
        ours = next((ours for ours, theirs in RIVALS.items() if name in theirs), "lmtk ngram-count")
        print(f"{name:24}{wall:9.2f}{cpu:9.2f}{cpu / sort:10.2f}{memory:8.0f}{wall / medians[ours][0]:11.2f}  {ours}")


def draw(path, n):
    """A text of n words from Zipf's law, each line a mixture of few of them, so that longer n-grams repeat."""
    import numpy as np

    random = np.random.default_rng(1)
    words = random.zipf(1.2, n) % 200_000
    words[random.random(n) < 0.5] %= 97
    with open(path, "w") as out:
        for start in range(0, n, 25):
            out.write(" ".join(f"w{i:x}" for i in words[start : start + 25].tolist()) + "\n")
    return path


def measured(work):
    """Wall and processor seconds and MB: as `work` says, else those of this process."""
    wall, cpu = time.perf_counter(), time.process_time()
    return work() or (time.perf_counter() - wall, time.process_time() - cpu, 0)


def stages(text, folder):
    """name -> function; each stage goes on from what the one before left."""
    import numpy as np

    from lmtk.files.registry import load
    from lmtk.machine import large
    from lmtk.ngram.counting.collection import Sources, collect
    from lmtk.ngram.estimate import suffix
    from lmtk.ngram.estimate.buckets import assembly, estimating, writing
    from lmtk.ngram.estimate.methods import Recipe, lmplz
    from lmtk.ngram.model import backoff
    from lmtk.text.corpus import Marks
    from lmtk.text.vocab import make_vocab

    large.LARGE |= {"text": 1, "ngrams": 1}  # the stages are those of large texts
    left, marks = {}, Marks(blank=True)

    def read():
        counted = collect(Sources([text], [], ORDER, marks=marks), as_text=True)
        left["vocab"] = make_vocab(counted.words, True)
        left["ids"] = [*counted.parts(left["vocab"])]

    def order():
        ids, W = left["ids"], len(left["vocab"].words) - 1
        left["ngrams"] = suffix.suffix_order(ids, sum(map(len, ids)), ORDER, W, marks)

    def smooth():
        recipe = Recipe([lmplz(k) for k in range(1, ORDER + 1)], (0.5, 1, 1.5), kenlm=True)
        left["model"] = estimating.estimate(estimating.count(left["ngrams"], left["vocab"], recipe, types=True))

    def write():
        with open(os.devnull, "wb") as out:
            writing.write_arpa(out, left["model"])

    def write_binary():
        with open(os.devnull, "wb") as out:
            backoff.write_binary(out, assembly.backoff_of(left["model"]))

    def read_arpa():
        load(left["arpa"])

    def sort():
        np.sort(left["keys"])

    read()
    order()
    smooth()
    left["arpa"] = os.path.join(folder, "stages.arpa")
    with open(left["arpa"], "wb") as out:
        writing.write_arpa(out, left["model"])
    left["keys"] = np.random.default_rng(1).integers(0, 1 << 62, sum(map(len, left["ids"])))
    named = {"np.sort": sort, "text -> ids": read, "ids -> suffix order": order}
    named |= {"n-grams -> model": smooth, "model -> ARPA": write}
    return named | {"model -> binary": write_binary, "ARPA -> model": read_arpa}


def commands(text, held, folder):
    """name -> function for the whole commands."""
    names = "arpa", "lmplz.arpa", "binary", "probing.binary", "compact", "8bits", "trie", "pruned", "renormalized"
    arpa, theirs, binary, probing_binary, *forms, pruned, new = (os.path.join(folder, name) for name in names)
    own_probing, own_trie = os.path.join(folder, "own.probing"), os.path.join(folder, "own.trie")
    kept = [f"-gt{k}min" if i == 0 else "1" for k in range(3, ORDER + 1) for i in range(2)]
    options = ["-text", text, "-order", str(ORDER), "-kndiscount", "-interpolate", *kept, "-lm", arpa]
    lmplz = ["lmplz", "-o", str(ORDER), "-S", "2G", "--discount_fallback", "-T", folder]
    lmplz += ["--text", text, "--arpa", theirs]
    fallback = ["-discount-fallback", "default"]
    kenlm = ["-text", text, "-order", str(ORDER), "-kenlm", *fallback]
    ours = [sys.executable, "-m", "lmtk"]
    probing = ["build_binary", "probing"]
    srilm = ["ngram", "-order", str(ORDER), "-lm"]
    lines = {
        "lmtk -kenlm": [[*ours, "ngram-count", *kenlm, "-lm", arpa]],
        "lmtk ngram-count": [[*ours, "ngram-count", *options, *fallback]],
        "SRILM ngram-count": [["ngram-count", *options]],
        "lmplz": [lmplz],
        "lmtk ARPA -> binary": [[*ours, "ngram", "-lm", arpa, "-write-bin", binary]],
        "build_binary": [[*probing, arpa, probing_binary]],
        "lmtk text -> binary": [[*ours, "ngram-count", *kenlm, "-write-bin", binary]],
        "lmplz, build_binary": [lmplz, [*probing, theirs, probing_binary]],
        "lmtk ARPA -> probing": [[*ours, "-as", "build_binary", "probing", arpa, own_probing]],
        "lmtk ARPA -> trie": [[*ours, "-as", "build_binary", "trie", arpa, own_trie]],
        "lmtk text -> trie": [[*ours, "ngram-count", *kenlm, "-write-kenlm", own_trie, "-kenlm-type", "trie"]],
        "lmplz, build_binary trie": [lmplz, ["build_binary", "trie", theirs, forms[2]]],
        "lmtk ppl, probing": [[*ours, "ppl", "-lm", own_probing, "-text", text]],
        "lmtk ppl": [[*ours, "ppl", "-lm", binary, "-text", text]],
        "query": [["query", "-v", "summary", probing_binary]],
        "compact": [[*ours, "ngram", "-lm", arpa, "-write-bin", forms[0], "-compact"]],
        "8 bits": [[*ours, "ngram", "-lm", arpa, "-write-bin", forms[1], "-quantize", "8"]],
        "build_binary trie": [["build_binary", "trie", arpa, forms[2]]],
        "lmtk ppl, compact": [[*ours, "ppl", "-lm", forms[0], "-text", text]],
        "lmtk ppl, 8 bits": [[*ours, "ppl", "-lm", forms[1], "-text", text]],
        "query of a trie": [["query", "-v", "summary", forms[2]]],
        "lmtk ppl, held out": [[*ours, "ppl", "-lm", binary, "-text", held]],
        "query, held out": [["query", "-v", "summary", probing_binary]],
        "query of a trie, held out": [["query", "-v", "summary", forms[2]]],
        "lmtk -renorm": [[*ours, "ngram", "-lm", arpa, "-renorm", "-write-lm", new]],
        "SRILM -renorm": [[*srilm, arpa, "-renorm", "-write-lm", new]],
        "lmtk -prune": [[*ours, "ngram", "-lm", arpa, "-prune", "1e-8", "-write-lm", pruned]],
        "SRILM -prune": [[*srilm, arpa, "-prune", "1e-8", "-write-lm", pruned]],
        "lmtk -mix-lm": [[*ours, "ngram", "-lm", arpa, "-mix-lm", pruned, "-lambda", "0.6", "-write-lm", new]],
        "SRILM -mix-lm": [[*srilm, arpa, "-mix-lm", pruned, "-lambda", "0.6", "-write-lm", new]],
    }
    runs = {}
    for name, steps in lines.items():
        missing = [line[0] for line in steps if shutil.which(line[0]) is None]
        if missing:
            print(f"{missing[0]} is not on PATH: no comparison with it")
            continue
        runs[name] = lambda steps=steps, name=name: run(steps, held if "held out" in name else text)
    return runs


# a process has at least the memory of the one that starts it, so that a small one starts them
STARTER = """
import resource, subprocess, sys, time
wall = time.perf_counter()
status = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(time.perf_counter() - wall, used.ru_utime + used.ru_stime, used.ru_maxrss >> 10)
sys.exit(status)
"""


def output_of(line):
    """The file that a command line writes, or None."""
    if "build_binary" in line:
        return line[-1]
    options = "-write-bin", "-write-kenlm", "-write-lm", "--arpa", *(["-lm"] if "ngram-count" in line else [])
    return next((line[line.index(option) + 1] for option in options if option in line), None)


def run(steps, text):
    """Runs command lines: their wall and processor seconds, and the most memory that one of them took, in MB. No output
    is there before: to free its place on the disk takes some file systems longer than we take for 100 MB.
    """
    figures = []
    for line in steps:
        output = output_of(line)
        if output and os.path.exists(output):
            os.remove(output)
        with open(text) as words:
            command = [sys.executable, "-Sc", STARTER, *line]
            done = subprocess.run(command, check=True, stdin=words, capture_output=True).stdout
            figures.append([float(number) for number in done.split()])
    wall, cpu, memory = zip(*figures)
    return sum(wall), sum(cpu), max(memory)


if __name__ == "__main__":
    main()
