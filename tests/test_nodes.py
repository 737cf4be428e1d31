"""The n-grams as they are stored: forged files, kernels with numba's checks of bounds, and damage in large files."""

import io
import os
import subprocess
import sys
from contextlib import suppress
from itertools import product

import numpy as np
import pytest
from helpers import BOUNDS_CHECKED, FILES, TESTS, in_process

import lmtk
from lmtk.errors import FormatError
from lmtk.files import container
from lmtk.files.registry import load
from lmtk.jobs.scoring import Scoring, report_text
from lmtk.ngram.arpa import writer
from lmtk.ngram.edit import prune
from lmtk.ngram.model import backoff, compact, nodes
from lmtk.reports import kenlm
from lmtk.text.corpus import Marks, read_corpus


def forged(path, random, columns=(0, 1, -1)):
    """A binary file with right checksums, some of whose words, pointers, suffixes and slots mean nothing."""
    settings, arrays = backoff.to_arrays(load(FILES / "wb.arpa"))
    arrays = {name: a.copy() for name, a in arrays.items()}
    for a in (a for name, a in arrays.items() if name.startswith("nodes")):
        inside = [c for c in columns if c != 1 or a.shape[1] == nodes.WIDE]
        for _ in range(3 if inside else 0):
            forged_value = random.choice([-1, -(2**31), 2**31 - 1, len(a), len(a) + 1, int(random.integers(0, 99))])
            # the ends of an order are looked at when it is loaded
            a[random.integers(1, len(a) - 1), random.choice(inside)] = forged_value
    arrays["far"] = random.integers(-3, 9, (4, 2)).astype(np.int32)
    arrays["slots"] = random.choice([-1, -(2**31), 2**31 - 1, 3, 9], 8).astype(np.int32)
    arrays["spans"][2:] = random.choice([(0, 8), (4, 4), (0, 0)])
    with open(path, "wb") as out:
        container.write(out, "backoff", settings, arrays, load(FILES / "wb.arpa").vocab.words)


@pytest.mark.parametrize("seed", range(20))
def test_a_forged_file_is_scored_within_bounds(tmp_path, large_from, seed):
    """Whatever its pointers say, nothing outside is read: the plain twin, the kernel and KenLM's way agree, or it is
    one error; and so is everything that goes over the whole model.
    """
    path = str(tmp_path / "forged")
    forged(path, np.random.default_rng(seed), (1, -1) if seed % 2 else (0, 1, -1))
    try:
        model = load(path)
    except FormatError as e:
        assert "damaged" in str(e)
        return
    for corpus in read_corpus(str(FILES / "te.txt"), model.vocab, Marks()):
        outcomes = []
        for large in (1 << 40, 1):
            large_from(large)
            outcomes.append(model.score(corpus))
            kenlm.walk(model, lengths=False)(corpus.ids, corpus.fresh)
        assert len(outcomes[0].logp) == len(outcomes[1].logp)
    sentences = (FILES / "te.txt").read_text().splitlines()
    python = lmtk.Model(path)
    python.score_many(sentences)
    for sentence in sentences:
        python.score(sentence)
    state = lmtk.State()
    python.BeginSentenceWrite(state)
    for word in sentences[0].split():
        python.BaseScore(state, word, state)
    wholes = (
        lambda: prune.prune(model, 1e-3),
        lambda: writer.write_text(io.BytesIO(), model),
        lambda: list(python.full_scores(sentences[0])),
    )
    for large, whole in product((1 << 40, 1), wholes):
        large_from(large)
        try:
            whole()
        except FormatError as e:
            assert "damaged" in str(e)


@pytest.mark.parametrize("large", [1 << 40, 1])
def test_forged_weights_that_are_no_numbers_are_one_error(tmp_path, large_from, large):
    large_from(large, "text")
    model, path = load(FILES / "wb.arpa"), str(tmp_path / "forged")
    settings, arrays = backoff.to_arrays(model)
    arrays = {name: a.copy() for name, a in arrays.items()}
    arrays["nodes1"].view(np.float32)[:, nodes.BOW] = np.nan
    with open(path, "wb") as out:
        container.write(out, "backoff", settings, arrays, model.vocab.words)
    said = []
    with pytest.raises(FormatError, match="damaged: weights that are not numbers"):
        report_text(load(path), str(FILES / "te.txt"), Scoring(), said.append)
    assert not said


def test_damage_in_a_large_file_is_seen_before_anything_is_said(tmp_path, large_from):
    """Its checksums are compared after scoring; ppl still prints nothing but one line of error."""
    path = tmp_path / "m"
    with open(path, "wb") as out:
        backoff.write_binary(out, load(FILES / "wb.arpa"))
    data = bytearray(path.read_bytes())
    places = len(data) - 9, len(data) - 200, len(data) // 2
    for at in places:
        (tmp_path / f"{at}").write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(FormatError):
            lmtk.load(tmp_path / f"{at}", check=True)
    large_from(1, "binary")
    for at in places:
        status, out, err = in_process(tmp_path, "ppl", "-lm", f"{at}", "-text", FILES / "te.txt")
        assert (status, out) == (1, b"") and err.count("\n") == 1


def test_kernels_stay_within_bounds(amount):
    """The tests of kernels on n-grams, with numba's checks on."""
    if os.environ.get("NUMBA_BOUNDSCHECK") or not amount(0, 1):
        pytest.skip("half a minute of compilation: with --all")
    files = [str(TESTS / f"{name}.py") for name in ("test_large", "attacks/test_hostile", "test_nodes")]
    chosen = "scored or written or forged or read_alike or linked or edited"
    run = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", chosen, *files]
    done = subprocess.run(run, env=BOUNDS_CHECKED, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.parametrize("name", ["wb.arpa", "binary"])
def test_a_model_without_its_longest_ngrams_is_written_in_binary(tmp_path, name):
    with open(tmp_path / "binary", "wb") as out:
        backoff.write_binary(out, load(FILES / "wb.arpa"))
    model = load(tmp_path / name if name == "binary" else FILES / name).lower(2)
    with open(tmp_path / "lower", "wb") as out:
        backoff.write_binary(out, model)
    again = load(tmp_path / "lower")
    for corpus in read_corpus(str(FILES / "te.txt"), model.vocab, Marks()):
        assert (again.score(corpus).logp == model.score(corpus).logp).all()


@pytest.mark.parametrize("bits", [0, 3, 8])
def test_a_compact_file_is_the_same_model_and_no_harm_when_forged(tmp_path, bits):
    model, out = load(FILES / "wb.arpa"), io.BytesIO()
    compact.write_binary(out, model, True, bits)
    (tmp_path / "c").write_bytes(out.getvalue())
    actual = load(str(tmp_path / "c"))
    corpus = next(read_corpus(str(FILES / "te.txt"), model.vocab, Marks()))
    a, b = model.score(corpus), actual.score(corpus)
    assert np.array_equal(a.length, b.length) and (bits != 0 or np.array_equal(a.logp, b.logp))
    with open(tmp_path / "c", "rb") as stream:
        about, arrays = container.read(stream, str(tmp_path / "c"))
    del arrays["vocabulary"]
    random = np.random.default_rng(1)
    for _ in range(200):
        name = random.choice([name for name, x in arrays.items() if x.size])
        forged = {other: x.copy() for other, x in arrays.items()}
        bytes_ = forged[name].view(np.uint8)
        bytes_[random.integers(len(bytes_))] ^= 1 << random.integers(8)
        if random.random() < 0.2:
            forged[name] = forged[name][:-1]
        with open(tmp_path / "f", "wb") as stream:
            container.write(stream, "backoff-compact", about["settings"], forged, model.vocab.words)
        with suppress(FormatError):
            load(str(tmp_path / "f")).score(corpus)


def test_numbers_are_packed_in_any_width(monkeypatch):
    monkeypatch.setattr(compact, "CHUNK", 16)
    random = np.random.default_rng(1)
    for width in range(1, 31):
        for N in (0, 1, 7, 16, 33):
            x = random.integers(0, 1 << width, N)
            bits = compact.pack_bits(x, width)
            assert len(bits) == (N * width + 7) // 8 and np.array_equal(compact.unpack_bits(bits, width, N), x)


def test_a_file_of_before_the_suffixes_is_read(tmp_path):
    """Its records have a column less; what it lacks is made when it is loaded."""
    model = load(FILES / "wb.arpa")
    settings, arrays = backoff.to_arrays(model)
    old = {name: a[:, :-1] for name, a in arrays.items() if name.startswith("nodes")}
    with open(tmp_path / "old", "wb") as out:
        container.write(out, "backoff", settings, old, model.vocab.words)
    actual = backoff.to_arrays(load(str(tmp_path / "old")))[1]
    assert all(np.array_equal(a, actual[name]) for name, a in arrays.items())


def test_contexts_of_marked_ngrams_are_found_in_parts(monkeypatch):
    """Whatever the size of the parts, a context is one of the parents of the marked n-grams."""
    model, random = load(FILES / "wb.arpa").nodes, np.random.default_rng(1)
    for part, k in product((1, 2, 5, 1 << 18), range(2, model.order + 1)):
        monkeypatch.setattr(nodes, "PART", part)
        marks = random.random(model.size(k)) < 0.2
        expected = np.isin(np.arange(model.size(k - 1)), model.parents(k)[marks])
        assert (nodes.are_contexts(model, k, marks) == expected).all()
