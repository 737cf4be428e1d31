"""What can go wrong, as one line each. `cli.main` turns these into a message and an exit status."""


class LmtkError(Exception):
    """Bad data or a failure at run time: exit status 1."""


class FormatError(LmtkError):
    """A file that is not what it should be: `place` is "file" or "file:line"."""

    def __init__(self, path, message, line=None):
        place = f"{name_of(path)}:{line}" if line else name_of(path)
        super().__init__(f"{place}: {message}")


class Diverged(LmtkError):
    """A likelihood is not a finite number any more."""


class UsageError(LmtkError):
    """A wrong command line: exit status 2."""


class LmtkWarning(UserWarning):
    """Something odd that was tolerated; printed as one line on stderr."""


# functions that tell a line to a user at a terminal; `cli.main` puts them here
notes = []


def name_of(path):
    """What messages call a file."""
    return "stdin" if path == "-" else path


def shown(word):
    """The bytes of a word as people read them."""
    return word.decode("utf-8", "backslashreplace")


def first_of(words):
    """The first three of some words, for a message."""
    return ", ".join(map(shown, words[:3])) + " ..." * (len(words) > 3)
