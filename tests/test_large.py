"""What is done otherwise for large jobs is the same as for small ones."""

import io

import numpy as np
import pytest

from lmtk.ngram import backoff, counts
from lmtk.ngram.counts import collect, write_counts
from lmtk.ngram.smoothing import Method, estimate
from lmtk.text.corpus import Marks
from lmtk.text.vocab import make_vocab

METHODS = {"gt": (7,), "wb": (), "kn": ()}


def random_text(folder, seed):
    random = np.random.default_rng(seed)
    lines = [" ".join(f"w{int(i)}" for i in random.zipf(1.5, random.integers(1, 20)) % 97) for _ in range(300)]
    (folder / "t").write_text("\n".join(lines) + "\n")
    return str(folder / "t")


def estimated(text, name, order, marks, unk, words, interpolate):
    def arrange(words):
        return make_vocab(sorted(words), unk).words

    found = collect([text], [], order, words, marks, arrange=arrange)
    methods = [Method(name, METHODS[name], interpolate, 1 if k < 3 else 2) for k in range(1, order + 1)]
    model = estimate(found, make_vocab(sorted(found.words), unk), order, methods, (0.5, 1, 1.5))[0]
    out = io.BytesIO()
    write_counts(out, found)
    return out.getvalue(), model


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("words", [None, [b"w1", b"w2", b"w5", b"never"]])
@pytest.mark.parametrize("marks", [Marks(), Marks(False, False), Marks(False, False, True)])
def test_linked_counts_give_the_same_model(tmp_path, monkeypatch, name, order, words, marks):
    text = random_text(tmp_path, order)
    for unk in (False, True):
        found = []
        for large in (1 << 40, 1):
            monkeypatch.setattr(counts, "LARGE", large)
            table, model = estimated(text, name, order, marks, unk, words, unk)
            binary = io.BytesIO()
            backoff.write_binary(binary, model)
            found.append((table, binary.getvalue()))
        assert found[0] == found[1]
