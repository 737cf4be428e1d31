"""Training: a corpus to a neural model, in epochs, with checkpoints from which a run goes on to the same bytes."""

import math
import zlib
from dataclasses import MISSING, dataclass, field, fields, replace

import numpy as np

from lmtk.errors import Diverged, FormatError, LmtkError
from lmtk.files import container
from lmtk.files.streams import lines
from lmtk.machine.parallel import ALONE
from lmtk.nplm import classes, energy_sgd, tree
from lmtk.nplm.model import Neural
from lmtk.nplm.network import Network
from lmtk.nplm.objectives import EXACT, OBJECTIVES
from lmtk.nplm.recurrent import Recurrent
from lmtk.text.corpus import contexts

f32 = np.float32
ROUNDS = 64  # minibatches of each rank between two meetings, in asynchronous training


@dataclass(frozen=True)
class Settings:
    """What a run is made of; a checkpoint goes on only under the same. Rates are an example's, as the paper's."""

    order: int
    hidden: int
    features: int
    direct: bool
    rate: float  # eps_0
    decay: float | None  # r of eps_t = eps_0 / (1 + r t); None: falling linearly to 0 at the last example
    weight_decay: float
    feature_rate: float
    minibatch: int
    epochs: int
    patience: int
    seed: int
    objective: str = "full"
    samples: int | None = None  # S, with the objectives "sampled" and "nce"
    model: str | None = None  # "rnn", recurrent; "energy", that of section 5.1; None: that of section 2
    target_weights: bool | None = None  # with "energy": v for each target word
    proposal: str | None = None  # what words are drawn from: "uniform", "back-off"; None: the unigram
    effective_samples: float | None = None  # with "sampled": words are drawn until they are worth so many
    shortlist: int | None = None  # with "shortlist": N, the words of the network
    dropout: float | None = None  # the share of x and of a that an update leaves out; None: none


@dataclass(frozen=True)
class Data:
    """Training examples: contexts (N, n-1), words w (N,), ids; heldout, a Corpus or None.

    proposal: a function, contexts (K, n-1) -> (V,) chances, to draw words by; None: as the settings say.
    """

    contexts: np.ndarray
    w: np.ndarray
    heldout: object
    proposal: object = None


@dataclass
class Progress:
    """Where a run stands: `step` minibatches into `epoch` (from 0), L the sum of ln p over them.

    best: the network with the lowest held-out perplexity so far, after `best_epoch`; ppl holds (training, held-out) of
    each epoch that is over.
    """

    network: Neural
    epoch: int = 0
    step: int = 0
    L: float = 0.0
    best: Neural | None = None
    best_epoch: int = 0
    ppl: list = field(default_factory=list)


def examples(corpus, vocab, order, heldout):
    """The scored words of a corpus with their contexts; raises LmtkError where there are none."""
    at = np.flatnonzero(corpus.scored & (corpus.ids < vocab.V))
    if not len(at):
        raise LmtkError("no word of the vocabulary in the training text")
    rows = contexts(corpus, order)[at]
    return Data(np.where(rows < 0, vocab.sos_id, rows).astype(np.int32), corpus.ids[at], heldout)


def initial(vocab, settings, w, features=None, word_classes=None, words_tree=None):
    """A network before training: U = W = 0 and b the log of the unigram, C and H Gaussian of deviation 1/sqrt(inputs).

    R, of the model "rnn", is like H. That of "energy" has the same C and b, the rest as `energy_sgd` says.
    features: id -> feature vector, (m,), for words that have one beforehand (a-priori knowledge, section 5.2).
    word_classes: the class of each word, (V,), for the objective "class"; None: classes of words of like frequency.
    words_tree: a function of the words' counts, (V,), that makes the tree of the objective "tree"; None: Huffman's.
    """
    m, h, V = settings.features, settings.hidden, vocab.V
    # the words that the hidden layer and the direct connections see at once
    seen = 1 if settings.model == "rnn" else settings.order - 1
    random = np.random.default_rng(settings.seed)
    C = random.standard_normal((len(vocab.words), m)).astype(f32) / f32(math.sqrt(m))
    for i, vector in (features or {}).items():
        C[i] = vector
    counts = np.bincount(w, minlength=V) + 1
    b = np.log(counts / counts.sum()).astype(f32)
    if settings.model == "energy":
        return energy_sgd.initial(vocab, settings, C, b, random)
    H = random.standard_normal((h, seen * m)).astype(f32) / f32(math.sqrt(max(seen * m, 1)))
    W = np.zeros((V, seen * m), f32) if settings.direct else None
    theta = C, H, np.zeros(h, f32), np.zeros((V, h), f32), W, b
    if settings.model == "rnn":
        R = random.standard_normal((h, h)).astype(f32) / f32(math.sqrt(max(h, 1)))
        return Recurrent(vocab, settings.order, *theta, {}, R)
    network = Network(vocab, settings.order, *theta, {})
    if settings.objective == "tree":
        tree.check_words(V)
        return tree.add(network, counts, (words_tree or tree.from_counts)(counts))
    if settings.objective != "class":
        return network
    return classes.add(network, counts, classes.by_frequency(counts) if word_classes is None else word_classes)


def rate(settings, t, total):
    """eps_t after t examples of the `total` of all epochs: eps_0 / (1 + r t) (section 4), or falling linearly to 0."""
    if settings.decay is None:
        return settings.rate * (1 - t / total)
    return settings.rate / (1 + settings.decay * t)


def heldout_ppl(network, corpus, comm=ALONE):
    """Perplexity, as `lmtk ppl` has it: over the tokens that have a probability, of which there must be one.

    Each rank of `comm` scores a part of them.
    """
    at = np.flatnonzero(corpus.scored & (corpus.ids < network.vocab.V))
    mine = at[comm.rank :: comm.size]
    rows = network.padded(contexts(corpus, network.order)[mine])
    logp = network.score_contexts(rows, corpus.ids[mine])
    logp = logp[logp != -np.inf]
    total, tokens = comm.sum(np.array([logp.sum(), len(logp)]))
    return math.exp(min(-total / tokens, 700))


def train(progress, data, settings, threads, comm=ALONE, common=None):
    """Train from where `progress` stands, changing it; yields (epoch over, network now) after each minibatch.

    common: a `parallel.Common`, for asynchronous training (section 3.1): the minibatches are dealt out to the ranks,
    and ROUNDS of each are between one time that all ranks meet here, which yields, and the next.

    `network now` is a function, since to make a model of the parameters costs a copy; the ranks of `comm` call it
    together. Raises Diverged where the likelihood is no finite number; `progress` then still has the best network
    so far.
    """
    N, K = len(data.w), settings.minibatch
    steps = -(-N // K)
    objective = OBJECTIVES[settings.model or "nplm"][settings.objective]
    step, network = objective(progress.network, data, settings, threads, common or comm)
    first, stride, rounds = (comm.rank, comm.size, ROUNDS) if common else (0, 1, 1)

    norm = epsilon = math.nan
    while progress.epoch < settings.epochs and progress.epoch - progress.best_epoch < settings.patience:
        order = np.random.default_rng([settings.seed, progress.epoch]).permutation(N)
        while progress.step < steps:
            L, end = 0.0, min(progress.step + rounds * stride, steps)
            for number in range(progress.step + first, end, stride):
                t = progress.epoch * N + number * K
                epsilon = rate(settings, t, settings.epochs * N)
                at = order[number * K : (number + 1) * K]
                found, next_norm = step(at, epsilon, progress.epoch, number)
                L += found
            if common:
                L = float(comm.sum(np.array([L]))[0])
                common.average()
            if not math.isfinite(L):
                raise Diverged(
                    f"the likelihood is not finite at epoch {progress.epoch + 1}, step {progress.step + 1}: rate "
                    f"{epsilon:.4g}, gradient norm {norm:.4g} the step before; a lower -rate may help"
                )
            norm = next_norm
            progress.L += L
            progress.step = end
            if progress.step < steps:
                yield False, network
        finish_epoch(progress, network(), data, N if settings.objective in EXACT else None, comm)
        yield True, network


def finish_epoch(progress, network, data, N, comm):
    """Close an epoch: its perplexities, and the network kept if it is the best. Raises Diverged.

    N: the number of examples; None where their likelihoods are no exact ones, so that they make no perplexity.
    """
    heldout = heldout_ppl(network, data.heldout, comm) if data.heldout is not None else None
    if heldout is not None and math.isnan(heldout):
        raise Diverged(f"the held-out likelihood is not finite after epoch {progress.epoch + 1}; try a lower -rate")
    earlier = [h for _, h in progress.ppl]
    progress.ppl.append((math.exp(min(-progress.L / N, 700)) if N else None, heldout))
    progress.epoch += 1
    progress.step, progress.L = 0, 0.0
    if data.heldout is None or not earlier or heldout < min(earlier):
        progress.best, progress.best_epoch = network, progress.epoch


def write_checkpoint(out, progress, network, settings, data):
    """Everything that a run needs to go on."""
    arrays = network.named()
    if progress.best is not None:
        arrays |= {"best." + name: a for name, a in progress.best.named().items()}
    state = {name: getattr(progress, name) for name in ("epoch", "step", "L", "best_epoch", "ppl")}
    about = {"run": vars(settings), "data": fingerprint(data), "state": state}
    container.write(out, "nplm-checkpoint", about, arrays, network.vocab.words)


def fingerprint(data):
    """A number that tells whether two runs read the same texts."""
    crc = zlib.crc32(data.w, zlib.crc32(data.contexts))
    return crc if data.heldout is None else zlib.crc32(data.heldout.ids, crc)


def read_checkpoint(stream, path, settings, data, network):
    """The Progress in a checkpoint of a run with these settings and texts. Raises FormatError.

    network: a fresh one.
    """
    about, arrays = container.read(stream, path)
    if about["kind"] != "nplm-checkpoint":
        raise FormatError(path, f"a file of kind {about['kind']}, not a checkpoint of nplm-train")
    run = about["settings"]["run"]
    # an earlier version's checkpoint lacks options that came later
    before = {f.name: f.default for f in fields(Settings) if f.default is not MISSING}
    changed = [name.replace("_", "-") for name, value in vars(settings).items() if (before | run).get(name) != value]
    if container.words_of(arrays) != network.vocab.words:
        changed.append("vocab")
    for name, option in (("classes", "classes"), ("tree", "classes or -tree-features")):
        if not np.array_equal(arrays.get(name), getattr(network, name, None)):
            changed.append(option)
    if about["settings"]["data"] != fingerprint(data):
        changed.append("text or -heldout")
    if changed:
        raise FormatError(
            path, f"a checkpoint of another run: -{changed[0]} differs; remove it or give the same options"
        )
    state = about["settings"]["state"]

    def taken(prefix):
        return replace(network, **{name: arrays.get(prefix + name) for name in network.arrays})

    best = taken("best.") if state["best_epoch"] else None
    ppl = [tuple(pair) for pair in state["ppl"]]
    return Progress(taken(""), state["epoch"], state["step"], state["L"], best, state["best_epoch"], ppl)


def read_features(path, vocab, m=None):
    """Feature vectors of words of the vocabulary from a word2vec text file: id -> (m,) float32.

    m: None for as many as the first one has. A first line of two numbers (words, features) may stand or not. Raises
    FormatError where a line has not m numbers.
    """
    found, stated, vectors, wanted = {}, None, 0, " (-features)"
    for number, line in lines(path):
        fields = line.split()
        if number == 1 and len(fields) == 2 and all(map(bytes.isdigit, fields)):
            stated = int(fields[0])
            continue
        if not fields:
            continue
        if m is None:
            m, wanted = max(len(fields) - 1, 1), " as on the first line"
        try:
            vector = np.array(fields[1:], dtype="S").astype(f32)
        except ValueError:
            raise FormatError(path, f"expected a word and {m} numbers", number) from None
        if len(vector) != m or not np.isfinite(vector).all():
            raise FormatError(path, f"expected a word and {m} finite numbers{wanted}, got {len(vector)}", number)
        vectors += 1
        if fields[0] in vocab.index:
            found[vocab.index[fields[0]]] = vector
    if stated not in (None, vectors):
        raise FormatError(path, f"the first line says {stated} words, there are {vectors}; is it cut short?")
    if not found:
        raise FormatError(path, "no word of the vocabulary has features in it")
    return found
