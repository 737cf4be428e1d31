"""Training (Bahdanau et al. 2015, appendix B) in epochs: from a Bitext to the Model with the best held-out score.

`initial_theta` makes the parameters before training. `train` takes minibatches of pairs of similar length
(`make_minibatches`), computes the gradient in threads (`compute_gradient`) and updates the parameters by Adam or
Adadelta (`update`). `finish_epoch` keeps the parameters with the best held-out score. The state of a run is a
`Progress`, which a checkpoint stores: a resumed run ends with the same bytes as a run that never stopped.
"""

import math
import zlib
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from lmtk.clock import Clock
from lmtk.errors import Diverged
from lmtk.files import curve
from lmtk.machine import memory
from lmtk.machine.threads import map_at_once
from lmtk.nmt import kernels, network
from lmtk.nmt.network import Model
from lmtk.units import open_gates

f32 = np.float32
POOL = 20  # minibatches whose sentences are sorted by length together (B.2)
END = 0.05  # the learning rate at the end of a run, as a share of the initial rate
BATCH, WORDS = 64, 1 << 14  # sentences and words of a batch of the held-out text


@dataclass(frozen=True)
class Settings:
    """The settings of a run; a checkpoint is resumed only with the same ones.

    rate: the learning rate of Adam; None: appendix B (`follows_paper`). average: the share of the updates so far over
    which the parameters are averaged; None: they are not.
    """

    embedding: int
    hidden: int
    alignment: int = field(metadata={"option": "attention or -alignment"})
    maxout: int
    minibatch: int
    epochs: int
    rate: float | None
    dropout: float
    smoothing: float
    keep: str  # the held-out measure that chooses the best epoch: "likelihood" or "BLEU"
    patience: int  # the run ends after this many epochs without a better one; 0: it does not end early
    bpe: int | None = None
    seed: int = 1
    unit: str = "gated"
    tied: bool = False
    average: float | None = None
    minutes: float | None = None  # the run ends after this time, with the rate then at its last value

    @property
    def follows_paper(self):
        """Whether the run follows appendix B: Adadelta, its first values, and the same minibatches in each epoch."""
        return self.rate is None

    @property
    def sizes(self):
        return {name: getattr(self, name) for name in network.SIZES}


@dataclass
class Progress:
    """The state of a run: `step` minibatches of `epoch` (from 0) are done, and L is the sum of ln p over their words.

    theta: the parameters; first, second: the running means of Adam or Adadelta; average: the mean of theta over the
    last updates, None without -average; best: the parameters with the highest held-out likelihood or BLEU so far, after
    `best_epoch`; curve: a curve.Epoch for each finished epoch; seconds: the training time so far; out_of_time: whether
    -minutes are over.
    """

    theta: np.ndarray
    first: np.ndarray
    second: np.ndarray
    average: np.ndarray | None = None
    epoch: int = 0
    step: int = 0
    L: float = 0.0
    best: np.ndarray | None = None
    best_epoch: int = 0
    curve: list = field(default_factory=list)
    seconds: float = 0.0
    out_of_time: bool = False

    @property
    def result(self):
        """The parameters that a model is made from."""
        return self.theta if self.average is None else self.average

    @property
    def arrays(self):
        """The arrays of a checkpoint, by name."""
        average = {} if self.average is None else {"average": self.average}
        return {"theta": self.theta, "first": self.first, "second": self.second} | average


def begin(theta, settings):
    """The Progress before the first update."""
    return Progress(theta, theta * 0, theta * 0, theta.copy() if settings.average else None)


def initial_theta(source, target, settings, words):
    """theta before training; words: the sentences of the target. Recurrent matrices are orthogonal.

    For Adadelta, as in B.1: W_a and U_a have the deviation 0.001, v_a and biases are 0, the rest has 0.01. For Adam:
    the deviations are 1/sqrt(inputs), of embeddings 0.1; output biases are the logarithms of the frequencies of the
    words; the biases of the forget gates of an LSTM are 1.
    """
    layout = network.Layout(source, target, settings.sizes)
    random = np.random.default_rng(settings.seed)
    theta = np.zeros(network.count_parameters(layout), f32)
    p, units, n = network.split_theta(theta, layout), settings.alignment, settings.hidden
    paper = settings.follows_paper
    for name, a in network.arrays_by_letter(theta, layout).items():
        if a.ndim == 1 and (paper or name != "va"):
            continue
        if paper:
            deviation = 0.001 if name == "Ua" else 0.01
        else:
            deviation = 0.1 if name in ("Ex", "Ey") else 1 / math.sqrt(len(a))
        a[:] = random.standard_normal(a.shape) * deviation
        if name == "S" and paper:
            a[:, :units] *= 0.1  # W_a, which is beside the recurrent matrices
        if name in ("fS", "fU", "bS", "bU", "S", "U"):
            for j in range(units if name == "S" else 0, a.shape[1], n):
                a[:, j : j + n] = random_orthogonal(random, n)
    if not paper:
        counts = np.bincount(np.concatenate(words), minlength=target.V) + 1
        p.bo[:] = np.log(counts / counts.sum())
        d = (layout.unit.gates + 1) * n
        for b in (p.bx[:d], p.bx[d:], p.by[:d]):  # the second is empty without attention
            open_gates(layout.unit, b)
    return theta


def random_orthogonal(random, n):
    q, r = np.linalg.qr(random.standard_normal((n, n)))
    return q * np.sign(np.diag(r))


def make_minibatches(bitext, settings, epoch):
    """Yield the minibatches of an epoch, indices of pairs: shuffled, then sorted by length in pools of 20 minibatches
    (B.2).

    The paper shuffles once. With Adam each epoch is shuffled anew, and so are the minibatches of a pool: lengths that
    increase in each pool would bias Adam's mean of the gradients.
    """
    paper = settings.follows_paper
    random = np.random.default_rng([settings.seed, 0 if paper else epoch])
    order, K = random.permutation(len(bitext.source)), settings.minibatch
    for pool in np.split(order, range(POOL * K, len(order), POOL * K)):
        lengths = [(len(bitext.target[i]), len(bitext.source[i])) for i in pool]
        pool = pool[sorted(range(len(pool)), key=lengths.__getitem__)]
        batches = np.split(pool, range(K, len(pool), K))
        for i in range(len(batches)) if paper else random.permutation(len(batches)):
            yield batches[i]


def make_dropout(settings, epoch, step, part):
    """A function from a shape to a mask of inverted dropout, for one part of a minibatch, a number from 0.

    A mask depends on what was drawn earlier: a new mask in `network.decode` changes all later masks.
    """
    if not settings.dropout:
        return network.no_dropout
    seeds = [settings.seed, epoch, step + 1] + [part] * (part > 0)
    random, keep = np.random.default_rng(seeds), f32(1 - settings.dropout)

    def mask(shape):
        return (random.random(shape, f32) < keep) * (1 / keep)

    return mask


def heldout_logp(p, bitext, sos):
    """The mean of ln p over the words of a bitext, including </s>."""
    total = 0.0
    for batch in network.make_batches(bitext.source, BATCH, WORDS):
        total += network.score(p, [bitext.source[i] for i in batch], [bitext.target[i] for i in batch], sos).sum()
    return total / sum(map(len, bitext.target))


def count_steps(pairs, minibatch):
    """The number of minibatches of an epoch over this number of sentence pairs."""
    return -(-pairs // minibatch)


def train(progress, bitext, heldout, vocabs, settings, bleu=None, threads=1):
    """Train from the state `progress`, and change it; yield (epoch over, target words, arrays) after each minibatch.

    target words: how many were read since the last yield; arrays: a function that gives the arrays of a checkpoint.
    vocabs: of the source and the target. bleu: a function of the parameters, called after each epoch, or None. threads:
    how many threads work on a minibatch, each on a part of it. Raises Diverged if the likelihood is not finite;
    `progress` then still has the best parameters so far.
    """
    source, target = vocabs
    memory.keep()
    layout = network.Layout(source, target, settings.sizes)
    p, result = (network.split_theta(theta, layout) for theta in (progress.theta, progress.result))
    gradients = [np.zeros_like(progress.theta) for _ in range(threads)]
    gradients = [(flat, network.split_theta(flat, layout)) for flat in gradients]
    last = count_steps(len(bitext.source), settings.minibatch)
    now, norm = lambda: progress.arrays, math.nan
    clock, total = Clock(settings.minutes, progress.seconds), settings.epochs * last
    while progress.epoch < settings.epochs:
        words = sentences = 0
        rate = learning_rate(settings, clock.share(progress.epoch / settings.epochs))
        for number, batch in enumerate(make_minibatches(bitext, settings, progress.epoch)):
            sentences += len(batch)
            if number < progress.step:
                words += count_target(bitext, batch)
                continue
            drop = partial(make_dropout, settings, progress.epoch, number)
            pairs = [(bitext.source[i], bitext.target[i]) for i in batch]
            L, gradient = compute_gradient(p, gradients, pairs, target.sos_id, drop, settings.smoothing)
            next_norm = math.sqrt(float(np.dot(gradient, gradient)))
            if not math.isfinite(L) or not math.isfinite(next_norm):
                raise Diverged(
                    f"the likelihood is not finite at epoch {progress.epoch + 1}, step {number + 1} (gradient norm "
                    f"{norm:.4g} at the step before); try a lower -rate"
                )
            norm, t = next_norm, progress.epoch * last + number
            update(progress, gradient, min(1.0, 1 / max(norm, 1e-30)), settings, t, clock.share(t / total))
            progress.L += L
            progress.step += 1
            seen = count_target(bitext, batch)
            words += seen
            progress.out_of_time = clock.is_over()
            if progress.out_of_time:
                break
            if progress.step < last:
                yield False, seen, now
        held = heldout_logp(result, heldout, target.sos_id) if heldout else None
        e = curve.Epoch(
            progress.epoch + 1, progress.L / words, held, rate=rate, updates=progress.epoch * last + progress.step,
            training_nll=-progress.L / sentences, heldout_nll=heldout and -held * words_per_sentence(heldout),
        )  # fmt: skip
        finish_epoch(progress, e, settings.keep, bleu)
        yield True, seen, now


def compute_gradient(p, gradients, pairs, sos, drop, smoothing):
    """(the sum of ln p over the words of a minibatch, the gradient of its cost, a flat array), in threads.

    gradients: for each thread a flat array, which is written, and its views by letter; pairs: (source, target),
    sentences of ids; drop: a function from the number of a part of the minibatch to the `drop` of `network.cost`.
    """
    threads = len(gradients)
    parts = min(threads, len(pairs))

    def work(part):
        _, g = gradients[part]
        return network.cost(p, tuple(zip(*pairs[part::threads])), sos, g, drop(part), smoothing, len(pairs))

    L, (gradient, _) = sum(map_at_once(work, range(parts), threads)), gradients[0]
    for other, _ in gradients[1:parts]:
        gradient += other
    return L, gradient


def count_target(bitext, batch):
    """The number of target words in a minibatch."""
    return sum(len(bitext.target[i]) for i in batch)


def words_per_sentence(bitext):
    """The mean number of words of a target sentence."""
    return sum(map(len, bitext.target)) / len(bitext.target)


def learning_rate(settings, share):
    """Adam's learning rate when this share of the run is done; it falls linearly to a twentieth. None with Adadelta."""
    return None if settings.follows_paper else settings.rate * (1 - (1 - END) * share)


def update(progress, gradient, scale, settings, t, share):
    """Make update t, from 0: theta moves against `scale` times the gradient, whose norm is then at most 1 (B.2).

    share: of the run that is done. progress.average follows by polynomial decay (Shamir & Zhang 2013, section 4).
    """
    if settings.follows_paper:
        kernels.adadelta(progress.theta, gradient, progress.first, progress.second, scale)
    else:
        epsilon = learning_rate(settings, share)
        bias = tuple(1 - beta ** (t + 1) for beta in kernels.BETAS)
        kernels.adam(progress.theta, gradient, progress.first, progress.second, epsilon, scale, bias)
    if progress.average is not None:
        kernels.average(progress.average, progress.theta, 1 / max(1.0, settings.average * (t + 1)))


def finish_epoch(progress, e, keep, bleu):
    """Finish an epoch: add it to the curve, and keep the parameters if they are the best so far.

    e: the curve.Epoch, without BLEU. keep: the measure by which the best epoch is chosen. bleu: a function of the
    parameters, or None. Raises Diverged.
    """
    held = e.heldout
    if not np.isfinite(progress.theta).all() or not math.isfinite(held or 0):
        raise Diverged(f"the model is not finite after epoch {e.number}; try a lower -rate")
    heldout_bleu = bleu(progress.result) if bleu else None
    # if BLEU is equal, the likelihood decides: BLEU is often 0 in the first epochs
    worth = lambda bleu, logp: (bleu, logp) if keep == "BLEU" else logp
    best = held is None or all(worth(heldout_bleu, held) > worth(b.bleu, b.heldout) for b in progress.curve)
    progress.epoch = e.number
    progress.curve.append(replace(e, bleu=heldout_bleu, best=best))
    progress.step, progress.L = 0, 0.0
    if best:
        progress.best, progress.best_epoch = progress.result.copy(), progress.epoch


def restore(state, arrays, letters, fresh):
    """The Progress from the state and arrays of a checkpoint.

    letters: the names of the parameters, in the order of theta; fresh: the Progress of a run before training.
    """
    best = None
    if state["best_epoch"]:
        best = np.concatenate([arrays["best." + name].ravel() for name in letters])
    return Progress(**{name: np.array(arrays[name]) for name in fresh.arrays}, best=best, **state)


def fingerprint(*texts):
    """A number that tells whether two runs read the same texts."""
    crc = 0
    for bitext in filter(None, texts):
        for sentence in (*bitext.source, *bitext.target):
            crc = zlib.crc32(sentence, crc)
    return crc


def make_model(theta, source, target, settings, subwords=b"", epochs=()):
    """A Model with its settings and, in the form that its file stores, the curve of these epochs."""
    options = {name: value for name, value in vars(settings).items() if name not in network.SIZES}
    if epochs:
        options["curve"] = curve.rows(epochs, curve.TIMES)
    return Model(target, source, settings.sizes, theta, options, subwords)
