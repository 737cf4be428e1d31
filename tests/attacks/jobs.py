"""Jobs of every kind that writes files, for attacks on the process around them."""

import subprocess
import sys

from helpers import ENVIRONMENT, FILES

TRAINING = "-hidden 8 -features 4 -epochs 12 -minibatch 16 -threads 1 -quiet"
# name: the command; each writes the file "out" and no other
JOBS = {
    "count": "ngram-count -text words -order 3 -sort -write out",
    "count in little memory": "ngram-count -text words words words -order 3 -memory 200K -sort -write out",
    "estimate": "ngram-count -text words -order 3 -wbdiscount -lm out",
    "compressed": "ngram-count -text words -order 3 -wbdiscount -lm out.gz",
    "binary": "ngram -lm lm -write-bin out",
    "prune": "ngram -lm lm -prune 1e-4 -write-lm out",
    "mixture": "ngram -lm lm -mix-lm lm -lambda 0.5 -write-lm out",
    "classes": "ngram-class -text words -numclasses 4 -classes out -quiet",
    "interpolate": "ngram-interp -text words -heldout words -order 2 -lm out",
    "score": "ppl -lm lm -text refs refs refs refs refs refs -debug 2 -write out",
    "vocabulary": "vocab -text words -write out",
    "train": f"nplm-train -text words -heldout en {TRAINING} -lm out",
    "translate": "translate -model nmt -text en -write out",
    "big": "-as make-big-lm -read counts -order 2 -wbdiscount -lm out",
    "lmplz": "-as lmplz -o 3 --skip_symbols --discount_fallback --text words --arpa out",
}


def prepare(folder):
    """The files that jobs read, in a folder, and a folder for temporary files."""
    folder.mkdir(exist_ok=True)
    (folder / "tmp").mkdir()
    links = {"words": "words.txt", "lm": "wb.arpa", "nmt": "nmt.bin", "en": "nmt-held.en", "refs": "refs.txt"}
    for name, file in links.items():
        (folder / name).symlink_to(FILES / file)
    (folder / "counts").write_text("a 3\nb 2\na b 2\nb a 1\n")
    return folder


def start(folder, name, more=(), **how):
    words = [sys.executable, "-m", "lmtk", *JOBS[name].split(), *more]
    environment = ENVIRONMENT | {"TMPDIR": str(folder / "tmp"), "PYTHONPATH": str(FILES.parents[1])}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # older Pythons keep a part of a file when they cannot write it
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(words, cwd=folder, env=environment, text=True, **(pipes | how))


def written(folder):
    """{name: bytes} of the files that jobs have made in a folder, temporary files too."""
    made = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink() and path.name != "counts"]
    return {path.name: path.read_bytes() for path in made}


def told(name, status, err):
    """What is wrong with how a job that could not be done has ended: anything but one line and status 1."""
    program = JOBS[name].split()[1] if JOBS[name].startswith("-as") else f"lmtk {JOBS[name].split()[0]}"
    lines = [line for line in err.splitlines() if ": warning: " not in line]
    if status == 1 and len(lines) == 1 and lines[0].startswith(f"{program}: "):
        return None
    return f"status {status}:\n{err}"
