"""Training (appendix B): a bitext to a Model, in epochs, with checkpoints; a run that goes on gives the same bytes."""

import math
import zlib
from dataclasses import dataclass, field

import numpy as np

from lmtk.errors import Diverged, FormatError
from lmtk.files import container
from lmtk.nmt import kernels, network
from lmtk.nmt.network import Model

f32 = np.float32
POOL = 20  # minibatches whose sentences are sorted by length together (B.2)
END = 0.05  # the share of the rate that is left at the end
BATCH, WORDS = 64, 1 << 14  # held-out sentences at once, and their words


@dataclass(frozen=True)
class Settings:
    """What a run is made of; a checkpoint goes on only under the same. rate: of Adam, None: Adadelta (-paper)."""

    embedding: int
    hidden: int
    alignment: int
    maxout: int
    gates: int
    minibatch: int
    epochs: int
    rate: float | None
    dropout: float
    smoothing: float
    keep: str  # what the model that is kept has the highest of: "likelihood" or "BLEU"
    patience: int  # epochs without a better one after which a run ends; 0: never
    bpe: int | None
    seed: int

    @property
    def sizes(self):
        return {name: getattr(self, name) for name in network.SIZES}


@dataclass
class Progress:
    """Where a run stands: `step` minibatches into `epoch` (from 0), L the sum of ln p over their words.

    theta: the parameters; first, second: what Adam or Adadelta keeps of each; best: the parameters with the highest
    held-out likelihood or BLEU so far, after `best_epoch`; measured holds (ln p a word of the training text, of the
    held-out text, BLEU) of each epoch that is over.
    """

    theta: np.ndarray
    first: np.ndarray
    second: np.ndarray
    epoch: int = 0
    step: int = 0
    L: float = 0.0
    best: np.ndarray | None = None
    best_epoch: int = 0
    measured: list = field(default_factory=list)


def initial(source, target, settings, words):
    """theta before training. Adadelta starts as B.1 has it: recurrent matrices orthogonal, W_a and U_a of deviation
    0.001, v_a and biases 0, the rest 0.01. Adam starts from deviations 1/sqrt(inputs), embeddings of 0.1, and output
    biases at the logarithm of the words' frequencies, those of an LSTM's forget gates at 1; words: the target's
    sentences.
    """
    shapes = network.shapes(source, target, **settings.sizes)
    random = np.random.default_rng(settings.seed)
    theta = np.zeros(network.length(shapes), f32)
    p, units, n, paper = network.parts(theta, shapes), settings.alignment, settings.hidden, settings.rate is None
    for name, a in vars(p).items():
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
        if settings.gates == 3:
            for b in (p.bx[: 4 * n], p.bx[4 * n :], p.by[: 4 * n]):
                b[n : 2 * n] = 1
    return theta


def orthogonal(random, n):
    q, r = np.linalg.qr(random.standard_normal((n, n)))
    return q * np.sign(np.diag(r))


def minibatches(bitext, settings, epoch):
    """The numbers of an epoch's pairs, a minibatch a time: shuffled, sorted by length in pools of 20 minibatches (B.2).

    The paper shuffles once. With Adam each epoch is shuffled anew, and so are the minibatches of a pool, since lengths
    that rise with each pool pull at the mean.
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
    """Masks of inverted dropout for one share of a minibatch."""
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


def train(progress, bitext, heldout, source, target, settings, bleu=None, threads=1, team=map):
    """Train from where `progress` stands, changing it; yields (epoch over, target words seen) after each minibatch.

    bleu: a function of the parameters, called after each epoch. threads: into how many shares a minibatch is divided;
    team(function, items) works on them side by side. Raises Diverged where the likelihood is no finite number;
    `progress` then still has the best parameters so far.
    """
    network.keep_memory()
    shapes = network.shapes(source, target, **settings.sizes)
    gradients = [np.zeros_like(progress.theta) for _ in range(threads)]
    p, g = network.parts(progress.theta, shapes), [network.parts(gradient, shapes) for gradient in gradients]
    steps = -(-len(bitext.source) // settings.minibatch)
    words = sum(map(len, bitext.target))
    norm = math.nan
    while not finished(progress, settings):
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
            now = math.sqrt(float(np.dot(gradient, gradient)))
            if not math.isfinite(L) or not math.isfinite(now):
                raise Diverged(
                    f"the likelihood is not finite at epoch {progress.epoch + 1}, step {number + 1}: gradient norm "
                    f"{norm:.4g} the step before; a lower -rate may help"
                )
            norm, t = now, progress.epoch * steps + number
            update(progress, gradient, min(1.0, 1 / max(norm, 1e-30)), settings, t, settings.epochs * steps)
            progress.L += L
            progress.step += 1
            seen = sum(len(bitext.target[i]) for i in batch)
            if progress.step < steps:
                yield False, seen
        finish_epoch(progress, p, words, heldout, target, settings, bleu)
        yield True, seen


def finished(progress, settings):
    waited = progress.epoch - progress.best_epoch
    return progress.epoch >= settings.epochs or (settings.patience and waited >= settings.patience)


def update(progress, gradient, scale, settings, t, total):
    """theta moves against the gradient, scaled to a norm of at most 1; Adam's rate falls linearly to a twentieth."""
    if settings.rate is None:
        kernels.adadelta(progress.theta, gradient, progress.first, progress.second, scale)
    else:
        rate = settings.rate * (1 - (1 - END) * t / total)
        bias = 1 - 0.9 ** (t + 1), 1 - 0.999 ** (t + 1)
        kernels.adam(progress.theta, gradient, progress.first, progress.second, rate, scale, *bias)


def finish_epoch(progress, p, words, heldout, target, settings, bleu):
    """Close an epoch: its measures, and the parameters kept if they are the best. Raises Diverged."""
    held = heldout_logp(p, heldout, target.sos_id) if heldout else None
    if not np.isfinite(progress.theta).all() or not math.isfinite(held or 0):
        raise Diverged(f"the model is not finite after epoch {progress.epoch + 1}; a lower -rate may help")
    progress.measured.append((progress.L / words, held, bleu(progress.theta) if bleu else None))
    progress.epoch += 1
    progress.step, progress.L = 0, 0.0
    # of equal BLEU, as 0 at first, the likelihood decides
    rows = [(row[2], row[1]) if settings.keep == "BLEU" else row[1:2] for row in progress.measured]
    if held is None or all(rows[-1] > row for row in rows[:-1]):
        progress.best, progress.best_epoch = progress.theta.copy(), progress.epoch


def write_checkpoint(out, progress, source, target, settings, data):
    """Everything that a run needs to go on; data: `fingerprint` of its texts."""
    arrays = {name: getattr(progress, name) for name in ("theta", "first", "second")}
    if progress.best is not None:
        arrays["best"] = progress.best
    state = {name: getattr(progress, name) for name in ("epoch", "step", "L", "best_epoch", "measured")}
    about = {"run": vars(settings), "data": data, "state": state}
    container.write(out, "nmt-checkpoint", about, arrays, [*source.words, *target.words])


def fingerprint(*texts):
    """A number that tells whether two runs read the same texts."""
    crc = 0
    for bitext in filter(None, texts):
        for sentence in (*bitext.source, *bitext.target):
            crc = zlib.crc32(sentence, crc)
    return crc


def read_checkpoint(stream, path, settings, data, source, target, theta):
    """The Progress in a checkpoint of a run with these settings and texts. Raises FormatError."""
    about, arrays = container.read(stream, path)
    if about["kind"] != "nmt-checkpoint":
        raise FormatError(path, f"a file of kind {about['kind']}, not a checkpoint of nmt-train")
    run = about["settings"]["run"]
    changed = [name for name, value in vars(settings).items() if run.get(name) != value]
    if container.words_of(arrays) != [*source.words, *target.words]:
        changed.append("shortlist or texts")
    if about["settings"]["data"] != data:
        changed.append("source, -target or held-out texts")
    if changed or arrays["theta"].shape != theta.shape:
        raise FormatError(
            path, f"a checkpoint of another run: -{changed[0]} differs; remove it or give the same options"
        )
    state = about["settings"]["state"]
    best = np.array(arrays["best"]) if "best" in arrays else None
    kept = (np.array(arrays[name]) for name in ("theta", "first", "second"))
    measured = [tuple(row) for row in state["measured"]]
    return Progress(*kept, state["epoch"], state["step"], state["L"], best, state["best_epoch"], measured)


def model(theta, source, target, settings, subwords=b""):
    how = {name: value for name, value in vars(settings).items() if name not in network.SIZES}
    return Model(target, source, settings.sizes, theta, how, subwords)
