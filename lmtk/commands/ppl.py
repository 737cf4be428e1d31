from lmtk.commands.options import MAX_ORDER, UNK_AS_IS, option, shared, takes
from lmtk.commands.spelling import Option, checked
from lmtk.jobs.documents import FIGURES
from lmtk.jobs.rules import build
from lmtk.jobs.scoring import ScoreJob, score


def split(values):
    """The values of an option, which may also have commas between them."""
    return tuple(part for value in values or () for part in value.split(",") if part)


def numbers(values):
    """The numbers of -cutoffs, which may also have commas between them."""
    typed = [part for value in values or () for part in value.split(",")]
    return tuple(float(checked("-cutoffs", part, Option("one", number=float))) for part in typed)


OPTIONS = {
    "Data": {
        "lm": option("A model of any kind.", "FILE"),
        **shared("classes"),
        "simple_classes": option("Predict words in a class only through their class."),
        "text": option("Text to score, one sentence per line (-: stdin).", "FILE"),
        "ppl": option("SRILM's name for -text.", "FILE", type=tuple[str, ...], default=()),
        "counts": option(
            "Count files to score: the last word of each n-gram is predicted from the words before it.", "FILE"
        ),
        "count_order": option("Score only counts of n-grams of up to N words.", "N", low=1, high=MAX_ORDER),
        "float_counts": option("Counts may be fractions."),
        "unk": UNK_AS_IS,
        **shared("no_sos no_eos stream tolower strict field tokenizer encode normalize"),
    },
    "Documents": {
        "jsonl": option("Documents to score, one JSON object on each line (-: stdin).", "FILE"),
        "add": option(f"Figures to add to each document: {', '.join(FIGURES)}.", "NAME", parse=split),
        "max": option("Keep documents with a perplexity of at most X.", "X", low=0),
        "min": option("Keep documents with a perplexity of at least X.", "X", low=0),
        "keep": option(
            "Keep the fraction X of the documents (0.7 is 70 percent), those with the lowest perplexity.", "X"
        ),
        "buckets": option("Sort documents by perplexity into buckets with these names.", "NAME,NAME", parse=split),
        "cutoffs": option("The perplexities that separate the buckets, from low to high.", "X", parse=numbers),
        "shard": option("Read only part I of the N parts of the file.", "I/N"),
        "write_rest": option("Write the lines that are not kept to this file.", "FILE"),
        **shared("quiet"),
    },
    "Output": {
        "format": option("The report to print: srilm or kenlm.", "srilm|kenlm"),
        "debug": option(
            "0: the report; 1: also each sentence; 2: also each word; 3: also the sum of all probabilities.", "N", low=0
        ),
        "write": option("Write the report, or the documents, to this file (-: stdout).", "FILE"),
    },
    "Scoring": {
        "order": option("Use only n-grams of up to N words.", "N", low=1, high=MAX_ORDER),
        "oov_features": option(
            "Neural models: compute features and probabilities for unseen words, from their contexts."
        ),
    },
    "Following the text": {
        "dynamic": option("Neural models: take a gradient step on each segment of the text after scoring it."),
        "dynamic_rate": option("The learning rate of -dynamic for one word.", "X", low=0),
        "dynamic_segment": option("The number of words in a segment of -dynamic.", "N", low=1, high=100_000),
        "dynamic_decay": option(
            "How far -dynamic returns to the trained parameters after a step (0: not at all, 1: fully).",
            "X",
            low=0,
            high=1,
        ),
        "cache": option("Neural models: mix in a cache of the last N words (0: no cache).", "N", low=0, high=100_000),
        "cache_theta": option(
            "With -cache: how much the similarity of the hidden layers counts (0: a unigram cache).", "X", low=0
        ),
        "cache_lambda": option("The weight of -cache.", "X", low=0, high=1),
    },
    "Parallel": shared("threads"),
}


@takes(ScoreJob, OPTIONS)
def command(unk, ppl, text, **options):
    """Compute the perplexity of texts under a model of any kind, and report it as SRILM or KenLM does.

    -debug 1 adds the sentences, 2 the words, 3 the sum of the probabilities over the vocabulary. -jsonl scores
    documents: it adds perplexities to the documents, or filters the documents by perplexity.

    Example: lmtk ppl -lm model.arpa -text test.txt

    Example: lmtk ppl -lm model.arpa -jsonl docs.jsonl -add perplexity -write scored.jsonl
    """
    score(build(ScoreJob, {"text": text + ppl, **options}))
