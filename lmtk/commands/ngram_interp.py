from lmtk.commands.options import option, shared, takes
from lmtk.jobs.interpolating import InterpolateJob, interpolate
from lmtk.jobs.rules import build, check, wrong

OPTIONS = {
    "Data": {
        "read": option("Training counts.", "FILE"),
        **shared("text heldout vocab unk map_unk no_sos no_eos stream tolower field tokenizer encode normalize"),
        "float_counts": option("Read counts that are not whole numbers."),
    },
    "Output": {
        "lm": option("Output file for the model, as text (-: stdout).", "FILE"),
        "write_bin": option("Output file for the model, in binary form.", "FILE"),
        **shared("debug"),
    },
    "Model": shared("order"),
    "Training": shared("iterations tolerance"),
}
RULES = (wrong(lambda job: not (job.lm or job.write_bin), "nothing to write: give -lm or -write-bin"),)


@takes(InterpolateJob, OPTIONS)
def command(**options):
    """Estimate the deleted-interpolation model of Jelinek and Mercer. Its relative frequencies come from training
    counts; EM on held-out text learns weights for each bin of context frequency.

    -debug 1 prints the held-out perplexity of each iteration, and the weights of each bin.

    Example: lmtk ngram-interp -read train.counts -heldout valid.txt -unk -lm interp.lm
    """
    job = build(InterpolateJob, options)
    check(job, RULES)
    interpolate(job)
