"""The manual pages, the README and those of the examples as linked HTML: python man/pages.py FOLDER

Needs mandoc, and markdown from the `docs` extra. The index is made of the pages' own names and of what they say they
are.
"""

import html
import re
import subprocess
import sys
from pathlib import Path

import markdown

MAN = Path(__file__).parent
TOP = MAN.parent
STYLE = """body { max-width: 52em; margin: 2em auto; padding: 0 1em; font: 16px/1.5 sans-serif; }
pre, code, .Li, .Fl, .Cm, .Nm, .Pa, .Ev { font-family: monospace; }
pre, .Bd-indent { background: #f4f4f4; padding: .5em 1em; overflow-x: auto; }
table { border-collapse: collapse; } td, th { padding: .15em .8em .15em 0; text-align: left; vertical-align: top; }
.head, .foot { width: 100%; color: #666; } .permalink { color: inherit; text-decoration: none; }
dt { margin-top: .6em; } h1 { font-size: 1.4em; } h2 { font-size: 1.15em; } td:first-child { white-space: nowrap; }
nav { border-bottom: 1px solid #ccc; margin-bottom: 1em; }
"""
NAV = '<nav><a href="{up}index.html">lmtk</a></nav>'


def page(title, body, up=""):
    """A whole page; up: the way to the folder of the index."""
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>\n'
        f'<link rel="stylesheet" href="{up}style.css"></head><body>\n{NAV.format(up=up)}\n{body}\n</body></html>\n'
    )


def manual(source):
    """A manual page as HTML, its references to other pages as links."""
    command = ["mandoc", "-T", "html", "-O", "fragment,man=%N.%S.html", source]
    body = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    ours = {p.name for p in MAN.glob("*.[157]")}
    return re.sub(r'<a class="Xr" href="(\S+?)\.html">(.*?)</a>', lambda m: m[0] if m[1] in ours else m[2], body)


def text(source):
    """A README as HTML; links to other READMEs and to pages lead to their HTML."""
    body = markdown.markdown(source.read_text(), extensions=["tables", "fenced_code"])
    body = re.sub(r'href="([^":]*?)README\.md"', r'href="\1index.html"', body)
    body = re.sub(r'href="man/([^":]*)"', r'href="\1.html"', body)
    return re.sub(r'href="(\w+)\.md"', r'href="\1.html"', body)


def main(out):
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "style.css").write_text(STYLE)
    rows = []
    for source in sorted(MAN.glob("*.[157]"), key=lambda p: (p.suffix, p.name)):
        (out / f"{source.name}.html").write_text(page(source.stem, manual(source)))
        what = re.search(r"^\.Nd (.*)$", source.read_text(), re.MULTILINE)[1]
        rows.append(
            f'<tr><td><a href="{source.name}.html">{source.stem}({source.suffix[1]})</a></td><td>{what}</td></tr>'
        )
    examples = sorted(TOP.glob("examples/*/README.md"))
    for source in examples:
        folder = out / "examples" / source.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "index.html").write_text(page(source.parent.name, text(source), "../../"))
        for file in (*source.parent.glob("*.svg"), source.parent / "Makefile"):
            (folder / file.name).write_bytes(file.read_bytes())
    for name in ("CHANGELOG", "CONTRIBUTING"):
        (out / f"{name}.html").write_text(page(name.title(), text(TOP / f"{name}.md")))
    (out / "LICENSE").write_bytes((TOP / "LICENSE").read_bytes())
    items = "".join(f'<li><a href="examples/{p.parent.name}/index.html">{p.parent.name}</a></li>' for p in examples)
    pages = f"<h2>Manual pages</h2><table>{''.join(rows)}</table>\n<h2>Examples</h2><ul>{items}</ul>"
    index = f"{text(TOP / 'README.md')}\n{pages}"
    (out / "index.html").write_text(page("lmtk", index))


if __name__ == "__main__":
    main(sys.argv[1])
