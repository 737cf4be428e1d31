"""Speed of ngram-count on a large text: lmtk's stages and whole command beside KenLM's lmplz and SRILM's ngram-count.

The job is an interpolated modified Kneser-Ney model, every n-gram kept, written as ARPA. It is bound by random
accesses to memory (a sort of positions, the look-ups of parents and suffixes) and by the bytes of the file; the
reference for the stages is one np.sort of as many 64-bit keys as the text has positions, taken in the same round. Each
figure is the median of the rounds, in seconds, as wall time and processor time. Programs that are not on PATH are named
and left out.
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-text", help="the text; else words are drawn at random")
    parser.add_argument("-tokens", type=int, default=2_000_000, help="words to draw")
    parser.add_argument("-rounds", type=int, default=3)
    parser.add_argument("-plain", action="store_true", help="the stages without kernels too")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = given.text or draw(os.path.join(folder, "text"), given.tokens)
        works = {**stages(text), **commands(text, folder)}
        if given.plain:
            works |= plain_stages(text)
        times = {name: [] for name in works}
        for i in range(given.rounds + 1):
            for name, work in works.items():
                seconds = measured(work)
                if i:  # the first round compiles, and fills caches
                    times[name].append(seconds)
        medians = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in times.items()}
    sort, command = medians["np.sort"][1], medians["lmtk ngram-count"][0]
    print(f"{text if given.text else 'random words'}, order {ORDER}, {len(os.sched_getaffinity(0))} cores")
    print(f"{'':24}{'wall s':>9}{'CPU s':>9}{'CPU/sort':>10}{'wall/lmtk':>11}")
    for name, (wall, cpu) in medians.items():
        print(f"{name:24}{wall:9.2f}{cpu:9.2f}{cpu / sort:10.2f}{wall / command:11.2f}")


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


def stages(text):
    """name -> function; each stage goes on from what the one before left."""
    import numpy as np

    from lmtk.ngram import arpa
    from lmtk.ngram.counts import Counts, count_ids
    from lmtk.ngram.smoothing import Method, estimate
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
        counts = Counts(left["vocab"].words, left["levels"])
        left["model"] = estimate(counts, left["vocab"], ORDER, [Method("kn", (), True)] * ORDER, (0.5, 1, 1.5))[0]

    def write():
        with open(os.devnull, "wb") as out:
            arpa.write_text(out, left["model"])

    def sort():
        np.sort(left["keys"])

    read()
    left["keys"] = np.random.default_rng(1).integers(0, 1 << 62, len(left["ids"]))
    named = {"np.sort": sort, "text -> ids": read, "ids -> counts": count}
    return named | {"counts -> model": smooth, "model -> ARPA": write}


def plain_stages(text):
    """The same without kernels."""
    from lmtk.ngram import arpa, counts
    from lmtk.text import corpus

    def without_kernels(stage):
        def run():
            modules = (arpa, counts, corpus)
            kept = [module.LARGE for module in modules]
            for module in modules:
                module.LARGE = 1 << 60
            try:
                stage()
            finally:
                for module, large in zip(modules, kept):
                    module.LARGE = large

        return run

    return {f"plain {name}": without_kernels(stage) for name, stage in stages(text).items() if name != "np.sort"}


def commands(text, folder):
    """name -> function for the whole commands."""
    arpa = os.path.join(folder, "arpa")
    kept = [f"-gt{k}min" if i == 0 else "1" for k in range(3, ORDER + 1) for i in range(2)]
    options = ["-text", text, "-order", str(ORDER), "-kndiscount", "-interpolate", *kept, "-lm", arpa]
    lmplz = ["lmplz", "-o", str(ORDER), "-S", "2G", "--discount_fallback", "--text", text, "--arpa", arpa, "-T", folder]
    lines = {
        "lmtk ngram-count": [sys.executable, "-m", "lmtk", "ngram-count", *options, "-discount-fallback", "default"],
        "lmplz": lmplz,
        "SRILM ngram-count": ["ngram-count", *options],
    }
    found = {}
    for name, line in lines.items():
        if shutil.which(line[0]) is None:
            print(f"{line[0]} is not on PATH: no comparison with it")
            continue
        found[name] = lambda line=line: subprocess.run(line, check=True, stderr=subprocess.DEVNULL)
    return found


if __name__ == "__main__":
    main()
