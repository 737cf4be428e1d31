"""FSTs of lmtk beside those of kaldilm, and in OpenFst's readers:

    python transducers.py LMTK

LMTK: the command lmtk. Needs kaldilm, kaldifst and pynini (`make decoders` installs them). For ten models, with and
without a back-off symbol, the text form must have kaldilm's lines and the binary form its bytes, but for the signs of
zeros. kaldifst and pynini read the binary form. Paths must have the weights that lmtk ppl gives their sentences.
"""

import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import kaldifst
import kaldilm
import pynini

FILES = Path(__file__).resolve().parents[1] / "files"
TEXT = FILES / "nmt-train.en"
MODELS = {  # name: the options of ngram-count
    "1-gram": ["-order", "1", "-wbdiscount"],
    "2-gram": ["-order", "2", "-wbdiscount"],
    "3-gram": ["-order", "3", "-wbdiscount", "-gt3min", "1"],
    "4-gram": ["-order", "4", "-wbdiscount"],
    "5-gram": ["-order", "5", "-wbdiscount", "-unk", "-gt2min", "2"],
    "pruned": ["-order", "4", "-wbdiscount", "-prune", "1e-4"],
    "kenlm": ["-order", "4", "-kenlm", "-layout", "kenlm", "-discount-fallback", "0.5", "1", "1.5"],
}


def run(lmtk, *words):
    return subprocess.run([lmtk, *map(str, words)], check=True, capture_output=True, text=True).stdout


def write_symbols(arpa, path, every=1):
    """The words of an ARPA file and their numbers; without each word whose place is a multiple of `every` if that is
    above 1.
    """
    section = arpa.read_text().split("\\1-grams:")[1].split("\n\\")[0]
    words = sorted(line.split()[1] for line in section.splitlines() if line.strip())
    kept = [w for i, w in enumerate(words) if w in ("<s>", "</s>") or every == 1 or i % every]
    path.write_text("".join(f"{w} {i}\n" for i, w in enumerate(["<eps>", *kept, "#0"])))
    return path


def same_as_kaldilm(lmtk, arpa, symbols, folder, max_order=-1):
    for disambig in ("#0", ""):
        ours, theirs = folder / "ours.fst", folder / "theirs.fst"
        expected = kaldilm.arpa2fst(
            str(arpa),
            str(theirs),
            disambig_symbol=disambig,
            read_symbol_table=str(symbols),
            max_order=max_order,
            max_arpa_warnings=0,
        )
        options = ["--max-arpa-warnings=0", f"--read-symbol-table={symbols}", f"--max-order={max_order}"]
        options += [f"--disambig-symbol={disambig}"] if disambig else []
        text = run(lmtk, "-as", "kaldilm", *options, arpa, ours)
        assert text == expected + "\n", f"{arpa.name}: the text form differs from kaldilm's"
        zero = [data.replace(b"\0\0\0\x80", bytes(4)) for data in (ours.read_bytes(), theirs.read_bytes())]
        assert zero[0] == zero[1], f"{arpa.name}: the binary form differs from kaldilm's"
        if max_order == -1:
            words = ["fst", "-lm", arpa, "-symbols", symbols, *(["-disambig", disambig] if disambig else []), "-text"]
            assert run(lmtk, *words) == text.strip() + "\n"
        fst = pynini.Fst.read(str(ours))
        assert fst.verify() and fst.num_states() == kaldifst.StdVectorFst.read(str(ours)).num_states


def followed(fst, numbers):
    """The weight of the path with these labels that takes a back-off arc only where no other arc has the label."""
    state, total = fst.start(), 0.0
    for number in numbers:
        while True:
            arcs = {arc.ilabel: arc for arc in fst.arcs(state)}
            arc = arcs.get(number, arcs.get(0))
            state, total = arc.nextstate, total + float(arc.weight)
            if arc.ilabel:
                break
    while math.isinf(float(fst.final(state))):
        arc = next(arc for arc in fst.arcs(state) if arc.ilabel == 0)
        state, total = arc.nextstate, total + float(arc.weight)
    return total + float(fst.final(state))


def best(fst, numbers):
    """The weight of the best path with these labels; it may back off where it need not."""
    chain = pynini.Fst()
    state = chain.add_state()
    chain.set_start(state)
    for number in numbers:
        after = chain.add_state()
        chain.add_arc(state, pynini.Arc(number, number, 0, after))
        state = after
    chain.set_final(state, 0)
    paths = pynini.compose(chain, fst)
    return float(pynini.shortestdistance(paths, reverse=True)[paths.start()])


def compare_paths(lmtk, arpa, symbols, folder):
    """(the number of random sentences, the largest relative difference between the weights of their paths and -ln p,
    how many of these paths are the best ones).
    """
    run(lmtk, "fst", "-lm", arpa, "-symbols", symbols, "-disambig", "<eps>", "-write", folder / "eps.fst")
    fst, sentences = pynini.Fst.read(str(folder / "eps.fst")), run(lmtk, "ngram", "-lm", arpa, "-gen", "1000")
    (folder / "lines").write_text(sentences)
    lines, table = sentences.splitlines(), dict(line.split() for line in symbols.read_text().splitlines())
    report = run(lmtk, "ppl", "-lm", arpa, "-text", folder / "lines", "-debug", "1")
    scores = [float(x) for x in re.findall(r"logprob= (\S+)", report)][: len(lines)]
    worst, optimal = 0.0, 0
    for line, score in zip(lines, scores, strict=True):
        numbers = [int(table[word]) for word in line.split()]
        weight, least = followed(fst, numbers), best(fst, numbers)
        assert least < weight * (1 + 1e-5)
        worst, optimal = max(worst, abs(weight / (-score * math.log(10)) - 1)), optimal + (least > weight * (1 - 1e-5))
    return len(lines), worst, optimal


def main(lmtk):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for model, options in MODELS.items():
            arpa = folder / f"{model}.arpa"
            run(lmtk, "ngram-count", "-text", TEXT, *options, "-lm", arpa)
            same_as_kaldilm(lmtk, arpa, write_symbols(arpa, folder / f"{model}.words"), folder)
        small, kenlm, words = FILES / "small.arpa", folder / "kenlm.arpa", folder / "kenlm.words"
        same_as_kaldilm(lmtk, small, FILES / "small.words", folder)
        same_as_kaldilm(lmtk, kenlm, write_symbols(kenlm, folder / "fewer.words", 3), folder)
        same_as_kaldilm(lmtk, kenlm, words, folder, 2)
        print(f"{len(MODELS) + 3} models: the FSTs are kaldilm's, and kaldifst and pynini read them")
        sentences, worst, optimal = compare_paths(lmtk, kenlm, words, folder)
        assert worst < 1e-5
        print(f"{sentences} sentences: the paths have the weights of lmtk ppl, within {worst:.1e}; {optimal} are best")


if __name__ == "__main__":
    main(sys.argv[1])
