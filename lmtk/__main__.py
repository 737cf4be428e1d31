"""The process that runs `cli.main`: how it starts, and how it ends."""

import atexit
import contextlib
import os
import signal
import sys
import time


def program():
    """Runs `cli.main`.

    An interrupt before `cli.main` starts ends the process without a traceback. When `cli.main` has ended, the process
    exits at once. This skips Python's clean-up, which takes 0.015 s or more.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from lmtk.cli import close_stdout, ended, main

    status = 1  # if main raises anything but SystemExit

    def end():
        with contextlib.suppress(OSError, ValueError):
            close_stdout()
            sys.stderr.flush()
        if status == 128 + signal.SIGPIPE:  # a program whose pipe is closed ends by this signal
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGPIPE)
        if "mpi4py.MPI" not in sys.modules:  # MPI ends after Python's clean-up
            os._exit(128 + ended[0] if ended else status)

    def end_again(unraisable):
        """Sends a signal again if its handler ran in a callback, where Python ignores the handler's exception."""
        if ended and isinstance(unraisable.exc_value, KeyboardInterrupt | SystemExit):
            from threading import Thread, get_ident

            Thread(target=send_after, args=(get_ident(), ended[-1]), daemon=True).start()
        else:
            sys.__unraisablehook__(unraisable)

    def send_after(thread, number):
        """Sends a signal once a thread has left `end_again`, in which its exception would be ignored again."""
        frame = True
        while frame:
            time.sleep(0.01)
            frame = sys._current_frames().get(thread)
            while frame and frame.f_code is not end_again.__code__:
                frame = frame.f_back
        os.kill(os.getpid(), number)

    sys.unraisablehook = end_again
    atexit.register(end)  # the first to be registered runs last
    try:
        main()
    except SystemExit as e:
        status = e.code
        raise


if __name__ == "__main__":
    program()
