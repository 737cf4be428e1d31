"""The cache of compiled kernels: files in one folder, which is opened once.

The content of these files is run, so nobody else may be able to write them. The folder and its files must belong to the
user, and only the user may write to them. Symbolic links, devices and FIFOs are refused. The checksum of a file covers
its name, so that a file is only used under the name that it was written under. A folder or file that is refused is not
an error: kernels are compiled again.
"""

import os
import stat
from _blake2 import blake2b  # hashlib imports OpenSSL first
from contextlib import suppress
from functools import cache

DIGEST = 16  # bytes
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
NOWHERE = -1, None  # in place of a folder: opening a file by this descriptor is an OSError


def digest(data):
    return blake2b(data, digest_size=DIGEST).digest()


@cache
def folder():
    """(descriptor, path) of the folder: the one that NUMBA_CACHE_DIR names, else one in the user's cache, else one in
    the folder for temporary files. NOWHERE if it cannot be used. It is not beside the source, since pip removes
    only the files that it has installed.
    """
    if named := os.environ.get("NUMBA_CACHE_DIR"):
        return opened(os.path.expanduser(named))
    users = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    # a path that is not absolute is ignored, such as "~" where neither HOME nor the list of users says what it is
    if os.path.isabs(users) and (cache := opened(os.path.join(users, "lmtk"))) != NOWHERE:
        return cache
    import tempfile

    return opened(os.path.join(tempfile.gettempdir(), f"lmtk-{os.geteuid()}"))


def refused():
    """A message if NUMBA_CACHE_DIR names a folder that is not used, or None."""
    message = "NUMBA_CACHE_DIR is {}, which cannot keep compiled kernels; name a folder that only you can write to"
    return message.format(named) if (named := os.environ.get("NUMBA_CACHE_DIR")) and not folder()[1] else None


def opened(path):
    """(descriptor, path) of a folder, which is created if need be. NOWHERE if it is a link, or if others can write to
    it or put another folder in its place.
    """
    with suppress(OSError):
        if path.startswith("~"):
            return NOWHERE
        path = os.path.abspath(path)
        parent = os.path.dirname(path)
        os.makedirs(parent, mode=0o700, exist_ok=True)
        if not all(map(is_safe, {parent, os.path.realpath(parent)})):
            return NOWHERE
        os.makedirs(path, mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        if is_ours(os.fstat(descriptor)) and os.access(".", os.W_OK | os.X_OK, dir_fd=descriptor):
            return descriptor, path
        os.close(descriptor)
    return NOWHERE


def is_safe(path):
    """Whether only the user and root can replace what is in a folder, or only its owner can, as in /tmp, and the same
    holds for all folders above it. path: absolute. The owner of the root folder counts as root, which in a container
    can be somebody else. For a link, its owner is checked.
    """
    about = os.lstat(path)
    is_open = about.st_mode & OTHERS_WRITE and not about.st_mode & stat.S_ISVTX and not stat.S_ISLNK(about.st_mode)
    is_above_safe = path.strip("/") == "" or is_safe(os.path.dirname(path))
    return about.st_uid in (0, os.geteuid(), os.lstat("/").st_uid) and not is_open and is_above_safe


def is_ours(about):
    """Whether a file or folder belongs to the user, and nobody else can write to it. about: its os.stat_result."""
    return about.st_uid == os.geteuid() and not about.st_mode & OTHERS_WRITE


def open_in(descriptor):
    """An opener of files in a folder for Python's `open`. It follows no links and does not wait for a FIFO's writer."""
    return lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600, dir_fd=descriptor)


def read(name):
    """The content of a file of the cache. None if it is missing, damaged or not safe."""
    with suppress(OSError), open(name, "rb", opener=open_in(folder()[0])) as file:
        about = os.fstat(file.fileno())
        data = file.read() if stat.S_ISREG(about.st_mode) and is_ours(about) else b""
        if data[:DIGEST] == sum_of(name, data[DIGEST:]):
            return data[DIGEST:]
    return None


def write(name, data):
    """Makes a file of the cache, whole or not at all."""
    descriptor, temporary = folder()[0], f"{name}.{os.urandom(8).hex()}"
    with suppress(OSError):
        try:
            with open(temporary, "xb", opener=open_in(descriptor)) as file:
                file.write(sum_of(name, data) + data)
            os.replace(temporary, name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
        except BaseException:
            with suppress(FileNotFoundError):  # which would take the place of an interrupt
                os.unlink(temporary, dir_fd=descriptor)
            raise


def sum_of(name, data):
    return digest(os.fsencode(name) + b"\0" + data)


@cache
def folder_for_numba():
    """The path of a folder for numba's own cache, which opens files by their names; None if it cannot be used. Others
    can neither write to the folder nor pass through it, and all that is in it belongs to the user.
    """
    descriptor, path = opened(os.path.join(folder()[1], "numba")) if folder()[1] else NOWHERE
    with suppress(OSError):
        is_closed, walk = os.fstat(descriptor).st_mode & 0o77 == 0, os.fwalk(dir_fd=descriptor)
        abouts = [os.lstat(name, dir_fd=inner) for _, folders, files, inner in walk for name in folders + files]
        kinds = {(about.st_uid, stat.S_IFMT(about.st_mode)) for about in abouts}
        if is_closed and kinds <= {(os.geteuid(), stat.S_IFREG), (os.geteuid(), stat.S_IFDIR)}:
            return path
    return None
