"""lmtk -compile: fills the cache of compiled kernels by running small jobs of every kind as if they were large ones.

The jobs are commands, and a function for the kernels that only Python uses. They run in stages: the jobs of a stage run
side by side, and need only files that earlier stages have written.
"""

import os
import random
import sys
import tempfile
import time
from contextlib import chdir, suppress


def score_from_python():
    """Scores by the methods of `lmtk.api`. No command uses some of their kernels."""
    from lmtk.api import FEW, Model, State

    for path in ("wb.bin", "lstm.bin"):
        model, state = Model(path), State()
        model.BeginSentenceWrite(state)
        for _ in range(2 * FEW):
            model.BaseScore(state, "w1", state)
        model.BaseFullScore(state, "w1", state)
        model.score("w1 w2"), model.score_many(["w1 w2"] * FEW), list(model.full_scores("w1 w2"))
        model.scores(model.advance(model.states(2), [0, 1]))


PAUSE = 15  # seconds between two lines about the progress
NMT_TRAIN = (
    "nmt-train -source text -target text -heldout-source heldout -heldout-target heldout -hidden 8 -embedding 8"
    " -maxout 8 -alignment 8 -epochs 1 -quiet"
)
STAGES = [
    [
        "ngram-count -text text -order 4 -lm katz.arpa -write counts -write-vocab words",
        "ngram-count -text text -order 4 -kndiscount -interpolate -write-bin kn.bin -lm kn.arpa",
        "ngram-count -text text -order 3 -kenlm -layout kenlm -discount-fallback -memory 1K -lm kenlm.arpa",
        "ngram-count -text text -order 3 -wbdiscount -memory 1K -write-bin buckets.bin",
        "ngram-count -text text -order 3 -wbdiscount -unk -sort -lm wb.arpa -write-bin wb.bin",
        "ngram-count -text text -order 3 -kenlm -discount-fallback -write-kenlm text.trie -kenlm-type trie",
        "ngram-count -text text -order 3 -kndiscount -interpolate -prune-kneser 1e-5 -lm kneser.arpa",
        "ngram-count -text text -order 3 -kndiscount -interpolate -prune-kneser 1e-5 -write-bin kneser.bin",
        "ngram-count -text text -order 3 -kenlm -discount-fallback -limit-vocab-file word-list -lm closed.arpa",
        "ngram-class -text text -numclasses 5 -classes classes -threads 2",
        "ngram-class -text text -numclasses 5 -incremental -classes other-classes",
        "ngram-interp -text text -heldout heldout -lm interp.lm",
        "index -text text -write text.index",
        "nplm-train -text text -heldout heldout -hidden 8 -features 8 -epochs 1 -objective sampled -lm nplm.bin -quiet",
        "nplm-train -text text -hidden 8 -features 8 -epochs 1 -objective full -minibatch 1 -threads 2 -lm m -quiet",
        "nplm-train -text text -model lstm -hidden 8 -features 8 -tied -dropout 0.1 -epochs 1 -lm lstm.bin -quiet",
        "nplm-train -text text -model gru -hidden 8 -features 8 -epochs 1 -lm gru.bin -quiet",
        "nplm-train -text text -model rnn -hidden 8 -features 8 -epochs 1 -lm rnn.bin -quiet",
        "nplm-train -text text -model energy -hidden 8 -features 8 -epochs 1 -lm energy.bin -quiet",
        "nplm-train -text text -model energy -target-weights -hidden 8 -features 8 -epochs 1 -lm each.bin -quiet",
        "nplm-train -text text -hidden 8 -features 8 -epochs 1 -objective class -lm class.bin -quiet",
        "nplm-train -text text -hidden 8 -features 8 -epochs 1 -objective tree -lm tree.bin -quiet",
        f"{NMT_TRAIN} -average 0.5 -model nmt.bin",
        f"{NMT_TRAIN} -unit lstm -paper -model lstm-nmt.bin",
        "rescore -nbest lists -tune heldout -write-weights weights",
    ],
    [
        "ngram -lm kn.arpa -prune 1e-3 -write-bin pruned.bin",
        "ngram -lm kn.bin -prune 1e-3 -write-lm pruned.arpa",
        "ngram -lm kn.bin -prune 1e-3 -prune-history-lm katz.arpa -write-lm history.arpa",
        "ngram -lm kn.arpa -prune-lowprobs -closed -write-lm lowprobs.arpa",
        "ngram -lm wb.arpa -renorm -mix-lm katz.arpa -lambda 0.5 -write-lm mixed.arpa",
        "ngram -lm kn.bin -vocab words -limit-vocab -write-lm limited.arpa",
        "ngram -lm katz.arpa -write-kenlm probing.bin",
        "ngram -lm katz.arpa -write-kenlm trie.bin -kenlm-type trie",
        "ngram -lm katz.arpa -ppl text -gen 10",
        "ngram-count -read counts -order 4 -sort -write sorted",
        "ngram-count -read counts -order 4 -float-counts -wbdiscount -lm float.arpa",
        "ngram-count -text text -classes classes -order 3 -wbdiscount -lm of-classes.arpa",
        *(f"ppl -lm {m} -text text" for m in ("kn.bin", "kn.arpa", "nplm.bin", "lstm.bin", "class.bin", "tree.bin")),
        *(f"ppl -lm {m} -text text" for m in ("interp.lm", "energy.bin", "gru.bin", "rnn.bin")),
        "ppl -lm lstm.bin -text heldout -dynamic -cache 10",
        "ppl -lm wb.bin -text text -format kenlm",
        "ppl -lm wb.bin -text text -format kenlm -debug 2",
        "ppl -lm wb.arpa -text text -format kenlm -debug 1",
        "ppl -lm wb.bin -text text -debug 2",
        "ppl -lm wb.bin -text text -normalize ccnet",
        "ppl -lm wb.bin -jsonl documents -normalize ccnet -add perplexity -write scored",
        "mix -lm wb.bin nplm.bin -heldout heldout -unk -write mixture.lm",
        "next -lm wb.bin -text heldout",
        "count-of -index text.index -text heldout",
        "fst -lm katz.arpa -disambig #0 -remove-redundant -write binary.fst",
        "fst -lm katz.arpa -disambig #0 -write-symbols symbols -text -write text.fst",
        "select -text text -lm wb.bin wb.arpa -keep 10 -write selected",
        "translate -model nmt.bin -text heldout -beam 4 -write /dev/null",
        "-as build_binary -q 8 trie katz.arpa quantized.bin",
        "-as disambig -text heldout -map map -lm katz.arpa",
        "-as filter single model:katz.arpa filtered.arpa",
    ],
    ["ppl -lm probing.bin -text text", score_from_python],
]


def write_texts():
    """A text of random words, whose counts give every kind of discount, and other inputs made from it: a held-out text,
    documents, n-best lists, a list of words, and a map of words to hidden words.
    """
    generator = random.Random(1)
    words = [f"w{int(generator.paretovariate(0.6))}" for _ in range(20_000)]
    lines = [" ".join(words[i : i + generator.randint(1, 12)]) for i in range(0, 19_000, 9)]
    documents = [f'{{"text": "{line}"}}' for line in lines]
    lists = [
        f"{i} ||| {line} ||| length= {length} ||| -{length}" for i, line in enumerate(lines[:40]) for length in (1, 2)
    ]
    word_list = sorted(set(words))[:100]
    inputs = {
        "text": lines, "heldout": lines[:40], "documents": documents, "lists": lists, "word-list": word_list,
        "map": [f"{word} {word} w1" for word in word_list],
    }  # fmt: skip
    for path, content in inputs.items():
        with open(path, "w") as out:
            out.write("\n".join(content) + "\n")


def start(job, run):
    """Starts a job, which is a command line or a function, in a child process. Returns the id of the process. run:
    `cli.carry_out`.
    """
    child = os.fork()
    if child:
        return child
    status = 1
    with suppress(BaseException):
        from lmtk.commands import options
        from lmtk.files import container
        from lmtk.machine import large

        for kind in large.LARGE:
            large.LARGE[kind] = 1
        container.LARGE = options.LEAST = 1
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        if callable(job):
            job()
        else:
            run(job.split())
        large.learn()
        status = 0
    os._exit(status)


def precompile(run):
    """Runs all jobs, and prints how long they took. run: as in `start`. Returns the exit status."""
    from lmtk.machine import kernel_cache
    from lmtk.machine.threads import thread_count

    _, folder = kernel_cache.folder()
    if folder is None:
        message = "no folder for compiled kernels can be written; set NUMBA_CACHE_DIR to a folder"
        sys.stderr.write(f"lmtk: {kernel_cache.refused() or message}\n")
        return 1
    begin, failed, done, total = time.monotonic(), [], 0, sum(map(len, STAGES))
    printed = begin  # when the last line was printed
    with tempfile.TemporaryDirectory() as work, chdir(work):
        write_texts()
        for stage in STAGES:
            waiting, running = list(stage), {}
            while waiting or running:
                while waiting and len(running) < thread_count():
                    job = waiting.pop(0)
                    running[start(job, run)] = job
                child, status = os.wait()
                job = running.pop(child)
                failed += [job] if status else []
                done += 1
                if time.monotonic() > printed + PAUSE:
                    printed = time.monotonic()
                    print(f"compiled the kernels of {done} of {total} jobs", flush=True)
    for job in failed:
        name = f"lmtk {job}" if isinstance(job, str) else job.__name__
        sys.stderr.write(f"lmtk: this job failed, so its kernels may not be compiled: {name}\n")
    print(f"compiled in {time.monotonic() - begin:.0f} s; kept in {folder}")
    return 1 if failed else 0
