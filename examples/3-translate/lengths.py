"""BLEU by length, and the figures of the trainings, as Figure 2 and Table 2 of Bahdanau et al. 2015 show them:
lengths.py TEST PLOT NAME-WORDS ...

The source is TEST.en, its translation TEST.fr. NAME-WORDS is a model that was trained with sentences of up to WORDS
words; NAME-WORDS.out has its translations of the source, NAME-WORDS.log the log of its training. PLOT is the picture.
"""

import csv
import pathlib
import sys

from sacrebleu.metrics import BLEU

WIDTH = 5  # lengths in a class: 6 to 10 words, 11 to 15, ...
SCORER = BLEU(tokenize="none", force=True)
STYLES = {"rnnencdec-15": ("s", "--", "0.6"), "rnnencdec-30": ("s", "--", "black"), "rnnsearch-15": ("o", "-", "0.6")}


def lines(path):
    return pathlib.Path(path).read_text(encoding="utf-8").splitlines()


def statistics(name):
    """The row of Table 2: updates, and NLL per sentence of the training and the held-out text, of the epoch kept."""
    with open(f"{name}.log", newline="") as log:
        epochs = list(csv.DictReader(log, delimiter="\t"))
    best = max(epochs, key=lambda e: (float(e["bleu"]), -float(e["heldout"])))
    cells = best["updates"], best["epoch"], *(f"{float(best[k]):.1f}" for k in ("training-nll", "heldout-nll"))
    return f"| {name} | " + " | ".join(cells) + " |"


def main(test, plot, *names):
    source, references = lines(f"{test}.en"), lines(f"{test}.fr")
    classes = {}
    for i, line in enumerate(source):
        classes.setdefault((len(line.split()) - 1) // WIDTH, []).append(i)
    classes = dict(sorted(classes.items()))
    curves = {}
    for name in names:
        translations = lines(f"{name}.out")
        parts = ([[x[i] for i in numbers] for x in (translations, references)] for numbers in classes.values())
        curves[name] = [SCORER.corpus_score(part, [wanted]).score for part, wanted in parts]
    print("| model | updates | epoch | NLL training | NLL held-out |\n|---|---|---|---|---|")
    print(*map(statistics, names), sep="\n")
    print("\n| words | sentences | " + " | ".join(names) + " |\n|---|---|" + "---|" * len(names))
    for k, (number, numbers) in enumerate(classes.items()):
        cells = f"{number * WIDTH + 1}-{(number + 1) * WIDTH}", len(numbers), *(f"{c[k]:.1f}" for c in curves.values())
        print("| " + " | ".join(map(str, cells)) + " |")
    print(f"\n{SCORER.get_signature()}")
    draw(plot, [number * WIDTH + (WIDTH + 1) / 2 for number in classes], curves)


def draw(path, lengths, curves):
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams.update({"svg.hashsalt": "lmtk", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5.5, 3.4), layout="constrained")
    for words in sorted({int(name.rpartition("-")[2]) for name in curves}):
        axes.axvline(words, color="0.85", linewidth=1, zorder=0)
        axes.text(words + 0.4, 103, f"trained up to {words}", fontsize=7, color="0.4")
    for name, values in curves.items():
        marker, line, color = STYLES.get(name, ("o", "-", "black"))
        axes.plot(
            lengths, values, marker=marker, linestyle=line, color=color, markersize=4, label=name.replace("rnn", "RNN")
        )
    axes.set(xlabel="words of the source", ylabel="BLEU", xlim=(0, 60), ylim=(0, 102))
    axes.legend(frameon=False, loc="upper right", bbox_to_anchor=(1, 0.93))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:])
