"""Write the alignment of a translation with its source: as links, as a matrix, as an HTML page or as a picture.

`alignment_writer` opens the files that are wanted and gives a function that writes each alignment to all of them.

alpha (Ty, Tx): the attention weights. A row for each word of the translation and its </s>, a column for each word of
the source and its </s> (equation 6 of Bahdanau et al. 2015; in figure 3 as greys, 0 is black and 1 is white).
"""

import os
from contextlib import ExitStack, contextmanager
from html import escape
from io import BytesIO

import numpy as np

from lmtk.errors import shown
from lmtk.files.figure import figure
from lmtk.files.outputs import open_folder, open_out
from lmtk.text.subwords import joined_numbers, word_numbers
from lmtk.text.vocab import EOS

CELL, WIDEST = 0.25, 100  # inches: the side of a cell (smaller in a large matrix); the longest side of the matrix
BLACK = 0.5 / 255  # the smallest weight that is not drawn black
HEAD = b"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>Alignments</title>
<style>
body { font: 15px/1.3 sans-serif; margin: 2em; color: #222; background: #fff }
section { margin-bottom: 3em; content-visibility: auto; contain-intrinsic-size: auto 30em }
h2 { font-size: 1em; font-weight: normal; color: #666 }
table { border-collapse: collapse }
th { font-weight: normal; text-align: right; padding: 0 .4em; white-space: nowrap }
tr:first-child th { writing-mode: vertical-rl; transform: rotate(180deg); text-align: left; padding: .4em 0 }
td[style] { width: 1.4em; height: 1.4em; padding: 0; background: hsl(0 0% calc(100% * var(--a))) }
td[style]:hover { outline: 2px solid #e60; outline-offset: -2px }
th.on { color: #c40 }
#weight { position: fixed; z-index: 1; padding: .2em .6em; background: #fff; border: 1px solid #888;
  pointer-events: none; white-space: nowrap }
</style>
<p>Columns are the words of the source, rows those of the translation. White: all of the weight; black: none.
Point at a cell to see its weight.</p>
<div id="weight" hidden></div>
"""
FOOT = b"""<script>
const box = document.getElementById("weight");
let marked = [];
document.addEventListener("mouseover", e => {
  const cell = e.target.closest("td[style]");
  marked.forEach(th => th.classList.remove("on"));
  marked = [];
  box.hidden = !cell;
  if (!cell) return;
  marked = [cell.closest("table").rows[0].cells[cell.cellIndex], cell.parentNode.cells[0]];
  marked.forEach(th => th.classList.add("on"));
  const weight = Number(cell.style.getPropertyValue("--a")).toFixed(3);
  box.textContent = `${marked[0].textContent} \\u2192 ${marked[1].textContent}  ${weight}`;
});
document.addEventListener("mousemove", e => {
  box.style.left = Math.min(e.clientX + 16, innerWidth - box.offsetWidth - 8) + "px";
  box.style.top = Math.min(e.clientY + 16, innerHeight - box.offsetHeight - 8) + "px";
});
</script>
</html>
"""


@contextmanager
def alignment_writer(links=None, soft=None, page=None, plots=None, kind="svg", pieces=False):
    """A function write(number, name, source, target, log10p, strongest, alpha) that writes an alignment in all
    wanted formats.

    links, soft, page: paths, or None; plots: the folder of the plots, whose files are called `name`; pieces: whether
    the words are subwords, which only `links` joins to words. source, target: words, bytes; strongest: for each word of
    the target, the place of the source word with the greatest weight; alpha: if None, only links are written.
    """
    with ExitStack() as stack:
        link_out, soft_out, page_out = (path and stack.enter_context(open_out(path)) for path in (links, soft, page))
        if page_out:
            page_out.write(HEAD)
        hidden = plots and stack.enter_context(open_folder(plots))

        def write(number, name, source, target, log10p, strongest, alpha):
            if link_out:
                link_out.write(format_links(source, target, strongest, pieces) + b"\n")
            if alpha is None:
                return
            if soft_out:
                write_matrix(soft_out, number, source, target, log10p, alpha)
            if page_out:
                write_table(page_out, name, source, target, log10p, alpha)
            if plots:
                with open_out(os.path.join(hidden, f"{name}.{kind}")) as out:
                    write_plot(out, kind, source, target, alpha)

        yield write
        if page_out:
            page_out.write(FOOT)


def strongest_links(alpha):
    """For each word of the target, without </s>, the place of the source word with the greatest weight, (Ty - 1,)."""
    return alpha[:-1, :-1].argmax(axis=1).tolist() if alpha.shape[1] > 1 else []


def format_links(source, target, strongest, pieces):
    """The links of all words, "0-0 2-1": source word and target word. A word gets the links of all its pieces.
    strongest: as in `alignment_writer`.
    """
    pairs = [(j, i) for i, j in enumerate(strongest)]
    if pieces:
        x, y = word_numbers(source), joined_numbers(target)
        pairs = dict.fromkeys((x[j], y[i]) for j, i in pairs if y[i] is not None)
    return b" ".join(b"%d-%d" % pair for pair in pairs)


def write_matrix(out, number, source, target, log10p, alpha):
    """Write the format of Nematus.

    It is a line `number ||| target ||| score ||| source ||| Tx Ty`, then a line of Tx weights for each of the Ty words
    of the target with </s>, then an empty line.
    """
    Ty, Tx = alpha.shape
    out.write(b"%d ||| %s ||| %.7g ||| %s ||| %d %d\n" % (number, b" ".join(target), log10p, b" ".join(source), Tx, Ty))
    for row in alpha:
        out.write(" ".join(f"{a:.6g}" for a in row.tolist()).encode() + b"\n")
    out.write(b"\n")


def write_table(out, name, source, target, log10p, alpha):
    """Write a section of the HTML page."""
    head = "".join(f"<th>{escape(shown(word))}" for word in [*source, EOS])
    out.write(f"<section>\n<h2>{name}: log10 p = {log10p:.7g}</h2>\n<table>\n<tr><td>{head}\n".encode())
    for word, row in zip([*target, EOS], alpha, strict=True):
        cells = "".join(f'<td style="--a:{format_weight(a)}">' for a in row.tolist())
        out.write(f"<tr><th>{escape(shown(word))}{cells}\n".encode())
    out.write(b"</table>\n</section>\n")


def format_weight(x):
    """At most three digits after the point, without trailing zeros."""
    return f"{x:.3f}".rstrip("0").rstrip(".")


def write_plot(out, kind, source, target, alpha):
    """Draw figure 3: a matrix of greys, the words of the source above, those of the target on the left."""
    from matplotlib.collections import PolyCollection

    Ty, Tx = alpha.shape
    cell = min(CELL, WIDEST / max(Ty, Tx))
    label = {"size": 72 * cell * 0.55, "parse_math": False}
    picture = BytesIO()
    with figure(picture, kind, ((Tx + 4) * cell, (Ty + 4) * cell)) as drawn:
        axes = drawn.add_subplot()
        # cells and not an image, which many viewers blur; on black ground, so that black ones need not be drawn
        ground = (Tx, Ty) * np.array([(0, 0), (1, 0), (1, 1), (0, 1)]) - 0.5
        t, j = np.nonzero(alpha >= BLACK)
        cells = np.column_stack((j, t))[:, None] + np.array([(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)])
        greys = ["black", *map(str, alpha[t, j].tolist())]
        look = {"lw": 0, "antialiased": False, "clip_on": False, "gid": "cells"}
        axes.add_collection(PolyCollection([ground, *cells], facecolors=greys, **look))
        axes.set(xlim=(-0.5, Tx - 0.5), ylim=(Ty - 0.5, -0.5), aspect="equal")
        axes.xaxis.tick_top()
        axes.set_xticks(range(Tx), [shown(word) for word in [*source, EOS]], rotation=90, **label)
        axes.set_yticks(range(Ty), [shown(word) for word in [*target, EOS]], **label)
        axes.tick_params(length=0)
    out.write(picture.getvalue().replace(b'<g id="cells">', b'<g id="cells" shape-rendering="crispEdges">'))
