"""Names that users of SRILM and KenLM type and that lmtk does not have: what each does there, and what to use instead.

`about_program` and `about_option` make the end of the error message about such a name. An empty remedy means that lmtk
has no replacement.
"""

NEURAL = "neural: lmtk nplm-train or nmt-train; n-grams: lmtk ngram-count -lm"

# words in place of a command -> (what it is, what to use)
PROGRAMS = {
    "-v": ("", "lmtk -version prints the version"),
    "version": ("", "lmtk -version prints the version"),
    "compile": ("", "lmtk -compile compiles the kernels"),
    "-compil": ("", "lmtk -compile compiles the kernels"),
    "train": ("", NEURAL),
    "estimate": ("", "lmtk ngram-count -text FILE -lm MODEL estimates a model"),
    "count": ("", "lmtk ngram-count counts n-grams, lmtk count-of counts phrases in an indexed text"),
    "perplexity": ("", "lmtk ppl -lm MODEL -text FILE prints the perplexity"),
    "score": ("", "lmtk ppl -lm MODEL -text FILE -debug 1 prints a score for each sentence"),
    "eval": ("", "lmtk ppl -lm MODEL -text FILE prints the perplexity"),
    "prune": ("", "lmtk ngram -lm MODEL -prune X -write-lm FILE prunes a model"),
    "convert": ("", "lmtk ngram -lm MODEL -write-lm FILE (or -write-bin FILE) converts a model"),
    "merge": ("", "lmtk ngram -mix-lm merges models into one; lmtk mix mixes models of any kind"),
    "generate": ("", "lmtk sample -lm MODEL prints random sentences"),
    "tokenize": ("", "lmtk normalize -tokenize FILE splits text into tokens"),
    "align": ("", "lmtk translate -align FILE writes alignments"),
    "anti-ngram": ("expected counts of n-grams in n-best lists", ""),
    "fngram": ("factored models", ""),
    "fngram-count": ("factored models", ""),
    "hidden-ngram": ("hidden events between words", ""),
    "lattice-tool": ("lattices", "lmtk rescore reads n-best lists"),
    "multi-ngram": ("models of joined words", "lmtk ngram -multiwords scores joined words"),
    "nbest-lattice": ("word lattices of n-best lists", "lmtk rescore -best chooses a hypothesis"),
    "nbest-mix": ("mixtures of n-best lists", ""),
    "nbest-optimize": ("weights of n-best scores", "lmtk rescore -tune REFERENCES learns weights"),
    "nbest-rover": ("voting among n-best lists", "lmtk rescore -best chooses a hypothesis"),
    "rescore-nbest": ("new scores for n-best lists", "lmtk rescore -lm MODEL -nbest LISTS"),
    "rescore-reweight": ("new weights for n-best lists", "lmtk rescore -nbest LISTS -weights FILE -best"),
    "make-ngram-pfsg": ("a finite-state network of a model", "lmtk fst writes OpenFst's forms"),
    "segment": ("sentence boundaries", ""),
    "segment-nbest": ("sentence boundaries in n-best lists", ""),
    "make-sub-lm": ("the lower orders of a model", "lmtk ngram -lm MODEL -order N -write-lm FILE"),
    "ngram-lm": ("", "lmtk ngram-count -lm FILE estimates a model"),
    "kenlm": ("", "lmtk -as lmplz, build_binary, query, filter or interpolate takes KenLM's options"),
}

SMOOTHING = "-kndiscount, -wbdiscount, -cdiscount D, -addsmooth D and -ndiscount choose a smoothing method"
# SRILM's options -> (what they do there, what to use)
OPTIONS = {
    "-smoothing": ("", SMOOTHING),
    "-discount": ("", SMOOTHING),
    "-m": ("", "-features M is the number of features of a word"),
    "-v": ("", "-debug 1 reports more; lmtk -version prints the version"),
    "-verbose": ("", "-debug 1 reports more"),
    "-o": ("", "-order N is the order; the output is -lm or -write FILE, and -write-lm FILE in lmtk ngram"),
    "-n": ("", "-order N is the order"),
    "-dim": ("", "-features M is the number of features of a word"),
    "-lr": ("", "-rate X is the learning rate"),
    "-learning-rate": ("", "-rate X is the learning rate"),
    "-bleu": ("", "-reference FILE prints BLEU"),
    "-src": ("", "-source FILE is the source text"),
    "-tgt": ("", "-target FILE is the target text"),
    "-ref": ("", "-reference FILE prints BLEU"),
    **dict.fromkeys(
        ("-adapt-marginals", "-base-marginals", "-adapt-marginals-beta", "-adapt-marginals-ratios"),
        ("adapts a model to 1-gram probabilities", "lmtk mix -lm MODEL NEW mixes MODEL with a model of the new domain"),
    ),
    **dict.fromkeys(
        ("-adapt-mix", "-adapt-decay", "-adapt-iters"),
        ("adapts the weights of a mixture while it scores", "lmtk mix -bins learns weights by context frequency"),
    ),
    "-codebook": ("reads quantized probabilities", "-write-bin FILE -quantize N writes a quantized model"),
    "-write-codebook": ("writes quantized probabilities", "-write-bin FILE -quantize N writes a quantized model"),
    "-write-with-codebook": ("writes quantized probabilities", "-write-bin FILE -quantize N writes a quantized model"),
    "-context-priors": ("reads mixture weights for each context", "lmtk mix -bins learns weights by context frequency"),
    "-count-lm": ("mixes orders with weights for each count", "lmtk ngram-interp estimates such a model"),
    "-init-lm": ("starts the training of -count-lm", "lmtk ngram-interp estimates such a model"),
    "-em-iters": ("trains -count-lm", "lmtk ngram-interp -iterations N"),
    "-em-delta": ("trains -count-lm", "lmtk ngram-interp -tolerance X"),
    "-decipher": ("scores as the DECIPHER recognizer does", ""),
    "-decipher-lm": ("replaces a recognizer's score in n-best lists", "lmtk rescore adds scores to n-best lists"),
    "-decipher-nbest": ("writes n-best lists in DECIPHER's form", "lmtk rescore keeps the form of the lists"),
    **dict.fromkeys(
        ("-decipher-lmw", "-decipher-wtw", "-decipher-order", "-decipher-nobackoff"),
        ("describes the recognizer's score in n-best lists", "lmtk rescore -lmw X -wtw X sets weights"),
    ),
    "-df": ("models disfluencies", ""),
    "-dynamic": ("adapts a model while it scores", "-cache N mixes in the last N words"),
    "-dynamic-lambda": ("adapts a model while it scores", "-cache-lambda X is the weight of the last words"),
    "-factored": ("scores with a factored model", ""),
    "-hmm": ("reads a hidden Markov model of n-gram models", ""),
    "-hidden-vocab": ("models hidden events between words", ""),
    "-hidden-not": ("models hidden events between words", ""),
    "-hiddens": ("models hidden states", ""),
    "-intersect": ("keeps only the n-grams of another count file", ""),
    "-interact": ("asks the user which classes to merge", ""),
    "-kn-counts-modify-at-end": ("computes continuation counts last", "-kn-modify-counts-at-end"),
    "-max-nbest": ("limits the length of n-best lists", "shorten the lists before lmtk rescore"),
    "-maxwordsperclass": ("limits the size of classes", "a larger -numclasses gives smaller classes"),
    "-meta-tag": ("reads counts of counts", ""),
    "-minbackoff": ("sets the least probability that a context leaves for backing off", ""),
    **{
        f"-mix-{kind}{i}": ("mixes in one more model", "lmtk ngram -mix-lm -write-lm FILE mixes the models first")
        for kind in ("lm", "lambda")
        for i in range(2, 10)
    },
    "-msweb-lm": ("asks a web service", ""),
    "-nbest": ("rescores an n-best list", "lmtk rescore -lm MODEL -nbest LISTS"),
    "-nbest-files": ("rescores n-best lists", "lmtk rescore -lm MODEL -nbest LISTS"),
    "-rescore": ("rescores an n-best list", "lmtk rescore -lm MODEL -nbest LISTS"),
    "-rescore-ngram": ("changes a model's probabilities", "lmtk mix or lmtk ngram -mix-lm"),
    "-rescore-lmw": ("sets the weight of the model's score", "lmtk rescore -lmw X"),
    "-rescore-wtw": ("sets the weight of the number of words", "lmtk rescore -wtw X"),
    "-no-reorder": ("keeps the order of an n-best list", "lmtk rescore without weights keeps the order"),
    "-noise": ("skips noise words in n-best lists", "remove them before lmtk rescore"),
    "-noise-vocab": ("skips noise words in n-best lists", "remove them before lmtk rescore"),
    "-nonull": ("removes the word <NULL> from a model", ""),
    "-null": ("uses a model with probability 1 for all words", ""),
    "-parquet": ("", "-text FILE -field NAME reads a parquet file"),
    "-read-google": ("reads a folder of Google's n-grams", "name each file of the folder after -read"),
    "-save-maxclasses": ("writes intermediate classes only up to this number of classes", ""),
    "-server-maxclients": ("answers queries over the network", "use the model in Python: man lmtk-python"),
    "-server-port": ("answers queries over the network", "use the model in Python: man lmtk-python"),
    "-cache-served-ngrams": ("asks a server for probabilities", "read the model with -lm"),
    "-use-server": ("asks a server for probabilities", "read the model with -lm"),
    "-skip": ("uses skip n-grams", ""),
    "-skip-init": ("uses skip n-grams", ""),
    "-split-multiwords": ("splits joined words in n-best lists", "-multiwords scores joined words"),
    "-stop-words": ("uses a model of stop words", ""),
    "-tagged": ("counts words with tags", ""),
    "-vocab-aliases": ("maps words while it reads", "map the text with sed before counting"),
    "-write-binary": ("writes counts in binary form", "-write FILE.gz writes compressed counts"),
    "-write-oldbin-lm": ("writes an old binary form", "-write-bin FILE writes lmtk's binary form"),
    "-write-text": ("writes counts as text", "-write FILE"),
    "-write-vocab-index": ("writes words with their numbers", "-write-vocab FILE writes the words"),
}

# option -> {command that deliberately does not have this option: why, or what to do instead}
OWN_PIECES = "a translation model splits words by its own pieces, which lmtk nmt-train -bpe learns"
WORDS_ONLY = "this command writes words; ngram-count, ppl and others split words into pieces as they read a text"
REFUSED = {
    "-mix-lm": {"mix": "give all models after -lm"},
    "-lambda": {"rescore": "-lmw X is the weight of -lm; -weights FILE reads the weights of all features"},
    "-field": {
        "nmt-train": "line n of -target must translate line n of -source; first write both sides to text files "
        "(jq -r .text)",
        "rescore": "lmtk-rescore(1) describes the forms of n-best lists",
        "fst": "this command reads a model and no text",
        "info": "this command describes whole files",
    },
    "-tokenizer": {
        "nmt-train": OWN_PIECES,
        "translate": OWN_PIECES,
        "normalize": WORDS_ONLY,
        "fst": "this command reads a model and no text",
        "info": "lmtk info FILE prints the digest of the tokenizer with which a model was made",
    },
    "-encode": {"nmt-train": OWN_PIECES, "translate": OWN_PIECES, "normalize": WORDS_ONLY},
    "-normalize": {
        "surprisal": "normalizing would change the positions of words in the sentence",
        "rescore": "hypotheses are scored unchanged; first normalize the lists",
    },
}


def about_program(name):
    """What to add to the message about an unknown command; "" if PROGRAMS does not have the name."""
    subject, remedy = PROGRAMS.get(name, ("", ""))
    if not subject:
        return remedy and f"; {remedy}"
    return f", SRILM's program for {subject}; {remedy or 'lmtk has nothing like it'}"


def about_option(name, options, command=None):
    """The end of the message that a command, with these options, has no option of this name; "" if the name is not in
    REFUSED or OPTIONS, or if another command has the option that would replace it.
    """
    if command in REFUSED.get(name, ()):
        return f"; {REFUSED[name][command]}"
    effect, remedy = OPTIONS.get(name, ("", ""))
    if remedy.startswith("-") and remedy.split()[0].rstrip(",") not in options:
        return ""
    if not effect:
        return remedy and f"; {remedy}"
    return f"; in SRILM it {effect}; " + (f"in lmtk: {remedy}" if remedy else "lmtk cannot do that")
