"""The process around `cli.main`, from its first moment to its last."""

import atexit
import contextlib
import os
import signal
import sys


def program():
    """`cli.main`. Before it an interrupt ends the process without a word; Python would print a traceback of imports.
    After it the process ends at once: to take everything apart, Python would need 0.015 s and more.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from lmtk.cli import close_stdout, ended, main

    status = 1  # where main raises anything else

    def end():
        with contextlib.suppress(OSError, ValueError):
            close_stdout()
            sys.stderr.flush()
        if status == 128 + signal.SIGPIPE:  # a closed pipe ends a process by this signal, once all else is done
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGPIPE)
        if "mpi4py.MPI" not in sys.modules:  # which ends MPI behind all of Python
            os._exit(128 + ended[0] if ended else status)

    def end_again(unraisable):
        """Sends a signal again, soon, if its exception was raised in a callback, where Python prints and forgets it."""
        if ended and isinstance(unraisable.exc_value, KeyboardInterrupt | SystemExit):
            from threading import Timer

            Timer(0.01, os.kill, (os.getpid(), ended[-1])).start()
        else:
            sys.__unraisablehook__(unraisable)

    sys.unraisablehook = end_again
    atexit.register(end)  # registered first, it runs last
    try:
        main()
    except SystemExit as e:
        status = e.code
        raise


if __name__ == "__main__":
    program()
