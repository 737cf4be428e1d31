"""The back-off model: how n-grams are stored, found and scored.

`nodes` defines the records of the trie, one n-gram each. `building` makes nodes from sorted n-grams and links each
n-gram to its longest suffix. `searching` finds a node's child with a given word. `walking` scores a text, a large
one straight from its bytes: it goes from the node of one token to the node of the next. `backoff` is the model that the
rest of lmtk sees, with its binary form; `compact` is a smaller binary form.
"""
