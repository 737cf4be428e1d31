"""Interpolated, back-off and mixture models against their definitions; files whole, cut and damaged."""

import io
import json
import math
import random
import warnings
from dataclasses import replace
from itertools import pairwise

import naive
import numpy as np
import pytest
from helpers import FILES, HELD, TRAIN
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.edit import columns, model_of
from small_models import SENTENCES, interpolated, models, neural, of_classes, short, witten_bell

from lmtk.em import estimate_weights, fill_unvisited
from lmtk.errors import FormatError, LmtkError, LmtkWarning, UsageError
from lmtk.files import container
from lmtk.files.outputs import open_out
from lmtk.files.registry import load
from lmtk.joint.classes import ClassModel, expanded, write_binary
from lmtk.joint.mixture import Mixture, check_vocabularies, write_text
from lmtk.joint.shortlist import check_rest
from lmtk.lm import ranges, vocabulary_sums
from lmtk.ngram import mass
from lmtk.ngram.counting.collection import Sources, collect
from lmtk.ngram.estimate import interp, smoothing
from lmtk.ngram.model.nodes import N
from lmtk.nplm.network import Network
from lmtk.text.corpus import Corpus, Marks, contexts, read_corpus, sentences, whole_corpus
from lmtk.text.vocab import make_vocab

MARKS = [SENTENCES, Marks(sos=False), Marks(eos=False), Marks(False, False, True)]


@pytest.mark.parametrize("marks", MARKS)
@pytest.mark.parametrize("unk", [False, True])
def test_every_model_sums_to_one(texts, marks, unk):
    for model in models(texts, marks, unk):
        for corpus in read_corpus(str(texts / "held"), model.vocab, marks, model.order):
            assert vocabulary_sums(model, corpus, corpus.scored) == pytest.approx(1, abs=2e-6)


def test_a_class_model_is_the_product_of_its_parts(texts):
    model = of_classes(texts)
    (corpus,) = read_corpus(str(texts / "held"), model.vocab, Marks())
    name = {b"dog": b"D", b"sat": b"V", b"saw": b"V", b"a": b"A", b"on": b"U", b"<unk>": b"U"}
    words = [model.vocab.words[w] for w in corpus.ids]
    inside = Corpus(np.array([model.lm.vocab.index[name.get(w, w)] for w in words]), corpus.starts, corpus.scored)
    p_word = np.array([{b"dog": 0.75, b"sat": 0.5, b"saw": 0.5, b"on": 0.5, b"<unk>": 0.5}.get(w, 1) for w in words])
    expected = np.where(corpus.scored, model.lm.score(inside).logp + np.log(p_word), 0)
    assert model.score(corpus).logp == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("unk", [False, True])
def test_a_class_model_written_out_is_the_same_model(texts, unk):
    """After every context of two words."""
    model = of_classes(texts, unk=unk)
    W, n = len(model.vocab.words), model.order
    words = expanded(model, 10_000, "model")
    corpus = sentences(np.stack(np.meshgrid(*[np.arange(W)] * n, indexing="ij"), axis=-1).reshape(-1, n))
    scored = corpus.scored & (corpus.ids < model.vocab.V)
    corpus = Corpus(corpus.ids, corpus.starts, scored)
    assert words.score(corpus).logp == pytest.approx(model.score(corpus).logp, abs=2e-6)
    size = int(words.nodes.where[:, N].sum())
    with pytest.raises(LmtkError, match=r"model: the expansion has .* n-grams or more"):
        expanded(model, size - 1, "model")
    assert expanded(model, size, "model").order == n


def test_a_shortlist_shares_out_what_the_rest_gives_its_words(texts):
    """Against a softmax over the list and sums over the rest's own probabilities; by corpus and by contexts."""
    model = short(texts)
    (corpus,) = read_corpus(str(texts / "held"), model.vocab, SENTENCES)
    rest = model.rest.score(corpus).logp
    scores = model.score(corpus)
    listed = model.shortlist.tolist()
    theta = [model.named()[name].astype(float).tolist() for name in "CHdUWb"]
    rows = model.padded(contexts(corpus, 3))
    for t in np.flatnonzero(corpus.scored):
        w, context = corpus.ids[t], contexts(corpus, 3)[t]
        if w in listed:
            before = context[context >= 0][::-1].tolist()
            ends = sentences(np.array([[*before, j] for j in listed]))
            share = np.exp(model.rest.score(ends).logp[len(before) :: len(before) + 1]).sum()
            p, _, _ = naive.forward(*theta, rows[t].tolist())
            assert scores.logp[t] == pytest.approx(math.log(p[listed.index(w)] * share), rel=1e-5)
            assert (scores.length[t], scores.kinds) == (-1, ("nplm",))
        else:
            assert scores.logp[t] == rest[t] and scores.length[t] > 0
    at = np.flatnonzero(corpus.scored & (corpus.ids < model.vocab.V))
    assert model.log_p(corpus, at, corpus.ids[at]) == pytest.approx(scores.logp[at], abs=1e-9)


def test_a_rest_with_more_words_is_scaled(texts):
    """The vocabulary of the network is that of a running text, and the rest predicts </s> and another word too."""
    (texts / "train").write_text(TRAIN + "another\n")
    counts = collect(Sources([str(texts / "train")], [], 3))
    rest, _ = smoothing.estimate(counts, make_vocab(sorted(counts.words), True), witten_bell(3))
    (texts / "train").write_text(TRAIN)
    marks = Marks(False, False, True)
    model = replace(short(texts, marks), rest=rest)
    assert rest.vocab.V == model.vocab.V + 2
    for corpus in read_corpus(str(texts / "held"), model.vocab, marks, model.order):
        assert vocabulary_sums(model, corpus, corpus.scored) == pytest.approx(1, abs=2e-6)


def test_a_shortlist_leaves_alone_words_that_are_only_read(texts):
    w = 3, 3, -1, 0, 0, 5
    model = short(texts, N=2, w=w)
    assert model.shortlist.tolist() == [0, 3]
    assert model.places(np.array(w)).tolist() == [1, 1, -1, 0, 0, -1]


def test_the_rest_of_a_shortlist_must_fit(texts):
    model = short(texts)
    data = next(files_of(model))
    other = make_vocab(sorted(set(TRAIN.encode().split())), False)
    longer = model_of(model.vocab, [*columns(model.rest), 3 * (np.zeros(0),)])
    for rest, message in (
        (interpolated(texts), "expected a back-off model, which lmtk ngram-count makes, but its kind is .*"),
        (longer, "its order 4 is above the order 3 of the network"),
        (replace(model.rest, vocab=other), r"lacks words of the network \(<unk>\)"),
    ):
        with pytest.raises(LmtkError, match=message):
            check_rest(model.vocab, model.order, rest, "rest")
    with pytest.raises(LmtkError, match="a shortlist of 10 words covers all 10 words"):
        short(texts, N=model.vocab.V)
    (texts / "rest").write_bytes(data)
    with pytest.raises(FormatError, match="refers to itself"):
        load(str(texts / "rest"))


@pytest.mark.parametrize("name", ["wb.arpa", "unk.arpa", "uni.arpa"])
def test_the_mass_of_a_set_of_words_is_the_sum_of_their_probabilities(name):
    model = load(str(FILES / name))
    V = model.vocab.V
    for chosen in (np.arange(V) % 2 == 0, np.zeros(V, bool), np.ones(V, bool)):
        masses = mass.of_contexts(model, chosen)
        for corpus in read_corpus(str(FILES / "te.txt"), model.vocab, SENTENCES):
            actual = mass.in_rows(model, masses, contexts(corpus, model.order)[:, ::-1])
            for row, sum_ in zip(contexts(corpus, model.order), actual):
                context = row[row >= 0][::-1]
                every = np.column_stack((np.broadcast_to(context, (V, len(context))), np.arange(V)))
                logp = model.score(sentences(every)).logp[len(context) :: len(context) + 1]
                assert sum_ == pytest.approx(np.exp(logp[chosen]).sum(), abs=1e-7)


@pytest.mark.parametrize("name", ["wb.arpa", "unk.arpa", "uni.arpa"])
def test_arpa_models_sum_to_one(name):
    model = load(str(FILES / name))
    for corpus in read_corpus(str(FILES / "te.txt"), model.vocab, Marks()):
        assert vocabulary_sums(model, corpus, corpus.scored) == pytest.approx(1, abs=1e-6)


def test_scoring_does_not_depend_on_what_is_scored_with_it(texts):
    """Order, blocks and repetition of sentences change no score."""
    sentences = [s.split() for s in (TRAIN + HELD).split("\n") if s] * 3
    random.Random(1).shuffle(sentences)
    (texts / "many").write_text("\n".join(map(" ".join, sentences)))
    for model in models(texts):
        (together,) = read_corpus(str(texts / "many"), model.vocab, Marks())
        whole = model.score(together).logp
        for i, sentence in enumerate(sentences[:12]):
            (texts / "one").write_text(" ".join(sentence))
            (alone,) = read_corpus(str(texts / "one"), model.vocab, Marks())
            span = slice(together.starts[i], together.starts[i + 1])
            finite = np.isfinite(whole[span])
            assert model.score(alone).logp[finite] == pytest.approx(whole[span][finite], abs=1e-5)


@pytest.mark.parametrize("marks", MARKS)
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_interpolation_is_the_papers_formula(texts, marks, order):
    model = interpolated(texts, order, marks)
    rows = [s.encode().split() for s in TRAIN.split("\n") if s]
    if marks.stream:
        rows = [[w for s in rows for w in s]]
    counts = naive.ngrams([[b"<s>"] * marks.sos + s + [b"</s>"] * marks.eos for s in rows], order)
    words = model.vocab.words
    events = words[: model.vocab.V]
    (corpus,) = read_corpus(str(texts / "held"), model.vocab, marks)
    logp = model.score(corpus).logp
    for t, context in enumerate(contexts(corpus, order)):
        if corpus.scored[t] and corpus.ids[t] < model.vocab.V:
            history = [words[i] for i in context[::-1] if i >= 0]
            p = naive.interpolated(counts, events, order, model.alpha, history, words[corpus.ids[t]])
            assert math.exp(logp[t]) == pytest.approx(p, rel=1e-9)


def test_backoff_is_katz_recursion():
    """Also where an n-gram's prefix is not in the file, as pruning by other tools leaves it."""
    text = (FILES / "wb.arpa").read_text()
    entries, k = {}, 0
    for line in text.splitlines():
        if line.endswith("-grams:"):
            k += 1
        elif k and "\t" in line:
            p, words, *bow = line.split("\t")
            entries[tuple(words.split())] = (float(p), float(bow[0]) if bow else 0)
    model = load(str(FILES / "wb.arpa"))
    (corpus,) = read_corpus(str(FILES / "te.txt"), model.vocab, Marks())
    logp = model.score(corpus).logp / math.log(10)
    for t, context in enumerate(contexts(corpus, 3)):
        history = [model.vocab.words[i].decode() for i in context[::-1] if i >= 0]
        word = model.vocab.words[corpus.ids[t]].decode()
        if corpus.scored[t]:
            assert logp[t] == pytest.approx(naive.backoff(entries, history, word), abs=1e-6)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_em_is_the_mean_share(data):
    N, J, B = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    random = np.random.default_rng(data.draw(st.integers(0, 999)))
    p, bins = random.uniform(1e-6, 1, (N, J)), random.integers(0, B, N)
    start = np.full((B, J), 1 / J)
    heard = []
    weights = estimate_weights(np.log(p), bins, start, 3, 0, lambda i, w, L: heard.append(L))
    expected = start.tolist()
    for _ in range(3):
        expected = naive.em_step(p.tolist(), bins.tolist(), expected)
    assert weights == pytest.approx(np.array(expected), rel=1e-9)
    assert all(b >= a - 1e-9 for a, b in pairwise(heard))
    assert weights.sum(axis=1) == pytest.approx(1)


def test_a_word_that_weights_of_zero_rule_out_has_no_say():
    logp = np.log([[0.5, 0.25], [1e-300, 0.5]])
    logp[1, 0] = -np.inf
    assert estimate_weights(logp, np.zeros(2, int), np.array([[1.0, 0.0]]), 5, 0).tolist() == [[1, 0]]


def test_an_unvisited_bin_takes_its_nearest_neighbours_weights():
    weights = np.arange(6.0)[:, None]
    assert fill_unvisited(weights, np.array([1, 4])).ravel().tolist() == [1, 1, 1, 4, 4, 4]


def files_of(model):
    """The bytes of every form that the model can be written in."""
    if isinstance(model, interp.Interpolated):
        for write in (interp.write_text, interp.write_binary):
            out = io.BytesIO()
            write(out, model)
            yield out.getvalue()
    if isinstance(model, Network):
        out = io.BytesIO()
        container.write(out, *model.parts())
        yield out.getvalue()
    if isinstance(model, ClassModel):
        out = io.BytesIO()
        write_binary(out, model, "model")
        yield out.getvalue()


@pytest.mark.parametrize("unk", [False, True])
def test_files_give_back_the_model(texts, unk):
    for model in models(texts, unk=unk):
        (corpus,) = read_corpus(str(texts / "held"), model.vocab, Marks())
        for data in files_of(model):
            (texts / "model").write_bytes(data)
            again = load(str(texts / "model"))
            assert again.vocab == model.vocab and again.order == model.order
            assert (again.score(corpus).logp == model.score(corpus).logp).all()
            assert data in list(files_of(again))


def test_a_mixture_file_names_its_parts_relative_to_itself(texts, monkeypatch):
    a, b = interpolated(texts), neural(texts)
    (texts / "models").mkdir()
    (texts / "models/a b.lm").write_bytes(next(files_of(a)))
    (texts / "models/n.bin").write_bytes(next(files_of(b)))
    names = [str(texts / "models/a b.lm"), str(texts / "models/n.bin")]
    model = Mixture([b, a], np.random.default_rng(1).dirichlet([1, 1], len(a.alpha)), 1, names[::-1])
    with open(texts / "mix.lm", "wb") as out:
        write_text(out, model, str(texts / "mix.lm"))
    assert b"model models/a b.lm\n" in (texts / "mix.lm").read_bytes()
    monkeypatch.chdir("/")
    again = load(str(texts / "mix.lm"))
    (corpus,) = read_corpus(str(texts / "held"), b.vocab, Marks())
    assert again.score(corpus).logp == pytest.approx(model.score(corpus).logp)


def test_parts_may_order_their_words_differently(texts):
    a = interpolated(texts)
    counts = collect(Sources([str(texts / "train")], [], 3))
    vocab = make_vocab(sorted(counts.words, reverse=True), True, True)
    heldout = whole_corpus(str(texts / "held"), vocab, Marks())
    b = interp.estimate(counts, vocab, 3, heldout)[0]
    assert a.vocab.words != b.vocab.words
    check_vocabularies([a, b], ["a", "b"])
    (corpus,) = read_corpus(str(texts / "held"), a.vocab, Marks())
    mixed = Mixture([a, b], np.array([[0.5, 0.5]])).score(corpus).logp
    assert mixed == pytest.approx(a.score(corpus).logp, abs=1e-12)


def test_parts_with_other_words_are_an_error():
    parts = [load(str(FILES / name)) for name in ("wb.arpa", "unk.arpa")]
    with pytest.raises(
        LmtkError,
        match=r"a and b must predict the same words, but 4 words are in only one of them \(a, log, mat \.\.\.\)",
    ):
        check_vocabularies(parts, ["a", "b"])


@pytest.mark.parametrize("form", [0, 1, 2, 3, 4])
def test_a_cut_or_damaged_model_is_one_error(texts, form):
    """Cut anywhere, or any byte of a binary form changed: a FormatError, never a model and never another exception."""
    made = interpolated(texts, 2), neural(texts), neural(texts, model="energy"), of_classes(texts)
    data = [form for model in made for form in files_of(model)][form]
    path = texts / "model"
    random_ = random.Random(form)
    for cut in {*range(12), *random_.sample(range(len(data) - 1), 40)}:
        path.write_bytes(data[:cut])
        with pytest.raises(FormatError):
            load(str(path))
    if form == 0:
        return
    for at in {*range(300), *random_.sample(range(len(data)), 100)}:
        path.write_bytes(data[:at] + bytes([data[at] ^ (1 << random_.randrange(8))]) + data[at + 1 :])
        with pytest.raises(FormatError):
            load(str(path))


@pytest.fixture(scope="module")
def text_forms(tmp_path_factory):
    """The bytes of two models in text form."""
    folder = tmp_path_factory.mktemp("forms")
    (folder / "train").write_text(TRAIN)
    (folder / "held").write_text(HELD)
    return [next(files_of(interpolated(folder, 2))), (FILES / "wb.arpa").read_bytes()]


@given(data=st.data())
def test_text_models_survive_any_damage(tmp_path_factory, text_forms, data):
    """A damaged text form is read or is a FormatError: no other exception."""
    folder = tmp_path_factory.mktemp("d")
    (folder / "held").write_text(HELD)
    whole = data.draw(st.sampled_from(text_forms))
    at = data.draw(st.integers(0, len(whole)))
    inserted = data.draw(
        st.binary(max_size=6) | st.sampled_from([b"\n\n", b"\\end\\\n", b"-1", b"nan", b"1e999", b"\t", b" x"])
    )
    (folder / "m").write_bytes(whole[:at] + inserted + whole[at + data.draw(st.integers(0, 20)) :])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LmtkWarning)
        try:
            model = load(str(folder / "m"))
        except FormatError:
            return
        except UsageError as error:  # the damage is zstd's mark, and its package is not installed
            assert "zstd" in str(error)
            return
        for corpus in read_corpus(str(folder / "held"), model.vocab, Marks()):
            model.score(corpus)


def test_safetensors_reads_our_files(texts):
    from safetensors.numpy import load as read

    model = neural(texts)
    arrays = read(next(files_of(model)))
    assert (arrays["C"] == model.C).all() and arrays["U"].shape == (model.vocab.V, 4)


def test_our_files_are_the_bytes_that_safetensors_writes(large_from):
    from safetensors import deserialize
    from safetensors.numpy import load as read
    from safetensors.numpy import save

    kinds = [np.uint8, np.int32, np.float32, np.float64, np.int64]
    arrays = {f"{name}{i}": np.arange(i * 3, dtype=kind) for i, kind in enumerate(kinds) for name in "zaB\u00e9"}
    arrays["grid"] = np.arange(12, dtype=np.float32).reshape(3, 4).T
    for large in (1 << 40, 0):
        large_from(large, "binary")
        out = io.BytesIO()
        container.write(out, "test", {"a": 'quoted "and \\ \u00e9'}, arrays, [b"a", b"\xff"])
        actual = read(out.getvalue())
        assert all((actual[name] == a).all() for name, a in arrays.items())
        size = int.from_bytes(out.getvalue()[:8], "little")
        about = json.loads(out.getvalue()[8 : 8 + size])["__metadata__"]
        assert len(deserialize(out.getvalue())) == len(arrays) + 1
        theirs = save(actual, about)
        if not large:  # blanks fill the header's last page
            theirs_size = int.from_bytes(theirs[:8], "little")
            assert (8 + size) % container.PAGE == 0 and size > theirs_size
            theirs = size.to_bytes(8, "little") + theirs[8 : 8 + theirs_size].ljust(size) + theirs[8 + theirs_size :]
        assert theirs == out.getvalue()


def test_arrays_that_are_made_in_a_file_stand_there_as_others_do(tmp_path, large_from):
    large_from(0, "binary")
    numbers = np.random.default_rng(1).integers(0, 99, 5000, np.int32)
    for begin in (container.PAGE + away for away in (72, 0, 76, 40, 30000)):  # the first is right
        with open_out(tmp_path / "mapped") as out:
            actual = container.map_output(out, begin, 20000).view(np.int32)
            actual[:] = numbers
            again = container.map_output(out, begin, 20000).view(np.int32)
            assert not again.any()  # it is made anew
            actual[:] = numbers
            container.write(out, "test", {}, {"a": actual, "b": np.arange(9)}, [b"w"])
        with open_out(tmp_path / "plain") as out:
            container.write(out, "test", {}, {"a": numbers, "b": np.arange(9)}, [b"w"])
        assert (tmp_path / "mapped").read_bytes() == (tmp_path / "plain").read_bytes()
    assert container.map_output(io.BytesIO(), 0, 10) is None


def test_a_later_format_is_named(texts, monkeypatch):
    monkeypatch.setattr(container, "VERSION", 9)
    data = next(files_of(neural(texts)))
    monkeypatch.undo()
    (texts / "m").write_bytes(data)
    with pytest.raises(FormatError, match=r"written by lmtk .* in a format that this lmtk cannot read; install lmtk "):
        load(str(texts / "m"))


def test_messages_about_the_text_of_an_interpolated_model_name_the_place(texts):
    text = next(files_of(interpolated(texts)))
    lines = text.split(b"\n")
    number = lines.index(b"\\2-grams\\") + 2  # of the second line of the 2-grams, from 0
    cases = [
        (text.replace(b"\\2-grams\\", b"\\2-gramsx\\"), "damaged: a section of the"),
        (b"\n".join([*lines[:number], b"x", *lines[number:]]), f":{number + 1}: expected words and a count, found 'x'"),
    ]
    for damaged, message in cases:
        with pytest.raises(FormatError, match=message):
            interp.read_text(io.BytesIO(damaged), "model")


def test_numbers_of_several_ranges():
    assert ranges(np.array([5, 2, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]
    assert ranges(0, np.array([2, 3])).tolist() == [0, 1, 0, 1, 2]
    assert ranges(0, np.zeros(0, int)).tolist() == []
