"""Errors and warnings, one line each. `cli.main` turns them into a message and an exit status."""


class LmtkError(Exception):
    """Bad data or a failure at run time: exit status 1."""


class FormatError(LmtkError):
    """A file with a wrong format or content. The message begins with "file:" or "file:line:"."""

    def __init__(self, path, message, line=None):
        place = f"{name_of(path)}:{line}" if line else name_of(path)
        super().__init__(f"{place}: {message}")


class Diverged(LmtkError):
    """A likelihood is not a finite number any more."""


class UsageError(LmtkError):
    """A wrong command line: exit status 2."""


class LmtkWarning(UserWarning):
    """Something odd that was tolerated; printed as one line on stderr."""


# names that the user typed for options of ours, where lmtk stands in for another program: {ours: theirs}
typed = {}
# functions that tell a line to a user at a terminal; `cli.main` puts them here
notes = []


def name_of(path):
    """The name of a file in messages."""
    return "stdin" if path == "-" else path


def counted(n, one, many=None):
    """A number with a noun or a clause, for messages: `many` (default: `one` and an s) where n is not 1."""
    return f"{n} {one if n == 1 else many or one + 's'}"


def shown(word):
    """A word, bytes, as a str for messages; bytes that are no UTF-8 become escapes."""
    return word.decode("utf-8", "backslashreplace")


def first_of(words):
    """The first three of some words, for a message."""
    return ", ".join(map(shown, words[:3])) + " ..." * (len(words) > 3)
