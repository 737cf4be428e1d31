"""A full disk, files that may not grow, little address space, few open files: one line, status 1, no part of a file."""

import random
import resource
import subprocess

import jobs
import pytest

LIMITS = {  # from what on Python itself starts
    "size of a file": (resource.RLIMIT_FSIZE, lambda rng: rng.choice([0, 1, 100, 1000, 5000, 20_000])),
    "address space": (resource.RLIMIT_AS, lambda rng: rng.randint(60, 400) << 20),
    "open files": (resource.RLIMIT_NOFILE, lambda rng: rng.randint(8, 24)),
}


def check(folder, name, case, **how):
    """A job either is done or ends with one line; in the folder is nothing but its output and what it read."""
    process = jobs.start(folder, name, **how)
    out, err = process.communicate(timeout=100)
    wrong = process.returncode and jobs.told(name, process.returncode, out + err)
    assert not wrong, f"{case}: {wrong}"
    left = set(jobs.written(folder)) - ({"out", "out.gz"} if process.returncode == 0 else set())
    assert left <= {"out.ckpt"}, f"{case}: {left} stay"


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_is_one_line(tmp_path, amount, seed, limit):
    rng, (kind, draw) = random.Random(f"{seed} {limit}"), LIMITS[limit]
    for case in range(amount(4, 40)):
        name, size = rng.choice(list(jobs.JOBS)), draw(rng)
        label = f"seed {seed}, case {case}: {name}, {limit} {size}"
        folder = jobs.prepare(tmp_path / str(case))
        check(folder, name, label, preexec_fn=lambda size=size: resource.setrlimit(kind, (size, size)))


@pytest.fixture
def small_disk(tmp_path):
    """small_disk(bytes): a new folder on a disk of this size."""
    mounted = []

    def make(size):
        folder = tmp_path / f"disk{len(mounted)}"
        folder.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], capture_output=True)
        if done.returncode:
            pytest.skip("no disk can be mounted here")
        mounted.append(folder)
        return folder

    yield make
    for folder in mounted:
        subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_one_line(small_disk, amount, seed):
    rng = random.Random(f"{seed} disk")
    for case in range(amount(4, 60)):
        name, size = rng.choice(list(jobs.JOBS)), rng.choice([4, 8, 16, 32, 64]) << 10
        check(jobs.prepare(small_disk(size)), name, f"seed {seed}, case {case}: {name}, a disk of {size} bytes")


@pytest.mark.parametrize("name", ["count", "score", "vocabulary"])
def test_a_full_device_is_one_line(tmp_path, name):
    process = jobs.start(jobs.prepare(tmp_path / "job"), name, ["-write", "/dev/full"])
    assert not jobs.told(name, process.wait(60), process.stderr.read())
    assert not jobs.written(tmp_path)
