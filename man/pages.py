"""The README, the manual pages and the READMEs of the examples as linked HTML: python man/pages.py FOLDER

Needs mandoc, and markdown from the `docs` extra. The README is the front page. Every page has the same list of all
pages, grouped by task: beside the text, or below the text on a narrow screen.
"""

import html
import os
import re
import subprocess
import sys
from pathlib import Path

import markdown

MAN = Path(__file__).resolve().parent
TOP = MAN.parent
# manual pages by task; a page that is missing here comes last, under "Other"
TASKS = {
    "Start": ["lmtk.1", "lmtk-python.7", "lmtk-programs.1"],
    "Prepare text": ["lmtk-text.7", "lmtk-normalize.1", "lmtk-vocab.1", "lmtk-select.1"],
    "Count and estimate": ["lmtk-ngram-count.1", "lmtk-ngram-interp.1", "lmtk-ngram-class.1"],
    "Find phrases": ["lmtk-index.1", "lmtk-count-of.1"],
    "Prune, merge, convert": ["lmtk-ngram.1", "lmtk-fst.1"],
    "Score text": ["lmtk-ppl.1", "lmtk-surprisal.1", "lmtk-next.1", "lmtk-sample.1", "lmtk-rescore.1"],
    "Mix models": ["lmtk-mix.1"],
    "Neural models": ["lmtk-nplm-train.1", "lmtk-features.1", "lmtk-nplm.7"],
    "Translate": ["lmtk-nmt-train.1", "lmtk-translate.1", "lmtk-nmt.7"],
    "Files": [
        *("lmtk-info.1", "lmtk-counts.5", "lmtk-classes.5", "lmtk-interp.5"),
        *("lmtk-mixture.5", "lmtk-model.5"),
    ],
}
# other pages: file, source, title
TEXTS = [
    ("index.html", "README.md", "lmtk"),
    ("papers.html", "man/papers.md", "The papers, table by table"),
    ("equations.html", "man/equations.md", "Where the equations are"),
    ("CHANGELOG.html", "CHANGELOG.md", "Changes"),
    ("CONTRIBUTING.html", "CONTRIBUTING.md", "Contributing"),
]
STYLE = """:root { color-scheme: light dark; --faint: #8884; --soft: #8882; }
body { margin: 0 auto; max-width: 78rem; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; }
header { display: flex; flex-wrap: wrap; gap: 0 1.2rem; padding: .6rem 0; border-bottom: 1px solid var(--faint); }
header a:first-child { font-weight: bold; }
.columns { display: grid; grid-template-columns: minmax(0, 1fr) 15rem; gap: 0 2.5rem; }
nav { font-size: .9rem; border-left: 1px solid var(--faint); padding: 1rem 0 1rem 1.2rem; }
nav h2 { font-size: 1em; margin: .8em 0 .1em; } nav ul { list-style: none; margin: 0; padding: 0; }
[aria-current] { font-weight: bold; text-decoration: none; color: inherit; }
h1 { font-size: 1.6em; } h2 { font-size: 1.25em; } h1.Sh { font-size: 1.25em; } h2.Ss { font-size: 1.05em; }
code, pre, .Li, .Fl, .Cm, .Nm, .Pa, .Ev, .Ar { font-family: ui-monospace, monospace; font-size: .92em; }
pre code, pre .Li { font-size: 1em; } .Fl, .Cm, .Pa { white-space: nowrap; }
.Ar { font-style: italic; } table.Nm { font-size: 1em; }
pre { background: var(--soft); padding: .6em .8em; overflow-x: auto; font-size: .82rem; line-height: 1.4; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
main table { font-size: .92em; } td, th { padding: .2em .8em .2em 0; text-align: left; vertical-align: top; }
tr + tr td, tbody td { border-top: 1px solid var(--faint); } .head td, .foot td, .Nm td { border: 0; }
.head, .foot { display: table; width: 100%; color: #888; } .head-vol, .foot-date { text-align: center; }
.head-rtitle, .foot-os { text-align: right; } .permalink { color: inherit; text-decoration: none; }
img { max-width: 100%; height: auto; background: #fff; } dt { margin-top: .6em; } dd { margin-left: 1.6em; }
main { min-width: 0; padding-bottom: 2rem; overflow-wrap: break-word; } p code { overflow-wrap: anywhere; }
@media (max-width: 50rem) { .columns { display: block; } .head { display: none; } dd, .Bd-indent { margin-left: 1em; }
  nav { border: 0; border-top: 1px solid var(--faint); padding: 0; } td, th { padding-right: .5em; } }
@media (min-width: 50rem) { nav { position: sticky; top: 0; max-height: 100vh; overflow-y: auto; } }
"""


def manuals():
    return sorted(MAN.glob("*.[157]"))


def examples():
    return sorted(TOP.glob("examples/*/README.md"))


def label(source):
    """What links call a manual page: lmtk-ppl(1)."""
    return f"{source.stem}({source.suffix[1]})"


def groups():
    """The list of all pages: for each task its pages, each a file, a title and a description."""
    pages = {p.name: p for p in manuals()}
    listed = {name for names in TASKS.values() for name in names}
    tasks = TASKS | {"Other": [name for name in pages if name not in listed]}
    summary = {n: re.search(r"^\.Nd (.*)$", p.read_text(), re.MULTILINE)[1] for n, p in pages.items()}
    yield from ((task, [(f"{n}.html", label(pages[n]), summary[n]) for n in names]) for task, names in tasks.items())
    titles = [re.search("^# (.*)$", source.read_text(), re.MULTILINE)[1] for source in examples()]
    yield "Examples", [(f"examples/{p.parent.name}/index.html", title, "") for p, title in zip(examples(), titles)]
    yield "More", [(file, title, "") for file, _, title in TEXTS[1:]]


def page(file, title, body):
    """A whole page. file: its place below the folder of all pages."""
    up = "../" * file.count("/")

    def item(target, name, summary):
        current = ' aria-current="page"' if target == file else ""
        return f'<li><a href="{up}{target}" title="{html.escape(summary)}"{current}>{html.escape(name)}</a></li>'

    lists = [f"<h2>{t}</h2><ul>{''.join(item(*p) for p in pages)}</ul>" for t, pages in groups() if pages]
    bar = [("index.html", "lmtk"), ("lmtk.1.html", "Manual"), ("lmtk-python.7.html", "Python")]
    bar += [("equations.html", "Equations"), ("CHANGELOG.html", "Changes"), ("pages.html", "All pages")]
    links = "\n".join(f'<a href="{up}{target}">{name}</a>' for target, name in bar)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="stylesheet" href="{up}style.css"></head><body>\n'
        f'<header>{links}</header>\n<div class="columns"><main>\n{body}\n</main>\n'
        f"<nav>{''.join(lists)}</nav></div></body></html>\n"
    )


def overview():
    """The list of all pages with what they say they are."""
    rows = [(t, *p) for t, pages in groups() for p in pages]
    lines = [
        f'<tr><td>{t}</td><td><a href="{file}">{name}</a></td><td>{summary}</td></tr>'
        for t, file, name, summary in rows
    ]
    return f"<h1>All pages</h1>\n<table>{''.join(lines)}</table>"


def manual(source):
    """A manual page as HTML, its references to other pages as links."""
    command = ["mandoc", "-T", "html", "-O", "fragment,man=%N.%S.html", source]
    body = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    # mandoc writes "_" for "-" in links to sections, but not in the sections' ids
    ids = {name.replace("-", "_"): name for name in re.findall(r' id="([^"]+)"', body)}
    body = re.sub(r'(?<=class="Sx" href="#)[^"]+', lambda m: ids.get(m[0], m[0]), body)
    ours = {p.name for p in manuals()}
    return re.sub(r'<a class="Xr" href="(\S+?)\.html">(.*?)</a>', lambda m: m[0] if m[1] in ours else m[2], body)


def place(source):
    """Where a file of the repository lies below the folder of all pages: as HTML, or unchanged such as a picture."""
    path = source.relative_to(TOP)
    for file, other, _ in TEXTS:
        if str(path) == other:
            return file
    if path.parent.name == "man":
        return f"{path.name}.html"
    return str(path.with_name("index.html") if path.name == "README.md" else path)


def text(source):
    """A Markdown file as HTML; its links to Markdown files and manual pages lead to their HTML."""
    body = markdown.markdown(source.read_text(), extensions=["tables", "fenced_code"])
    folder = Path(place(source)).parent

    def link(match):
        return os.path.relpath(place((source.parent / match[0]).resolve()), folder)

    return re.sub(r'(?<=href=")[^":#]+', link, body)


def main(out):
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "style.css").write_text(STYLE)
    (out / "LICENSE").write_bytes((TOP / "LICENSE").read_bytes())
    for source in manuals():
        file = f"{source.name}.html"
        (out / file).write_text(page(file, label(source), manual(source)))
    (out / "pages.html").write_text(page("pages.html", "All pages", overview()))
    for file, source, title in TEXTS:
        (out / file).write_text(page(file, title, text(TOP / source)))
    for source in examples():
        folder = out / "examples" / source.parent.name
        for other in ("Makefile", *re.findall(r"\]\(([^):]+\.svg)\)", source.read_text())):
            (folder / other).parent.mkdir(parents=True, exist_ok=True)
            (folder / other).write_bytes((source.parent / other).read_bytes())
        file = f"examples/{source.parent.name}/index.html"
        (out / file).write_text(page(file, source.parent.name, text(source)))


if __name__ == "__main__":
    main(sys.argv[1])
