"""report.py SAMPLE: the perplexity that 95 % of the clean documents of a sample are below.
report.py DOCUMENTS LIMIT [PICTURE]: precision and recall of a limit, by kind; and a histogram (needs matplotlib).

The files have JSON lines with the fields kind and perplexity.
"""

import json
import sys

SHARE = 0.95
path, *more = sys.argv[1:]
with open(path) as file:
    documents = [json.loads(line) for line in file]
perplexities = {}
for document in documents:
    perplexities.setdefault(document["kind"], []).append(document["perplexity"])

if not more:
    print(f"{sorted(perplexities['clean'])[int(SHARE * len(documents))]:.0f}")
    sys.exit()

limit = float(more[0])
kept = {kind: sum(x <= limit for x in values) for kind, values in perplexities.items()}
print("kind\tdocuments\tkept\tmedian perplexity")
for kind, values in perplexities.items():
    print(kind, len(values), kept[kind], f"{sorted(values)[len(values) // 2]:.0f}", sep="\t")
precision, recall = kept["clean"] / max(sum(kept.values()), 1), kept["clean"] / len(perplexities["clean"])
print(f"at most {limit:.0f}: precision {precision:.3f}, recall {recall:.3f}")
if precision < 0.9 or recall < 0.9:
    sys.exit("check: precision and recall must be 0.9 or more")

if more[1:]:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    plt.rcParams["svg.hashsalt"] = "lmtk"
    figure, axes = plt.subplots(figsize=(7, 3.2), constrained_layout=True)
    every = [x for values in perplexities.values() for x in values]
    bins = np.geomspace(min(every), max(every) * 1.01, 60)
    for kind, values in perplexities.items():
        axes.hist(values, bins, alpha=0.6, label=kind)
    axes.axvline(limit, color="black", linestyle="--", label=f"-max {limit:.0f}")
    axes.set(xscale="log", xlabel="perplexity of a document", ylabel="documents")
    axes.legend(frameon=False)
    figure.savefig(more[1], metadata={"Date": None})
