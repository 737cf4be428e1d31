import contextlib
import os
import sys
import time
from typing import Annotated

from lmtk.commands.options import (
    MAX_ORDER,
    Debug,
    Heldout,
    MapUnk,
    NoEos,
    NoSos,
    Quiet,
    Resume,
    SaveEvery,
    Seed,
    Stream,
    Threads,
    Tolower,
    Unk,
    VocabFile,
    needed,
    one_stdin,
    option,
    unknown_word,
)
from lmtk.commands.progress import Bar, interruptible, remove
from lmtk.errors import Diverged, LmtkError, UsageError

OURS = {
    "epochs": 5, "rate": 0.02, "decay": None, "weight_decay": 3e-5, "feature_rate": 4.0, "minibatch": 256,
    "objective": None,
}  # fmt: skip
# section 4, and an update an example; 10 to 20 epochs for the Brown corpus, ended by the held-out text
PAPER = {
    "epochs": 20, "rate": 1e-3, "decay": 1e-8, "weight_decay": 1e-4, "feature_rate": 1.0, "minibatch": 1,
    "objective": "full",
}  # fmt: skip
FEW = 2000  # words up to which an update may as well see all of them
OBJECTIVES = {
    "nplm": ("full", "shortlist", "sampled", "nce", "class", "tree"),
    "rnn": ("full", "sampled", "nce"),
    "energy": ("full", "sampled"),
}  # by model
DRAWN = "sampled", "nce"  # those that see words that are drawn


def command(
    text: Annotated[str | None, option("text", "Training text (-: stdin).", "FILE")] = None,
    heldout: Heldout = None,
    lm: Annotated[str | None, option("lm", "The model to write.", "FILE")] = None,
    vocab: VocabFile = None,
    unk: Unk = False,
    map_unk: MapUnk = "<unk>",
    model: Annotated[
        str, option("model", "nplm; rnn, recurrent; or energy: that of section 5.1 of the paper.", "nplm|rnn|energy")
    ] = "nplm",
    target_weights: Annotated[
        bool, option("target-weights", "With -model energy: output weights v for each word.")
    ] = False,
    order: Annotated[
        int | None,
        option(
            "order", "n: predict a word from the n-1 before it (default: 8, with rnn 10).", "N", min=1, max=MAX_ORDER
        ),
    ] = None,
    hidden: Annotated[int, option("hidden", "h, hidden units (0: none, with -direct).", "N", min=0)] = 100,
    features: Annotated[int, option("features", "m, features a word.", "N", min=1)] = 60,
    direct: Annotated[bool, option("direct", "W: direct connections from the features to the outputs.")] = False,
    paper: Annotated[
        bool, option("paper", "The paper's recipe: its rate, decay and weight decay, an example an update.")
    ] = False,
    epochs: Annotated[
        int | None, option("epochs", "Passes over the text (default: 5, with -paper 20).", "N", min=1)
    ] = None,
    rate: Annotated[
        float | None, option("rate", "eps_0, the rate of one example (default: 0.02, with -paper 0.001).", "X", min=0)
    ] = None,
    decay: Annotated[
        float | None,
        option(
            "decay",
            "r: the rate is eps_0/(1+rt) after t examples (default: falls linearly to 0, with -paper 1e-8).",
            "X",
            min=0,
        ),
    ] = None,
    weight_decay: Annotated[
        float | None,
        option(
            "weight-decay", "Decay of U, W, H and C, not of the biases (default: 3e-5, with -paper 1e-4).", "X", min=0
        ),
    ] = None,
    feature_rate: Annotated[
        float | None, option("feature-rate", "C learns X times faster (default: 4, with -paper 1).", "X", min=0)
    ] = None,
    dropout: Annotated[float, option("dropout", "Share of x and a left out of an update.", "X", min=0, max=0.99)] = 0,
    objective: Annotated[
        str | None,
        option(
            "objective",
            "What an update sees (default: a sample of the words; with -paper or few words, all of them).",
            "full|shortlist|sampled|nce|class|tree",
        ),
    ] = None,
    shortlist: Annotated[
        int | None, option("shortlist", "N, words of the network with -objective shortlist (2000).", "N", min=1)
    ] = None,
    lm_rest: Annotated[
        str | None, option("lm-rest", "The back-off model of the other words, with -objective shortlist.", "FILE")
    ] = None,
    classes: Annotated[
        str | None,
        option("classes", "Classes for -objective class, paths for tree (default: from the frequencies).", "FILE"),
    ] = None,
    tree_features: Annotated[
        str | None, option("tree-features", "Features of words to make a tree of, for -objective tree.", "FILE")
    ] = None,
    samples: Annotated[
        int | None,
        option("samples", "S, words drawn for a minibatch with -objective sampled or nce (250).", "S", min=1),
    ] = None,
    effective_samples: Annotated[
        float | None,
        option("effective-samples", "With -objective sampled: draw until the sample is worth X words.", "X", min=1),
    ] = None,
    proposal: Annotated[
        str | None,
        option("proposal", "What words are drawn from: uniform, or a back-off model (default: unigram).", "FILE"),
    ] = None,
    minibatch: Annotated[
        int | None, option("minibatch", "K, examples in an update (default: 256, with -paper 1).", "K", min=1)
    ] = None,
    patience: Annotated[
        int | None,
        option(
            "patience", "Stop after N epochs without a better held-out perplexity (default: 3 with -decay).", "N", min=1
        ),
    ] = None,
    init_features: Annotated[
        str | None, option("init-features", "C of words known beforehand (word2vec text).", "FILE")
    ] = None,
    seed: Seed = 1,
    threads: Threads = None,
    mpi: Annotated[bool, option("mpi", "Train with the ranks of mpiexec.")] = False,
    parallel: Annotated[
        str | None,
        option("parallel", "With -mpi: the ranks share the output units (default), or the text.", "outputs|data"),
    ] = None,
    no_sos: NoSos = False,
    no_eos: NoEos = False,
    stream: Stream = False,
    tolower: Tolower = False,
    save_every: SaveEvery = None,
    resume: Resume = False,
    debug: Debug = 0,
    quiet: Quiet = False,
):
    """Train the neural model of Bengio et al. 2003: y = b + Wx + U tanh(d + Hx).

    The model with the best held-out perplexity is kept. -debug 1 prints a line an epoch.

    \b
    Example: lmtk nplm-train -text train.txt -heldout valid.txt -unk -hidden 50 -lm nplm.bin
    """
    needed(text, "text"), needed(lm, "lm")
    one_stdin(text, heldout, vocab, init_features, classes, tree_features, proposal)
    if model not in OBJECTIVES:
        raise UsageError(f"-model is {either(OBJECTIVES)}, not {model}")
    if objective and objective not in OBJECTIVES[model]:
        which = "" if model == "nplm" else f" with -model {model}"
        raise UsageError(f"-objective{which} is {either(OBJECTIVES[model])}, not {objective}")
    outputs = mpi and parallel != "data"
    refused = {
        "-model energy has no direct connections; leave out -direct": model == "energy" and direct,
        "-model energy needs hidden units; -hidden 0 leaves only the biases": model == "energy" and hidden == 0,
        "-model rnn needs hidden units; give -hidden": model == "rnn" and hidden == 0,
        "-model energy has no -dropout": model == "energy" and dropout,
        "-hidden 0 leaves no way from the features to the outputs; add -direct": hidden == 0 and not direct,
        "-target-weights needs -model energy": target_weights and model != "energy",
        "-objective shortlist needs -lm-rest, the model of the other words": objective == "shortlist" and not lm_rest,
        "-lm-rest needs -objective shortlist": lm_rest and objective != "shortlist",
        "-shortlist needs -objective shortlist": shortlist and objective != "shortlist",
        "-lm-rest names a file that stays, not stdin": lm_rest == "-",
        "-samples needs -objective sampled or nce": samples and objective not in (None, *DRAWN),
        "-proposal needs -objective sampled or nce": proposal and objective not in (None, *DRAWN),
        "-effective-samples needs -objective sampled": effective_samples and objective not in (None, "sampled"),
        "-effective-samples looks at the outputs of -model nplm or rnn": effective_samples and model == "energy",
        "-classes needs -objective class or tree": classes and objective not in ("class", "tree"),
        "-tree-features needs -objective tree": tree_features and objective != "tree",
        "-classes and -tree-features are two trees; give one": classes and tree_features,
        "-parallel needs -mpi": parallel and not mpi,
        f"-parallel is outputs or data, not {parallel}": parallel not in (None, "outputs", "data"),
        "-mpi cannot share the outputs of -model energy; add -parallel data": outputs and model == "energy",
        f"-mpi cannot share the outputs of -objective {objective}; add -parallel data": outputs
        and objective in ("class", "tree"),
    }
    for why, so in refused.items():
        if so:
            raise UsageError(why)
    given = {
        "epochs": epochs, "rate": rate, "decay": decay, "weight_decay": weight_decay, "feature_rate": feature_rate,
        "minibatch": minibatch,
        "objective": objective or ("sampled" if samples or proposal or effective_samples else None),
    }  # fmt: skip
    order = order or (10 if model == "rnn" else 8)
    recipe = (PAPER if paper else OURS) | {name: value for name, value in given.items() if value is not None}
    if patience is None:
        # while the rate still falls to 0 a worse epoch says little: most of the gain comes at the end
        patience = recipe["epochs"] if recipe["decay"] is None else 3
    if objective == "shortlist":
        shortlist = shortlist or 2000

    from lmtk.files.registry import load
    from lmtk.files.streams import check_out, open_in, open_out, written_in_place
    from lmtk.joint.mixture import name_in
    from lmtk.joint.shortlist import shortlisted
    from lmtk.machine.parallel import ALONE, Common, block, ranks
    from lmtk.machine.threads import count, limit
    from lmtk.ngram.generation import mean_chances
    from lmtk.nplm import training, tree
    from lmtk.nplm.classes import read as read_classes
    from lmtk.text.corpus import Marks, count_words, whole_corpus
    from lmtk.text.vocab import make_vocab, read_vocab

    if text == "-" and not vocab:
        raise UsageError("-text - is read twice without -vocab; give -vocab or a file")
    limit(threads or (1 if mpi else None))
    drawn_by_model = proposal not in (None, "uniform")
    checkpoint = None if written_in_place(lm) else lm + ".ckpt"

    def words_tree(known):
        """What makes the tree of -objective tree of the words' counts; None: Huffman's."""
        if objective != "tree" or not (classes or tree_features):
            return None
        if classes:
            strings = tree.read_strings(classes, known)
            return lambda counts: tree.from_strings(strings, counts)
        vectors = training.read_features(tree_features, known)
        return lambda counts: tree.from_strings(tree.bisected(vectors, counts), counts)

    def prepare():
        """(training.Settings, training.Data, training.Progress, the model of -proposal) from the files."""
        check_out(lm)
        noise = backoff(proposal) if drawn_by_model else None
        marks = Marks.of(no_sos, no_eos, stream)
        words = read_vocab(vocab, tolower) if vocab else None
        if words is None:
            counts = count_words([text], tolower)
            words = sorted(counts, key=lambda w: (-counts[w], w))
        known = make_vocab(words, unk, marks.eos, unknown_word(map_unk), vocab or text)
        if outputs:
            block(known.V, comm)  # fails here, on one rank, if it would on all
        seen = recipe["objective"] or ("full" if known.V <= FEW else "sampled")
        settings = training.Settings(
            **recipe | {"objective": seen}, order=order, hidden=hidden, features=features, direct=direct,
            dropout=dropout or None, patience=patience, seed=seed,
            samples=(samples or 250) if seen in DRAWN else None, shortlist=shortlist,
            proposal="back-off" if drawn_by_model else proposal, effective_samples=effective_samples,
            model=model if model != "nplm" else None, target_weights=target_weights if model == "energy" else None,
        )  # fmt: skip
        corpus = whole_corpus(text, known, marks, tolower)
        held = whole_corpus(heldout, known, marks, tolower) if heldout else None
        data = training.examples(corpus, known, order, held)
        if held is not None and not (held.scored & (held.ids < known.V)).any():
            raise LmtkError(f"{heldout}: no word of the vocabulary in it")
        given = training.read_features(init_features, known, features) if init_features else None
        grouped = read_classes(classes, known) if classes and objective == "class" else None
        network = training.initial(known, settings, data.w, given, grouped, words_tree(known))
        if objective == "shortlist":
            network = shortlisted(network, data.w, shortlist, load(lm_rest), lm_rest, name_in(lm, lm_rest))
        if not (resume and checkpoint and os.path.exists(checkpoint)):
            return settings, data, training.Progress(network), noise
        with open_in(checkpoint) as stream_in:
            progress = training.read_checkpoint(stream_in, checkpoint, settings, data, network)
        if debug:
            sys.stderr.write(f"going on from {checkpoint}: epoch {progress.epoch + 1}, step {progress.step + 1}\n")
        return settings, data, progress, noise

    with ranks(debug > 0) if mpi else contextlib.nullcontext(ALONE) as comm:
        first = comm.rank == 0
        settings, data, progress, noise = comm.share(prepare)
        if noise:
            data = training.replace(data, proposal=mean_chances(noise, progress.network.vocab))

        def save(network):
            if first:
                with open_out(checkpoint) as out:
                    training.write_checkpoint(out, progress, network, settings, data)

        def finish():
            if first:
                with open_out(lm) as out:
                    training.replace(progress.best, settings=vars(settings)).write(out)

        def due(last, step):
            return save_every and step // save_every > last // save_every

        common = Common(comm) if parallel == "data" else None
        stop = 0
        with Bar(quiet or not first, progress.epoch / settings.epochs) as bar, interruptible() as cut:
            tell = Reporter(debug * first, bar, len(data.w), settings, progress)
            try:
                last = progress.step
                for over, now in training.train(progress, data, settings, count(), comm, common):
                    tell(progress, over)
                    if stop := comm.largest(cut[0] if cut else 0):
                        if checkpoint:
                            save(now())
                        break
                    if checkpoint and save_every != 0 and (over or due(last, progress.step)):
                        save(now())
                    last = progress.step
            except Diverged as e:
                # every rank comes here, one tells; from here on the same run would come to the same end
                comm.follow()
                remove(checkpoint)
                kept = f"; the best model so far, of epoch {progress.best_epoch}, is in {lm}" if progress.best else ""
                if progress.best:
                    finish()
                raise Diverged(f"{e}{kept}") from None
        if first and stop:
            sys.stderr.write("lmtk nplm-train: interrupted")
            sys.stderr.write(f"; -resume goes on from {checkpoint}\n" if checkpoint else "\n")
        if progress.best or not stop:
            finish()
        times = comm.times()
        if first and times is not None:
            shown = ", ".join(f"{name} {t:.3f} s" for name, t in zip(("compute", "communication", "waiting"), times))
            sys.stderr.write(f"{comm.size} ranks, mean: {shown}\n")
    if stop:
        sys.exit(128 + stop)
    if first:
        remove(checkpoint)


def backoff(path):
    """The back-off model in a file. Raises UsageError for other kinds."""
    from lmtk.files.registry import load
    from lmtk.ngram.backoff import Backoff

    model = load(path)
    if not isinstance(model, Backoff):
        raise UsageError(f"-proposal is uniform or a back-off model, not {next(model.describe())[1]}")
    return model


def either(names):
    """ "a, b or c"."""
    *most, last = names
    return f"{', '.join(most)} or {last}"


class Reporter:
    """A line an epoch at -debug 1; on a terminal a bar with the time to go."""

    def __init__(self, debug, bar, N, settings, progress):
        self.debug, self.bar, self.N, self.K, self.epochs = debug, bar, N, settings.minibatch, settings.epochs
        self.done = self.first = self.position(progress)
        self.begun = self.epoch_begun = time.monotonic()

    def position(self, progress):
        return progress.epoch * self.N + min(progress.step * self.K, self.N)

    def __call__(self, progress, over):
        at = self.position(progress)
        if over or progress.step % 16 == 0:
            speed = (at - self.first) / max(time.monotonic() - self.begun, 1e-9)
            epoch = min(progress.epoch + 1, self.epochs)
            self.bar(at / (self.N * self.epochs), f"epoch {epoch}/{self.epochs}  {speed:,.0f} words/s")
        if over and self.debug:
            now = time.monotonic()
            ppl, heldout = progress.ppl[-1]
            line = f"epoch {progress.epoch}: "
            line += "" if ppl is None else f"training ppl= {ppl:.7g} "
            line += "" if heldout is None else f"held-out ppl= {heldout:.7g} "
            line += f"{(at - self.done) / (now - self.epoch_begun):.0f} words/s"
            if heldout is not None and progress.best_epoch == progress.epoch:
                line += " best"
            self.bar.tell(line)
            self.done, self.epoch_begun = at, now
