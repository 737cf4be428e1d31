"""What is done otherwise for large jobs is the same as for small ones."""

import io
import re
import resource
import subprocess
import sys
import warnings
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import ENVIRONMENT, random_model, random_text
from reference import edit as reference

from lmtk import cli
from lmtk.commands import options
from lmtk.errors import LmtkError, LmtkWarning
from lmtk.exponential import powers
from lmtk.files import decoding, registry
from lmtk.files.outputs import open_out
from lmtk.lm import LN10
from lmtk.ngram.arpa import kenlm_layout, writer
from lmtk.ngram.counting import collection, runs
from lmtk.ngram.counting.collection import Sources, collect, in_memory
from lmtk.ngram.counting.counts import contexts_of, to_rows, write_counts
from lmtk.ngram.edit import vocabulary
from lmtk.ngram.edit.contexts import context_probabilities, counted_times, times_in_texts
from lmtk.ngram.edit.prune import prune, prune_low
from lmtk.ngram.edit.renormalize import renormalize
from lmtk.ngram.edit.vocabulary import add_words, limit, merge, predict_unknown, rename_unknown
from lmtk.ngram.estimate.methods import METHODS, Recipe
from lmtk.ngram.estimate.smoothing import estimate
from lmtk.ngram.model import backoff, searching
from lmtk.programs.arpa import filter_arpa
from lmtk.programs.kenlm import criterion_of
from lmtk.reports import kenlm, srilm
from lmtk.text.cells import srilm_cells
from lmtk.text.corpus import Marks, corpora, read_corpus
from lmtk.text.vocab import make_vocab

PARAMETERS = {"gt": (7,), "wb": (), "kn": ()}


def estimated(text, name, order, marks, unk, words, interpolate):
    actual = collect(Sources([text], [], order, words, marks))
    methods = [METHODS[name](PARAMETERS[name], interpolate, 1 if k < 3 else 2) for k in range(1, order + 1)]
    model = estimate(actual, make_vocab(sorted(actual.words), unk), Recipe(methods, (0.5, 1, 1.5)))[0]
    out = io.BytesIO()
    write_counts(out, actual)
    return out.getvalue(), model


def make_bare(level, k):
    """Takes the probability from every fifth n-gram above order 1."""
    if k > 1:
        level.log10p[::5] = np.nan


@pytest.mark.sample(25)
@pytest.mark.parametrize("memory", [1, 10_000, 50_000])
@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("marks", [Marks(), Marks(False, True), Marks(False, False, True), Marks(blank=True)])
@pytest.mark.parametrize("large", [1, 1 << 40])
def test_counts_are_the_same_in_any_memory(tmp_path, monkeypatch, large_from, memory, order, marks, large):
    large_from(large)
    monkeypatch.setattr(runs, "FAN", 3)
    text = random_text(tmp_path, 1)
    (tmp_path / "u").write_text("\n\nw1 w2\n" + "w3 w1 w2 " * 9 + "\n\n")
    (tmp_path / "empty").write_text("")
    texts = [str(tmp_path / name) for name in ("u", "empty", "u")] if memory == 1 else [text, str(tmp_path / "u")]
    whole = collect(Sources(texts, [], order, marks=marks))
    actual = in_memory(collect(Sources(texts, [], order, marks=marks), memory=memory), None)
    assert whole.words == actual.words
    for a, b in zip(whole.levels, actual.levels, strict=True):
        assert all(np.array_equal(getattr(a, x), getattr(b, x)) for x in ("keys", "count", "first"))


@pytest.mark.parametrize("memory", [None, 10_000])
@pytest.mark.parametrize("large", [1, 1 << 40])
def test_a_last_line_without_an_end_has_no_eos(tmp_path, monkeypatch, large_from, memory, large):
    """Symbols are skipped, and the blocks of the text are small. The text does not become a Text."""
    large_from(large)
    monkeypatch.setattr(decoding.blocks, "__defaults__", (40, False, False, False))
    lines = ["a b c", "", "c a", "b b a c a"] * 30
    (tmp_path / "t").write_text("\n".join(lines).replace("c a", "c <s> a <unk>") + "\t ")
    marks = Marks(blank=True, open_end=True, skip_symbols=True)
    actual = collect(Sources([str(tmp_path / "t")], [], 3, marks=marks), True, memory=memory)
    expected = Counter()
    for number, line in enumerate(lines, 1):
        words = ["<s>", *line.split(), *["</s>"] * (number < len(lines))]
        expected.update(tuple(words[i : i + k]) for k in (1, 2, 3) for i in range(len(words) - k + 1))
    counts = in_memory(actual, None)
    rows = to_rows(counts.levels, len(counts.words))
    ngrams = [tuple(counts.words[w].decode() for w in row) for level in rows for row in level.tolist()]
    assert dict(zip(ngrams, np.concatenate([level.count for level in counts.levels]).tolist())) == expected


def test_a_vocabulary_that_needs_more_memory_is_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(collection, "LEAST", 0)
    monkeypatch.setattr(collection, "SMALL_BLOCK", 200)
    (tmp_path / "text").write_text("".join(f"w{i % 997} w{i % 31} w{i % 7}\n" for i in range(3000)))
    with pytest.raises(LmtkError, match=r"the vocabulary has 1000 words; give 0M or more"):
        collect(Sources([str(tmp_path / "text")], [], 2), memory=30000)


@pytest.mark.parametrize("seed", range(24))
def test_counts_that_are_read_are_the_same_in_any_memory(tmp_path, monkeypatch, large_from, seed):
    """Lines in any order, some twice, some without their prefixes; files behind one another, and a text; blocks of a
    line and more.
    """
    large_from(seed % 2 * (1 << 40) + 1)
    monkeypatch.setattr(runs, "FAN", 3)
    monkeypatch.setattr(decoding.blocks, "__defaults__", (40 * (seed % 5 + 1), False, False, False))
    random = np.random.default_rng(seed)
    for name in "ab":
        lines = [
            " ".join(f"w{w}" for w in random.integers(0, 6, random.integers(1, 4 + seed % 3)))
            + f"\t{random.integers(9)}"
            for _ in range(300)
        ]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    (tmp_path / "t").write_text("w1 w2 w7\nw3 w1\n" * 40)
    files, texts = [str(tmp_path / name) for name in "ab"], [str(tmp_path / "t")] * (seed % 3 > 0)
    words, limit = [(None, False), ([b"w5", b"w1", b"w2"], False), ([b"w5", b"w1", b"w2"], True)][seed % 4 % 3]
    sources = Sources(texts, files, 2 + seed % 4, words, Marks(), b"<unk>", limit)
    least = [*random.integers(0, 9, 3).tolist(), *random.integers(0, 3, 4).tolist()]
    frequent = [str(tmp_path / f"frequent {name}") for name in "ab"]
    for name, path in zip("ab", frequent):
        lines = [line.split("\t") for line in (tmp_path / name).read_text().splitlines()]
        kept = [f"{words}\t{count}\n" for words, count in lines if int(count) >= least[words.count(" ")]]
        Path(path).write_text("".join(kept))
    assert_equal_counts(sources, 300 << seed % 7)
    if not texts:
        assert_equal_counts(replace(sources, least=least), 300 << seed % 7, replace(sources, files=frequent))


def assert_equal_counts(sources, memory, same=None):
    """The counts are the same in memory and on disk. They are printed as those of the sources `same`."""
    whole, spilled = collect(sources), collect(sources, memory=memory)
    actual = in_memory(spilled, None)
    assert isinstance(spilled, runs.Spilled) and whole.words == actual.words == spilled.words
    for x, *others in zip(whole.levels, actual.levels, spilled.levels(), strict=True):
        for y in others:
            assert np.array_equal(x.keys, y.keys) and np.array_equal(x.count, y.count)
            assert np.array_equal(np.argsort(x.first, kind="stable"), np.argsort(y.first, kind="stable"))
    every = [whole, actual, spilled, collect(same or sources)]
    for by_bytes in (False, True):
        out = [io.BytesIO() for _ in every]
        for stream, counts in zip(out, every):
            write_counts(stream, counts, by_bytes)
        assert len({stream.getvalue() for stream in out}) == 1


def test_a_model_is_the_same_in_any_memory(tmp_path, monkeypatch, large_from):
    large_from(1)
    monkeypatch.setattr(options, "LEAST", 1)
    text = random_text(tmp_path, 1)
    outcomes = []
    for name, more in (("a", []), ("b", ["-memory", "20K"])):
        with monkeypatch.context() as patched:
            patched.setattr(sys, "argv", ["lmtk", "ngram-count", "-text", text, "-lm", str(tmp_path / name), *more])
            with pytest.raises(SystemExit) as done:
                cli.main()
        assert done.value.code == 0
        outcomes.append((tmp_path / name).read_bytes())
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("seed", range(4))
def test_occurrences_in_texts_are_those_of_a_plain_count(tmp_path, seed):
    """With sentences of 1 to 30 words and some of 900, in texts that threads read side by side."""
    random, model = np.random.default_rng(seed), random_model(seed, 4, "abcde", unk=seed % 2 == 0)
    paths = [tmp_path / str(number) for number in range(6)]
    for path in paths:
        sizes = random.integers(1, random.choice([30, 900]), 20)
        path.write_text("".join(" ".join(random.choice([*"abcdef"], size)) + "\n" for size in sizes))
    corpora = [corpus for path in paths for corpus in read_corpus(str(path), model.vocab, Marks(), 4)]
    expected, words = Counter(), 0
    for corpus in corpora:
        for begin, end in pairwise(corpus.starts.tolist()):
            ids = corpus.ids[begin:end].tolist()
            expected.update(tuple(ids[i : i + k]) for k in range(1, 4) for i in range(len(ids) - k + 1))
            words += int(corpus.scored[begin:end].sum())
    times, total = times_in_texts(model, iter(corpora), 3)
    assert total == words
    for k, of_order in enumerate(times, 1):
        assert of_order.tolist() == [expected[tuple(row)] for row in model.nodes.rows(k).tolist()]


def test_occurrences_are_the_same_in_parts_that_lack_long_n_grams(tmp_path):
    """Of counts on disk: </s> has no 2-grams."""
    (tmp_path / "t").write_text("a b a\nb\n")
    counts = collect(Sources([str(tmp_path / "t")], [], 3))
    model = random_model(1, 3, "ab")
    parts = replace(runs.spilled(counts.levels, 0), words=counts.words, batch=1)
    (times, total), (others, of_parts) = (counted_times(*contexts_of(c, 2), model, 2) for c in (counts, parts))
    assert [x.tolist() for x in times] == [x.tolist() for x in others] and total == of_parts == 6


def test_a_full_temporary_disk_is_one_line_and_leaves_nothing(tmp_path):
    text, folder = random_text(tmp_path, 1), tmp_path / "tmp"
    folder.mkdir()
    command = [sys.executable, "-m", "lmtk", "ngram-count", "-text", text, "-memory", "10K", "-write", tmp_path / "out"]
    done = subprocess.run(
        command,
        env=ENVIRONMENT | {"TMPDIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},  # or it would be cut as well
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000)),
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"lmtk ngram-count: {folder}: File too large\n"
    assert not list(folder.iterdir()) and not (tmp_path / "out").exists()


@pytest.mark.parametrize("order", [1, 2, 5])
@pytest.mark.parametrize("words", [None, [b"w1", b"w2", b"w5", b"never"]])
@pytest.mark.parametrize("marks", [Marks(), Marks(False, False, True)])
def test_a_large_text_is_scored_as_a_small_one(tmp_path, monkeypatch, large_from, order, words, marks):
    model = estimated(random_text(tmp_path, 1), "kn", order, marks, words is not None, words, False)[1]
    model = reference.changed(model, make_bare)  # bare prefixes, and n-grams without their suffixes
    for corpus in read_corpus(random_text(tmp_path, 2), model.vocab, marks, order):
        actual = []
        for large, size in ((1 << 40, 0), (1, 1), (1, 100), (1, 1 << 14)):
            large_from(large)
            monkeypatch.setattr(backoff, "BLOCK", size)
            monkeypatch.setattr(searching, "MANY", size)
            model = replace(model)  # its nodes are made anew
            for as_kenlm in (False, True):
                walk = kenlm.walk(model) if as_kenlm else model.walk
                actual.append(walk(corpus.ids, corpus.fresh))
        for i, (logp, used) in enumerate(actual[2:]):
            assert np.array_equal(logp, actual[i % 2][0]) and np.array_equal(used, actual[i % 2][1])


@pytest.mark.parametrize("order", [1, 2, 5])
@pytest.mark.parametrize("unk", [True, False])
def test_the_sums_of_a_large_text_are_those_of_a_small_one(tmp_path, large_from, order, unk):
    words = [b"w1", b"w2", b"w5", b"w7", b"a longish word".replace(b" ", b"-")] if unk else None
    path, text = str(tmp_path / "m"), random_text(tmp_path, 1)
    with open_out(path) as out:
        backoff.write_binary(out, estimated(text, "kn", order, Marks(), unk, words, False)[1])
    unusual = b"w1  w2\tw5 unseen\r\n\n<s> w1 </s>\n \nw5 w5 w5 a-longish-word"
    (tmp_path / "t").write_bytes(b"".join((tmp_path / "t").read_bytes() + unusual for _ in range(3)))
    expected = []
    model = registry.load(path)
    srilm.report(model, text, read_corpus(text, model.vocab, Marks()), 0, expected.append)
    large_from(1, "text")
    for size in (1, 1000, 1 << 18):
        actual = []
        srilm.report_sums(model, text, decoding.blocks(text, size), Marks(), actual.append)
        assert actual == expected and unk != (b" 0 OOVs" not in expected[0])


def test_a_small_job_does_without_numba(tmp_path):
    model = str(tmp_path / "m")
    run = [
        sys.executable,
        "-X",
        "importtime",
        "-m",
        "lmtk",
        "ngram-count",
        "-text",
        random_text(tmp_path, 1),
        "-lm",
        model,
    ]
    loaded = subprocess.run(run, env=ENVIRONMENT, capture_output=True, text=True, check=True).stderr
    assert "lmtk.ngram.estimate.smoothing" in loaded and "numba" not in loaded


def check_numbers(x):
    cells = srilm_cells(x, ord("\t")).view(np.uint8)
    expected = [b"%.7g\t" % (-99 if v == -np.inf else v + 0.0) for v in x.tolist()]
    actual = [cell[: cell[15]].tobytes() for cell in cells]
    wrong = [(a, b) for a, b in zip(actual, expected) if a != b]
    assert not wrong, wrong[:5]


def test_numbers_are_printed_as_python_prints_them():
    random = np.random.default_rng(1)
    check_numbers((-(10 ** random.uniform(-4.5, 2.5, 150_000))).astype(np.float32))
    check_numbers(random.integers(0, 1 << 32, 50_000, np.uint32).view(np.float32))
    # numbers whose 8th digit is a 5 and the last: halves, quarters .. of whole numbers
    check_numbers((random.integers(0, 1 << 24, 100_000) / 2 ** random.integers(0, 24, 100_000)).astype(np.float32))


def test_awkward_numbers_are_printed_as_python_prints_them():
    powers = np.array([float(f"1e{e}") for e in range(-45, 39)], np.float32)
    ones = [1 - 2.0**-k for k in range(1, 25)] + [9.9999995, 99.999995, 0.99999995, 999999.94, 9.999999e-5, 0.1, 0.3]
    values = np.concatenate((powers, np.array([0, -99, np.inf, np.nan, 1e-40, 123456.5, 1234567.5, *ones], np.float32)))
    near = [values, np.nextafter(values, np.float32(0)), np.nextafter(values, np.float32(np.inf))]
    check_numbers(np.concatenate([s * x for x in near for s in (1, -1)]).astype(np.float32))


@pytest.mark.parametrize("nonevents", ["<s> w1 w2 w3", "w1 </s>", "<unk> w2"])
@pytest.mark.parametrize("more", ["", "-write counts", "-memory 64M"])
def test_words_that_are_not_predicted_are_the_same_in_large_texts(tmp_path, monkeypatch, large_from, nonevents, more):
    """Kernels take </s> for the first word of a vocabulary, and <s> for the last."""
    monkeypatch.chdir(tmp_path)
    random_text(tmp_path, 2)
    (tmp_path / "list").write_text(nonevents.replace(" ", "\n") + "\n")
    for size, name in ((1 << 40, "small"), (1, "large")):
        large_from(size)
        cli.run("ngram-count", f"-text t -nonevents list -wbdiscount -lm {name} {more}".split())
    assert (tmp_path / "small").read_bytes() == (tmp_path / "large").read_bytes()


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("unk", [False, True])
@pytest.mark.parametrize("sort", [False, True])
def test_large_models_are_written_as_small_ones(tmp_path, large_from, order, unk, sort):
    text = random_text(tmp_path, order)
    with open(text, "a") as f:
        f.write(f"{'long' * 200_000} w1 w1 w2\n")
    words = [b"w1", b"w2", b"w5", b"never"] if unk else None
    _, model = estimated(text, "wb", order, Marks(eos=not unk), unk, words, True)
    # prefixes that have no probability are not written
    model = reference.changed(model, make_bare)
    outcomes = []
    for large in (1 << 40, 1):
        large_from(large)
        out = io.BytesIO()
        writer.write_text(out, model, sort)
        outcomes.append(out.getvalue())
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("by_bytes", [False, True])
@pytest.mark.parametrize("order", [1, 2, 4])
def test_many_counts_are_written_as_few(tmp_path, large_from, by_bytes, order):
    text = random_text(tmp_path, order)
    with open(text, "a") as f:
        f.write(f"{'long' * 200_000} w1 w1 w2\n")
    actual = collect(Sources([text], [], order))
    # counts of 0 and large ones
    for level in actual.levels:
        level.count[::3] = 0
        level.count[1::5] *= 10**13 - 1
    with open_out(str(tmp_path / "counts")) as out:
        write_counts(out, actual)
    read = collect(Sources([], [str(tmp_path / "counts")], order))
    for only in (None, *range(1, order + 1)):
        for counted in (actual, read):
            written = []
            for large in (1 << 40, 1):
                large_from(large)
                out = io.BytesIO()
                write_counts(out, counted, by_bytes, only)
                written.append(out.getvalue())
            assert written[0] == written[1]


def test_kenlm_layout_by_kernels_has_the_shortest_digits():
    random = np.random.default_rng(1)
    powers = [*2.0 ** np.arange(-20, 20), *10.0 ** np.arange(-9, 9), 0.30103, 9999.9995, 0.99999994, 9.9999995, 0, 99]
    x = np.concatenate([random.random(3000) * 7, random.random(300) * 1e-3, powers]).astype(np.float32)
    p, weight = 0 - x, random.permutation(np.concatenate([x[::2], -x[1::2]])) + np.float32(0)
    words = [b"a", b"<s>", "z\u00e9".encode(), b"long" * 9]
    rows, weight = random.integers(0, 4, (3, len(p))), weight[: len(p)]
    starts = [f"{kenlm.shortest_digits(x)}\t".encode() + b" ".join(words[w] for w in row) for x, row in zip(p, rows.T)]
    weights = [f"\t{kenlm.shortest_digits(x)}".encode() for x in weight]
    for order, ends in ((4, weights), (3, [b""] * len(p))):
        lines = kenlm_layout.lines_of(words, order)(rows, p, weight, None, 3, None)
        assert bytes(lines) == b"".join(b"%s%s\n" % both for both in zip(starts, ends, strict=True))
    assert [kenlm.shortest_digits(np.float32(v)) for v in (0, -1e-7, 1.5, 0.30103)] == ["0", "-1e-7", "1.5", "0.30103"]


@pytest.mark.parametrize("name", ["srilm", "kenlm"])
@pytest.mark.parametrize("marks", [Marks(), Marks(False, True), Marks(True, False), Marks(tolower=True)])
def test_the_lines_of_many_words_are_those_of_few(tmp_path, large_from, name, marks):
    """Long and unknown words, marks in the text, all kinds of blanks, no line end at the end; p near 0, near 1, inf."""
    model = estimated(random_text(tmp_path, 3), "kn", 3, Marks(), name == "kenlm", None, True)[1]

    def change(level, k):
        level.log10p[::7], level.log10p[1::11], level.log10p[2::13] = -np.inf, -4e-6, -1e-8
        level.log10p[3::17] = 320 if name == "srilm" else -320

    model = reference.changed(model, change)
    text = (tmp_path / "t").read_text() + "\n \n\n<s> w1\tw2  </s>\n W3 long" + "er" * 40 + "\x0b w1\x0c\r\nw1 w2 <unk>"
    (tmp_path / "t").write_text(text)
    outcomes = []
    for large in (1 << 40, 1):
        large_from(large)
        out = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if name == "kenlm":
                kenlm.report(model, "-", str(tmp_path / "t"), marks, kenlm.LEVELS, out.write)
            else:
                texts = corpora(decoding.blocks(str(tmp_path / "t")), model.vocab, marks, 3, keep_lines=True)
                srilm.report(model, "t", texts, 2, out.write)
        outcomes.append(out.getvalue())
    assert outcomes[0] == outcomes[1] and outcomes[0].count(b"\n") > 300


EDITS = [
    lambda by, m: by.renormalize(scaled(m, 0.9)),
    lambda by, m: by.renormalize(scaled(m, 1.3)),
    lambda by, m: by.prune(m, 0.01),
    lambda by, m: by.prune(m, 0.1, 3),
    lambda by, m: by.prune(m, 0.02, context=context_probabilities(m, m.lower(2))),
    lambda by, m: by.prune_low(scaled(m, 1.2)),
    lambda by, m: by.prune_low(m, 3),
    lambda by, m: by.merge([m, random_model(20, order=2, words="zafcx", unk=True)], [0.25, 0.75]),
    lambda by, m: by.merge([m, random_model(30, order=4, words="abcdef")], [0.5, 0.5]),
    lambda by, m: by.merge(
        [m, random_model(40, order=2, words="zafcx"), random_model(50, order=4, words="cdq")], [0.5, 0.2, 0.3]
    ),
    lambda by, m: by.limit(m, [b"a", b"d", b"c", b"none"]),
    lambda by, m: by.limit(m, m.vocab.words[1:]),
    lambda by, m: add_words(m, [b"new", b"a", b"other"], True),
    lambda by, m: rename_unknown(m, b"a"),
    lambda by, m: predict_unknown(predict_unknown(m, False), True),
]


@pytest.mark.parametrize("seed", range(6))
def test_models_are_edited_as_by_numpy(monkeypatch, seed):
    model = random_model(seed, order=3 + seed % 2, words="abcdefghijk"[: 4 + seed], unk=seed % 3 == 0)
    mixed = merge([model, random_model(seed + 10, order=4, words="cdefgh")], [0.4, 0.6])
    kernels = SimpleNamespace(renormalize=renormalize, prune=prune, prune_low=prune_low, merge=merge, limit=limit)
    for m in (model, mixed):
        for work in EDITS:
            with warnings.catch_warnings(record=True) as kernel_warnings:
                edited = work(kernels, m)
            with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as plain_warnings:
                patch.setattr(vocabulary, "renumbered", reference.renumbered)
                plain = work(reference, m)
            others = lambda caught: [re.findall(r" and (\d+) other contexts? sum", str(w.message)) for w in caught]
            assert others(plain_warnings) == others(kernel_warnings)
            assert_close(plain, edited)


def test_an_edit_may_use_the_memory_of_its_model():
    model, other = random_model(1, order=4), random_model(30, order=4, words="abcdef")
    whole = merge([scaled(model, 1), other], [0.5, 0.5])
    assert_close(merge([scaled(model, 1), scaled(other, 1)], [0.5, 0.5], may_reuse=True), whole)
    assert_close(
        prune(renormalize(scaled(model, 0.9), may_reuse=True), 0.01, may_reuse=True),
        prune(renormalize(scaled(model, 0.9)), 0.01),
    )


def assert_close(a, b):
    """The same n-grams, with the same log10p and log10bow up to a few units in the last place."""
    for x, y in zip(reference.columns(a), reference.columns(b), strict=True):
        assert x.keys.tolist() == y.keys.tolist()
        assert x.log10p == pytest.approx(y.log10p, abs=1e-6, nan_ok=True)
        assert x.log10bow == pytest.approx(y.log10bow, abs=1e-6)
        assert np.signbit(x.log10bow).tolist() == np.signbit(y.log10bow).tolist()


def scaled(model, factor):
    """The model with probabilities that do not sum to one."""

    def change(level, k):
        level.log10p[level.log10p * LN10 < -0.3] += np.float32(np.log10(factor))

    return reference.changed(model, change)


def test_powers_of_ten():
    x = np.concatenate((np.random.default_rng(1).uniform(-290, 2, 5000), [0, -0.0, 1, -99, -400, -np.inf]))
    actual = x.copy()
    powers(actual, len(x))
    assert actual[:-2] == pytest.approx(np.exp(x[:-2] * LN10), rel=4e-16, abs=0)
    assert actual[-2:].tolist() == [0, 0]


@pytest.mark.parametrize("mode", ["single", "union", "multiple"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_a_large_model_is_filtered_as_a_small_one(tmp_path, large_from, mode, ends):
    """Blank lines, CRLF, numbers that the kernel leaves alone, a word without a 1-gram, one in pointed brackets."""
    model = estimated(random_text(tmp_path, 4), "wb", 3, Marks(), True, None, True)[1]
    with open_out(str(tmp_path / "m")) as out:
        writer.write_text(out, model)
    text = (tmp_path / "m").read_text().replace("\\3-grams:\n", "-1e-300\tw1 <new>\n\n \t\r\n-1\tw2 w1\r\n\\3-grams:\n")
    (tmp_path / "m").write_bytes(text.replace("\n", ends).encode())
    where = criterion_of(mode, [b"w1 w2 w3", b"w2 w5 <new> w1", b"", b"w7 w1 w0"])
    outs = [f"{i}" for i in range(4 if mode == "multiple" else 1)]
    for context in (False, True):
        written = []
        for large in (1 << 60, 1):
            large_from(large, "arpa")
            filter_arpa(str(tmp_path / "m"), [str(tmp_path / out) for out in outs], where, context, True)
            written.append([(tmp_path / out).read_bytes() for out in outs])
        assert written[0] == written[1] and len(set(written[0])) == len(outs)
        assert b"-1e-300\tw1 <new>\n" in written[0][-3 if mode == "multiple" else 0]
        assert not any(b"\r" in content for content in written[1])


@pytest.mark.parametrize("pattern", ["^ngram .*\n", "^ngram 2.*\n", "^ngram 3=.*\n", "(?<=^ngram 2=)", "^.* w1$\n"])
def test_a_large_file_with_a_wrong_head_is_read_as_a_small_one(tmp_path, large_from, pattern):
    model = estimated(random_text(tmp_path, 4), "wb", 3, Marks(), True, None, True)[1]
    with open_out(str(tmp_path / "m")) as out:
        writer.write_text(out, model)
    text = re.sub(pattern, "9" if "<" in pattern else "", (tmp_path / "m").read_text(), flags=re.M)
    (tmp_path / "m").write_text(text)
    outcomes = []
    for large in (1 << 60, 1):
        large_from(large, "arpa")
        with pytest.warns(LmtkWarning) as warned:
            read = registry.load(str(tmp_path / "m"))
        outcomes.append(([str(w.message) for w in warned], [x.tobytes() for k in (1, 2, 3) for x in read.ngrams(k)]))
    assert outcomes[0] == outcomes[1] and outcomes[0][0]
