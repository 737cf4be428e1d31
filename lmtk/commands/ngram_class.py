from lmtk.commands.options import MANY, option, shared, takes
from lmtk.jobs.classing import ClassJob, sort_words
from lmtk.jobs.rules import build, check, wrong

OPTIONS = {
    "Data": {
        **shared("text"),
        "counts": option("Counts of 2-grams to learn from; the files can also have 1-grams.", "FILE"),
        **shared("vocab map_unk tolower no_sos no_eos stream field tokenizer encode normalize"),
    },
    "Classes": {
        "numclasses": option("The number of classes.", "N", low=2),
        "init": option("Classes to start from.", "FILE"),
        "noclass_vocab": option("A list of words that get no class.", "FILE"),
        "incremental": option("Merge classes (Brown et al.), adding words one by one."),
        "full": option("Merge classes, starting from one class per word."),
        "iterations": option(
            "Make at most N passes over the words (default: until no word moves; with -incremental or -full, 0).",
            "N",
            low=0,
        ),
        "seed": option("Start from random classes (seed N) for all but the most frequent words.", "N", low=0),
    },
    "Output": {
        "save": option(
            "After every N mergers, also write the classes to a file such as CLASSES.000100 (CLASSES: the file of "
            "-classes).",
            "N",
            low=1,
        ),
        "classes": option("Output file for the classes (-: stdout).", "FILE"),
        "class_counts": option("Output file for the 1-gram and 2-gram counts of classes.", "FILE"),
        "write_paths": option("Output file for the path of each word in the tree of classes, as 0s and 1s.", "FILE"),
        **shared("quiet debug"),
    },
    "Parallel": {
        "threads": option(
            "Threads of the exchange algorithm; with 2 or more, the classes differ from those of 1 but are as good.",
            "N",
            low=1,
            high=MANY,
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
    """Sort words into classes that make the text likely under a class bigram, by exchange (Kneser and Ney) or merging
    (Brown et al.).

    -debug 1 prints the likelihood and the perplexity after each pass.

    Example: lmtk ngram-class -text train.txt -numclasses 500 -classes train.classes
    """
    job = build(ClassJob, options)
    check(job, RULES)
    sort_words(job)
