"""Sentences of a small grammar with garden paths, and the items of a reading experiment: grammar.py NUMBER TEXT ITEMS

The grammar has the verbs of Bever's (1970) "The horse raced past the barn fell". Such a verb is usually the main verb:
"the horse raced past the barn". Sometimes it is a participle in a relative clause: "the horse that was raced past the
barn fell", seldom a reduced one: "the horse raced past the barn fell". Other participles cannot be main verbs: "the
horse ridden past the barn fell".

An item has four conditions: with and without "that was" (full, reduced), with a verb that can be the main verb and with
one that cannot (ambiguous, clear). No item is in the text.
"""

import random
import sys

ANIMALS = ["horse", "dog", "cow", "pony", "mule", "camel", "donkey", "goat"]
PEOPLE = ["boy", "girl", "farmer", "rider", "guest", "child", "nurse", "clerk"]
PLACES = ["barn", "church", "house", "river", "tower", "garden", "market", "school"]
AMBIGUOUS = ["raced", "walked", "moved", "rushed"]  # past tense and participle
CLEAR = ["ridden", "driven", "taken", "shown"]  # only participles
PAST = {"ridden": "rode", "driven": "drove", "taken": "took", "shown": "showed"}
FINAL = ["fell", "stopped", "slept", "coughed"]
WAYS = ["past", "to", "around", "through"]
SHARE = 0.25  # of the sentences that have a relative clause
REDUCED = 0.1  # of the relative clauses that are reduced

choose = random.Random(1)


def phrase(nouns):
    return f"the {choose.choice(nouns)}"


def way():
    return f"{choose.choice(WAYS)} {phrase(PLACES)}"


def sentence():
    """A random sentence of the grammar."""
    subject, verb = phrase(ANIMALS + PEOPLE), choose.choice(AMBIGUOUS + CLEAR)
    if choose.random() < SHARE:
        that = "" if choose.random() < REDUCED else "that was "
        return f"{subject} {that}{verb} {way()} {choose.choice(FINAL)} ."
    kind = choose.randrange(3)
    if kind == 0:
        return f"{subject} {choose.choice(FINAL)} {way()} ."
    if kind == 1 or verb in CLEAR:
        return f"{phrase(PEOPLE)} {PAST.get(verb, verb)} {phrase(ANIMALS)} {way()} ."
    return f"{subject} {verb} {way()} ."


def items(number):
    """Yields (item, verb, clause, sentence): each item in its four conditions, with regions between bars."""
    for item in range(1, number + 1):
        subject, place, final = phrase(ANIMALS), way(), choose.choice(FINAL)
        for kind, verb in (("ambiguous", choose.choice(AMBIGUOUS)), ("clear", choose.choice(CLEAR))):
            for clause, that in (("reduced", ""), ("full", " that was")):
                yield item, kind, clause, f"{subject} |{that} | {verb} | {place} | {final} | ."


number, text, table = int(sys.argv[1]), sys.argv[2], sys.argv[3]
rows = list(items(24))
used = {" ".join(row[-1].replace("|", " ").split()) for row in rows}
with open(table, "w") as out:
    print("item", "verb", "clause", "sentence", sep="\t", file=out)
    for row in rows:
        print(*row, sep="\t", file=out)
with open(text, "w") as out:
    while number:
        if (line := sentence()) not in used:
            print(line, file=out)
            number -= 1
