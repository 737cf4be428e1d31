"""Alignments for programs and for eyes."""

import io
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from helpers import FILES, in_process

from lmtk.nmt import alignment

SOURCE = [b"the", b"<b>&amp;", b'"$x_1$"', b"\xff"]
TARGET = ["été".encode(), b"l'<script>"]
ALPHA = np.array([[0.1, 0.2, 0.3, 0.15, 0.25], [0, 1, 0, 0, 0], [0.0004, 0.9996, 0, 0, 0]], np.float32)
WRITE = (7, "7-1", SOURCE, TARGET, -1.5, [2, 1], ALPHA)


def test_links_leave_out_both_ends():
    assert alignment.strongest_links(ALPHA) == [2, 1]
    assert alignment.strongest_links(ALPHA[:, :1]) == []


def test_a_matrix_is_read_as_its_readers_do(tmp_path):
    with alignment.alignment_writer(soft=str(tmp_path / "soft")) as write:
        write(0, "0", [], [], 0.0, [], None)
        write(*WRITE)
        write(*WRITE)
    parts = (tmp_path / "soft").read_bytes().split(b"\n\n")
    assert len(parts) == 3 and parts[2] == b""
    head, _, matrix = parts[0].partition(b"\n")
    number, target, score, source, sizes = head.split(b" ||| ")
    assert (number, target.split(), score, source.split(), sizes) == (b"7", TARGET, b"-1.5", SOURCE, b"5 3")
    assert np.loadtxt(io.BytesIO(matrix)) == pytest.approx(ALPHA, abs=1e-6)


class Page(HTMLParser):
    """What a page holds: the text of its cells, the weights, and every address in it."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self.weights, self.addresses = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            if name in ("src", "href"):
                self.addresses.append(value)
            if name == "style":
                self.weights.append(float(value.removeprefix("--a:")))
        if tag == "th":
            self.words.append("")

    def handle_data(self, data):
        if self.tags[-1:] == ["th"]:
            self.words[-1] += data.rstrip("\n")


def test_a_page_is_whole_and_alone(tmp_path):
    path = tmp_path / "page"
    with alignment.alignment_writer(page=str(path)) as write:
        write(0, "0", [], [], 0.0, [], None)
        write(*WRITE)
    text = path.read_text()
    page = Page(text)
    assert page.words == ["the", "<b>&amp;", '"$x_1$"', "\\xff", "</s>", "été", "l'<script>", "</s>"]
    assert page.weights == pytest.approx(ALPHA.ravel(), abs=5e-4)
    assert page.tags.count("script") == 1 and page.tags.count("section") == 1
    assert not page.addresses and "://" not in text


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_a_plot_shows_the_words(tmp_path, kind):
    pytest.importorskip("matplotlib")
    for folder in ("a", "b"):
        with alignment.alignment_writer(plots=str(tmp_path / folder), kind=kind) as write:
            write(*WRITE)
    actual = (tmp_path / "a" / f"7-1.{kind}").read_bytes()
    assert actual == (tmp_path / "b" / f"7-1.{kind}").read_bytes()
    if kind == "svg":
        assert all(
            word in actual for word in (b"&lt;b&gt;&amp;amp;", b'"$x_1$"', b"\\xff", "été".encode(), b"&lt;/s&gt;")
        )
        # cells of their own, black ones aside, with sharp edges; no image that a viewer may blur
        cells = re.search(rb'<g id="cells" shape-rendering="crispEdges">(.*?)</g>', actual, re.DOTALL)[1]
        assert cells.count(b"<path") == 1 + (WRITE[-1] >= alignment.BLACK).sum() and b"<image" not in actual
    else:
        assert actual.startswith(b"\x89PNG")


def test_the_plot_of_a_long_sentence_has_a_bounded_size(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(alignment, "WIDEST", 2)
    with alignment.alignment_writer(plots=str(tmp_path)) as write:
        write(0, "0", [b"a"] * 39, [b"b"], 0.0, [], np.full((2, 40), 1 / 40, np.float32))
    head = (tmp_path / "0.svg").read_text().partition("viewBox")[0]
    assert float(head.partition('width="')[2].partition("pt")[0]) < 3 * 72


def test_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    words = ["translate", "-model", FILES / "nmt.bin", "-text", FILES / "nmt-held.en", "-align-plot", "p"]
    message = "lmtk translate: -align-plot needs the package matplotlib; pip install matplotlib\n"
    assert in_process(tmp_path, *words) == (2, b"", message)
    assert not (tmp_path / "p").exists()


def test_weights_are_written_shortly():
    assert [alignment.format_weight(x) for x in (0.0, 1.0, 0.12345, 0.9996, 0.5)] == ["0", "1", "0.123", "1", "0.5"]
