"""Pictures drawn by matplotlib, an optional package. The same data give the same bytes."""

from contextlib import contextmanager

from lmtk.errors import LmtkError, UsageError

# kinds of pictures, which are the endings of their names -> metadata that keeps dates and versions out of the file
KINDS = {"svg": {"Date": None}, "png": {"Software": None}, "pdf": {"CreationDate": None, "Producer": None}}


def check_matplotlib(option):
    """Raise UsageError if matplotlib, which an option needs, is missing, and LmtkError if it cannot be loaded."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        raise UsageError(f"-{option} needs the package matplotlib; pip install matplotlib") from None
    except ImportError:  # for instance, too little memory
        raise LmtkError(f"-{option}: matplotlib cannot be loaded; python -c 'import matplotlib' says why") from None


@contextmanager
def figure(out, kind, size):
    """A matplotlib Figure of `size` inches, which is written to `out` as one of KINDS when the block ends."""
    import matplotlib
    from matplotlib.figure import Figure

    # same data, same bytes: fixed ids, no date; text stays text
    style = {"svg.hashsalt": "lmtk", "svg.fonttype": "none", "axes.unicode_minus": False}
    with matplotlib.rc_context(style):
        drawn = Figure(figsize=size, layout="constrained")
        yield drawn
        drawn.savefig(out, format=kind, dpi=150, metadata=KINDS[kind])
