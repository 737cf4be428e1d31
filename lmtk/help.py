"""Makes the text of -help and the completion scripts for shells, from the options of the parser."""

import inspect
import re
import shutil
import textwrap

from lmtk.commands import COMMANDS, click_command
from lmtk.errors import UsageError

FAMILY = re.compile(r"N(min|max)?$")  # a family: options with the number of an order or of a model in their names
FILES = "FILE", "DIR"  # metavars of files
MOST = 26  # columns for an option and its value; if they are longer, the text begins on the next line


def page(name, command):
    """The help of a command, in the width of the terminal, from 50 to 110 columns."""
    width = max(50, min(shutil.get_terminal_size().columns, 110))
    about = inspect.cleandoc(command.callback.__doc__)
    lines = [f"usage: lmtk {name} [OPTION ...]", ""]
    for paragraph in about.split("\n\n"):
        lines += [*textwrap.wrap(" ".join(paragraph.split()), width, break_on_hyphens=False), ""]
    for heading, params in grouped(command.params).items():
        lines.append(f"{heading}:")
        for p in params:
            lines += entry(p, width)
        lines.append("")
    return "\n".join(lines[:-1]) + "\n"


def grouped(params):
    """{heading: its options}. Options without a heading have the heading "Options"."""
    groups = {}
    for p in params:
        groups.setdefault(p.rich_help_panel or "Options", []).append(p)
    return groups


def entry(p, width):
    """The lines about one option: its name, its value, its effect and its default."""
    left = " ".join(filter(None, ["  " + p.opts[0], p.metavar if not p.is_flag else "", "..." * takes_several(p)]))
    default = p.default if type(p.default) in (int, float, str) else None
    sentence = (
        p.help if default in (None, "", "-") or "(default:" in p.help else f"{p.help.rstrip('.')} (default: {default})."
    )
    sentence = re.sub(r"\.( \(default: .*\)\.)$", r"\1", sentence)
    sentence = sentence.replace(") (default: ", "; default: ")  # "(0: none; default: 0)"
    text = textwrap.wrap(sentence, width - MOST - 2, break_long_words=False, break_on_hyphens=False)
    if len(left) > MOST:
        return [left, *(" " * (MOST + 2) + line for line in text)]
    return [f"{left:{MOST + 2}}{text[0]}", *(" " * (MOST + 2) + line for line in text[1:])]


def takes_several(p):
    """Whether several values can follow an option. A family such as -gtNmin takes one value for each order instead."""
    return p.multiple and not p.is_flag and not (FAMILY.search(p.opts[0]) or {*"[ "} & {*p.metavar})


def completion(words):
    """The completion script for the shell that the command line names. Raises UsageError."""
    writers = {"bash": bash, "zsh": zsh, "fish": fish}
    if len(words) != 1 or words[0] not in writers:
        raise UsageError("name one shell: lmtk completion bash, zsh or fish")
    return writers[words[0]]({name: spellings(name) for name in COMMANDS})


def spellings(name):
    """[(option, first sentence of its help, metavar of its value or "")] of a command.

    Families such as -gtNmin are listed for the orders 1 to 5, and families of mixed models for the models 2 to 9.
    """
    out = []
    for p in click_command(name).params:
        sentence = re.split(r"\. |\.$| \(default", p.help)[0]
        orders = "N" if "N" not in p.opts[0] else "23456789" if p.opts[0].startswith("-mix-") else "12345"
        out += [(p.opts[0].replace("N", n), sentence, "" if p.is_flag else p.metavar or "") for n in orders]
    return out


def choices(metavar):
    """The possible values of an option: ["a", "b"] for "a|b"; [] if the metavar does not list them."""
    return metavar.strip("[]").split("|") if "|" in metavar else []


def bash(commands):
    options = "".join(
        f"    {name}) options='{' '.join(o for o, _, _ in rows)}' ;;\n" for name, rows in commands.items()
    )
    words = "".join(
        f"    {name}:{option}) choices='{' '.join(choices(metavar))}' ;;\n"
        for name, rows in commands.items()
        for option, _, metavar in rows
        if choices(metavar)
    )
    return f"""_lmtk() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} options= choices=
  if [ "$COMP_CWORD" = 1 ]; then
    COMPREPLY=($(compgen -W '{" ".join(commands)} help completion' -- "$current"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
    help) choices='{" ".join(commands)}' ;;
    completion) choices='bash zsh fish' ;;
{options}  esac
  local option=${{COMP_WORDS[COMP_CWORD-1]//_/-}}
  case ${{COMP_WORDS[1]}}:${{option/#--/-}} in
{words}  esac
  if [ -n "$choices" ]; then
    COMPREPLY=($(compgen -W "$choices" -- "$current"))
  elif [ "${{current#-}}" != "$current" ]; then
    local plain=${{current//_/-}} dash=
    if [ "${{plain#--}}" != "$plain" ]; then dash=- plain=${{plain#-}}; fi
    COMPREPLY=($(compgen -P "$dash" -W "$options -help" -- "$plain"))
  else
    local IFS=$'\\n'
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}}
complete -o filenames -F _lmtk lmtk
"""


def zsh(commands):
    def quoted(text):
        return re.sub(r"([\[\]:\\])", r"\\\1", text).replace("'", "'\\''")

    def spec(option, sentence, metavar):
        value = f":{quoted(metavar)}:" if metavar else ""
        completion = f"({' '.join(choices(metavar))})" if choices(metavar) else "_files" if metavar in FILES else ""
        return f"'*{option}[{quoted(sentence)}]{value}{completion}'"

    listed = " ".join(f"'{name}:{quoted(COMMANDS[name])}'" for name in commands)
    cases = ""
    for name, rows in commands.items():
        specs = " \\\n      ".join([*(spec(*row) for row in rows), "'*:file:_files'"])
        cases += f"    {name}) _arguments \\\n      {specs} ;;\n"
    return f"""#compdef lmtk
_lmtk() {{
  if (( CURRENT == 2 )); then
    local -a commands=({listed})
    _describe command commands
    return
  fi
  local name=$words[2]
  shift words
  (( CURRENT-- ))
  case $name in
{cases}  esac
}}
compdef _lmtk lmtk
"""


def fish(commands):
    def quoted(text):
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    lines = ["complete -c lmtk -f -n __fish_use_subcommand -a help"]
    lines += [f"complete -c lmtk -f -n __fish_use_subcommand -a {n} -d {quoted(COMMANDS[n])}" for n in commands]
    for name, rows in commands.items():
        within = f"complete -c lmtk -n '__fish_seen_subcommand_from {name}'"
        for option, sentence, metavar in rows:
            completion = (
                f" -x -a '{' '.join(choices(metavar))}'"
                if choices(metavar)
                else " -r -F"
                if metavar in FILES
                else " -x" * bool(metavar)
            )
            lines.append(f"{within} -o {option[1:]} -l {option[1:]}{completion} -d {quoted(sentence)}")
    return "\n".join(lines) + "\n"
