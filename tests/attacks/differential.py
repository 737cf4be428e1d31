"""The same random job for lmtk and for SRILM or KenLM: both read the same files, and their outputs are compared.

    python tests/attacks/differential.py [-seed N] [-cases N] [-kinds A B ..] [-only CASE]

The peers' programs must be on PATH. A case is drawn from (seed, kind, number). The peer makes its input models. Then
the peer and lmtk's program of the same name run the same command line. Words are compared exactly, numbers with a
TOLERANCE, since both programs add up 32-bit logarithms in different orders. ARPA files are compared n-gram by n-gram;
a back-off weight that is not written is 0. When both commands fail, that is agreement.

A difference is made smaller, by dropping options and lines of files as long as it persists, and then printed.
"""

import argparse
import contextlib
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from mutation import run

LONGEST = 20  # seconds in which a case is made smaller
TOLERANCE = 3e-5  # relative; of numbers below 1, absolute
NUMBER = re.compile(r"^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$")
LMTK = Path(__file__).parents[2] / "bin"


@dataclass(frozen=True)
class Case:
    """files: name -> lines, for both. made: commands of the peer that make more files. program, options: the command
    compared, its options in groups that belong together. fixed: words that stay when the case is made smaller.
    """

    files: dict
    made: tuple
    program: str
    options: tuple
    fixed: tuple = ()
    stdin: str | None = None

    def words(self):
        return [word for group in (*self.options, self.fixed) for word in group]

    def __str__(self):
        lines = [f"--- {name}\n" + "".join(line + "\n" for line in text) for name, text in self.files.items()]
        lines += ["$ " + " ".join(command) + "\n" for command in self.made]
        stdin = f" < {self.stdin}" if self.stdin else ""
        return "".join(lines) + f"$ {self.program} {' '.join(self.words())}{stdin}\n"


def peers():
    """Folders of PATH, without lmtk's own programs of the same names, and names of the peers' programs in them."""
    folders = [folder for folder in os.environ["PATH"].split(os.pathsep) if os.path.isdir(folder)]
    folders = [folder for folder in folders if not is_lmtk(folder)]
    path = os.pathsep.join(folders)
    return path, {name for name in SRILM | KENLM if shutil.which(name, path=path)}


def is_lmtk(folder):
    """Whether a folder has lmtk's stand-ins for the programs of SRILM and KenLM."""
    program = Path(folder, "ngram-merge")
    if Path(folder).resolve() == LMTK.resolve():
        return True
    with contextlib.suppress(OSError):
        return b"lmtk" in program.read_bytes()[:4096]
    return False


# the generators ------------------------------------------------------------------------------------------------------


def text_of(rng, words, lines):
    """Sentences of a few frequent and some rare words; some lines are empty, or have more blanks than needed."""
    weights = [1 / (i + 1) for i in range(len(words))]
    text = []
    for _ in range(lines):
        n = rng.choice([1, 2, 3, 5, 8, 13, 0 if rng.random() < 0.3 else 4])
        text.append(rng.choice([" "] * 9 + ["  ", "\t"]).join(rng.choices(words, weights, k=n)))
    return text


def vocabulary_of(rng):
    words = ["a", "b", "c", "the", "of", "Zebra", "x1", "3.5", "don't", "é", "日本", "-", "<b>", "A_A", "A", "to"]
    rng.shuffle(words)
    return words[: rng.choice([2, 4, 8, 12, 17])]


def texts(rng, most=60):
    """Training and test text, the latter with unknown words."""
    words = vocabulary_of(rng)
    # lmtk learns nothing from an empty text, while SRILM does
    train = [*text_of(rng, words, rng.randint(5, most)), words[0]]
    return {"train": train, "test": text_of(rng, [*words, "unseen", "UNSEEN"], rng.randint(1, 8))}, words


def some(rng, *groups):
    """Each group of words with its chance: (chance, word ...)."""
    return tuple(tuple(map(str, group[1:])) for group in groups if rng.random() < group[0])


def smoothing(rng, order):
    """A smoothing method for all orders, or one for each. Discounts from counts of counts fail on many small texts."""
    kinds = ["-wbdiscount", "-kndiscount", "-ukndiscount", "-cdiscount", "-addsmooth", "-ndiscount", "", "-wbdiscount"]
    value = {"-cdiscount": lambda: rng.choice(["0.3", "0.75", "0"]), "-addsmooth": lambda: rng.choice(["1", "0.1"])}
    options = []
    if rng.random() < 0.6:
        kind = rng.choice(kinds)
        # SRILM's -cdiscount and -addsmooth want a number for each order when an order is named
        options += [tuple(filter(None, (kind, value[kind]() if kind in value else "")))] if kind else []
    else:
        for k in range(1, order + 1):
            kind = rng.choice(kinds)
            options += [tuple(filter(None, (f"{kind}{k}", value[kind]() if kind in value else "")))] if kind else []
    if rng.random() < 0.4:
        options.append(("-interpolate",))
    elif rng.random() < 0.3:
        options.append((f"-interpolate{rng.randint(1, order)}",))
    return tuple(options)


def count(rng):
    files, words = texts(rng)
    order = rng.randint(1, 5)
    files["vocab"] = rng.sample(words, rng.randint(1, len(words)))
    options = (
        ("-order", str(order)),
        *some(rng, (0.3, "-unk"), (0.3, "-vocab", "vocab", *rng.choice([(), ("-limit-vocab",)]))),
    )
    options += some(rng, (0.2, "-no-sos"), (0.2, "-no-eos"), (0.2, "-write1", "one"), (0.2, "-write-order", order))
    options += some(rng, (0.2, "-recompute"), (0.2, "-float-counts"), (0.2, "-write-vocab", "written"))
    if all(word.isascii() for word in words):  # lower case is Unicode's in lmtk, and ASCII's in SRILM
        options += some(rng, (0.2, "-tolower"))
    out, how = ("-sort", "-write", "out"), rng.random()
    if how < 0.3:
        made = (("ngram-count", "-text", "test", "-order", str(order), "-write", "more"),)
        if ("-vocab" in sum(options, ())) or rng.random() < 0.7:
            return Case(files, made, "ngram-count", options, ("-text", "train", "-read", "more", *out))
        # in lmtk for -read alone, and n-grams that -vocab makes one are added up first
        return Case(
            files, made, "ngram-count", options, ("-read", "more", "-read-with-mincounts", "-gt2min", "2", *out)
        )
    if how < 0.5:
        counting = ("ngram-count", "-order", str(order), "-sort", "-text")
        made = tuple((*counting, name, "-write", f"{name}.counts") for name in ("train", "test"))
        return Case(files, made, "ngram-merge", (), ("-write", "out", "train.counts", "test.counts"))
    if how < 0.7:
        files["train"] = [f"{rng.randint(1, 3)} {line}" for line in files["train"] if line.split()]
        options += (("-text-has-weights",),)
    return Case(files, (), "ngram-count", options, ("-text", "train", *out))


def estimate(rng):
    files, words = texts(rng, 150)
    order = rng.randint(1, 4)
    files["vocab"] = [*rng.sample(words, rng.randint(1, len(words))), "never"]
    files["nonevents"] = words[1:2]
    options = (("-order", str(order)), *smoothing(rng, order))
    options += some(rng, (0.5, "-unk"), (0.2, "-vocab", "vocab"), (0.1, "-map-unk", words[-1]))
    options += some(rng, (0.1, "-nonevents", "nonevents"), (0.1, "-kn-modify-counts-at-end"), (0.1, "-trust-totals"))
    options += some(rng, (0.1, "-no-sos"), (0.1, "-no-eos"), (0.1, "-prune", "1e-3"))
    if not any("-ndiscount" in word for word in sum(options, ())):  # SRILM has no natural discounting of fractions
        options += some(rng, (0.1, "-float-counts"))
    options += some(rng, *((0.3, f"-gt{k}min", rng.choice([0, 1, 2, 3])) for k in range(1, order + 1)))
    options += some(rng, *((0.1, f"-gt{k}max", rng.choice([0, 3, 5, 9])) for k in range(1, order + 1)))
    return Case(files, (), "ngram-count", options, ("-text", "train", "-lm", "out"))


def model(rng, name, order, text="train"):
    """The command by which SRILM makes a model."""
    method = rng.choice(
        [("-wbdiscount",), ("-wbdiscount", "-interpolate"), ("-addsmooth", "0.5"), ("-cdiscount", "0.4")]
    )
    command = ("ngram-count", "-text", text, "-order", str(order), *method, "-gt3min", "1", "-gt4min", "1", "-lm", name)
    return command + ("-unk",) * (rng.random() < 0.5)


def classes_of(rng, words):
    """Lines of a class file: each class has some of the words, with probabilities that sum to 1."""
    words, lines = rng.sample(words, len(words)), []
    for name, size in (("ONE", 2), ("TWO", 4)):
        members, words = words[:size], words[size:]
        lines += [f"{name} {1 / len(members):.6f} {word}" for word in members]
    return lines


def two_models(rng):
    """Texts, the commands that make the models lm and lm2 of two of them, words, and the order of lm."""
    files, words = texts(rng)
    files["other"] = [*text_of(rng, vocabulary_of(rng), 20), "a"]
    order = rng.randint(1, 4)
    return files, (model(rng, "lm", order), model(rng, "lm2", rng.randint(1, 4), "other")), words, order


def perplexity(rng):
    files, made, words, order = two_models(rng)
    files["classes"], how = classes_of(rng, words), rng.random()
    # the tags of class models are not SRILM's, nor are those of log-linear mixtures with -debug 3
    debug = rng.choice([0, 1] if how < 0.15 else [0, 1, 2] if 0.25 <= how < 0.6 else [0, 1, 2, 3])
    options = some(rng, (0.8, "-debug", debug), (0.3, "-unk"), (0.8, "-order", rng.randint(1, order)))
    if how >= 0.15:  # SRILM counts one word less for each sentence of a class model without </s>
        options += some(rng, (0.1, "-no-sos"), (0.1, "-no-eos"))
    scored, weight = ("-ppl", "test"), rng.choice(["0.1", "0.3", "0.5", "0.9"])
    if how < 0.15:
        named = {line.split()[2]: line.split()[0] for line in files["classes"]}
        files["train"] = [" ".join(named.get(word, word) for word in line.split()) for line in files["train"]]
        options += (("-classes", "classes", *rng.choice([(), ("-simple-classes",)])),)
    elif how < 0.25:
        made += (("ngram-count", "-text", "test", "-order", str(order), "-write", "counts"),)
        scored = ("-counts", "counts")
    elif how < 0.6:
        kinds = [(), ("-bayes", "0"), ("-loglinear-mix",), ("-bayes", "2"), ("-bayes", "1", "-bayes-scale", "0.5")]
        options += (("-mix-lm", "lm2", "-lambda", weight, *rng.choice(kinds)),)
    elif how < 0.7:
        options += (("-cache", rng.choice(["5", "100"]), "-cache-lambda", weight),)
    return Case(files, made, "ngram", options, ("-lm", "lm", *scored))


def edit(rng):
    files, made, words, order = two_models(rng)
    files["vocab"] = rng.sample(words, rng.randint(1, len(words)))
    options = some(rng, (0.5, "-order", order), (0.3, "-unk"), (0.2, "-renorm"), (0.2, "-prune-lowprobs"))
    how = rng.random()
    if how < 0.5:
        more = some(rng, (0.2, "-minprune", rng.choice([2, 3])))
        options += (("-prune", rng.choice(["1e-1", "1e-2", "1e-3", "1e-5", "1e-8"])), *more)
    elif how < 0.8:
        options += (("-mix-lm", "lm2", "-lambda", rng.choice(["0.2", "0.5", "0.8"])),)
    else:
        options += (("-vocab", "vocab", "-limit-vocab"),)
    return Case(files, made, "ngram", options, ("-lm", "lm", "-write-lm", "out"))


def lmplz(rng):
    files, words = texts(rng, 150)
    order = rng.randint(2, 4)
    files["vocab"] = [" ".join(rng.sample(words, rng.randint(1, len(words))))]
    prune = sorted(rng.choice([0, 0, 1, 2]) for _ in range(rng.randint(1, order)))
    options = some(rng, (0.3, "--prune", 0, *prune[1:]), (0.3, "--interpolate_unigrams", rng.choice([0, 1])))
    options += some(rng, (0.2, "--vocab_pad", rng.choice([50, 1000])), (0.2, "--limit_vocab_file", "vocab"))
    options += some(rng, (0.8, "--discount_fallback"), (0.2, "--skip_symbols"))
    return Case(files, (), "lmplz", options, ("-o", str(order), "-S", "50M", "-T", ".", "--arpa", "out"), "train")


def query(rng):
    files, _ = texts(rng)
    order = rng.randint(2, 4)
    made = (
        ("lmplz", "-o", str(order), "-S", "50M", "-T", ".", "--discount_fallback", "--text", "train", "--arpa", "lm"),
    )
    kind, name = rng.choice([None, "probing", "trie"]), "lm"
    if kind:
        made += (("build_binary", kind, "lm", "binary"),)
        name = "binary"
    options = some(rng, (0.3, "-n"), (0.5, "-v", rng.choice(["summary", "sentence"])))
    return Case(files, made, "query", options, (name,), "test")


SRILM, KENLM = {"ngram-count", "ngram", "ngram-merge"}, {"lmplz", "query", "build_binary"}
NEEDS = {"count": SRILM, "estimate": SRILM, "perplexity": SRILM, "edit": SRILM, "lmplz": KENLM, "query": KENLM}
KINDS = {"count": count, "estimate": estimate, "perplexity": perplexity, "edit": edit, "lmplz": lmplz, "query": query}


# running and comparing -----------------------------------------------------------------------------------------------


def outcome(case, path=None):
    """{name: text} of what the command prints and writes, or None if it fails. path: of the peers; lmtk without it."""
    inputs = set(os.listdir())
    if path:
        status, out = by_peer([case.program, *case.words()], path, case.stdin)
    else:
        status, out = by_lmtk([case.program, *case.words()], case.stdin)
    files_written = {name: Path(name).read_bytes().decode() for name in sorted(set(os.listdir()) - inputs)}
    if "written" in files_written:  # by -write-vocab; SRILM adds this word
        files_written["written"] = files_written["written"].replace("-pau-\n", "")
    for name in files_written:
        os.unlink(name)
    return None if status else {"stdout": out, **files_written}


def by_peer(words, path, stdin=None):
    with open(stdin or os.devnull, "rb") as source:
        done = subprocess.run(words, stdin=source, capture_output=True, env={"PATH": path, "LC_ALL": "C"}, timeout=60)
    return done.returncode, done.stdout.decode()


def by_lmtk(words, stdin=None):
    from lmtk.files import inputs

    inputs.opened_before.clear()
    old = sys.stdin
    with open(stdin or os.devnull) as sys.stdin:
        status, out, _, failed = run(["-as", *words])
    sys.stdin = old
    if failed:
        raise RuntimeError(failed)
    return status, out.decode()


def difference(case, path):
    """Where the outputs of the peer and of lmtk differ; None where they agree."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for name, lines in case.files.items():
                Path(name).write_text("".join(line + "\n" for line in lines))
            if any(by_peer(command, path)[0] for command in case.made):
                return None  # the peer makes no model of so little text
            expected, actual = outcome(case, path), outcome(case)
        finally:
            os.chdir(before)
    if expected is None or actual is None:
        return None if actual is expected else f"only {'lmtk' if actual is None else 'the peer'} fails"
    if expected.keys() != actual.keys():
        return f"files {sorted(expected)} of the peer, {sorted(actual)} of lmtk"
    return next((f"{name}: {why}" for name in expected if (why := text_difference(expected[name], actual[name]))), None)


def text_difference(expected, actual):
    if expected.lstrip().startswith("\\data\\") or "\n\\data\\" in expected[:5000]:
        return arpa_difference(arpa(expected), arpa(actual))
    for number, (a, b) in enumerate(zip(expected.split("\n"), actual.split("\n")), 1):
        if not same(a, b):
            return f"line {number}\n  peer: {a}\n  lmtk: {b}"
    a, b = expected.count("\n"), actual.count("\n")
    return None if a == b else f"{a} lines of the peer, {b} of lmtk"


def same(a, b):
    """Whether two lines have the same words, numbers with a tolerance."""
    a, b = (re.split(r"([ \t=]+|inf)", line) for line in (a, b))
    return len(a) == len(b) and all(x == y or near(x, y) for x, y in zip(a, b))


def near(x, y):
    if not (NUMBER.match(x) and NUMBER.match(y)):
        return False
    return close(float(x), float(y))


def close(x, y):
    return math.isclose(x, y, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def arpa(text):
    """{n-gram: (log10 probability, log10 weight)}, and {order: number of n-grams}."""
    entries, k = {}, 0
    for line in text.split("\n"):
        if head := re.match(r"\\(\d+)-grams:|ngram (\d+)= *(\d+)", line):
            k = int(head[1] or 0)
            # SRILM writes empty sections up to -order, which lmtk leaves out
            if head[2] and int(head[3]):
                entries[f"ngram {head[2]}="] = (int(head[3]), 0)
        elif k and line and not line.startswith("\\"):
            fields = re.split(r"[ \t]+", line)
            entries[" ".join(fields[1 : k + 1])] = (
                float(fields[0]),
                float(fields[k + 1]) if len(fields) > k + 1 else 0.0,
            )
    return entries


def arpa_difference(expected, actual):
    for ngram in dict.fromkeys((*expected, *actual)):
        a, b = expected.get(ngram), actual.get(ngram)
        if a is None or b is None or not all(map(close, a, b)):
            return f"'{ngram}'\n  peer: {a}\n  lmtk: {b}"
    return None


def smaller(case, path):
    """The case with as few options and lines as still differ, in the same way."""
    kind, changed, end = difference(case, path).split("'")[0], True, time.monotonic() + LONGEST
    while changed and time.monotonic() < end:
        changed = False
        for trial in simpler(case):
            with contextlib.suppress(subprocess.TimeoutExpired):
                if (difference(trial, path) or "").startswith(kind):
                    case, changed = trial, True
                    break
    return case


def simpler(case):
    """The case without one of its options, and without one part or line of one of its files; an empty text is none."""
    for i in range(len(case.options)):
        yield replace(case, options=case.options[:i] + case.options[i + 1 :])
    for name, lines in case.files.items():
        size = len(lines) // 2
        while size:
            for i in range(0, len(lines), size):
                rest = lines[:i] + lines[i + size :]
                if any(line.split() for line in rest):
                    yield replace(case, files=case.files | {name: rest})
            size //= 2
        for i, line in enumerate(lines):
            words = line.split()
            for j in range(len(words) if len(words) > 1 else 0):
                yield replace(
                    case, files=case.files | {name: [*lines[:i], " ".join(words[:j] + words[j + 1 :]), *lines[i + 1 :]]}
                )


def compare(kind, seed, numbers, path):
    """Yields a report for each case of a kind in which lmtk and its peer differ."""
    for number in numbers:
        case = KINDS[kind](random.Random(f"{seed} {kind} {number}"))
        if difference(case, path):
            case = smaller(case, path)
            yield f"seed {seed}, {kind} {number}: {difference(case, path)}\n{case}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-seed", type=int, default=1)
    parser.add_argument("-cases", type=int, default=200)
    parser.add_argument("-kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("-only", type=int)
    args = parser.parse_args()
    path, names = peers()
    print(f"seed {args.seed}; peers: {' '.join(sorted(names))}")
    number = 0
    for kind in args.kinds:
        numbers = range(args.cases) if args.only is None else [args.only]
        for report in compare(kind, args.seed, numbers, path):
            number += 1
            print(report, flush=True)
        print(f"{kind}: done", flush=True)
    sys.exit(number > 0)


if __name__ == "__main__":
    main()
