"""Training on a sample of the words, on classes or a tree: gradients of their likelihoods, candidates, classes, trees,
runs that go on."""

from itertools import islice, pairwise

import naive
import numpy as np
import pytest
from helpers import FILES
from small_models import by_checkpoint, life, prepared, settings, short
from steps import Small, assert_step, minibatch, network, parameters, same

from lmtk import run
from lmtk.errors import FormatError, LmtkError
from lmtk.files import container
from lmtk.files.registry import load
from lmtk.machine.parallel import ALONE
from lmtk.ngram.generation import mean_chances
from lmtk.nplm import classes, dropout, nce, objectives, sampled, sgd, training, tree
from lmtk.nplm import model as scoring
from lmtk.nplm.network import OUTPUTS
from lmtk.text.corpus import sentences
from lmtk.text.vocab import make_vocab


def lists(theta):
    return [x.astype(float).tolist() if x is not None else None for x in theta]


def whole_and_resumed(folder, data, made, fresh, *cuts):
    """The progress of a run from `fresh`; and of runs cut after so many of its stops that go on from checkpoints."""

    def trained(progress, upto=None):
        now = [now for _, _, now in islice(training.train(progress, data, made, 1), upto)][-1]
        return progress, now()

    whole, _ = trained(training.begin(fresh, made))
    parts = (trained(training.begin(fresh, made), upto) for upto in cuts)
    return whole, [trained(by_checkpoint(folder, *part, made, data, fresh))[0] for part in parts]


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("parts", [1, 2])
def test_a_step_follows_the_slope_of_the_sampled_likelihood(direct, parts):
    theta = parameters(direct=direct)
    contexts, w = minibatch(6)
    words = np.unique(np.concatenate((w, [0, 10])))
    inclusion = np.random.default_rng(3).uniform(0.1, 1, 11).astype(np.float32)
    small = Small(theta, parts, "sampled")
    L, _ = small.step(contexts, w, 1e-2, words, np.log(inclusion))

    def likelihood(*moved):
        return naive.sampled_likelihood(
            *lists(moved), contexts.tolist(), w.tolist(), words.tolist(), inclusion.tolist()
        )

    assert pytest.approx(likelihood(*theta), abs=1e-3) == L
    assert_step(likelihood, theta, small.arrays(), "CHdUWb", every=3)


def test_a_sample_of_all_words_is_the_full_softmax():
    theta = parameters()
    contexts, w = minibatch(4)
    full, small = Small(theta, feature_rate=2), Small(theta, output="sampled", feature_rate=2)
    full.step(contexts, w, 0.1)
    small.step(contexts, w, 0.1, np.arange(11), np.zeros(11, np.float32))
    for a, b in zip(full.arrays(), small.arrays(), strict=True):
        assert a == pytest.approx(b, abs=1e-6)


@pytest.mark.parametrize(
    "model, objective", [(None, name) for name in objectives.OF_WORDS if name != "shortlist"] + [("energy", "full")]
)
def test_a_network_that_is_kept_learns_no_more(model, objective, texts):
    made = settings(model=model, objective=objective, samples=5, rate=0.3)
    data, fresh = prepared(texts, made)
    learner = objectives.make_learner(fresh, data, made, 1, ALONE)
    network = learner.network()
    was = {name: a.copy() for name, a in network.named().items()}
    learner.steps([np.arange(len(data.w))], [0.3], 0, [0])
    assert not same(network, learner.network())
    assert all((a == was[name]).all() for name, a in network.named().items())


def test_candidates_come_with_their_chances():
    """Minibatches drawn with replacement have a word as often as the inclusion says."""
    random = np.random.default_rng(1)
    text = random.choice(12, 300, p=np.arange(12) / 66)
    proposal, rounds = sampled.Proposal(text, 12, 5), 4000
    seen = np.zeros(12)
    for _ in range(rounds):
        w = random.choice(text, 4)
        words, log_inclusion = proposal.candidates(w, *proposal.sample(random))
        assert set(w) <= set(words) and (np.diff(words) > 0).all()
        seen[words] += 1
    p = np.exp(log_inclusion)
    assert (np.abs(seen / rounds - p) < 5 * np.sqrt(p * (1 - p) / rounds)).all()


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("parts", [1, 2])
def test_a_step_follows_the_slope_of_the_contrast_with_noise(direct, parts, monkeypatch):
    """The words of the text are among the noise too, and one is drawn twice."""
    monkeypatch.setattr(nce, "NOISE", 1e9)
    theta = parameters(direct=direct)
    contexts, w = minibatch(6)
    drawn, q = np.array([0, 10, 3, 3, w[0]]), np.random.default_rng(3).dirichlet(np.ones(11))
    small = Small(theta, parts, "nce")
    L, _ = small.step(contexts, w, 1e-2, drawn, q)

    def contrast(*moved):
        return naive.contrast(*lists(moved), contexts.tolist(), w.tolist(), drawn.tolist(), q.tolist())

    wanted = naive.contrast_logp(*lists(theta), contexts.tolist(), w.tolist(), drawn.tolist(), q.tolist())
    assert pytest.approx(wanted, abs=1e-3) == L
    assert_step(contrast, theta, small.arrays(), "CHdUWb", every=3)


@pytest.mark.parametrize("parts", [1, 2])
def test_the_noise_of_an_example_pushes_no_more_than_a_softmax(parts):
    """Outputs that are all far too high: what all noise takes is divided until it is one word's worth."""
    theta = [None if a is None else a.copy() for a in parameters()]
    theta[5] += 2
    contexts, w = minibatch(6)
    drawn, q = np.array([0, 10, 3, 3, 5]), np.full(11, 1 / 11)
    small = Small(theta, parts, "nce")
    small.step(contexts, w, 1e-2, drawn, q)
    wanted = naive.contrast_biases(*lists(theta), contexts.tolist(), w.tolist(), drawn.tolist(), q.tolist(), nce.NOISE)
    assert (small.arrays()[5] - theta[5]) / 1e-2 == pytest.approx(wanted, abs=2e-3)


def test_noise_contrastive_estimation_finds_a_distribution():
    """Biases alone, the same word distribution everywhere: e^b becomes it, and sums to one."""
    random = np.random.default_rng(1)
    p = np.arange(1, 7) / 21
    text = random.choice(6, 30000, p=p)
    shapes = (6, 1), (0, 1), 0, (6, 0)
    small = Small([*(np.zeros(s, np.float32) for s in shapes), None, np.zeros(6, np.float32)], output="nce")
    proposal = sampled.Proposal(text, 6, 20, np.full(6, 1 / 6))
    for i in range(0, len(text), 30):
        w = text[i : i + 30]
        drawn, q = proposal.sample(random)
        small.step(np.zeros((30, 1), int), w, 0.03 * (1 - i / len(text)), drawn, q)
    assert np.exp(small.arrays()[5]) == pytest.approx(p, rel=0.15)


def test_the_effective_sample_size():
    theta, (contexts, _) = parameters(), minibatch(6)
    drawn, q = np.array([0, 10, 3, 3, 7]), np.random.default_rng(3).dirichlet(np.ones(11))
    small = Small(theta, output="sampled")
    actual = sampled.effective_sample_size(small.rows, sgd.forward(small.theta, contexts)[0], drawn, q)
    assert actual == pytest.approx(naive.effective_samples(*lists(theta), contexts.tolist(), drawn, q), rel=1e-4)


def test_words_are_drawn_until_they_are_worth_enough(texts):
    made = settings(objective="sampled", samples=1, effective_samples=3)
    data, network = prepared(texts, made)
    small = Small([network.named().get(name) for name in "CHdUWb"], output="sampled")
    z, w = sgd.forward(small.theta, data.contexts[:2])[0], data.w[:2]
    draw = objectives.make_draw(data, made, network.vocab.V, small.rows)
    plain = objectives.make_draw(data, settings(objective="sampled", samples=1), network.vocab.V)
    minibatches = [objectives.Minibatch(np.arange(2), 0, number) for number in range(40)]
    sizes = [[len(of(z, w, minibatch)[0]) for minibatch in minibatches] for of in (draw, plain)]
    assert np.mean(sizes[0]) > np.mean(sizes[1]) + 1
    assert max(sizes[0]) <= network.vocab.V


def test_a_proposal_is_mixed_with_the_unigram(texts):
    """What a function of the contexts gives no chance the unigram gives one; chances are those of the candidates."""
    text, random = np.repeat(np.arange(5), [1, 2, 3, 4, 10]), np.random.default_rng(1)
    proposal = sampled.Proposal(text, 5, 4, lambda contexts: np.eye(5)[contexts[0, 0]])
    drawn, q = proposal.sample(random, np.array([[2, 0]]))
    unigram = np.array([2, 3, 4, 5, 11]) / 25
    assert q == pytest.approx(0.1 * unigram + 0.9 * np.eye(5)[2]) and len(drawn) == 4
    _, log_inclusion = proposal.candidates(np.array([1]), *proposal.sample(random, np.array([[2, 0]])))
    assert np.exp(log_inclusion) == pytest.approx(1 - (1 - np.bincount(text) / 20) * (1 - q) ** 4, rel=1e-5)


def test_the_mean_chances_of_a_backoff_model():
    """The mean of the conditional distributions, in the order of another vocabulary; what the model lacks has none."""
    model = load(str(FILES / "wb.arpa"))
    words = [w for w in model.vocab.words[: model.vocab.V] if w != b"</s>"]
    vocab = make_vocab([*words[1::-1], b"novel", *words[:1:-1]])
    contexts = [[b"the", b"<s>"], [b"cat", b"the"], [b"novel", b"a"], [b"<s>", b"<s>"]]
    rows = np.array([[vocab.index[w] for w in row] for row in contexts])
    q = mean_chances(model, vocab)(rows)
    expected = np.zeros(vocab.V)
    for context in contexts:
        before = [model.vocab.index.get(w, model.vocab.unk_id) for w in context[::-1]]
        for i, word in enumerate(vocab.words[: vocab.V]):
            if model.vocab.predicts(word):
                rows_of = np.array([[*before, model.vocab.index[word]]])
                expected[i] += np.exp(model.score(sentences(rows_of)).logp[-1])
    assert q == pytest.approx(expected / expected.sum(), rel=1e-5)
    assert q[vocab.index[b"novel"]] == 0 and q.sum() == pytest.approx(1)
    assert mean_chances(model.lower(1), vocab)(rows).sum() == pytest.approx(1)


def test_a_text_of_one_word():
    proposal = sampled.Proposal(np.zeros(5, int), 2, 3)
    words, log_inclusion = proposal.candidates(np.zeros(2, int), *proposal.sample(np.random.default_rng(1)))
    assert 0 in words and log_inclusion[0] == 0 and np.isfinite(log_inclusion).all()


@pytest.mark.parametrize("times", [1, 20])
def test_shrinking_leaves_the_biases(times):
    theta = parameters()
    small = Small(theta, output="sampled")
    small.rows.shrink(0.9**times)
    sgd.shrink(small.theta.p, 0.9**times, 0.8**times)
    for name, before, after in zip("CHdUWb", theta, small.arrays(), strict=True):
        share = {"C": 0.8, "d": 1, "b": 1}.get(name, 0.9)
        assert after == pytest.approx(share**times * before, rel=1e-5), name


@pytest.mark.parametrize("size", [20, 1 << 24])
@pytest.mark.parametrize("objective", ["full", "sampled", "nce", "class", "tree"])
def test_weight_decay_counts_the_examples_of_each_minibatch(texts, objective, size):
    """The last minibatch of an epoch is smaller; a minibatch may be larger than the text."""
    made = settings(objective=objective, minibatch=size, weight_decay=1e-2, decay=0.0, epochs=1, samples=3)
    data, fresh = prepared(texts, made)
    progress = training.begin(fresh, made)
    for _ in training.train(progress, data, made, 1):
        pass
    N, row = len(data.w), fresh.vocab.unk_id  # <unk> is not in the text
    assert N % 20
    kept = np.prod([1 - min(size, N - i) * 1e-3 for i in range(0, N, size)])
    assert progress.best.C[row] == pytest.approx(kept * fresh.C[row], rel=1e-5)


@pytest.mark.parametrize(
    "objective, samples, effective",
    [("sampled", 3, None), ("sampled", 2, 3), ("nce", 3, None), ("class", None, None), ("tree", None, None)],
)
def test_a_run_that_was_cut_goes_on_to_the_same_bytes(texts, objective, samples, effective, monkeypatch):
    monkeypatch.setattr(objectives, "DECAY_EVERY", 3)
    options = {"objective": objective, "samples": samples, "effective_samples": effective}
    made = settings(weight_decay=1e-3, direct=True, **options)
    data, fresh = prepared(texts, made)

    whole, resumed = whole_and_resumed(texts, data, made, fresh, 1, 5, 9, 10, 17)
    for again in resumed:
        assert again.curve == whole.curve and again.best_epoch == whole.best_epoch
        assert same(whole.best, again.best)
    with_ppl = objectives.EXACT | objectives.ESTIMATED
    assert all((e.ppl is not None) == (objective in with_ppl) and e.heldout_ppl > 0 for e in whole.curve)


def test_checkpoints_from_before_the_objectives_are_read(texts):
    made = settings()
    data, fresh = prepared(texts, made)
    cycle = life(texts / "m", made, data, fresh.vocab)
    run.write_checkpoint(cycle, training.Progress(fresh), fresh.named())
    about, arrays = run.read_checkpoint("nplm-train", cycle.checkpoint)
    old = {name: value for name, value in about["run"].items() if name not in ("objective", "samples")}
    arrays = {name: a.copy() for name, a in arrays.items() if name != "vocabulary"}
    with open(cycle.checkpoint, "wb") as out:
        container.write(out, "nplm-checkpoint", about | {"run": old}, arrays, fresh.vocab.words)
    assert run.resume(cycle, fresh.named(), fresh.named())[0]["epoch"] == 0


def with_classes(direct, of=(0, 1, 1, 2, 0, 2, 2, 2, 1, 0, 2)):
    """A network of 11 words in classes, random in all its parameters."""
    random = np.random.default_rng(4)
    Uc, Wc, bc = (random.normal(0, 0.5, shape).astype(np.float32) for shape in ((3, 5), (3, 9), (3,)))
    arrays = {"Uc": Uc, "Wc": Wc if direct else None, "bc": bc, "classes": np.array(of, np.int32)}
    return network(dict(zip("CHdUWb", parameters(direct=direct))) | arrays, "class")


def class_likelihood(model, contexts, w):
    names = "C", "H", "d", "U", "W", "b", "Uc", "Wc", "bc"
    theta = lists([getattr(model.theta, name) for name in names])
    return naive.class_likelihood(*theta, model.theta.classes.tolist(), contexts.tolist(), w.tolist())


@pytest.mark.parametrize("direct", [False, True])
def test_a_step_follows_the_slope_of_the_likelihood_of_classes(direct):
    model = with_classes(direct)
    contexts, w = minibatch(6)
    small = Small(vars(model.theta), output="class")
    L, _ = small.step(contexts, w, 1e-2)
    assert pytest.approx(class_likelihood(model, contexts, w), abs=1e-3) == L
    names = [name for name in vars(model.theta) if name != "classes"]

    def likelihood(*moved):
        return class_likelihood(model.having(dict(zip(names, moved))), contexts, w)

    after = [small.named()[name] for name in names]
    assert_step(likelihood, [getattr(model.theta, name) for name in names], after, names, every=3)


@pytest.mark.parametrize("direct", [False, True])
def test_classes_split_and_join(direct):
    model = with_classes(direct)
    layer = classes.Classes(objectives.with_low(model).theta)
    for name, a in layer.gather(5, direct).items():
        b = getattr(model.theta, name, 0)
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
    actual = classes.classes_by_frequency(counts)
    assert actual[1] == 0 and actual[3] == 1 and sorted(set(actual.tolist())) == list(range(actual.max() + 1))
    assert (np.diff(actual[np.argsort(-counts, kind="stable")]) >= 0).all()
    assert classes.classes_by_frequency(np.array([5])).tolist() == [0]


def test_classes_of_a_file(tmp_path):
    vocab = make_vocab([b"a", b"b", b"c", b"d"], eos=False)
    path = tmp_path / "classes"
    path.write_text("X a\n\nY 0.5 c\nY 0.5 b\nY 0.1 zebra\n")
    assert classes.read_word_classes(str(path), vocab).tolist() == [0, 1, 1, 2]
    for bad, message in (
        ("X a\nY a\n", "classes:2: 'a' already has another class"),
        ("a\n", "classes:1: expected a class and a word, got 1"),
        ("X zebra\n", "the file has no class for any word"),
    ):
        path.write_text(bad)
        with pytest.raises(FormatError, match=message):
            classes.read_word_classes(str(path), vocab)


TREE = np.array([[11 + 1, 11 + 2], [11 + 3, 4], [11 + 4, 11 + 5], [0, 1], [2, 11 + 6], [11 + 7, 11 + 8], [3, 11 + 9],
                 [5, 6], [7, 8], [9, 10]], np.int32)  # fmt: skip


def with_tree(direct):
    """A network of 11 words in a tree, random in all its parameters."""
    C, H, d, U, W, b = parameters(direct=direct)
    arrays = {"U": U[:-1], "W": W[:-1] if direct else None, "b": b[:-1], "tree": TREE}
    return network({"C": C, "H": H, "d": d} | arrays, "tree")


def tree_likelihood(model, contexts, w):
    return naive.tree_likelihood(*lists([getattr(model.theta, name) for name in "CHdUWb"]), TREE.tolist(), contexts, w)


@pytest.mark.parametrize("direct", [False, True])
def test_a_step_follows_the_slope_of_the_likelihood_of_a_tree(direct):
    model = with_tree(direct)
    contexts, w = minibatch(6)
    theta = [getattr(model.theta, name) for name in "CHdUWb"]
    small = Small(theta, output="tree")
    L, _ = small.step(contexts, w, 1e-2, *tree.paths(TREE))
    assert pytest.approx(tree_likelihood(model, contexts, w), abs=1e-3) == L

    def likelihood(*moved):
        return tree_likelihood(model.having(dict(zip("CHdUWb", moved))), contexts, w)

    assert_step(likelihood, theta, small.arrays(), "CHdUWb", every=3)


def test_scores_of_a_tree_are_its_likelihood(monkeypatch):
    """Also where outputs are large, compiled and not."""
    model, (contexts, w) = with_tree(True), minibatch(50)
    logp = model.score_contexts(contexts, w)
    assert logp.sum() == pytest.approx(tree_likelihood(model, contexts, w), rel=1e-5)
    far = model.having({"b": model.theta.b * 1000})
    plain = [logp, far.score_contexts(contexts, w)]
    monkeypatch.setattr(scoring, "MANY", 0)
    monkeypatch.setattr(scoring, "ROWS", 7)
    for actual, expected in zip((model, far), plain):
        assert actual.score_contexts(contexts, w) == pytest.approx(expected, rel=1e-5)
    assert plain[1].min() < -500


def ways(nodes):
    """The way to each word, as a string of sides."""
    starts, path = tree.paths(nodes)
    return ["".join(str(step & 1) for step in path[i:j]) for i, j in pairwise(starts)]


@pytest.mark.parametrize("counts", [[5, 9, 1, 1, 2, 7, 3], [1] * 6, [1, 1], [2**i for i in range(12)]])
def test_huffmans_tree_takes_the_fewest_decisions(counts):
    counts = np.array(counts)
    actual = tree.tree_of_strings([None] * len(counts), counts)
    taken = ways(actual)
    assert sum(len(way) * n for way, n in zip(taken, counts)) == naive.huffman_cost(counts.tolist())
    assert len(set(taken)) == len(counts)


def test_a_tree_keeps_the_beginnings_that_words_share():
    """Words of one string together, one whose string goes on above, a lone side left out, those without beside."""
    counts = np.array([5, 9, 1, 1, 2, 7, 3])
    strings = [b"00", b"01", b"01", b"1000", b"11", None, b"11"]
    a, b, c, d, e, f, g = ways(tree.tree_of_strings(strings, counts))
    assert b[:-1] == c[:-1] and len(b) == len(c) and a[:-1] == b[:-2], "00 and 01 are one node"
    assert e[:-1] == g[:-1] and d[:-1] == e[:-2] and d[:-2] == a[:-2], "1000 takes one decision after the first"
    assert len(f) == 1, "no string: beside all others"
    assert sorted(map(len, ways(tree.tree_of_strings([b"", b"", b"0"], counts[:3])))) == [1, 2, 2]


def test_a_tree_of_features():
    """Two bundles of words part at the root; equal features come apart too; a word without is beside the others.

    One that is not predicted is passed over.
    """
    random = np.random.default_rng(1)
    centre = np.array([[3.0, 0, 0], [-3, 0, 0]])
    even, odd = [0, 2, 4, 6, 8, 12, 14], [1, 3, 5, 7, 9, 11, 13]
    features = {w: random.normal(centre[w % 2], 0.1) for w in even + odd} | {
        12: centre[0],
        14: centre[0],
        15: centre[1],
    }
    counts = np.ones(15, int)
    strings = tree.bisect_words(features, counts)
    first = [s and s[:1] for s in strings]
    assert len({first[w] for w in even}) == len({first[w] for w in odd}) == 1
    assert strings[10] is None and len(set(strings)) == 15
    assert len(ways(tree.tree_of_strings(strings, counts))[10]) == 1
    assert tree.bisect_words({3: np.ones(2)}, counts)[3] == b""


def test_the_first_values_of_a_tree_are_the_unigram(texts):
    data, network = prepared(texts, settings(objective="tree"))
    counts = np.bincount(data.w, minlength=network.vocab.V) + 1
    V = network.vocab.V
    logp = network.score_contexts(np.zeros((V, 2), int), np.arange(V))
    assert np.exp(logp) == pytest.approx(counts / counts.sum(), rel=1e-5)


def test_a_tree_that_is_none_is_refused():
    model = with_tree(False)
    check = lambda tree: OUTPUTS["tree"].check(model.having({"tree": tree}).theta, 11, "m")
    check(TREE)
    for at, wrong in (((9, 1), 9), ((0, 0), 11), ((6, 1), 11 + 1), ((9, 1), -1)):
        changed = TREE.copy()
        changed[at] = wrong
        with pytest.raises(FormatError):
            check(changed)
    loop = TREE.copy()
    loop[1, 0], loop[3, 0], loop[4, 0] = 0, 11 + 3, 2
    with pytest.raises(FormatError):
        check(loop)


def test_paths_of_a_file(tmp_path):
    vocab = make_vocab([b"a", b"b", b"c", b"d"], eos=False)
    path = tmp_path / "paths"
    path.write_text("00\ta\t7\n\n01 c\n1\tzebra\t1\n")
    assert tree.read_strings(str(path), vocab) == [b"00", None, b"01", None, None, None, None][: vocab.V]
    for bad, message in (
        ("00 a\n01 a\n", "paths:2: 'a' has a second path"),
        ("X a\n", "paths:1: expected a path of 0s and 1s, then a word"),
        ("0 a 1 2\n", "paths:1: expected a path"),
        ("0 zebra\n", "the file has no path for any word"),
    ):
        path.write_text(bad)
        with pytest.raises(FormatError, match=message):
            tree.read_strings(str(path), vocab)


def test_a_tree_needs_two_words():
    with pytest.raises(LmtkError, match="a tree needs at least two words"):
        training.initial_network(make_vocab([b"a"], eos=False), settings(objective="tree"), np.array([0]))


@pytest.mark.parametrize("name", ["nce", "class", "tree"])
def test_dropout_has_factors_for_each_example(name):
    """What a minibatch changes is the sum of what its examples change, each with its own factors."""
    contexts, w = minibatch(6)
    x, a = dropout.draw_factors([(6, 9), (6, 5)], 0.3, np.random.default_rng(1))
    model = {"class": with_classes, "tree": with_tree}.get(name, lambda direct: None)(True)
    first = vars(model.theta) if model else dict(zip("CHdUWb", parameters(direct=True)))
    noise = np.array([0, 10, 3, 3, 7]), np.full(11, 1 / 11)
    extra = {"nce": noise, "class": (), "tree": tree.paths(TREE)}[name]

    def changed(at):
        small = Small(first, output=name)
        L, _ = small.step(contexts[at], w[at], 1e-2, *extra, factors=dropout.Factors(x[at], a[at]))
        return L, [small.named()[letter] - first[letter] for letter in "CHdUWb"]

    whole, singly = changed(np.arange(6)), [changed(np.array([k])) for k in range(6)]
    assert whole[0] == pytest.approx(sum(L for L, _ in singly), abs=1e-4)
    for i, change in enumerate(whole[1]):
        assert change == pytest.approx(sum(changes[i] for _, changes in singly), abs=1e-5), "CHdUWb"[i]


@pytest.mark.parametrize("dropout", [None, 0.2])
def test_a_run_with_a_shortlist_goes_on_to_the_same_bytes(texts, dropout):
    """Only examples of its words count; a minibatch may have none of them."""
    made = settings(objective="shortlist", shortlist=4, minibatch=2, dropout=dropout)
    data, fresh = prepared(texts, made)
    model = short(texts)
    first = {name: getattr(fresh.theta, name) for name in "CHd"}
    fresh = model.having(first | {"U": model.theta.U * 0, "W": None})

    whole, resumed = whole_and_resumed(texts, data, made, fresh, 1, 5, 17)
    assert whole.curve[-1].heldout > whole.curve[0].heldout
    assert all(again.curve == whole.curve and same(whole.best, again.best) for again in resumed)
    others = np.flatnonzero(fresh.place[data.w] < 0)[:2]
    assert objectives.make_learner(fresh, data, made, 1, ALONE).steps([others], [0.1], 0, [0]) == (0, 1, 0)
