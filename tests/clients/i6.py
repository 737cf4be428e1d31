"""i6_core's jobs for SRILM, one behind the other in this folder, without the workflow manager that they are for:

python i6.py SRILM.PY TEXT HELDOUT WORDS
"""

import os
import shutil
import sys
import types
from pathlib import Path


class Job:
    def output_path(self, name, cached=False):
        return File(f"{name}.out")

    def output_var(self, name):
        return Variable(name)


class File:
    def __init__(self, name):
        self.name = name

    def get_path(self):
        return self.name

    get_cached_path = __str__ = get_path


class Variable:
    def __init__(self, name):
        self.name = name

    def set(self, value):
        self.value = value

    def get(self):
        return self.value


def executable(name, lines):
    Path(name).write_text("#!/bin/bash\nset -e\n" + "".join(lines))
    os.chmod(name, 0o755)


def run(folder, job, *steps):
    """The job's steps in a folder."""
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    for step in steps:
        getattr(job, step)()
    os.chdir("..")
    return job


sisyphus, util = types.ModuleType("sisyphus"), types.ModuleType("i6_core.util")
sisyphus.Job, sisyphus.Task = Job, object
sisyphus.tk = types.SimpleNamespace(Path=File, Variable=Variable)
util.create_executable, util.relink = executable, shutil.copy
sys.modules |= {"sisyphus": sisyphus, "i6_core": types.ModuleType("i6_core"), "i6_core.util": util}
jobs = types.ModuleType("jobs")
exec(Path(sys.argv[1]).read_text(), vars(jobs))
text, heldout, words = (File(os.path.abspath(name)) for name in sys.argv[2:])
program = {name: File(shutil.which(name)) for name in ("ngram-count", "ngram", "compute-best-mix")}
count, ngram = program["ngram-count"], program["ngram"]

run("count", jobs.CountNgramsJob(4, text, count, extra_count_args=["-unk", "-sort"]), "create_files", "run")
counts, mode = File(os.path.abspath("count/counts")), jobs.ComputeNgramLmJob.DataMode
run("count", jobs.DiscountNgramsJob(4, counts, count, vocab=words), "create_files", "run")
discounts, more = File(os.path.abspath("count/discounts")), ["-kndiscount", "-interpolate", "-sort"]
build = jobs.ComputeNgramLmJob
run(
    "a",
    build(4, counts, mode.COUNT, count, vocab=words, discounts=discounts, extra_ngram_args=more),
    "create_files",
    "run",
)
run("b", build(3, heldout, mode.TEXT, count, extra_ngram_args=["-wbdiscount", "-sort"]), "create_files", "run")
models, logs, said = [File(os.path.abspath(f"{x}/ngram.lm")) for x in "ab"], [], []
for i, model in enumerate(models):
    job = jobs.ComputeNgramLmPerplexityJob(4, model, heldout, ngram, extra_ppl_args="-debug 2")
    run(f"ppl{i}", job, "create_files", "run", "get_ppl")
    said += [job.out_ppl_score.get(), job.out_num_sentences.get(), job.out_num_words.get()]
    logs.append(File(os.path.abspath(f"ppl{i}/ppl.log")))
mix = run("mix", jobs.ComputeBestMixJob(logs, program["compute-best-mix"]), "run")
said += [weight.get() for weight in mix.out_weights]
run("mixed", jobs.InterpolateNgramLmJob(models, mix.out_weights, 4, ngram), "run")
shutil.copy("mixed/interpolated.txt.gz.out", "mixed.gz")
run("pruned", jobs.PruneLMWithHelperLMJob(4, models[0], 1e-6, models[1], ngram), "create_files", "run")
Path("variables").write_text("".join(f"{x}\n" for x in said))
