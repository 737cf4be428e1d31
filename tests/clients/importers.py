"""Programs that import kenlm give the same figures with lmtk's module as with KenLM's:

    python importers.py LMTK

LMTK: the command lmtk. Needs lmtk and a module kenlm, such as ufal.kenlm's, in the Python that runs this. The programs
are pyctcdecode, datatrove's perplexity and ESPnet's n-gram scorer; a program that is not installed is left out. `make
decoders` installs the first two. Each program runs in two processes on the same ARPA and KenLM files. In one of them a
file kenlm.py, as lmtk-python(7) describes it, comes first in the path.
"""

import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

FILES = Path(__file__).resolve().parents[1] / "files"
HELD = FILES / "nmt-held.en"
LABELS = ["", " ", *"abcdefghijklmnopqrstuvwxyz"]


def write_files(lmtk, folder):
    """A model of words and of their pieces in the forms that both modules read, and a file kenlm.py."""
    import sentencepiece

    text, arpa, prefix = (FILES / "nmt-train.en").read_text(), folder / "model.arpa", str(folder / "pieces")
    lines = iter(text.splitlines())
    options = {"vocab_size": 200, "hard_vocab_limit": False, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=lines, model_prefix=prefix, **options)
    pieces = sentencepiece.SentencePieceProcessor(model_file=prefix + ".model")
    (folder / "text").write_text(text + "".join(" ".join(x) + "\n" for x in pieces.encode_as_pieces(text.splitlines())))
    options = ["-order", "4", "-wbdiscount", "-gt3min", "1", "-unk", "-prune", "1e-4"]
    subprocess.run([lmtk, "ngram-count", "-text", folder / "text", *options, "-lm", arpa], check=True)
    for kind in ("probing", "trie"):
        subprocess.run([lmtk, "ngram", "-lm", arpa, "-write-kenlm", folder / kind, "-kenlm-type", kind], check=True)
    (folder / "kenlm.py").write_text("from lmtk.kenlm_module import *\n")


def by_pyctcdecode(path, lines):
    import numpy as np
    import pyctcdecode

    words = sorted({word for line in lines for word in line.split()})
    decoder = pyctcdecode.build_ctcdecoder(LABELS, str(path), words)
    random, beams = np.random.default_rng(1), []
    for line in lines:
        rows = random.random((2 * len(line), len(LABELS))) * 2
        rows[range(0, len(rows), 2), [LABELS.index(letter) for letter in line]] += 1.5
        rows[1::2, 0] += 9  # a blank after each letter
        logp = rows - np.log(np.exp(rows).sum(1, keepdims=True))
        beams += [(beam[0], beam[-2], beam[-1]) for beam in decoder.decode_beams(logp, beam_width=20)]
    return beams


def by_datatrove(path, lines):
    """The perplexities of documents with CCNet's normalization and without. datatrove gets local files instead of those
    that it would download.
    """
    from datatrove.utils import perplexity

    folder, fetched = path.parent, {"en.sp.model": "pieces.model", "en.arpa.bin": path.name}
    perplexity.cached_asset_path_or_download = lambda url: str(folder / fetched[url.rsplit("/", 1)[1]])
    model = perplexity.KenlmModel.from_pretrained("local", "en")
    strange = ["Café — «Nº 12»…\tДобрый день! 3,14 \x85", "", "\n\n", "\u3000", "<unk> <s> </s>"]
    texts = [*lines, "\n".join(lines), *strange]
    return [model.get_perplexity(text, normalize) for text in texts for normalize in (True, False)]


def by_espnet(path, lines):
    """The scores of the whole vocabulary and of a few words after each beginning of the lines."""
    import torch
    from espnet.nets.scorers.ngram import NgramFullScorer, NgramPartScorer

    tokens = ["<blank>", "<unk>", *sorted({word for line in lines for word in line.split()}), "<eos>"]
    full, part, scores = NgramFullScorer(str(path), tokens), NgramPartScorer(str(path), tokens), []
    frames = torch.zeros(1, dtype=torch.float64)
    for line in lines:
        ids = torch.tensor([len(tokens) - 1, *map(tokens.index, line.split())])
        states = full.init_state(frames), part.init_state(frames)
        for n in range(1, len(ids) + 1):
            every, after = full.score(ids[:n], states[0], frames)
            partial, after_part = part.score_partial(ids[:n], ids, states[1], frames)
            scores, states = [*scores, every.tolist(), partial.tolist()], (after, after_part)
    return scores


PROGRAMS = {  # name: the module that must be installed, what gives figures
    "pyctcdecode": ("pyctcdecode", by_pyctcdecode),
    "datatrove": ("datatrove", by_datatrove),
    "ESPnet": ("espnet", by_espnet),
}


def figures(name, path):
    """Print what a program computes, and the module that it imported."""
    import kenlm

    lines = HELD.read_text().splitlines()[:20]
    json.dump([kenlm.Model.__module__, PROGRAMS[name][1](path, lines)], sys.stdout)


def figures_of(name, path, first):
    """(the module of the model's class, the figures) in a process of its own, with the folder `first` in the path."""
    paths = [*first, *filter(None, [os.environ.get("PYTHONPATH")])]
    command = [sys.executable, __file__, "-figures", name, path]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))}
    )
    return json.loads(done.stdout)


def main(lmtk):
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(lmtk, folder)
        for program, (module, _) in PROGRAMS.items():
            if not find_spec(module):
                print(f"{program}: not installed, not tried")
                continue
            for model in ("model.arpa", "trie", "probing"):
                theirs, expected = figures_of(program, folder / model, [])
                ours, obtained = figures_of(program, folder / model, [folder])
                assert not theirs.startswith("lmtk") and ours.startswith("lmtk"), (theirs, ours)
                failed += obtained != expected
                verdict = "the same" if obtained == expected else "DIFFERENT"
                print(f"{program} with {model}: {verdict} figures ({len(expected)})", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    if sys.argv[1] == "-figures":
        figures(sys.argv[2], Path(sys.argv[3]))
    else:
        main(sys.argv[1])
