"""The heads of the pages' option lists, made of the records that feed parser, -help and completion.

    python man/options.py

Of `.It Fl name Ar value ...` in a page the name alone is typed by hand; what an option takes is its record's to say.
"""

import importlib
import re
from pathlib import Path

import typer

from lmtk.commands import COMMANDS
from lmtk.help import FAMILY, takes_several

MAN = Path(__file__).parent


def parameters(command):
    """The options of a command, as Click has them."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(importlib.import_module("lmtk.commands." + command.replace("-", "_")).command)
    return typer.main.get_command(app).params


def head(option):
    """`.It Fl name` and its values, as mdoc has it."""
    name, value = option.opts[0][1:], option.metavar
    if value is None:
        return f".It Fl {name}"
    optional, value = value[0] == "[", value.strip("[]")
    if "|" in value:
        value = f"Cm {value.replace('|', ' | ')}"
    elif optional:
        value = f"Op Ar {value.lower()}"
    else:
        value = f"Ar {value.lower()}{' ...' * takes_several(option)}"
    return f".It Fl {name} {value}"


def with_heads(page, options):
    """A page in which the options stand as their records have them. Raises KeyError for one that has none."""
    heads = {option.opts[0][1:]: head(option) for option in options} | {"help": ".It Fl help"}
    named = lambda name: heads.get(name) or heads[FAMILY.sub("", name)]
    return re.sub(r"^\.It Fl (\S+).*$", lambda item: named(item[1]), page, flags=re.MULTILINE)


if __name__ == "__main__":
    for command in COMMANDS:
        path = MAN / f"lmtk-{command}.1"
        path.write_text(with_heads(path.read_text(), parameters(command)))
