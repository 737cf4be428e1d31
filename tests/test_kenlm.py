"""KenLM's binary files: those that KenLM's own build_binary wrote are read, and lmtk writes the same bytes."""

import hashlib
import io
import re
import struct
import warnings
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers import FILES

import lmtk
from lmtk import cli
from lmtk.errors import FormatError, LmtkError, LmtkWarning
from lmtk.files.declared import MAX_ORDER
from lmtk.files.registry import describe, load
from lmtk.jobs.kenlm_files import convert, write_kenlm
from lmtk.kenlm import reading, slices
from lmtk.kenlm.layout import FIXED, Form
from lmtk.ngram.arpa import reader, writer
from lmtk.ngram.edit.closing import close, is_closed
from lmtk.ngram.model.backoff import Walk
from lmtk.ngram.model.building import build_nodes
from lmtk.programs.kenlm import binary_form
from lmtk.reports import kenlm
from lmtk.text.corpus import Marks, read_corpus
from lmtk.text.vocab import vocab_of_unigrams

# options of build_binary, and the first 32 digits of the SHA-256 of the file that KenLM's build_binary (commit of 2024)
# makes of lacking.arpa. That model has no <unk>, and lacks many of the n-grams that its longer n-grams end with.
SUMS = [
    ("-p 3 probing", "07ca36b8cbb2dcdf8445062b172f530f"),
    ("-p 2.5 -u -7 -v probing", "06b51a45531e97a93efdaa8b26210654"),
    ("trie", "a87eef3b0234c769e160cc6fdb27da30"),
    ("-q 3 -b 4 trie", "90b04f5d331f060d42d8471632db83ea"),
    ("-a 255 trie", "ae85a86e94019c340b9f8b5441334630"),
    ("-q 8 -a 3 trie", "7f63ed401b321358351e57333769f81e"),
    ("-q 8 -a 259 trie", "7f63ed401b321358351e57333769f81e"),
    ("-u -7 -v trie", "8c0b47f10457b91ef1e168911285e0dd"),
]
OWN = {"probing": "probing", "trie": "trie", "triea255": "-a 255 trie", "trieq8b8": "-q 8 -b 8 trie"}


def form_of(options):
    """The Form of a line of build_binary's options."""
    *words, kind = options.split()
    values, letter = {}, None
    for word in words:
        letter, values = (word, values | {word: ""}) if word[1:2].isalpha() else (letter, values | {letter: word})
    return binary_form(kind, values)


@pytest.fixture(params=["plain", "kernels"])
def either(request, large_from):
    """Runs a test with numpy and Python alone where they do the work of a kernel, and with kernels."""
    large_from(1 if request.param == "kernels" else 1 << 40)


@pytest.mark.parametrize("options, digits", SUMS)
def test_bytes_are_those_of_kenlm(options, digits, tmp_path, either):
    convert(str(FILES / "lacking.arpa"), str(tmp_path / "out"), form_of(options))
    assert hashlib.sha256((tmp_path / "out").read_bytes()).hexdigest().startswith(digits)


@pytest.mark.parametrize("threads", [1, 3, 40])
def test_a_trie_has_the_same_bytes_for_any_number_of_threads(threads, tmp_path, monkeypatch):
    """Threads divide the records, and the byte in which one part ends and the next begins has bits of both."""
    monkeypatch.setattr("lmtk.machine.threads.wanted", threads)
    for options, digits in SUMS[2:]:
        convert(str(FILES / "lacking.arpa"), str(tmp_path / "out"), form_of(options))
        assert hashlib.sha256((tmp_path / "out").read_bytes()).hexdigest().startswith(digits)


@pytest.mark.parametrize("seed", range(12))
def test_a_trie_is_the_same_without_a_model_in_between(seed, tmp_path, large_from, monkeypatch):
    """`-write-kenlm` writes an estimate in suffix order where it can; `build_binary` reads a model sorted by prefix."""
    random = np.random.default_rng(seed)
    large_from(1)
    monkeypatch.setattr("lmtk.machine.threads.wanted", int(random.integers(1, 4)))
    words = [*"abcdefgh", "<unk>"][: random.integers(2, 10)]
    lines = [" ".join(random.choice(words, random.integers(0, 7))) for _ in range(random.integers(30, 120))]
    (tmp_path / "text").write_text("\n".join(lines) + "\n")
    marks = random.choice(["", "-no-sos", "-no-eos", "-unk", "-stream"])
    smoothing = random.choice(["-wbdiscount", "-kndiscount -interpolate -discount-fallback", "-gt3min 2 -wbdiscount"])
    form = random.choice(["", "-quantize 4", "-compact"])
    order = int(random.integers(2, 6))
    count = f"ngram-count -text text -order {order} {marks} {smoothing} {'-gt3min 1 -gt4min 1' * (order > 2)}"
    kenlm = f"-write-kenlm FILE -kenlm-type trie {form}"
    monkeypatch.chdir(tmp_path)
    run(f"{count} {kenlm.replace('FILE', 'direct')}")
    run(f"{count} -write-bin model")
    run(f"ngram -lm model {kenlm.replace('FILE', 'through')}")
    run(f"{count} -memory 100M {kenlm.replace('FILE', 'bounded')}")
    assert Path("direct").read_bytes() == Path("through").read_bytes() == Path("bounded").read_bytes()


@pytest.mark.parametrize("seed", range(16))
def test_a_trie_is_the_same_in_any_number_of_slices(seed, tmp_path, large_from, monkeypatch):
    """`build_binary` sorts the n-grams of an ARPA file as they come, in slices if there are many of them; a model in
    memory is sorted already. The lines are in any order, n-grams may be repeated, and suffixes may be missing.
    """
    random = np.random.default_rng(seed)
    large_from(int(random.choice([1, 1 << 40])))
    monkeypatch.chdir(tmp_path)
    lines = [" ".join(random.choice([*"abcdefgh"], random.integers(0, 7))) for _ in range(random.integers(30, 120))]
    Path("text").write_text("\n".join(lines) + "\n")
    order = int(random.integers(2, 6))
    run(f"ngram-count -text text -order {order} -wbdiscount -lm model")
    if random.random() < 0.5:
        run("ngram -lm model -prune 1e-2 -write-lm model")

    def shuffled(match):
        ngrams = match[2].splitlines(True)
        ngrams += ngrams[: random.choice([0, 0, 2])]
        random.shuffle(ngrams)
        return match[1] + "".join(ngrams)

    Path("arpa").write_text(re.sub(r"(-grams:\n)((?:[^\n]+\n)+)", shuffled, Path("model").read_text()))
    bits = int(random.choice([0, 4]))
    form = Form("trie", bits=bits, weight_bits=bits, pointer_bits=random.choice([None, 3]))
    with warnings.catch_warnings(record=True) as expected:
        write_kenlm(load("arpa"), "loaded", form, "arpa")
    for name, value in {"MANY": 0, "BITS": random.integers(1, 9), "ROOM": random.integers(20, 400)}.items():
        monkeypatch.setattr(slices, name, int(value))
    with warnings.catch_warnings(record=True) as actual:
        convert("arpa", "read", form)
    assert Path("read").read_bytes() == Path("loaded").read_bytes()
    assert sorted(str(w.message) for w in actual) == sorted(str(w.message) for w in expected)
    out = io.BytesIO()  # a stream without places, such as a pipe
    slices.write(out, slices.slices_of(load("model"), clips=False), form)
    write_kenlm(load("model"), "whole", form, "model")
    assert out.getvalue() == Path("whole").read_bytes()


def run(command):
    """Runs a command in this process."""
    name, *words = command.split()
    cli.run(name, words)


@pytest.mark.parametrize("name", OWN)
def test_bytes_are_those_of_a_file_that_kenlm_wrote(name, tmp_path):
    convert(str(FILES / "wb.arpa"), str(tmp_path / "out"), form_of(OWN[name]))
    assert (tmp_path / "out").read_bytes() == (FILES / "kenlm" / name).read_bytes()


@pytest.mark.parametrize("kind", ["probing", "trie"])
@pytest.mark.parametrize("arpa", ["wb.arpa", "lacking.arpa"])
def test_a_model_in_memory_has_the_same_scores(kind, arpa, tmp_path, either):
    """Also as it is read back, whatever text it is asked for."""
    model = load(str(FILES / arpa))
    write_kenlm(model, str(tmp_path / "out"), Form(kind, multiplier=3), arpa)
    again = load(str(tmp_path / "out"))
    random = np.random.default_rng(1)
    words = [b"never", *model.vocab.words[: model.vocab.V]]
    text = [b" ".join(random.choice(words, random.integers(0, 9))) for _ in range(200)]
    (tmp_path / "text").write_bytes(b"\n".join(text))
    ours, theirs = (next(read_corpus(str(tmp_path / "text"), m.vocab, Marks())) for m in (model, again))
    a, b = kenlm.scorer(model)(ours), kenlm.scorer(again)(theirs)
    assert np.array_equal(a[0], b[0])


def test_suffixes_and_contexts_are_added():
    """Probabilities stay; the model has what it lacked."""
    model = load(str(FILES / "lacking.arpa"))
    closed = close(model)
    assert is_closed(closed.nodes) and not is_closed(model.nodes) and close(closed) is closed
    random, size = np.random.default_rng(2), len(model.vocab.words)
    ids, fresh = random.integers(0, size, 3000).astype(np.int32), random.random(3000) < 0.1
    assert np.allclose(model.walk(ids, fresh)[0], closed.walk(ids, fresh)[0], rtol=1e-5, atol=1e-6)


def test_an_added_n_gram_of_probability_0_is_the_same_in_large_models(large_from):
    text = b"""\\data\\
ngram 1=4
ngram 2=1
ngram 3=1

\\1-grams:
-99\t<s>\t-0.2
-0.5\t</s>
-0.4\ta\t-0.3
-0.6\tc\t-0.1

\\2-grams:
-0.2\tc a\t-0.7

\\3-grams:
-0.9\tc a <s>

\\end\\
"""
    model, added = reader.read_text(io.BytesIO(text), "m"), []
    for large in (1 << 40, 0):
        large_from(large)
        added.append(close(model).ngrams(2)[1].tolist())
    assert added[0] == added[1] and sorted(added[0]) == pytest.approx([-99.3, -0.2])


def test_bad_models(tmp_path):
    """One line each."""
    arpa, out = (FILES / "wb.arpa").read_text(), str(tmp_path / "out")

    def refused(text, clause, options="trie"):
        (tmp_path / "in").write_text(text)
        with pytest.raises(LmtkError, match=clause):
            convert(str(tmp_path / "in"), out, form_of(options))
        assert not (tmp_path / "out").exists()

    for kind in ("probing", "trie"):
        refused((FILES / "uni.arpa").read_text(), "order 2 or more", kind)
        refused(arpa.replace("<s>", "<S>"), "the model has no <s>; .* -s", kind)
        refused(arpa.replace("-99\t<s>", "0.5\t<s>"), "1 positive log probability, up to 0.5; .* -i", kind)
        refused("just text", "not a model", kind)
        refused(arpa.replace("\tthe cat", "\tthe lion"), "the word lion of an n-gram is not among the 1-grams", kind)
    refused(arpa.replace("ngram 2=", "ngram 2=9"), "there are", "probing")
    refused(arpa.replace("ngram 2=", "ngram 2=9999999999999"), "says 9999999999999.* do not fit into memory", "probing")
    refused(arpa.replace("ngram 1=11", "ngram 1=10"), "says 10 1-grams; there are 11", "probing")
    refused(arpa.replace("\n\n\\1-", "\nngram 4=4\n\n\\1-", 1), "says 4 4-grams; there are 0", "probing")
    refused(re.sub("ngram 3=.*\n", "", arpa), "says nothing of 3-grams", "probing")
    twice = arpa.replace("ngram 1=11", "ngram 1=12").replace("\\2-grams:", "-1\tthe\t-0.1\n\\2-grams:")
    refused(twice, "a word occurs twice among the 1-grams", "probing")
    lacking = (FILES / "lacking.arpa").read_text()
    refused(lacking, "a hash table is full.*larger multiplier", "probing")
    for kind in ("probing", "trie"):
        (tmp_path / "in").write_text(arpa.replace("<s>", "<S>").replace("-99\t<S>", "0.5\t<S>"))
        convert(str(tmp_path / "in"), out, form_of(f"-s -i {kind}"))
        assert load(out).vocab.V


@pytest.mark.parametrize("kind", ["trie", "triea255", "trieq8b8", "trieq8b8a22"])
def test_kenlms_tries_are_read(kind, tmp_path):
    """Files that build_binary made of wb.arpa: the same model, whatever the kind; cut, one error."""
    path, model = FILES / "kenlm" / kind, lmtk.load(FILES / "wb.arpa")
    actual = lmtk.load(path)
    for line in (FILES / "te.txt").read_text().splitlines():
        assert list(actual.full_scores(line)) == list(model.full_scores(line))
    out = [io.BytesIO(), io.BytesIO()]
    for a, x in zip(out, (actual, model)):
        writer.write_text(a, x.lm)
    assert out[0].getvalue() == out[1].getvalue()
    lines, words = describe(str(path))
    assert dict(lines)["file"].startswith("KenLM's, trie") and b"cat" in words
    corpus = next(read_corpus(str(FILES / "te.txt"), model.vocab, Marks()))
    size = path.stat().st_size
    spoilt(tmp_path, path.read_bytes(), range(size - 1, 0, -(size // 60)), corpus)


@pytest.mark.parametrize("kind", ["probing", "trie"])
def test_a_second_end_of_sentence_is_read_as_kenlm_reads_it(kind, tmp_path):
    """Files that build_binary made of wb.arpa with a second </s> before the first; a published script adds it. In the
    probing file KenLM uses the first </s>, in this trie the last; the scores are those of KenLM's query.
    """
    text = (FILES / "wb.arpa").read_text().replace("ngram 1=11", "ngram 1=12")
    text = text.replace("\\1-grams:\n", "\\1-grams:\n0\t</s>\t-0.5\n")
    (tmp_path / "in").write_text(text)
    path = FILES / "kenlm" / f"{kind}-twice"
    if kind == "probing":
        convert(str(tmp_path / "in"), str(tmp_path / "out"), form_of(kind))
        assert (tmp_path / "out").read_bytes() == path.read_bytes()
    model = lmtk.load(path)
    scores = [model.score(line) for line in [(FILES / "te.txt").read_text().splitlines()[0], ""]]
    assert scores == pytest.approx([-4.049218, -0.3357921 if kind == "probing" else -1.1931247])
    assert model.vocab.words.count(b"</s>") == 1


def test_words_keep_kenlms_numbers():
    words = [b"<unk>", b"b", b"<s>", b"a", b"</s>"]
    vocab = vocab_of_unigrams(words)
    assert [words[i] for i in reading.kenlm_numbers(vocab, words)] == vocab.words


def spoilt(tmp_path, data, places, corpus):
    """A model's file cut at a place is an error; with another byte there it is one, or scores."""
    random = np.random.default_rng(1)
    for i in places:
        (tmp_path / "cut").write_bytes(data[:i])
        with pytest.raises(LmtkError):
            load(str(tmp_path / "cut"))
        damaged = bytearray(data)
        damaged[i] = random.integers(256)
        (tmp_path / "damaged").write_bytes(damaged)
        with suppress(LmtkError):
            load(str(tmp_path / "damaged")).score(corpus)


def test_kenlms_other_files_are_one_line():
    with pytest.raises(FormatError, match="without its words"):
        load(str(FILES / "kenlm" / "nowords"))


def test_an_order_beyond_those_of_lmtk_is_an_error(tmp_path):
    """Kernels have room for the weights of MAX_ORDER contexts."""
    head = struct.pack("<BxxxfIBxxxI", MAX_ORDER + 1, 1.5, 2, 1, 1) + bytes(8 * (MAX_ORDER + 1))
    (tmp_path / "deep").write_bytes((FILES / "kenlm" / "trie").read_bytes()[:FIXED] + head)
    with pytest.raises(FormatError, match="the order 100 is too high"):
        load(str(tmp_path / "deep"))
    key = np.zeros(1, np.int64), np.zeros(1, np.float32), np.zeros(1, np.float32)
    deep = Walk(build_nodes([key] * (MAX_ORDER + 1), 1), np.zeros(1, np.int32), np.zeros(1, np.float32), 1)
    with pytest.raises(LmtkError, match="the order 100 is too high"):
        deep.arrays  # noqa: B018


@pytest.mark.parametrize("kind", ["probing", "trie"])
@pytest.mark.parametrize(
    "change, clause",
    [
        ((b"\0cat\0", b"\0dog\0"), "a word is empty or occurs twice"),
        ((b"\0cat\0", b"\0\0"), "a word is empty or occurs twice"),
        ((b"\0cat\0", b"\0c t\0"), "its words do not match"),
        ((b"\0cat\0", b"\0cat\0rest\0"), "its words do not match"),
        ((b"<unk>\0", b"<ink>\0"), "its words do not match"),
        ((b"version 5", b"version 4"), "of version 4; this lmtk reads version 5"),
        ((b"version 5\n\0", b"version 5\n\1"), "the file is incomplete or damaged; build it again"),
        ((b"version 5", b"version \xff"), "the file is incomplete or damaged; build it again"),
    ],
)
def test_damaged_words_are_one_line(kind, change, clause, tmp_path):
    (tmp_path / "damaged").write_bytes((FILES / "kenlm" / kind).read_bytes().replace(*change))
    with pytest.raises(FormatError, match=clause):
        load(str(tmp_path / "damaged"))
    (tmp_path / "damaged").write_bytes((FILES / "kenlm" / kind).read_bytes() + b"more")
    with pytest.raises(FormatError, match="its words do not match"):
        load(str(tmp_path / "damaged"))


def test_kenlms_probing_tables_are_scored_by(tmp_path, amount):
    """A file that build_binary made of wb.arpa: the same scores, to the last bit; damaged, no harm; no n-grams."""
    path, model = FILES / "kenlm" / "probing", lmtk.load(FILES / "wb.arpa")
    actual = lmtk.load(path)
    for line in (FILES / "te.txt").read_text().splitlines():
        assert list(actual.full_scores(line)) == list(model.full_scores(line))
    numbers = [kenlm.numbers(m.lm, str(where)) for m, where in ((model, FILES / "wb.arpa"), (actual, path))]
    assert dict(zip(model.vocab.words, numbers[0])) == dict(zip(actual.vocab.words, numbers[1]))
    corpus = next(read_corpus(str(FILES / "te.txt"), model.vocab, Marks()))
    renumbered = next(read_corpus(str(FILES / "te.txt"), actual.vocab, Marks()))
    for order in (1, 2, 3):
        a, b = model.lm.lower(order).score(corpus), actual.lm.lower(order).score(renumbered)
        assert np.allclose(a.logp, b.logp, rtol=1e-6) and np.array_equal(a.length, b.length)
    lines, words = describe(str(path))
    assert dict(lines)["file"] == "KenLM's, probing hash tables" and b"cat" in words
    assert dict(lines)["2-grams"] == model.lm.nodes.size(2)
    size = path.stat().st_size
    spoilt(tmp_path, path.read_bytes(), [*range(150), *range(150, size, amount(5, 1))], renumbered)


@pytest.mark.parametrize("kind", ["probing", "trie"])
def test_probability_0_stays_0_in_kenlms_files(kind, tmp_path):
    """-99 stands for the logarithm of 0; in the report of KenLM it is a number."""
    arpa = re.sub(r"\n\S+\tcat\t\S+", "\n-99\tcat\t-99", (FILES / "wb.arpa").read_text(), count=1)
    (tmp_path / "arpa").write_text(arpa)
    lmtk.load(tmp_path / "arpa").write(tmp_path / "binary", f"kenlm-{kind}")
    (tmp_path / "text").write_text("cat the\na cat sat\n")
    models = [lmtk.load(tmp_path / name) for name in ("arpa", "binary")]
    expected, actual = (m.lm.score(next(read_corpus(str(tmp_path / "text"), m.vocab, Marks()))).logp for m in models)
    assert np.isneginf(expected).sum() > 1
    assert np.allclose(expected, actual, rtol=1e-6)
    expected, actual = (list(model.full_scores("cat sat cat")) for model in models)
    assert expected == actual


def test_a_search_in_a_full_table_ends():
    """A damaged probing table has no free bucket, and none with the key of an n-gram of the text."""
    model = lmtk.load(FILES / "kenlm" / "probing").lm
    corpus = next(read_corpus(str(FILES / "te.txt"), model.vocab, Marks()))
    memory = model.memory.copy()
    begin, buckets, width = model.where[1]
    records = memory[begin : begin + buckets * width].reshape(buckets, width)
    records[:, :2] = -1
    assert replace(model, memory=memory).score(corpus).length.max() == 1


def test_only_blanks_tabs_and_line_ends_separate_the_words_of_an_arpa_file(tmp_path):
    (tmp_path / "m").write_bytes(b"\\data\\\nngram 1=2\n\n\\1-grams:\n-1\ta\x0bb\t0\n-1\tc\r\n\n\\end\\\n")
    assert kenlm.arpa_words(str(tmp_path / "m")) == [b"a\x0bb", b"c"]


@pytest.mark.parametrize("kind", ["probing", "trie"])
def test_a_word_with_a_nul_byte_is_an_error(kind, tmp_path):
    """The byte ends a word in the file, which could not be read."""
    text = (FILES / "wb.arpa").read_bytes().replace(b"\tcat", b"\tc\0t").replace(b" cat", b" c\0t")
    (tmp_path / "in").write_bytes(text)
    with pytest.raises(LmtkError, match="the word c\0t has a NUL byte"), pytest.warns(LmtkWarning, match="NUL bytes"):
        convert(str(tmp_path / "in"), str(tmp_path / "out"), form_of(kind))
    assert not (tmp_path / "out").exists()


def test_both_names_of_unk_are_one_word(tmp_path):
    """KenLM takes the last 1-gram; of equal 2-grams the first is kept."""
    text = b"""\\data\\
ngram 1=5
ngram 2=2

\\1-grams:
-1\t<unk>\t-0.1
-2\t<UNK>\t-0.2
-1\t<s>\t-0.3
-1\t</s>
-1\ta\t-0.4

\\2-grams:
-0.5\ta <unk>
-0.6\ta NAME

\\end\\
"""
    out, again = str(tmp_path / "out"), str(tmp_path / "again")
    for name in (b"<unk>", b"<UNK>"):
        (tmp_path / "in").write_bytes(text.replace(b"NAME", name))
        with pytest.warns(LmtkWarning, match="1 repeated n-gram"):
            convert(str(tmp_path / "in"), out, form_of("trie"))
        assert list(lmtk.load(out).full_scores("a zz"))[1:] == [
            (pytest.approx(-0.5), 2, True),
            (pytest.approx(-1.2), 1, False),
        ]
    write_kenlm(reader.read_text(io.BytesIO(text.replace(b"NAME", b"<UNK>")), "m"), again, form_of("trie"), "m")
    assert Path(again).read_bytes() == Path(out).read_bytes()


@pytest.mark.parametrize("kind", ["probing", "trie"])
def test_a_file_that_is_cut_short_is_called_so(kind, tmp_path, either):
    """Also if the last word is cut, and the rest of it has no 1-gram."""
    (tmp_path / "in").write_text((FILES / "wb.arpa").read_text().split("\n\n\\end")[0][:-1])
    with pytest.raises(FormatError, match="the file is incomplete"):
        convert(str(tmp_path / "in"), str(tmp_path / "out"), form_of(kind))
