"""A large text's model in buckets is the engine's: the same bytes, whatever the memory and the ranks."""

import errno
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from threading import Thread

import naive
import numpy as np
import pytest
from estimation import TEXTS, by_suffixes, counts_job, held_out_job, job, lmtk, outcome, whole_of, written
from helpers import APART, ENVIRONMENT, PAIRS, SMALL_BLOCKS, TESTS, in_process, mpi, needs_mpi, random_text

from lmtk.commands import options
from lmtk.files import bounded
from lmtk.machine import threads
from lmtk.machine.parallel import ALONE
from lmtk.ngram.arpa import kenlm_layout, printing, writer
from lmtk.ngram.counting import collection, runs
from lmtk.ngram.counting.counts import Counts, ranks
from lmtk.ngram.estimate import leaves, smoothing, suffix
from lmtk.ngram.estimate.buckets import assembly, division, estimating, of_counts, of_text, writing
from lmtk.ngram.estimate.methods import Recipe
from lmtk.text.corpus import Marks


@dataclass
class Parts:
    """What buckets want of a collection.Text."""

    ids: np.ndarray
    marks: Marks = collection.SENTENCES

    def seen(self, vocab):
        return np.bincount(self.ids, minlength=len(vocab.words) - 1).astype(np.int64)

    def parts(self, vocab):
        return np.array_split(self.ids, 3)


@pytest.mark.sample(13)
@pytest.mark.parametrize("seed", range(40))
def test_random_jobs_are_estimated_as_in_memory(seed, monkeypatch):
    """In memory and on disk; buckets of single words and of many, records dealt out in pieces of any size."""
    arguments = job(seed)
    monkeypatch.setattr(threads, "wanted", seed % 3 + 1)
    monkeypatch.setattr(division, "PART", 4 + 7 * (seed % 30))
    monkeypatch.setattr(of_text, "BATCH", 1 + 13 * (seed % 7))
    monkeypatch.setattr(division, "BYTES", (1 << 30) // 600)

    def by_buckets(ids, marks, vocab, methods, kenlm, tell):
        recipe = Recipe(methods, (0.5, 1, 1.5), tell, kenlm=kenlm)
        return estimating.estimate(estimating.count(Parts(ids, marks), vocab, recipe, (seed % 2) << 30, ALONE)), None

    model, _, messages = outcome(by_suffixes, *arguments)
    other, _, heard = outcome(by_buckets, *arguments)
    assert heard == messages
    if model:
        for layout in (None, kenlm_layout.layout(arguments[2], len(arguments[3]))):
            assert written(writing.write_arpa, other, None, layout) == written(writing.write_arpa, model, None, layout)
        the_same_nodes(seed, model, other, monkeypatch)


@pytest.mark.sample(13)
@pytest.mark.parametrize("seed", range(40))
def test_random_counts_are_estimated_as_in_memory(seed, monkeypatch, large_from):
    """Of a few n-grams read together, in buckets of single words and of many."""
    counts, vocab, methods, kenlm, own = counts_job(seed)
    monkeypatch.setattr(smoothing, "ROUNDS", 20)  # large counts would need all 1000 rounds of Doug Paul's remedy
    counts = Counts(counts.words, [replace(level, count=level.count.astype(np.int64)) for level in counts.levels])
    large_from(1)
    monkeypatch.setattr(threads, "wanted", seed % 3 + 1)
    arguments = lambda tell: (vocab, Recipe(methods, (0.5, 1, 1.5), tell, {}, kenlm, *own))

    def whole(tell):
        suffixes = leaves.suffixes_of(counts.up_to(len(methods)), vocab)
        return whole_of(suffixes, *arguments(tell))

    def by_buckets(tell):
        spilled = replace(runs.spilled(counts.levels, 0), words=counts.words, batch=1 + seed % 50)
        assert spilled.in_sentences()
        most = int(of_counts.seen(spilled, vocab, len(methods)).max()) * (1 + seed % 3) + 1
        monkeypatch.setattr(division, "BYTES", ((1 << 30) - division.WORD_BYTES * len(vocab.words)) // most)
        return estimating.estimate(estimating.count(spilled, *arguments(tell), 1 << 30, ALONE)), None

    model, _, messages = outcome(whole)
    other, _, heard = outcome(by_buckets)
    assert heard == messages
    if model:
        for layout in (None, kenlm_layout.layout(vocab, len(methods))):
            assert written(writing.write_arpa, other, None, layout) == written(writing.write_arpa, model, None, layout)
        the_same_nodes(seed, model, other, monkeypatch)


@pytest.mark.parametrize("seed", range(12))
def test_discounts_are_tuned_as_in_memory(seed, monkeypatch):
    ids, marks, vocab, methods, text = held_out_job(seed)
    if seed % 2:
        text.words = text.words[:1]
    monkeypatch.setattr(division, "PART", 1 + 7 * (seed % 30))
    monkeypatch.setattr(division, "BYTES", (1 << 30) // 600)
    x = suffix.suffix_order([ids], len(ids), len(methods), len(vocab.words) - 1, marks)
    recipe = Recipe(methods, heldout=text)
    model, _ = whole_of(x, vocab, recipe)
    job = estimating.count(Parts(ids, marks), vocab, recipe, (seed % 4 < 2) << 30, ALONE)
    other = estimating.estimate(job)
    assert written(writing.write_arpa, other) == written(writing.write_arpa, model)


@pytest.mark.parametrize("seed", range(12))
def test_buckets_hold_what_stands_around_their_words(seed, monkeypatch):
    """Against the slow twin: records, sorted; n-grams that begin, their words, the contexts; numbers of both."""
    x, marks, vocab, methods, _ = job(seed)
    n = len(methods)
    x = np.append(x, np.zeros(n, np.int32))  # what stands before a text that is dealt out is empty
    ids = x.tolist()
    monkeypatch.setattr(division, "PART", 1 + 7 * (seed % 30))
    shared = division.divide(Parts(x).seen(vocab), "words", vocab, n, None, ALONE)
    monkeypatch.setattr(threads, "wanted", 1)  # several threads deal out records in any order
    of_text.deal_out(shared, Parts(x).parts(vocab))
    shared.methods, B = methods, len(shared.bounds) - 1
    many = np.zeros((B, n + 1, B), int)  # the contexts of a bucket that are events of another, by both and their order
    for b in shared.rank_buckets:
        of_text.sort_bucket(shared, b, marks)
        bounds = shared.bounds[b : b + 2].tolist()
        *both, come = naive.bucket(ids, n, marks, *bounds)
        assert shared.shelf.get(("come", b), np.int32).tolist() == come
        for name, (_, begins, words) in zip(("events", "contexts"), both):
            actual = division.begins_of(shared, b, name)
            of_orders = [shared.shelf.get((name, "oldest", b, k), np.int32) for k in range(2, n + 1)]
            oldest = np.concatenate(of_orders)
            oldest[oldest == len(shared.seen)] = max(ids) + 1
            assert ([*zip(*suffix.orders_in(actual))], oldest.tolist()) == (begins, words)
            new = [[f <= k <= m for f, m in begins] for k in range(1, n + 1)]
            assert [*map(len, of_orders)] == [sum(row) for row in new[1:]]
            at, rank = np.empty(len(begins) + 1, np.int64), suffix.Suffixes(actual, [None] * (n + 1)).rank
            for k, row in enumerate(new, 1):
                suffix.numbers(rank, k, np.arange(len(begins) + 1), at)
                assert at.tolist() == [sum(row[:j]) for j in range(len(row) + 1)]
        for q, (f, m) in zip(*both[1][:2]):
            for k in range(max(f, 2), m + 1):
                many[shared.bucket_of[ids[q - 1]], k, b] += 1
    assert (np.diff([shared.cuts[b] for b in shared.rank_buckets])[:, 2:] == many[:, 2:]).all()


def the_same_nodes(seed, model, other, monkeypatch):
    """As the engine makes them, and their lines in any order."""
    for module, name in ((assembly, "LEAST"), (printing, "LEAST"), (printing, "PIECE")):
        monkeypatch.setattr(module, name, 1 + 5 * (seed % 9))
    monkeypatch.setattr(bounded, "bound", 1)
    monkeypatch.setattr(bounded, "SMALL", 1)
    actual = assembly.backoff_of(other, 1)
    whole = assembly.backoff_of(model)
    for name in ("memory", "where", "far"):
        assert (getattr(whole.nodes, name) == getattr(actual.nodes, name)).all()
    words = actual.vocab.words
    for sort, rank in ((False, np.arange(len(words), dtype=np.int32)), (True, ranks(words))):
        lines = printing.srilm_layout(sorted(words) if sort else words).lines
        sections = written(printing.write_sections, actual, rank, lines, sort)
        assert written(writer.write_text, whole, sort).endswith(sections + b"\n\\end\\\n")


def in_buckets(monkeypatch, large_from, room):
    """Large texts are estimated in buckets of so many positions, unless words want more."""
    monkeypatch.setattr(bounded, "bound", None)  # as it was, in the end
    large_from(1)
    monkeypatch.setattr(options, "LEAST", 1)
    monkeypatch.setattr(collection, "whole_size", lambda *_: 1 << 60)
    monkeypatch.setattr(division, "LEAST", division.BYTES * room)


OPTIONS = [
    ["-order", "3", "-wbdiscount"],
    ["-order", "5", "-kenlm", "-discount-fallback", "-prune-by-count", "0", "1"],
    ["-order", "3", "-wbdiscount", "-vocab", "v", "-unk"],
    ["-order", "2", "-wbdiscount", "-vocab", "v"],
    ["-order", "3", "-wbdiscount", "-stream"],
    ["-order", "17", "-wbdiscount", "-stream"],
    ["-order", "3", "-kndiscount", "-interpolate", "-heldout", "u"],
    ["-order", "3", "-wbdiscount", "-no-sos", "-no-eos"],
]


OUTPUTS = [
    ["-lm", "lm", "-sort"],
    ["-lm", "lm", "-write-bin", "bin"],
    ["-lm", "lm", "-write-bin", "bin", "-prune", "1e-3"],
    ["-lm", "lm", "-sort", "-prune", "1e-3", "-minprune", "3"],
    ["-write-bin", "bin", "-compact"],
    ["-lm", "lm", "-vocab-pad", "500", "-verbose-header"],
    ["-lm", "lm", "-verbose-header", "-layout", "kenlm"],
    ["-lm", "lm", "-limit-vocab-file", "v", "-prune-by-count", "0", "0", "1"],
    ["-write-bin", "bin", "-limit-vocab-file", "v", "-interpolate-unigrams", "0"],
    ["-lm", "lm", "-layout", "kenlm", "-sort"],
    ["-lm", "lm", "-layout", "kenlm", "-text", "u"],
    ["-lm", "lm", "-classes", "c", "-class-lm", "whole"],
    ["-class-lm", "whole", "-classes", "c"],
    ["-lm", "lm", "-write", "counts", "-write3", "more"],
    ["-write", "counts", "-text", "u", "-vocab", "v"],
    ["-write", "counts", "-sort"],
    ["-read", "r", "r", "-lm", "lm"],
    ["-read", "r", "-lm", "lm", "-write", "counts", "-prune", "1e-3", "-write-bin", "bin"],
    ["-read", "r", "-lm", "lm", "-layout", "kenlm", "-verbose-header", "-limit-vocab-file", "v"],
    ["-read", "r", "-lm", "lm", "-classes", "c", "-class-lm", "whole"],
    ["-read", "r", "-vocab", "v", "-limit-vocab", "-sort", "-write", "counts", "-lm", "lm"],
    ["-read", "r", "-text", "u", "-write2", "counts"],
    ["-kn1", "k1", "-kn3", "k3", "-kn4", "k4"],
    ["-heldout", "u", "-lm", "lm"],
    ["-heldout", "u", "-read", "r", "-write-bin", "bin"],
]


@pytest.mark.sample(13)
@pytest.mark.parametrize("words", OUTPUTS, ids=lambda words: "".join(words))
def test_every_output_is_the_same_in_little_memory(tmp_path, monkeypatch, large_from, words):
    monkeypatch.chdir(tmp_path)
    random_text(tmp_path, 1)
    (tmp_path / "u").write_text("w1 <unk> w2\n<unk> <unk> w1\nw3 w4 <unk>\n" * 3)
    (tmp_path / "v").write_text("w3\nw2\nw1\nnever\n")
    (tmp_path / "c").write_text("A 0.5 w1\nA 0.25 w2\nA 0.25 w7\nB 1 w3\n")
    (tmp_path / "r").write_text("w3\t2\nw4 w5 w1\t3\nw1\t1\nw1 new\t5\nw1 new w2 w1\t1\nw3\t1\n")
    arguments = ["ngram-count", "-text", "t", "-order", "4", "-kenlm", "-discount-fallback", *words]
    large_from(1)
    outcomes = []
    for more in ([], ["-memory", "16K"]):
        lmtk(monkeypatch, *arguments, *more)
        assert bool(bounded.bound) == bool(more)
        outcomes.append({p.name: p.read_bytes() for p in tmp_path.iterdir() if p.name not in "tucvr"})
        in_buckets(monkeypatch, large_from, 4000 if "-read" in words else 2000)
        monkeypatch.setattr(bounded, "SMALL", 1)
    assert outcomes[0] == outcomes[1]


@pytest.mark.sample(5)
@pytest.mark.parametrize("seed", range(12))
def test_the_last_n_grams_of_lmplz_are_the_same_in_large_jobs(tmp_path, monkeypatch, large_from, seed):
    """The last word follows <s>, <unk> and words, or some of them; its n-grams have raw counts in counts of counts."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(seed)
    words = ["a", "b", "c", "d", "<unk>", *["-pau-"] * (seed % 2)]
    draw = lambda many: " ".join(random.choice(words, many))
    openings = ["", "<unk> ", "a <unk> ", "b a ", "c "][: 1 + seed % 5]
    lines = [draw(random.integers(1, 6)) for _ in range(9)]
    lines += [f"{random.choice(openings)}last {draw(2)}" for _ in range(4)]
    (tmp_path / "t").write_text("\n".join([*lines, ""]))
    arguments = ["ngram-count", "-text", "t", "-order", "4", "-kenlm", "-discount-fallback", "-lm", "lm"]
    outcomes = []
    for more in ([], [], ["-memory", "16K"]):
        lmtk(monkeypatch, *arguments, *more)
        outcomes.append((tmp_path / "lm").read_bytes())
        large_from(1)
        if len(outcomes) == 2:
            in_buckets(monkeypatch, large_from, 10)
    assert outcomes[0] == outcomes[1] == outcomes[2]


@pytest.mark.parametrize("large", [1, 1 << 40])
@pytest.mark.parametrize("more", [[], ["-skip-symbols"], ["-open-end"]])
def test_pruning_finds_the_n_grams_of_lmplz_in_a_text(tmp_path, monkeypatch, large_from, more, large):
    """A text in a file is read again; the same text as counts is not. Blank lines are sentences."""
    monkeypatch.chdir(tmp_path)
    large_from(large)
    (tmp_path / "t").write_text("a b\n\n\na <unk> b\nb a\n\na b c\n\nb")
    arguments = ["ngram-count", "-order", "3", "-kenlm", "-discount-fallback", "-prune-kneser", "1e-12", *more]
    os.mkfifo("pipe")
    writer = Thread(target=lambda: Path("pipe").write_bytes(Path("t").read_bytes()))
    writer.start()
    lmtk(monkeypatch, *arguments, "-text", "pipe", "-lm", "once")
    writer.join()
    lmtk(monkeypatch, *arguments, "-text", "t", "-lm", "again")
    assert Path("once").read_bytes() == Path("again").read_bytes()
    assert b"\t<s> </s>" in Path("again").read_bytes()


@pytest.mark.parametrize("words", [["-wbdiscount", "-gt4min", "3"], ["-kenlm", "-layout", "kenlm", "-gt1min", "99"]])
def test_counts_that_are_cut_off_are_the_same_in_little_memory(tmp_path, monkeypatch, large_from, words):
    monkeypatch.chdir(tmp_path)
    random_text(tmp_path, 1)
    lmtk(monkeypatch, "ngram-count", "-text", "t", "-order", "4", "-write", "counts")
    arguments = ["ngram-count", "-read", "counts", "-order", "4", "-read-with-mincounts", "-discount-fallback", *words]
    outcomes, wholes = [], []
    monkeypatch.setattr(
        collection,
        "in_memory",
        lambda counts, memory, old=collection.in_memory: wholes.append(1) or old(counts, memory),
    )
    for more in ([], ["-memory", "16K"]):
        lmtk(monkeypatch, *arguments, "-lm", "lm", "-write", "some", *more)
        assert bool(bounded.bound) == bool(more)
        outcomes.append([(tmp_path / name).read_bytes() for name in ("lm", "some")])
        in_buckets(monkeypatch, large_from, 4000)
    assert outcomes[0] == outcomes[1] and len(wholes) == 1


@pytest.mark.sample(17)
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "".join(options))
def test_the_command_writes_the_same_in_little_memory(tmp_path, monkeypatch, large_from, text, options):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").write_text(TEXTS[text])
    (tmp_path / "u").write_text("a c\n")
    (tmp_path / "v").write_text("a\nb\nnever\n")
    words = ["ngram-count", "-text", "t", "u", *options, "-write-vocab"]
    lmtk(monkeypatch, *words, "words", "-lm", "whole")
    in_buckets(monkeypatch, large_from, 100)
    lmtk(monkeypatch, *words, "more", "-lm", "parts", "-memory", "1K")
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "parts").read_bytes()
    assert (tmp_path / "words").read_bytes() == (tmp_path / "more").read_bytes()


def failing(folder, *words):
    """The line of a command that fails."""
    status, out, err = in_process(folder, *words)
    assert (status, out, err.count("\n")) == (1, b"", 1)
    return err


def test_too_little_memory_for_a_word_is_one_line(tmp_path, monkeypatch, large_from):
    in_buckets(monkeypatch, large_from, 10)
    (tmp_path / "t").write_text("a b\n" * 50)
    line = failing(tmp_path, "ngram-count", "-text", tmp_path / "t", "-lm", tmp_path / "lm", "-memory", "1K")
    assert "-memory is too small: '</s>' accounts for 50 of the 150 words, which must be in memory together" in line
    assert not (tmp_path / "lm").exists()


@pytest.mark.parametrize("written", [0, 30])
def test_a_full_temporary_disk_is_one_line_and_leaves_nothing(tmp_path, monkeypatch, large_from, written):
    in_buckets(monkeypatch, large_from, 2000)
    text, left, write = random_text(tmp_path, 1), [written], os.pwrite

    def full(file, data, at):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data[: max(1, len(data) // 2)], at)

    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(os, "pwrite", full)
    words = "ngram-count", "-text", text, "-wbdiscount", "-lm", tmp_path / "lm", "-memory", "1K"
    line = failing(tmp_path, *words)
    assert line == f"lmtk ngram-count: {tmp_path / 'temporary'}: No space left on device\n"
    assert not list((tmp_path / "temporary").iterdir()) and not (tmp_path / "lm").exists()


def test_no_room_for_the_nodes_is_one_line(tmp_path, monkeypatch, large_from):
    in_buckets(monkeypatch, large_from, 2000)
    text = random_text(tmp_path, 1)
    (tmp_path / "temporary").mkdir()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(bounded, "SMALL", 1)
    monkeypatch.setattr(os, "posix_fallocate", full)
    words = "ngram-count", "-text", text, "-wbdiscount", "-write-bin", tmp_path / "bin", "-memory", "1K"
    line = failing(tmp_path, *words)
    assert line == f"lmtk ngram-count: {tmp_path / 'temporary'}: No space left on device\n"
    assert not list((tmp_path / "temporary").iterdir()) and not (tmp_path / "bin").exists()


def test_what_is_killed_leaves_nothing(tmp_path):
    (tmp_path / "temporary").mkdir()
    os.mkfifo(tmp_path / "text")
    words = ["ngram-count", "-text", tmp_path / "text", "-lm", tmp_path / "lm", "-memory", "1M"]
    environment = ENVIRONMENT | {"TMPDIR": str(tmp_path / "temporary")}
    running = subprocess.Popen([sys.executable, "-m", "lmtk", *map(str, words)], env=environment)
    with open(tmp_path / "text", "wb", buffering=0) as out:
        out.write(b"a b\n" * 1000)
        running.kill()
        assert running.wait(60) == -9
    assert not list((tmp_path / "temporary").iterdir()) and not (tmp_path / "lm").exists()


@pytest.mark.parametrize(("words", "told"), [(["-write-bin"], False), (["-gt1"], False), (["-maxent", "-lm"], True)])
def test_a_line_says_where_memory_is_not_bounded(tmp_path, monkeypatch, large_from, capsys, words, told):
    monkeypatch.chdir(tmp_path)
    in_buckets(monkeypatch, large_from, 1 << 20)
    monkeypatch.setattr(collection, "TOLD", 1)
    (tmp_path / "t").write_text("a b c\nb c a b\na c\n" * 3)
    lmtk(monkeypatch, "ngram-count", "-text", "t", "-discount-fallback", "-memory", "1K", *words, "out")
    assert ("more than -memory" in capsys.readouterr().err) == told


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    """A function from options to (the command of a job, the model that one process makes); once for each options."""
    folder = tmp_path_factory.mktemp("one")
    texts = [random_text(folder, 1), str(folder / "u")]
    # the last bigram of lmplz is one of those that end in "new", which are in several buckets
    lines = [f"w1 w2 w{i} new\n\nw2\n" * i for i in range(1, 9)]
    (folder / "u").write_text("".join(lines))

    @cache
    def made(*more):
        words = ["1", "ngram-count", "-text", *texts, "-order", "4", *more, "-lm"]
        environment = ENVIRONMENT | {"PYTHONPATH": str(TESTS.parent)}
        run = [sys.executable, "-c", SMALL_BLOCKS, *words, "lm"]
        subprocess.run(run, cwd=folder, env=environment, check=True, capture_output=True)
        return words, (folder / "lm").read_bytes()

    return made


@needs_mpi
@pytest.mark.sample(6)
@pytest.mark.parametrize("ranks, where", [(2, {}), (3, APART), (4, PAIRS), (2, APART)])
@pytest.mark.parametrize("more", [["-kenlm", "-discount-fallback"], ["-wbdiscount", "-gt3min", "2", "-memory", "1K"]])
def test_ranks_write_the_model_of_one_process(tmp_path, one_process, ranks, where, more):
    words, model = one_process(*more)
    python = [sys.executable, "-c", SMALL_BLOCKS]
    status, out, err = mpi(ranks, *words, "many", "-mpi", program=python, cwd=tmp_path, environment=where)
    assert (status, out) == (0, "") and len({*err.splitlines()}) == err.count("\n")
    assert model == (tmp_path / "many").read_bytes()


FULL = """
import errno, os
from lmtk.machine import parallel
from lmtk.ngram.estimate.buckets import writing
parallel.TURN = 0  # only one rank fails, so it need not wait for the others
if "1" in (os.environ.get("PMI_RANK"), os.environ.get("OMPI_COMM_WORLD_RANK")):
    def full(file, data, at):
        raise OSError(errno.ENOSPC, "No space left on device")
    writing.put_at = full
"""


@needs_mpi
def test_a_rank_whose_disk_is_full_ends_all_and_leaves_nothing(tmp_path):
    words = ["1", "ngram-count", "-text", random_text(tmp_path, 1), "-wbdiscount", "-mpi", "-lm", "lm"]
    program = [sys.executable, "-c", FULL + SMALL_BLOCKS]
    status, out, err = mpi(2, *words, program=program, cwd=tmp_path, environment=APART)
    assert (status, out, err) == (1, "", "lmtk ngram-count: lm: No space left on device\n")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("lm")]
