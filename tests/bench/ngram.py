"""Speed of ngram-count on a large text: lmtk's stages and whole command beside KenLM's lmplz and SRILM's ngram-count;
of the way from ARPA to a binary file, beside KenLM's build_binary; and of a perplexity by that file, beside KenLM's
query.

The job is an interpolated modified Kneser-Ney model, every n-gram kept, written as ARPA. It is bound by random
accesses to memory (a sort of positions, the look-ups of parents and suffixes) and by the bytes of the file; the
reference for the stages is one np.sort of as many 64-bit keys as the text has positions, taken in the same round.
Reading ARPA is bound by instructions (a step a byte, and branches at the ends of words and numbers that cannot be
foretold), then by the sort of its rows, a line of memory a row and pass; writing a binary file by its bytes; scoring by
two random reads a token and order.
"wall/lmtk" is the wall time over that of the command of ours that is named behind it. Each figure is the median of the
rounds, in seconds, as wall time and processor time. Programs that are not on PATH are named and left out.
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ORDER = 5
# a command of ours -> what does the same job, or a part of it
RIVALS = {
    "lmtk ARPA -> binary": ["lmtk ARPA -> binary", "build_binary", "ARPA -> model", "model -> binary"],
    "lmtk text -> binary": ["lmtk text -> binary", "lmplz, build_binary"],
    "lmtk ppl": ["lmtk ppl", "query"],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-text", help="the text; else words are drawn at random")
    parser.add_argument("-tokens", type=int, default=2_000_000, help="words to draw")
    parser.add_argument("-rounds", type=int, default=3)
    parser.add_argument("-plain", action="store_true", help="the stages without kernels too")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = given.text or draw(os.path.join(folder, "text"), given.tokens)
        works = {**stages(text, folder), **commands(text, folder)}
        if given.plain:
            works |= plain_stages(text, folder)
        times = {name: [] for name in works}
        for i in range(given.rounds + 1):
            for name, work in works.items():
                seconds = measured(work)
                if i:  # the first round compiles, and fills caches
                    times[name].append(seconds)
        medians = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in times.items()}
    sort = medians["np.sort"][1]
    print(f"{text if given.text else 'random words'}, order {ORDER}, {len(os.sched_getaffinity(0))} cores")
    print(f"{'':24}{'wall s':>9}{'CPU s':>9}{'CPU/sort':>10}{'wall/lmtk':>11}  of")
    for name, (wall, cpu) in medians.items():
        ours = next((ours for ours, theirs in RIVALS.items() if name in theirs), "lmtk ngram-count")
        print(f"{name:24}{wall:9.2f}{cpu:9.2f}{cpu / sort:10.2f}{wall / medians[ours][0]:11.2f}  {ours}")


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
    """Wall and processor seconds, those of child processes included."""

    def used():
        kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        return sum(x.ru_utime + x.ru_stime for x in map(resource.getrusage, kinds))

    wall, cpu = time.perf_counter(), used()
    work()
    return time.perf_counter() - wall, used() - cpu


def stages(text, folder):
    """name -> function; each stage goes on from what the one before left."""
    import numpy as np

    from lmtk.files.registry import load
    from lmtk.ngram import arpa, backoff
    from lmtk.ngram.counts import Counts, count_ids
    from lmtk.ngram.methods import Method
    from lmtk.ngram.smoothing import estimate
    from lmtk.text.corpus import Growing, Marks, read_ids
    from lmtk.text.vocab import UNK, make_vocab

    left = {}

    def read():
        index = Growing()
        index[UNK]
        ids, starts, _ = read_ids(text, index, Marks())
        left.update(ids=ids, starts=starts, words=index.words())
        # as the command does for large texts: the ids are the model's, so that the counts are its levels
        left["vocab"] = make_vocab(sorted(left["words"]))
        new = np.array([left["vocab"].index[word] for word in left["words"]], np.int32)
        left["ids"] = new[ids]

    def count():
        left["levels"] = count_ids(left["ids"], left["starts"], ORDER, len(left["words"]), True)

    def smooth():
        counts = Counts(left["vocab"].words, left["levels"], arranged=True)
        left["model"] = estimate(counts, left["vocab"], ORDER, [Method("kn", (), True)] * ORDER, (0.5, 1, 1.5))[0]

    def write():
        with open(os.devnull, "wb") as out:
            arpa.write_text(out, left["model"])

    def write_binary():
        with open(os.devnull, "wb") as out:
            backoff.write_binary(out, left["model"])

    def read_arpa():
        load(left["arpa"])

    def sort():
        np.sort(left["keys"])

    read()
    count()
    smooth()
    left["arpa"] = os.path.join(folder, "stages.arpa")
    with open(left["arpa"], "wb") as out:
        arpa.write_text(out, left["model"])
    left["keys"] = np.random.default_rng(1).integers(0, 1 << 62, len(left["ids"]))
    named = {"np.sort": sort, "text -> ids": read, "ids -> counts": count}
    named |= {"counts -> model": smooth, "model -> ARPA": write}
    return named | {"model -> binary": write_binary, "ARPA -> model": read_arpa}


def plain_stages(text, folder):
    """The same without kernels."""
    from lmtk.ngram import arpa, counts
    from lmtk.text import corpus

    def without_kernels(stage):
        def run():
            modules = (arpa, counts, corpus)
            kept, arpa.LARGE_FILE = [module.LARGE for module in modules], 1 << 60
            for module in modules:
                module.LARGE = 1 << 60
            try:
                stage()
            finally:
                arpa.LARGE_FILE = 1 << 21
                for module, large in zip(modules, kept):
                    module.LARGE = large

        return run

    return {
        f"plain {name}": without_kernels(stage) for name, stage in stages(text, folder).items() if name != "np.sort"
    }


def commands(text, folder):
    """name -> function for the whole commands."""
    names = "arpa", "lmplz.arpa", "binary", "probing.binary"
    arpa, theirs, binary, probing_binary = (os.path.join(folder, name) for name in names)
    kept = [f"-gt{k}min" if i == 0 else "1" for k in range(3, ORDER + 1) for i in range(2)]
    options = ["-text", text, "-order", str(ORDER), "-kndiscount", "-interpolate", *kept, "-lm", arpa]
    lmplz = ["lmplz", "-o", str(ORDER), "-S", "2G", "--discount_fallback", "-T", folder]
    lmplz += ["--text", text, "--arpa", theirs]
    fallback = ["-discount-fallback", "default"]
    ours = [sys.executable, "-m", "lmtk"]
    probing = ["build_binary", "probing"]
    lines = {
        "lmtk ngram-count": [[*ours, "ngram-count", *options, *fallback]],
        "SRILM ngram-count": [["ngram-count", *options]],
        "lmplz": [lmplz],
        "lmtk ARPA -> binary": [[*ours, "ngram", "-lm", arpa, "-write-bin", binary]],
        "build_binary": [[*probing, arpa, probing_binary]],
        "lmtk text -> binary": [[*ours, "ngram-count", *options[:-2], *fallback, "-write-bin", binary]],
        "lmplz, build_binary": [lmplz, [*probing, theirs, probing_binary]],
        "lmtk ppl": [[*ours, "ppl", "-lm", binary, "-text", text]],
        "query": [["query", "-v", "summary", probing_binary]],
    }
    found = {}
    for name, steps in lines.items():
        missing = [line[0] for line in steps if shutil.which(line[0]) is None]
        if missing:
            print(f"{missing[0]} is not on PATH: no comparison with it")
            continue
        found[name] = lambda steps=steps: run(steps, text)
    return found


def run(steps, text):
    for line in steps:
        with open(text) as words:
            subprocess.run(line, check=True, stdin=words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
