"""Draw a picture of README.md.

plot.py PICTURE README: test perplexity in the paper and with lmtk, from the table of the README.
plot.py PICTURE LOG ...: held-out perplexity after each epoch, a line for each log of lmtk nplm-train. A log is called
curve-N.log or curve-N-direct.log, for a network of order N, without or with direct connections.
"""

import csv
import pathlib
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "lmtk"
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import MaxNLocator  # noqa: E402


def draw_table(readme):
    table = next(part for part in readme.read_text().split("\n\n") if part.startswith("| model |"))
    header, _, *rows = ([cell.strip() for cell in line[1:-1].split("|")] for line in table.splitlines())
    # the perplexities "validation, test" stand behind the training perplexity
    columns = {name: header.index(f"{name}: training") + 1 for name in ("paper", "lmtk")}
    rows = [row for row in rows if row[columns["paper"]]]
    figure, axes = plt.subplots(figsize=(7, 0.25 * len(rows) + 0.8), layout="constrained")
    for (name, column), marker in zip(columns.items(), "os", strict=True):
        axes.plot([float(row[column].split(", ")[1]) for row in rows], [row[0] for row in rows], marker, label=name)
    axes.invert_yaxis()
    axes.grid(axis="y", alpha=0.3)
    axes.set_xlabel("test perplexity")
    axes.legend()
    return figure


def draw_curves(logs):
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    colors = {}
    for log in logs:
        _, order, *direct = log.stem.split("-")
        color = colors.setdefault(order, f"C{len(colors)}")
        with log.open(newline="") as lines:
            epochs = list(csv.DictReader(lines, delimiter="\t"))
        axes.plot(
            [int(epoch["epoch"]) for epoch in epochs],
            [float(epoch["heldout"]) for epoch in epochs],
            "o--" if direct else "o-",
            markersize=4,
            color=color,
            label=f"n={order}, direct connections" if direct else f"n={order}",
        )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y", alpha=0.3)
    axes.set(xlabel="epoch", ylabel="validation perplexity")
    axes.legend()
    return figure


picture, *paths = map(pathlib.Path, sys.argv[1:])
figure = draw_curves(paths) if paths[0].suffix == ".log" else draw_table(paths[0])
figure.savefig(picture, metadata={"Date": None})
