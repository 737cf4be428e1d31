from lmtk.commands.options import MANY, option, shared, takes
from lmtk.jobs.classing import ClassJob, sort_words
from lmtk.jobs.rules import build, check, wrong

OPTIONS = {
    "Data": {
        **shared("text"),
        "counts": option("N-gram counts; only the 2-grams are used (several).", "FILE"),
        **shared("vocab map_unk tolower no_sos no_eos stream"),
    },
    "Classes": {
        "numclasses": option("The number of classes.", "N", low=2),
        "init": option("Classes to start from.", "FILE"),
        "noclass_vocab": option("Words that get no class, like <s> and </s>.", "FILE"),
        "incremental": option("Merge classes (Brown et al.), adding words one by one to a window of N classes."),
        "full": option("Merge classes, starting with one class for each word."),
        "iterations": option(
            "At most N passes over the words (default: until no word moves; 0 after merging).", "N", low=0
        ),
        "seed": option("Start from random classes, except for the most frequent words.", "N", low=0),
    },
    "Output": {
        "save": option("Also write the classes after every N mergers, to CLASSES.N.", "N", low=1),
        "classes": option("Where to write the classes (-: stdout).", "FILE"),
        "class_counts": option("Where to write the 1-grams and 2-grams of classes.", "FILE"),
        "write_paths": option("Where to write each word's path in the tree of classes, as 0 and 1.", "FILE"),
        **shared("quiet debug"),
    },
    "Parallel": {
        "threads": option(
            "Threads of the exchange; all numbers from 2 on give the same classes.", "N", low=1, high=MANY
        ),
    },
}
RULES = (
    wrong(
        lambda job: not (job.classes or job.class_counts or job.write_paths),
        "nothing to write: give -classes, -class-counts or -write-paths",
    ),
)


@takes(ClassJob, OPTIONS)
def command(**options):
    """Sort words into classes that make the text likely under a class bigram: by Kneser and Ney's exchange algorithm,
    or by Brown's merging.

    -debug 1 prints the likelihood and the perplexity after each pass.

    \b
    Example: lmtk ngram-class -text train.txt -numclasses 500 -classes train.classes
    """
    job = build(ClassJob, options)
    check(job, RULES)
    sort_words(job)
