"""Sentences of the test set without unknown words, with their translations, a pair a line: choose.py DATA maps|long.

maps: four sentences of 10 to 20 words, drawn at random, as Figure 3 of Bahdanau et al. 2015 has three of them. long:
the three longest sentences, as in section 5.2.2 of the paper.
"""

import random
import sys

from report import known_sentences, rows


def main(data, kind):
    source, target = (rows(f"{data}/test_2016_flickr.{side}") for side in ("en", "fr"))
    translatable = known_sentences(data, source, target)
    lengths = [len(row.split()) for row in source]
    if kind == "maps":
        chosen = random.Random(1).sample([i for i in translatable if 10 <= lengths[i] <= 20], 4)
    else:
        chosen = sorted(translatable, key=lambda i: -lengths[i])[:3]
    for i in chosen:
        print(source[i], target[i], sep="\t")


if __name__ == "__main__":
    main(*sys.argv[1:])
