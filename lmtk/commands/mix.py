import math
import os
import sys
from typing import Annotated

from lmtk.commands.options import (
    Debug,
    Heldout,
    Iterations,
    Models,
    NoEos,
    NoSos,
    Stream,
    Threads,
    Tolerance,
    Tolower,
    UnkAsIs,
    Write,
    check_outputs,
    given_weights,
    one_stdin,
    option,
    short,
)
from lmtk.errors import LmtkError, UsageError


def command(
    lm: Models = None,
    weight: Annotated[
        list[float] | None,
        option(
            "lambda", "A weight for each model (the last may be left out and takes the rest).", "X", group="Weights"
        ),
    ] = None,
    heldout: Heldout = None,
    bins: Annotated[
        bool, option("bins", "Weights by the frequency of the context, learned on -heldout.", group="Weights")
    ] = False,
    write: Write = None,
    iterations: Iterations = 1000,
    tolerance: Tolerance = 0.001,
    unk: UnkAsIs = False,
    no_sos: NoSos = False,
    no_eos: NoEos = False,
    stream: Stream = False,
    tolower: Tolower = False,
    threads: Threads = None,
    debug: Debug = 0,
):
    """Mix models of any kinds: weights given, or learned on held-out text by EM.

    Prints the weights as SRILM's compute-best-mix does; -debug 1 each iteration's. The file that -write makes names
    the models, which stay where they are, and is a model itself.

    \b
    Example: lmtk mix -lm interp.lm -lm nplm.bin -heldout valid.txt -write mix.lm
    """
    import numpy as np

    from lmtk.em import em, neighbours_for_unvisited
    from lmtk.files.registry import load
    from lmtk.files.streams import open_out
    from lmtk.joint import mixture
    from lmtk.machine.threads import use
    from lmtk.text.corpus import Marks, read_corpus

    if not lm:
        raise UsageError("-lm is missing")
    if not (heldout or (weight and write)):
        raise UsageError("nothing to do: give -heldout, or -lambda and -write")
    if bins and not heldout:
        raise UsageError("-bins learns its weights on -heldout")
    one_stdin(*lm, heldout)
    if write and "-" in lm:
        raise UsageError("a mixture names its parts' files; stdin (-) can't be named")
    if write and any(os.path.realpath(path) == os.path.realpath(write) for path in lm):
        raise UsageError(f"a mixture names its parts' files; -write {write} would take the place of one")
    check_outputs(write, texts=[heldout] if heldout else [])
    start = given_weights(weight, len(lm))
    use(threads)
    parts = [load(path) for path in lm]
    mixture.check_vocabularies(parts, lm)
    binned = mixture.binned_part(parts) if bins else None
    weights = np.array([start] * (len(parts[binned].alpha) if bins else 1))
    if heldout:
        marks = Marks.of(no_sos, no_eos, stream, tolower)
        order = max(part.order for part in parts)
        found, where = [], []
        for corpus in read_corpus(heldout, parts[0].vocab, marks, order):
            logp, bin_of, *_ = mixture.part_scores(parts, corpus, binned)
            known = corpus.scored & (logp > -np.inf).any(axis=1)
            found.append(logp[known])
            where.append(bin_of[known])
        if not sum(map(len, found)):
            raise LmtkError(f"{heldout}: no word in it that the models predict")
        logp, where = np.concatenate(found), np.concatenate(where)

        def tell(iteration, weights, L):
            lambdas = f"lambda = ({short(weights[0])}), " if not bins else ""
            sys.stderr.write(f"iteration {iteration}, {lambdas}ppl = {math.exp(-L / len(logp)):.6g}\n")

        weights = em(logp, where, weights, iterations, tolerance, tell if debug else None)
        if bins:
            weights = neighbours_for_unvisited(weights, where)
        tell_best(weights, where, bins, sys.stderr if write == "-" else sys.stdout)
    if write:
        with open_out(write) as out:
            mixture.write_text(out, mixture.Mixture(parts, weights, binned, lm), write)


def tell_best(weights, where, bins, out):
    """The lines of SRILM's compute-best-mix; with bins a line for each."""
    if bins:
        for i, row in enumerate(weights):
            out.write(f"bin {i}: {(where == i).sum()} non-oov words, best lambda ({short(row)})\n")
        return
    best = weights[0]
    cumulative = [w / sum(best[: i + 1]) if sum(best[: i + 1]) else 0 for i, w in enumerate(best)]
    out.write(f"{len(where)} non-oov words, best lambda ({short(best)})\n")
    out.write(f"pairwise cumulative lambda ({short([1, *cumulative[1:]])})\n")
