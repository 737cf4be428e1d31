"""Test perplexity in the paper and with lmtk, from the table of a README: plot.py README PICTURE"""

import re
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "lmtk"
import matplotlib.pyplot as plt  # noqa: E402

PAIR = r"(?:[\d.]+)? ?\| [\d.]+, ([\d.]+) \| "  # training; validation, test
rows = re.findall(rf"^\| ([^|]+) \| {PAIR}{PAIR}", open(sys.argv[1]).read(), re.MULTILINE)
names = [name for name, _, _ in rows]
figure, axes = plt.subplots(figsize=(7, 0.25 * len(rows) + 0.8), layout="constrained")
for column, label, marker in ((1, "paper", "o"), (2, "lmtk", "s")):
    axes.plot([float(row[column]) for row in rows], names, marker, label=label)
axes.invert_yaxis()
axes.grid(axis="y", alpha=0.3)
axes.set_xlabel("test perplexity")
axes.legend()
figure.savefig(sys.argv[2], metadata={"Date": None})
