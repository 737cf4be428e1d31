"""Find the kind of a text file whose format does not name itself, from all of its lines, for `lmtk info`.

`describe` tries one function for each kind: word classes, paths in a tree, alignments, n-best lists, weights, symbol
tables, counts and word lists. Each looks at the rows of words of the file.
"""

import os
import re
from itertools import groupby

from lmtk.files.decoding import WORD

COUNT = re.compile(rb"[0-9]+(?:\.[0-9]*)?(?:e\+?[0-9]+)?$")
NUMBER = re.compile(rb"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?$", re.IGNORECASE)
PROBABILITY = re.compile(rb"(?:0?\.[0-9]+(?:e-[0-9]+)?|[1-9](?:\.[0-9]+)?e-[0-9]+|1(?:\.0*)?)$")
PATH = re.compile(rb"[01]+$")
LINK = re.compile(rb"[0-9]+-[0-9]+$")
SIZE = re.compile(rb"[0-9]{1,9}$")
BITS = 4  # words in a tree are grouped by the first BITS bits of their paths
BAR = b"|||"


def describe(lines, shown=10):
    """Describe a text given as (number, line) pairs: ([(name, value)], the words if it is a word list).

    shown: how many words of each class to show. The functions below, one for each kind, return the same, or None if the
    rows are of another kind.
    """
    rows = [row for _, line in lines if (row := WORD.findall(line))]
    if not rows:
        return [("kind", "empty file")], []
    for kind in (classes, paths, soft_alignments, nbest, weights, links, symbols, counts, words):
        if description := kind(rows, shown):
            return description
    return [("kind", "text"), ("lines", len(rows)), ("tokens", sum(map(len, rows)))], []


def classes(rows, shown):
    """`class probability word ...`"""
    if min(map(len, rows)) > 2 and all(PROBABILITY.match(row[1]) for row in rows):
        members = [(row[0], -float(row[1]), b" ".join(row[2:])) for row in rows]
        return [("kind", "word classes"), *group_table(members, shown, "classes")], []


def paths(rows, shown):
    """`path word count`"""
    if {len(row) for row in rows} == {3} and all(PATH.match(row[0]) and COUNT.match(row[2]) for row in rows):
        members = [(row[0][:BITS], -float(row[2]), row[1]) for row in rows]
        longest = max(len(row[0]) for row in rows)
        kind = ("kind", "paths of words in a tree"), ("longest path", longest)
        return [*kind, *group_table(members, shown, "subtrees")], []


def soft_alignments(rows, shown):
    """`number ||| target ||| score ||| source ||| S T`, and T rows of S weights."""
    heads = [row for row in rows if BAR in row]
    if heads and all(row.count(BAR) == 4 and row[-3] == BAR for row in heads) and rows[0] is heads[0]:
        sizes = [row[-2:] for row in heads]
        if all(SIZE.match(n) for size in sizes for n in size) and len(rows) == sum(1 + int(T) for _, T in sizes):
            return [("kind", "soft alignments"), ("sentences", len(heads))], []


def nbest(rows, shown):
    """Moses' `key ||| words ||| features ||| total`, or one of SRILM's three formats."""
    if all(row.count(BAR) >= 3 for row in rows):
        names = dict.fromkeys(word[:-1] for row in rows for word in row if word[-1:] == b"=" and len(word) > 1)
        features = [("features", os.fsdecode(b" ".join(names)))] if names else []
        lists = len(list(groupby(rows, lambda row: row[0])))
        return [("kind", "n-best lists of Moses' form"), ("lists", lists), ("hypotheses", len(rows)), *features], []
    if rows[0] in ([b"NBestList1.0"], [b"NBestList2.0"]):
        return [("kind", f"n-best list, {os.fsdecode(rows[0][0])}"), ("hypotheses", len(rows) - 1)], []
    scores = all(len(row) > 2 and all(map(NUMBER.match, row[:3])) for row in rows)
    if scores and all(b"." in row[0] + row[1] and len(row) == 3 + float(row[2]) for row in rows):
        return [("kind", "n-best list of SRILM's form"), ("hypotheses", len(rows))], []


def weights(rows, shown):
    """`Name= weight ...`"""
    named = all(row[0][-1:] == b"=" and len(row[0]) > 1 and len(row) > 1 for row in rows)
    if named and all(NUMBER.match(value) for row in rows for value in row[1:]):
        values = [(os.fsdecode(row[0][:-1]), os.fsdecode(b" ".join(row[1:]))) for row in rows]
        return [("kind", "weights of features"), *values], []


def links(rows, shown):
    """Pharaoh's `0-0 2-1`"""
    if all(LINK.match(word) for row in rows for word in row):
        return [("kind", "alignments"), ("lines", len(rows)), ("links", sum(map(len, rows)))], []


def symbols(rows, shown):
    """`word number`, and 0 is <eps>."""
    if rows[0] == [b"<eps>", b"0"] and all(len(row) == 2 and row[1].isdigit() for row in rows):
        return [("kind", "symbol table of OpenFst's form"), ("words", len(rows))], [row[0] for row in rows]


def counts(rows, shown):
    """`word ... count`"""
    lengths = [len(row) for row in rows]
    if min(lengths) > 1 and all(COUNT.match(row[-1]) for row in rows):
        sizes = [(f"{k}-grams", lengths.count(k + 1)) for k in range(1, max(lengths))]
        return [("kind", "n-gram counts"), *sizes], [row[0] for row in rows if len(row) == 2]


def words(rows, shown):
    if max(map(len, rows)) == 1:
        return [("kind", "word list"), ("words", len(rows))], [row[0] for row in rows]


def group_table(members, shown, label):
    """[(name, value)] with a table of groups of words, the first `shown` words of each.

    members: (group, sort key, word).
    """
    words_of = {}
    for group, *word in members:
        words_of.setdefault(group, []).append(word)
    lines = [
        b"%s: %s" % (name, b" ".join(w for _, w in sorted(words)[:shown])) for name, words in sorted(words_of.items())
    ]
    table = "".join(f"\n  {os.fsdecode(line)}" for line in lines) if shown else ""
    return [("words", len(members)), (label, f"{len(words_of)}{table}")]
