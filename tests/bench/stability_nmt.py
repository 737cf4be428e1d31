"""Training of translation models holds: pairs of languages, seeds, minibatches and rates, each by nmt-train itself.

A row a run: the held-out perplexity of the target after the first epoch, to be below that of its words' frequencies,
and after the last, which for the default rate is to be within 1.1 of the best rate's. The first -pairs pairs are
trained on. One pair of languages is made by the grammar of examples/3-translate, in one the target is the source from
its end; en-fr and fr-en are from -data, a folder with train.en and train.fr.

-write FILE keeps the rows, and rows that are there are not run again.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from math import exp, log
from pathlib import Path

HERE = Path(__file__).parent
HELD = 300  # pairs
RATE = "default"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-data", help="folder with train.en and train.fr")
    parser.add_argument("-languages", default="en-fr,fr-en,grammar,reversed")
    parser.add_argument("-minibatches", default="10,40,160")
    parser.add_argument("-seeds", default="1,2,3")
    parser.add_argument("-rates", default="default,0.0005,0.001,0.002,0.004")
    parser.add_argument("-epochs", default="16")
    parser.add_argument("-hidden", default="256", help="and half as many maxout units")
    parser.add_argument("-pairs", type=int, default=2000)
    parser.add_argument("-write", help="file of rows, read first")
    args = parser.parse_args()
    rows = {}
    if args.write and os.path.exists(args.write):
        rows = {tuple(line.split("\t")[:7]): line.split() for line in open(args.write)}
    for name in args.languages.split(","):
        with tempfile.TemporaryDirectory() as folder:
            lines = LANGUAGES[name](args)
            base = written(Path(folder), lines[: args.pairs + HELD])
            for job in jobs(args):
                key = (name, str(args.pairs), args.hidden, args.epochs, *job)
                if key not in rows:
                    ppl = trained(folder, args, *job)
                    rows[key] = [*key, f"{base:.1f}", f"{ppl[0]:.2f}", f"{ppl[-1]:.2f}"]
                    print(*rows[key], sep="\t", flush=True)
                    if args.write:
                        with open(args.write, "a") as out:
                            print(*rows[key], sep="\t", file=out)
    summary(rows)


def jobs(args):
    """(minibatch, seed, rate) of every run."""
    for K in args.minibatches.split(","):
        for seed in args.seeds.split(","):
            for rate in args.rates.split(","):
                yield K, seed, rate


def summary(rows):
    """The ends of the default rate over those of the best; exits 1 where they or first epochs are too high."""
    ends, bad = {}, []
    for key, (*_, base, first, last) in rows.items():
        ends.setdefault(key[:-1], {})[key[-1]] = float(last)
        if key[-1] == RATE and not float(first) < float(base):
            bad.append(f"{' '.join(key)}: {first} after an epoch, the words' frequencies {base}")
    for key, by_rate in ends.items():
        if RATE in by_rate and len(by_rate) > 1:
            share = by_rate[RATE] / min(by_rate.values())
            print(f"{' '.join(key)}: default rate / best {share:.2f} ({min(by_rate, key=by_rate.get)})")
            if not share <= 1.1:
                bad.append(f"{' '.join(key)}: {share:.2f} of the best rate's")
    print(f"{len(rows)} runs; {len(bad)} too high" + "".join("\n" + line for line in bad))
    sys.exit(1 if bad else 0)


def from_data(source, target):
    def make(args):
        if not args.data:
            sys.exit(f"{source}-{target} needs -data")
        sides = (Path(args.data, f"train.{side}").read_text().splitlines() for side in (source, target))
        return list(zip(*sides, strict=True))

    return make


def grammar(args):
    made = [sys.executable, HERE.parents[1] / "examples" / "3-translate" / "pairs.py", str(args.pairs + HELD), "1"]
    lines = subprocess.run(made, capture_output=True, text=True, check=True).stdout.splitlines()
    return [tuple(line.split("\t")) for line in lines]


def backwards(args):
    choose = random.Random(1)
    sentences = ([choose.choice(range(100)) for _ in range(choose.randint(3, 10))] for _ in range(args.pairs + HELD))
    return [(" ".join(f"a{i}" for i in s), " ".join(f"b{i}" for i in reversed(s))) for s in sentences]


LANGUAGES = {
    "en-fr": from_data("en", "fr"),
    "fr-en": from_data("fr", "en"),
    "grammar": grammar,
    "reversed": backwards,
}


def written(folder, lines):
    """The pairs as files; returns the perplexity of the held-out target by the frequencies of the training part."""
    for name, part in (("held", lines[:HELD]), ("train", lines[HELD:])):
        for side in (0, 1):
            (folder / f"{name}.{side}").write_text("".join(pair[side] + "\n" for pair in part))
    counts = Counter(w for _, y in lines[HELD:] for w in [*y.split(), None])
    logp = [log((counts[w] + 1) / (counts.total() + len(counts))) for _, y in lines[:HELD] for w in [*y.split(), None]]
    return exp(-sum(logp) / len(logp))


def trained(folder, args, K, seed, rate):
    """The held-out perplexities of the epochs; inf for all where the run ends with an error."""
    half = str(int(args.hidden) // 2)
    options = {
        "source": "train.0", "target": "train.1", "heldout-source": "held.0", "heldout-target": "held.1",
        "model": "m.bin", "log": "log", "hidden": args.hidden, "embedding": args.hidden, "alignment": args.hidden,
        "maxout": half, "shortlist": "4000", "patience": "0", "keep": "likelihood", "minibatch": K, "seed": seed,
        "epochs": args.epochs, "threads": "1",
    } | ({} if rate == RATE else {"rate": rate})  # fmt: skip
    command = [sys.executable, "-m", "lmtk", "nmt-train"]
    for name, value in options.items():
        command += ["-" + name, value]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        return [float("inf")] * 2
    rows = Path(folder, "log").read_text().splitlines()
    heldout = rows[0].split("\t").index("heldout")
    return [float(row.split("\t")[heldout]) for row in rows[1:]]


if __name__ == "__main__":
    main()
