"""Decoders that contain KenLM's library read the files that lmtk writes:

    python decoders.py LMTK

LMTK: the command lmtk. Needs ufal.kenlm, flashlight-text, ctc-beam-decoder and pyctcdecode (`make decoders` installs
them). Each of them reads the same models as ARPA and as KenLM files of lmtk. The scores and decodings of the ARPA files
are the expected ones; the four kinds of file must give exactly these.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import ctc_beam_decoder
import kenlm
import numpy as np
import pyctcdecode
from flashlight.lib.text.decoder.kenlm import KenLM
from flashlight.lib.text.dictionary import Dictionary

FILES = Path(__file__).resolve().parents[1] / "files"
KINDS = [("probing",), ("trie",), ("trie", "-compact")]
LABELS = ["", " ", *"abcdefghijklmnopqrstuvwxyz"]


def write_models(lmtk, folder):
    """Two models, one of which lacks suffixes: [(ARPA file, [its KenLM files])]."""
    text, models = FILES / "nmt-train.en", []
    subprocess.run(
        [lmtk, "ngram-count", "-text", text, "-order", "4", "-wbdiscount", "-gt3min", "1", "-lm", folder / "a.arpa"],
        check=True,
    )
    subprocess.run(
        [lmtk, "ngram", "-lm", folder / "a.arpa", "-prune", "1e-3", "-write-lm", folder / "b.arpa"], check=True
    )
    for arpa in (folder / "a.arpa", folder / "b.arpa"):
        binaries = []
        for kind in KINDS:
            binaries.append(arpa.with_suffix("." + "".join(kind)))
            words = ["-write-kenlm", binaries[-1], "-kenlm-type", *kind]
            subprocess.run([lmtk, "ngram", "-lm", arpa, *words], check=True)
        models.append((arpa, binaries))
    return models


def by_kenlm(path, lines):
    model = kenlm.Model(str(path))
    return [list(model.full_scores(line)) for line in lines]


def by_flashlight(path, lines):
    words = Dictionary()
    for word in {word for line in lines for word in line.split()}:
        words.add_entry(word)
    model, scores = KenLM(str(path), words), []
    for line in lines:
        state = model.start(False)
        for word in line.split():
            state, score = model.score(state, words.get_index(word))
            scores.append(score)
        scores.append(model.finish(state)[1])
    return scores


def frames(line):
    """Log probabilities of LABELS (T, 28) from which the letters of a line cannot be read without a language model."""
    random, rows = np.random.default_rng(1), []
    for letter in line:
        row = random.random(len(LABELS)) * 2
        row[LABELS.index(letter)] += 1.5
        rows += [row, np.eye(1, len(LABELS))[0] * 5]  # a blank after each letter
    rows = np.array(rows)
    return (rows - np.log(np.exp(rows).sum(1, keepdims=True))).astype(np.float32)


def decoded_by(module):
    def decode(path, lines):
        words = sorted({word for line in lines for word in line.split()})
        decoder = module.build_ctcdecoder(LABELS, str(path), words)
        return [decoder.decode(frames(line)) for line in lines]

    return decode


READERS = {
    "ufal.kenlm": by_kenlm,
    "flashlight-text": by_flashlight,
    "pyctcdecode": decoded_by(pyctcdecode),
    "ctc-beam-decoder": decoded_by(ctc_beam_decoder),
}


def main(lmtk):
    lines, failed = (FILES / "nmt-held.en").read_text().splitlines()[:20], 0
    with tempfile.TemporaryDirectory() as folder:
        for arpa, binaries in write_models(lmtk, Path(folder)):
            for name, read in READERS.items():
                expected = read(arpa, lines)
                same = [read(path, lines) == expected for path in binaries]
                failed += not all(same)
                print(f"{name:20} {arpa.name}: {'same' if all(same) else 'DIFFERENT ' + str(same)}", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main(sys.argv[1])
