"""Smoothed models: they sum to one, and they are what the textbook's formulas give."""

import io
import math
from collections import Counter
from dataclasses import replace
from itertools import product

import naive
import numpy as np
import pytest
from helpers import FILES

from lmtk.errors import LmtkError
from lmtk.files.registry import load
from lmtk.lm import vocabulary_sums
from lmtk.ngram.arpa import writer
from lmtk.ngram.counting.collection import Sources, collect
from lmtk.ngram.estimate.heldout import HeldOut
from lmtk.ngram.estimate.methods import METHODS, ModifiedKneserNey, NoDiscount, Recipe, WittenBell
from lmtk.ngram.estimate.smoothing import counted_levels, estimate
from lmtk.ngram.model import backoff
from lmtk.text.corpus import Marks, contexts, read_corpus
from lmtk.text.vocab import make_vocab

TEXT = str(FILES / "words.txt")
PARAMETERS = {"gt": (7,), "wb": (), "n": (), "cd": (0.5,), "add": (0.3,), "ukn": (), "kn": ()}
MARKS = [Marks(), Marks(sos=False), Marks(eos=False), Marks(False, False, True)]


def smoothed(name, order, interpolate=False, minimum=1, marks=MARKS[0], unk=False, words=None, path=TEXT):
    counts = collect(Sources([path], [], order, words, marks))
    vocab = make_vocab(sorted(counts.words), unk, True)
    parameters = {1: (1,)} if name == "gt" else {}
    methods = [
        METHODS[name](parameters.get(k, PARAMETERS[name]), interpolate, 1 if k < 3 else minimum)
        for k in range(1, order + 1)
    ]
    return estimate(counts, vocab, Recipe(methods, (0.5, 1, 1.5)))[0]


@pytest.mark.parametrize(
    "name, interpolate", [pair for pair in product(METHODS, [False, True]) if pair != ("gt", True)]
)
@pytest.mark.parametrize("order", [1, 2, pytest.param(3, marks=pytest.mark.sample(4)), 4])
def test_every_method_sums_to_one(name, interpolate, order):
    listed = [b"baba", b"deba", b"kiba", b"side", b"never"]
    for marks in MARKS:
        for unk, words, minimum in ((False, None, 2), (True, listed, 1), (False, listed, 1)):
            model = smoothed(name, order, interpolate, minimum, marks, unk, words)
            for corpus in read_corpus(str(FILES / "words.txt"), model.vocab, marks, model.order):
                first_tokens = corpus.scored.copy()
                first_tokens[60:] = False
                # without <s> some n-grams stand behind nothing; SRILM gives their contexts a share for them too
                tolerance = 5e-3 if name in ("ukn", "kn") and interpolate and not marks.sos else 1e-4
                assert vocabulary_sums(model, corpus, first_tokens) == pytest.approx(1, abs=tolerance)
                break


@pytest.mark.parametrize("cutoff", [0, 1, 2])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_kenlms_conventions_sum_to_one(cutoff, order):
    counts = collect(Sources([TEXT], [], order))
    vocab = make_vocab(sorted(counts.words), True, True)
    methods = [ModifiedKneserNey(interpolate=True, cutoff=cutoff if k > 1 else 0) for k in range(1, order + 1)]
    model = estimate(counts, vocab, Recipe(methods, (0.5, 1, 1.5), kenlm=True))[0]
    (corpus,) = read_corpus(TEXT, vocab, Marks())
    first_tokens = corpus.scored.copy()
    first_tokens[90:] = False
    assert vocabulary_sums(model, corpus, first_tokens) == pytest.approx(1, abs=1e-5)


def kneser_ney(sentences, order, words):
    """p(word | context) of interpolated modified Kneser-Ney (Chen and Goodman 1998), straight from its equations."""
    raw = naive.ngrams(sentences, order)
    counts, D = [None], [None]
    for k in range(1, order + 1):
        if k == order:
            kn_counts = Counter({g: n for g, n in raw.items() if len(g) == k})
        else:
            kn_counts = Counter(g[1:] for g in raw if len(g) == k + 1 and g[1] != b"<s>")
            kn_counts.update({g: n for g, n in raw.items() if len(g) == k and g[0] == b"<s>"})
        kn_counts = Counter({g: n for g, n in kn_counts.items() if g[-1] != b"<s>"})
        n = [0, *(sum(c == r for c in kn_counts.values()) for r in (1, 2, 3, 4))]
        Y = n[1] / (n[1] + 2 * n[2])
        counts.append(kn_counts)
        D.append([0, *(r - (r + 1) * Y * n[r + 1] / n[r] for r in (1, 2, 3))])

    def p(context, word):
        k = len(context) + 1
        lower = p(context[1:], word) if context else 1 / len(words)
        children = [n for g, n in counts[k].items() if g[:-1] == context]
        if not children:
            return lower
        c = counts[k].get((*context, word), 0)
        weight = sum(D[k][min(n, 3)] for n in children) / sum(children)
        return max(c - D[k][min(c, 3)], 0) / sum(children) + weight * lower

    return p


@pytest.mark.parametrize("order", [1, 2])
def test_modified_kneser_ney_is_its_equations(order):
    model = smoothed("kn", order, interpolate=True)
    rows = [line.split() for line in (FILES / "words.txt").read_bytes().splitlines()]
    p = kneser_ney([[b"<s>", *row, b"</s>"] for row in rows], order, model.vocab.words[: model.vocab.V])
    (corpus,) = read_corpus(TEXT, model.vocab, Marks())
    logp = model.score(corpus).logp
    words = model.vocab.words
    for t, context in list(enumerate(contexts(corpus, order)))[:80]:
        if corpus.scored[t]:
            history = tuple(words[i] for i in context[::-1] if i >= 0)
            assert math.exp(logp[t]) == pytest.approx(p(history, words[corpus.ids[t]]), rel=1e-5)


def test_natural_law_takes_contexts_of_many_types():
    """Kernels count types in 32 bits, in which the square of 80,000 has no place."""
    k, T = 80_000, np.array([90_000.0])
    q, _ = METHODS["n"]().shares(T, np.full((3, 1), k, np.int32), 100_000)
    assert q[0] == pytest.approx(T[0] * (T[0] * (T[0] + 1) + 2 * k) / (T[0] * (T[0] + 1) + k * (1 - k)))


@pytest.mark.parametrize("name", ["gt", "kn"])
def test_both_forms_give_back_the_model(name, tmp_path):
    model = smoothed(name, 3, minimum=2)
    first = io.BytesIO()
    writer.write_text(first, model)
    second = io.BytesIO()
    backoff.write_binary(second, model)
    for i, data in enumerate((first, second)):
        (tmp_path / str(i)).write_bytes(data.getvalue())
        again = io.BytesIO()
        writer.write_text(again, load(str(tmp_path / str(i))))
        assert again.getvalue() == first.getvalue()


@pytest.mark.parametrize("name", ["gt", "wb", "kn"])
def test_what_is_cut_off_is_not_stored(name):
    model = smoothed(name, 4, interpolate=name != "gt", minimum=2)
    assert sum(model.nodes.size(k) for k in range(2, model.order + 1)) == sum(model.sizes[1:])
    assert sum(model.sizes[2:]) < sum(smoothed(name, 4, interpolate=name != "gt").sizes[2:])


def test_counts_without_discounts_are_explained(tmp_path):
    (tmp_path / "t").write_text("a b\n")
    counts = collect(Sources([str(tmp_path / "t")], [], 2))
    vocab = make_vocab(counts.words)
    with pytest.raises(NoDiscount, match=r"order 1 .*n1 = 3, n2 = 0, .*-discount-fallback.*-wbdiscount1"):
        estimate(counts, vocab, Recipe([ModifiedKneserNey()] * 2))


def test_nothing_to_count(tmp_path):
    (tmp_path / "t").write_text("\n")
    counts = collect(Sources([str(tmp_path / "t")], [], 2))
    with pytest.raises(LmtkError, match="no word"):
        estimate(counts, make_vocab([b"a"]), Recipe([WittenBell()] * 2))


@pytest.mark.parametrize("name", ["kn", "ukn"])
@pytest.mark.parametrize("unk", [False, True])
def test_tuned_discounts_give_the_text_most(tmp_path, name, unk):
    random = np.random.default_rng(3)
    for file, size in (("train", 400), ("heldout", 100)):
        lines = [" ".join(f"w{i}" for i in random.zipf(1.5, 9) % 50) for _ in range(size)]
        (tmp_path / file).write_text("\n".join(lines) + "\n")
    counts = collect(Sources([str(tmp_path / "train")], [], 3, [f"w{i}".encode() for i in range(30)]))
    vocab = make_vocab(sorted(counts.words), unk)
    (corpus,) = read_corpus(str(tmp_path / "heldout"), vocab, Marks())
    methods = [METHODS[name]((), True)] * 3
    text, levels = HeldOut(corpus, vocab, methods), counted_levels(counts, vocab, methods)
    tuned = text.tune(text.of_levels(levels))

    def total(tuned):
        logp = estimate(counts, vocab, Recipe(methods, (0.5, 1, 1.5), fixed=tuned))[0].score(corpus).logp
        return logp[corpus.scored & np.isfinite(logp)].sum()

    most = total(tuned)
    assert most > total({})
    for k, method in tuned.items():
        for r, d in enumerate(method.parameters):
            for step in (-0.02, 0.02):
                if 1e-3 <= d + step <= r + 1:
                    moved = (*method.parameters[:r], d + step, *method.parameters[r + 1 :])
                    assert total({**tuned, k: replace(method, parameters=moved)}) < most + 1e-4
