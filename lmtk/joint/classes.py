"""Class n-grams: p(w | context) = p(g_w | classes of the context) p(w | g_w), g_w being the class of w.

Brown et al. 1992, section 3; the class-based rows of Table 1 of Bengio et al. 2003. A word is in one class; one that is
in none stands for itself.
"""

import os
import warnings
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lmtk.errors import FormatError, LmtkError, LmtkWarning, counted, name_of, shown
from lmtk.files import container
from lmtk.files.declared import VOCABULARY, Array, check_array, held, ids, whole
from lmtk.files.streams import WORD, lines, lines_of
from lmtk.joint.expansions import NUMBER, expanding_model, several_readings
from lmtk.joint.mixture import check_part, folder_of, lowered, name_in, part_of
from lmtk.lm import LN10, LanguageModel, Scores, opens
from lmtk.ngram.classes.files import read_classes
from lmtk.ngram.edit.vocabulary import add_words
from lmtk.ngram.model import backoff
from lmtk.ngram.model.backoff import Backoff
from lmtk.ngram.model.building import build_nodes
from lmtk.text.corpus import Corpus
from lmtk.text.vocab import EOS, Vocab, make_vocab, vocab_of, vocab_settings

SETTINGS = VOCABULARY | {"size": whole(), "classes": backoff.SETTINGS}  # of the binary form


@dataclass(frozen=True)
class ClassModel:
    """lm: a model of classes; g (W,) int32: the id in it of each word's class; p (W,): p(w | g_w).

    size: the number of classes; names: the files of the model and of the classes, none where one file has both.
    """

    vocab: Vocab
    lm: LanguageModel
    g: np.ndarray
    p: np.ndarray
    size: int
    names: tuple = ()

    @property
    def order(self):
        return self.lm.order

    @property
    def opens(self):
        return opens(self.lm)

    @cached_property
    def logp_word(self):
        with np.errstate(divide="ignore"):
            return np.log(self.p)

    def score(self, corpus):
        """ln p of every scored token; the tag is that of the model of classes."""
        scores = self.lm.score(Corpus(self.g[corpus.ids], corpus.starts, corpus.scored))
        return Scores(np.where(corpus.scored, scores.logp + self.logp_word[corpus.ids], 0), scores.length)

    def lower(self, order):
        """The same with shorter contexts."""
        return replace(self, lm=lowered(self.lm, order))

    def describe(self):
        yield "kind", "class n-gram"
        for what, name in zip(("model of classes", "word classes"), self.names):
            yield what, os.path.relpath(name)
        yield "classes", self.size
        yield "order", self.order
        yield "predicted words |V|", self.vocab.V


def class_model(lm, name, path, classes=None, simple=False, rows=None):
    """The ClassModel of a model of classes, read from `name`, and of the classes in the file `path`, or those given,
    or in `rows`, its `streams.lines`.

    Where a text can have several readings, it is an `expansions.Expanding`: a word is in several classes, or in one and
    in the model, or an expansion has several words. With `simple` a word in a class never stands for itself, p is as
    the file has it, and, with a warning, only the first word of an expansion stands for the class, as in SRILM. Raises
    LmtkError where the model predicts no class.
    """
    if classes is None:
        rows = [*lines(path)] if rows is None else rows
        if not simple and several_readings(rows, lm.vocab):
            return expanding_model(lm, name, rows, path)
        if simple:
            rows, later = first_words(rows, path)
        classes = read_classes(path, not simple, rows)
        if simple:  # a word whose class the model does not predict stands for itself
            members = {w: m for w, m in classes.members.items() if lm.vocab.predicts(classes.names[m[0]])}
            alone = [w for w in (*later, *classes.members) if w not in members]
            classes = replace(classes, members=members)
            lm = add_words(lm, alone) if isinstance(lm, Backoff) else lm
    known = lm.vocab
    both = next((w for w in classes.members if known.predicts(w)), None)
    any_ = any(map(known.predicts, classes.names))
    if both is not None and not (any_ and simple):
        which = f"{shown(both)}, which has a class in {path}"
        raise LmtkError(f"{name}: it predicts {which}; was it made with these -classes?")
    if not any_:
        raise LmtkError(f"{name}: it predicts no class of {path}; was it made with these -classes?")
    names = set(classes.names)
    words = dict.fromkeys([*classes.members, *(w for w in known.words[: known.V] if w not in names)])
    unk = known.unk in classes.members or known.predicts(known.unk)
    vocab = make_vocab(sorted(words), unk, known.predicts(EOS), known.unk, path)
    g, p = np.empty(len(vocab.words), np.int32), np.ones(len(vocab.words))
    for w, word in enumerate(vocab.words):
        c, p[w] = classes.members.get(word, (None, 1.0))
        own = word if c is None else classes.names[c]
        g[w] = known.index.get(own, known.unk_id)
        if c is not None and not known.predicts(own):
            p[w] = 0
    return ClassModel(vocab, lm, g, p, len(names), (name, path))


def first_words(rows, path):
    """The `streams.lines` of a file of classes with the first word alone of each expansion, and the words that are
    left out, {word: None}. Warns if there are any.
    """
    cut, later, several = [], {}, 0
    for number, line in rows:
        fields = WORD.findall(line)
        first = 2 if len(fields) > 2 and NUMBER.match(fields[1]) else 1
        if more := fields[first + 1 :]:
            later |= dict.fromkeys(more)
            several += 1
            line = b" ".join(fields[: first + 1])
        cut.append((number, line))
    if several:
        many = counted(several, "expansion has", "expansions have")
        told = f"{many} several words; with -simple-classes only the first of them stands for the class"
        warnings.warn(f"{name_of(path)}: {told}", LmtkWarning, stacklevel=2)
    return cut, later


def write_text(out, model, classes, path):
    """The \\\\class-ngram\\\\ text, which names the two files relative to `path`, the file itself ("-": here)."""
    text = ["\\class-ngram\\", f"model {name_in(path, model)}", f"classes {name_in(path, classes)}", "", "\\end\\", ""]
    out.write(os.fsencode("\n".join(text)))


def read_text(stream, path, seen=()):
    """The ClassModel in a \\\\class-ngram\\\\ file, with its parts. Raises FormatError."""
    here = os.path.realpath(path)
    if here in seen:
        raise FormatError(path, "a class model that is a part of itself")
    parts, ended = {}, False
    for number, line in lines_of(stream, path):
        key, _, name = line.strip().partition(b" ")
        if key == b"\\end\\":
            ended = True
            break
        if key in (b"model", b"classes") and name and key not in parts:
            parts[key] = os.path.join(folder_of(path), os.fsdecode(name))
        elif key not in (b"", b"\\class-ngram\\"):
            raise FormatError(path, "expected 'model FILE' and 'classes FILE', once each", number)
    if not ended:
        raise FormatError(path, "no \\end\\; the file is cut short")
    if len(parts) < 2:
        raise FormatError(path, "a class model names its model and its classes; one is missing")
    lm = part_of(path, parts[b"model"], seen)
    check_part(path, parts[b"classes"])
    return class_model(lm, parts[b"model"], parts[b"classes"])


def backoff_of(model, path):
    """The model of classes, where it is a back-off model. Raises LmtkError."""
    if not isinstance(model.lm, Backoff):
        raise LmtkError(f"{path}: its model of classes is no back-off n-gram, which was wanted")
    return model.lm


def write_binary(out, model, path):
    """The binary form: that of the model of classes, and the words with their classes. Raises LmtkError."""
    settings, arrays = backoff.to_arrays(backoff_of(model, path))
    arrays |= {"classes": container.bytes_of(model.lm.vocab.words), "g": model.g, "p": model.p}
    about = {"classes": settings, "size": model.size, **vocab_settings(model.vocab)}
    container.write(out, "class-ngram", about, arrays, model.vocab.words)


def from_arrays(about, arrays, path):
    """The model in a binary file's arrays. Raises FormatError."""
    settings = about["settings"]
    words, sizes = held(about, arrays, path, SETTINGS, holds)
    vocab = vocab_of(settings, words, path)
    lm = backoff.from_arrays({"settings": settings["classes"]}, arrays | {"vocabulary": arrays["classes"]}, path)
    check_array(arrays.get("g"), ids(len(lm.vocab.words), sizes.W), "g", path)
    return ClassModel(vocab, lm, arrays["g"], arrays["p"], sizes.size)


def holds(sizes, size):
    """The arrays of the binary form, beside those of the model of classes."""
    return {"classes": Array("U8", (size("classes", 0),)), "p": Array("F64", (sizes.W,), 0, 1 + 1e-9)}


def expanded(model, most, path):
    """The back-off model of words that equals a class model: each n-gram of classes is written out for all words of the
    classes. Raises LmtkError where these are more than `most`.
    """
    lm, C, W = backoff_of(model, path), len(model.lm.vocab.words), len(model.vocab.words)
    members, many = np.argsort(model.g, kind="stable"), np.bincount(model.g, minlength=C)
    node, nodes = np.zeros(1, np.int64), 1  # the node of classes that each n-gram of words is from; how many these are
    orders, total = [], 0
    for k in range(1, lm.order + 1):
        rows, log10p, log10bow = lm.ngrams(k)
        parent, c = lm.nodes.parents(k), rows[:, -1]
        rows = np.bincount(parent, many[c], nodes).astype(np.int64)
        total += int(rows[node].sum())
        if total > most:
            raise LmtkError(
                f"{path}: {total} n-grams of words and more, where -expand-most allows {most}; a lower -expand-classes "
                "gives fewer"
            )
        # a row for each node of classes and word of its last class, by parent and word
        v, place = spread(np.arange(len(c)), many[c])
        w = members[(np.cumsum(many) - many)[c[v]] + place]
        by = np.lexsort((w, parent[v]))
        v, w = v[by], w[by]
        u, place = spread(np.arange(len(node)), rows[node])
        row = (np.cumsum(rows) - rows)[node[u]] + place
        v, w = v[row], w[row]
        log10p = (log10p[v].astype(np.float64) * LN10 + model.logp_word[w]) / LN10
        orders.append((u * W + w, log10p.astype(np.float32), log10bow[v]))
        node, nodes = v, len(c)
    return Backoff(model.vocab, build_nodes(orders, W))


def spread(items, times):
    """Each item as many times as `times` says, and the place of each copy among those of its item."""
    ends = np.cumsum(times)
    return np.repeat(items, times), np.arange(times.sum()) - np.repeat(ends - times, times)
