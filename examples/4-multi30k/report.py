"""BLEU of translations as Table 1 and Figure 2 of Bahdanau et al. 2015 have it: report.py DATA PLOT NAME ...

For each NAME there is NAME.all, and where they exist NAME.nounk, NAME.replaced, NAME.looked and NAME.log; PLOT is a
picture to write, or -. The last name should be at least 15 BLEU above the first one.
"""

import collections
import os
import pathlib
import re
import sys

from sacrebleu.metrics import BLEU

SHORTLIST = int(os.environ["SHORTLIST"])  # words of each side; the Makefile sets it
EDGES = 8, 11, 14, 18, 99  # source words of the longest sentence of each class
SCORER = BLEU(tokenize="none", force=True)


def bleu(translations, wanted, numbers):
    return SCORER.corpus_score([translations[i] for i in numbers], [[wanted[i] for i in numbers]]).score


def rows(path):
    return pathlib.Path(path).read_text().splitlines()


def shortlist(path):
    counts = collections.Counter(word for row in rows(path) for word in row.split())
    return set(sorted(counts, key=lambda w: (-counts[w], w.encode()))[:SHORTLIST])


def known_sentences(data, source, target):
    """The numbers of the pairs without an unknown word on either side."""
    english, french = shortlist(f"{data}/train.en"), shortlist(f"{data}/train.fr")
    return [i for i in range(len(source)) if {*source[i].split()} <= english and {*target[i].split()} <= french]


def log_of(name):
    """What NAME.log tells: epochs, held-out perplexity of the best one, minutes of a processor."""
    text = pathlib.Path(f"{name}.log").read_text()
    epochs = re.findall(r"^epoch (\d+):.*held-out .*ppl= (\S+) BLEU= (\S+)", text, re.M)
    best = max(epochs, key=lambda e: float(e[2]))
    seconds = sum(float(s) for s in re.findall(r"^(?:user|sys) ([\d.]+)", text, re.M))
    return f"{epochs[-1][0]} epochs, {seconds / 60:.1f} minutes of a processor, held-out perplexity {best[1]}"


def main(data, plot, *names):
    source, wanted = rows(f"{data}/test_2016_flickr.en"), rows(f"{data}/test_2016_flickr.fr")
    without_unknown = known_sentences(data, source, wanted)
    everything, lengths = range(len(source)), [len(row.split()) for row in source]
    classes = [[i for i in everything if a < lengths[i] <= b] for a, b in zip((0, *EDGES), EDGES)]
    names_of = [f"{a + 1}-{b}" if b < 99 else f"{a + 1}-" for a, b in zip((0, *EDGES), EDGES)]
    print(f"sentences: {len(source)}, without unknown words {len(without_unknown)}; by length {[*map(len, classes)]}")
    curves, all_ = {}, {}
    for name in names:
        translations = rows(f"{name}.all")
        all_[name] = bleu(translations, wanted, everything)
        line = f"{name}: All {all_[name]:.2f}"
        for kind, numbers in (("nounk", without_unknown), ("replaced", everything), ("looked", everything)):
            if pathlib.Path(f"{name}.{kind}").exists():
                title = {"nounk": "No UNK", "replaced": "All, [UNK] replaced", "looked": "All, by a dictionary"}[kind]
                line += f", {title} {bleu(rows(f'{name}.{kind}'), wanted, numbers):.2f}"
        curves[name] = [bleu(translations, wanted, numbers) for numbers in classes]
        print(line + "; " + ", ".join(f"{n}: {value:.1f}" for n, value in zip(names_of, curves[name])))
        if pathlib.Path(f"{name}.log").exists():
            print("   ", log_of(name))
    print(SCORER.get_signature())
    if plot != "-":
        draw(plot, names_of, curves)
    if len(names) > 1:
        ahead = all_[names[-1]] - all_[names[0]]
        print(f"check: {names[-1]} is {ahead:.1f} BLEU ahead of {names[0]}" + ("" if ahead >= 15 else ": FAILED"))
        return ahead < 15


def draw(path, lengths, curves):
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams.update({"svg.hashsalt": "lmtk", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5, 3.2), layout="constrained")
    for (name, values), style in zip(curves.items(), ("s--", "o-", "^:", "d-.")):
        axes.plot(lengths, values, style, color="black", markersize=4, label=name)
    axes.set(xlabel="words of the source", ylabel="BLEU", ylim=(0, None))
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
