"""Attacks on the cache of compiled kernels: what others could have written is not run, and nothing is an error."""

import os
import pwd
import subprocess
import sys
import tempfile

import pytest
from helpers import ENVIRONMENT

from lmtk.machine import kernel_cache

KERNELS = """
import sys
from lmtk.machine.jit import jit

@jit
def one(x):
    return x + 1

@jit
def two(x):
    return x * 2.5

@jit
def three(x):
    return x - 1

print(one(3), two(3), three(3), "numba" in sys.modules)
"""
NOBODY = 65534


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A function that finds the cache's folder anew, with `tmp_path` as the home and a folder in it as TMPDIR."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    original = kernel_cache.folder.__wrapped__

    def find():
        place = original()
        monkeypatch.setattr(kernel_cache, "folder", lambda: place)
        return place[1]

    return find


def private(tmp_path):
    return str(tmp_path / "tmp" / f"lmtk-{os.geteuid()}")


def test_the_folder_is_private(folder, tmp_path):
    assert folder() == str(tmp_path / ".cache" / "lmtk")
    assert os.stat(folder()).st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_can_write_is_not_used(folder, tmp_path, mode):
    os.chmod(folder(), mode)
    assert folder() == private(tmp_path)
    os.chmod(folder(), mode)
    assert folder() is None


def test_a_folder_of_another_user_is_not_used(folder, tmp_path):
    if os.geteuid():
        pytest.skip("only root can give a folder away")
    os.chown(folder(), NOBODY, -1)
    assert folder() == private(tmp_path)
    os.chown(folder(), NOBODY, -1)
    assert folder() is None


def test_a_link_is_not_used(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir(0o700)
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "lmtk").symlink_to(tmp_path / "elsewhere")
    assert folder() == private(tmp_path)
    os.rmdir(private(tmp_path))
    os.symlink(tmp_path / "elsewhere", private(tmp_path))
    assert folder() is None


def test_a_folder_that_others_can_replace_is_not_used(folder, tmp_path, monkeypatch):
    (tmp_path / "open").mkdir()
    (tmp_path / "link").symlink_to("open")
    for mode, is_used in ((0o777, False), (0o1777, True), (0o775, False), (0o755, True)):
        os.chmod(tmp_path / "open", mode)
        for name in ("open", "link", "open/inner"):
            monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
            assert folder() == (str(tmp_path / name / "lmtk") if is_used else private(tmp_path))
    if os.geteuid() == 0:
        os.chown(tmp_path / "link", NOBODY, -1, follow_symlinks=False)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "link"))
        assert folder() == private(tmp_path)


@pytest.mark.parametrize("home", [None, "~", "relative"])
@pytest.mark.parametrize("users", [None, "~/cache", "relative"])
def test_without_a_home_there_is_no_folder_called_tilde(folder, tmp_path, monkeypatch, home, users):
    def unknown(_):
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(pwd, "getpwnam", unknown)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOME")
    for name, value in (("HOME", home), ("XDG_CACHE_HOME", users)):
        if value:
            monkeypatch.setenv(name, value)
    assert folder() == private(tmp_path)
    monkeypatch.setenv("NUMBA_CACHE_DIR", "~nobody/cache")
    assert folder() is None
    monkeypatch.setenv("NUMBA_CACHE_DIR", "named")
    assert folder() == str(tmp_path / "named")
    assert sorted(os.listdir(tmp_path)) == ["named", "tmp"]


def test_a_file_is_bound_to_its_name(folder, tmp_path):
    path = folder()
    kernel_cache.write("a", b"1")
    kernel_cache.write("b", b"2")
    assert kernel_cache.read("a") == b"1" and sorted(os.listdir(path)) == ["a", "b"]
    os.rename(f"{path}/a", f"{path}/c")
    assert kernel_cache.read("c") is None and kernel_cache.read("a") is None
    kernel_cache.write("c", b"3")
    assert kernel_cache.read("c") == b"3"


def linked(path):
    os.rename(path, path + "-")
    os.symlink(path + "-", path)


def waiting(path):
    os.remove(path)
    os.mkfifo(path)


def given_away(path):
    if os.geteuid():
        pytest.skip("only root can give a file away")
    os.chown(path, NOBODY, -1)


def forged(path):
    with open(path, "wb") as file:
        file.write(kernel_cache.digest(b"code") + b"code")


SPOILED = {
    "link": linked,
    "FIFO": waiting,
    "of another user": given_away,
    "open to others": lambda path: os.chmod(path, 0o602),
    "open to a group": lambda path: os.chmod(path, 0o620),
    "cut short": lambda path: os.truncate(path, 19),
    "forged": forged,
}


@pytest.mark.parametrize("how", SPOILED)
def test_a_file_that_others_could_have_made_is_replaced(folder, how):
    path = folder()
    kernel_cache.write("kernel", b"code")
    SPOILED[how](f"{path}/kernel")
    assert kernel_cache.read("kernel") is None
    kernel_cache.write("kernel", b"new")
    assert kernel_cache.read("kernel") == b"new"


def test_numba_gets_a_folder_of_files_of_the_user(folder, tmp_path):
    find = kernel_cache.folder_for_numba.__wrapped__
    path = folder() + "/numba"
    assert find() == path
    os.makedirs(f"{path}/module")
    open(f"{path}/module/index", "w").close()
    assert find() == path
    os.symlink("index", f"{path}/module/link")
    assert find() is None
    os.remove(f"{path}/module/link")
    os.chmod(path, 0o755)
    assert find() is None
    os.chmod(path, 0o700)
    assert find() == path
    if os.geteuid() == 0:
        os.chown(f"{path}/module/index", NOBODY, -1)
        assert find() is None


def test_exchanged_kernels_are_compiled_again(tmp_path):
    def run():
        done = subprocess.run([sys.executable, program], capture_output=True, text=True, env=environment, timeout=100)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    program, cache = tmp_path / "program.py", tmp_path / "cache"
    program.write_text(KERNELS)
    environment = ENVIRONMENT | {"NUMBA_CACHE_DIR": str(cache)}
    assert run() == "4 7.5 2 True\n"
    one, three, two = sorted(cache.iterdir())
    one.rename(cache / "kept"), two.rename(one), (cache / "kept").rename(two)
    three.unlink()
    os.mkfifo(three)
    assert run() == "4 7.5 2 True\n" and run() == "4 7.5 2 False\n"
