from lmtk.commands.options import memory_of, option, shared, takes, tell_memory
from lmtk.jobs.estimating import EstimateJob, estimate
from lmtk.jobs.rules import build
from lmtk.jobs.smoothing import fallback_discounts

OPTIONS = {
    "Data": {
        **shared("text"),
        "sources": option(
            "Texts to use instead of -text: each is counted separately, and its weight is learned on -heldout.", "FILE"
        ),
        "text_has_weights": option("Each line of -text begins with the number of times that it is counted."),
        "text_has_weights_last": option("Each line of -text ends with the number of times that it is counted."),
        **shared("vocab"),
        "limit_vocab": option("Remove n-grams of -read with words outside -vocab."),
        "nonevents": option("A list of words that occur in contexts only and are never predicted.", "FILE"),
        **shared("classes"),
        "class_lm": option(
            "Write a class model: a text file with the names of the files of -classes and -lm (or -write-bin); without "
            "-lm and -write-bin, one binary file.",
            "FILE",
        ),
        "unk": option("Predict <unk>, the word for all words outside -vocab."),
        **shared("map_unk tolower no_sos no_eos stream field tokenizer encode normalize"),
        "limit_vocab_file": option("With -kenlm: leave out n-grams with words outside this list.", "FILE"),
    },
    "Counts": {
        "read": option("Counts to read and add.", "FILE"),
        "write_n": option("Write the counts of order N only, as in -write1 FILE.", "FILE"),
        "write_order": option("Let -write write the counts of order N only (0: all).", "N", low=0),
        "recompute": option(
            "Replace the count of each n-gram by the sum of the counts of the n-grams that extend it by one word."
        ),
        "sort": option("Write n-grams in byte order, instead of the order of first occurrence."),
        "float_counts": option("Read counts that are not whole numbers."),
        "read_with_mincounts": option("Remove n-grams of -read with counts below -gtNmin."),
    },
    "Model": shared("order"),
    "Output": {
        "write": option("Write the counts of all orders (-: stdout).", "FILE"),
        "write_vocab": option("Write the vocabulary, in byte order.", "FILE"),
        "lm": option("Output file for the back-off model, in ARPA format.", "FILE"),
        "write_bin": option("Output file for the back-off model, in binary form.", "FILE"),
        "write_binary_lm": option("Write -lm in binary form.", type=bool, default=False),
        **shared("layout closed write_kenlm kenlm_type compact quantize"),
        "prune": option(
            "Remove n-grams whose removal raises the perplexity by less than the fraction X (such as 1e-8).", "X", low=0
        ),
        "prune_kneser": option(
            "Like -prune, but update the counts of lower orders, so that the model stays a Kneser-Ney model.",
            "X",
            low=0,
        ),
        "grow": option("With -prune-kneser: do not count n-grams that pruning would drop anyway; saves memory."),
        **shared("prune_to prune_to_size minprune"),
        "prune_contexts": option(
            "Take the probabilities of contexts for -prune from the counts or from the model (default: counts for "
            "Kneser-Ney smoothing, model for other methods).",
            "WHERE",
        ),
        **shared("debug"),
    },
    "Smoothing": {
        "gtmin": option("Leave out n-grams with counts below C, at orders above 9.", "C", low=0),
        "gtmin_n": option("Leave out n-grams of order N with counts below C (default: 1; 2 at orders 3 to 9).", "C"),
        "gtmax": option("The highest count that Good-Turing discounts, at orders above 9.", "C", low=0),
        "gtmax_n": option(
            "The highest count that Good-Turing discounts, at order N (default: 1; 7 at orders 2 to 9; 5 above).", "C"
        ),
        "gt": option(
            "Read the Good-Turing discounts of order N from this file; if no model is estimated, write them to it.",
            "FILE",
        ),
        "kn_all": option(
            "Like -knN, for all orders without a smoothing option for the order alone, such as -kndiscount2.", "FILE"
        ),
        "kn_counts_modified": option("The counts of -read are already continuation counts below the highest order."),
        "kn_modify_counts_at_end": option(
            "Compute discounts from the counts of occurrences, not from continuation counts."
        ),
        "kn": option(
            "Read the Kneser-Ney discounts of order N from this file; if no model is estimated, write them to it.",
            "FILE",
        ),
        "ndiscount": option("Natural discounting (Ristad)."),
        "ndiscount_n": option("Natural discounting for order N only."),
        "wbdiscount": option("Witten-Bell smoothing."),
        "wbdiscount_n": option("Witten-Bell smoothing for order N only."),
        "cdiscount": option("Absolute discounting by D.", "D", low=0, high=1),
        "cdiscount_n": option("Absolute discounting by D for order N only.", "D", low=0, high=1),
        "addsmooth": option("Additive smoothing: add D to each count.", "D", low=0),
        "addsmooth_n": option("Additive smoothing for order N only.", "D", low=0),
        "ukndiscount": option("The original Kneser-Ney smoothing."),
        "ukndiscount_n": option("The original Kneser-Ney smoothing for order N only."),
        "kndiscount": option("Modified Kneser-Ney smoothing (Chen and Goodman)."),
        "kndiscount_n": option("Modified Kneser-Ney smoothing for order N only."),
        "interpolate": option("Interpolate with lower orders."),
        "interpolate_n": option("Interpolate order N with lower orders."),
        "discount_fallback": option(
            "The discounts D1 D2 D3+ of orders for which none can be computed (without D: 0.5 1 1.5).",
            "[D ...]",
            parse=fallback_discounts,
        ),
        "heldout": option("Learn the Kneser-Ney discounts, and the weights of -source texts, on this text.", "FILE"),
        "maxent": option("Estimate a maximum-entropy model, as SRILM does."),
        "maxent_alpha": option("With -maxent: factor of the L1 penalty, the sum of |weight|.", "A", low=0),
        "maxent_sigma2": option("With -maxent: variance of the Gaussian prior of the weights.", "S", low=0),
        "trust_totals": option(
            "Divide the counts of n-grams by the count of their context, instead of by the sum of these counts."
        ),
    },
    "KenLM": {
        "prune_by_count": option("Leave out n-grams that occur K times or fewer; give a K for each order.", "K", low=0),
        "kenlm": option(
            "Estimate the model as KenLM's lmplz does: interpolated modified Kneser-Ney smoothing with <unk>."
        ),
        "interpolate_unigrams": option(
            "With -kenlm: 0 gives the left-over unigram mass to <unk>; 1 shares it among all words (default: 1).",
            "0|1",
            low=0,
            high=1,
        ),
        "vocab_pad": option("With -kenlm: assume a vocabulary of N words, including unknown words.", "N", low=0),
        "verbose_header": option("With -kenlm: begin the file of -lm with comments that name the text and its size."),
        "open_end": option("With -kenlm: do not add </s> to a last line without a line feed."),
        "skip_symbols": option("With -kenlm: skip <s>, </s> and <unk> in -text."),
    },
    "Parallel": {
        "memory": option(
            "Use about this much memory (500M, 4G), and temporary files for the rest.", "SIZE", parse=memory_of
        ),
        **shared("memuse"),
        "mpi": option("Share the work among the ranks started by mpiexec."),
    },
}
OUTPUTS = "write", "write_n", "write_vocab", "lm", "write_bin", "write_kenlm", "class_lm", "gt", "kn", "kn_all"


@takes(EstimateJob, OPTIONS)
def command(memuse, write_binary_lm, **options):
    """Count n-grams, add and sort counts, and estimate back-off models.

    The default smoothing is Good-Turing (Katz), as in SRILM. N-grams of the orders 3 to 9 that occur once are left out,
    as in SRILM; -gt3min 1 keeps all 3-grams, -gt4min 1 keeps all 4-grams, and so on.

    Example: lmtk ngram-count -text train.txt -order 3 -kndiscount -interpolate -lm train.lm
    """
    if not any(options[name] for name in OUTPUTS):
        options["write"] = "-"
    if write_binary_lm and options["lm"]:
        options["lm"], options["write_bin"] = None, options["lm"]
    estimate(build(EstimateJob, options))
    if memuse:
        tell_memory()
