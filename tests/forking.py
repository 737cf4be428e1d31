"""Commands without the start of a Python: a process that has imported lmtk forks for each command.

`started` writes a folder of clients with the names of lmtk and of the programs in bin/. A client sends its arguments,
environment, folder and standard streams to this server, waits for the command's end, and ends as the command did. This
takes a third of the time of a new process. A client imports no module that is written in Python: with `signal`, its
start would take two thirds longer. A command that needs other open files, limits or signals must be a process.
"""

import contextlib
import marshal
import os
import signal
import socket
import subprocess
import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parent.parent
CLIENT = """#!{python} -IS
import marshal, posix, sys
from _signal import SIGINT, SIG_DFL, signal
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, SHUT_WR, socket
signal(SIGINT, SIG_DFL)
server, name = socket(AF_UNIX, SOCK_STREAM), sys.argv[0].rpartition("/")[2]
server.connect({path!r})
words = sys.argv[1:] if name == "lmtk" else ["-as", name, *sys.argv[1:]]
streams = b"".join(fd.to_bytes(4, sys.byteorder) for fd in range(3))
server.sendmsg([b"."], [(SOL_SOCKET, SCM_RIGHTS, streams)])
server.sendall(marshal.dumps((words, dict(posix.environ), posix.getcwdb())))
server.shutdown(SHUT_WR)
status = int.from_bytes(server.recv(4), sys.byteorder, signed=True)
if status < 0:
    signal(-status, SIG_DFL)
    posix.kill(posix.getpid(), -status)
posix._exit(status)
"""
# modules that import numba or MPI, which most commands do without
HEAVY = {"compiling", "fallback", "intrinsics", "kenlm_module", "__main__"}


@contextlib.contextmanager
def started(folder, environment):
    """Yields the folder of clients, while the server runs in this environment."""
    path, clients = str(folder / "socket"), folder / "bin"
    clients.mkdir()
    (clients / "lmtk").write_text(CLIENT.format(python=sys.executable, path=path))
    (clients / "lmtk").chmod(0o755)
    for program in (ROOT / "bin").iterdir():
        if program.name != "lmtk":
            (clients / program.name).symlink_to("lmtk")
    command = [sys.executable, __file__, path]
    with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout.readline() == b"ready\n"
            yield clients
        finally:
            server.terminate()


def forbid_fallback():
    """Makes it an error in this process if `machine.compiling` cannot compile a kernel. Users get the right figures by
    `machine.fallback`, so only the time that each of their runs takes would show the fault.
    """
    from lmtk.machine import jit, objects

    def fallback(kernel):
        raise AssertionError(f"the kernel {kernel.__module__}.{kernel.__name__} does not compile to an object file")

    if objects.is_usable():
        jit.fallback = fallback


def serve(path):
    """Accepts clients for ever. Returns (words, environment, folder) in each process that is to run a command."""
    for file in sorted((ROOT / "lmtk").rglob("*.py")):
        if file.stem not in HEAVY:
            import_module(".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    import_module("llvmlite.binding")
    forbid_fallback()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the processes that talk to clients
    while True:
        client, _ = listener.accept()
        if os.fork() == 0:
            break
        client.close()
    listener.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, streams, _, _ = socket.recv_fds(client, 1, 3)
    request = b"".join(iter(lambda: client.recv(1 << 16), b""))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if child := os.fork():
        for number in range(3):
            os.close(number)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        client.sendall(status.to_bytes(4, sys.byteorder, signed=True))
        os._exit(0)
    client.close()
    return marshal.loads(request)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    words, environment, folder = serve(sys.argv[1])
    os.environb.clear()
    os.environb.update(environment)
    os.chdir(folder)
    sys.argv = ["lmtk", *words]
    how = {"encoding": "utf-8", "errors": "surrogateescape"}
    sys.stdin, sys.stdout = open(0, **how), open(1, "w", **how)
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace")
    from lmtk.__main__ import program

    program()
