from lmtk.commands.options import bytes_of, made, option, shared, takes, tell_memory
from lmtk.jobs.estimating import EstimateJob, estimate
from lmtk.jobs.smoothing import fallback_discounts

OPTIONS = {
    "Data": {
        **shared("text"),
        "text_has_weights": option("A line of -text begins with how often its n-grams count."),
        "text_has_weights_last": option("A line of -text ends with that number."),
        **shared("vocab"),
        "limit_vocab": option("Drop read n-grams with words that are not in -vocab."),
        "nonevents": option("Words that occur in contexts only and are never predicted.", "FILE"),
        **shared("classes"),
        "class_lm": option("The class model: it names -classes and -lm or -write-bin, or else is one file.", "FILE"),
        "unk": option("The model predicts <unk>, the words that are not in -vocab."),
        **shared("map_unk tolower no_sos no_eos stream"),
        "limit_vocab_file": option("-kenlm: leave out n-grams with words not in this list.", "FILE"),
    },
    "Counts": {
        "read": option("Counts to read and add (several).", "FILE"),
        "write_n": option("Write the n-grams of order N alone: -write1 FILE ...", "FILE"),
        "write_order": option("Write the n-grams of order N alone by -write (0: all).", "N", low=0),
        "recompute": option("Count n-grams as often as those that go on from them."),
        "sort": option("Write n-grams in byte order, else as first seen."),
        "float_counts": option("Read counts that are not whole numbers."),
        "read_with_mincounts": option("Drop read n-grams counted less than -gtNmin."),
    },
    "Model": shared("order"),
    "Output": {
        **shared("write"),
        "write_vocab": option("Write the words, in byte order.", "FILE"),
        "lm": option("The back-off model to write, as ARPA.", "FILE"),
        "write_bin": option("The back-off model to write in binary form.", "FILE"),
        "write_binary_lm": option("Write -lm in binary form, as SRILM has it.", type=bool, default=False),
        **shared("compact quantize"),
        "prune": option("Drop n-grams whose loss raises perplexity by less than the share X.", "X", low=0),
        "minprune": option("Prune n-grams of N words or more.", "N", low=2),
        **shared("debug"),
    },
    "Smoothing": {
        "gtmin": option("Leave out n-grams counted less, orders above 9.", "C", low=0),
        "gtmin_n": option("Leave out n-grams counted less [1, 1, then 2].", "C"),
        "gtmax": option("Good-Turing up to this count, orders above 9.", "C", low=0),
        "gtmax_n": option("Good-Turing up to this count [1, then 7].", "C"),
        "gt": option("Good-Turing coefficients, read with -lm, else written.", "FILE"),
        "kn_all": option("The same as -knN for all orders without a method.", "FILE"),
        "kn_counts_modified": option("Counts below the highest order are those of words before an n-gram."),
        "kn_modify_counts_at_end": option("Estimate discounts from counts as they are, then modify them."),
        "kn": option("Kneser-Ney discounts, read with -lm, else written.", "FILE"),
        "ndiscount": option("Natural discounting (Ristad)."),
        "ndiscount_n": option("The same for order N alone."),
        "wbdiscount": option("Witten-Bell smoothing."),
        "wbdiscount_n": option("The same for order N alone."),
        "cdiscount": option("Absolute discounting by D.", "D", low=0, high=1),
        "cdiscount_n": option("The same for order N alone.", "D", low=0, high=1),
        "addsmooth": option("D added to each count.", "D", low=0),
        "addsmooth_n": option("The same for order N alone.", "D"),
        "ukndiscount": option("The original Kneser-Ney smoothing."),
        "ukndiscount_n": option("The same for order N alone."),
        "kndiscount": option("Modified Kneser-Ney smoothing (Chen and Goodman)."),
        "kndiscount_n": option("The same for order N alone."),
        "interpolate": option("Add lower orders in."),
        "interpolate_n": option("The same for order N alone."),
        "discount_fallback": option(
            "Kneser-Ney's D1 D2 D3+ where the counts give none.", "[D ...]", parse=fallback_discounts
        ),
        "heldout": option("Tune Kneser-Ney's discounts on this text.", "FILE"),
        "maxent": option("A maximum-entropy model of all n-grams, as SRILM estimates it."),
        "maxent_alpha": option("-maxent: A times the sum of |weight| is made small.", "A", low=0),
        "maxent_sigma2": option("-maxent: variance of the weights' Gaussian prior.", "S", low=0),
        "trust_totals": option("A context is seen as often as its own count says."),
    },
    "KenLM": {
        "prune_by_count": option("Leave out n-grams seen K times or less; a K an order.", "K", low=0),
        "kenlm": option("As KenLM's lmplz: interpolated modified Kneser-Ney with <unk>."),
        "interpolate_unigrams": option("-kenlm: with 0 all that the words leave is <unk>'s.", "0|1", low=0, high=1),
        "vocab_pad": option("-kenlm: <unk> is one of the words that lack to N words.", "N", low=0),
        "verbose_header": option("-kenlm: say on the first lines of -lm what it was made of."),
        "kenlm_layout": option("-kenlm: write -lm with lmplz's lines and digits."),
        "open_end": option("-kenlm: a last line without a line end has no </s>."),
        "skip_symbols": option("-kenlm: <s>, </s> and <unk> in -text are not words."),
    },
    "Parallel": {
        "memory": option("Work in about this much memory, the rest on disk: 500M, 4G.", "SIZE", parse=bytes_of),
        **shared("memuse"),
        "mpi": option("Share the work among the ranks of mpiexec."),
    },
}
OUTPUTS = "write", "write_n", "write_vocab", "lm", "write_bin", "class_lm", "gt", "kn", "kn_all"


@takes(EstimateJob, OPTIONS)
def command(memuse, **options):
    """Count the n-grams of texts; add, sort and limit counts; estimate a back-off model from them.

    Without a method Good-Turing smoothing (Katz) is used, as in SRILM; n-grams of order 3 and above that are counted
    once are left out, as in SRILM (-gt3min 1 keeps them).

    \b
    Example: lmtk ngram-count -text train.txt -order 3 -kndiscount -interpolate -lm train.lm
    """
    if not any(options[name] for name in OUTPUTS):
        options["write"] = "-"
    if options["write_binary_lm"] and options["lm"]:
        options["lm"], options["write_bin"] = None, options["lm"]
    estimate(made(EstimateJob, options))
    if memuse:
        tell_memory()
