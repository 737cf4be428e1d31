"""Random jobs of estimation, and the ways to do them."""

import io
import sys

import numpy as np
import pytest

from lmtk import cli
from lmtk.errors import LmtkError
from lmtk.ngram.counting.counts import Counts, count_ids, from_rows
from lmtk.ngram.estimate import smoothing, suffix
from lmtk.ngram.estimate.buckets import estimating
from lmtk.ngram.estimate.heldout import HeldOut
from lmtk.ngram.estimate.methods import METHODS, Recipe
from lmtk.text.corpus import Corpus, Marks
from lmtk.text.vocab import make_vocab

PARAMETERS = {"gt": (3,), "wb": (), "cd": (0.5,), "add": (0.3,), "ukn": (), "kn": ()}


def job(seed):
    """A random text as ids with borders, its marks, vocabulary and methods, and whether it is done as lmplz does it."""
    random = np.random.default_rng(seed)
    V, N, order = (int(random.integers(low, high)) for low, high in ((1, 40), (2, 600), (2, 10)))
    order += 12 * (seed % 8 == 7)  # above 14 `begins` has other bytes
    kenlm, unk = random.integers(3) == 0, bool(random.integers(2))
    marks = Marks() if kenlm else Marks(bool(random.integers(2)), bool(random.integers(2)))
    plain = [b"w%d" % i for i in range(V)]
    vocab = make_vocab(plain, unk or kenlm)
    ids = np.array([vocab.index[w] for w in plain], np.int32)[random.zipf(1.4, N) % V]
    if random.integers(2):
        ids[random.random(N) < 0.1] = vocab.unk_id
    ids[random.random(N) < 0.2] = ids[-1] = 0
    every, interpolate, cutoff, methods = str(random.choice(list(PARAMETERS))), bool(random.integers(2)), 0, []
    for k in range(1, order + 1):
        name = "kn" if kenlm else str(random.choice(list(PARAMETERS))) if random.integers(3) == 0 else every
        if k > 1 and random.integers(4) == 0:
            cutoff += int(random.integers(2))
        minimum = 1 if kenlm or k == 1 else int(random.integers(1, 3))
        methods.append(METHODS[name](PARAMETERS[name], interpolate or kenlm, minimum, cutoff if k > 1 else 0))
    return ids, marks, vocab, methods, kenlm


def by_counts(ids, marks, vocab, methods, kenlm, tell):
    counts = counts_of(ids, marks, vocab, len(methods))
    return smoothing.estimate(counts, vocab, Recipe(methods, (0.5, 1, 1.5), tell, kenlm=kenlm))


def counts_of(ids, marks, vocab, order):
    """The Counts of a text as `job` has it."""
    sentences = np.split(ids, np.flatnonzero(ids == 0) + 1)[:-1]
    first, last = ([vocab.sos_id] * marks.sos, [vocab.eos_id] * marks.eos)
    rows = [row for x in sentences if (row := [*first, *x[:-1].tolist(), *last])]
    starts = np.cumsum([0, *map(len, rows)])
    ids = np.array([i for row in rows for i in row], np.int32)
    levels = count_ids(ids, starts, order, len(vocab.words), len(ids))
    return Counts(vocab.words, levels)


def whole_of(suffixes, vocab, recipe):
    """(the Buckets of a model whose one bucket is in memory, the methods with their discounts)."""
    job = estimating.estimate(estimating.count(suffixes, vocab, recipe, types=True))
    return job, job.methods


def by_suffixes(ids, marks, vocab, methods, kenlm, tell):
    ngrams = suffix.suffix_order([ids], len(ids), len(methods), len(vocab.words) - 1, marks)
    return whole_of(ngrams, vocab, Recipe(methods, (0.5, 1, 1.5), tell, kenlm=kenlm))


def outcome(estimate, *arguments):
    """(model or None, its methods, and the messages, an error included)."""
    messages = []
    try:
        return *estimate(*arguments, messages.append), messages
    except LmtkError as e:
        return None, None, [*messages, str(e)]


def written(write, *arguments):
    out = io.BytesIO()
    write(out, *arguments)
    return out.getvalue()


def held_out_job(seed):
    """`job` with interpolated Kneser-Ney of one kind, and a HeldOut with words that the text may not have."""
    ids, marks, vocab, methods, _ = job(seed)
    random, when = np.random.default_rng(seed), ["before", "after", "never"][seed % 3]
    methods = [METHODS[["kn", "ukn"][seed % 2]]((), True, counts=when)] * len(methods)
    words = random.choice(np.append(ids, [vocab.unk_id, vocab.sos_id]), 400)
    begins = random.integers(len(ids), size=9)
    words = np.concatenate((words, *(ids[i : i + 40] for i in begins))).astype(np.int32)
    starts = np.unique([0, *random.integers(1, len(words), 20), len(words)])
    scored = words != vocab.sos_id
    scored[(words < vocab.V).argmax()] = True
    return ids, marks, vocab, methods, HeldOut(Corpus(words, starts, scored), vocab, methods)


def counts_job(seed):
    """Random counts, n-grams without their suffixes or of count 0 among them, and what goes with them, as `job`."""
    random = np.random.default_rng(seed)
    kenlm, pause, order = bool(random.integers(3) == 0), bool(random.integers(4) == 0), int(random.integers(2, 8))
    plain = [b"w%d" % i for i in range(random.integers(1, 30))] + [b"-pau-"] * (pause and not kenlm)
    words = [plain[i] for i in random.permutation(len(plain))] + [b"<s>", b"</s>", b"<unk>"]
    deep = 12 * (seed % 8 == 7)
    order += deep
    floats, large = not kenlm and random.integers(4) == 0, 1 << int(random.choice([0, 33]))
    text, full = [], random.integers(3)
    for size in random.integers(1, 9 + deep, random.integers(1, 60)):
        ids = np.where(random.random(size) < 0.05, len(words) - 1, random.zipf(1.3, size) % len(plain))
        text.append([len(words) - 3, *ids, len(words) - 2])
    rows, weights = [], []
    for k in range(1, order + 1):
        own = np.array([x[i : i + k] for x in text for i in range(len(x) - k + 1)], np.int32).reshape(-1, k)
        rows.append(own[random.random(len(own)) < random.random()] if full else own)
        weights.append(random.integers(full != 2, 3, len(rows[-1])) * large * (random.random() if floats else 1))
    interpolate, when = kenlm or bool(random.integers(2)), str(random.choice(["before", "after", "never"]))
    every, methods = str(random.choice(list(PARAMETERS))), []
    for k in range(1, order + 1):
        name = "kn" if kenlm else str(random.choice(["wb", "cd", "add"])) if floats else every
        cutoff, minimum = (int(random.integers(4) == 0), int(random.integers(1, 3))) if k > 1 else (0, 1)
        methods.append(METHODS[name](PARAMETERS[name], interpolate, 1 if kenlm else minimum, cutoff, when))
    contexts_only = words[:2] if len(plain) > 3 and not kenlm and seed % 3 == 0 else ()
    counts = Counts(words, from_rows(rows, weights, len(words)))
    vocab = make_vocab(words, kenlm or full == 1, nonevents=contexts_only)
    own = ({*words[::2]}, int(random.integers(50))) if kenlm and random.integers(2) else ()
    return counts, vocab, methods, kenlm, own


def lmtk(monkeypatch, *words):
    with monkeypatch.context() as patched:
        patched.setattr(sys, "argv", ["lmtk", *map(str, words)])
        with pytest.raises(SystemExit) as done:
            cli.main()
    assert done.value.code == 0


OPTIONS = [
    ["-order", "3", "-wbdiscount"],
    ["-order", "4", "-kndiscount", "-interpolate", "-discount-fallback"],
    ["-order", "3", "-kenlm", "-discount-fallback", "-prune-by-count", "0", "1"],
    ["-order", "2", "-wbdiscount", "-vocab", "v"],
    ["-order", "3", "-wbdiscount", "-vocab", "v", "-unk", "-sort"],
    ["-order", "3", "-wbdiscount", "-stream"],
    ["-order", "17", "-wbdiscount", "-stream"],
    ["-order", "3", "-wbdiscount", "-no-sos", "-no-eos"],
    ["-order", "2", "-wbdiscount", "-tolower", "-map-unk", "B"],
    ["-order", "3", "-wbdiscount", "-memory", "10K"],
    ["-order", "3", "-wbdiscount", "-prune", "1e-3"],
    ["-order", "4", "-wbdiscount", "-gt3min", "1", "-classes", "classes"],
    ["-order", "3", "-kndiscount", "-discount-fallback", "-kn-counts-modified"],
    ["-order", "3", "-ukndiscount", "-discount-fallback", "-kn-modify-counts-at-end"],
    ["-order", "3", "-kenlm", "-discount-fallback", "-limit-vocab-file", "v", "-vocab-pad", "20", "-verbose-header"],
    ["-order", "4", "-kenlm", "-layout", "kenlm", "-discount-fallback", "-prune-by-count", "0", "1"],
    ["-order", "2", "-kenlm", "-layout", "kenlm", "-discount-fallback", "-vocab", "v"],
    ["-order", "3", "-kenlm", "-layout", "kenlm", "-discount-fallback", "-interpolate-unigrams", "0", "-memory", "10K"],
    ["-order", "3", "-wbdiscount", "-write", "counts"],
    ["-order", "3", "-wbdiscount", "-read", "c"],
]


TEXTS = {
    "plain": "a b c\n\nb c a a\nc\n" * 3 + "b" * 40 + " B\n",
    "marks at the ends": "<s> a b </s>\na c </s>\n\n<s>\n</s> b\nb c\n" * 3,
    "marks inside": "a <s> b\nb </s> c\n" * 3,
    "no line end": "a b\nb a",
}
