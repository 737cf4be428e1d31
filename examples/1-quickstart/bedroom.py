"""Sentences like "The cat is walking in the bedroom" of Bengio et al. 2003, section 1.1: bedroom.py TRAINING TEST

One in five of the pairs of an adjective and a noun is in no training sentence. Each test sentence has two such pairs.
"""

import random
import sys

NOUNS = {
    "animal": ["cat", "dog", "horse", "rabbit", "goat", "fox", "mouse", "bear", "duck", "sheep"],
    "place": ["bedroom", "kitchen", "garden", "street", "forest", "field", "barn", "office", "hall", "river"],
}
ADJECTIVES = {
    "animal": ["black", "small", "old", "white", "young", "lazy", "happy", "hungry"],
    "place": ["dark", "big", "quiet", "cold", "green", "empty", "warm", "new"],
}
VERBS = ["walking", "running", "sleeping", "sitting", "waiting", "playing", "eating", "standing"]

chosen = random.Random(1)
PAIRS = {kind: [(a, noun) for a in ADJECTIVES[kind] for noun in NOUNS[kind]] for kind in NOUNS}
NEW = {kind: set(chosen.sample(pairs, len(pairs) // 5)) for kind, pairs in PAIRS.items()}


def phrase(kind, is_new):
    """An article, an adjective and a noun. is_new: whether the pair is one that no training sentence has."""
    adjective, noun = chosen.choice([pair for pair in PAIRS[kind] if (pair in NEW[kind]) == is_new])
    return f"{chosen.choice(['the', 'a'])} {adjective} {noun}"


for path, number, is_new in ((sys.argv[1], 1000, False), (sys.argv[2], 500, True)):
    with open(path, "w") as out:
        for _ in range(number):
            animal, place = phrase("animal", is_new), phrase("place", is_new)
            out.write(f"{animal} {chosen.choice(['is', 'was'])} {chosen.choice(VERBS)} in {place}\n")
