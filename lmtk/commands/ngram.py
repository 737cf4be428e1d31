import contextlib
import math
import os
import sys
import warnings
from dataclasses import replace
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Annotated

from lmtk.commands.options import (
    MAX_ORDER,
    ClassFile,
    Compact,
    Debug,
    MapUnk,
    NoEos,
    NoSos,
    Quantize,
    Strict,
    Tolower,
    VocabFile,
    check_outputs,
    given_weights,
    needed,
    one_stdin,
    only_with,
    option,
    per_order,
    seed_in,
    tell_memory,
    unknown_word,
)
from lmtk.errors import LmtkError, LmtkWarning, UsageError, name_of


def command(
    lm: Annotated[
        str | None, option("lm", "A back-off or class model, as text or binary (-: stdin).", "FILE", group="Model")
    ] = None,
    read_mix_lms: Annotated[
        bool,
        option("read-mix-lms", "-lm is a list of models to merge: FILE, then -weight X and -order N.", group="Model"),
    ] = False,
    classes: ClassFile = None,
    simple_classes: Annotated[
        bool,
        option("simple-classes", "A word in a class never stands for itself.", group="Model"),
    ] = False,
    expand_classes: Annotated[
        int | None,
        option("expand-classes", "Write classes out as words, in n-grams up to N (0: all).", "N", min=0, group="Model"),
    ] = None,
    expand_most: Annotated[
        int, option("expand-most", "Fail if these are more than N n-grams.", "N", min=1, group="Model")
    ] = 10_000_000,
    expand_exact: Annotated[
        int,
        option(
            "expand-exact",
            "Give n-grams of N words or more their exact probability where classes expand to several words (0: none).",
            "N",
            min=0,
            group="Model",
        ),
    ] = 0,
    write_lm: Annotated[
        str | None, option("write-lm", "Write the model as an ARPA file (-: stdout).", "FILE", group="Output")
    ] = None,
    write_bin: Annotated[
        str | None, option("write-bin", "Write the model in binary form.", "FILE", group="Output")
    ] = None,
    write_bin_lm: Annotated[
        str | None, option("write-bin-lm", "SRILM's name of -write-bin.", "FILE", group="Output")
    ] = None,
    compact: Compact = False,
    quantize: Quantize = None,
    kenlm_numbers: Annotated[
        str | None,
        option(
            "kenlm-numbers",
            "-write-bin has the numbers that KenLM gives the words in its forms of this name.",
            "probing|trie",
            group="Output",
        ),
    ] = None,
    write_vocab: Annotated[
        str | None, option("write-vocab", "Write the words, in byte order.", "FILE", group="Output")
    ] = None,
    order: Annotated[
        int | None, option("order", "Drop n-grams longer than N.", "N", min=1, max=MAX_ORDER, group="Model")
    ] = None,
    vocab: VocabFile = None,
    limit_vocab: Annotated[
        bool, option("limit-vocab", "Drop n-grams with words that are not in -vocab.", group="Change")
    ] = False,
    mix_lm: Annotated[
        list[str] | None, option("mix-lm", "A model to merge with -lm (several).", "FILE", group="Mixture")
    ] = None,
    weight: Annotated[
        list[float] | None,
        option(
            "lambda",
            "A weight for -lm and each -mix-lm (the last may be left out and takes the rest).",
            "X",
            group="Mixture",
        ),
    ] = None,
    mix_lm_n: Annotated[
        list[str] | None,
        option("mix-lmN", "SRILM's spelling: -mix-lm2 FILE is the second to merge, up to 9.", "FILE", group="Mixture"),
    ] = None,
    mix_lambda_n: Annotated[
        list[str] | None, option("mix-lambdaN", "The weight of -mix-lmN; -mix-lm has the rest.", "X", group="Mixture")
    ] = None,
    bayes: Annotated[
        int | None,
        option(
            "bayes",
            "Mix the models word by word, weighted by how well they predicted the N words before.",
            "N",
            min=0,
            group="Mixture",
        ),
    ] = None,
    bayes_scale: Annotated[
        float, option("bayes-scale", "Raise that probability to the power X.", "X", min=0, group="Mixture")
    ] = 1.0,
    loglinear_mix: Annotated[
        bool, option("loglinear-mix", "Mix the models' log probabilities word by word.", group="Mixture")
    ] = False,
    cache: Annotated[
        int, option("cache", "Mix in the frequency of a word among the last N.", "N", min=0, group="Mixture")
    ] = 0,
    cache_lambda: Annotated[
        float, option("cache-lambda", "The weight of -cache.", "X", min=0, max=1, group="Mixture")
    ] = 0.05,
    renorm: Annotated[
        bool, option("renorm", "Compute the back-off weights anew, so that all sums are one.", group="Change")
    ] = False,
    prune: Annotated[
        list[float] | None,
        option(
            "prune",
            "Drop n-grams whose removal raises perplexity by less than the share X (several: a table).",
            "X",
            min=0,
            group="Change",
        ),
    ] = None,
    minprune: Annotated[int, option("minprune", "Prune n-grams of N words or more.", "N", min=2, group="Change")] = 2,
    prune_history_lm: Annotated[
        str | None,
        option("prune-history-lm", "The model that gives -prune the contexts' probabilities.", "FILE", group="Change"),
    ] = None,
    prune_lowprobs: Annotated[
        bool,
        option("prune-lowprobs", "Drop n-grams whose probability is below what backing off gives.", group="Change"),
    ] = False,
    ppl: Annotated[
        list[str] | None, option("ppl", "A text to score, as lmtk ppl does (several).", "FILE", "text", group="Scoring")
    ] = None,
    counts: Annotated[
        list[str] | None, option("counts", "N-gram counts to score (several).", "FILE", group="Scoring")
    ] = None,
    count_order: Annotated[
        int | None,
        option("count-order", "Score counts of n-grams up to N only.", "N", min=1, max=MAX_ORDER, group="Scoring"),
    ] = None,
    float_counts: Annotated[bool, option("float-counts", "Counts may be fractions.", group="Scoring")] = False,
    counts_entropy: Annotated[
        bool,
        option("counts-entropy", "Weight counts by the n-grams' probabilities: an entropy.", group="Scoring"),
    ] = False,
    text_has_weights: Annotated[
        bool, option("text-has-weights", "Each line of -ppl begins with its weight.", group="Scoring")
    ] = False,
    reverse: Annotated[
        bool, option("reverse", "Score lines from the last word to the first.", group="Scoring")
    ] = False,
    escape: Annotated[
        str,
        option("escape", "Print lines that begin with TEXT as they are, among the scores.", "TEXT", group="Scoring"),
    ] = "",
    multiwords: Annotated[
        bool, option("multiwords", "Score words such as in_front_of as the words that they join.", group="Scoring")
    ] = False,
    multi_char: Annotated[str, option("multi-char", "The letter that joins them.", "C", group="Scoring")] = "_",
    skipoovs: Annotated[
        bool,
        option("skipoovs", "Unknown words, and words soon after them, have the probability 0.", group="Scoring"),
    ] = False,
    zeroprob_word: Annotated[
        str | None,
        option("zeroprob-word", "Words of probability 0 have that of WORD.", "WORD", group="Scoring"),
    ] = None,
    unk_prob: Annotated[
        float | None, option("unk-prob", "log10 p of unknown words (-99: none).", "X", group="Scoring")
    ] = None,
    no_sos: NoSos = False,
    no_eos: NoEos = False,
    tolower: Tolower = False,
    gen: Annotated[int | None, option("gen", "Print N random sentences.", "N", min=0, group="Sentences")] = None,
    gen_prefixes: Annotated[
        str | None,
        option("gen-prefixes", "Print a random continuation of each line (-: stdin).", "FILE", group="Sentences"),
    ] = None,
    seed: seed_in("Sentences") = 1,
    unk: Annotated[
        bool,
        option(
            "unk",
            "<unk> is a word: it is generated, and -renorm gives it a part of what is left over.",
            group="Change",
        ),
    ] = False,
    map_unk: MapUnk = None,
    strict: Strict = False,
    memuse: Annotated[bool, option("memuse", "Print the most memory that was used.", group="Output")] = False,
    debug: Debug = 0,
):
    """Prune, merge, cut, renormalise or convert a back-off model, ARPA or binary; score texts with it, or draw
    sentences from it. Write a class model as one file, or as a model of words.

    Steps are taken in this order: -order, -map-unk, -limit-vocab, -vocab, -mix-lm, -renorm, -classes, -expand-classes,
    -prune, -prune-lowprobs, -bayes or -loglinear-mix, -cache, -ppl, -counts, -gen, -gen-prefixes, then writing. -mix-lm
    makes a back-off model that approximates the mixture; lmtk mix makes the exact one.

    Example: lmtk ngram -lm big.arpa.gz -prune 1e-8 -write-bin small.bin
    """
    o = SimpleNamespace(**locals())
    check(o)
    get_ready(o)
    if len(o.thresholds) > 1:
        o.home = None
        compare(o)
        return
    with output(o):
        model, others = changed(o)
        scored = mixed(o, model, others)
        if o.ppl or o.counts:
            score(o, scored, [model, *others])
        if gen is not None or gen_prefixes:
            generate(o, model)
        write(o, model, scored.vocab)
    if memuse:
        tell_memory()


def check(o):
    """Complain of options that do not go together, and complete them."""

    needed(o.lm, "lm")
    o.write_bin = o.write_bin_lm or o.write_bin
    only_with(o.write_bin, "write-bin", compact=o.compact, quantize=o.quantize, kenlm_numbers=o.kenlm_numbers)
    if o.kenlm_numbers not in (None, "probing", "trie"):
        raise UsageError(f"-kenlm-numbers is probing or trie, not {o.kenlm_numbers}")
    o.classes = None if o.classes == os.devnull else o.classes
    generating = o.gen is not None or o.gen_prefixes
    if not (o.write_lm or o.write_bin or o.write_vocab or o.ppl or o.counts or generating):
        raise UsageError(
            "nothing to do: give -write-lm, -write-bin, -write-vocab, -ppl, -counts, -gen or -gen-prefixes"
        )
    if o.limit_vocab and not o.vocab:
        raise UsageError("-limit-vocab needs -vocab")
    if o.weight and not o.mix_lm:
        raise UsageError("-lambda is for -mix-lm, which is missing")
    if o.read_mix_lms and (o.mix_lm or o.mix_lm_n or o.classes):
        raise UsageError("with -read-mix-lms all models stand in the list")
    o.mix_lm, o.weights = mixed_files(o)
    o.by_word = o.bayes is not None or o.loglinear_mix
    if o.by_word and not (o.mix_lm or o.read_mix_lms):
        raise UsageError("-bayes and -loglinear-mix are for -mix-lm, which is missing")
    if (o.by_word or o.cache) and (o.write_lm or o.write_bin or generating or len(o.prune or []) > 1):
        raise UsageError("-bayes, -loglinear-mix and -cache make no back-off model: give -ppl or -counts alone")
    if o.multiwords and (o.by_word or o.cache or o.write_lm or o.write_bin or generating or len(o.prune or []) > 1):
        raise UsageError("-multiwords is for -ppl and -counts, of one model")
    zeros = o.skipoovs, o.zeroprob_word, o.unk_prob is not None
    if any(zeros) and (not (o.ppl or o.counts) or generating or len(o.prune or []) > 1):
        raise UsageError("-skipoovs, -zeroprob-word and -unk-prob are for -ppl and -counts")
    texts = o.reverse, o.text_has_weights
    if (any(texts) and not o.ppl) or (o.text_has_weights and len(o.prune or []) > 1):
        raise UsageError("-reverse and -text-has-weights are for -ppl")
    if o.counts_entropy and (not o.counts or o.cache):
        raise UsageError("-counts-entropy is for -counts, without -cache")
    if o.skipoovs and (o.loglinear_mix or o.multiwords or o.classes):
        raise UsageError("-skipoovs does not go with -loglinear-mix, -multiwords and -classes")
    if o.zeroprob_word and o.cache:
        raise UsageError("-zeroprob-word does not go with -cache")
    o.thresholds, o.prune = o.prune or [], (o.prune or [None])[0]
    o.changed = any((o.mix_lm, o.read_mix_lms, o.limit_vocab, o.vocab, o.renorm, any(o.thresholds), o.prune_lowprobs))
    if len(o.thresholds) > 1 and (not o.ppl or o.write_lm or o.write_bin or o.write_vocab or generating or o.counts):
        raise UsageError(
            "-prune with several values prints a table of sizes and perplexities for -ppl; give one to write"
        )
    if (o.write_lm, o.write_bin, o.write_vocab, "-" if generating or o.ppl or o.counts else None).count("-") > 1:
        raise UsageError("only one of the outputs can be stdout")
    if o.debug > 3 and (o.ppl or o.counts):
        raise UsageError("-debug goes to 3 here")
    texts = [*(o.ppl or []), *(o.counts or [])]
    one_stdin(o.lm, o.classes, *o.mix_lm, o.vocab, o.gen_prefixes, o.prune_history_lm, *texts)
    o.unknown = unknown_word(o.map_unk) if o.map_unk else None
    inputs = o.classes, o.gen_prefixes, o.vocab if o.vocab != o.write_vocab else None
    check_outputs(o.write_lm, o.write_bin, o.write_vocab, texts=texts, inputs=inputs)


def get_ready(o):
    """Keep the memory that a large model takes while it is read, to change and write it in."""
    from lmtk.machine import memory
    from lmtk.machine.large import pays

    if any(os.path.isfile(path) and pays("arpa", os.path.getsize(path)) for path in (o.lm, *o.mix_lm)):
        memory.keep_all()


@contextlib.contextmanager
def output(o):
    """Open the file of -write-bin as o.out, where it takes one model as it is; its nodes are made there, in o.home.

    Else o.out and o.home are None.
    """
    from lmtk.files.streams import open_out
    from lmtk.ngram.building import in_file

    o.out = o.home = None
    others = o.write_lm, o.classes, o.order, o.compact, o.quantize, o.write_bin in (None, o.lm)
    if o.changed or any(others):
        yield
        return
    with open_out(o.write_bin) as o.out:
        o.home = partial(in_file, o.out)
        yield


def mixed_files(o):
    """The models that are mixed with -lm, and the weights of all: by SRILM's options, -mix-lm2 and so on, or ours."""
    if not (o.mix_lm_n or o.mix_lambda_n):
        return o.mix_lm or [], given_weights(o.weight, 1 + len(o.mix_lm or []))
    files, numbers = per_order(o.mix_lm_n, "mix-lmN"), per_order(o.mix_lambda_n, "mix-lambdaN", float)
    lacking = [n for n, weight in numbers.items() if n not in files and weight]
    if lacking:
        raise UsageError(f"-mix-lambda{lacking[0]} is for -mix-lm{lacking[0]}, which is missing")
    if len(o.mix_lm or []) != 1 or len(o.weight or []) > 1 or sorted(files) != list(range(2, len(files) + 2)):
        raise UsageError("-mix-lm2 and so on follow one -mix-lm, without a gap, and one -lambda")
    later = [numbers.get(n, 0.0) for n in sorted(files)]
    first = o.weight[0] if o.weight else 0.5
    weights = given_weights([first, 1 - first - sum(later), *later], len(files) + 2)
    return [*o.mix_lm, *(files[n] for n in sorted(files))], weights


def listed_models(path):
    """What -read-mix-lms reads: for each model its file, order and weight, which are made to sum to one."""
    from lmtk.errors import FormatError
    from lmtk.files.streams import lines

    found = []
    for number, line in lines(path):
        name, *words = os.fsdecode(line).split() or [""]
        options = dict(zip(words[::2], words[1::2]))
        try:
            if name:
                found.append((name, int(options.pop("-order", 3)), float(options.pop("-weight", 1))))
            if options or len(words) % 2 or (name and not found[-1][2] >= 0):
                raise ValueError
        except ValueError:
            raise FormatError(path, "expected a model's file, -weight X and -order N", number) from None
    total = sum(weight for _, _, weight in found)
    if not total:
        raise FormatError(path, "no models with weights in it")
    return [(name, order, weight / total) for name, order, weight in found]


def read(o, path, order, linked=True):
    """The model in a file with -map-unk, -order, -limit-vocab and, where the file holds a class model, -expand-classes;
    linked: as `registry.load` has it. Raises LmtkError where a back-off model is wanted and it is another.
    """
    from lmtk.files.registry import load, load_strictly
    from lmtk.jobs.bar import reading
    from lmtk.joint.classes import ClassModel
    from lmtk.joint.mixture import lowered
    from lmtk.ngram import merge
    from lmtk.ngram.backoff import Backoff

    with reading([path], f"reading {os.path.basename(path)}"):
        how = {"home": o.home, "linked": linked}
        model = load_strictly(path, **how) if o.strict else load(path, **how)
    others = o.write_lm, o.write_vocab, o.gen is not None, o.gen_prefixes, o.unknown
    changed = o.changed or any(others)
    if isinstance(model, ClassModel) and o.expand_classes is not None:
        return expanded(o, path, lowered(model, order or model.order))
    if changed or o.write_bin:
        model = merged_parts(model)
    if not isinstance(model, Backoff):
        if changed or (o.write_bin and not isinstance(model, ClassModel)):
            check_kind(path, model)
        return lowered(model, order) if order and hasattr(model, "lower") else model
    if o.expand_classes is not None and not (o.classes or o.mix_lm or o.read_mix_lms):
        raise LmtkError(f"{name_of(path)}: no class model, so that there is nothing to expand; -classes makes it one")
    model = model.lower(min(order or model.order, model.order))
    model = model if o.classes else told(o, path, model)
    model = merge.with_unknown(model, o.unknown) if o.unknown else model
    return told(o, "-limit-vocab", merge.limited(model, o.kept)) if o.limit_vocab else model


def check_kind(path, model):
    """Raises LmtkError where a model, read from `path`, is no back-off n-gram."""
    from lmtk.joint.classes import ClassModel
    from lmtk.joint.expansions import Expanding
    from lmtk.joint.mixture import Mixture
    from lmtk.ngram.backoff import Backoff

    if not isinstance(model, Backoff):
        kind, expand = next(value for name, value in model.describe() if name == "kind"), "which -expand-classes makes"
        remedies = {Mixture: "; its parts are of other kinds"}
        remedies |= dict.fromkeys((ClassModel, Expanding), f", {expand} of it")
        raise LmtkError(f"{name_of(path)}: {kind}; a back-off n-gram was wanted{remedies.get(type(model), '')}")


def expanded(o, path, model):
    """-expand-classes of a class model, read from `path`."""
    from lmtk.joint import classes, expansions
    from lmtk.joint.classes import ClassModel
    from lmtk.joint.mixture import lowered

    if isinstance(model, ClassModel):
        model = lowered(model, min(model.order, o.expand_classes or model.order))
        return told(o, path, classes.expanded(model, o.expand_most, path))
    return told(o, path, expansions.expanded(model, o.expand_classes, o.expand_exact, o.expand_most, path))


def renormalized(model, whole):
    """The model renormalized. Unless `whole`, the unknown word gets nothing of the mass that 1-grams leave."""
    from lmtk.ngram import merge, pruning

    apart = not whole and model.vocab.predicts(model.vocab.unk) and pruning.leaves_mass(model)
    found = pruning.renormalized(merge.predicting(model, False) if apart else model, own=True)
    return merge.predicting(found, True) if apart else found


def classed(o, paths, models):
    """The models with -classes and -expand-classes, all over the same words. Where several are kept apart, those that
    predict no class are models of words, and stay so. paths: the models' files, for messages.
    """
    from lmtk.joint.classes import class_model
    from lmtk.ngram import merge

    known = [any(map(model.vocab.predicts, o.names)) for model in models]
    every = merge.united([model.vocab for model in models])
    words = [w for w in [*every.words[: every.V], *o.members] if w not in o.names]
    for i, path in enumerate(paths):
        if len(models) > 1:
            own = [w for w in words if not known[i] or w not in o.members]
            models[i] = merge.with_words(models[i], own, every.predicts(every.unk))
        if known[i] or not any(known):
            models[i] = class_model(models[i], path, o.classes, simple=o.simple_classes, rows=o.rows)
            models[i] = models[i] if o.expand_classes is None else expanded(o, path, models[i])
    if any((o.prune, o.prune_lowprobs, o.write_lm, o.write_vocab, o.gen is not None, o.gen_prefixes)):
        check_kind(paths[0], models[0])
    return models


def merged_parts(model):
    """A mixture of back-off models, with the same weights everywhere, as one back-off model; else the model."""
    from lmtk.joint.mixture import Mixture
    from lmtk.ngram import merge
    from lmtk.ngram.backoff import Backoff

    if not isinstance(model, Mixture) or model.binned is not None:
        return model
    parts = [merged_parts(part) for part in model.parts]
    if not all(isinstance(part, Backoff) for part in parts):
        return model
    return merge.merged(parts, model.weights[0].tolist())


def told(o, what, model):
    """The model; -debug prints its numbers of n-grams."""
    if o.debug and not (o.ppl or o.counts):
        sizes = ", ".join(f"{size} {k}-grams" for k, size in enumerate(model.sizes, 1))
        sys.stderr.write(f"{what}: {sizes}\n")
    return model


def changed(o):
    """The model that all steps before scoring and writing make, and those that are to be mixed with it word by word."""
    from lmtk.files.streams import lines
    from lmtk.joint.expansions import named
    from lmtk.ngram import merge, pruning
    from lmtk.ngram.backoff import Backoff
    from lmtk.text.vocab import read_vocab

    o.words = read_vocab(o.vocab) if o.vocab else []
    if o.multiwords:  # their parts are words too
        letter = os.fsencode(o.multi_char)
        o.words = list(dict.fromkeys([*o.words, *(part for w in o.words for part in w.split(letter) if part)]))
    o.rows = [*lines(o.classes)] if o.classes else []
    o.names, o.members = named(o.rows)
    o.kept = [*o.words, *o.names]
    if o.read_mix_lms:
        files, orders, o.weights = zip(*listed_models(o.lm))
    else:
        files = o.lm, *o.mix_lm
        orders = [o.order] * len(files)
    merging = len(files) > 1 and not o.by_word
    models = [read(o, path, order, not merging) for path, order in zip(files, orders)]
    if o.vocab or o.unk:
        words = [w for w in o.words if w not in o.members]
        models = [merge.with_words(m, words, o.unk) if isinstance(m, Backoff) else m for m in models]
    # as in SRILM, <unk> is no word of a model that was cut, unless -unk says so
    closed = o.limit_vocab and not (o.unk or o.by_word) and any(m.vocab.predicts(m.vocab.unk) for m in models)
    if closed:
        models = [merge.predicting(m, False) for m in models]
    if len(models) > 1 and not o.by_word:
        mix = merge.merged if o.read_mix_lms else merge.mixture
        whole = mix(models, o.weights, own=True)
        models = [told(o, "-mix-lm", whole)]
    if o.renorm:
        models[0] = renormalized(models[0], closed or o.unk or o.by_word)
    model, *others = classed(o, files[: len(models)], models) if o.classes else models
    if o.prune:
        history = read(o, o.prune_history_lm, model.order - 1) if o.prune_history_lm else None
        model = told(o, f"-prune {o.prune:g}", pruning.pruned(model, o.prune, o.minprune, history, own=True))
    if o.prune_lowprobs:
        model = told(o, "-prune-lowprobs", pruning.without_low(model, o.minprune))
    return merge.predicting(model, True) if closed else model, others


def mixed(o, model, others):
    """The model that is scored, of those that `changed` makes."""
    from lmtk.joint import dynamic, zeros
    from lmtk.joint.multiwords import Multiwords
    from lmtk.ngram import merge
    from lmtk.ngram.backoff import Backoff

    if (o.multiwords or o.skipoovs) and not isinstance(model, Backoff):
        what = "-multiwords" if o.multiwords else "-skipoovs"
        raise LmtkError(f"{o.lm}: {next(model.describe())[1]}; {what} wants a back-off n-gram")
    instead = [zeroprob_word(o)] if o.zeroprob_word else []
    parts = [merge.with_words(m, instead) if isinstance(m, Backoff) else m for m in (model, *others)]
    parts = dynamic.of_one_vocabulary(parts) if others else parts
    if o.skipoovs:
        parts = [zeros.Skipping(part, min((o.order or model.order) - 1, 2)) for part in parts]
    model = Multiwords(parts[0], os.fsencode(o.multi_char)) if o.multiwords else parts[0]
    if others:
        mix = dynamic.LogLinear if o.loglinear_mix else dynamic.Bayes
        extra = (o.unk,) if o.loglinear_mix else (o.bayes, o.bayes_scale, o.unk)
        model = mix(parts, o.weights, *extra)
    model = dynamic.Cached(model, o.cache, o.cache_lambda, o.unk) if o.cache else model
    return nonzero(o, model, *instead)


def zeroprob_word(o):
    from lmtk.text.vocab import lower

    word = os.fsencode(o.zeroprob_word)
    return lower(word) if o.tolower else word


def nonzero(o, model, instead=None):
    """The model with -zeroprob-word, the word `instead`, and -unk-prob."""
    from lmtk.joint.zeros import Nonzero
    from lmtk.lm import LN10
    from lmtk.ngram.nodes import ZERO

    if instead is None and o.unk_prob is None:
        return model
    index = getattr(model, "index", model.vocab.index)
    if instead is not None and instead not in index and index is model.vocab.index:
        raise UsageError(f"-zeroprob-word {o.zeroprob_word}: no word of the model")
    unknown = None if o.unk_prob is None else -math.inf if o.unk_prob == ZERO else o.unk_prob * LN10
    return Nonzero(model, None if instead is None else index[instead], unknown)


def compare(o):
    """-prune with several values: a line for each, with the numbers of n-grams that it leaves and the perplexity."""
    from lmtk.reports.srilm import Tally, report
    from lmtk.text.corpus import Marks, read_corpus

    thresholds = o.thresholds
    for i, o.prune in enumerate(thresholds):
        (model, _), whole = changed(o), Tally()
        if i == 0:
            print("prune", "n-grams", *(f"{k}-grams" for k in range(1, model.order + 1)), "ppl", sep="\t")
            how = model.vocab, Marks.of(o.no_sos, o.no_eos, tolower=o.tolower, reverse=o.reverse), model.order
            texts = [(path, [*read_corpus(path, *how)]) for path in o.ppl]  # all models have the same words
        for path, corpora in texts:
            whole.add(report(model, path, corpora, 0, lambda line: None)[0])
        print(f"{o.prune:g}", sum(model.sizes), *model.sizes, whole.ppl, sep="\t", flush=True)


def score(o, model, parts):
    """-ppl and -counts; parts: the models that `model` was made of."""
    from lmtk.commands.ppl import report_count_file, report_text
    from lmtk.lm import running_text
    from lmtk.text.corpus import Marks

    write, escape = sys.stdout.buffer.write, os.fsencode(o.escape)
    marks = Marks.of(o.no_sos, o.no_eos, tolower=o.tolower, reverse=o.reverse)
    if o.ppl and (clause := running_text(parts, marks)):
        told = f"{clause}; if it was trained with -stream, score texts by lmtk ppl -stream"
        warnings.warn(told, LmtkWarning, stacklevel=1)
    for path in o.ppl or []:
        report_text(model, path, marks, o.debug, write, escape, o.unk, o.text_has_weights)
    for path in o.counts or []:
        report_count_file(
            model,
            path,
            o.count_order or o.order or model.order,
            o.float_counts,
            o.debug,
            write,
            o.tolower,
            escape,
            o.unk,
            o.counts_entropy,
        )


def numbered(model, path, kind):
    """A Backoff model, from the file `path`, with KenLM's numbers of its words, those of `kind`: probing or trie."""
    import numpy as np

    from lmtk.ngram.kenlm_binary import trie_numbers
    from lmtk.reports.kenlm import numbers

    number = np.array(numbers(model, path), np.int32)
    return replace(model, number=number if kind == "probing" else trie_numbers(model.vocab.words, number))


def generate(o, model):
    """-gen and -gen-prefixes."""
    from lmtk.ngram import generation
    from lmtk.text.corpus import Closed, Marks, read_ids
    from lmtk.text.vocab import SOS

    prefixes = [[model.vocab.index[SOS]]] * (o.gen or 0)
    if o.gen_prefixes:
        ids, starts, _ = read_ids(o.gen_prefixes, Closed(model.vocab.index, model.vocab.unk_id), Marks(False, False))
        prefixes += [ids[first:last].tolist() for first, last in pairwise(starts)]
    for found in generation.sentences(model, prefixes, o.seed, o.unk):
        sys.stdout.buffer.write(b" ".join(model.vocab.words[w] for w in found) + b"\n")


def write(o, model, vocab):
    """-write-lm, -write-bin, -write-vocab. vocab: that of the model as it is scored."""
    from lmtk.files.streams import open_out
    from lmtk.joint import classes
    from lmtk.ngram import arpa, compact

    if isinstance(model, classes.ClassModel) and (o.compact or o.quantize or o.kenlm_numbers):
        told = "-compact, -quantize and -kenlm-numbers are for back-off n-grams"
        raise LmtkError(f"{name_of(o.lm)}: class n-gram; {told}")
    if o.kenlm_numbers:
        model = numbered(model, o.lm, o.kenlm_numbers)
    if o.write_lm:
        with open_out(o.write_lm) as out:
            arpa.write_text(out, model, own=not o.write_bin)
    if o.write_bin:
        with contextlib.nullcontext(o.out) if o.out else open_out(o.write_bin) as out:
            if isinstance(model, classes.ClassModel):
                classes.write_binary(out, model, o.lm)
            else:
                compact.write_binary(out, model, o.compact, o.quantize or 0)
    if o.write_vocab:
        with open_out(o.write_vocab) as out:
            out.write(b"".join(w + b"\n" for w in sorted(vocab.words)))
