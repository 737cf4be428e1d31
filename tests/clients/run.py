"""Other people's scripts for SRILM and KenLM, run by lmtk's programs and, where it is given, by the real ones:

    python run.py REPOSITORIES TEXT [PEERS]

REPOSITORIES: a folder with checkouts named kaldi and mosesdecoder (those that are not there are passed over). TEXT: one
sentence a line, 5,000 lines or more. PEERS: a folder with SRILM's and KenLM's programs, put in front of the PATH in
place of lmtk's; what the scripts write is then compared, figure by figure. Needs bash, perl, awk, no network.

A line a script: how it ended, and for each file that it writes the greatest difference of a figure.
"""

import gzip
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BIN = Path(__file__).resolve().parents[2] / "bin"
FIGURE = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
# name, folder of the repository in which it runs, command, files to compare
SCRIPTS = [
    (
        "ami_train_lms.sh",
        "kaldi/egs/ami/s5b",
        "local/ami_train_lms.sh --order 3 text dev lexicon lm",
        "lm/ami.o3g.kn.gz",
    ),
    (
        "swbd1_train_lms.sh",
        "kaldi/egs/fisher_swbd/s5",
        "local/swbd1_train_lms.sh --fisher fisher long lexicon lm",
        "lm/sw1.o3g.kn.gz lm/sw1_fsh_mix.weights lm/sw1_fsh.o3g.kn.gz",
    ),
    (
        "train_lms_srilm.sh",
        "kaldi/egs/babel/s5d",
        "local/train_lms_srilm.sh --oov-symbol '<unk>' --words-file lexicon --train-text text --dev-text dev . lm",
        "lm/perplexities.txt lm/lm.gz lm/4gram.kn0223.gz lm/3gram.gt012.gz",
    ),
    ("heroico prepare_lm.sh", "kaldi/egs/heroico/s5", "local/prepare_lm.sh plain", "data/local/lm/trigram.arpa.gz"),
    (
        "mandarin_mix_lm.sh",
        "kaldi/egs/mandarin_bn_bc/s5",
        "for i in 1 2; do mkdir -p $i; sed -n ${i}~2p plain | "
        "ngram-count -order 4 -unk -kndiscount -interpolate -text - -lm $i/srilm.o4g.kn.gz; done; "
        "mkdir d; cp dev-plain d/text; "
        "bash local/mandarin_mix_lm.sh --oov-sym '<UNK>' --prune-thres 1e-7 1 2 mix d",
        "mix/best-mix.ppl mix/srilm.o4g.kn.gz",
    ),
    (
        "format_lm_sri.sh",
        "kaldi/egs/wsj/s5",
        "ngram-count -order 3 -kndiscount -interpolate -text plain -lm lm.gz; head -n 900 lexicon > lang/words.txt; "
        "printf '#!/bin/sh\\ncat > G.arpa\\n' > arpa2fst; chmod +x arpa2fst; "
        "printf '#!/bin/sh\\n' > fstisstochastic; chmod +x fstisstochastic; export PATH=$PWD:$PATH; "
        "bash utils/format_lm_sri.sh --srilm-opts '-subset -prune-lowprobs -unk -tolower' lang lm.gz out",
        "G.arpa",
    ),
    (
        "interpolate-lm.perl",
        "mosesdecoder/scripts/ems/support",
        "for i in 1 2 3; do sed -n ${i}~3p plain | ngram-count -order 5 -unk -kndiscount -interpolate -text - "
        "-lm $i.lm; done; perl local/interpolate-lm.perl --tuning dev-plain --name mixed --lm 1.lm,2.lm,3.lm "
        "--srilm $(dirname $(command -v ngram)) --tempdir .",
        "mixed",
    ),
    (
        "train_arpa_with_kenlm.sh's lines",
        "kaldi/egs/wsj/s5",
        "lmplz --order 4 --prune 0 0 1 --limit_vocab_file <(cut -d' ' -f1 lexicon) --interpolate_unigrams "
        "< plain > 4.arpa; "
        "build_binary trie 4.arpa 4.bin; query -v summary 4.bin < dev-plain > ppl",
        "4.arpa ppl",
    ),
]


def layout(folder, texts):
    """The files that the scripts read: plain texts, texts behind the names of utterances, a lexicon."""
    plain, dev = texts[:-500], texts[-500:]
    words = sorted({w for line in plain for w in line.split()})
    named = lambda lines: [f"utt{i:06d} {line}" for i, line in enumerate(lines)]
    ami = lambda lines: [f"a b c d e {line}" for line in lines]
    files = {
        "plain": plain,
        "dev-plain": dev,
        "text": named(plain) if "ami" not in folder.name else ami(plain),
        "dev": named(dev) if "ami" not in folder.name else ami(dev),
        "long": [*named(plain) * 2, *named(plain)][: 10000 + len(plain)],
        "lexicon": [f"{w} x y" for w in words],
        "fisher/data/trans/1/a.TXT": [f"0.1 0.2 A: {line}" for line in plain[::3]],
        "lang/words.txt": words,
    }
    for name, lines in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")


def run(script, repositories, texts, folder, programs):
    """The script in a folder of its own; (status, last lines of what it said)."""
    _, place, command, _ = script
    folder.mkdir(parents=True)
    source = repositories / place
    local = source / "local" if (source / "local").is_dir() else source
    shutil.copytree(local, folder / "local", symlinks=False, ignore_dangling_symlinks=True, dirs_exist_ok=True)
    utils = repositories / "kaldi/egs/wsj/s5/utils"
    if utils.is_dir():
        shutil.copytree(utils, folder / "utils", ignore_dangling_symlinks=True)
    layout(folder, texts)
    for setting in ("path.sh", "cmd.sh"):
        (folder / setting).write_text("")
    env = {**os.environ, "LC_ALL": "C"}
    env["PATH"] = os.pathsep.join([str(programs), str(folder / "utils"), str(folder / "local"), env["PATH"]])
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=env, capture_output=True, stdin=subprocess.DEVNULL)
    return done.returncode, done.stderr.decode(errors="replace").strip().splitlines()[-3:]


def figures(path):
    """What a file says: the figures of an ARPA file by n-gram, of others in turn."""
    text = path.read_bytes()
    text = gzip.decompress(text) if text[:2] == b"\x1f\x8b" else text
    if b"\\data\\" in text:
        rows = (line.split(b"\t") for line in text.splitlines())
        return {row[1]: [float(row[0]), float(row[2]) if len(row) > 2 else 0.0] for row in rows if len(row) > 1}
    return {
        i: [float(x) for x in FIGURE.findall(line)]
        for i, line in enumerate(text.splitlines())
        if b"reading" not in line
    }


def difference(mine, theirs):
    """The greatest difference of a figure, relative where it is above 1, and how many n-grams one of them lacks."""
    mine.pop(b"<s>", None), theirs.pop(b"<s>", None)
    worst = 0.0
    for key in mine.keys() & theirs.keys():
        for a, b in zip(mine[key], theirs[key]):
            if a != b and not (math.isinf(a) or math.isinf(b)):
                worst = max(worst, abs(a - b) / max(1, abs(b)))
    return f"{worst:.1g}" + (
        f" ({len(mine.keys() ^ theirs.keys())} entries differ)" if mine.keys() ^ theirs.keys() else ""
    )


def main():
    repositories, text = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    peers = Path(sys.argv[3]).resolve() if len(sys.argv) > 3 else None
    texts = text.read_text().splitlines()[:4500]
    failed = 0
    with tempfile.TemporaryDirectory() as top:
        for i, script in enumerate(SCRIPTS):
            name, place, _, files = script
            if not (repositories / place).is_dir():
                print(f"{name}: no {place}, passed over")
                continue
            kind = "ami" if "ami" in name else "other"
            status, said = run(script, repositories, texts, Path(top, f"{i}-mine-{kind}"), BIN)
            report = f"{name}: status {status}"
            failed += status != 0
            if status:
                report += f": {' | '.join(said)}"
            if peers:
                theirs, _ = run(script, repositories, texts, Path(top, f"{i}-peer-{kind}"), peers)
                report += f", theirs {theirs}"
                for file in files.split():
                    a, b = (Path(top, f"{i}-{who}-{kind}", file) for who in ("mine", "peer"))
                    there = [x.exists() for x in (a, b)]
                    report += f"; {file} " + (difference(figures(a), figures(b)) if all(there) else f"there: {there}")
            print(report, flush=True)
    sys.exit(failed > 0)


main()
