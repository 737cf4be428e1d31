"""Models from Python, by the names that users of KenLM's module know. All logarithms are to base 10."""

import math
import os
import re
from collections.abc import Iterator
from functools import cached_property, lru_cache, total_ordering
from itertools import islice
from numbers import Integral

import numpy as np

from lmtk.errors import FormatError, UsageError
from lmtk.files.registry import load
from lmtk.lm import LN10, after, reach
from lmtk.machine.jit import for_kinds_of
from lmtk.machine.threads import map_in_order
from lmtk.ngram.model import walking
from lmtk.ngram.model.backoff import Backoff
from lmtk.reports import kenlm
from lmtk.reports.following import Follower, extend_state, largest
from lmtk.text.corpus import NEWLINE, Corpus, Marks, Table, sentences
from lmtk.text.vocab import EOS, SOS

FEW = 100  # sentences that are scored without kernels, by a small model
KEPT = 64  # states of a neural model whose probabilities are cached
TOGETHER = 512  # sentences of score_many that a thread takes at once
BLANKS = bytes.maketrans(b"\t\n\v\f\r", b"     ")
SURROGATE = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # halves of pairs that do not stand for a byte


class LoadMethod:
    """How a model is loaded, for programs that set it for KenLM's module. It has no effect: lmtk always maps binary
    files into memory.
    """

    LAZY, POPULATE_OR_LAZY, POPULATE_OR_READ, READ, PARALLEL_READ = range(5)


class ARPALoadComplain:
    """Which complaints reading an ARPA file prints, for programs that set it for KenLM's module. It has no effect."""

    ALL, EXPENSIVE, NONE = range(3)


class Config:
    """How a model is loaded, for programs that set it for KenLM's module. It has no effect."""

    __slots__ = ("arpa_complain", "load_method", "show_progress")

    def __init__(self):
        self.load_method = LoadMethod.POPULATE_OR_READ
        self.show_progress = True
        self.arpa_complain = ARPALoadComplain.ALL


@total_ordering
class State:
    """The context of the next word, as far as a model uses it. If two contexts have equal states, the model gives each
    next word the same probability after both contexts.

    nodes: internal. For a back-off model it is a number that identifies the context; for other models it is a tuple
    with the ids of the last words, from the oldest to the latest.
    """

    nodes = ()

    def __eq__(self, other):
        return self.nodes == other.nodes if isinstance(other, State) else NotImplemented

    def __lt__(self, other):
        return self.nodes < other.nodes if isinstance(other, State) else NotImplemented

    def __hash__(self):
        return hash(self.nodes)

    def __copy__(self):
        copied = State()
        copied.nodes = self.nodes
        return copied

    def __deepcopy__(self, memo):
        return self.__copy__()


class FullScoreReturn:
    """The score of a word. log_prob: log10 p. ngram_length: the number of words in the n-gram used.
    oov: whether the word is unknown to the model.
    """

    __slots__ = ("log_prob", "ngram_length", "oov")

    def __init__(self, log_prob, ngram_length, oov):
        self.log_prob, self.ngram_length, self.oov = log_prob, ngram_length, oov

    def __repr__(self):
        return f"FullScoreReturn({self.log_prob!r}, {self.ngram_length!r}, {self.oov!r})"


class Model:
    """A language model of any kind. It scores sentences given as str, or as bytes in UTF-8.

    Words are separated by blanks, tabs and line ends. An unknown word is scored as <unk>, and is an OOV. If the model
    gives <unk> no probability, log10 p of an unknown word is -100. Any other word of probability 0 has log10 p = -99.
    All these rules are KenLM's. For a back-off model, the scores are equal to KenLM's to the last bit.

    order: the number of words of the longest n-gram; a word is predicted from at most order - 1 words before it.
    vocab: the vocabulary; `vocab.words` is the list of its words, as bytes.
    path: the name of the model's file, as bytes; None for a model in memory.
    lm: the `lmtk.lm.LanguageModel` that this object wraps; it scores a whole array of word ids at once.
    """

    def __init__(self, path, config=None):
        """path: the name of a file (str, bytes or os.PathLike), or a model in memory, such as a job in `lmtk.jobs`
        returns. config: ignored.

        Raises OSError if the file is missing or is not a model, and TypeError if `path` has another type.
        """
        self.lm, self.path = path, None
        if isinstance(path, (str, bytes, os.PathLike)):
            try:
                self.lm = load(os.fsdecode(path), sums="never")
            except FormatError as e:
                raise OSError(f"Cannot read model '{os.fsdecode(path)}' ({e})") from e
            self.path = os.path.abspath(os.fsencode(path))
        elif not hasattr(path, "vocab"):
            raise TypeError(f"expected the name of a file or a model, not {type(path).__name__}")
        self._scored = 0
        if not self._plain:
            self.score_many([""])  # loads kernels and fills tables, so that the first call is as fast as later ones

    def __reduce__(self):
        return Model, (self.path or self.lm,)

    @property
    def order(self):
        return self.lm.order

    @property
    def vocab(self):
        return self.lm.vocab

    def score(self, sentence, bos=True, eos=True):
        """log10 p of a sentence. bos: whether the sentence begins with <s>, which is a context and gets no score. eos:
        whether the score includes the probability of </s> at the end.
        """
        total, _ = self._sum(sentence, bos, eos)
        if "_sum_large" in vars(self):  # later calls on this instance go straight to `_sum_large`
            sum_large = self._sum_large
            self.score = lambda sentence, bos=True, eos=True: sum_large(sentence, bos, eos)[0]
        return total

    def score_many(self, sentences, bos=True, eos=True):
        """log10 p of each of S sentences, an array (S,) of float64, computed on all cores. bos, eos: as in `score`.

        sentences: a list or an iterator of str or bytes. Or a pair of arrays (ids, starts): sentence i has the words
        ids[starts[i] : starts[i + 1]], without <s> and </s>. `vocab.index` maps words to ids.
        """
        if isinstance(sentences, (str, bytes)):
            raise TypeError("expected a list or an iterator of sentences, not one string")
        if isinstance(sentences, tuple) and len(sentences) == 2 and isinstance(sentences[0], np.ndarray):
            parts = self._parts_of_ids(*sentences)
        else:
            parts = self._parts_of_texts(iter(sentences))
        marks = self._index[SOS] if bos else -1, self._index[EOS] if eos else -1
        add_up = self._sums if isinstance(self.lm, Backoff) else self._sums_of_any
        sums = list(map_in_order(lambda lines: add_up(lines(), *marks), parts))
        return np.concatenate(sums) if sums else np.zeros(0)

    def full_scores(self, sentence, bos=True, eos=True):
        """For each word, and for </s> if `eos`: (log10 p, length of the n-gram used, whether the word is an OOV).
        bos: whether the first word follows <s>.

        For a mixture, the length is the greatest length in any of its models. For a neural model, the length is the
        number of context words used plus one, the predicted word.
        """
        words = [SOS] * bool(bos) + as_bytes(sentence).split() + [EOS] * bool(eos)
        ids = np.fromiter(map(self._index.__getitem__, words), np.int32, len(words))
        scored = np.ones(len(ids), bool)
        scored[: bool(bos)] = False
        log10p, length = self._full(Corpus(ids, np.array([0, len(ids)]), scored))
        yield from zip(log10p[scored].tolist(), length[scored].tolist(), (ids == self._index.unk)[scored].tolist())

    def write(self, path, format="arpa"):
        """Write a back-off model. The suffix of the file name chooses the compression, such as .gz.

        format: "arpa", "binary" (lmtk's own form), "kenlm-probing" or "kenlm-trie".

        Raises OSError if the file cannot be written, TypeError if this is not a back-off model, UsageError for an
        unknown format, and LmtkError if KenLM could not read the model.
        """
        from lmtk.jobs.model_files import ModelFiles, write_files
        from lmtk.kenlm.hashed import NO_WORDS, Hashed

        if isinstance(self.lm, Hashed):
            raise TypeError(f"this model {NO_WORDS}")
        if not isinstance(self.lm, Backoff):
            name = type(self.lm).__name__
            remedy = "lmtk.train(text, path) and lmtk.mix(models, write=path) write other models"
            raise TypeError(f"only back-off models can be written, not models of the class {name}; {remedy}")
        if format not in ("arpa", "binary", "kenlm-probing", "kenlm-trie"):
            raise UsageError(f"format is arpa, binary, kenlm-probing or kenlm-trie, not {format!r}")
        field, _, kenlm_type = format.partition("-")
        write_files(self.lm, ModelFiles(**{field: os.fsdecode(path)}, kenlm_type=kenlm_type or "probing"))

    def perplexity(self, sentence):
        """The perplexity of a sentence between <s> and </s>, 10^(-log10 p / (words + 1)). OOVs are included. Infinity
        if it is too large for a float.
        """
        total, words = self._sum(sentence, True, True)
        try:
            return 10.0 ** (-total / words)  # KenLM's formula, which gives KenLM's last bit
        except OverflowError:
            return math.inf

    def BeginSentenceWrite(self, state):
        """Set a state to the beginning of a sentence, the context <s>."""
        expect_states(state)
        state.nodes = self._begin

    def NullContextWrite(self, state):
        """Set a state to the empty context."""
        expect_states(state)
        state.nodes = self._null

    def BaseScore(self, in_state, word, out_state):
        """log10 p of a word after in_state. out_state is set to the state after this word."""
        step, arrays, ids, null = self._step, self._arrays, self._ids, self._null

        def base_score(in_state, word, out_state):
            try:
                p, length, out_state.nodes = step(arrays, ids[word], in_state.nodes or null)
                if not length:
                    raise IndexError
            except Exception as e:
                raise wrong_state(e, null, in_state, out_state) from None
            return p

        self.BaseScore = base_score  # later calls on this instance go straight to `base_score`
        return base_score(in_state, word, out_state)

    def BaseFullScore(self, in_state, word, out_state):
        """Like BaseScore, but return a FullScoreReturn: log10 p, the length of the n-gram used, and whether the word is
        an OOV.
        """
        try:
            number = self._ids[word]
            p, length, out_state.nodes = self._step(self._full_arrays, number, in_state.nodes or self._null)
            if not length:
                raise IndexError
        except Exception as e:
            raise wrong_state(e, self._null, in_state, out_state) from None
        return FullScoreReturn(p, length, number == self._index.unk)

    def next_words(self, context, k=10, bos=True):
        """The k most probable words after a context, as a list of pairs (word, p), the most probable word first. </s>,
        the end of the sentence, counts as a word; <unk> does not.

        context: a string of words. bos: whether the context begins with <s>.
        """
        if not isinstance(k, Integral) or k < 1:
            raise ValueError(f"k must be a whole number of words, 1 or more, not {k!r}")
        p = self.distribution(context, bos)
        if self.vocab.unk_id < len(p):
            p[self.vocab.unk_id] = -np.inf
        return [(self.vocab.words[w].decode("utf-8", "surrogateescape"), float(p[w])) for w in largest(p, k)]

    def distribution(self, context, bos=True):
        """p of each of the V words that the model predicts, after a context: an array (V,) of float64, in the order of
        `vocab.words`.

        context: a string of words. bos: whether the context begins with <s>.
        """
        state = [self._index[SOS]] * bool(bos) + [self._ids[word] for word in as_bytes(context).split()]
        return np.exp(after(self.lm, state))

    def states(self, size=1, bos=True):
        """An array (size,) of states, all at the beginning of a sentence or, with bos=False, in the empty context."""
        if not isinstance(size, Integral) or size < 0:
            raise ValueError(f"size must be a whole number of states, not {size!r}")
        return self._follower.states(size, bos)

    def advance(self, states, ids):
        """The states (B,) after one more word in each of B states. ids (B,): for each state, the id of its word;
        `vocab.index` maps words to ids.
        """
        states, ids = self._follower.checked(states), self._check_ids(ids)
        if len(ids) != len(states):
            raise ValueError(f"there are {len(states)} states and {len(ids)} ids; give an id for each state")
        return self._follower.advance(states, ids)

    def scores(self, states):
        """log10 p of each of the V words that the model predicts, in each of B states: an array (B, V) of float32. The
        columns are in the order of `vocab.words`.
        """
        return self._follower.scores(self._follower.checked(states))

    def __contains__(self, word):
        """Whether the word is in the model's vocabulary. False for <unk>."""
        word, vocab = self._ids[word], self.vocab
        return word != self._index.unk and (word < vocab.V or word == self._index[SOS])

    def __repr__(self):
        kind = type(self.lm).__name__
        name = f" from {os.path.basename(os.fsdecode(self.path))}" if self.path else ""
        return f"<{kind} model of order {self.order}{name}>"

    # Internals. A back-off model is scored by the kernels of `walking`, any other model by its method `score`.

    @cached_property
    def _index(self):
        return kenlm.closed(self.vocab)

    @cached_property
    def _ids(self):
        return Ids(self._index)

    @cached_property
    def _table(self):
        return Table.of_index(self._index)

    @cached_property
    def _follower(self):
        return Follower(self.lm)

    @property
    def _arrays(self):
        """The arrays of a back-off model for the kernels of `walking`; None for other models."""
        return self._follower.arrays

    @cached_property
    def _full(self):
        return kenlm.scorer(self.lm)

    @cached_property
    def _step(self):
        """`walking.step`, or a function with the same arguments and results if this is not a back-off model."""
        if not isinstance(self.lm, Backoff):
            return self._step_of_any
        return for_kinds_of(walking.step, self._arrays, self._index.unk, self._null)

    @cached_property
    def _full_arrays(self):
        """Like `_arrays`, but the kernels return KenLM's lengths of n-grams."""
        return kenlm.walk(self.lm).arrays if isinstance(self.lm, Backoff) else None

    @cached_property
    def _null(self):
        return walking.AFTER_NOTHING if isinstance(self.lm, Backoff) else ()

    @cached_property
    def _begin(self):
        sos = self._index[SOS]
        if not isinstance(self.lm, Backoff):
            return (sos,)
        return self._step(self._arrays, sos, self._null)[2]

    @cached_property
    def _rows(self):
        """The function that gives log10 p of all words after a state, a tuple of ids; it caches the last results. None
        for a model that is not a network.
        """
        from lmtk.nplm.network import Network

        if type(self.lm) is not Network:
            return None
        return lru_cache(KEPT)(lambda state: (after(self.lm, list(state)) / LN10).astype(np.float32))

    def _step_of_any(self, _, word, state):
        next_state = extend_state(state, word, reach(self.lm))
        if self._rows and word < self.vocab.V:
            # programs call BaseScore for many words after one state; one forward pass scores them all
            return float(self._rows(state)[word]), min(len(state) + 1, self.order), next_state
        log10p, length = self._full(sentences(np.array([[*state, word]], np.int32)))
        return float(np.float32(log10p[-1])), int(length[-1]), next_state

    def _sum(self, sentence, bos, eos):
        """(the sum of log10 p of a sentence, the number of words in it)."""
        self._scored += 1
        if self._plain and (self._scored < FEW or not isinstance(self.lm, Backoff)):
            log10p = [np.float32(p) for p, *_ in self.full_scores(sentence, bos, eos)]
            return float(sum(log10p, np.float32(0))), len(log10p)
        return self._sum_large(sentence, bos, eos)

    @cached_property
    def _sum_large(self):
        """A function like `_sum`, by a kernel."""
        index = self._index
        arrays, table, unk, first, last = self._arrays, self._table.arrays(), index.unk, index[SOS], index[EOS]
        score_text = for_kinds_of(walking.score_text, arrays, table, unk, first, last, b" ")

        def sum_large(sentence, bos, eos):
            text = as_bytes(sentence).translate(BLANKS) + b" "
            return score_text(arrays, table, unk, first if bos else -1, last if eos else -1, text)

        return sum_large

    @cached_property
    def _plain(self):
        """Whether a few sentences are scored without kernels: the model is small, or it is not a back-off model."""
        return not isinstance(self.lm, Backoff) or not self.lm.is_large()

    def _sums(self, ids, sos, eos):
        """log10 p of each line of ids, (S,)."""
        sums = np.empty(np.count_nonzero(ids == NEWLINE) + 1)
        walking.score_lines(self._arrays, ids, sos, eos, sums)
        return sums

    def _parts_of_texts(self, sentences):
        """Yield functions without arguments. Each returns the ids of some sentences; NEWLINE separates sentences."""
        while batch := list(islice(sentences, TOGETHER)):
            if {*map(type, batch)} != {str}:
                batch = [as_bytes(x).decode("utf-8", "surrogateescape") for x in batch]
            text = "\n".join(batch)
            if text.count("\n") != len(batch) - 1:
                text = "\n".join([x.replace("\n", " ") for x in batch])
            text = as_bytes(text) + b" "
            if b"\v" in text or b"\f" in text:
                text = text.replace(b"\v", b" ").replace(b"\f", b" ")

            def ids(text=text):
                out = np.empty(len(text), np.int32)
                return out[: self._table.look_up(np.frombuffer(text, np.uint8), 0, -1, out)[1]]

            yield ids

    def _check_ids(self, ids):
        ids, W = np.asarray([*ids] if isinstance(ids, Iterator) else ids), len(self.vocab.words)
        if ids.ndim != 1 or (len(ids) and ids.dtype.kind not in "iu"):
            raise ValueError("ids must be a list of whole numbers; vocab.index[word] is the id of a word, bytes")
        if len(ids) and not (ids.min() >= 0 and ids.max() < W):
            raise ValueError(f"ids must lie between 0 and {W - 1}")
        return ids.astype(np.int32, copy=False)

    def _parts_of_ids(self, ids, starts):
        ids, starts = self._check_ids(ids), np.asarray(starts)
        is_valid = starts.ndim == 1 and (starts.dtype.kind in "iu" or not len(starts))
        if is_valid:
            starts = starts.astype(np.int64, copy=False)  # numpy computes positions in this type
        if not is_valid or (np.diff(starts, prepend=0, append=len(ids)) < 0).any():
            raise ValueError(f"starts must be ascending whole numbers from 0 to {len(ids)}, the number of ids")
        for first in range(0, len(starts) - 1, TOGETHER):
            ends = starts[first : first + TOGETHER + 1]
            yield lambda ends=ends: np.insert(ids[ends[0] : ends[-1]], ends[1:-1] - ends[0], NEWLINE).astype(np.int32)

    def _sums_of_any(self, ids, sos, eos):
        marks, whole = Marks(sos >= 0, eos >= 0), np.append(ids, np.int32(NEWLINE))
        corpus, *_ = kenlm.block_corpus(lambda _: whole, b"", self.vocab, marks)  # the text has been read already
        return kenlm.sentence_sums(corpus, kenlm.scorer(self.lm)(corpus)[0], marks.sos).astype(np.float64)


LanguageModel = Model


class Ids(dict):
    """str or bytes -> id; it caches the ids of known words that were asked for."""

    def __init__(self, index):
        self.index = index

    def __missing__(self, word):
        word_id = self.index[as_bytes(word)]
        if word_id != self.index.unk:
            self[word] = word_id
        return word_id


def expect_states(*states):
    """Raise TypeError if an argument is not a `State` of lmtk; the State of KenLM's module is another class."""
    for kind in map(type, states):
        if not issubclass(kind, State):
            name = f"{kind.__module__}.{kind.__name__}".removeprefix("builtins.")
            raise TypeError(f"expected an lmtk.State, not {name}")


def wrong_state(error, null, *states):
    """The exception to raise for an error in scoring a word: one that says that the first State belongs to another
    model, or the error itself. Raises TypeError if an argument is not a State. null: the state of this model after no
    word. An IndexError shows that the State refers to an n-gram or a word that this model does not have.
    """
    expect_states(*states)
    if isinstance(states[0].nodes or null, tuple) != isinstance(null, tuple):
        return ValueError("the State belongs to a model of another kind")
    if isinstance(error, IndexError):
        return ValueError("the State belongs to another model")
    return error


def as_bytes(text):
    """A text in UTF-8. A str may stand for bytes that are not UTF-8, as `os.fsdecode` makes it. Any other half of a
    surrogate pair, which UTF-8 cannot write, becomes the replacement character, as in JSON lines.
    """
    if isinstance(text, str):
        try:
            return text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            return SURROGATE.sub("\ufffd", text).encode("utf-8", "surrogateescape")
    if isinstance(text, bytes):
        return text
    raise TypeError(f"expected str or bytes, not {type(text).__name__}")
