"""documents.py PROSE TRAIN SAMPLE DOCUMENTS: a text to train on, a sample of clean documents, and 2,000 mixed ones.

PROSE has a sentence on each line. Nine tenths of its different sentences are the text to train on. Documents are made
of the rest: of four sentences that follow one another, of the words of such sentences in random order, of base64, and
of random characters.
"""

import base64
import json
import random
import sys

prose, train, sample, documents = sys.argv[1:]
with open(prose) as file:
    sentences = list(dict.fromkeys(file.read().splitlines()))  # each once
rest = [sentence for i, sentence in enumerate(sentences) if i % 50 >= 45]  # five sentences that follow one another
clean = [sentence for i, sentence in enumerate(sentences) if i % 50 < 45]
draw = random.Random(1)


def sentences_of():
    begin = 5 * draw.randrange(len(rest) // 5) + draw.randrange(2)
    return rest[begin : begin + 4]


def shuffled():
    lines = [line.split() for line in sentences_of()]
    words = [word for line in lines for word in line]
    draw.shuffle(words)
    return [" ".join(words.pop() for _ in line) for line in lines]


def base64_lines():
    return [base64.b64encode(draw.randbytes(45)).decode() for _ in range(4)]


def characters():
    letters = "abcdefghijklmnopqrstuvwxyz      "
    return ["".join(draw.choices(letters, k=80)) for _ in range(4)]


KINDS = {"clean": sentences_of, "shuffled words": shuffled, "base64": base64_lines, "random characters": characters}


def write(path, kinds):
    with open(path, "w") as out:
        for kind in kinds:
            out.write(json.dumps({"text": "\n".join(KINDS[kind]()), "kind": kind}) + "\n")


with open(train, "w") as out:
    out.writelines(line + "\n" for line in clean)
write(sample, ["clean"] * 200)
mixed = [kind for kind in KINDS for _ in range(500)]
draw.shuffle(mixed)
write(documents, mixed)
