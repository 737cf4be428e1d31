"""Training holds: ten kinds of text, every objective of each model, three seeds and minibatches of three sizes.

Two parts, a row each run. `first`: the held-out perplexity after the first of 5 epochs is below that of the unigram.
`rates`: after all epochs that of the default rate, over the best of a few rates, is at most 1.1. At the end the
worst of each text and objective, and what was above.

Some texts are generated, code is Python's own library, and real texts come from files: -data a folder with prose.txt,
captions.txt, french.txt, german.txt and novel.txt, a sentence a line, of which those missing are left out. Where an
epoch would take longer than -seconds, the first part of the text is trained on; the row says how many words.

-write FILE keeps the rows, and rows that are there are not run again: a long run can be cut and gone on with.
"""

import argparse
import io
import math
import os
import sys
import tempfile
import tokenize
from dataclasses import replace
from pathlib import Path

HELD = 3000  # held-out words
LEAST, MOST = 5000, 15  # words of an epoch, and seconds: where so many take longer there is no run
RATES = (0.005, 0.01, 0.02, 0.04)
OBJECTIVES = {  # model and objective: microseconds an example, and nanoseconds more for each word of the vocabulary
    "nplm full": (10, 15), "nplm shortlist": (10, 4), "nplm sampled": (14, 0), "nplm nce": (16, 0),
    "nplm class": (20, 0), "nplm tree": (9, 0), "tdnn full": (20, 15),
    "tdnn sampled": (25, 0), "rnn full": (40, 15), "rnn sampled": (45, 0), "rnn nce": (45, 0),
    "gru sampled": (20, 0), "gru class": (20, 0), "lstm sampled": (20, 0), "lstm class": (20, 0),
    "energy full": (20, 100), "energy sampled": (120, 0),
}  # fmt: skip
FIELDS = ("part", "text", "objective", "minibatch", "seed", "rate", "words", "V", "unigram", "ppl")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-data", help="folder with texts")
    parser.add_argument("-texts", default=",".join(TEXTS), help="some of " + ",".join(TEXTS))
    parser.add_argument("-objectives", default=",".join(OBJECTIVES), help="as 'nplm full,rnn nce'")
    parser.add_argument("-minibatches", default="64,256,1024")
    parser.add_argument("-seeds", default="1,2,3")
    parser.add_argument("-rates", default=",".join(map(str, RATES)))
    parser.add_argument("-parts", default="first,rates")
    parser.add_argument("-seconds", type=float, default=2.0, help="of an epoch, about")
    parser.add_argument("-quick", action="store_true", help="one seed, minibatches of 256, a quarter of a second")
    parser.add_argument("-write", help="file of rows, read first")
    args = parser.parse_args()
    if args.quick:
        args.seeds, args.minibatches, args.seconds = "1", "256", 0.25
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

    rows = read(args.write)
    for name in args.texts.split(","):
        wanted = [job for job in jobs(args) if (job[0], name, *map(str, job[1:])) not in rows]
        made = TEXTS[name](args.data) if wanted else None
        if wanted and made is None:
            print(f"{name}: no such text in -data", file=sys.stderr)
            continue
        for job in wanted:
            figures = measured(made, *job, args.seconds)
            if figures is None:
                continue
            row = (job[0], name, *map(str, job[1:]), *map(str, figures))
            rows[row[:6]] = row
            print(*row, sep="\t", flush=True)
            if args.write:
                with open(args.write, "a") as out:
                    print(*row, sep="\t", file=out)
    summary(rows)


def jobs(args):
    """(part, objective, minibatch, seed, rate) of every run."""
    for objective in args.objectives.split(","):
        for part in args.parts.split(","):
            for K in map(int, args.minibatches.split(",")):
                for seed in map(int, args.seeds.split(",")):
                    for rate in map(float, args.rates.split(",")) if part == "rates" else (recipe(objective)["rate"],):
                        yield part, objective, K, seed, rate


def recipe(objective):
    """The default settings of a model and objective."""
    from lmtk.nplm import layers, recipes

    return recipes.OURS | (recipes.CARRYING if layers.LAYERS[objective.split()[0]].carries else {})


def read(path):
    if not path or not os.path.exists(path):
        return {}
    rows = (tuple(line.rstrip("\n").split("\t")) for line in open(path))
    return {row[:6]: row for row in rows}


def measured(text, part, objective, K, seed, rate, seconds):
    """(words trained on, V, the unigram's held-out perplexity, the network's, after one epoch or the best of all)."""
    import numpy as np

    from lmtk.errors import Diverged
    from lmtk.joint.shortlist import shortlisted
    from lmtk.nplm import layers, training

    made, (model, objective) = recipe(objective), objective.split()
    vocab, corpus, heldout = text
    layer = layers.LAYERS[model]
    order = layer.order
    data = training.make_examples(corpus, vocab, order, heldout, layer)
    common, own = OBJECTIVES[f"{model} {objective}"]
    cost = (common + own * vocab.V / 1000) * 1e-6
    if cost * LEAST > MOST:
        return None
    N = min(len(data.w), max(int(seconds / cost), LEAST))
    fresh = None if data.fresh is None else data.fresh[:N]
    data = replace(data, contexts=data.contexts[:N], w=data.w[:N], fresh=fresh)
    settings = training.Settings(
        order=order, hidden=100, features=60, direct=False, rate=rate, decay=None, weight_decay=made["weight_decay"],
        feature_rate=made["feature_rate"], minibatch=K, epochs=5, patience=5, seed=seed, objective=objective,
        samples=250, model=None if model == "nplm" else model, target_weights=False if model == "energy" else None,
    )  # fmt: skip
    counts = np.bincount(data.w[data.w >= 0], minlength=vocab.V) + 1
    p = counts / counts.sum()
    network = training.initial_network(vocab, settings, data.w)
    if objective == "shortlist":
        network = shortlisted(network, data.w, max(vocab.V // 4, 1), unigram(vocab, p), "unigram.lm", "unigram.lm")
    w = heldout.ids[heldout.scored & (heldout.ids < vocab.V)]
    progress = training.begin(network, settings)
    try:
        for over, *_ in training.train(progress, data, settings, 1):
            if over and part == "first":
                break
        ppl = min(epoch.heldout_ppl for epoch in progress.curve)
    except Diverged:
        ppl = math.inf
    return N, vocab.V, f"{math.exp(-np.log(p[w]).mean()):.5g}", f"{ppl:.5g}"


def unigram(vocab, p):
    """A back-off model of order 1."""
    from lmtk.files.registry import load

    lines = "".join(f"{math.log10(x):.6f}\t{w.decode()}\n" for x, w in zip(p, vocab.words))
    text = f"\\data\\\nngram 1={len(p) + 1}\n\n\\1-grams:\n-99\t<s>\n{lines}\n\\end\\\n"
    with tempfile.NamedTemporaryFile(suffix=".lm") as out:
        out.write(text.encode())
        out.flush()
        return load(out.name)


def prepared(sentences, least=1, stream=False):
    """(Vocab, training Corpus, held-out Corpus) of lists of words: words that stand `least` times, others <unk>."""
    from lmtk.text.corpus import Marks, whole_corpus
    from lmtk.text.vocab import make_vocab

    held, size = [], 0
    while size < min(HELD, sum(map(len, sentences[-len(sentences) // 5 :]))):
        # every 7th sentence from the end, so that a running text's parts are in both
        held.append(sentences.pop(max(len(sentences) - 7 * len(held) - 1, 0)))
        size += len(held[-1])
    counts = {}
    for sentence in sentences:
        for word in sentence:
            counts[word] = counts.get(word, 0) + 1
    words = sorted((w for w in counts if counts[w] >= least), key=lambda w: (-counts[w], w))
    marks = Marks.from_options(False, False, stream)
    vocab = make_vocab([w.encode() for w in words], True, marks.eos, b"<unk>", "text")
    with tempfile.TemporaryDirectory() as folder:
        corpora = []
        for name, part in (("train", sentences), ("held", held)):
            path = os.path.join(folder, name)
            Path(path).write_text("".join(" ".join(s) + "\n" for s in part))
            corpora.append(whole_corpus(path, vocab, marks))
    return vocab, *corpora


def generated(words, length, V, seed, states=10):
    """Sentences of `length` words: states in a chain, each with words of its own by Zipf's law."""
    import numpy as np

    random = np.random.default_rng(seed)
    chain = np.cumsum(random.dirichlet(np.full(states, 0.1), states), axis=1)
    number = words // length
    now, found = random.integers(0, states, number), np.empty((number, length), np.int64)
    zipf = np.cumsum(1 / np.arange(1, V // states + 1))
    for t in range(length):
        now = np.minimum((chain[now] < random.random(number)[:, None]).sum(axis=1), states - 1)
        word = np.searchsorted(zipf, random.random(number) * zipf[-1])
        found[:, t] = word * states + now
    return prepared([[f"w{i}" for i in row] for row in found.tolist()])


def from_file(name, least=2, stream=False, words=None):
    """A text of -data, or None."""

    def make(folder):
        path = Path(folder or ".") / f"{name}.txt"
        if folder is None or not path.exists():
            return None
        sentences, size = [], 0
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                sentences.append(line.split())
                size += len(sentences[-1])
                if words and size >= words:
                    break
        return prepared([s for s in sentences if s], least, stream)

    return make


def code(folder):
    """The tokens of a part of Python's library, a line of code a sentence."""
    import email
    import json

    sentences = []
    for module in (argparse, tokenize, json, email, io, os, Path):
        place = Path(sys.modules[module.__module__].__file__ if isinstance(module, type) else module.__file__)
        for path in sorted(place.parent.glob("*.py")) if place.name == "__init__.py" else [place]:
            line = []
            for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
                if token.type in (tokenize.NEWLINE, tokenize.NL):
                    sentences.append(line)
                    line = []
                elif token.type not in (tokenize.COMMENT, tokenize.ENCODING) and token.string.strip():
                    line.extend(token.string.split())
    return prepared([s for s in sentences if s], 2)


TEXTS = {
    "tiny": lambda folder: generated(5_000, 10, 50, 1),
    "three": lambda folder: generated(60_000, 3, 200, 2),
    "long": lambda folder: generated(200_000, 200, 2_000, 3, 20),
    "wide": lambda folder: generated(1_000_000, 20, 80_000, 4, 100),
    "code": code,
    "captions": from_file("captions"),
    "french": from_file("french"),
    "german": from_file("german"),
    "novel": from_file("novel", 2, True),
    "prose": from_file("prose", 5),
}


def summary(rows):
    """A line each text and objective: the worst of the first epochs, and of the rates; then what is too high."""
    worst, ends, bad = {}, {}, []
    for part, text, objective, K, seed, rate, *_, base, ppl in rows.values():
        if part == "first":
            share = float(ppl) / float(base)
            worst[text, objective] = max(worst.get((text, objective), 0), share)
            if not share < 1:
                bad.append(f"{text}, {objective}, minibatch {K}, seed {seed}: {ppl} after one epoch, unigram {base}")
        else:
            ends.setdefault((text, objective, K, seed), {})[float(rate)] = float(ppl)
    excess = {}
    for (text, objective, K, seed), by_rate in ends.items():
        if (default := recipe(objective)["rate"]) in by_rate:
            share = by_rate[default] / min(by_rate.values())
            excess[text, objective] = max(excess.get((text, objective), 0), share)
            if not share <= 1.1:
                best = min(by_rate, key=by_rate.get)
                bad.append(f"{text}, {objective}, minibatch {K}, seed {seed}: {share:.2f} of that of the rate {best}")
    for title, table in (("first epoch / unigram", worst), ("default rate / best", excess)):
        if table:
            names = [t for t in TEXTS if any(t == text for text, _ in table)]
            print(f"\n{title + ', worst':32}" + "".join(f"{n:>9}" for n in names))
            for objective in OBJECTIVES:
                figures = [table.get((n, objective)) for n in names]
                if any(figures):
                    print(
                        f"{objective:32}"
                        + "".join(f"{f:9.2f}" if f and f < 1e4 else f"{f:9.0e}" if f else f"{'-':>9}" for f in figures)
                    )
    print(f"\n{len(rows)} runs; " + (f"{len(bad)} too high:" if bad else "every one as it should be"))
    print(*bad, sep="\n")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
