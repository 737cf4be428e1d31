"""Speed of lmtk from Python beside KenLM's module, in one process, by a 5-gram that is estimated from a text.

The bound is random reads of memory, one or two an order and word; of BaseScore, the call from Python; of the
probabilities of all next words, writing them. The first three calls of score_many score the same documents of 20 lines;
a large model is loaded with its kernels. KenLM's module has a loop over the words of the text for all next words. Each
figure is the median of the rounds; "kenlm/lmtk" above one means that lmtk is faster. KenLM's module reads its own
probing binary; where the module or its build_binary is missing, lmtk's figures stand alone.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ORDER = 5


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-text", help="the text, the first half of which is the training text; else random words")
    parser.add_argument("-tokens", type=int, default=2_000_000, help="words to draw")
    parser.add_argument("-rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        train, held = halves(args.text or draw(os.path.join(folder, "text"), args.tokens), folder)
        arpa, binary, probing = (os.path.join(folder, name) for name in ("arpa", "binary", "probing"))
        options = ["-text", train, "-order", str(ORDER), "-kndiscount", "-interpolate", "-lm", arpa]
        lmtk("ngram-count", *options, "-discount-fallback", "default")
        lmtk("ngram", "-lm", arpa, "-write-bin", binary)
        with open(held) as text:
            lines = [line.rstrip("\n") for line in text]
        figures = {"lmtk": measured("lmtk", binary, lines, args.rounds)}
        if shutil.which("build_binary") and has_kenlm():
            subprocess.run(["build_binary", "probing", arpa, probing], check=True, capture_output=True)
            figures["kenlm"] = measured("kenlm", probing, lines, args.rounds)
        else:
            print("kenlm or its build_binary is missing: no comparison with it")
    show(figures, args.text or "random words", sum(len(line.split()) for line in lines))


def show(figures, text, words):
    print(f"{text}: {words} words scored, order {ORDER}, {len(os.sched_getaffinity(0))} cores")
    print(f"{'':44}" + "".join(f"{name:>12}" for name in figures) + f"{'kenlm/lmtk':>12}")
    for name, ours in figures["lmtk"].items():
        theirs = figures.get("kenlm", {}).get(name)
        ratio = f"{theirs / ours:12.2f}" if theirs else ""
        print(f"{name:44}{ours:12.3g}" + (f"{theirs:12.3g}" if theirs else "") + ratio)


def has_kenlm():
    try:
        import kenlm  # noqa: F401
    except ImportError:
        return False
    return True


def lmtk(*args):
    subprocess.run([sys.executable, "-m", "lmtk", *args], check=True, stderr=subprocess.DEVNULL)


def halves(text, folder):
    """The first and the second half of a text, as files."""
    with open(text, "rb") as whole:
        lines = whole.readlines()
    paths = [os.path.join(folder, name) for name in ("train", "held")]
    for path, half in zip(paths, (lines[: len(lines) // 2], lines[len(lines) // 2 :])):
        with open(path, "wb") as out:
            out.writelines(half)
    return paths


def draw(path, n):
    import ngram

    return ngram.draw(path, n)


def measured(module, model, lines, rounds):
    """name -> seconds, or microseconds an item."""
    code = f"import api; api.work({module!r}, {model!r})"
    rows = []
    for i in range(rounds + 1):
        done = subprocess.run(
            [sys.executable, "-c", code],
            input="\n".join(lines),
            capture_output=True,
            text=True,
            check=True,
            cwd=os.path.dirname(os.path.abspath(__file__)),
        )
        if i:  # the first round compiles
            rows.append(dict(line.rsplit("\t", 1) for line in done.stdout.splitlines()))
    return {name: statistics.median(float(x[name]) for x in rows) for name in rows[0]}


def work(module, path):
    """Print what `measured` reads."""
    import importlib

    lines = sys.stdin.read().split("\n")
    kenlm = importlib.import_module(module)
    kenlm.Model, kenlm.State  # noqa: B018  which lmtk imports when they are asked for
    clock = time.perf_counter

    def tell(name, start, items=1, unit=1):
        print(f"{name}\t{(clock() - start) / items * unit}")

    start = clock()
    model = kenlm.Model(path)
    tell("load, s", start)
    start = clock()
    model.score(lines[0])
    tell("first score, s", start)
    many = getattr(model, "score_many", lambda lines: [model.score(line) for line in lines])
    documents = [" ".join(lines[i : i + 20]) for i in range(0, len(lines), 20)]
    for call in ("first", "second", "third"):
        start = clock()
        many(documents)
        tell(f"score_many, {call}, us a document", start, len(documents), 1e6)
    for line in lines:
        model.score(line)
    start = clock()
    for line in lines:
        model.score(line)
    tell("score, us a sentence", start, len(lines), 1e6)
    words = [line.split() for line in lines[:3000]]
    state, after = kenlm.State(), kenlm.State()
    for _ in range(2):
        start = clock()
        for sentence in words:
            model.BeginSentenceWrite(state)
            for word in sentence:
                model.BaseScore(state, word, after)
                state, after = after, state
    tell("BaseScore, us a word", start, sum(map(len, words)), 1e6)
    words = [word for line in lines for word in line.split()]
    many(lines)
    start = clock()
    many(lines)
    tell("score_many, us a word", start, len(words), 1e6)
    words = sorted(set(words))
    for size in (1, 32, 256):
        score_all = scores_of_all(kenlm, model, lines[:size], words)
        score_all()
        start = clock()
        contexts = sum(score_all() for _ in range(256 // size if module == "lmtk" else 1))
        tell(f"all next words, {size} at once, us a context", start, contexts, 1e6)


def scores_of_all(kenlm, model, lines, words):
    """A function that computes log10 p of all words after the beginnings of lines, and returns the number of contexts:
    of all lines at once by lmtk, of the first four at most by a loop over the words of the text.
    """
    contexts = [line.split()[:4] for line in lines]
    if hasattr(model, "scores"):
        index, unk, states = model.vocab.index, model.vocab.unk_id, []
        for context in contexts:
            state = model.states()
            for word in context:
                state = model.advance(state, [index.get(word.encode(), unk)])
            states.append(state)
        states = np.concatenate(states)
        return lambda: len(model.scores(states))
    states, after = [], kenlm.State()
    for context in contexts[:4]:
        state = kenlm.State()
        model.BeginSentenceWrite(state)
        for word in context:
            model.BaseScore(state, word, after)
            state, after = after, state
        states.append(state)
        after = kenlm.State()

    def loop():
        for state in states:
            for word in words:
                model.BaseScore(state, word, after)
        return len(states)

    return loop


if __name__ == "__main__":
    main()
