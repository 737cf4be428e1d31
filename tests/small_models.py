"""Models of every kind of a text of a few lines, and the training of small networks."""

from functools import partial
from itertools import islice

import numpy as np
from helpers import TRAIN

from lmtk import run as lifecycle
from lmtk.joint.classes import class_model
from lmtk.joint.mixture import Mixture
from lmtk.joint.shortlist import shortlisted
from lmtk.ngram.classes import files
from lmtk.ngram.counting.collection import Sources, collect
from lmtk.ngram.estimate import interp, methods, smoothing
from lmtk.ngram.model import backoff
from lmtk.nplm import training
from lmtk.text.corpus import Marks, whole_corpus
from lmtk.text.vocab import make_vocab

SENTENCES = Marks()
trained = {}  # networks by their texts and options


def interpolated(folder, order=3, marks=SENTENCES, unk=True, iterations=5):
    counts = collect(Sources([str(folder / "train")], [], order, marks=marks))
    vocab = make_vocab(sorted(counts.words), unk, marks.eos)
    heldout = whole_corpus(str(folder / "held"), vocab, marks)
    return interp.estimate(counts, vocab, order, heldout, iterations, 0)[0]


def neural(folder, marks=SENTENCES, unk=True, **options):
    """A small network. It is trained once in a process for the same texts and options."""
    texts = [(folder / name).read_bytes() for name in ("train", "held")]
    key = *texts, marks, unk, *sorted(options.items())
    if key not in trained:
        trained[key] = train_neural(folder, marks, unk, options)
    return trained[key]


def train_neural(folder, marks, unk, options):
    options = {
        "order": 3, "hidden": 4, "features": 3, "direct": True, "rate": 0.1, "decay": None, "weight_decay": 1e-4,
        "feature_rate": 2, "minibatch": 4, "epochs": 3, "patience": 3, "seed": 1,
    } | options  # fmt: skip
    made = training.Settings(**options)
    vocab = make_vocab(sorted(set(TRAIN.encode().split())), unk, marks.eos)
    corpus = whole_corpus(str(folder / "train"), vocab, marks)
    heldout = whole_corpus(str(folder / "held"), vocab, marks)
    data = training.make_examples(corpus, vocab, made.order, heldout, made.layer)
    progress = training.begin(training.initial_network(vocab, made, data.w), made)
    for _ in training.train(progress, data, made, 1):
        pass
    return progress.best


def witten_bell(order):
    return methods.Recipe([methods.WittenBell((), True, 1, 0)] * order)


def of_classes(folder, marks=SENTENCES, unk=True):
    """Classes of words of the text, of one that the text has not, and of <unk>; "cat", "the" and "mat" stay words."""
    lines = ["D 0.75 dog", "D 0.25 newt", "V 0.5 sat", "V 0.5 saw", "A a", *["U on", "U <unk>"] * unk]
    (folder / "classes").write_text("\n".join(lines))
    replace = partial(files.replaced, classes=files.read_classes(str(folder / "classes")))
    counts = collect(Sources([str(folder / "train")], [], 3, marks=marks), replace_words=replace)
    vocab = make_vocab(sorted(counts.words), False, marks.eos)
    model, _ = smoothing.estimate(counts, vocab, witten_bell(3))
    return class_model(model, "model", str(folder / "classes"))


def short(folder, marks=SENTENCES, unk=True, N=4, order=3, w=(3, 3, 0, 5, 5, 7)):
    """A network for the N most frequent of the words w, and a back-off model, in the file "rest", for the others; its
    weights are random.
    """
    vocab = make_vocab(sorted(set(TRAIN.encode().split())), unk, marks.eos)
    counts = collect(Sources([str(folder / "train")], [], order, vocab.words[: vocab.V], marks))
    rest, _ = smoothing.estimate(counts, vocab, witten_bell(order))
    with open(folder / "rest", "wb") as out:
        backoff.write_binary(out, rest)
    network = shortlisted(neural(folder, marks, unk), np.array(w), N, rest, "rest", "rest")
    random = np.random.default_rng(1)
    return network.having({"U": random.normal(size=network.theta.U.shape).astype(np.float32)})


def models(folder, marks=SENTENCES, unk=True):
    a, b = interpolated(folder, marks=marks, unk=unk), neural(folder, marks, unk)
    yield a
    yield interpolated(folder, 1, marks, unk)
    yield a.lower(2)
    yield b
    for objective in ("class", "tree"):
        yield neural(folder, marks, unk, objective=objective)
    yield short(folder, marks, unk)
    yield neural(folder, marks, unk, model="tdnn", order=5)
    yield neural(folder, marks, unk, model="rnn", order=4)
    yield neural(folder, marks, unk, model="rnn", order=4, objective="class", senses=2)
    yield neural(folder, marks, unk, order=4, senses=3)
    yield neural(folder, marks, unk, model="gru", order=4, minibatch=8)
    yield neural(folder, marks, unk, model="lstm", order=4, minibatch=8, objective="tree", direct=False)
    yield neural(folder, marks, unk, model="lstm", order=4, minibatch=8, hidden=3, tied=True, direct=False)
    yield neural(folder, marks, unk, model="lstm-2", order=4, minibatch=8)
    for target in (False, True):
        yield neural(folder, marks, unk, direct=False, model="energy", target_weights=target)
    yield Mixture([a, b], np.array([[0.3, 0.7]]))
    yield (c := of_classes(folder, marks, unk))
    yield c.lower(2)
    yield Mixture([b, a], np.random.default_rng(1).dirichlet([1, 1], len(a.alpha)), 1)


def settings(**changes):
    base = {
        "order": 3, "hidden": 4, "features": 3, "direct": False, "rate": 0.1, "decay": None, "weight_decay": 0.0,
        "feature_rate": 1.0, "minibatch": 4, "epochs": 4, "patience": 9, "seed": 1,
    }  # fmt: skip
    return training.Settings(**base | changes)


def prepared(folder, made, heldout="held"):
    """The toy text as (data, network before training)."""
    vocab = make_vocab(sorted(set(TRAIN.encode().split())), True, True)
    held = whole_corpus(str(folder / heldout), vocab, Marks()) if heldout else None
    text = whole_corpus(str(folder / "train"), vocab, Marks())
    data = training.make_examples(text, vocab, made.order, held, made.layer)
    return data, training.initial_network(vocab, made, data.w)


def run(folder, made, upto=None, progress=None, threads=1, heldout="held"):
    """Train on the toy text; stops after `upto` calls of `Learner.steps`. Returns (progress, network then)."""
    data, fresh = prepared(folder, made, heldout)
    progress = progress or training.begin(fresh, made)
    run = training.train(progress, data, made, threads)
    now = [now for _, _, now in islice(run, upto)][-1]
    return progress, now()


def life(model, made, data, vocab):
    """A Run that is to write `model`."""
    return lifecycle.Run(
        program="nplm-train", model=str(model), settings=made, inputs={"text or -heldout": training.fingerprint(data)},
        words=("vocab", vocab.words), steps=training.count_steps(data, made),
        unigram=training.unigram_logp(data, vocab),
        save_every=None, arrays=lambda progress, now: training.checkpoint_arrays(now, progress),
        parts=lambda progress: training.best_network(progress, made).parts(), line=None, remedies=("", ""),
    )  # fmt: skip


def by_checkpoint(folder, part, now, made, data, fresh):
    """The Progress of a run that goes on where another stands, from its checkpoint."""
    alike = life(folder / "model", made, data, fresh.vocab)
    lifecycle.write_checkpoint(alike, part, alike.arrays(part, now))
    like = training.checkpoint_arrays(training.begin(fresh, made).network, training.begin(fresh, made)), fresh.named()
    return training.restore(*lifecycle.resume(alike, *like), fresh)
