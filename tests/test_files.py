"""Output that appears whole or not at all, and what killed processes leave behind."""

import errno
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from helpers import ENVIRONMENT

from lmtk.errors import UsageError
from lmtk.files import decoding, inputs, outputs
from lmtk.files.column import Shelf
from lmtk.nmt import alignment

# writes half of a file or of a folder, says so, and waits
WRITER = """
import sys, time
from lmtk.files.outputs import open_folder, open_out
with open_{kind}("out") as out:
    {what}
    print("begun", flush=True)
    time.sleep(60)
"""
WHAT = {"out": "out.write(b'half'), out.flush()", "folder": "open(out + '/a', 'w').close()"}


def begun(folder, kind):
    """A process that is in the middle of its output."""
    program = WRITER.format(kind=kind, what=WHAT[kind])
    running = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=folder,
        stdout=subprocess.PIPE,
        env=ENVIRONMENT | {"PYTHONPATH": str(Path.cwd())},
    )
    assert running.stdout.readline() == b"begun\n"
    return running


def names(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def write(folder, kind):
    outputs.list_temporaries.cache_clear()
    if kind == "out":
        with outputs.open_out(str(folder / "out")) as out:
            out.write(b"whole")
    else:
        with outputs.open_folder(str(folder / "out")) as out:
            Path(out, "b").touch()


@pytest.mark.parametrize("kind", WHAT)
def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path, kind):
    dead, living = begun(tmp_path, kind), begun(tmp_path, kind)
    dead.kill(), dead.wait()
    both = set(names(tmp_path))
    write(tmp_path, kind)
    left = set(names(tmp_path))
    assert not any(name.endswith(f".{dead.pid}") for name in left)
    assert any(name.endswith(f".{living.pid}") for name in left & both)
    living.send_signal(signal.SIGTERM), living.wait()
    write(tmp_path, kind)
    assert names(tmp_path) == (["out"] if kind == "out" else ["out", "out/b"])


def test_files_of_others_stay(tmp_path):
    """Temporary files of another host, of another output, and files that only look like them."""
    host = outputs.temporary_suffix()
    others = ["out.tmp.elsewhere.7", f"other{host}7", f"out{host}x", "out.tmp", "out.tmp.7"]
    for name in others:
        (tmp_path / name).touch()
    (tmp_path / f"out{host}1").touch()
    write(tmp_path, "out")
    assert names(tmp_path) == sorted([*others, "out"])


def test_a_path_that_ends_in_a_slash_is_not_a_file(tmp_path):
    from lmtk.files.outputs import check_output, open_out

    for path in (f"{tmp_path}/new/", f"{tmp_path}/"):
        with pytest.raises(IsADirectoryError), open_out(path):
            pass
        with pytest.raises(IsADirectoryError) as actual:
            check_output(f"{tmp_path}/new/")
        assert actual.value.filename == f"{tmp_path}/new/" and not list(tmp_path.iterdir())


def test_a_folder_of_files_appears_whole_or_not_at_all(tmp_path):
    folder = tmp_path / "pictures"
    with pytest.raises(ValueError), outputs.open_folder(str(folder)) as out:
        Path(out, "a").touch()
        raise ValueError
    assert names(tmp_path) == []
    folder.mkdir()
    (folder / "a").write_text("old")
    with pytest.raises(OSError) as failed, outputs.open_folder(str(folder)) as out:
        Path(out, "b").write_text("new")
        Path(out, "no", "c").touch()
    assert names(tmp_path) == ["pictures", "pictures/a"]
    assert failed.value.filename == str(folder / "no/c")
    with outputs.open_folder(str(folder)) as out:
        Path(out, "a").write_text("new")
    assert (folder / "a").read_text() == "new" and names(tmp_path) == ["pictures", "pictures/a"]


def test_a_full_disk_leaves_none_of_the_pictures(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    drawn = []

    def plot(out, *_):
        drawn.append(out.write(b"picture"))
        if len(drawn) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(alignment, "write_plot", plot)
    with pytest.raises(OSError), alignment.alignment_writer(plots=str(tmp_path / "dir")) as write_alignment:
        for i in range(5):
            write_alignment(i, f"{i}", [b"a"], [b"b"], -1.0, [0], np.ones((2, 2)))
    assert len(drawn) == 3 and names(tmp_path) == []


@pytest.mark.parametrize("name", ["plain", "packed.gz"])
def test_what_is_read_is_told(tmp_path, monkeypatch, name):
    """The bar counts the bytes of files as they stand on disk, to their end."""
    path = str(tmp_path / name)
    with outputs.open_out(path) as out:
        out.write(b"a b c\n" * 1_000_000)
    messages = []
    monkeypatch.setattr(inputs, "watch", messages.append)
    assert sum(map(len, decoding.blocks(path))) == 6_000_000
    assert sum(messages) == os.path.getsize(path)


def test_what_takes_the_place_of_a_file_goes_to_the_disk_while_it_is_written(tmp_path, monkeypatch):
    begun = []
    monkeypatch.setattr(outputs, "EARLY", 1 << 20)
    monkeypatch.setattr(outputs, "begin_writing", begun.append)
    for times in (0, 3):
        with outputs.open_out(str(tmp_path / "out")) as out:
            for _ in range(7):
                out.write(b"x" * (1 << 19))
        assert len(begun) == times
        assert (tmp_path / "out").read_bytes() == b"x" * (7 << 19)


def test_a_check_of_an_output_that_a_signal_ends_leaves_nothing(tmp_path, monkeypatch):
    def end(number):
        raise SystemExit(129)

    monkeypatch.setattr(outputs, "lock", end)
    with pytest.raises(SystemExit):
        outputs.check_output(str(tmp_path / "out"))
    assert not names(tmp_path)


def test_a_missing_package_is_told_before_the_work(tmp_path, monkeypatch):
    """Not when the output is opened, since the work would then be lost."""

    def missing():
        raise UsageError("zstd files need a package")

    monkeypatch.setattr(outputs, "zstd_module", missing)
    outputs.check_output(str(tmp_path / "out.xz"))
    with pytest.raises(UsageError, match="zstd files need"):
        outputs.check_output(str(tmp_path / "out.zst"))


def test_threads_that_write_a_file_at_once_both_write_it_whole(tmp_path):
    def write_slowly(letter, seconds):
        with outputs.open_out(str(tmp_path / "out")) as out:
            for _ in range(4):
                out.write(letter * 100_000)
                time.sleep(seconds)
        return True

    with ThreadPoolExecutor(2) as threads:
        assert all(threads.map(write_slowly, (b"a", b"b"), (0.05, 0.02)))
    assert (tmp_path / "out").read_bytes() == b"a" * 400_000 and names(tmp_path) == ["out"]


def test_a_file_is_locked_until_it_has_its_name(tmp_path, monkeypatch):
    """Otherwise another process could remove it as the file of a killed one."""
    replace, locked = os.replace, []

    def replace_locked(old, new):
        with open(old) as file, pytest.raises(BlockingIOError):
            outputs.lock(file.fileno())
        locked.append(replace(old, new))

    monkeypatch.setattr(os, "replace", replace_locked)
    write(tmp_path, "out")
    assert len(locked) == 1 and names(tmp_path) == ["out"]


@pytest.mark.parametrize("spill", [True, False])
@pytest.mark.parametrize("kind, width", [(np.int32, 3), (np.uint64, 1)])
def test_rows_that_are_dealt_stay_in_their_order(spill, kind, width):
    random, shelf, expected = np.random.default_rng(width), Shelf(spill), [[] for _ in range(5)]
    for size in (1, 0, 7, 40):
        rows, numbers = random.integers(0, 99, (size, width)).astype(kind), random.integers(0, 5, size).astype(np.uint8)
        shelf.deal(rows[:, ::-1], numbers, ("rows",))
        for i in range(5):
            expected[i].append(rows[numbers == i, ::-1].ravel())
        rows[:] = 0  # the shelf has a copy
    for i, parts in enumerate(expected):
        whole = np.concatenate(parts)
        assert np.array_equal(shelf.get(("rows", i), kind), whole)
        assert np.array_equal(shelf.get(("rows", i), kind, 2, len(whole) - 1), whole[2:-1])
