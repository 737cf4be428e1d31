"""Training by several ranks: the model of one process, whatever happens to a rank."""

import contextlib
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import APART, ENVIRONMENT, FILES, LMTK, PAIRS, SMALL_BLOCKS, TESTS, in_process, mpi, needs_mpi, start
from small_models import life, prepared, run, settings

from lmtk.errors import LmtkError
from lmtk.files.registry import load
from lmtk.machine import mpiexec, parallel
from lmtk.nplm.outputs import units_of_rank
from lmtk.run import write_checkpoint

TINY = ["-hidden", "4", "-features", "3", "-order", "3", "-epochs", "3", "-minibatch", "4", "-rate", "0.1"]
DATA = ["-text", FILES / "tr.txt", "-heldout", FILES / "te.txt", "-unk"]


def same(a, b):
    """Whether two model files hold the same numbers but for rounding."""
    a, b = load(str(a)).named(), load(str(b)).named()
    assert a.keys() == b.keys()
    assert all(np.allclose(a[name], b[name], rtol=1e-4, atol=1e-5) for name in a)


@needs_mpi
@pytest.mark.parametrize(
    "ranks, more",
    [
        (2, []),
        (3, ["-direct"]),
        (2, ["-threads", "2"]),
        (3, ["-objective", "sampled", "-samples", "2"]),
        (2, ["-model", "tdnn", "-order", "5"]),
        (2, ["-model", "rnn", "-dropout", "0.3"]),
        (2, ["-objective", "sampled", "-samples", "1", "-minibatch", "1"]),
        (2, ["-objective", "sampled", "-samples", "2", "-effective-samples", "4"]),
        (2, ["-objective", "nce", "-samples", "5", "-proposal", str(FILES / "wb.arpa")]),
    ],
)
def test_ranks_make_the_model_of_one_process(tmp_path, ranks, more):
    """11 words: in blocks of 6 and 5, or 4, 4 and 3. Of two candidates a rank may have none."""
    assert in_process(tmp_path, "nplm-train", *DATA, *TINY, "-threads", "1", *more, "-lm", "one")[0] == 0
    assert mpi(ranks, "nplm-train", "-mpi", *DATA, *TINY, *more, "-lm", tmp_path / "many") == (0, "", "")
    same(tmp_path / "one", tmp_path / "many")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["many", "one"]


@needs_mpi
def test_same_ranks_same_bytes_and_rank_0_reads_stdin(tmp_path):
    words = ["-text", "-", "-vocab", FILES / "v.txt", "-unk", *TINY]
    text = (FILES / "tr.txt").read_text()
    for name in ("a", "b"):
        assert mpi(3, "nplm-train", "-mpi", *words, "-lm", tmp_path / name, text=text) == (0, "", "")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@needs_mpi
def test_only_rank_0_reports_and_the_times_are_told(tmp_path):
    status, out, err = mpi(2, "nplm-train", "-mpi", *DATA, *TINY, "-debug", "1", "-lm", tmp_path / "m")
    lines = err.splitlines()
    assert (status, out) == (0, "") and [line.split(":")[0] for line in lines[:-1]] == ["epoch 1", "epoch 2", "epoch 3"]
    assert lines[-1].startswith("2 ranks, mean: compute ") and "communication" in lines[-1] and "waiting" in lines[-1]


@needs_mpi
def test_one_process_begins_and_three_ranks_go_on(texts):
    made = settings(order=3, features=3, hidden=4, epochs=3, patience=3)
    whole, _ = run(texts, made)
    part, now = run(texts, made, 5)
    data, _ = prepared(texts, made)
    cycle = life(texts / "m", made, data, now.vocab)
    write_checkpoint(cycle, part, cycle.arrays(part, now))
    words = ["-text", texts / "train", "-heldout", texts / "held", "-vocab", texts / "v", "-unk", *TINY, "-resume"]
    words += ["-patience", "3", "-weight-decay", "0", "-feature-rate", "1", "-lm", texts / "m"]
    (texts / "v").write_bytes(b"\n".join(w for w in now.vocab.words if w[:1] != b"<"))
    assert mpi(3, "nplm-train", "-mpi", *words) == (0, "", "")
    assert not (texts / "m.ckpt").exists()
    model = load(str(texts / "m"))
    for name in "CHdUb":
        assert np.allclose(model.named()[name], whole.best.named()[name], rtol=1e-4, atol=1e-5)


@needs_mpi
@pytest.mark.sample(1)
@pytest.mark.parametrize("how", [[], ["-parallel", "data"]])
def test_ranks_that_are_interrupted_leave_a_checkpoint_for_one_process(tmp_path, how):
    words = ["nplm-train", *DATA, *TINY, "-epochs", "300", "-rate", "1e-3", "-debug", "1", "-lm", tmp_path / "m"]
    process = start(2, *words, "-mpi", *how)
    assert process.stderr.readline().startswith("epoch 1:")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted; -resume continues from" in err
    assert [p.name for p in tmp_path.iterdir()] == ["m.ckpt"]
    assert mpi(2, *words, "-mpi", *how)[0] == 1  # beside a run that has not ended
    done = subprocess.run([*LMTK, *words, "-resume"], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert done.stderr.startswith("continuing from") and "epoch 300:" in done.stderr


@needs_mpi
def test_what_fails_on_rank_0_ends_all(tmp_path):
    (tmp_path / "two").write_text("the\ncat\n")
    for ranks, words, message in (
        (3, ["-vocab", tmp_path / "two"], "4 words in blocks of 2 are too few for 3 ranks; run with 2"),
        (2, ["-text", tmp_path / "nowhere"], f"{tmp_path}/nowhere: No such file or directory"),
        (2, ["-rate", "1e30", "-weight-decay", "0"], "the likelihood is not finite"),
    ):
        status, out, err = mpi(ranks, "nplm-train", "-mpi", *DATA, *TINY, *words, "-lm", tmp_path / "m")
        assert (status, out, err.count("\n")) == (1, "", 1) and message in err
    for words, message in ((["-hidden", "0"], "needs -direct"), (["-map-unk", "<s>"], "-map-unk takes one word")):
        status, out, err = mpi(2, "nplm-train", "-mpi", *DATA, *words, "-lm", tmp_path / "m")
        assert (status, out, err.count("\n")) == (2, "", 1) and message in err


@pytest.mark.sample(5)
@needs_mpi
@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize(
    "more",
    [
        ["-direct"],
        ["-objective", "sampled", "-samples", "2"],
        ["-objective", "nce", "-samples", "4"],
        ["-objective", "class"],
        ["-objective", "tree"],
        ["-objective", "shortlist", "-shortlist", "3", "-lm-rest", "rest"],
        ["-model", "tdnn"],
        ["-model", "rnn"],
        # three ranks that do not wait move as far as one does at three times the rate, which its few units do not stand
        ["-model", "energy", "-rate", "0.03"],
    ],
)
def test_ranks_that_do_not_wait_learn_what_one_process_learns(tmp_path, nodes, more):
    """Three ranks on one node, with the parameters in common, and each on a node of its own, with their means."""
    text = tmp_path / "text"
    text.write_text("a b c d\n" * 100)
    words = ["-text", text, "-heldout", text, *TINY, "-epochs", "10", "-dropout", "0", *more]
    if "rest" in words:
        words[-1] = rest = tmp_path / "rest"
        subprocess.run([*LMTK, "ngram-count", "-text", text, "-lm", rest], env=ENVIRONMENT, check=True)
    where = APART if nodes > 1 else {}
    run = mpi(
        3, "nplm-train", "-mpi", "-parallel", "data", *words, "-debug", "1", "-lm", tmp_path / "m", environment=where
    )
    # the last epochs of ranks that do not wait may be worse than the best one, which gives a line of advice
    lines = [line for line in run[2].splitlines() if not line.startswith("lmtk nplm-train: ")]
    assert run[:2] == (0, "") and [line.split(":")[0] for line in lines[:-1]] == [f"epoch {i}" for i in range(1, 11)]
    assert min(float(line.split("held-out ppl= ")[1].split()[0]) for line in lines[:-1]) < 1.2
    assert lines[-1].startswith("3 ranks, mean: ")
    assert load(str(tmp_path / "m")) and sorted(p.name for p in tmp_path.iterdir() if p.name != "rest") == ["m", "text"]


@needs_mpi
def test_ranks_that_do_not_wait_keep_the_biases(tmp_path):
    """A rank may read the output weights while another one updates them, so no update may take the biases away."""
    random, text = np.random.default_rng(1), tmp_path / "text"
    words = np.minimum(random.zipf(1.2, 20_000), 4000).reshape(-1, 20)
    text.write_text("".join(" ".join(f"w{w}" for w in line) + "\n" for line in words.tolist()))
    how = ["-text", text, "-heldout", text, "-hidden", "4", "-features", "4", "-order", "3", "-objective", "full"]
    how += ["-threads", "1", "-epochs", "3", "-direct", "-debug", "1", "-lm", tmp_path / "m"]
    perplexity = lambda err: float(err.split("epoch 3: ")[1].split("training ppl= ")[1].split()[0])
    alone = in_process(tmp_path, "nplm-train", *how)[2]
    together = mpi(2, "nplm-train", "-mpi", "-parallel", "data", *how)[2]
    assert perplexity(together) < 1.05 * perplexity(alone)


@needs_mpi
@pytest.mark.parametrize("objective", ["sampled", "class"])
def test_ranks_that_do_not_wait_decay_weights_as_one_process_does(tmp_path, objective):
    """At the end of an epoch each rank applies the weight decay of its updates. <unk> is not in the text."""
    words = ["nplm-train", *DATA, *TINY, "-objective", objective, "-weight-decay", "1e-2", "-epochs", "1"]
    assert in_process(tmp_path, *words, "-threads", "1", "-lm", "one")[0] == 0
    assert mpi(3, *words, "-mpi", "-parallel", "data", "-lm", tmp_path / "three")[0] == 0
    one, three = load(str(tmp_path / "one")), load(str(tmp_path / "three"))
    assert three.C[three.vocab.unk_id] == pytest.approx(one.C[one.vocab.unk_id], rel=1e-3)


@needs_mpi
def test_ranks_that_do_not_wait_apply_the_decay_of_a_checkpoint_once(texts):
    """One process leaves a checkpoint inside an epoch, and three ranks continue."""
    made = settings(epochs=1, patience=0, weight_decay=0.3, rate=0.02, objective="sampled", samples=2)
    whole, _ = run(texts, made, heldout=None)
    part, now = run(texts, made, 5, heldout=None)
    assert part.state["decay"][0] < -0.05
    data, _ = prepared(texts, made, heldout=None)
    cycle = life(texts / "m", made, data, now.vocab)
    write_checkpoint(cycle, part, cycle.arrays(part, now))
    (texts / "v").write_bytes(b"\n".join(w for w in now.vocab.words if w[:1] != b"<"))
    words = ["-text", texts / "train", "-vocab", texts / "v", "-unk", *TINY, "-epochs", "1", "-rate", "0.02"]
    words += ["-weight-decay", "0.3", "-feature-rate", "1", "-objective", "sampled", "-samples", "2", "-resume"]
    how = ["-mpi", "-parallel", "data", "-lm", texts / "m"]
    assert mpi(3, "nplm-train", *words, *how) == (0, "", "")
    features = load(str(texts / "m")).C[now.vocab.unk_id]  # <unk> is not in the text, so its features only decay
    assert features == pytest.approx(whole.best.C[now.vocab.unk_id], rel=1e-3)


@needs_mpi
def test_a_rank_may_have_no_minibatch(tmp_path):
    words = ["nplm-train", *DATA, *TINY, "-minibatch", "10000", "-dropout", "0"]
    assert mpi(2, *words, "-mpi", "-parallel", "data", "-lm", tmp_path / "m") == (0, "", "")
    assert in_process(tmp_path, *words, "-threads", "1", "-lm", "alone")[0] == 0
    same(tmp_path / "m", tmp_path / "alone")


@needs_mpi
def test_ranks_that_do_not_wait_end_together(tmp_path):
    words = [*DATA, *TINY, "-rate", "1e30", "-weight-decay", "0", "-lm", tmp_path / "m"]
    status, out, err = mpi(2, "nplm-train", "-mpi", "-parallel", "data", *words)
    assert (status, out, err.count("\n")) == (1, "", 1) and "the likelihood is not finite" in err


@pytest.mark.sample(5)
@needs_mpi
@pytest.mark.parametrize("ranks, where, large", [(3, APART, 1), (2, APART, 1 << 40), (2, {}, 1)])
@pytest.mark.parametrize(
    "more",
    [
        [],
        ["-vocab", FILES / "v.txt", "-unk"],
        ["-kenlm"],
        ["-memory", "100b"],
        ["-read", "counts"],
        ["-read", "counts", "-memory", "100b"],
    ],
)
def test_ranks_count_as_one_process(tmp_path, ranks, where, large, more):
    (tmp_path / "counts").write_text("new\t3\nb new\t1\n")
    parts = [FILES / "tr.txt", FILES / "te.txt", FILES / "tr.txt"]
    words = [str(large), "ngram-count", "-text", *parts, *more, "-interpolate", "-write"]
    words += (
        ["out", "-lm", "lm"] + ["-discount-fallback"] * (more == ["-kenlm"]) + ["-wbdiscount"] * (more != ["-kenlm"])
    )
    python = [sys.executable, "-c", SMALL_BLOCKS]
    environment = ENVIRONMENT | {"PYTHONPATH": str(TESTS.parent)}
    for name in ("one", "many"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "counts").symlink_to(tmp_path / "counts")
    subprocess.run([*python, *words], cwd=tmp_path / "one", env=environment, check=True)
    assert mpi(ranks, *words, "-mpi", program=python, cwd=tmp_path / "many", environment=where) == (0, "", "")
    for name in ("out", "lm"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "many" / name).read_bytes()


@needs_mpi
@pytest.mark.parametrize("memory", [[], ["-memory", "100b"]])
def test_what_ranks_cannot_share_is_done_by_the_first_one(tmp_path, memory):
    """Sentence marks inside a sentence are found when the text has been read."""
    (tmp_path / "t").write_text("a b\nb <s> c\n" * 50)
    words = ["1", "ngram-count", "-text", "t", *memory, "-wbdiscount", "-lm"]
    python, environment = [sys.executable, "-c", SMALL_BLOCKS], ENVIRONMENT | {"PYTHONPATH": str(TESTS.parent)}
    subprocess.run([*python, *words, "one"], cwd=tmp_path, env=environment, check=True)
    assert mpi(2, *words, "many", "-mpi", program=python, cwd=tmp_path, environment=APART)[0] == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "many").read_bytes()


@needs_mpi
@pytest.mark.parametrize("text", ["a b\nb c\n", "a <unk>\nb c\n"])
def test_ranks_write_the_kenlm_layout(tmp_path, text):
    (tmp_path / "t").write_text(text * 50)
    words = ["1", "ngram-count", "-text", "t", "-kenlm", "-discount-fallback", "-layout", "kenlm", "-lm"]
    python, environment = [sys.executable, "-c", SMALL_BLOCKS], ENVIRONMENT | {"PYTHONPATH": str(TESTS.parent)}
    subprocess.run([*python, *words, "one"], cwd=tmp_path, env=environment, check=True)
    assert mpi(2, *words, "many", "-mpi", program=python, cwd=tmp_path, environment=APART)[0] == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "many").read_bytes()


@needs_mpi
def test_machines_may_have_different_numbers_of_threads(tmp_path):
    """One machine with two of the three ranks, and one with the third."""
    (tmp_path / "t").write_text("".join(f"a {i % 7} b {i % 11} c {i}\n" for i in range(400)))
    words = ["1", "ngram-count", "-text", "t", "-kenlm", "-discount-fallback", "-lm"]
    python, environment = [sys.executable, "-c", SMALL_BLOCKS], ENVIRONMENT | {"PYTHONPATH": str(TESTS.parent)}
    subprocess.run([*python, *words, "one"], cwd=tmp_path, env=environment, check=True)
    uneven = PAIRS | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # of each rank; ranks of a machine add up
    assert mpi(3, *words, "many", "-mpi", program=python, cwd=tmp_path, environment=uneven)[0] == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "many").read_bytes()


@needs_mpi
@pytest.mark.parametrize(
    "more", [["-text", "t", "-read", "c"], ["-read", "c"], ["-text", "c", "-text-has-weights-last"]]
)
def test_ranks_count_words_that_only_the_first_one_reads(tmp_path, more):
    (tmp_path / "t").write_text("a\n")
    (tmp_path / "c").write_text("a 1\nnew 5\nb new 2\n")
    words = ["ngram-count", *more, "-order", "2"]
    status, counts, _ = in_process(tmp_path, *words)
    assert status == 0 and mpi(2, *words, "-mpi", cwd=tmp_path, environment=APART) == (0, counts.decode(), "")


@needs_mpi
def test_what_counting_ranks_cannot_do(tmp_path):
    for words, status, message in (
        (["-text", tmp_path / "nowhere"], 1, f"{tmp_path}/nowhere: No such file or directory"),
        (["-text", FILES / "tr.txt", "-vocab", tmp_path / "no"], 1, f"{tmp_path}/no: No such file or directory"),
        (["-read", FILES / "tr.txt"], 1, "expected words and a whole count"),
        (["-text", "-"], 2, "every rank can read"),
        (["-text", FILES / "tr.txt", "-stream"], 2, "cannot be combined with -stream"),
    ):
        code, out, err = mpi(2, "ngram-count", "-mpi", *words, "-lm", tmp_path / "out", environment=APART)
        assert (code, out, err.count("\n")) == (status, "", 1) and message in err
    assert not list(tmp_path.iterdir())


@needs_mpi
@pytest.mark.parametrize("error", ["LmtkError", "KeyError"])
def test_a_rank_that_fails_ends_all(tmp_path, error):
    """Rank 1 in the middle of its work, while the others wait for it."""
    code = f"""
import sys
from lmtk.cli import main
from lmtk.errors import LmtkError
from lmtk.machine import parallel
from lmtk.nplm import sgd
parallel.TURN = 0  # only one rank fails, so it need not wait for the others
step = sgd.step
def failing(*given, **more):
    from mpi4py import MPI
    if MPI.COMM_WORLD.rank == 1:
        raise {error}('broken')
    return step(*given, **more)
sgd.step = failing
sys.argv[0] = "lmtk"
main()
"""
    words = ["nplm-train", "-mpi", *DATA, *TINY, "-lm", tmp_path / "m"]
    status, out, err = mpi(3, *words, program=[sys.executable, "-c", code])
    assert (status, out) == (1, "") and "broken" in err
    assert err == "lmtk nplm-train: broken\n" or error == "KeyError"


def segments():
    """The files of MPI's shared memory."""
    return set(Path("/dev/shm").glob("mpich_*"))


def left_over(before):
    """The segments made since `before` that no process uses. Those of a test that runs at the same time are in use."""
    new, used = segments() - before, ""
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):  # the process has ended
            used += maps.read_text()
    return {segment for segment in new & segments() if str(segment) not in used}


@needs_mpi
@pytest.mark.parametrize("where", [{}, APART])
def test_a_rank_that_is_killed_is_named_and_no_shared_memory_stays(tmp_path, where):
    before = segments()
    words = [
        "nplm-train",
        "-mpi",
        *DATA,
        *TINY,
        "-epochs",
        "100000",
        "-rate",
        "1e-6",
        "-debug",
        "1",
        "-lm",
        tmp_path / "m",
    ]
    code = """
import os, signal, sys
from lmtk.nplm import sgd
from lmtk.cli import main
step = sgd.step
def killed(*given, **more):
    if os.environ["PMI_RANK"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    return step(*given, **more)
sgd.step = killed
sys.argv[0] = "lmtk"
main()
"""
    status, _, err = mpi(3, *words, program=[sys.executable, "-c", code], environment=where)
    assert status and err.startswith("lmtk nplm-train: rank 1 of 3 (process ") and err.count("\n") == 1
    assert "was killed by SIGKILL, perhaps because memory ran out" in err
    assert not left_over(before)


@needs_mpi
def test_an_error_that_all_ranks_meet_is_printed_once(tmp_path):
    """Each on a node of its own; and their shared memory goes."""
    before = segments()
    code = """
import sys
from lmtk.cli import main
from lmtk.errors import LmtkError
from lmtk.nplm import sgd
def failing(*given, **more):
    raise LmtkError('broken')
sgd.step = failing
sys.argv[0] = "lmtk"
main()
"""
    words = ["nplm-train", "-mpi", *DATA, *TINY, "-lm", tmp_path / "m"]
    for where in ({}, APART):
        done = mpi(2, *words, program=[sys.executable, "-c", code], environment=where)
        assert done == (1, "", "lmtk nplm-train: broken\n")
    assert not left_over(before)


@needs_mpi
def test_an_mpiexec_that_the_library_does_not_know(tmp_path):
    for name in mpiexec.SIZES:
        environment = ENVIRONMENT | {name: "2"}
        words = ["nplm-train", "-mpi", *DATA, *TINY, "-lm", tmp_path / "m"]
        done = subprocess.run([*LMTK, *words], env=environment, capture_output=True, text=True)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1) and "started 2 ranks" in done.stderr


def test_without_mpi4py(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    status, _, err = in_process(tmp_path, "nplm-train", "-mpi", *DATA, *TINY, "-lm", "m")
    assert (status, err) == (2, "lmtk nplm-train: -mpi needs the package mpi4py; pip install mpi4py mpich\n")


def test_blocks_are_those_of_the_paper():
    class Ranks(parallel.Alone):
        def __init__(self, rank, size):
            self.rank, self.size = rank, size

    assert [units_of_rank(11, Ranks(i, 3)) for i in range(3)] == [(0, 4), (4, 8), (8, 11)]
    with pytest.raises(LmtkError, match="5 words in blocks of 2 are too few for 4 ranks; run with 3"):
        units_of_rank(5, Ranks(0, 4))


def test_mpi4py_is_imported_in_one_place():
    actual = [p.name for p in (TESTS.parent / "lmtk").rglob("*.py") if "import mpi4py" in p.read_text()]
    assert actual == ["parallel.py"]
