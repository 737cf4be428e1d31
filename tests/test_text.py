"""Tokens, vocabularies, sentences, counts, against their definitions."""

import gzip
import io
import os
import pickle
import re
import sys
import threading
import time

import naive
import numpy as np
import pytest
from helpers import set_large
from hypothesis import given, settings
from hypothesis import strategies as st

from lmtk.errors import FormatError, LmtkError, LmtkWarning, UsageError
from lmtk.files.decoding import blocks, lines
from lmtk.files.inputs import open_in
from lmtk.files.outputs import open_out
from lmtk.files.words import Words
from lmtk.machine import threads as threads_module
from lmtk.ngram.counting.collection import Sources, collect
from lmtk.ngram.counting.counts import (
    count_ids,
    from_rows,
    read_rows,
    sort_keys,
    sort_positions,
    to_rows,
    write_counts,
)
from lmtk.text import corpus, subwords
from lmtk.text.bitext import read_dictionary
from lmtk.text.corpus import Closed, Growing, Marks, Table, contexts, count_words, ids_of, read_corpus, read_ids, tokens
from lmtk.text.normalize import normalize, split_marks
from lmtk.text.vocab import Vocab, make_vocab, read_vocab, vocab_of, vocab_of_unigrams

words = st.sampled_from([b"a", b"b", b"c", b"dd", b"\xe9", b"<unk>"])
text = st.lists(st.lists(words, max_size=7), min_size=1, max_size=8)
quick = settings(max_examples=100)


def written(tmp, sentences):
    path = tmp / "text"
    path.write_bytes(b"".join(b" ".join(s) + b"\n" for s in sentences))
    return str(path)


@quick
@given(st.binary(max_size=300))
def test_tokens_are_split_on_four_bytes_only(data):
    for row, line in zip(b" ".join(tokens(data)).split(b"\n"), data.split(b"\n")):
        expected = line.replace(b"\t", b" ").replace(b"\r", b" ").split(b" ")
        assert [w for w in row.split(b" ") if w] == [w for w in expected if w]


def test_only_four_bytes_are_blank():
    line = "a\u00a0b c\u3000d e\x0bf g\x0ch i\x85j".encode()
    assert tokens(line + b"\tk\r\n") == [*line.split(b" "), b"k", b"\n"]


def read_with(patch, large, path, index, size, tolower=False):
    """read_ids with the kernel for blocks of `large` bytes or more, in blocks of `size`."""
    set_large(patch, large, "text")
    patch.setattr(corpus, "blocks", lambda path, **how: blocks(path, size, **how))
    return read_ids(path, index, Marks(tolower=tolower))


byte = st.sampled_from(b"aAb\xe9 \t\r\n\x0b\x00\x85")
long_words = st.sampled_from([b"", b"1234567", b"12345678", b"123456789" * 9, b"\xc3\xa9", b"<s>", b"</s>", b"<unk>"])


@given(st.lists(st.one_of(st.lists(byte).map(bytes), long_words)), st.integers(1, 99), st.booleans(), st.booleans())
@pytest.mark.filterwarnings("ignore::lmtk.errors.LmtkWarning")
def test_the_kernel_reads_what_the_dictionary_reads(tmp_path_factory, parts, size, tolower, closed):
    path = tmp_path_factory.mktemp("k") / "t"
    path.write_bytes(b"".join(parts))
    outcomes = []
    with pytest.MonkeyPatch.context() as patch:
        for large in (1 << 30, 1):
            index = Closed({b"a": 3, b"<s>": 7, b"</s>": -2, b"": 1, b"123456789" * 9: 0}, 9) if closed else Growing()
            ids, starts, blank = read_with(patch, large, str(path), index, size, tolower)
            counts = list(count_words([str(path)], tolower).items())
            assert closed or [index[word] for word in index.words()] == [*range(len(index) - 1)]
            outcomes.append((ids.tolist(), starts.tolist(), blank, list(index.items()), counts))
    assert outcomes[0] == outcomes[1]


def test_the_kernels_table_grows(tmp_path, monkeypatch):
    random = np.random.default_rng(1)
    path = tmp_path / "t"
    numbers = random.integers(0, 30000, 100000).tolist()
    path.write_bytes(b"".join(b"%d%s" % (n, b"x" * (n % 13)) + b" \n"[n % 2 :][:1] for n in numbers) + b"y" * 200000)
    plain, fast = Growing([b"<s>", b"</s>", b"7"]), Growing([b"<s>", b"</s>", b"7"])
    for a, b in zip(
        read_with(monkeypatch, 1 << 30, str(path), plain, 1 << 16), read_with(monkeypatch, 1, str(path), fast, 1 << 16)
    ):
        assert np.array_equal(a, b)
    assert [fast[word] for word in plain.words()] == [*plain.values()][1:]
    assert list(plain.items()) == list(fast.items())


@given(text, st.integers(1, 4), st.booleans(), st.booleans())
def test_counts_are_those_of_a_dictionary(tmp_path_factory, sentences, order, no_sos, no_eos):
    path = written(tmp_path_factory.mktemp("c"), sentences)
    counts = collect(Sources([path], [], order, marks=Marks.from_options(no_sos, no_eos)))
    marked = [[b"<s>"] * (not no_sos) + s + [b"</s>"] * (not no_eos) for s in sentences if s]
    expected = naive.ngrams(marked, order)
    actual = {}
    for rows, level in zip(to_rows(counts.levels, len(counts.words)), counts.levels):
        for row, n in zip(rows, level.count):
            actual[tuple(counts.words[i] for i in row)] = n
    assert actual == expected


@given(text, text, st.integers(1, 3))
def test_counts_of_parts_add_up(tmp_path_factory, first, second, order):
    tmp = tmp_path_factory.mktemp("c")
    files = []
    for name, part in (("a", first), ("b", second)):
        with open_out(str(tmp / f"{name}.gz")) as out:
            write_counts(out, collect(Sources([written(tmp, part)], [], order)))
        files.append(str(tmp / f"{name}.gz"))
    whole, merged = io.BytesIO(), io.BytesIO()
    write_counts(whole, collect(Sources([written(tmp, first + second)], [], order)), by_bytes=True)
    write_counts(merged, collect(Sources([], files, order)), by_bytes=True)
    assert whole.getvalue() == merged.getvalue()


@pytest.mark.parametrize("order", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("seed", range(8))
def test_one_sort_counts_as_a_sort_an_order_does(order, seed):
    random = np.random.default_rng(seed)
    W = [1, 2, 3, 9, 70][seed % 5]
    lengths = random.integers(1, 1 + [1, 3, 12, 40][seed % 4], [1, 40, 600][seed % 3])
    starts = np.concatenate(([0], np.cumsum(lengths)))
    ids = random.integers(0, W, starts[-1]).astype(np.int32)
    text = ids, starts, order, W, len(ids) - seed % 2 * len(ids) // 3
    for a, b in zip(sort_keys(*text), sort_positions(*text), strict=True):
        for name in ("keys", "count", "first"):
            assert np.array_equal(getattr(a, name), getattr(b, name))


@pytest.mark.parametrize("seed", range(20))
def test_many_rows_are_counted_as_few(large_from, seed):
    random, outcomes = np.random.default_rng(seed), []
    W, order = int(random.integers(1, 8)), int(random.integers(1, 6))
    rows = [random.integers(0, W, (random.integers(1, 30), k)).astype(np.int32) for k in range(1, order + 1)]
    weights = [random.integers(0, 5, len(row)) * random.choice([1, 1.5]) for row in rows]
    for large in (1 << 40, 1):
        large_from(large)
        outcomes.append(from_rows([*rows], [*weights], W))
    for a, b in zip(*outcomes, strict=True):
        for name in ("keys", "count", "first"):
            assert np.array_equal(getattr(a, name), getattr(b, name))


def test_rows_and_levels_are_two_views_of_the_same():
    ids = np.array([0, 1, 2, 1, 0, 1, 2], np.int32)
    levels = count_ids(ids, np.array([0, 4, 7]), 3, 3, 7)
    again = from_rows(to_rows(levels, 3), [level.count for level in levels], 3)
    for a, b in zip(levels, again):
        assert (a.keys == b.keys).all() and (a.count == b.count).all()


def test_many_count_lines_are_read_as_few(tmp_path, large_from):
    (tmp_path / "c").write_text(
        "a b\t3\n\nc a b d\t1\r\nb\t0\n e  f g\t9223372036854775807\nb a c\t0000000000000000000007\n" * 3 + "h i j k 5"
    )
    actual = []
    for large in (1 << 40, 1):
        large_from(large, "text")
        for order in (None, 1, 2, 3):
            index = Growing()
            rows, weights = zip(*read_rows(str(tmp_path / "c"), index, order))
            actual.append((index.words(), [row.tolist() for row in rows], [weight.tolist() for weight in weights]))
    assert actual[:4] == actual[4:]
    assert b"b" in actual[1][0] and b"a" not in actual[1][0] and len(actual[2][0]) < len(actual[3][0])


def test_a_prefix_that_was_not_counted_is_a_node_of_count_0():
    levels = from_rows([np.zeros((0, 1), int), np.array([[2, 1]])], [np.zeros(0, int), np.array([5])], 3)
    assert levels[0].keys.tolist() == [2] and levels[0].count.tolist() == [0]


BAD = [b"a b", b"3", b"a -1", b"a nan", b"a 1.5", b"a 1_0", b"a 9223372036854775808", b"a 99999999999999999999"]


@pytest.mark.parametrize("line", BAD)
def test_a_bad_count_line_is_named(tmp_path, large_from, line):
    path = tmp_path / "counts"
    path.write_bytes(b"a 1\n\n" + line + b"\nb 2\n")
    for large in (1 << 40, 1):
        large_from(large, "text")
        with pytest.raises(FormatError, match=r"counts:3: expected words and a whole count.*found '" + line.decode()):
            read_rows(str(path), Growing())


@given(text, st.integers(1, 4))
def test_a_stream_in_blocks_is_the_stream(tmp_path_factory, sentences, order):
    path = written(tmp_path_factory.mktemp("s"), sentences)
    vocab = make_vocab([b"a", b"b"], unk=True, eos=False)
    whole = [vocab.index.get(w, vocab.unk_id) for s in sentences for w in s]
    scored = []
    import lmtk.text.corpus as module

    original = module.blocks
    module.blocks = lambda path, **how: original(path, size=5, **how)
    try:
        for corpus in read_corpus(path, vocab, Marks.from_options(False, False, True), order):
            rows = contexts(corpus, order)
            scored += [(w, tuple(c)) for w, c, s in zip(corpus.ids, rows, corpus.scored) if s]
    finally:
        module.blocks = original
    expected = []
    for t, w in enumerate(whole):
        expected.append((w, tuple(whole[t - k] if t >= k else -1 for k in range(1, order))))
    assert scored == expected


def test_a_carriage_return_ends_a_word_in_a_word_list_and_a_vertical_tab_does_not_in_a_dictionary(tmp_path):
    (tmp_path / "list").write_bytes(b"a\rb\n\rc\t5\r\n \r\n")
    (tmp_path / "pairs").write_bytes(b"a\vb\tc  d\r\n\n")
    assert read_vocab(str(tmp_path / "list")) == [b"a", b"c"]
    assert read_dictionary(str(tmp_path / "pairs")) == {b"a\vb": b"c d"}


def test_marks_of_a_line_are_not_doubled(tmp_path):
    path = tmp_path / "t"
    path.write_bytes(b"<s> a </s>\nb\n")
    vocab = make_vocab([b"a", b"b"])
    (corpus,) = read_corpus(str(path), vocab, Marks())
    assert [vocab.words[i] for i in corpus.ids] == [b"<s>", b"a", b"</s>", b"<s>", b"b", b"</s>"]
    assert corpus.scored.tolist() == [False, True, True] * 2


def test_special_words_stand_once():
    vocab = make_vocab([b"<unk>", b"a", b"<s>", b"a", b"</s>"], unk=True)
    assert vocab.words == [b"</s>", b"<unk>", b"a", b"<s>"] and vocab.V == 3
    with pytest.raises(LmtkError, match="no words in it"):
        make_vocab([b"<unk>", b"<s>"], unk=True)


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2", ".xz"])
def test_compression_by_suffix_and_content(tmp_path, suffix):
    data = b"a b\nc\n" * 1000
    path = str(tmp_path / f"x{suffix}")
    for _ in range(2):
        with open_out(path) as out:
            out.write(data)
        first = (tmp_path / f"x{suffix}").read_bytes()
    assert (tmp_path / f"x{suffix}").read_bytes() == first and (first == data) == (suffix == "")
    (tmp_path / "other").write_bytes(first)
    assert b"".join(blocks(str(tmp_path / "other"))) == data


def test_a_cut_gzip_file_is_named(tmp_path):
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"a b c\n" * 9999)[:-9])
    with pytest.raises(FormatError, match=r"x\.gz: the compressed data is incomplete"):
        list(lines(str(path)))


def test_output_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), open_out(str(path)) as out:
        out.write(b"new")
        raise ZeroDivisionError
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["x"]


def test_bom_and_nul_are_warned_of_once(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"\xef\xbb\xbfa\0b\n\0\n")
    with pytest.warns(LmtkWarning) as actual:
        assert b"".join(blocks(str(path))) == b"a\0b\n\0\n"
    assert len(actual) == 2


@pytest.mark.parametrize("size", [3, 4, 5, 8, 100])
@pytest.mark.parametrize("eager", [False, True])
def test_blocks_are_whole_lines_after_a_bom_too(tmp_path, size, eager):
    data = b"alpha beta\n\ngamma\ndelta"
    (tmp_path / "x").write_bytes(b"\xef\xbb\xbf" + data)
    with pytest.warns(LmtkWarning):
        actual = list(blocks(str(tmp_path / "x"), size, eager))
        as_is = list(blocks(str(tmp_path / "x"), size, eager, as_is=True))
    assert b"".join(actual) == data + b"\n" and b"".join(as_is) == data
    assert all(block.endswith(b"\n") for block in actual + as_is[:-1])


def test_a_short_first_line_comes_at_once():
    reader, writer = os.pipe()
    os.write(writer, b"a\n")
    late = threading.Timer(5, os.write, (writer, b"b\n"))
    late.start()
    assert next(blocks(f"/dev/fd/{reader}", eager=True)) == b"a\n"
    late.cancel()
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize(
    "data", [gzip.compress(b"a b\n", mtime=0), b"a b\n", b"abc", b"", b"\x08" + bytes(7) + b"{" + b"x" * 99]
)
def test_a_pipe_that_gives_one_byte_first_is_read_as_a_file_is(tmp_path, data):
    (tmp_path / "file").write_bytes(data)
    os.mkfifo(tmp_path / "pipe")

    def give():
        with open(tmp_path / "pipe", "wb", buffering=0) as pipe:
            for part in (data[:1], data[1:9], data[9:]):
                pipe.write(part)
                time.sleep(0.05)

    threading.Thread(target=give).start()
    with open_in(str(tmp_path / "file")) as file, open_in(str(tmp_path / "pipe")) as pipe:
        assert pipe.peek(9)[:9] == file.peek(9)[:9] and pipe.read() == file.read()


@pytest.mark.parametrize("empty", [b"", b"\n\n"])
def test_a_text_without_words_among_others_adds_nothing(tmp_path, empty):
    (tmp_path / "empty").write_bytes(empty)
    (tmp_path / "t").write_bytes(b"a b\n")
    once = collect(Sources([str(tmp_path / "t")], [], 2))
    with_empty = collect(Sources([str(tmp_path / "empty"), str(tmp_path / "t"), str(tmp_path / "empty")], [], 2))
    assert [level.count.tolist() for level in with_empty.levels] == [level.count.tolist() for level in once.levels]


def test_open_in_leaves_the_callers_error_alone(tmp_path):
    (tmp_path / "x").write_bytes(b"a")
    with pytest.raises(ZeroDivisionError), open_in(str(tmp_path / "x")):
        raise ZeroDivisionError


@quick
@given(st.binary(max_size=200))
def test_normalizing_changes_words_only(data):
    for options in ({"tolower": True}, {"to_num": True}, {"proper": True}):
        out = normalize(data, **options)
        assert out.count(b"\n") == data.count(b"\n")
        assert len(b" ".join(tokens(out)).split(b" ")) == len(b" ".join(tokens(data)).split(b" "))


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (b"1,234.5", b"<num>"), (b"-45", b"<num>"), (b"3rd", b"<num>"), (b"1960s", b"<num>"), (b"12:30", b"<num>"),
        (b"50%", b"<num>"), (b"(1960),", b"(<num>),"), (b"$5.", b"<num>."), (b".5", b"<num>"), (b"1/2", b"<num>"),
        (b"B-52", b"B-52"), (b"3D", b"3D"), (b"x1", b"x1"), (b"...", b"..."), (b"-", b"-"), (b"1\xe9", b"1\xe9"),
    ],
)  # fmt: skip
def test_numeric_forms(word, expected):
    assert normalize(b"a " + word + b" b\n", to_num=True) == b"a " + expected + b" b\n"


def test_proper_nouns_stand_inside_a_sentence():
    line = b"The man saw Mary , and I saw `` Bob '' . Then John's dog\n"
    assert normalize(line, proper=True) == b"The man saw <name> , and I saw `` <name> '' . Then <name>'s dog\n"
    assert (
        normalize(line, names={b"The", b"dog"}) == b"<name> man saw Mary , and I saw `` Bob '' . Then John's <name>\n"
    )


@given(st.text("sS'’a!.\udc80é_-", min_size=1))
def test_marks_around_a_word(word):
    """As by this expression, which takes a time that grows with the square of a run of marks."""
    assert split_marks(word) == re.fullmatch(r"(\W*)(.*?)((?:['’]s?)?\W*)", word).groups()


def test_lower_case_is_unicode_and_leaves_bad_bytes():
    assert normalize("ÉTÉ Ωß".encode() + b" \xff\xc9A\n", tolower=True) == "été ωß".encode() + b" \xff\xc9a\n"


def test_subwords_give_their_words_back():
    pytest.importorskip("sentencepiece")
    rows = [b"the red cars see the big houses".split(), "la voiture été".encode().split()] * 5
    model = subwords.learn_pieces(rows, 40)
    assert model == subwords.learn_pieces(rows, 40)
    split = subwords.make_splitter(model, "m")
    for words in [
        b"the redder house".split(),
        ["zebraß", "\u2581", "a\u2581b", "\u2581\u2581c", "\u00a0", "\u3000x", "\ufb01n"],
        [b"\xff\xfe", b"the\xff", b"[UNK]", b"cars"],
        [],
    ]:
        words = [w if isinstance(w, bytes) else w.encode() for w in words]
        pieces = split(words)
        assert subwords.join_pieces(pieces) == b" ".join(words)
        numbers = subwords.word_numbers(pieces)
        assert subwords.whole_words(pieces) == [words[i] for i in numbers]
        for i, word in enumerate(words):
            assert subwords.join_pieces([p for p, n in zip(pieces, numbers, strict=True) if n == i]) == word
    assert len(split([b"the"])) < len(split([b"zebra"]))


def test_a_mark_without_a_word_is_left_out_and_not_numbered():
    mark = "\u2581"
    pieces = [piece.encode() for piece in (mark, f"{mark}a", mark, "b", mark, mark, "[UNK]", "c", mark)]
    assert subwords.join_pieces(pieces) == b"a b [UNK]c"
    assert subwords.joined_numbers(pieces) == [None, 0, 1, 1, None, None, 2, 2, None]
    assert (subwords.join_pieces(pieces[:1]), subwords.joined_numbers(pieces[:1])) == (b"", [None])


def test_subwords_that_cannot_be_are_errors():
    pytest.importorskip("sentencepiece")
    for size in (2, 10**6):
        with pytest.raises(LmtkError):
            subwords.learn_pieces([b"the red cars".split()], size)
    with pytest.raises(FormatError):
        subwords.make_splitter(b"nonsense", "m")
    assert subwords.make_splitter(b"", "m")([b"a", b"b"]) == [b"a", b"b"]


def test_subwords_need_their_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(UsageError, match="pip install sentencepiece"):
        subwords.learn_pieces([[b"a"]], 9)
    with pytest.raises(UsageError, match="pip install sentencepiece"):
        subwords.make_splitter(b"model", "m")


@quick
@given(st.text("ab1 .,:'-()<>\u201c\u0940\u3002$\n", max_size=40))
def test_tokens_move_no_character(text):
    data = text.encode()
    actual = normalize(data, tokenize=True)
    assert actual.replace(b" ", b"") == data.replace(b" ", b"")
    assert normalize(actual, tokenize=True) == actual


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("closed", [False, True])
def test_blocks_read_in_threads_have_the_ids_of_one(threads, closed, monkeypatch, large_from):
    random = np.random.default_rng(threads)
    actual = [b" ".join(b"w%d" % i for i in random.zipf(1.3, 40) % 500) + b"\n\n" for _ in range(60)]
    actual[-1] = actual[-1].rstrip()
    growing = Growing()
    growing[b"w7"]
    index = Closed(growing, 1) if closed else growing
    words = [word for block in actual for word in tokens(block)]
    plain = index if closed else Growing(growing.words())
    expected = [plain[word] for word in words]
    large_from(1, "text")
    monkeypatch.setattr(threads_module, "wanted", threads)
    assert np.concatenate(list(ids_of(actual, index))).tolist() == expected
    assert closed or (index.words() == plain.words() and len(index) == len(plain))
    assert [index[word] for word in words] == expected
    assert list(ids_of([], index)) == []


def test_words_that_take_too_much_memory_are_an_error():
    table = Table([b"a"], [0], next_id=1)
    table.letters = np.empty((1 << 31) + 1, np.uint8)  # its pages are never touched
    with pytest.raises(LmtkError, match="more than 2 GB; limit it with -vocab"):
        table.grow()


@pytest.mark.parametrize("nonevents", [[], [b"a"]])
def test_the_words_of_a_large_text_make_the_same_vocabulary(nonevents):
    for words in ([b"<s>", b"</s>", b"<unk>", b"-pau-", b"a", b"b"], [b"b", b"a"], [b"ab", b"<unk>", b"a", b"<s>"]):
        made = make_vocab(words, True, nonevents=nonevents)
        assert make_vocab(Words.join(words), True, nonevents=nonevents) == made
        assert {*made.words} == {*words, b"<s>", b"</s>", b"<unk>"}
    with pytest.raises(LmtkError, match="no words"):
        make_vocab(Words.join([b"<s>", b"<unk>"]))


def test_the_words_of_a_file_are_a_list():
    own = [b"<s>", b"b", b"ab", b"<unk>", b"</s>", b"a"]
    of_file = Words(b"".join(word + b"\n" for word in own))
    assert of_file == own and own == of_file and of_file == Words(of_file.text) and of_file != own[1:]
    assert [len(of_file), *of_file, of_file[2], *of_file[-2:]] == [6, *own, b"ab", *own[-2:]]
    assert [of_file.index(word) for word in own] == [*range(6)]
    for other in (b"", b"s>", b"<s", b"ab\n<unk>x"):
        assert other not in of_file
        with pytest.raises(ValueError):
            of_file.index(other)
    for a, b in ((own, of_file), (of_file, own), (own, own)):
        assert Vocab(a, 4) == pickle.loads(pickle.dumps(Vocab(b, 4)))


@pytest.mark.parametrize(
    "words", ["a b", "<s> a </s>", "</s> <s> <unk> a", "a b a", "<s> a <s>", "<s> <s> </s> a </s>"]
)
def test_the_words_of_a_large_model_make_the_same_vocabulary(words):
    words = words.encode().split()
    assert vocab_of_unigrams(Words.join(words)) == vocab_of_unigrams(words)
    assert not vocab_of_unigrams(words).predicts(b"<s>")


@pytest.mark.parametrize("large", [False, True])
def test_a_large_vocabulary_of_a_file_needs_no_index(large, large_from):
    large_from(1 if large else 1 << 30, "text")
    about = {"V": 4, "unk": "<unk>"}
    vocab = vocab_of(about, Words(b"</s>\nb\na\n<unk>\n<s>\n-pau-\n"), "file")
    closed = Closed.of_vocab(vocab)
    assert (vocab.unk_id, vocab.sos_id, vocab.eos_id) == (3, 4, 0)
    assert np.concatenate(list(ids_of([b"a b\n", b"c -pau- <s>\n"], closed))).tolist() == [2, 1, -1, 3, 5, 4, -1]
    assert ("index" in vars(vocab)) != large
    assert not vocab.predicts(b"<s>") and vocab.predicts(b"</s>")
    assert [closed[word] for word in (b"c", b"<s>", b"b", b"a", b"\n", b"d")] == [3, 4, 1, 2, -1, 3]
    with pytest.raises(FormatError, match="a word occurs twice"):
        vocab_of(about, Words(b"</s>\nb\n<unk>\n<s>\nb\n"), "file")
    assert vocab_of(about, Words(b"</s>\nb\n<unk>\n<s>\na\rc\n"), "file").index[b"a\rc"] == 4
    with pytest.raises(FormatError, match="its vocabulary has no <s>"):
        vocab_of(about, Words(b"</s>\nb\n<unk>\na\n"), "file")
