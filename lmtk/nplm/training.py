"""Training of a neural model in epochs: from a Corpus to the network with the best held-out perplexity.

`make_examples` turns a text into words with their contexts, and `initial_network` makes the model before training.
`train` runs the epochs by an `objectives.Learner` and keeps the state of the run in a `Progress`. `checkpoint_arrays`
and `restore` write and read this state: a resumed run ends with the same bytes as a run that never stopped.
`read_features` reads word vectors to start from.
"""

import math
import zlib
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import numpy as np

from lmtk.clock import Clock
from lmtk.errors import Diverged, FormatError, LmtkError, counted
from lmtk.files import curve
from lmtk.files.decoding import WORD, lines
from lmtk.machine import memory
from lmtk.machine.parallel import ALONE
from lmtk.nplm import classes, layers, objectives, running, tree
from lmtk.nplm.network import Network
from lmtk.nplm.objectives import ESTIMATED, EXACT, count_steps, minibatch_size, with_low, without_low
from lmtk.nplm.pace import split_contexts

f32 = np.float32
# settings that are written to a model's file only if they are set; add new settings here, so that models without them
# keep their bytes
LATER = "paper", "minutes", "word_dropout", "weight_dropout", "layers"
ROUNDS = 64  # minibatches of each rank between two averages of the parameters, in asynchronous training


@dataclass(frozen=True)
class Settings:
    """The settings of a run; a checkpoint is resumed only with the same ones. Rates are for one example, as in the
    paper.
    """

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
    model: str | None = None  # the hidden layer, a name in layers.LAYERS; None: that of section 2
    target_weights: bool | None = None  # with "energy": whether each target word has its own v
    proposal: str | None = None  # the distribution that words are drawn from: "uniform", "back-off"; None: the unigram
    effective_samples: float | None = None  # with "sampled": draw until this effective sample size is reached
    shortlist: int | None = None  # with "shortlist": N, the number of words that the network predicts
    dropout: float | None = None  # the share of x and of a that is set to 0 in an update; None: no dropout
    word_dropout: float | None = None  # the share of the words whose features are set to 0 in an update
    weight_dropout: float | None = None  # the share of R that is set to 0 in an update
    tied: bool | None = None  # whether U is C
    senses: int | None = None  # feature vectors for each word; None: one
    paper: bool | None = None  # random first values of all weights, and the text in order
    minutes: float | None = None  # the run ends after this time, with the rate then at 0; None: after the epochs
    layers: int | None = None  # hidden layers of the model, one above the other; None: one

    @property
    def layer_name(self):
        """The name of the hidden layer, or of the stack of them, in layers.LAYERS."""
        return layers.stack_name(self.model or "nplm", self.layers or 1)

    @property
    def layer(self):
        return layers.LAYERS[self.layer_name]

    @property
    def output(self):
        """The name of the output layer in `network.OUTPUTS`."""
        if self.model == "energy":
            return "energy"
        if self.objective not in objectives.OBJECTIVES["full"]:
            return self.objective  # an output layer with only one objective has its name: class, tree, shortlist
        return "tied" if self.tied else "full"


class Windows:
    """The contexts (N, n-1) of the words at the places `at` (N,) of a Corpus, the last word first, computed on demand:
    windows[rows] -> ids.

    ids: the text; before (.,): for each word of the text, how many words of its sentence precede it, at most n - 1. The
    places before the first word of a sentence get <s>, whose id is sos.
    """

    def __init__(self, corpus, at, n, sos):
        self.ids, self.n, self.sos = corpus.ids, n, sos
        self.at = at if len(corpus.ids) > 1 << 31 else at.astype(np.int32)
        self.before = np.full(len(corpus.ids), n - 1, np.int16)
        starts, ends = corpus.starts[:-1], corpus.starts[1:]
        for k in range(n - 1):
            self.before[(starts + k)[starts + k < ends]] = k

    def __len__(self):
        return len(self.at)

    def __getitem__(self, rows):
        at, back = self.at[rows], np.arange(1, self.n)
        contexts = self.ids[np.maximum(at[:, None] - back, 0)]
        contexts[self.before[at][:, None] < back] = self.sos
        return contexts


@dataclass(frozen=True)
class Data:
    """Training examples: contexts (N, n-1), an array or Windows; words w (N,), ids; heldout, a Corpus or None.

    For a layer that carries its state, the examples are the steps of the text in order: contexts (N, 1) hold the
    previous word; w is -1 for a word that is read, but not predicted; fresh (N,) bool: whether a step is the first of a
    sentence. proposal: a function, contexts (K, n-1) -> (V,) probabilities, the proposal distribution; None: the
    settings choose it.
    """

    contexts: np.ndarray
    w: np.ndarray
    heldout: object
    proposal: object = None
    fresh: np.ndarray | None = None


@dataclass
class Progress:
    """The state of a run: `step` minibatches of `epoch` (from 0) are done, and L is the sum of ln p over them.

    best: the network with the lowest held-out perplexity so far, after `best_epoch`; curve: a curve.Epoch for each
    finished epoch; seconds: the training time so far; out_of_time: whether -minutes are over; state: the arrays of
    `Learner.state`, by name.
    """

    network: Network
    epoch: int = 0
    step: int = 0
    L: float = 0.0
    best: Network | None = None
    best_epoch: int = 0
    curve: list = field(default_factory=list)
    seconds: float = 0.0
    out_of_time: bool = False
    state: dict = field(default_factory=dict)


def make_examples(corpus, vocab, order, heldout, layer=layers.LAYERS["nplm"]):
    """The scored words of a corpus with their contexts. Raises LmtkError if there are none."""
    counted = corpus.scored & (corpus.ids < vocab.V)
    at = np.flatnonzero(counted)
    if not len(at):
        raise LmtkError("the training text has no word of the vocabulary")
    if layer.carries:
        text = running.text_steps(corpus, vocab.sos_id)
        w = np.where(counted[text.at], corpus.ids[text.at], -1)
        return Data(text.inputs[:, None], w, heldout, fresh=text.fresh)
    return Data(Windows(corpus, at, order, vocab.sos_id), corpus.ids[at], heldout)


def initial_network(vocab, settings, w, features=None, word_classes=None, strings_of=None):
    """The network before training: U = W = 0, b the log of the unigram, C and H Gaussian of deviation 1/sqrt(inputs).
    With settings.paper the U and W of a softmax over all words are Gaussian too, and its b is 0.

    The arrays of other layers are like H, and so is v of "energy": from v = 0, one set of output weights would need
    epochs to leave 0. The b of "energy" is minus the log of the unigram. w: the words of the text. features: id ->
    feature vector, (m,), for words with vectors known beforehand (a-priori knowledge, section 5.2, item 4).
    word_classes: the class of each word, (V,), for the objective "class"; None: classes of words of similar frequency.
    strings_of: a function of the counts of the words, (V,), that gives their strings in the tree for the objective
    "tree"; None: no word has one (`tree.tree_of_strings`).
    """
    n, m, h, V = settings.order, settings.features, settings.hidden, vocab.V
    random = np.random.default_rng(settings.seed)
    C = random.standard_normal((len(vocab.words), (settings.senses or 1) * m)).astype(f32) / f32(math.sqrt(m))
    for i, vector in (features or {}).items():
        C[i] = vector
    counts = np.bincount(w[w >= 0], minlength=V) + 1
    b = np.zeros(V, f32) if settings.paper else np.log(counts / counts.sum()).astype(f32)
    theta = {"C": C} | layers.initial_arrays(settings.layer, random, n, m, h)
    seen = settings.layer.sees(n) * m if settings.direct else None
    outputs, of_output = V, {"b": b}
    if settings.objective == "tree":
        if V < 2:
            raise LmtkError("a tree needs at least two words to predict, and the vocabulary has one")
        of_output["tree"] = tree.tree_of_strings(strings_of(counts) if strings_of else [None] * V, counts)
        outputs, of_output["b"] = V - 1, tree.initial_biases(counts, of_output["tree"])
    if settings.objective == "class":
        class_of = classes.classes_by_frequency(counts) if word_classes is None else word_classes
        of_output |= classes.initial_arrays(counts, class_of, h, seen)
    if settings.model == "energy":
        v = random.standard_normal((h, V if settings.target_weights else 1)).astype(f32) / f32(math.sqrt(h))
        theta |= {"v": v, "b": -b}
        return Network(vocab, n, "energy", settings.output, SimpleNamespace(**theta), {})
    draw = random.standard_normal if settings.paper else np.zeros
    deviation = f32(1 / math.sqrt(max(h + (seen or 0), 1)))
    W = None if seen is None else draw((outputs, seen)).astype(f32) * deviation
    theta |= ({} if settings.tied else {"U": draw((outputs, h)).astype(f32) * deviation}) | {"W": W} | of_output
    output = "full" if settings.output == "shortlist" else settings.output
    return Network(vocab, n, settings.layer_name, output, SimpleNamespace(**theta), {})


def learning_rate(settings, t, share):
    """eps_t after t examples, when this share of the run is done: eps_0 / (1 + r t) (section 4), or falling linearly
    to 0.
    """
    if settings.decay is None:
        return settings.rate * (1 - share)
    return settings.rate / (1 + settings.decay * t)


def heldout_tokens(corpus, vocab):
    """The positions of the tokens of a held-out text that can have a probability."""
    return np.flatnonzero(corpus.scored & (corpus.ids < vocab.V))


def heldout_logp(network, corpus, comm=ALONE):
    """The mean ln p of the tokens that have a probability, as in `lmtk ppl`; there must be at least one.

    Each rank of `comm` scores a part of them.
    """
    at = heldout_tokens(corpus, network.vocab)[comm.rank :: comm.size]
    logp = network.log_p(corpus, at, corpus.ids[at])
    logp = logp[logp != -np.inf]
    total, tokens = comm.sum(np.array([logp.sum(), len(logp)]))
    return float(total / tokens)


def unigram_logp(data, vocab):
    """The mean ln p of the words of the training text, and of the held-out text (None without one), by the unigram of
    the training text, as in `curve.unigram_logp`. data: a Data.
    """
    heldout = None if data.heldout is None else data.heldout.ids[heldout_tokens(data.heldout, vocab)]
    return curve.unigram_logp(data.w[data.w >= 0], heldout, vocab.V)


def train(progress, data, settings, threads, comm=ALONE, common=None):
    """Train from the state `progress`, and change it; yield (epoch over, words, network) after each call of
    `Learner.steps`.

    words: how many were read since the last yield. network: a function that copies the parameters into a model; all
    ranks of `comm` call it together. common: an `asynchronous.Common` for asynchronous training (section 3.1): each
    rank takes every size-th minibatch; after ROUNDS of them, all ranks average their parameters, and this yields.
    Raises Diverged if the likelihood is not finite; `progress` then still has the best network so far.
    """
    memory.keep()
    N, K, last = len(data.w), minibatch_size(data, settings), count_steps(data, settings)
    state = progress.state
    if common:
        state = state | {"decay": common.hand_out_decay(state["decay"])}
    learner = objectives.make_learner(progress.network, data, settings, threads, common or comm, state)
    first, stride, rounds = (comm.rank, comm.size, ROUNDS) if common else (0, 1, learner.together)

    clock, total = Clock(settings.minutes, progress.seconds), settings.epochs * N
    norm = math.nan

    def rate(number):
        """The learning rate of a minibatch of this epoch."""
        t = progress.epoch * N + number * K
        return learning_rate(settings, t, clock.share(t / total))

    while progress.epoch < settings.epochs:
        batch, first_rate = make_batches(data, settings, progress.epoch), rate(0)
        while progress.step < last and not progress.out_of_time:
            begin, end = progress.step, min(progress.step + rounds * stride, last)
            numbers = range(begin + first, end, stride)
            batches, epsilons = list(map(batch, numbers)), list(map(rate, numbers))
            L, done, last_norm = learner.steps(batches, epsilons, progress.epoch, numbers)
            norm = last_norm if done else norm
            if common:
                L = float(comm.sum(np.array([L]))[0])
                common.average()
            if not math.isfinite(L):
                number, epsilon = (begin, rate(begin)) if common else (begin + done, epsilons[done])
                raise Diverged(
                    f"the likelihood is not finite at epoch {progress.epoch + 1}, step {number + 1} (learning rate "
                    f"{epsilon:.4g}, gradient norm {norm:.4g} at the step before); try a lower -rate"
                )
            progress.L += L
            progress.step, progress.state = end, learner.state()
            if common:
                progress.state["decay"] = common.gather_decay(progress.state["decay"])
            seen = min(end * K, N) - begin * K
            progress.out_of_time = clock.is_over()
            if end < last and not progress.out_of_time:
                yield False, seen, learner.network
        finish_epoch(progress, learner.network(), data, settings, comm, first_rate)
        yield True, seen, learner.network


def make_batches(data, settings, epoch):
    """A function from the number of a minibatch to the indices of its examples.

    Each epoch has another random order. If the layer carries its state, the text stays in order, and each epoch begins
    at another random word. With settings.paper, all epochs read the text from its beginning, in order.
    """
    N, K, random = len(data.w), settings.minibatch, np.random.default_rng([settings.seed, epoch])
    if data.fresh is not None:
        first = 0 if settings.paper else random.integers(N)
        return lambda number: running.minibatch_places(N, settings, number, first)
    every = np.arange(N, dtype=np.int32 if N < 1 << 31 else np.int64)
    order = every if settings.paper else random.permutation(every)
    return lambda number: order[number * K : (number + 1) * K]


def finish_epoch(progress, network, data, settings, comm, rate):
    """Finish an epoch, or the part of it that the time allowed: add a line to the curve, and keep the network if it is
    the best so far. Raises Diverged.

    rate: the learning rate at the start of the epoch; with -minutes, if the run was resumed inside the epoch, the rate
    at that time. The curve has a training perplexity only if the objective is in EXACT or ESTIMATED.
    """
    heldout = heldout_logp(network, data.heldout, comm) if data.heldout is not None else None
    if heldout is not None and not math.isfinite(heldout):
        raise Diverged(f"the held-out likelihood is not finite after epoch {progress.epoch + 1}; try a lower -rate")
    is_finite = all(np.isfinite(a).all() for a in network.named().values())
    if comm.max(int(not is_finite)):  # no reader would accept the model
        raise Diverged(f"the model is not finite after epoch {progress.epoch + 1}; try a lower -rate")
    estimated = settings.objective in ESTIMATED
    counted = count_scored(data, settings, progress)
    is_known = counted and (estimated or settings.objective in EXACT)
    training = progress.L / counted if is_known else None
    best = heldout is None or all(heldout > e.heldout for e in progress.curve)
    progress.epoch += 1
    progress.curve.append(curve.Epoch(progress.epoch, training, heldout, None, rate, estimated, best))
    progress.step, progress.L = 0, 0.0
    if best:
        progress.best, progress.best_epoch = without_low(network), progress.epoch


def count_scored(data, settings, progress):
    """The number of words that the epoch of `progress` has predicted so far."""
    if progress.step == count_steps(data, settings):
        return np.count_nonzero(data.w >= 0)
    N, batch = len(data.w), make_batches(data, settings, progress.epoch)
    steps = (batch(number) for number in range(progress.step))
    return sum(np.count_nonzero(data.w[at[at < N]] >= 0) for at in steps)


def best_network(progress, settings):
    """The best network so far, with its settings and the curve in the form that its file stores."""
    about = {name: value for name, value in vars(settings).items() if name not in LATER or value}
    return replace(progress.best, settings=about | {"curve": curve.rows(progress.curve, curve.TIMES)})


def restore(state, arrays, network):
    """The Progress from the state and arrays of a checkpoint; network: the model before training."""

    def network_of(prefix, network=network):
        return network.having({name: arrays[prefix + name] for name in network.named()})

    carried = {name.removeprefix("state."): np.array(a) for name, a in arrays.items() if name.startswith("state.")}
    best = network_of("best.") if state["best_epoch"] else None
    return Progress(network_of("", with_low(network)), best=best, state=carried, **state)


def begin(network, settings):
    """The Progress before the first update."""
    return Progress(with_low(network), state=objectives.initial_state(settings))


def checkpoint_arrays(network, progress):
    """The arrays of a checkpoint: the arrays of the network, and the state of the Learner."""
    return network.named() | {f"state.{name}": a for name, a in progress.state.items()}


def fingerprint(data):
    """A number that tells whether two runs read the same texts."""
    crc = 0
    for rows in split_contexts(data.contexts):
        crc = zlib.crc32(rows, crc)
    crc = zlib.crc32(data.w, crc)
    return crc if data.heldout is None else zlib.crc32(data.heldout.starts, zlib.crc32(data.heldout.ids, crc))


def read_features(path, vocab, m=None):
    """Read feature vectors of words of the vocabulary from a word2vec text file: id -> (m,) float32.

    The first line may be the numbers of words and of features. m: the number of features; None: as the first line says,
    or as many as the first vector has. Raises FormatError if a line does not have m numbers.
    """
    features, stated, vectors, origin = {}, None, 0, " (-features)"
    for number, line in lines(path):
        fields = WORD.findall(line)
        if number == 1 and len(fields) == 2 and all(map(bytes.isdigit, fields)):
            stated = int(fields[0])
            if m is None:
                m, origin = int(fields[1]), " as on the first line"
            elif m != int(fields[1]):
                raise FormatError(path, f"the first line says {int(fields[1])} features, expected {m}{origin}", 1)
            continue
        if not fields:
            continue
        if m is None:
            m, origin = max(len(fields) - 1, 1), " as on the first line"
        try:
            vector = np.array(fields[1:], dtype="S").astype(f32)
        except ValueError:
            raise FormatError(path, f"expected a word and {counted(m, 'number')}", number) from None
        if len(vector) != m or not np.isfinite(vector).all():
            raise FormatError(
                path, f"expected a word and {counted(m, 'finite number')}{origin}, got {len(vector)}", number
            )
        vectors += 1
        if fields[0] in vocab.index:
            features[vocab.index[fields[0]]] = vector
    if stated not in (None, vectors):
        raise FormatError(
            path, f"the first line says {counted(stated, 'word')}, but the file has {vectors}; is it complete?"
        )
    if not features:
        raise FormatError(path, "the file has no features for any word of the vocabulary")
    return features
