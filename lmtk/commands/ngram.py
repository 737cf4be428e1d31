import os

from lmtk.commands.options import MAX_ORDER, option, shared, takes, tell_memory
from lmtk.errors import UsageError
from lmtk.jobs.editing import EditJob, edit
from lmtk.jobs.rules import build, check, complete_weights, wrong

OPTIONS = {
    "Model": {
        "lm": option("A back-off or class model, as text or binary (-: stdin).", "FILE"),
        "read_mix_lms": option("-lm is a list of models to merge, one per line: FILE -weight X -order N."),
        "simple_classes": option("Predict words in a class only through their class."),
        "expand_classes": option(
            "Turn a class model into a word model, with n-grams of up to N words (0: all).", "N", low=0
        ),
        "expand_most": option("Stop with an error if the expansion has more than N n-grams.", "N", low=1),
        "expand_exact": option(
            "If the expansion is an approximation, compute n-grams of N words or more exactly (0: none).",
            "N",
            low=0,
        ),
        "order": option("Drop n-grams longer than N.", "N", low=1, high=MAX_ORDER),
    },
    "Data": shared("classes vocab no_sos no_eos tolower map_unk strict"),
    "Output": {
        "write_lm": option("Write the model as an ARPA file (-: stdout).", "FILE"),
        "write_bin": option("Write the model in binary form.", "FILE"),
        "write_bin_lm": option("SRILM's name for -write-bin.", "FILE", type=str),
        **shared("layout closed write_kenlm kenlm_type compact quantize"),
        "write_vocab": option("Write the vocabulary, in byte order.", "FILE"),
        **shared("memuse debug"),
    },
    "Change": {
        "limit_vocab": option("Remove n-grams with words outside -vocab."),
        "renorm": option("Recompute the back-off weights, so that probabilities sum to one."),
        "prune": option(
            "Remove n-grams whose removal raises the perplexity by less than the fraction X (such as 1e-8); several X "
            "print a table of sizes.",
            "X",
            low=0,
        ),
        **shared("prune_to prune_to_size minprune"),
        "prune_history_lm": option(
            "With -prune: take the probabilities of contexts from this model; use this for Kneser-Ney models.", "FILE"
        ),
        "prune_lowprobs": option("Remove n-grams whose probability is below the backed-off probability."),
        "unk": option(
            "Treat <unk> as a word: -gen can print <unk>, and -renorm gives left-over probability mass to <unk>."
        ),
    },
    "Mixture": {
        "mix_lm": option("Models to merge with -lm.", "FILE"),
        "weight": option("A weight for -lm and each -mix-lm; the last may be left out (default: equal weights).", "X"),
        "mix_lm_n": option(
            "More models to merge, after -mix-lm: -mix-lm2, -mix-lm3, and so on up to -mix-lm9, as in SRILM.",
            "FILE",
            name="mix-lmN",
            type=dict[int, str],
        ),
        "mix_lambda_n": option(
            "The weight of -mix-lmN; -mix-lm gets the remaining weight.", "X", name="mix-lambdaN", type=dict[int, float]
        ),
        "bayes": option(
            "Mix the models word by word; a model that predicted the last N words better has more weight.", "N", low=0
        ),
        "bayes_scale": option(
            "With -bayes: raise each model's probability of the last N words to the power X.", "X", low=0
        ),
        "loglinear_mix": option(
            "Mix the log probabilities of the models: word by word for -ppl and -counts, into one exact "
            "model for other outputs."
        ),
        "heldout": option("Learn the weights of -loglinear-mix on this text.", "FILE"),
        "cache": option("Mix in a unigram cache of the last N words (0: no cache).", "N", low=0),
        "cache_lambda": option("The weight of -cache.", "X", low=0, high=1),
    },
    "Scoring": {
        "text": option("Texts to score, with the report of lmtk ppl.", "FILE", "text", name="ppl"),
        **shared("field tokenizer encode normalize"),
        "counts": option("Count files to score.", "FILE"),
        "count_order": option("Score only counts of n-grams of up to N words.", "N", low=1, high=MAX_ORDER),
        "float_counts": option("Counts may be fractions."),
        "counts_entropy": option("Weight each count by the joint probability of its n-gram, to compute an entropy."),
        "text_has_weights": option("Each line of -ppl begins with the weight of the sentence."),
        "reverse": option("Score each line from its last word to its first."),
        "escape": option("Copy lines that begin with TEXT into the report, instead of scoring them.", "TEXT"),
        "multiwords": option("Score a joined word such as in_front_of as separate words."),
        "multi_char": option("The character that joins the words of -multiwords.", "C"),
        "skipoovs": option("Give probability 0 to unknown words, and to words with an unknown word in their context."),
        "zeroprob_word": option("Give words of probability 0 the probability of WORD.", "WORD"),
        "unk_prob": option("log10 p of unknown words (-99: probability 0).", "X"),
    },
    "Sentences": {
        "gen": option("Print N random sentences.", "N", low=0),
        "gen_prefixes": option("Print a random continuation of each line (-: stdin).", "FILE"),
        **shared("seed"),
    },
}
RULES = (
    wrong(
        lambda job: not (job.needs_backoff or job.write_vocab or job.scores or job.heldout),
        "no output is asked for; give -write-lm, -write-bin, -write-kenlm, -write-vocab, -ppl, -counts, -gen or "
        "-gen-prefixes",
    ),
)


@takes(EditJob, OPTIONS)
def command(memuse, write_bin_lm, mix_lm_n, mix_lambda_n, **options):
    """Prune, merge, renormalize, convert and score back-off models, and print random sentences. Write a class model as
    one file, or turn a class model into a model of words.

    The steps run in this order: -order, -map-unk, -limit-vocab, -vocab, -mix-lm (or -loglinear-mix, if the result is
    written), -renorm, -classes, -expand-classes, -prune, -prune-lowprobs, -bayes or -loglinear-mix, -cache, -ppl,
    -counts, -gen, -gen-prefixes, then writing. -mix-lm makes a back-off model that approximates the mixture; lmtk mix
    makes the exact mixture.

    Example: lmtk ngram -lm big.arpa.gz -prune 1e-8 -write-bin small.bin
    """
    options["write_bin"] = write_bin_lm or options["write_bin"]
    options["classes"] = None if options["classes"] == os.devnull else options["classes"]
    if mix_lm_n or mix_lambda_n:
        options |= numbered_models(options["mix_lm"], options["weight"], mix_lm_n, mix_lambda_n)
    job = build(EditJob, options)
    check(job, RULES)
    edit(job)
    if memuse:
        tell_memory()


def numbered_models(first, weight, files, weights):
    """-mix-lm and -lambda of SRILM's options, {"mix_lm": ..., "weight": ...}. first, weight: the values of -mix-lm and
    -lambda. files, weights: {number: the value of -mix-lmN, of -mix-lambdaN}.
    """
    lacking = [n for n, x in weights.items() if n not in files and x]
    if lacking:
        raise UsageError(f"-mix-lambda{lacking[0]} needs -mix-lm{lacking[0]}")
    if len(first) != 1 or len(weight) > 1:
        raise UsageError("with -mix-lm2 give one model by -mix-lm, and at most one weight by -lambda")
    if sorted(files) != list(range(2, len(files) + 2)):
        raise UsageError("the options -mix-lm2, -mix-lm3 ... must be numbered without a gap")
    later, of_lm = [weights.get(n, 0.0) for n in sorted(files)], weight[0] if weight else 0.5
    whole = complete_weights([of_lm, 1 - of_lm - sum(later), *later], len(files) + 2)
    return {"mix_lm": (*first, *(files[n] for n in sorted(files))), "weight": tuple(whole)}
