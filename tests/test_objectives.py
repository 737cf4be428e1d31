"""Training on a sample of the words, or on classes: gradients of their likelihoods, candidates, classes, runs that
go on."""

import copy
import dataclasses
from itertools import islice

import naive
import numpy as np
import pytest
from test_models import texts  # noqa: F401  a fixture
from test_nplm import minibatch, parameters, prepared, settings

from lmtk.commands import nplm_train
from lmtk.errors import FormatError
from lmtk.nplm import classes, objectives, sampled, sgd, training
from lmtk.nplm import model as scoring
from lmtk.nplm.threads import Team
from lmtk.parallel import ALONE
from lmtk.text.vocab import make_vocab


def lists(theta):
    return [x.astype(float).tolist() if x is not None else None for x in theta]


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("parts", [1, 2])
def test_a_step_follows_the_slope_of_the_sampled_likelihood(direct, parts):
    theta = parameters(direct=direct)
    contexts, w = minibatch(6)
    words = np.unique(np.concatenate((w, [0, 10])))
    inclusion = np.random.default_rng(3).uniform(0.1, 1, 11).astype(np.float32)
    mine = sampled.split(*theta, ALONE)
    arguments = (contexts, w, words, np.log(inclusion), 1e-2, 1, Team(parts), parts)
    L, _ = sampled.step(mine, *arguments)

    def likelihood(*moved):
        return naive.sampled_likelihood(*moved, contexts.tolist(), w.tolist(), words.tolist(), inclusion.tolist())

    assert pytest.approx(likelihood(*lists(theta)), abs=1e-3) == L
    for i, (before, after) in enumerate(zip(theta, sampled.join(mine), strict=True)):
        if before is None:
            continue
        for at in list(np.ndindex(before.shape))[::3]:
            slopes = []
            for step in (1e-5, -1e-5):
                moved = [x.astype(np.float64) if x is not None else None for x in copy.deepcopy(theta)]
                moved[i][at] += step
                slopes.append(likelihood(*lists(moved)))
            slope = (slopes[0] - slopes[1]) / 2e-5
            assert (after[at] - before[at]) / 1e-2 == pytest.approx(slope, rel=2e-3, abs=2e-3), ("CHdUWb"[i], at)


def test_a_sample_of_all_words_is_the_full_softmax():
    theta = parameters()
    contexts, w = minibatch(4)
    full, mine = sgd.split(*theta, 1), sampled.split(*theta, ALONE)
    sgd.step(full, contexts, w, 0.1, 0, 2, Team(1))
    sampled.step(mine, contexts, w, np.arange(11), np.zeros(11, np.float32), 0.1, 2, Team(1), 1)
    for a, b in zip(sgd.join(full), sampled.join(mine), strict=True):
        assert a == pytest.approx(b, abs=1e-6)


def test_candidates_come_with_their_chances():
    """Minibatches drawn with replacement have a word as often as the inclusion says."""
    random = np.random.default_rng(1)
    text = random.choice(12, 300, p=np.arange(12) / 66)
    proposal, rounds = sampled.Proposal(text, 12, 5), 4000
    seen = np.zeros(12)
    for _ in range(rounds):
        w = random.choice(text, 4)
        words, log_inclusion = proposal.draw(w, random)
        assert set(w) <= set(words) and (np.diff(words) > 0).all()
        seen[words] += 1
    p = np.exp(log_inclusion)
    assert (np.abs(seen / rounds - p) < 5 * np.sqrt(p * (1 - p) / rounds)).all()


def test_a_text_of_one_word():
    words, log_inclusion = sampled.Proposal(np.zeros(5, int), 2, 3).draw(np.zeros(2, int), np.random.default_rng(1))
    assert 0 in words and log_inclusion[0] == 0 and np.isfinite(log_inclusion).all()


def test_shrinking_leaves_the_biases():
    theta = parameters()
    mine = sampled.split(*theta, ALONE)
    sampled.shrink(mine, 0.1, 2)
    for name, before, after in zip("CHdUWb", theta, sampled.join(mine), strict=True):
        share = {"C": 0.8, "d": 1, "b": 1}.get(name, 0.9)
        assert after == pytest.approx(share * before, rel=1e-5), name


@pytest.mark.parametrize("upto", [1, 5, 9, 10, 17])
@pytest.mark.parametrize("objective, samples", [("sampled", 3), ("class", None)])
def test_a_run_that_was_cut_goes_on_to_the_same_bytes(texts, upto, objective, samples, monkeypatch):  # noqa: F811
    monkeypatch.setattr(sampled, "DECAY_EVERY", 3)
    made = settings(weight_decay=1e-3, direct=True, objective=objective, samples=samples)
    data, fresh = prepared(texts, made)

    def trained(progress, upto=None):
        now = [now for _, now in islice(training.train(progress, data, made, 1), upto)][-1]
        return progress, now()

    whole, _ = trained(training.Progress(fresh))
    part, now = trained(training.Progress(fresh), upto)
    with open(texts / "ckpt", "wb") as out:
        training.write_checkpoint(out, part, now, made, data)
    with open(texts / "ckpt", "rb") as stream:
        resumed = training.read_checkpoint(stream, str(texts / "ckpt"), made, data, fresh)
    again, _ = trained(resumed)
    assert again.ppl == whole.ppl and again.best_epoch == whole.best_epoch
    assert all((ppl is None) == (objective == "sampled") and heldout > 0 for ppl, heldout in whole.ppl)
    for name, array in whole.best.named().items():
        assert (getattr(again.best, name) == array).all()


def test_checkpoints_from_before_the_objectives_are_read(texts):  # noqa: F811
    made = settings()
    data, fresh = prepared(texts, made)
    from lmtk.files import container

    with open(texts / "ckpt", "wb") as out:
        training.write_checkpoint(out, training.Progress(fresh), fresh, made, data)
    with open(texts / "ckpt", "rb") as stream:
        about, arrays = container.read(stream, str(texts / "ckpt"))
    old = {name: value for name, value in about["settings"]["run"].items() if name not in ("objective", "samples")}
    arrays = {name: a.copy() for name, a in arrays.items() if name != "vocabulary"}
    with open(texts / "ckpt", "wb") as out:
        container.write(out, "nplm-checkpoint", about["settings"] | {"run": old}, arrays, fresh.vocab.words)
    with open(texts / "ckpt", "rb") as stream:
        assert training.read_checkpoint(stream, str(texts / "ckpt"), made, data, fresh).epoch == 0


def with_classes(direct, of=(0, 1, 1, 2, 0, 2, 2, 2, 1, 0, 2)):
    """A network of 11 words in classes, random in all its parameters."""
    random = np.random.default_rng(4)
    C, H, d, U, W, b = parameters(direct=direct)
    Uc, Wc, bc = (random.normal(0, 0.5, shape).astype(np.float32) for shape in ((3, 5), (3, 9), (3,)))
    vocab = make_vocab([b"%d" % i for i in range(11)], eos=False)
    of = np.array(of, np.int32)
    return classes.ClassNetwork(vocab, 4, C, H, d, U, W, b, {}, Uc, Wc if direct else None, bc, of)


def class_likelihood(model, contexts, w):
    names = "C", "H", "d", "U", "W", "b", "Uc", "Wc", "bc"
    theta = lists([getattr(model, name) for name in names])
    return naive.class_likelihood(*theta, model.classes.tolist(), contexts.tolist(), w.tolist())


@pytest.mark.parametrize("direct", [False, True])
def test_a_step_follows_the_slope_of_the_likelihood_of_classes(direct):
    model = with_classes(direct)
    contexts, w = minibatch(6)
    theta = classes.split(model)
    L, _ = classes.step(theta, contexts, w, 1e-2, 1)
    assert pytest.approx(class_likelihood(model, contexts, w), abs=1e-3) == L
    after = dict(zip(model.arrays, classes.join(theta)))
    for name, array in model.named().items():
        if name == "classes":
            continue
        for at in list(np.ndindex(array.shape))[::3]:
            slopes = []
            for step in (1e-5, -1e-5):
                moved = array.astype(np.float64)
                moved[at] += step
                slopes.append(class_likelihood(dataclasses.replace(model, **{name: moved}), contexts, w))
            slope = (slopes[0] - slopes[1]) / 2e-5
            assert (after[name][at] - array[at]) / 1e-2 == pytest.approx(slope, rel=2e-3, abs=2e-3), (name, at)


@pytest.mark.parametrize("direct", [False, True])
def test_classes_split_and_join(direct):
    model = with_classes(direct)
    for name, a in zip(model.arrays, classes.join(classes.split(model))):
        b = getattr(model, name)
        assert (a is None) == (b is None) and (a is None or (a == b).all())


def test_scores_of_classes_are_their_likelihood(monkeypatch):
    model = with_classes(True)
    contexts, w = minibatch(50)
    logp = model.score_contexts(contexts, w)
    assert logp.sum() == pytest.approx(class_likelihood(model, contexts, w), rel=1e-5)
    monkeypatch.setattr(scoring, "MANY", 0)
    monkeypatch.setattr(scoring, "ROWS", 7)
    assert model.score_contexts(contexts, w) == pytest.approx(logp, abs=1e-5)


def test_classes_by_frequency():
    counts = np.array([1, 100, 1, 25, 1, 1, 1, 1, 1, 1])
    found = classes.by_frequency(counts)
    assert found[1] == 0 and found[3] == 1 and sorted(set(found.tolist())) == list(range(found.max() + 1))
    assert (np.diff(found[np.argsort(-counts, kind="stable")]) >= 0).all()
    assert classes.by_frequency(np.array([5])).tolist() == [0]


def test_classes_of_a_file(tmp_path):
    vocab = make_vocab([b"a", b"b", b"c", b"d"], eos=False)
    path = tmp_path / "classes"
    path.write_text("X a\n\nY 0.5 c\nY 0.5 b\nY 0.1 zebra\n")
    assert classes.read(str(path), vocab).tolist() == [0, 1, 1, 2]
    for bad, message in (
        ("X a\nY a\n", "classes:2: 'a' is in a second class"),
        ("a\n", "classes:1: expected a class and a word, got 1"),
        ("X zebra\n", "no word of the vocabulary"),
    ):
        path.write_text(bad)
        with pytest.raises(FormatError, match=message):
            classes.read(str(path), vocab)


def test_the_command_knows_every_objective():
    assert {model: tuple(names) for model, names in objectives.OBJECTIVES.items()} == nplm_train.OBJECTIVES
