"""FSTs against a slow compiler in Python, path weights against scores, and printed weights against Python's "%g".

The golden cases in cases/fst have lines of kaldilm 1.15.5. `make decoders` compares with kaldilm itself.
"""

import io
import math
from itertools import pairwise

import numpy as np
import pytest
from helpers import random_model

from lmtk.errors import FormatError
from lmtk.fst.compiling import Form, Fst, compile_ngrams, remove_redundant
from lmtk.fst.ngrams import Ngrams, ngrams_of_arpa
from lmtk.fst.symbols import Symbols, as_binary, as_text, new_symbols, read_symbols
from lmtk.fst.writing import pieces, write_binary, write_text
from lmtk.ngram.arpa.reader import make_rows
from lmtk.ngram.arpa.writer import write_text as write_arpa
from lmtk.text.corpus import Corpus
from lmtk.text.vocab import EOS, SOS

LN10 = math.log(10)


def ngrams_of(model):
    """The Ngrams of a Backoff, through an ARPA file."""
    out = io.BytesIO()
    write_arpa(out, model)
    return ngrams_of_arpa(io.BufferedReader(io.BytesIO(out.getvalue())), "model")


def compiled(ngrams, backoff=b"#0", order=None, is_sorted=True):
    """(the Fst of Ngrams, the numbers of words, the Form), with the numbers in a random order."""
    words = [*ngrams.words, b"#0"]
    numbers = dict(zip(words, (np.random.default_rng(len(words)).permutation(len(words)) + 1).tolist()))
    label = None if backoff is None else numbers.get(backoff, 0)
    form = Form(numbers[SOS], numbers[EOS], label, order or len(ngrams.rows), is_sorted)
    labels = np.array([numbers[w] for w in ngrams.words], np.int32)
    return compile_ngrams(ngrams, labels, form), numbers, form


def text_of(fst):
    out = io.BytesIO()
    write_text(out, fst)
    return out.getvalue().decode()


def single(log10):
    return -float(np.float32(float(log10) * LN10))


def naive_lines(ngrams, numbers, form):
    """The lines of an Fst, by a dict of histories: an arc for each n-gram, in the order of the n-grams."""
    folded, states, final, arcs, start = form.backoff is not None, {(): 0}, {}, {0: []}, None
    if not folded:
        arcs[1], final[1] = [], 0.0

    def state_of(history, bow):
        if history not in states:
            states[history] = state = len(arcs)
            suffix = next(history[i:] for i in range(1, len(history) + 1) if history[i:] in states)
            arcs[state] = [(form.backoff or 0, 0, single(bow), states[suffix])]
        return states[history]

    for k, rows in enumerate(ngrams.rows, 1):
        for row, (p, bow) in zip(rows.tolist(), rows.view(np.float32)[:, k:].tolist()):
            *history, word = (numbers[ngrams.words[i]] for i in row[:k])
            if tuple(history) not in states or (history and word == form.sos):
                continue
            source, weight = states[tuple(history)], single(max(p, -99))
            if word == form.eos and folded:
                final[source] = weight
                continue
            highest = k == form.order
            target = 1 if word == form.eos else state_of((*history, word)[highest:], 0 if highest else bow)
            if word == form.sos:
                start = target
                if folded:
                    continue
                start = source = len(arcs)
                arcs[source], weight = [], 0.0
            arcs[source].append((word, word, weight, target))
    lines = []
    for state in (start, *(s for s in arcs if s != start)):
        for i, o, weight, target in sorted(arcs[state]) if form.is_sorted else arcs[state]:
            lines.append(f"{state}\t{target}\t{i}\t{o}" + (f"\t{weight:g}" if weight else ""))
        if state in final:
            lines.append(f"{state}" + (f"\t{final[state]:g}" if final[state] else ""))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("backoff", [b"#0", None, b"<eps>"])
@pytest.mark.parametrize("seed", range(5))
def test_lines_are_those_of_a_slow_compiler(seed, backoff):
    ngrams = ngrams_of(random_model(seed, seed % 4 + 1, unk=seed % 2 == 0, holes=False))
    for is_sorted in (True, False):
        fst, numbers, form = compiled(ngrams, backoff, is_sorted=is_sorted)
        assert text_of(fst) == naive_lines(ngrams, numbers, form)


def test_states_of_suffixes_that_the_model_lacks():
    """More such states than the hash table has room for at first."""
    a, b = ([b"%s%d" % (x, i) for i in range(60)] for x in (b"a", b"b"))
    words = [SOS, EOS, *a, *b]
    two = [(2, i) for i in range(3, 62)]
    three = [(*row, j) for row in two for j in range(62, 122)]
    rows = [np.arange(len(words))[:, None], np.array(two), np.array(three)]
    rows = [make_rows(x.astype(np.int32), -1.0, -0.5 if x.shape[1] < 3 else 0.0) for x in rows]
    ngrams = Ngrams(words, rows, "model")
    fst, numbers, form = compiled(ngrams)
    assert len(fst.final) > len(words) + len(two) + 3000
    assert text_of(fst) == naive_lines(ngrams, numbers, form)


def weight_of(fst, labels):
    """The weight of the path with these labels that takes a back-off arc only where no other arc has the label."""
    state, total = fst.start, 0.0
    arcs = lambda: range(fst.begins[state], fst.begins[state + 1])
    for label in (*labels, None):
        while True:
            if label is None and np.isfinite(fst.final[state]):
                return total + float(fst.final[state])
            arc = next((a for a in arcs() if fst.label[a] == label), None)
            taken = arc if arc is not None else next(a for a in arcs() if fst.label[a] in (0, fst.backoff))
            state, total = int(fst.target[taken]), total + float(fst.weight[taken])
            if arc is not None:
                break


@pytest.mark.parametrize("seed", range(4))
def test_path_weights_are_the_scores_of_sentences(seed):
    model = random_model(seed, seed % 3 + 2, holes=False)
    fst, numbers, _ = compiled(ngrams_of(model))
    smaller = remove_redundant(fst)
    assert len(smaller.final) <= len(fst.final)
    random = np.random.default_rng(seed)
    for _ in range(50):
        words = [model.vocab.words[i] for i in random.integers(1, model.vocab.V, random.integers(0, 8))]
        ids = [model.vocab.index[w] for w in (SOS, *words, EOS)]
        scored = np.arange(len(ids)) > 0
        p = model.score(Corpus(np.array(ids, np.int32), np.array([0]), scored)).logp.sum()
        for each in (fst, smaller):
            # the ARPA file has seven digits
            assert weight_of(each, [numbers[w] for w in words]) == pytest.approx(-p, rel=1e-5)


def test_removed_states_are_those_with_a_backoff_arc_alone():
    fst, *_ = compiled(ngrams_of(random_model(3, 4, holes=False)))
    smaller = remove_redundant(fst)
    has_one = np.diff(smaller.begins) == 1
    only = has_one & np.isinf(smaller.final)
    only[smaller.start] = False
    labels = smaller.label[smaller.begins[:-1][only]]
    assert len(smaller.final) < len(fst.final) and not (labels == fst.backoff).any()


def test_weights_of_skipped_states_stay_finite():
    final, begins = np.array([np.inf, np.inf, 0], np.float32), np.array([0, 1, 2, 2])
    label, target, weight = np.array([5, 9], np.int32), np.array([1, 2], np.int32), np.full(2, 2e38, np.float32)
    smaller = remove_redundant(Fst(0, final, begins, label, target, weight, 9))
    assert len(smaller.final) == 2 and weight_of(smaller, [5]) == pytest.approx(3e38)


def test_weights_have_six_digits():
    """Random single-precision numbers, halves of the sixth digit, and the ends of each form."""
    random = np.random.default_rng(1)
    weights = np.concatenate(
        [
            10.0 ** random.uniform(-12, 12, 20000) * random.choice([-1, 1], 20000),
            np.arange(1, 2000) / 128 + 1000,
            [0.0001, 0.00009999995, 999999.5, 999999.4, 1e6, 1, 0.1, 9.999995, 227.956, 1e-30, 1e30, 3e38, 0, -0.0],
        ]
    ).astype(np.float32)
    A = len(weights)
    fst = Fst(0, np.full(2, np.inf, np.float32), np.array([0, A, A]), *np.ones((2, A), np.int32), weights, 0)
    lines = text_of(fst).splitlines()
    assert [line.split("\t")[4:] for line in lines] == [[f"{w:g}"] if w else [] for w in weights.tolist()]


def test_pieces_have_all_states():
    begins = np.array([0, 40000, 40000, 40001, 140000, 140001])
    fst = Fst(0, np.zeros(5, np.float32), begins, *np.ones((2, 140001), np.int32), np.ones(140001, np.float32), 0)
    for first, last in ((0, 5), (1, 5), (2, 3)):
        parts = list(pieces(fst, first, last))
        assert parts[0][0] == first and parts[-1][1] == last
        assert all(a[1] == b[0] for a, b in pairwise(parts)) and all(a < b for a, b in parts)


def test_symbol_tables_are_read_as_they_were_written(tmp_path):
    symbols = new_symbols([b"#0", b"a", b"\xff\xc3\xa9", b"a", b"b"])
    assert symbols.number == {b"<eps>": 0, b"#0": 1, b"a": 2, b"\xff\xc3\xa9": 3, b"b": 4}
    (tmp_path / "words").write_bytes(as_text(symbols))
    assert read_symbols(str(tmp_path / "words")).number == symbols.number
    fst, *_ = compiled(ngrams_of(random_model(1, 2, holes=False)))
    with open(tmp_path / "fst", "wb") as out:
        write_binary(out, fst, symbols)
    assert read_symbols(str(tmp_path / "fst")).number == symbols.number
    assert len(as_binary(Symbols({b"x": 7}))) == 4 + 4 + 5 + 16 + 4 + 1 + 8
    with pytest.raises(FormatError, match="the symbol table: the number 2147483646 is taken, so none is left for b"):
        Symbols({b"a": 2**31 - 2}).add(b"b")
