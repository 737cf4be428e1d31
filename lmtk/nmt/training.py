"""Training (appendix B): a bitext to a Model, in epochs. A resumed run ends with the same bytes as an unbroken one."""

import math
import zlib
from dataclasses import dataclass, field

import numpy as np

from lmtk.errors import Diverged
from lmtk.files import curve
from lmtk.machine import memory
from lmtk.nmt import kernels, network
from lmtk.nmt.network import Model
from lmtk.units import opened

f32 = np.float32
POOL = 20  # minibatches whose sentences are sorted by length together (B.2)
END = 0.05  # the share of the rate that is left at the end
BATCH, WORDS = 64, 1 << 14  # held-out sentences at once, and their words


@dataclass(frozen=True)
class Settings:
    """The settings of a run; a checkpoint is resumed only with the same ones.

    rate: of Adam, None: Adadelta (-paper); average: the share of the updates so far over which parameters are averaged,
    None: they are not.
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
    keep: str  # the held-out measure of the best epoch, whose model is kept: "likelihood" or "BLEU"
    patience: int  # epochs without a better one after which a run ends; 0: never
    bpe: int | None = None
    seed: int = 1
    unit: str = "gated"
    tied: bool = False
    average: float | None = None

    @property
    def sizes(self):
        return {name: getattr(self, name) for name in network.SIZES}


@dataclass
class Progress:
    """Where a run stands: `step` minibatches into `epoch` (from 0), L the sum of ln p over their words.

    theta: the parameters; first, second: the running means of Adam or Adadelta; average: the mean of theta over the
    last updates, None without -average; best: the parameters with the highest held-out likelihood or BLEU so far, after
    `best_epoch`; curve: a curve.Epoch for each finished epoch; seconds: of training so far.
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

    @property
    def result(self):
        """The parameters that a model is made of."""
        return self.theta if self.average is None else self.average

    @property
    def arrays(self):
        """The arrays of a checkpoint, by name."""
        average = {} if self.average is None else {"average": self.average}
        return {"theta": self.theta, "first": self.first, "second": self.second} | average


def begin(theta, settings):
    """The Progress before the first update."""
    return Progress(theta, theta * 0, theta * 0, theta.copy() if settings.average else None)


def initial(source, target, settings, words):
    """theta before training; words: the target's sentences. Recurrent matrices are orthogonal.

    Adadelta starts as B.1 has it: W_a and U_a of deviation 0.001, v_a and biases 0, the rest 0.01. Adam starts from
    deviations 1/sqrt(inputs), embeddings of 0.1, output biases at the logarithm of the words' frequencies, and the
    biases of an LSTM's forget gates at 1.
    """
    how = network.layout(source, target, **settings.sizes)
    random = np.random.default_rng(settings.seed)
    theta = np.zeros(network.length(how), f32)
    p, units, n, paper = network.parts(theta, how), settings.alignment, settings.hidden, settings.rate is None
    for name, a in network.letters(theta, how).items():
        if a.ndim == 1 and (paper or name != "va"):
            continue
        small = 0.01 if paper else 0.1 if name in ("Ex", "Ey") else 1 / math.sqrt(len(a))
        a[:] = random.standard_normal(a.shape) * (0.001 if paper and name == "Ua" else small)
        if name in ("fS", "fU", "bS", "bU", "S", "U"):
            gates = a[:, units:] if name == "S" else a
            a[:, : a.shape[1] - gates.shape[1]] *= 0.1 if paper else 1
            for j in range(0, gates.shape[1], n):
                gates[:, j : j + n] = orthogonal(random, n)
    if not paper:
        counts = np.bincount(np.concatenate(words), minlength=target.V) + 1
        p.bo[:] = np.log(counts / counts.sum())
        unit, d = how.unit, (how.unit.gates + 1) * n
        for b in (p.bx[:d], *([p.bx[d:]] if len(p.bx) > d else []), p.by[:d]):
            opened(unit, b)
    return theta


def orthogonal(random, n):
    q, r = np.linalg.qr(random.standard_normal((n, n)))
    return q * np.sign(np.diag(r))


def minibatches(bitext, settings, epoch):
    """Yields an epoch's minibatches, indices of pairs: shuffled, sorted by length in pools of 20 minibatches (B.2).

    The paper shuffles once. With Adam each epoch is shuffled anew, and so are the minibatches of a pool: lengths that
    rise in each pool would bias Adam's mean of the gradients.
    """
    paper = settings.rate is None
    random = np.random.default_rng([settings.seed, 0 if paper else epoch])
    order, K = random.permutation(len(bitext.source)), settings.minibatch
    for pool in np.split(order, range(POOL * K, len(order), POOL * K)):
        lengths = [(len(bitext.target[i]), len(bitext.source[i])) for i in pool]
        pool = pool[sorted(range(len(pool)), key=lengths.__getitem__)]
        batches = np.split(pool, range(K, len(pool), K))
        for i in range(len(batches)) if paper else random.permutation(len(batches)):
            yield batches[i]


def dropping(settings, epoch, step, share):
    """A function from a shape to a mask of inverted dropout, for one share of a minibatch."""
    if not settings.dropout:
        return network.no_dropout
    seeds = [settings.seed, epoch, step + 1] + [share] * (share > 0)
    random, keep = np.random.default_rng(seeds), f32(1 - settings.dropout)

    def mask(shape):
        return (random.random(shape, f32) < keep) * (1 / keep)

    return mask


def heldout_logp(p, bitext, sos):
    """The mean of ln p over the words of a bitext, </s> among them."""
    total = 0.0
    for batch in network.batches(bitext.source, BATCH, WORDS):
        total += network.score(p, [bitext.source[i] for i in batch], [bitext.target[i] for i in batch], sos).sum()
    return total / sum(map(len, bitext.target))


def steps(bitext, settings):
    """How many minibatches an epoch has."""
    return -(-len(bitext.source) // settings.minibatch)


def unigram(bitext, heldout, target):
    """The mean ln p of the words of the training text and of the held-out one (None without one), by the unigram of the
    former, one added to each count.
    """
    words = np.concatenate(bitext.target)
    counts = np.bincount(words, minlength=target.V) + 1
    logp = np.log(counts / counts.sum())
    return float(logp[words].mean()), float(logp[np.concatenate(heldout.target)].mean()) if heldout else None


def train(progress, bitext, heldout, source, target, settings, bleu=None, threads=1, team=map):
    """Train from where `progress` stands, changing it; yields (epoch over, target words seen, a function that gives the
    arrays of a checkpoint) after each minibatch.

    bleu: a function of the parameters, called after each epoch. threads: into how many shares a minibatch is divided;
    team(function, items) works on them side by side. Raises Diverged where the likelihood is not finite; `progress`
    then still has the best parameters so far.
    """
    memory.keep()
    how = network.layout(source, target, **settings.sizes)
    gradients = [np.zeros_like(progress.theta) for _ in range(threads)]
    p, g = network.parts(progress.theta, how), [network.parts(gradient, how) for gradient in gradients]
    found = network.parts(progress.result, how)
    last = steps(bitext, settings)
    now, norm = lambda: progress.arrays, math.nan
    while progress.epoch < settings.epochs:
        for number, batch in enumerate(minibatches(bitext, settings, progress.epoch)):
            if number < progress.step:
                continue

            def cost(share, batch=batch, number=number):
                drop = dropping(settings, progress.epoch, number, share)
                mine = batch[share::threads]
                x, y = [bitext.source[i] for i in mine], [bitext.target[i] for i in mine]
                return network.cost(p, x, y, target.sos_id, g[share], drop, settings.smoothing, len(batch))

            shares = min(threads, len(batch))
            L, gradient = sum(team(cost, range(shares))), gradients[0]
            for other in gradients[1:shares]:
                gradient += other
            next_norm = math.sqrt(float(np.dot(gradient, gradient)))
            if not math.isfinite(L) or not math.isfinite(next_norm):
                raise Diverged(
                    f"the likelihood is not finite at epoch {progress.epoch + 1}, step {number + 1}: gradient norm "
                    f"{norm:.4g} the step before; a lower -rate may help"
                )
            norm, t = next_norm, progress.epoch * last + number
            update(progress, gradient, min(1.0, 1 / max(norm, 1e-30)), settings, t, settings.epochs * last)
            progress.L += L
            progress.step += 1
            seen = sum(len(bitext.target[i]) for i in batch)
            if progress.step < last:
                yield False, seen, now
        finish_epoch(progress, found, bitext, heldout, target, settings, bleu)
        yield True, seen, now


def rate(settings, t, total):
    """Adam's rate after t updates of `total`; it falls linearly to a twentieth. None with Adadelta."""
    return None if settings.rate is None else settings.rate * (1 - (1 - END) * t / total)


def update(progress, gradient, scale, settings, t, total):
    """Update t of `total`: theta moves against scale times the gradient, of a norm of at most 1 (B.2); the average
    follows (polynomial decay, Shamir & Zhang 2013, section 4).
    """
    epsilon = rate(settings, t, total)
    if epsilon is None:
        kernels.adadelta(progress.theta, gradient, progress.first, progress.second, scale)
    else:
        bias = 1 - 0.9 ** (t + 1), 1 - 0.999 ** (t + 1)
        kernels.adam(progress.theta, gradient, progress.first, progress.second, epsilon, scale, *bias)
    if progress.average is not None:
        kernels.average(progress.average, progress.theta, 1 / max(1.0, settings.average * (t + 1)))


def finish_epoch(progress, p, bitext, heldout, target, settings, bleu):
    """Close an epoch: its line of the curve, and the parameters kept if they are the best; p: views of them.

    Raises Diverged.
    """
    held = heldout_logp(p, heldout, target.sos_id) if heldout else None
    if not np.isfinite(progress.theta).all() or not math.isfinite(held or 0):
        raise Diverged(f"the model is not finite after epoch {progress.epoch + 1}; a lower -rate may help")
    training, found = progress.L / sum(map(len, bitext.target)), bleu(progress.result) if bleu else None
    # of equal BLEU, as 0 at first, the likelihood decides
    worth = lambda bleu, logp: (bleu, logp) if settings.keep == "BLEU" else logp
    best = held is None or all(worth(found, held) > worth(e.bleu, e.heldout) for e in progress.curve)
    last = steps(bitext, settings)
    epsilon = rate(settings, progress.epoch * last, settings.epochs * last)
    progress.epoch += 1
    progress.curve.append(curve.Epoch(progress.epoch, training, held, found, epsilon, best=best))
    progress.step, progress.L = 0, 0.0
    if best:
        progress.best, progress.best_epoch = progress.result.copy(), progress.epoch


def kept(progress, source, target, settings, subwords=b""):
    """The best Model so far with its settings and its curve, as its file holds them."""
    return model(progress.best, source, target, settings, subwords, progress.curve)


def restored(state, arrays, letters, fresh):
    """The Progress from a checkpoint's state and arrays; letters: the names of the parameters, in their order; fresh:
    that of a run before training.
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


def model(theta, source, target, settings, subwords=b"", epochs=()):
    how = {name: value for name, value in vars(settings).items() if name not in network.SIZES}
    if epochs:
        how["curve"] = curve.rows(epochs, curve.TIMES)
    return Model(target, source, settings.sizes, theta, how, subwords)
