"""The commands that the README shows run, one after the other, on small texts."""

import re
import subprocess

import pytest
from helpers import TESTS

TOP = TESTS.parent
README = (TOP / "README.md").read_text()
TABLE = re.findall(r"^\| [^|]+ \| `(lmtk .*?|python3 .*?)` \|", README, re.MULTILINE)
SHOWN = re.findall(r"^    \$ (lmtk .*)$", README, re.MULTILINE)
TEXTS = """
python3 TOP/examples/1-quickstart/prose.py > all.txt
head -n 1000 all.txt > raw.txt
lmtk normalize -tokenize -tolower -text raw.txt -write normal.txt
awk 'NR % 5 != 0' normal.txt > train.txt
awk 'NR % 10 == 5' normal.txt > valid.txt
awk 'NR % 10 == 0' normal.txt > test.txt
python3 TOP/examples/3-translate/pairs.py 45 1 > pairs.tsv
head -n 40 pairs.tsv | cut -f 1 > train.en
head -n 40 pairs.tsv | cut -f 2 > train.fr
tail -n 5 pairs.tsv | cut -f 1 > dev.en
tail -n 5 pairs.tsv | cut -f 2 > dev.fr
lmtk ngram-count -text train.fr -wbdiscount -lm fr.arpa
python3 -c 'import json; [print(json.dumps({"text": line.strip()})) for line in open("train.txt")]' > docs.jsonl
cp TOP/tests/files/sp.model .
cp train.txt pool.txt
lmtk vocab -text test.txt -write words.txt
lmtk ngram-count -text test.txt -vocab words.txt -unk -wbdiscount -lm domain.arpa
lmtk ngram-count -text valid.txt -vocab words.txt -unk -wbdiscount -lm general.arpa
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory, forked):
    """A function that runs commands in a folder with the texts, and returns what they print."""
    folder = tmp_path_factory.mktemp("readme")

    def run(commands):
        done = subprocess.run(["sh", "-euc", commands], cwd=folder, env=forked, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    run(TEXTS.replace("TOP", str(TOP)))
    return run


def test_the_first_result(run):
    """The text differs between versions of Python, so the form of the report is checked and not its figures."""
    assert len(SHOWN) == 2
    shape = r"file test.txt: \d+ sentences, \d+ words, \d+ OOVs\n0 zeroprobs, logprob= \S+ ppl= \S+ ppl1= \S+\n"
    assert re.fullmatch(shape, run("\n".join(SHOWN)))
    assert re.search(shape, re.sub("^    ", "", README, flags=re.MULTILINE))


def test_the_commands_of_the_table(run):
    assert len(TABLE) >= 14
    for command in TABLE:
        run(command)


def test_long_sentences_of_the_grammar(run):
    """Sentences of up to 60 words: always the same ones, none twice, with equally many words on both sides."""
    made = run(f"python3 {TOP}/examples/3-translate/pairs.py 500 1 60")
    assert made == run(f"python3 {TOP}/examples/3-translate/pairs.py 500 1 60")
    pairs = [line.split("\t") for line in made.splitlines()]
    assert len({source for source, _ in pairs}) == 500
    lengths = [len(source.split()) for source, _ in pairs]
    assert lengths == [len(target.split()) for _, target in pairs]
    assert min(lengths) == 6 and 55 < max(lengths) <= 60


def test_pages_stay_short():
    """The most lines of a page that a newcomer reads."""
    most = {"README.md": 200, "CHANGELOG.md": 60} | dict.fromkeys((TOP / "examples").glob("*/README.md"), 80)
    assert not [page for page, lines in most.items() if len((TOP / page).read_text().splitlines()) > lines]
