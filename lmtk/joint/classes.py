"""Class n-grams: p(w | context) = p(g_w | classes of the context) p(w | g_w), where g_w is the class of w.

Brown et al. 1992, section 3; the class-based rows of Table 1 of Bengio et al. 2003. A word is in one class; a word in
no class stands for itself. A model of classes and a class file come in; `class_model` makes a `ClassModel`, which
scores texts of words. If a text can be read in several ways, it makes an `expansions.Expanding` instead. `expanded`
writes the model out as an n-gram model of words.
"""

import os
import warnings
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lmtk.errors import FormatError, LmtkError, LmtkWarning, counted, name_of, shown
from lmtk.files import container
from lmtk.files.declared import VOCABULARY, Array, check_array, check_contents, ids, whole
from lmtk.files.decoding import lines, lines_in
from lmtk.joint.expansions import expanding_model, parse_expansion, several_readings
from lmtk.joint.mixture import check_part, folder_of, lowered, name_in, part_of
from lmtk.lm import LN10, LanguageModel, Scores, has_sentence_starts, ranges
from lmtk.ngram.classes.files import class_names, read_classes
from lmtk.ngram.edit.vocabulary import add_words
from lmtk.ngram.model import backoff
from lmtk.ngram.model.backoff import Backoff
from lmtk.ngram.model.building import build_nodes
from lmtk.text.corpus import Corpus
from lmtk.text.vocab import EOS, Vocab, make_vocab, vocab_of, vocab_settings, with_tokenizer

SETTINGS = VOCABULARY | {"size": whole(), "classes": backoff.SETTINGS}  # of the binary form


@dataclass(frozen=True)
class ClassModel:
    """lm: a model of classes; g (W,) int32: for each word, the id of its class in lm; p (W,): p(w | g_w).

    size: the number of classes; names: the files of the model and of the classes, empty if one file has both.
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
    def has_sentence_starts(self):
        return has_sentence_starts(self.lm)

    @cached_property
    def logp_word(self):
        with np.errstate(divide="ignore"):
            return np.log(self.p)

    def score(self, corpus):
        """ln p of every scored token; the tag in reports is that of the model of classes."""
        scores = self.lm.score(Corpus(self.g[corpus.ids], corpus.starts, corpus.scored))
        return Scores(np.where(corpus.scored, scores.logp + self.logp_word[corpus.ids], 0), scores.length)

    def lower(self, order):
        """The same model with shorter contexts."""
        return replace(self, lm=lowered(self.lm, order))

    def describe(self):
        yield "kind", "class n-gram"
        for role, name in zip(("model of classes", "word classes"), self.names):
            yield role, os.path.relpath(name)
        yield "classes", self.size
        yield "order", self.order
        yield "predicted words |V|", self.vocab.V


def class_model(lm, name, path, classes=None, simple=False, rows=None):
    """Make the ClassModel of a model of classes, read from `name`, and of the classes in the file `path`.

    classes, rows: the contents of the file, if it was read before. If a text can be read in several ways, the result is
    an `expansions.Expanding`: a word is in several classes, or in a class and in the model, or an expansion has several
    words. With `simple`, as in SRILM, a word in a class never stands for itself, p is taken from the file, and only the
    first word of an expansion stands for the class, with a warning. Raises LmtkError if the model predicts no class.
    """
    later = ()
    if classes is None:
        rows = [*lines(path)] if rows is None else rows
        if not simple and several_readings(rows, lm.vocab):
            return expanding_model(lm, name, rows, path)
        if simple:
            rows, later = keep_first_words(rows, path)
        classes = read_classes(path, not simple, rows)
    names = set(class_names(classes))
    if simple:  # words whose class is not in the model are words of the model themselves
        predicted = {w: (c, p) for w, (c, p) in classes.items() if lm.vocab.predicts(c)}
        alone = [w for w in (*later, *classes) if w not in predicted]
        classes = predicted
        lm = add_words(lm, alone) if isinstance(lm, Backoff) else lm
    inner = lm.vocab
    both = next((w for w in classes if inner.predicts(w)), None)
    predicts_a_class = any(map(inner.predicts, names))
    if both is not None and not (predicts_a_class and simple):
        word = f"the word {shown(both)}, which has a class in {path}"
        raise LmtkError(f"{name}: the model predicts {word}; give the -classes that the model was made with")
    if not predicts_a_class:
        raise LmtkError(f"{name}: the model predicts no class of {path}; give the -classes that it was made with")
    words = dict.fromkeys([*classes, *(w for w in inner.words[: inner.V] if w not in names)])
    unk = inner.unk in classes or inner.predicts(inner.unk)
    vocab = with_tokenizer(make_vocab(sorted(words), unk, inner.predicts(EOS), inner.unk, path), inner.tokenizer)
    g, p = np.empty(len(vocab.words), np.int32), np.ones(len(vocab.words))
    for w, word in enumerate(vocab.words):
        inner_word, p[w] = classes.get(word, (word, 1.0))
        g[w] = inner.index.get(inner_word, inner.unk_id)
        if word in classes and not inner.predicts(inner_word):
            p[w] = 0
    return ClassModel(vocab, lm, g, p, len(names), (name, path))


def keep_first_words(rows, path):
    """The `lines` of a class file with only the first word of each expansion, and the words left out, {word: None}.

    Warns if words are left out.
    """
    cut, later, several = [], {}, 0
    for number, line in rows:
        name, p, words = parse_expansion(line)
        if more := words[1:]:
            later |= dict.fromkeys(more)
            several += 1
            line = b" ".join([name, *([] if p is None else [p]), words[0]])
        cut.append((number, line))
    if several:
        many = counted(several, "expansion has", "expansions have")
        message = f"{many} several words; with -simple-classes only the first word is in the class"
        warnings.warn(f"{name_of(path)}: {message}", LmtkWarning, stacklevel=2)
    return cut, later


def write_text(out, model, classes, path):
    r"""Write the \class-ngram\ file `path` ("-": stdout), which names its two files relative to its own folder."""
    text = ["\\class-ngram\\", f"model {name_in(path, model)}", f"classes {name_in(path, classes)}", "", "\\end\\", ""]
    out.write(os.fsencode("\n".join(text)))


def read_text(stream, path, seen=()):
    r"""Read the ClassModel in a \class-ngram\ file, with its parts. Raises FormatError."""
    if os.path.realpath(path) in seen:
        raise FormatError(path, "a class model that contains itself")
    parts = {}
    for number, line in lines_in(stream, path):
        key, _, name = line.strip().partition(b" ")
        if key == b"\\end\\":
            break
        if key in (b"model", b"classes") and name and key not in parts:
            parts[key] = os.path.join(folder_of(path), os.fsdecode(name))
        elif key not in (b"", b"\\class-ngram\\"):
            raise FormatError(path, "expected 'model FILE' and 'classes FILE', once each", number)
    else:
        raise FormatError(path, "the line \\end\\ is missing, so the file is incomplete")
    if len(parts) < 2:
        raise FormatError(path, "a class model needs a line 'model FILE' and a line 'classes FILE'; one is missing")
    lm = part_of(path, parts[b"model"], seen)
    check_part(path, parts[b"classes"])
    return class_model(lm, parts[b"model"], parts[b"classes"])


def backoff_of(model, path):
    """The model of classes, which must be a back-off model. Raises LmtkError."""
    if not isinstance(model.lm, Backoff):
        raise LmtkError(f"{path}: its model of classes is not a back-off n-gram")
    return model.lm


def write_binary(out, model, path):
    """Write the binary form: the model of classes, and the words with their classes. Raises LmtkError."""
    settings, arrays = backoff.to_arrays(backoff_of(model, path))
    arrays |= {"classes": container.bytes_of(model.lm.vocab.words), "g": model.g, "p": model.p}
    about = {"classes": settings, "size": model.size, **vocab_settings(model.vocab)}
    container.write(out, "class-ngram", about, arrays, model.vocab.words)


def from_arrays(about, arrays, path):
    """Make the model from the arrays of a binary file."""
    settings = about["settings"]
    words, sizes = check_contents(about, arrays, path, SETTINGS, declare_arrays)
    vocab = vocab_of(settings, words, path)
    lm = backoff.from_arrays({"settings": settings["classes"]}, arrays | {"vocabulary": arrays["classes"]}, path)
    check_array(arrays.get("g"), ids(len(lm.vocab.words), sizes.W), "g", path)
    return ClassModel(vocab, lm, arrays["g"], arrays["p"], sizes.size)


def declare_arrays(sizes, size):
    """Declare the arrays of the binary form whose sizes do not depend on the model of classes."""
    return {"classes": Array("U8", (size("classes", 0),)), "p": Array("F64", (sizes.W,), 0, 1 + 1e-9)}


def expanded(model, most, path):
    """The back-off model of words that equals a class model: the n-grams of classes, written out for all their words.

    Raises LmtkError if it has more than `most` n-grams.
    """
    lm, C, W = backoff_of(model, path), len(model.lm.vocab.words), len(model.vocab.words)
    members, many = np.argsort(model.g, kind="stable"), np.bincount(model.g, minlength=C)
    first_member = np.cumsum(many) - many
    node, nodes = np.zeros(1, np.int64), 1  # for each n-gram of words, its n-gram of classes; the number of the latter
    orders, total = [], 0
    for k in range(1, lm.order + 1):
        ngrams, log10p, log10bow = lm.ngrams(k)
        parent, c = lm.nodes.parents(k), ngrams[:, -1]
        sizes = np.bincount(parent, many[c], nodes).astype(np.int64)  # rows of each parent, see below
        first_row = np.cumsum(sizes) - sizes
        total += int(sizes[node].sum())
        if total > most:
            raise LmtkError(
                f"{path}: the expansion has {total} n-grams or more, above the limit of {most}; "
                "lower -expand-classes or raise -expand-most"
            )
        # a row for each node of classes and word of its last class, by parent and word
        v, w = np.repeat(np.arange(len(c)), many[c]), members[ranges(first_member[c], many[c])]
        by = np.lexsort((w, parent[v]))
        v, w = v[by], w[by]
        u, row = np.repeat(np.arange(len(node)), sizes[node]), ranges(first_row[node], sizes[node])
        v, w = v[row], w[row]
        log10p = (log10p[v].astype(np.float64) * LN10 + model.logp_word[w]) / LN10
        orders.append((u * W + w, log10p.astype(np.float32), log10bow[v]))
        node, nodes = v, len(c)
    return Backoff(model.vocab, build_nodes(orders, W))
