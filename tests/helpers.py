"""What tests share: the environment of commands, commands in this process, random models and texts, mpiexec."""

import importlib.util
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from mutation import run
from reference.edit import model_of

from lmtk.arguments import process_state_kept
from lmtk.files import container
from lmtk.machine.large import LARGE
from lmtk.ngram.counting.counts import number_ngrams
from lmtk.ngram.edit.renormalize import renormalize
from lmtk.text.vocab import EOS, SOS, UNK, Vocab

TESTS = Path(__file__).parent
FILES = TESTS / "files"
# one kernel cache for the whole suite, the same environment for every command
ENVIRONMENT = {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "HOME": os.environ.get("HOME", "/"),
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "COLUMNS": "80",
    "NO_COLOR": "1",
    "PYTHONHASHSEED": "0",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "FILES": str(FILES),
    "BIN": str(TESTS.parent / "bin"),
}


def set_large(patch, size, *kinds):
    """Makes jobs of these kinds, by default with n-grams, large from this size on; and files, with "binary".
    patch: a MonkeyPatch.
    """
    for kind in kinds or ["ngrams"]:
        if kind == "binary":
            patch.setattr(container, "LARGE", size)
        else:
            patch.setitem(LARGE, kind, size)


def in_process(folder, *words):
    """(status, stdout as bytes, stderr) of a command that runs in this process, and in a folder.

    It takes a tenth of the time of a new process. What the command sets for its whole process is put back.
    """
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(), process_state_kept():
        patch.chdir(folder)
        patch.setattr(sys, "argv", sys.argv)  # `run` sets it
        status, out, err, failed = run([*map(str, words)])
    assert not failed, failed
    return status, out, err


TRAIN = "the cat sat\na dog sat on the cat\nthe dog saw a cat on the mat\n\na cat saw the dog\n"
HELD = "the dog sat on a mat\na cat sat\nthe zebra saw\n"

# for commands whose kernels check the bounds of arrays; they are compiled once, in half a minute
BOUNDS_CHECKED = ENVIRONMENT | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(Path.home() / ".cache/lmtk/bounds")}


def random_model(seed, order=3, words="abcde", unk=False, holes=True):
    """A model with random n-grams, some of them without their prefix, and random probabilities that sum to one."""
    random = np.random.default_rng(seed)
    events = [EOS, *([UNK] if unk else []), *(w.encode() for w in words)]
    vocab = Vocab([*events, SOS, *([] if unk else [UNK])], len(events))
    V, W = vocab.V, len(vocab.words)
    rows = [np.arange(V + 1)[:, None]]
    for k in range(2, order + 1):
        row = random.integers(1, V, (random.integers(0, 4 * V), k))
        row[:, 0] = np.where(random.random(len(row)) < 0.3, vocab.sos_id, row[:, 0])
        row[:, -1] = random.integers(0, V, len(row))
        if not holes:
            # an n-gram's context, and what is left of it without its oldest word, are n-grams too
            listed = [set(map(tuple, r.tolist())) for r in rows]
            row = np.array([r for r in row.tolist() if tuple(r[:-1]) in listed[-1]], np.int64).reshape(-1, k)
        rows.append(row)
    levels = []
    for row, (keys, first, _) in zip(rows, number_ngrams(rows, W)):
        parent = keys // W if len(levels) else np.zeros(len(keys), np.int64)
        p = random.dirichlet(np.ones(V)) if not levels else random.uniform(0.01, 1, len(keys))
        has_p = first < len(row)
        if not levels:
            p = np.append(p, 0)
        else:
            # the n-grams of a context sum to less than one
            total = np.bincount(parent, p * has_p, parent.max(initial=0) + 1)[parent]
            p *= random.uniform(0.3, 0.95) / np.where(has_p, total, 1)
        with np.errstate(divide="ignore"):
            log10p = np.where(has_p, np.log10(p), np.nan)
        levels.append((keys, log10p, np.zeros(len(keys))))
    return renormalize(model_of(vocab, levels))


def random_text(folder, seed):
    random = np.random.default_rng(seed)
    lines = [" ".join(f"w{int(i)}" for i in random.zipf(1.5, random.integers(1, 20)) % 97) for _ in range(300)]
    (folder / "t").write_text("\n".join(lines) + "\n")
    return str(folder / "t")


MPIEXEC = Path(sys.executable).parent / "mpiexec"
# Open MPI wants to be asked for more ranks than processors, and for root
OPEN_MPI = dict.fromkeys(["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"], "1") | {
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
APART = {"MPIR_CVAR_NOLOCAL": "1"}  # each rank on a node of its own; MPICH's
PAIRS = {"MPIR_CVAR_ODD_EVEN_CLIQUES": "1"}  # ranks 0, 2 .. on a node, 1, 3 .. on another
LMTK = [sys.executable, "-m", "lmtk"]


needs_mpi = pytest.mark.skipif(
    not (importlib.util.find_spec("mpi4py") and MPIEXEC.exists()), reason="mpi4py and its mpiexec are not installed"
)


def start(ranks, *words, program=LMTK, environment=(), **more):
    environment = ENVIRONMENT | OPEN_MPI | {"PYTHONPATH": str(TESTS.parent)} | dict(environment)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL} | more
    return subprocess.Popen([MPIEXEC, "-n", str(ranks), *program, *words], env=environment, text=True, **pipes)


def mpi(ranks, *words, text=None, **more):
    """(status, stdout, stderr) of a command under mpiexec."""
    process = start(ranks, *words, stdin=subprocess.DEVNULL if text is None else subprocess.PIPE, **more)
    out, err = process.communicate(text, timeout=60)
    return process.returncode, out, err


SMALL_BLOCKS = """
import sys
from lmtk.commands import options
from lmtk.files import decoding
from lmtk.machine.large import LARGE
decoding.blocks.__defaults__ = (40, False, False, False)
LARGE["ngrams"] = int(sys.argv.pop(1))
options.LEAST = 1
sys.argv[0] = "lmtk"
from lmtk.cli import main
main()
"""
