"""Documents a second, on one core, beside datatrove's get_perplexity: CCNet's normalization, SentencePiece pieces and a
5-gram. Both sides get the same documents and models, and their perplexities are compared.

The bound of lmtk is random reads of memory, one or two an order and piece; reading JSON and looking up words take about
as long together. datatrove needs its package and KenLM's module (the package ufal-kenlm); where they are missing,
lmtk's figures stand alone. Rounds take turns, the figures are medians of processor time, and the first round is left
out, since it compiles kernels.

A second table has the wall time of lmtk ppl on all cores, with its start and the reading of its files. Beside it stand
two calls in a Python program that has everything in memory: SentencePiece's encode and lmtk's score_many. The bound of
the command is its start, about 0.13 s, and half of the processor time of its work.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ORDER = 5
THEIRS = """
import json, sys, time
import kenlm, sentencepiece
from datatrove.utils.perplexity import KenlmModel, SentencePiece
model, tokenizer = KenlmModel("", ""), SentencePiece("", "")
model._model, model._tokenizer = kenlm.Model("kenlm"), tokenizer
tokenizer._model = sentencepiece.SentencePieceProcessor(model_file="sp.model")
begun = time.process_time()
with open("docs.jsonl") as documents, open("theirs", "w") as out:
    for line in documents:
        document = json.loads(line)
        document["perplexity"] = model.get_perplexity(document["text"])
        out.write(json.dumps(document) + "\\n")
print(time.process_time() - begun)
"""
OURS = """
import time
import lmtk
model = lmtk.load("binary")
how = {"normalize": "ccnet", "tokenizer": "sp.model", "add": ["perplexity"]}
begun = time.process_time()
lmtk.score_documents(model, "docs.jsonl", write="ours", **how)
print(time.process_time() - begun)
"""
CALLS = """
import json, time
import lmtk, sentencepiece
model = lmtk.load("binary")
encode = sentencepiece.SentencePieceProcessor(model_file="sp.model").encode
with open("docs.jsonl") as documents:
    texts = [json.loads(line)["text"] for line in documents]
model.score_many(["a"])
begun = time.perf_counter()
pieces = [" ".join(line) for line in encode(texts, out_type=str)]
encoded = time.perf_counter()
model.score_many(pieces)
print(encoded - begun, time.perf_counter() - encoded)
"""
COMMANDS = {
    "ppl -jsonl": "-jsonl docs.jsonl -add perplexity -write scored",
    "ppl -text": "-text docs.jsonl -field text -write report",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-text", help="a text: the first half trains the models; else random words")
    parser.add_argument("-tokens", type=int, default=2_000_000, help="words to draw")
    parser.add_argument("-lines", type=int, default=25, help="lines of a document")
    parser.add_argument("-pieces", type=int, default=8000, help="pieces of the SentencePiece model")
    parser.add_argument("-rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        number = prepare(options, folder)
        sides = {"lmtk": OURS, "datatrove": THEIRS}
        seconds = {name: [] for name in sides}
        for _ in range(options.rounds + 1):
            for name, code in sides.items():
                if (spent := run(code, folder)) is not None:
                    seconds[name].append(spent)
        rates = {name: number / statistics.median(spent[1:]) for name, spent in seconds.items() if spent}
        print(f"{options.text or 'random words'}: {number} documents, order {ORDER}, one core")
        for name, rate in rates.items():
            print(f"{name:10} {rate:10.0f} documents/s {rate / rates.get('datatrove', rate):6.2f} times datatrove")
        if "datatrove" in rates:
            print(f"largest difference of a perplexity: {largest_difference(folder):.3f}")
        else:
            print("datatrove or kenlm is missing: no comparison")
        walls = [walls_of_commands(folder) for _ in range(options.rounds + 1)][1:]
        for name in walls[0]:
            print(f"{name:20} {statistics.median(wall[name] for wall in walls):6.2f} s of wall time")


def prepare(options, folder):
    """Makes the models and the documents of a benchmark in a folder. Returns the number of documents."""
    import api
    import sentencepiece

    train, held = api.halves(options.text or api.draw(os.path.join(folder, "text"), options.tokens), folder)
    how = {"vocab_size": options.pieces, "hard_vocab_limit": False, "minloglevel": 9, "max_sentence_length": 1 << 20}
    model = os.path.join(folder, "sp")
    sentencepiece.SentencePieceTrainer.train(input=train, input_sentence_size=100_000, model_prefix=model, **how)
    encode = sentencepiece.SentencePieceProcessor(model_file=model + ".model").encode
    with open(train) as lines, open(os.path.join(folder, "pieces"), "w") as out:
        out.writelines(" ".join(encode(line, out_type=str)) + "\n" for line in lines)
    how = [
        "-order",
        str(ORDER),
        "-kenlm",
        "-discount-fallback",
        "default",
        "-write-bin",
        "binary",
        "-write-kenlm",
        "kenlm",
    ]
    line = [sys.executable, "-m", "lmtk", "ngram-count", "-text", "pieces", *how]
    subprocess.run(line, cwd=folder, check=True, stderr=subprocess.DEVNULL)
    with open(held) as text:
        rows = [line.rstrip("\n") for line in text]
    texts = ["\n".join(rows[i : i + options.lines]) for i in range(0, len(rows), options.lines)]
    with open(os.path.join(folder, "docs.jsonl"), "w") as out:
        out.writelines(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(texts))
    return len(texts)


def run(code, folder):
    """The seconds of processor time that the code prints, run on one core; None if a package is missing."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode and "ModuleNotFoundError" not in done.stderr:
        raise SystemExit(done.stderr)
    return None if done.returncode else float(done.stdout)


def walls_of_commands(folder):
    """{name: seconds of wall time} of each of the COMMANDS and of the CALLS."""
    walls = {}
    for name, words in COMMANDS.items():
        line = [sys.executable, "-m", "lmtk", "ppl", "-lm", "binary", "-tokenizer", "sp.model", *words.split()]
        begun = time.perf_counter()
        subprocess.run(line, cwd=folder, check=True)
        walls[name] = time.perf_counter() - begun
    done = subprocess.run([sys.executable, "-c", CALLS], cwd=folder, capture_output=True, text=True, check=True)
    walls["encode"], walls["score_many"] = map(float, done.stdout.split())
    return walls


def largest_difference(folder):
    columns = []
    for name in ("ours", "theirs"):
        with open(os.path.join(folder, name)) as lines:
            columns.append([json.loads(line)["perplexity"] for line in lines])
    return max(abs(ours - theirs) for ours, theirs in zip(*columns, strict=True) if ours is not None)


if __name__ == "__main__":
    main()
