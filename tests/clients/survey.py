"""What shell and Perl scripts call of SRILM's and KenLM's, and what of it lmtk's programs lack."""

import re
import subprocess
from pathlib import Path

PROGRAMS = re.findall(
    r"\S+",
    """ngram ngram-count ngram-class ngram-merge make-batch-counts merge-batch-counts make-big-lm change-lm-vocab
    compute-best-mix get-unigram-probs remove-lowprob-ngrams reverse-lm replace-words-with-classes select-vocab lmplz
    build_binary add-dummy-bows sort-lm make-sub-lm disambig hidden-ngram lattice-tool nbest-optimize nbest-lattice
    add-ppls uniform-classes""",
)
# a name where a command may stand, perhaps in a folder, and what follows; not "which NAME" and the like
CALL = re.compile(
    r"(?:(?m:^)|[|;&(`\"'{=]|\btime|\bnice|\\|\.log)\s*(?:[\w$./{}-]*/)?("
    + "|".join(PROGRAMS)
    + r")[\"']?(?=\s|$)([^|;&`\n]*)"
)
FOUND = re.compile(r"^\s*(\w+)=[`$(\"]*(?:which|command -v)\s+([\w-]+)", re.M)
SETTING = re.compile(r"^\s*(\w+)=([\"'])([^\"'\n]*)\2", re.M)
REFUSED = re.compile(r"no option|no maximum-entropy|unrecognized arguments|not recognized|-as: no program")


def calls(text):
    """{(program, option or nothing)} that a script names."""
    text = re.sub(r"\\\n", " ", re.sub(r"(?m)(^|\s)#.*$", r"\1", text))
    for name, _, value in SETTING.findall(text):
        if re.match(r"\s*-\w", value):
            text = re.sub(rf"\$\{{?{name}\b\}}?", lambda _, value=value: value, text)
    for name, program in FOUND.findall(text):
        text = re.sub(rf"\$\{{?{name}\b\}}?(?= +-)", program, text)
    text = re.sub(r"[<$]\([^()\n]*\)", " ", text)
    programs = set()
    for program, rest in CALL.findall(text):
        words = re.findall(r"(?<![^\s\"'])--?[A-Za-z][\w-]*", rest)
        if words or program in ("compute-best-mix", "build_binary", "change-lm-vocab"):
            programs |= {(program, ""), *((program, word) for word in words)}
    return programs


def lacks(folder, program, option):
    """Whether the program of the folder says that there is no such option, or is not there itself."""
    path = Path(folder, program)
    if not path.exists() or not option:
        return not path.exists()
    needed = ["-o", "3"] if program == "lmplz" else []
    said = subprocess.run([path, *needed, option], stdin=subprocess.DEVNULL, capture_output=True).stderr
    return bool(REFUSED.search(said.decode(errors="replace")))


def table(top, folder):
    """The lines of the table: each script under `top` that calls one of the programs, and what it finds lacking in the
    folder; and what that is in all.
    """
    lacking, rows, missing = {}, [], {}
    for path in sorted(Path(top).rglob("*")):
        if path.is_symlink() or not path.is_file() or path.suffix not in ("", ".sh", ".pl", ".perl", ".conf"):
            continue
        text = path.read_bytes()
        if b"\0" in text or not any(program.encode() in text for program in PROGRAMS):
            continue
        programs = calls(text.decode(errors="replace"))
        for call in programs - lacking.keys():
            lacking[call] = lacks(folder, *call)
        if programs:
            gone = sorted(" ".join(call).strip() for call in programs if lacking[call])
            rows.append(f"{path.relative_to(top)}: " + (f"lacks {', '.join(gone)}" if gone else "all there"))
            for name in gone:
                missing[name] = missing.get(name, 0) + 1
    whole = sum(row.endswith("all there") for row in rows)
    rows.append(f"{len(rows)} scripts, {len(lacking)} programs and options of theirs; {whole} scripts find all of them")
    return rows + [f"  {name}: lacking in {n}" for name, n in sorted(missing.items(), key=lambda x: (-x[1], x[0]))]
