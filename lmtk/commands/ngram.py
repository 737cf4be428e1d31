import sys
from itertools import pairwise
from typing import Annotated

from lmtk.commands.options import (
    MAX_ORDER,
    ClassFile,
    Debug,
    MapUnk,
    Seed,
    Strict,
    VocabFile,
    given_weights,
    needed,
    one_stdin,
    option,
    unknown_word,
)
from lmtk.errors import LmtkError, UsageError


def command(
    lm: Annotated[str | None, option("lm", "A back-off or class model, as text or binary (-: stdin).", "FILE")] = None,
    classes: ClassFile = None,
    expand_classes: Annotated[
        int | None, option("expand-classes", "Write classes out as words, in n-grams up to N (0: all).", "N", min=0)
    ] = None,
    expand_most: Annotated[
        int, option("expand-most", "Fail where these would be more than N n-grams.", "N", min=1)
    ] = 10_000_000,
    expand_exact: Annotated[
        int, option("expand-exact", "Accepted as SRILM has it; what is written out is exact.", "N", min=0)
    ] = 0,
    write_lm: Annotated[str | None, option("write-lm", "Write the model as ARPA file (-: stdout).", "FILE")] = None,
    write_bin: Annotated[str | None, option("write-bin", "Write the model in binary form.", "FILE")] = None,
    write_bin_lm: Annotated[
        str | None, option("write-bin-lm", "The same as -write-bin, as SRILM has it.", "FILE")
    ] = None,
    order: Annotated[int | None, option("order", "Drop n-grams longer than N.", "N", min=1, max=MAX_ORDER)] = None,
    vocab: VocabFile = None,
    limit_vocab: Annotated[
        bool, option("limit-vocab", "Drop n-grams with words that are not in -vocab, and renormalise.")
    ] = False,
    mix_lm: Annotated[list[str] | None, option("mix-lm", "A model to merge with -lm (several).", "FILE")] = None,
    weight: Annotated[
        list[float] | None,
        option("lambda", "A weight for -lm and each -mix-lm (the last may be left out and takes the rest).", "X"),
    ] = None,
    renorm: Annotated[bool, option("renorm", "Make the back-off weights anew, so that all sums are one.")] = False,
    prune: Annotated[
        float | None, option("prune", "Drop n-grams whose loss raises perplexity by less than the share X.", "X", min=0)
    ] = None,
    minprune: Annotated[int, option("minprune", "Prune n-grams of N words or more.", "N", min=2)] = 2,
    gen: Annotated[int | None, option("gen", "Print N random sentences.", "N", min=0)] = None,
    gen_prefixes: Annotated[
        str | None, option("gen-prefixes", "Print a random continuation of each line (-: stdin).", "FILE")
    ] = None,
    seed: Seed = 1,
    unk: Annotated[
        bool, option("unk", "<unk> is a word: it is generated, and -limit-vocab leaves it what dropped words had.")
    ] = False,
    map_unk: MapUnk = None,
    strict: Strict = False,
    debug: Debug = 0,
):
    """One back-off model to another: ARPA to binary and back, merged, cut to a vocabulary, renormalised, pruned; or
    random sentences from it. A class model to a file of its own, or to a model of words.

    Steps are taken in this order: -order, -expand-classes, -mix-lm, -limit-vocab, -renorm, -prune, -gen, then
    writing. What -mix-lm makes is a back-off model near the mixture of the models, not the exact one: that is lmtk mix.

    Example: lmtk ngram -lm big.arpa.gz -prune 1e-8 -write-bin small.bin
    """
    import numpy as np

    from lmtk.files.registry import load, load_strictly
    from lmtk.files.streams import check_out, open_out
    from lmtk.joint.classes import ClassModel, class_model, expanded, write_binary
    from lmtk.joint.mixture import lowered
    from lmtk.ngram import arpa, backoff, generation, merge, pruning
    from lmtk.text.corpus import Closed, Marks, read_ids
    from lmtk.text.vocab import SOS, read_vocab

    needed(lm, "lm")
    write_bin = write_bin_lm or write_bin
    if not (write_lm or write_bin or gen is not None or gen_prefixes):
        raise UsageError("nothing to do: give -write-lm, -write-bin, -gen or -gen-prefixes")
    if bool(vocab) != limit_vocab:
        raise UsageError("-vocab and -limit-vocab need each other here")
    if weight and not mix_lm:
        raise UsageError("-lambda is for -mix-lm, which is missing")
    if (write_lm, write_bin, "-" if gen is not None or gen_prefixes else None).count("-") > 1:
        raise UsageError("only one of the outputs can be stdout")
    one_stdin(lm, classes, *(mix_lm or []), vocab, gen_prefixes)
    unknown = unknown_word(map_unk) if map_unk else None
    weights = given_weights(weight, 1 + len(mix_lm or []))
    for path in (write_lm, write_bin):
        if path:
            check_out(path)

    def tell(what, model):
        if debug:
            sizes = ", ".join(f"{int((~np.isnan(x.logp)).sum())} {k}-grams" for k, x in enumerate(model.levels, 1))
            sys.stderr.write(f"{what}: {sizes}\n")

    changed = mix_lm or limit_vocab or renorm or prune or gen is not None or gen_prefixes or unknown
    only_written = write_bin and not (write_lm or changed)
    written_out = []

    def read(path, classes=None):
        model = load_strictly(path) if strict else load(path)
        model = class_model(model, path, classes) if classes else model
        if isinstance(model, ClassModel):
            model = lowered(model, min(order or model.order, expand_classes or model.order))
            if expand_classes is not None:
                model = expanded(model, expand_most, path)
                written_out.append(path)
            elif only_written:
                return model
        if not isinstance(model, backoff.Backoff):
            kind = next(value for name, value in model.describe() if name == "kind")
            remedy = ", which -expand-classes makes of it" if isinstance(model, ClassModel) else ""
            raise LmtkError(f"{path}: {kind}; a back-off n-gram was wanted{remedy}")
        model = model.lower(min(order or model.order, model.order))
        tell(path, model)
        return merge.with_unknown(model, unknown) if unknown else model

    model = read(lm, classes)
    if isinstance(model, ClassModel):
        with open_out(write_bin) as out:
            write_binary(out, model, lm)
        return
    if mix_lm:
        model = merge.mixture([model, *map(read, mix_lm)], weights)
        tell("-mix-lm", model)
    if expand_classes is not None and not written_out:
        raise LmtkError(f"{lm}: no class model, so that there is nothing to expand; -classes makes it one")
    if limit_vocab:
        model = merge.limited(model, read_vocab(vocab), unk)
        tell("-limit-vocab", model)
    if renorm:
        model = pruning.renormalized(model)
    if prune:
        model = pruning.pruned(model, prune, minprune)
        tell(f"-prune {prune:g}", model)
    prefixes = [[model.vocab.index[SOS]]] * (gen or 0)
    if gen_prefixes:
        ids, starts, _ = read_ids(gen_prefixes, Closed(model.vocab.index, model.vocab.unk_id), Marks(False, False))
        prefixes += [ids[first:last].tolist() for first, last in pairwise(starts)]
    if prefixes:
        for found in generation.sentences(model, prefixes, seed, unk):
            sys.stdout.buffer.write(b" ".join(model.vocab.words[w] for w in found) + b"\n")
    if write_lm:
        with open_out(write_lm) as out:
            arpa.write_text(out, model)
    if write_bin:
        with open_out(write_bin) as out:
            backoff.write_binary(out, model)
