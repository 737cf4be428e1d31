"""Every command has a page, every option stands in it, and the pages are clean."""

import re
import runpy
import shutil
import subprocess
import sys

import pytest
from helpers import TESTS

from lmtk.commands import COMMANDS

MAN = TESTS.parent / "man"
NUMBER = r"\d+(?:\.\d+)?(?:e-\d+)?"
PAGES = sorted(p for p in MAN.iterdir() if p.suffix in (".1", ".5", ".7"))


made = runpy.run_path(MAN / "options.py")
parameters = made["parameters"]


def options(name):
    """The names of a command's options, without the dash."""
    return [p.opts[0][1:] for p in parameters(name)]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_stands_in_the_page(name):
    page = (MAN / f"lmtk-{name}.1").read_text()
    described = set(re.findall(r"^\.It Fl (\S+)", page, re.MULTILINE))
    assert described >= set(options(name)), "options that the page lacks"
    assert described <= {*options(name), "help"} | {o.replace("N", "1") for o in options(name)}, "options that are none"


@pytest.mark.parametrize("name", COMMANDS)
def test_what_options_take_is_as_their_records_have_it(name):
    """`python man/options.py` writes it."""
    page = (MAN / f"lmtk-{name}.1").read_text()
    assert made["with_heads"](page, parameters(name)) == page


@pytest.mark.parametrize("name", COMMANDS)
def test_defaults_are_the_same_in_the_page(name):
    """The numbers in an option's help are those in what the page says of its default; only a formula has more."""
    items = re.split(r"^\.It Fl ", (MAN / f"lmtk-{name}.1").read_text(), flags=re.MULTILINE)[1:]
    messages = {item.split()[0]: re.search(r"^Default: (.*?)\.$", item, re.MULTILINE | re.DOTALL) for item in items}
    for option in parameters(name):
        stated = re.search(r"\(default: (.*?)\)", option.help or "")
        in_help = stated[1] if stated else str(option.default) if type(option.default) in (int, float) else ""
        if in_page := messages.get(option.opts[0][1:]):
            actual = set(re.findall(NUMBER, in_page[1].replace(" million", "000000")))
            expected, is_formula = set(re.findall(NUMBER, in_help)), "sqrt" in in_page[1]
            assert expected == actual or not in_help or (is_formula and expected < actual), option.opts


@pytest.mark.parametrize("name", COMMANDS)
def test_the_overview_lists_every_command(name):
    assert f".Xr lmtk-{name} 1" in (MAN / "lmtk.1").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_pages_are_clean(page):
    if not shutil.which("mandoc"):
        pytest.skip("mandoc is not installed; it checks the manual pages")
    done = subprocess.run(["mandoc", "-T", "lint", page.name], cwd=MAN, capture_output=True, text=True)
    assert done.stdout + done.stderr == ""


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_cross_references_exist(page):
    ours = {(p.stem, p.suffix[1:]) for p in PAGES}
    for name, section in re.findall(r"^\.Xr (\S+) (\d)", page.read_text(), re.MULTILINE):
        assert not name.startswith("lmtk") or (name, section) in ours, f"{name}({section})"


def test_docs_are_linked(tmp_path):
    """`make docs`: every link between the HTML pages leads to a page, and every link to a section to this section."""
    if not shutil.which("mandoc"):
        pytest.skip("mandoc is not installed; it makes the pages")
    subprocess.run([sys.executable, MAN / "pages.py", tmp_path], check=True)
    pages = sorted(tmp_path.rglob("*.html"))
    assert len(pages) > len(PAGES)
    ids = {page: set(re.findall(r' id="([^"]+)"', page.read_text())) for page in pages}
    for page in pages:
        for link, section in re.findall(r'(?:href|src)="(?!https?:)([^"#]*)#?([^"]*)"', page.read_text()):
            target = (page.parent / link).resolve() if link else page
            assert target.exists(), f"{page.relative_to(tmp_path)}: {link}"
            assert not section or section in ids[target], f"{page.relative_to(tmp_path)}: {link}#{section}"


TEXTS = [*TESTS.parent.glob("*.md"), *MAN.glob("*.md"), *TESTS.parent.glob("examples/*/README.md")]


@pytest.mark.parametrize("text", TEXTS, ids=lambda p: str(p.relative_to(TESTS.parent)))
def test_links_in_the_repository_lead_to_files(text):
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", text.read_text()):
        assert (text.parent / link).exists(), link


def test_the_functions_of_the_equations_exist():
    """ "Where the equations are" names a file and a function for each equation, and a plain twin in naive.py."""
    table = re.findall(
        r"\| `(lmtk/\S+)` \| `(\w+)` \| (?:`(\w+)` )?\|$", (MAN / "equations.md").read_text(), re.MULTILINE
    )
    assert len(table) > 35
    page = (MAN / "lmtk-nplm.7").read_text()
    rows = re.findall(r"^\.It .* Ta (nplm/\S+): (\w+) Ta ?(\w*)$", page, re.MULTILINE)
    assert len(rows) > 15
    defined = lambda path: set(re.findall(r"^(?:def|class) (\w+)", path.read_text(), re.MULTILINE))
    for file, function, plain in table + [(f"lmtk/{file}", *names) for file, *names in rows]:
        assert function in defined(MAN.parent / file), (file, function)
        assert not plain or plain in defined(TESTS / "naive.py"), plain
