"""Kernels: what they take and return, and the cache of their machine code."""

import inspect
import os
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
from helpers import ENVIRONMENT

from lmtk.machine import jit, kernel_cache, large, objects
from lmtk.machine.large import LARGE, pays

KERNEL = """
import sys
import numpy as np
from lmtk.machine.jit import jit

FACTOR = {factor}

@jit
def scaled(x):
    return x * FACTOR

@jit
def total(x, start):
    found = np.full(1, start)
    for i in range(len(x)):
        found[0] += scaled(x[i])
    return found[0], len(x)

print(total(np.arange(4.0), 1.0), total(np.arange(8.0)[::2], 1.0), "numba" in sys.modules)
"""


@jit.jit
def everything(pair, columns, rows, flag, nothing, weight):
    out, records = pair
    for i in range(len(out)):
        out[i] = columns[i, 1] + rows[0, i] + records[i].count
    if nothing is None and flag:
        out[0] += weight
    return len(out), weight, out[0] > 0, out[1]


def test_a_kernel_takes_arrays_of_any_stride_numbers_none_and_tuples():
    out, records = np.zeros(6, np.int32)[::2], np.array([(1.5, 10), (2.5, 20), (3.5, 30)], "f4,i4")
    records.dtype.names = "p", "count"
    rows = np.arange(6, dtype=np.int64).reshape(3, 2).T
    actual = everything((out, records), np.ones((3, 2), np.uint8), rows, True, None, np.float32(0.5))
    assert actual == (3, 0.5, True, 23) and out.tolist() == [11, 23, 35]
    assert [type(x) for x in actual] == [int, float, bool, int]
    assert everything((out, records), np.ones((3, 2), np.uint8), rows, False, None, 7)[:2] == (3, 7)
    assert all(map(inspect.isbuiltin, everything.codes.values())) or not objects.is_usable()


def test_numbers_of_numpy_and_python_share_machine_code():
    pairs = (2, np.int64(2)), (2.5, np.float64(2.5)), (True, np.bool_(True))
    assert all(jit.kinds_of((a,)) == jit.kinds_of((b,)) for a, b in pairs)
    kinds = {jit.kinds_of((number,)) for number in (2, 2.5, True, np.float32(2.5), np.int32(2))}
    assert len(kinds) == 5


@jit.jit
def as_float(number):
    return float(number)


def test_numbers_of_all_types_are_passed_whole():
    numbers = np.uint64(2**63), np.uint8(255), np.int8(-4), -(2**63), np.int64(2**62), np.float32(0.1)
    assert [as_float(number) for number in numbers] == list(map(float, numbers))
    with pytest.raises(OverflowError):
        as_float(2**63)


@jit.jit
def takes(n):
    return np.zeros(n)[0]


def test_a_kernel_with_a_function_in_it_is_found_again():
    """No address is in what its file's name is made of; the code of the inner function is."""

    source = "@jit.jit\ndef kernel(x):\n    def inner(y):\n        return y + {}\n    return inner(x)\n"
    made = []
    for number in (1, 1, 2):
        scope = {"jit": jit}
        exec(source.format(number), scope)
        made.append(jit.file_of(scope["kernel"], (float,)))
    assert made[0] == made[1] != made[2]


def test_a_kernel_without_room_is_a_memory_error():
    assert takes(10) == 0
    with pytest.raises(MemoryError, match="takes: not enough memory"):
        takes(1 << 44)


def run(path, cache):
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, env=ENVIRONMENT | {"NUMBA_CACHE_DIR": str(cache)}
    )
    assert not done.stderr
    return done.stdout.strip()


def test_a_kernel_keeps_its_definition():
    """Python reads it when it frees the function, perhaps after all modules: programs used to crash at their end."""
    kernel = jit.for_kinds_of(takes, 10)
    assert type(kernel) is type(len)
    assert isinstance(kernel.__module__, objects.Definition)


def test_machine_code_is_kept_until_what_it_is_made_of_changes(tmp_path):
    program, cache = tmp_path / "program.py", tmp_path / "cache"
    program.write_text(KERNEL.format(factor=2))
    assert run(program, cache) == "(13.0, 4) (25.0, 4) True"
    assert run(program, cache) == "(13.0, 4) (25.0, 4) False"
    program.write_text(KERNEL.format(factor=3))
    assert run(program, cache) == "(19.0, 4) (37.0, 4) True"
    for path in cache.iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    assert run(program, cache) == "(19.0, 4) (37.0, 4) True"
    assert run(program, cache) == "(19.0, 4) (37.0, 4) False"


def test_who_waits_at_a_terminal_is_told_of_the_compilation(tmp_path):
    """Once, however many kernels there are; not in a pipe, and not with -quiet."""
    job = (
        "import sys; from lmtk import cli; from lmtk.machine import jit; jit.import_module = str; "
        "cli.run_other = lambda words: jit.compiler('compiling') is not jit.compiler('compiling'); cli.main()"
    )
    environment = ENVIRONMENT | {"NUMBA_CACHE_DIR": str(tmp_path)}
    for words, lines in ([], 1), (["-quiet"], 0):
        messages = b""
        terminal, stderr = os.openpty()
        command = [sys.executable, "-c", job, *words]
        subprocess.run(command, stderr=stderr, env=environment, check=True)
        os.close(stderr)
        with suppress(OSError):  # where nobody writes to a terminal any more
            messages = os.read(terminal, 4096)
        os.close(terminal)
        assert messages.count(b"first run: compiling") == lines and lines == (str(tmp_path).encode() in messages)
    assert not subprocess.run(command[:3], capture_output=True, env=environment, check=True).stderr


@jit.jit
def letters(text, zero, pair):
    actual = 0
    for i in range(len(text)):
        actual = 256 * actual + text[i]
    return actual + zero[()] + len(pair[0]) + pair[1][1]


def test_a_kernel_takes_bytes_arrays_of_no_dimension_and_tuples_in_tuples():
    assert letters(b"ab", np.array(1000), (b"four", (None, 7))) == 256 * 97 + 98 + 1011
    assert letters(b"", np.array(0), (b"", (None, 0))) == 0


def test_a_smaller_job_is_large_where_the_cache_has_its_kernels(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_cache, "folder", lambda: kernel_cache.opened(str(tmp_path)))
    monkeypatch.setattr(large, "sizes", {})
    size = LARGE["arpa"]

    def known(job="read", n=size - 1):
        jit.recorded.cache_clear()
        large.sizes.clear()
        return pays("arpa", n, job)

    assert not known()
    assert pays("arpa", size, "read")
    large.learn()
    assert known() and known(n=size >> 4)
    assert not any((known("write"), known(""), known(n=size >> 5)))
    path, jobs = jit.__file__, sorted(tmp_path.iterdir())
    (tmp_path / "upgraded.py").touch()
    monkeypatch.setattr(jit, "__file__", str(tmp_path / "upgraded.py"))  # another installation
    assert jobs and not known()
    monkeypatch.setattr(jit, "__file__", path)
    assert known()
    monkeypatch.setattr(jit, "machine", lambda: "another processor")
    assert not known()


def test_a_kernel_of_numbers(monkeypatch):
    assert jit.for_kinds_of(takes, 3)(5) == 0.0
    monkeypatch.setattr(objects, "is_usable", lambda: False)
    monkeypatch.setattr(jit, "fallback", lambda kernel: kernel.__wrapped__)
    assert jit.for_kinds_of(jit.jit(takes.__wrapped__), 3)(5) == 0.0


def test_the_parts_of_a_job_add_up(monkeypatch):
    monkeypatch.setattr(large, "sizes", {})
    monkeypatch.setattr(jit, "recorded", lambda job: False)
    part = LARGE["ngrams"] // 4
    parts = [("ngrams", "score")] * 5 + [("ngrams", "")] * 5 + [("ngrams", "print")] * 3
    assert [pays(kind, part, job) for kind, job in parts] == [False] * 3 + [True] * 2 + [False] * 8
