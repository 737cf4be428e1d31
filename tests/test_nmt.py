"""Translation: the network against a slow twin and finite differences, training, the beam."""

from itertools import count, islice, pairwise
from types import SimpleNamespace

import naive
import numpy as np
import pytest

from lmtk import units
from lmtk.commands.nmt_train import OPTIONS
from lmtk.errors import FormatError
from lmtk.files import container
from lmtk.files.outputs import open_out
from lmtk.files.registry import load_translation
from lmtk.jobs.translating import TranslateJob, translated_words
from lmtk.jobs.translation_training import TrainTranslationJob
from lmtk.nmt import alignment, beam, kernels, network, scoring, training
from lmtk.text import subwords
from lmtk.text.bitext import Bitext
from lmtk.text.vocab import make_vocab

SIZES = {"embedding": 3, "hidden": 4, "alignment": 5, "maxout": 2, "unit": "gated", "tied": False}
SOURCE = [np.array(s) for s in ([5, 3, 0], [4, 5, 3, 6, 0], [7, 0])]
TARGET = [np.array(s) for s in ([3, 0], [2, 3, 4, 5, 0], [5, 5, 0])]


def vocab(n):
    return make_vocab([b"w%d" % i for i in range(n)], True, True, b"[UNK]")


def sizes_of(attention=True, unit="gated", tied=False):
    maxout = SIZES["embedding" if tied else "maxout"]
    alignment = SIZES["alignment"] if attention else 0
    return SIZES | {"unit": unit, "alignment": alignment, "maxout": maxout, "tied": tied}


def parameters(attention=True, dtype=np.float64, seed=1, unit="gated", tied=False):
    sizes = sizes_of(attention, unit, tied)
    made = network.Layout(vocab(6), vocab(5), sizes)
    theta = np.random.default_rng(seed).normal(0, 0.5, network.count_parameters(made)).astype(dtype)
    return theta, made


def dropout(seed):
    """The same masks at every call."""
    random = np.random.default_rng(seed)
    return lambda shape: (random.random(shape) < 0.7) / 0.7


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("unit", ["gated", "lstm", "rnn"])
@pytest.mark.parametrize("attention", [True, False])
def test_scores_are_those_of_appendix_a(attention, unit, tied):
    theta, made = parameters(attention, unit=unit, tied=tied)
    p = network.split_theta(theta, made)
    actual = network.score(p, SOURCE, TARGET, 7)
    letters = {name: a.tolist() for name, a in network.arrays_by_letter(theta, made).items()}
    for x, y, logp in zip(SOURCE, TARGET, actual, strict=True):
        assert logp == pytest.approx(naive.translation_logp(letters, x.tolist(), y.tolist(), 7), rel=1e-9)


@pytest.mark.sample(6)
@pytest.mark.parametrize("attention", [True, False])
@pytest.mark.parametrize("unit, tied", [("gated", False), ("lstm", False), ("rnn", False), ("gated", True)])
@pytest.mark.parametrize("dropped", [False, True])
def test_the_gradient_is_that_of_finite_differences(attention, unit, tied, dropped, amount):
    """In the direction of each parameter with --all; otherwise in three random directions for each array."""
    theta, made = parameters(attention, unit=unit, tied=tied)
    g = np.full_like(theta, np.nan)

    def drop():
        return dropout(3) if dropped else network.no_dropout

    def cost(theta):
        return network.cost(
            network.split_theta(theta, made), (SOURCE, TARGET), 7, network.split_theta(g.copy(), made), drop()
        )

    L = network.cost(network.split_theta(theta, made), (SOURCE, TARGET), 7, network.split_theta(g, made), drop())
    assert abs(L - cost(theta)) < 1e-9
    assert np.isfinite(g).all()
    for direction in np.eye(len(theta)) if amount(0, 1) else random_directions(made):
        slope = (cost(theta + 1e-6 * direction) - cost(theta - 1e-6 * direction)) / 2e-6
        assert -(g @ direction) * len(TARGET) == pytest.approx(slope, rel=1e-5, abs=1e-7)


def random_directions(made):
    """Yields arrays like theta, three for each letter: random numbers in its array, and 0 elsewhere."""
    random, N = np.random.default_rng(4), network.count_parameters(made)
    for places in network.arrays_by_letter(np.arange(N), made).values():
        for _ in range(3):
            direction = np.zeros(N)
            direction[places] = random.normal(size=places.shape)
            yield direction


def test_the_gradient_of_smoothed_labels_is_that_of_finite_differences():
    random = np.random.default_rng(1)
    t, Wo, bo, w = random.normal(size=(4, 3)), random.normal(size=(3, 5)), random.normal(size=5), np.array([1, 0, 4, 1])

    def cost(t, Wo, bo):
        y = t @ Wo + bo
        logp = y - np.log(np.exp(y).sum(axis=1, keepdims=True))
        return -0.5 * (0.8 * logp[np.arange(4), w] + 0.2 * logp.mean(axis=1)).sum()

    gWo, gbo = np.empty_like(Wo), np.empty_like(bo)
    logp, gt = kernels.output_backward(t, w, (Wo, bo), (gWo, gbo), 0.5, 0.2)
    assert logp == pytest.approx(kernels.score_outputs(t, w, Wo, bo))
    for a, g in ((t, gt), (Wo, gWo), (bo, gbo)):
        for at in np.ndindex(a.shape):
            a[at] += 1e-6
            more = cost(t, Wo, bo)
            a[at] -= 2e-6
            assert g[at] == pytest.approx((more - cost(t, Wo, bo)) / 2e-6, abs=1e-6)
            a[at] += 1e-6


def test_every_unit_has_an_option():
    assert OPTIONS["Model"]["unit"].metavar.split("|") == [*units.UNITS]
    for unit in units.UNITS:  # a rule of the job allows it
        assert TrainTranslationJob(source="x", target="y", model="m", unit=unit).unit == unit


def test_single_precision_is_near_double():
    theta, made = parameters()
    g, g32 = np.empty_like(theta), np.empty(len(theta), np.float32)
    L = network.cost(network.split_theta(theta, made), (SOURCE, TARGET), 7, network.split_theta(g, made))
    L32 = network.cost(
        network.split_theta(theta.astype(np.float32), made), (SOURCE, TARGET), 7, network.split_theta(g32, made)
    )
    assert abs(L32 - L) < 1e-4
    assert g32 == pytest.approx(g, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("room", [1, 10, 1000])
def test_outputs_do_not_depend_on_their_blocks(monkeypatch, room):
    theta, made = parameters()
    g, whole = np.empty_like(theta), np.empty_like(theta)
    network.cost(network.split_theta(theta, made), (SOURCE, TARGET), 7, network.split_theta(whole, made))
    monkeypatch.setattr(kernels, "ROOM", room)
    network.cost(network.split_theta(theta, made), (SOURCE, TARGET), 7, network.split_theta(g, made))
    assert g == pytest.approx(whole)


@pytest.mark.parametrize("name", ["adam", "adadelta"])
def test_updates_are_their_papers(name):
    random = np.random.default_rng(1)
    theta, actual = random.normal(size=5), None
    state = np.zeros(5), np.zeros(5)
    actual = theta.copy()
    slow = [naive.Adam(v) if name == "adam" else naive.Adadelta(v) for v in theta]
    for t in range(1, 6):
        g = random.normal(size=5)
        if name == "adam":
            kernels.adam(actual, g, *state, 0.01, 0.5, tuple(1 - beta**t for beta in kernels.BETAS))
        else:
            kernels.adadelta(actual, g, *state, 0.5)
        assert actual == pytest.approx([s.update(0.5 * v) for s, v in zip(slow, g, strict=True)], rel=1e-9)


def test_sums_and_softmax_do_not_overflow():
    y = np.array([[1e4, 0.0], [-1e4, -1e4]], np.float32)
    top, total = kernels.exponentiate(y)
    assert np.isfinite(y).all() and total.tolist() == [1, 2] and top.tolist() == [1e4, -1e4]
    Wo = kernels.output_spans(np.full((1, 8), 1e4, np.float32), np.zeros(8, np.float32))
    y, tops, sums = kernels.span_outputs(np.array([[1, 1], [-1, 1]], np.float32), Wo)
    assert sums == pytest.approx([1e4 + np.log(8), -1e4 + np.log(8)]) and tops.tolist() == [[1e4], [-1e4]]
    x = np.array([-1e4, 0.0, 1e4], np.float32)
    assert units.sigmoid(x).tolist() == [0, 0.5, 1]


def test_fast_tanh():
    UH = np.random.default_rng(1).normal(0, 3, (2, 3, 50)).astype(np.float32)
    UH[0, 0, :4] = 1e30, -1e30, 0, 30
    q = np.random.default_rng(2).normal(0, 1, (2, 80)).astype(np.float32)[:, :50]
    actual = kernels.tanh_sum(UH, q)
    assert actual == pytest.approx(np.tanh(UH.astype(float) + q[:, None]), abs=3e-7)
    assert (np.abs(actual) <= 1).all()


@pytest.mark.parametrize("B", [1, 3])
@pytest.mark.parametrize("V", [7, 600])
def test_best_words(B, V):
    random = np.random.default_rng(1)
    Wo, bo = random.integers(-3, 3, (4, V)).astype(np.float32), random.integers(-1, 2, V).astype(np.float32)
    y = Wo + bo  # many are equal
    base, starts = random.integers(-2, 1, 4).astype(float), [0, 1, 4]
    shape = 2, B
    parent, word, score = np.zeros(shape, int), np.zeros(shape, int), np.empty(shape)
    t = np.hstack((np.eye(4), np.ones((4, 1)))).astype(np.float32)
    actual, tops, sums = kernels.span_outputs(t, kernels.output_spans(Wo, bo))
    assert actual[:, :V].tolist() == y.tolist() and (actual[:, V:] == -np.inf).all()
    assert sums == pytest.approx(np.log(np.exp(y.astype(float)).sum(axis=1)))
    assert tops.tolist() == [[row[i : i + kernels.SPAN].max() for i in range(0, V, kernels.SPAN)] for row in y]
    kernels.best_words(actual, tops, base, np.array(starts), parent, word, score)
    for k, (i, j) in enumerate(pairwise(starts)):
        expected = naive.best_words(y[i:j].tolist(), base[i:j].tolist(), B)
        actual = list(zip(score[k].tolist(), (parent[k] - i).tolist(), word[k].tolist(), strict=True))
        assert actual[: len(expected)] == expected
        assert all(s == -np.inf for s, _, _ in actual[len(expected) :])


def model(attention=True, seed=1, unit="gated", tied=False):
    theta, _ = parameters(attention, np.float32, seed, unit, tied)
    return network.Model(vocab(5), vocab(6), sizes_of(attention, unit, tied), theta, {})


@pytest.mark.sample(19)
@pytest.mark.parametrize("attention", [True, False])
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("unit", ["gated", "lstm", "rnn"])
def test_beam_search_is_that_of_one_sentence_at_a_time(attention, size, seed, unit):
    made = model(attention, seed, unit)
    wanted = size if seed > 1 else 1
    actual = beam.Translator(made)(SOURCE, beam.Beam(size, wanted=wanted), 2)

    def logp(x):
        def of(words):
            # the last word's ln p in each of the sentences that go on from here
            target = [np.array([*words, w]) for w in range(made.vocab.V)]
            whole = network.score(made.at, [x] * len(target), target, made.vocab.sos_id)
            return (whole - (network.score(made.at, [x], [np.array(words)], 7)[0] if words else 0)).tolist()

        return of

    for x, hypotheses in zip(SOURCE, actual, strict=True):
        expected = naive.beam_search(logp(x), made.vocab.eos_id, size, 2 * (len(x) - 1) + 10, wanted)
        assert [h.words for h in hypotheses] == [words for _, words in expected]
        assert [h.rank for h in hypotheses] == pytest.approx([rank for rank, _ in expected], abs=1e-5)


@pytest.mark.parametrize("attention", [(True, True), (True, False, True)])
def test_an_ensemble_takes_the_mean_of_probabilities(attention):
    models = [model(a, seed) for seed, a in enumerate(attention)]
    actual = beam.Translator(*models)(SOURCE, beam.Beam(3, wanted=3), 2)

    def logp(x):
        def of(words):
            each = []
            for made in models:
                target = [np.array([*words, w]) for w in range(made.vocab.V)]
                whole = network.score(made.at, [x] * len(target), target, made.vocab.sos_id)
                before = network.score(made.at, [x], [np.array(words)], 7)[0] if words else 0
                each.append(np.exp(whole - before))
            return np.log(np.mean(each, axis=0)).tolist()

        return of

    for x, hypotheses in zip(SOURCE, actual, strict=True):
        expected = naive.beam_search(logp(x), 0, 3, 2 * (len(x) - 1) + 10, 3)
        assert [h.words for h in hypotheses] == [words for _, words in expected]
        assert [h.rank for h in hypotheses] == pytest.approx([rank for rank, _ in expected], abs=1e-5)
        assert all(len(h.links) == len(h.words) for h in hypotheses)


def test_a_beam_of_one_takes_the_most_probable_word():
    made = model()
    (actual,) = beam.Translator(made)([SOURCE[1]], beam.Beam(1), 1)[0]
    words = []
    while len(words) < 18 and (not words or words[-1] != made.vocab.eos_id):
        each = [np.array([*words, w]) for w in range(made.vocab.V)]
        words.append(int(network.score(made.at, [SOURCE[1]] * len(each), each, made.vocab.sos_id).argmax()))
    assert [*actual.words, made.vocab.eos_id][: len(words)] == words


def test_batches_and_memory_do_not_change_translations(monkeypatch):
    translate = beam.Translator(model())
    sources = [s for s in SOURCE for _ in range(3)]
    whole = translate(sources, beam.Beam(3, wanted=3), 9)
    assert [h.words for hs in translate(sources, beam.Beam(3, wanted=3), 2) for h in hs] == [
        h.words for hs in whole for h in hs
    ]
    assert beam.Translator(model(), threads=3)(sources, beam.Beam(3, wanted=3), 9) == whole
    monkeypatch.setattr(beam, "ROOM", 1)
    assert [h.words for hs in translate(sources, beam.Beam(3, wanted=3), 9) for h in hs] == [
        h.words for hs in whole for h in hs
    ]


@pytest.mark.parametrize("attention", [True, False])
def test_words_have_the_scores_and_weights_of_appendix_a(attention):
    made = model(attention)
    letters = {name: a.tolist() for name, a in network.arrays_by_letter(made.theta, made.layout).items()}
    for x, y, (logp, alpha) in zip(SOURCE, TARGET, scoring.score_pairs([made], SOURCE, TARGET), strict=True):
        for T in range(1, len(y) + 1):
            expected = naive.translation_logp(letters, x.tolist(), y[:T].tolist(), 7, weights := [])
            assert logp[:T].sum() == pytest.approx(expected, rel=1e-4)
        if attention:
            assert alpha.shape == (len(y), len(x)) and alpha == pytest.approx(np.array(weights), abs=1e-5)
        else:
            assert alpha is None


def test_given_translations_have_the_likelihood_of_held_out_text(monkeypatch):
    made = model()
    expected = training.heldout_logp(made.at, Bitext(SOURCE, TARGET, 0), made.vocab.sos_id)
    targets = scoring.make_targets(SOURCE, TARGET, made.vocab.sos_id)
    for words in (1, 1 << 13):
        monkeypatch.setattr(scoring, "WORDS", words)
        logp = scoring.GivenSource([made]).score(targets).logp
        assert logp.sum() / targets.scored.sum() == pytest.approx(expected, rel=1e-6)
        assert not logp[~targets.scored].any()


@pytest.mark.parametrize("attention", [(True,), (True, True), (True, False, True)])
def test_what_is_shown_of_a_translation_does_not_depend_on_its_company(attention):
    models = [model(a, seed) for seed, a in enumerate(attention)]
    how, search = beam.Beam(3, wanted=3), beam.Translator(*models)
    sources = [s for s in SOURCE for _ in range(3)]
    alone = [scoring.rescore_alone(models, s, actual, how) for s, actual in zip(sources, search(sources, how, 1))]
    whole = [scoring.rescore_alone(models, s, actual, how) for s, actual in zip(sources, search(sources, how, 9))]
    for x, y in zip(alone, whole, strict=True):
        assert [(h.words, h.logp, h.rank) for h in x] == [(h.words, h.logp, h.rank) for h in y]
    for s, hypotheses, actual in zip(sources, alone, search(sources, how, 9)):
        assert [h.logp for h in hypotheses] == pytest.approx([h.logp for h in actual], abs=1e-4)
        assert [h.rank for h in hypotheses] == pytest.approx([h.rank for h in actual], abs=1e-4)
        for h in hypotheses:
            assert h.alpha.shape == (len(h.words) + 1, len(s)) and h.alpha.sum(axis=1) == pytest.approx(1)
            assert alignment.strongest_links(h.alpha) == h.links


@pytest.mark.parametrize(
    ("dictionary", "expected"), [({}, b"a red house"), ({b"house": b"une maison"}, b"a red une maison")]
)
def test_an_unknown_piece_is_replaced_by_a_whole_word(dictionary, expected):
    pieces = ["\u2581a".encode(), "\u2581r".encode(), b"ed"]
    made = network.Model(make_vocab(pieces, True, True, b"[UNK]"), None, {}, None, {}, subwords=b"a model")
    ids = made.vocab.index
    words = [*(ids[piece] for piece in pieces), made.vocab.unk_id]
    hypothesis = beam.Hypothesis(words, True, -1.0, -1.0, [0, 0, 0, 1])
    job = TranslateJob(model=("m",), replace_unk=True)
    shown = translated_words(job, made, dictionary, ["\u2581hou".encode(), b"se"], hypothesis)
    assert subwords.join_pieces(shown) == expected


def test_a_banned_word_is_not_generated():
    translate = beam.Translator(model())
    for word in range(1, 6):
        actual = translate(SOURCE, beam.Beam(3, banned=word, wanted=3), 3)
        assert all(word not in h.words for hypotheses in actual for h in hypotheses)


@pytest.mark.parametrize("unit, tied", [("gated", False), ("lstm", False), ("rnn", False), ("gated", True)])
@pytest.mark.parametrize("attention", [True, False])
def test_a_model_survives_its_file(tmp_path, attention, unit, tied):
    made = model(attention, unit=unit, tied=tied)
    path = tmp_path / "m"
    with open_out(str(path)) as out:
        container.write(out, *network.file_parts(made))
    again = load_translation(str(path))
    assert again.theta.tolist() == made.theta.tolist()
    assert (again.vocab, again.source, again.sizes) == (made.vocab, made.source, made.sizes)
    whole = path.read_bytes()
    for at in range(0, len(whole), 97):
        path.write_bytes(whole[:at])
        with pytest.raises(FormatError):
            load_translation(str(path))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(FormatError):
            load_translation(str(path))


def test_minibatches_hold_each_pair_once():
    settings = training.Settings(3, 4, 5, 2, 7, 1, 0.001, 0.0, 0.0, "likelihood", 0, None, 1)
    random = np.random.default_rng(1)
    texts = [[np.zeros(random.integers(1, 9), np.int32) for _ in range(300)] for _ in range(2)]
    batches = list(training.make_minibatches(Bitext(*texts, 0), settings, 0))
    assert sorted(np.concatenate(batches).tolist()) == list(range(300))
    assert len(batches) == 43 and max(map(len, batches)) == 7


@pytest.mark.parametrize("attention", [True, False])
def test_shares_of_a_minibatch_have_its_gradient(attention):
    random = np.random.default_rng(1)
    sides = [[np.append(random.integers(2, V, random.integers(1, 7)), 0) for _ in range(23)] for V in (6, 5)]
    units = SIZES["alignment"] if attention else 0
    settings = training.Settings(3, 4, units, 2, 5, 1, 0.01, 0.0, 0.1, "likelihood", 0, None, 1)
    outcomes = []
    for threads in (1, 2, 3, 5):
        theta = training.initial_theta(vocab(6), vocab(5), settings, sides[1])
        progress = training.Progress(theta, theta * 0, theta * 0)
        for _ in training.train(progress, Bitext(*sides, 0), None, (vocab(6), vocab(5)), settings, threads=threads):
            pass
        outcomes.append((progress.theta, progress.curve[0].training))
    for theta, logp in outcomes[1:]:
        assert theta == pytest.approx(outcomes[0][0], abs=1e-4)
        assert logp == pytest.approx(outcomes[0][1], rel=1e-5)


def test_with_minutes_the_rate_of_an_epoch_is_that_of_its_start(monkeypatch):
    """Here each look at the clock takes a second of the 60."""
    seconds = count()
    monkeypatch.setattr("lmtk.clock.time", SimpleNamespace(monotonic=lambda: next(seconds)))
    random = np.random.default_rng(1)
    sides = [[np.append(random.integers(2, V, random.integers(1, 7)), 0) for _ in range(23)] for V in (6, 5)]
    settings = training.Settings(3, 4, 2, 2, 5, 9, 0.01, 0.0, 0.1, "likelihood", 0, None, 1, minutes=1)
    theta = training.initial_theta(vocab(6), vocab(5), settings, sides[1])
    progress = training.Progress(theta, theta * 0, theta * 0)
    for _ in islice(training.train(progress, Bitext(*sides, 0), None, (vocab(6), vocab(5)), settings), 12):
        pass
    assert [e.rate for e in progress.curve] == pytest.approx([0.01 * (1 - 0.95 * t / 60) for t in (1, 12)])


def test_the_average_is_of_the_last_share_of_the_updates():
    settings = training.Settings(3, 4, 5, 2, 5, 1, 0.01, 0.0, 0.0, "likelihood", 0, None, 1, average=0.25)
    random = np.random.default_rng(1)
    progress = training.begin(random.normal(size=6).astype(np.float32), settings)
    seen = []
    for t in range(40):
        training.update(progress, random.normal(size=6).astype(np.float32), 1.0, settings, t, t / 40)
        seen.append(progress.theta.astype(float))
    mean = seen[0]
    for t, theta in enumerate(seen, 1):
        mean = mean + (theta - mean) / max(1, t / 4)
    assert progress.average == pytest.approx(mean, rel=1e-4) and progress.result is progress.average
    # the weights of updates grow with the third power of their numbers
    weights = np.arange(1, 41) ** 3.0
    assert mean == pytest.approx(weights @ np.array(seen) / weights.sum(), abs=0.02)


def test_first_values_are_those_of_appendix_b():
    source, target = vocab(40), vocab(50)
    settings = training.Settings(30, 40, 50, 20, 80, 1, None, 0.0, 0.0, "likelihood", 0, None, 1)
    p = network.split_theta(
        training.initial_theta(source, target, settings, TARGET), network.Layout(source, target, settings.sizes)
    )
    for name in ("bx", "ba", "va", "bs", "by", "bo"):
        assert not getattr(p, name).any()
    assert p.Ua.std() == pytest.approx(0.001, rel=0.1) and p.S[:, :50].std() == pytest.approx(0.001, rel=0.1)
    assert p.Wo.std() == pytest.approx(0.01, rel=0.1) and p.Ex.std() == pytest.approx(0.01, rel=0.1)
    for a in (p.fU, p.bS[:, :40], p.bS[:, 40:], p.S[:, 50:90], p.S[:, 90:], p.U):
        assert a.T @ a == pytest.approx(np.eye(40), abs=1e-5)
