"""Other people's scripts for SRILM and KenLM, run by lmtk's programs and, where it is given, by the real ones:

    python run.py REPOSITORIES TEXT [PEERS [NAME ...]]

REPOSITORIES: a folder with checkouts named kaldi, mosesdecoder, i6_core, DeepSpeech, cc_net, wav2letter, fairseq (those
that are not there are passed over). TEXT: one sentence a line, 5,000 lines or more. PEERS: a folder with SRILM's (with
liblbfgs) and KenLM's programs, put in front of the PATH in place of lmtk's; what the scripts write is then compared,
figure by figure. NAME: of the scripts to run, "survey" for the table. Needs bash, perl, awk, no network.

First a table: each script of theirs that calls SRILM's or KenLM's programs, and what it names that lmtk lacks. Then a
line a script: how it ended, and for each file that it writes the greatest difference of a figure.
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

from scripts import SCRIPTS
from survey import table

BIN = Path(__file__).resolve().parents[2] / "bin"
FIGURE = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


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
        "lexicon.words": words[::2],
        "fisher/data/trans/1/a.TXT": [f"0.1 0.2 A: {line}" for line in plain[::3]],
        "fisher/data/trans/1/a.txt": [f"0.1 0.2 A: {line}" for line in plain[::3]],
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
    os.symlink(source, folder / "source")
    os.symlink(programs, folder / "programs")
    os.symlink(Path(__file__).parent, folder / "clients")
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


def difference(ours, theirs):
    """The greatest difference of a figure, relative where it is above 1, and how many n-grams one of them lacks."""
    ours.pop(b"<s>", None), theirs.pop(b"<s>", None)
    worst = 0.0
    for key in ours.keys() & theirs.keys():
        for a, b in zip(ours[key], theirs[key]):
            if a != b and not (math.isinf(a) or math.isinf(b)):
                worst = max(worst, abs(a - b) / max(1, abs(b)))
    return f"{worst:.1g}" + (
        f" ({len(ours.keys() ^ theirs.keys())} entries differ)" if ours.keys() ^ theirs.keys() else ""
    )


def main():
    repositories, text = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    peers = Path(sys.argv[3]).resolve() if len(sys.argv) > 3 else None
    wanted = sys.argv[4:]
    if not wanted or "survey" in wanted:
        for place in sorted({place.split("/")[0] for _, place, _, _ in SCRIPTS}):
            if (repositories / place).is_dir():
                print(f"{place}:", *table(repositories / place, BIN), sep="\n", flush=True)
    texts = text.read_text().splitlines()[:4500]
    failed = 0
    with tempfile.TemporaryDirectory() as top:
        for i, script in enumerate(SCRIPTS):
            name, place, _, files = script
            if wanted and name not in wanted:
                continue
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
                    exist = [x.exists() for x in (a, b)]
                    report += f"; {file} " + (difference(figures(a), figures(b)) if all(exist) else f"exist: {exist}")
            print(report, flush=True)
    sys.exit(failed > 0)


main()
