import contextlib
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated

from lmtk.commands.options import (
    MAX_ORDER,
    Debug,
    Finish,
    Heldout,
    LogFile,
    MapUnk,
    NoEos,
    NoSos,
    PlotFile,
    Quiet,
    Resume,
    SaveEvery,
    Stream,
    Threads,
    Tolower,
    Unk,
    VocabFile,
    check_trained,
    needed,
    one_stdin,
    option,
    seed_in,
    unknown_word,
)
from lmtk.errors import LmtkError, UsageError


def command(
    text: Annotated[str | None, option("text", "Training text (-: stdin).", "FILE", group="Data")] = None,
    heldout: Heldout = None,
    lm: Annotated[str | None, option("lm", "The model to write.", "FILE", group="Output")] = None,
    vocab: VocabFile = None,
    unk: Unk = False,
    map_unk: MapUnk = "<unk>",
    model: Annotated[
        str,
        option(
            "model",
            "nplm: a window of words; rnn, gru, lstm: recurrent; energy: section 5.1 of the paper.",
            "nplm|rnn|gru|lstm|energy",
            group="Model",
        ),
    ] = "nplm",
    target_weights: Annotated[
        bool, option("target-weights", "With -model energy: output weights v for each word.", group="Model")
    ] = False,
    order: Annotated[
        int | None,
        option(
            "order",
            "n: predict a word from the n-1 before it (default: 8, rnn 10, gru and lstm 32).",
            "N",
            min=1,
            max=MAX_ORDER,
            group="Model",
        ),
    ] = None,
    hidden: Annotated[
        int, option("hidden", "h, hidden units (0: none, with -direct).", "H", min=0, group="Model")
    ] = 100,
    features: Annotated[int, option("features", "m, features a word.", "M", min=1, group="Model")] = 60,
    senses: Annotated[
        int | None,
        option(
            "senses",
            "K feature vectors a word, among which its context chooses.",
            "K",
            min=2,
            max=100,
            group="Model",
        ),
    ] = None,
    direct: Annotated[
        bool, option("direct", "W: direct connections from the features to the outputs.", group="Model")
    ] = False,
    tied: Annotated[
        bool, option("tied", "U is C: a word's features are its output's weights (h = m).", group="Model")
    ] = False,
    paper: Annotated[
        bool,
        option(
            "paper",
            "The paper's recipe: its rate, decay and weight decay, all words, an example an update.",
            group="Training",
        ),
    ] = False,
    epochs: Annotated[
        int | None,
        option(
            "epochs", "Passes over the text (default: 5; gru, lstm 8; with -paper 20).", "N", min=1, group="Training"
        ),
    ] = None,
    rate: Annotated[
        float | None,
        option(
            "rate",
            "eps_0, the rate of one example (default: 0.02; gru, lstm 0.03; with -paper 0.001).",
            "X",
            min=0,
            group="Training",
        ),
    ] = None,
    decay: Annotated[
        float | None,
        option(
            "decay",
            "r: the rate is eps_0/(1+rt) after t examples (default: falls linearly to 0, with -paper 1e-8).",
            "R",
            min=0,
            group="Training",
        ),
    ] = None,
    weight_decay: Annotated[
        float | None,
        option(
            "weight-decay",
            "Decay of U, W, H and C, not of the biases (default: 3e-5; gru, lstm 0; with -paper 1e-4).",
            "X",
            min=0,
            group="Training",
        ),
    ] = None,
    feature_rate: Annotated[
        float | None,
        option(
            "feature-rate",
            "C learns with X times the rate (default: 4; gru, lstm 1; with -paper 1).",
            "X",
            min=0,
            group="Training",
        ),
    ] = None,
    dropout: Annotated[
        float,
        option("dropout", "The share of x and a that an update leaves out.", "X", min=0, max=0.99, group="Training"),
    ] = 0,
    objective: Annotated[
        str | None,
        option(
            "objective",
            "What an update sees (default: sampled; full with -paper or at most 2000 words).",
            "full|shortlist|sampled|nce|class|tree",
            group="Objective",
        ),
    ] = None,
    shortlist: Annotated[
        int | None,
        option(
            "shortlist",
            "N, words of the network with -objective shortlist (default: 2000).",
            "N",
            min=1,
            group="Objective",
        ),
    ] = None,
    lm_rest: Annotated[
        str | None,
        option(
            "lm-rest", "The back-off model of the other words, with -objective shortlist.", "FILE", group="Objective"
        ),
    ] = None,
    classes: Annotated[
        str | None,
        option(
            "classes",
            "Classes for -objective class, paths for tree (default: from the frequencies).",
            "FILE",
            group="Objective",
        ),
    ] = None,
    tree_features: Annotated[
        str | None,
        option("tree-features", "Features of words to make a tree of, for -objective tree.", "FILE", group="Objective"),
    ] = None,
    samples: Annotated[
        int | None,
        option(
            "samples",
            "S, words drawn for a minibatch with -objective sampled or nce (default: 250).",
            "S",
            min=1,
            max=1_000_000,
            group="Objective",
        ),
    ] = None,
    effective_samples: Annotated[
        float | None,
        option(
            "effective-samples",
            "With -objective sampled: draw until the sample is worth X words.",
            "X",
            min=1,
            max=1_000_000,
            group="Objective",
        ),
    ] = None,
    proposal: Annotated[
        str | None,
        option(
            "proposal",
            "What words are drawn from: uniform, or a back-off model (default: unigram).",
            "FILE",
            group="Objective",
        ),
    ] = None,
    minibatch: Annotated[
        int | None,
        option(
            "minibatch",
            "K, examples in an update (default: 256; gru, lstm 1024; with -paper 1).",
            "K",
            min=1,
            group="Training",
        ),
    ] = None,
    patience: Annotated[
        int | None,
        option(
            "patience",
            "Stop after N epochs without a better held-out perplexity (default: 3 with -decay, else never).",
            "N",
            min=1,
            group="Training",
        ),
    ] = None,
    init_features: Annotated[
        str | None, option("init-features", "C of words known beforehand (word2vec text).", "FILE", group="Model")
    ] = None,
    seed: seed_in("Training") = 1,
    threads: Threads = None,
    mpi: Annotated[bool, option("mpi", "Train with the ranks of mpiexec.", group="Parallel")] = False,
    parallel: Annotated[
        str | None,
        option(
            "parallel",
            "With -mpi: the ranks share the output units, or the text (default: outputs).",
            "outputs|data",
            group="Parallel",
        ),
    ] = None,
    no_sos: NoSos = False,
    no_eos: NoEos = False,
    stream: Stream = False,
    tolower: Tolower = False,
    save_every: SaveEvery = None,
    resume: Resume = False,
    finish: Finish = False,
    log: LogFile = None,
    plot: PlotFile = None,
    debug: Debug = 0,
    quiet: Quiet = False,
):
    """Train the neural model of Bengio et al. 2003: y = b + Wx + U tanh(d + Hx).

    The model with the best held-out perplexity is kept. -debug 1 prints a line an epoch.

    \b
    Example: lmtk nplm-train -text train.txt -heldout valid.txt -unk -hidden 50 -lm nplm.bin
    """
    o = SimpleNamespace(**locals())
    needed(lm, "lm")
    if not finish:
        check(o)

    from lmtk import run
    from lmtk.machine.parallel import ALONE, ranks, tell_alone
    from lmtk.machine.threads import use

    if not mpi:
        tell_alone()
    use(threads or (1 if mpi else None))
    with ranks(debug > 0) if mpi else contextlib.nullcontext(ALONE) as comm:
        if finish:
            comm.share(lambda: run.finish("nplm-train", lm))
            return
        learn(o, comm)
        times = comm.times()
        if comm.rank == 0 and times is not None:
            shown = ", ".join(f"{name} {t:.3f} s" for name, t in zip(("compute", "communication", "waiting"), times))
            sys.stderr.write(f"{comm.size} ranks, mean: {shown}\n")


def check(o):
    """Raise UsageError where options do not go together."""
    from lmtk.nplm.objectives import MODELS
    from lmtk.nplm.recipes import DRAWN

    needed(o.text, "text")
    one_stdin(o.text, o.heldout, o.vocab, o.init_features, o.classes, o.tree_features, o.proposal)
    if o.model not in MODELS:
        raise UsageError(f"-model is {either(MODELS)}, not {o.model}")
    objective, energy = o.objective, o.model == "energy"
    if objective and objective not in MODELS[o.model]:
        which = f" with -model {o.model}" if o.model == "energy" else ""
        raise UsageError(f"-objective{which} is {either(MODELS[o.model])}, not {objective}")
    refused = {
        "-model energy has no direct connections; leave out -direct": energy and o.direct,
        "-model energy needs hidden units; -hidden 0 leaves only the biases": energy and o.hidden == 0,
        "-model rnn needs an -order of 2 or more; with 1 it reads no word": o.model == "rnn" and o.order == 1,
        f"-model {o.model} needs hidden units; give -hidden": o.model in ("rnn", "gru", "lstm") and o.hidden == 0,
        f"-tied needs as many -hidden as -features, not {o.hidden} and {o.features}": o.tied and o.hidden != o.features,
        "-tied leaves no room for direct connections; leave out -direct": o.tied and o.direct,
        "-tied needs -objective full, sampled or nce": o.tied and objective not in (None, "full", *DRAWN),
        "-model energy has no outputs to be -tied": o.tied and energy,
        "-model energy has no -dropout": energy and o.dropout,
        f"-senses are chosen by the words of a window, and -model {o.model} has none": o.senses
        and o.model in ("gru", "lstm", "energy"),
        "-senses and -tied do not go together: U has one vector a word": o.senses and o.tied,
        "-senses begin with features of their own; leave out -init-features": o.senses and o.init_features,
        "-hidden 0 leaves no way from the features to the outputs; add -direct": o.hidden == 0 and not o.direct,
        "-target-weights needs -model energy": o.target_weights and not energy,
        "-objective shortlist needs -lm-rest, the model of the other words": objective == "shortlist" and not o.lm_rest,
        "-lm-rest needs -objective shortlist": o.lm_rest and objective != "shortlist",
        "-shortlist needs -objective shortlist": o.shortlist and objective != "shortlist",
        "-lm-rest names a file that stays, not stdin": o.lm_rest == "-",
        "-samples needs -objective sampled or nce": o.samples and objective not in (None, *DRAWN),
        "-proposal needs -objective sampled or nce": o.proposal and objective not in (None, *DRAWN),
        "-effective-samples needs -objective sampled": o.effective_samples and objective not in (None, "sampled"),
        "-effective-samples looks at outputs that -model energy has not": o.effective_samples and energy,
        "-classes needs -objective class or tree": o.classes and objective not in ("class", "tree"),
        "-tree-features needs -objective tree": o.tree_features and objective != "tree",
        "-classes and -tree-features are two trees; give one": o.classes and o.tree_features,
        "-parallel needs -mpi": o.parallel and not o.mpi,
        f"-parallel is outputs or data, not {o.parallel}": o.parallel not in (None, "outputs", "data"),
        "-mpi cannot share the outputs of -model energy; add -parallel data": shares_outputs(o) and energy,
        "-mpi cannot share outputs that are -tied": o.mpi and o.tied,
        f"-parallel data deals out examples, and -model {o.model} reads a running text; leave it out": o.mpi
        and o.parallel == "data"
        and o.model in ("gru", "lstm"),
        f"-mpi cannot share the outputs of -objective {objective}; add -parallel data": shares_outputs(o)
        and objective in ("class", "tree"),
    }
    for why, so in refused.items():
        if so:
            raise UsageError(why)
    if not o.vocab and (o.text == "-" or Path(o.text).is_fifo()):
        raise UsageError(f"-text {o.text} is read twice without -vocab; give -vocab or a file")


def either(names):
    """ "a, b or c"."""
    *most, last = names
    return f"{', '.join(most)} or {last}"


REMEDIES = (
    "a lower -rate may help, if both texts are alike",
    "fewer -epochs, -dropout, more -weight-decay or fewer -hidden units may help",
)


def shares_outputs(o):
    return o.mpi and o.parallel != "data"


def learn(o, comm):
    """Train, with the ranks of `comm`, as the options say."""
    from lmtk import run
    from lmtk.jobs.progress import Reporter
    from lmtk.machine.parallel import Common
    from lmtk.machine.threads import count
    from lmtk.ngram.generation import mean_chances
    from lmtk.nplm import training

    settings, data, network, noise, inputs = comm.share(lambda: prepare(o, comm))
    vocab = network.vocab
    if noise:
        data = training.replace(data, proposal=mean_chances(noise, vocab))
    life = run.Run(
        program="nplm-train", model=o.lm, settings=settings, inputs=inputs,
        words=("vocab, -unk, -no-eos or -stream", vocab.words), steps=training.steps(data, settings),
        unigram=training.unigram(data, vocab), save_every=o.save_every,
        arrays=lambda progress, now: training.checkpointed(now, progress),
        parts=lambda progress: training.kept(progress, settings).parts(),
        line=line, remedies=REMEDIES,
    )  # fmt: skip
    fresh = training.before(network, settings)
    like = training.checkpointed(network, fresh), network.named()
    going_on = lambda: training.restored(*run.resumed(life, *like, o.debug), network)
    progress = comm.share(going_on if run.begun(life, o.resume) else lambda: fresh)
    tell = Reporter(life, progress, o.debug, o.quiet, o.log, o.plot, silent=comm.rank > 0)
    common = Common(comm) if o.parallel == "data" else None
    run.live(life, progress, training.train(progress, data, settings, count(), comm, common), tell, comm)


def prepare(o, comm):
    """(training.Settings, training.Data, the network before training, the model of -proposal, what the inputs are)."""
    from lmtk import run
    from lmtk.files.streams import digest
    from lmtk.machine.parallel import block
    from lmtk.nplm import recipes, training
    from lmtk.text.corpus import Marks, count_words, whole_corpus
    from lmtk.text.vocab import make_vocab, read_vocab

    inputs = o.vocab, o.classes, o.proposal, o.init_features, o.tree_features, o.lm_rest
    check_trained((o.text, o.heldout), o.lm, o.log, o.plot, inputs)
    run.check_beside(o.lm, o.resume)
    noise = backoff(o.proposal) if o.proposal not in (None, "uniform") else None
    marks = Marks.of(o.no_sos, o.no_eos, o.stream, o.tolower)
    words = read_vocab(o.vocab, o.tolower) if o.vocab else None
    if words is None:
        counts = count_words([o.text], o.tolower)
        words = sorted(counts, key=lambda w: (-counts[w], w))
    known = make_vocab(words, o.unk, marks.eos, unknown_word(o.map_unk), o.vocab or o.text)
    if shares_outputs(o):
        block(known.V, comm)  # fails here, on one rank, if it would on all
    given = {name: getattr(o, name) for name in ("order", "hidden", "features", "direct", "seed", *CHOSEN)}
    given |= {"model": None if o.model == "nplm" else o.model, "dropout": o.dropout or None}
    given |= {"tied": o.tied or None, "senses": o.senses}
    given |= {"proposal": "back-off" if noise else o.proposal}
    given |= {"target_weights": o.target_weights if o.model == "energy" else None}
    settings = recipes.settings(given, o.paper, known.V)
    corpus = whole_corpus(o.text, known, marks)
    held = whole_corpus(o.heldout, known, marks) if o.heldout else None
    data = training.examples(corpus, known, settings.order, held, settings.layer)
    if held is not None and not len(training.heldout_tokens(held, known)):
        raise LmtkError(f"{o.heldout}: no word of the vocabulary in it")
    network = before_training(o, known, settings, data.w)
    inputs = {
        "text or -heldout": training.fingerprint(data),
        "classes": crc(network.named().get("classes")),
        "classes or -tree-features": crc(network.named().get("tree")),
        "proposal": digest(o.proposal) if noise else None,
        "lm-rest": digest(o.lm_rest),
        "init-features": digest(o.init_features),
    }
    return settings, data, network, noise, inputs


# options without a default of their own, which the recipe fills in
CHOSEN = (
    "epochs", "rate", "decay", "weight_decay", "feature_rate", "minibatch", "patience", "objective", "samples",
    "effective_samples", "shortlist",
)  # fmt: skip


def before_training(o, known, settings, w):
    """The network that training starts from; w: the words of the text."""
    from lmtk.files.registry import load
    from lmtk.joint.mixture import name_in
    from lmtk.joint.shortlist import shortlisted
    from lmtk.nplm import training
    from lmtk.nplm.classes import read as read_classes

    given = training.read_features(o.init_features, known, settings.features) if o.init_features else None
    grouped = read_classes(o.classes, known) if o.classes and settings.objective == "class" else None
    network = training.initial(known, settings, w, given, grouped, words_tree(o, known))
    if settings.objective != "shortlist":
        return network
    return shortlisted(network, w, settings.shortlist, load(o.lm_rest), o.lm_rest, name_in(o.lm, o.lm_rest))


def words_tree(o, known):
    """The function that makes the tree of -objective tree from the words' counts; None: Huffman's."""
    from lmtk.nplm import training, tree

    if o.objective != "tree" or not (o.classes or o.tree_features):
        return None
    if o.classes:
        strings = tree.read_strings(o.classes, known)
        return lambda counts: tree.from_strings(strings, counts)
    vectors = training.read_features(o.tree_features, known)
    return lambda counts: tree.from_strings(tree.bisected(vectors, counts), counts)


def backoff(path):
    """The back-off model in a file. Raises UsageError for other kinds."""
    from lmtk.files.registry import load
    from lmtk.ngram.backoff import Backoff

    model = load(path)
    if not isinstance(model, Backoff):
        raise UsageError(f"-proposal is uniform or a back-off model, not {next(model.describe())[1]}")
    return model


def crc(array):
    return None if array is None else zlib.crc32(array)


def line(epoch, to_go):
    """An epoch, at -debug 1."""
    told = f"epoch {epoch.number}: "
    told += "" if epoch.ppl is None else f"training ppl{'~' if epoch.estimated else '='} {epoch.ppl:.7g} "
    told += "" if epoch.heldout is None else f"held-out ppl= {epoch.heldout_ppl:.7g} "
    return f"{told}{epoch.speed:.0f} words/s" + " best" * (epoch.best and epoch.heldout is not None)
