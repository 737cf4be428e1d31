"""Draws the mean surprisal of each region in each condition: plot.py TABLE PICTURE [MODEL ...] (needs matplotlib)."""

import csv
import sys
from collections import defaultdict

import matplotlib
from matplotlib.figure import Figure

REGIONS = ["subject", "that was", "verb", "way", "final verb", "."]
COLOURS, LINES = {"ambiguous": "C3", "clear": "C0"}, {"reduced": "-o", "full": "--s"}

table, picture, *models = sys.argv[1:]
# the surprisal of a region is the sum over its words
regions = defaultdict(float)
with open(table) as lines:
    for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
        if row["region"]:
            for model in models:
                key = model, row["verb"], row["clause"], int(row["region"]), row["item"]
                regions[key] += float(row[f"surprisal_{model}"])
means = defaultdict(list)
for (*condition, _), bits in regions.items():
    means[tuple(condition)].append(bits)

matplotlib.rcParams.update({"svg.hashsalt": "lmtk", "svg.fonttype": "none"})
drawn = Figure(figsize=(4.5 * len(models), 3.6), layout="constrained")
axes = drawn.subplots(1, len(models), sharey=True, squeeze=False)[0]
for axis, model in zip(axes, models):
    for verb, colour in COLOURS.items():
        for clause, line in LINES.items():
            places = [r for r in range(1, len(REGIONS) + 1) if (model, verb, clause, r) in means]
            bits = [sum(x) / len(x) for x in (means[model, verb, clause, r] for r in places)]
            axis.plot(places, bits, line, color=colour, label=f"{verb} verb, {clause} clause", markersize=4)
    axis.set_title(model)
    axis.set_xticks(range(1, len(REGIONS) + 1), REGIONS, rotation=20)
axes[0].set_ylabel("surprisal in bits")
drawn.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
drawn.savefig(picture, format="svg", metadata={"Date": None})
