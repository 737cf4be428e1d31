"""Of the translations of each sentence in an n-best list the one with the highest BLEU against the reference:
nearest.py LIST REFERENCES (sequence-level interpolation, Kim and Rush 2016, section 3.3).
"""

import pathlib
import sys

from sacrebleu.metrics import BLEU

SCORER = BLEU(tokenize="none", force=True, effective_order=True)


def main(path, references):
    wanted = pathlib.Path(references).read_text().split("\n")[:-1]
    best = [(-1.0, "")] * len(wanted)
    with pathlib.Path(path).open() as lines:
        for line in lines:
            number, translation = line.split(" ||| ")[:2]
            i = int(number)
            value = SCORER.sentence_score(translation, [wanted[i]]).score
            if value > best[i][0]:
                best[i] = value, translation
    for _, translation in best:
        print(translation)


if __name__ == "__main__":
    main(*sys.argv[1:])
