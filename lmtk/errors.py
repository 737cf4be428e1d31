"""Errors and warnings, one line each. `cli.main` turns them into a message and an exit status.

A message has three parts: what is wrong, where, and what to do about it. The functions of this module format the
words and numbers of messages.
"""


class LmtkError(Exception):
    """Bad data or a failure at run time: exit status 1."""


class FormatError(LmtkError):
    """A file with a wrong format or content. The message begins with "file:" or "file:line:"."""

    def __init__(self, path, message, line=None):
        place = f"{name_of(path)}:{line}" if line else name_of(path)
        super().__init__(f"{place}: {message}")


class Diverged(LmtkError):
    """Training diverged: the likelihood is not a finite number any more."""


class UsageError(LmtkError):
    """A wrong command line: exit status 2."""


class LmtkWarning(UserWarning):
    """A problem that does not stop the command; it is printed as one line on stderr."""


# if lmtk replaces another program: our option name -> the option name that the user typed
typed = {}
# file -> its name in messages, if that is another one
named = {"-": "stdin"}
# functions that show a line to a user at a terminal; set by `cli.main`
notes = []


def name_of(path):
    """The name of a file in messages."""
    return named.get(path, path)


def counted(n, one, many=None):
    """Format a number with a noun or a clause, for messages; `many` (default: `one` and an s) is used unless n is 1."""
    return f"{n} {one if n == 1 else many or one + 's'}"


def shown(word):
    """Decode a word, bytes, for messages; bytes that are not UTF-8 become escapes."""
    return word.decode("utf-8", "backslashreplace")


def first_words(words):
    """Format the first three words of a list, for messages."""
    return ", ".join(map(shown, words[:3])) + " ..." * (len(words) > 3)


def nearest(word, names):
    """ "; did you mean X?" for the name most like `word`, or nothing."""
    import difflib

    similar = difflib.get_close_matches(word, names, 1, 0.7)
    return f"; did you mean {similar[0]}?" if similar else ""


def option_name(field):
    """The name, without the dash, of the option that sets a dataclass field."""
    return field.metadata.get("option", field.name.replace("_", "-"))
