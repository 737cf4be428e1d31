"""Class n-grams: p(w | context) = p(g_w | classes of the context) p(w | g_w), g_w being the class of w.

Brown et al. 1992, section 3; the class-based rows of Table 1 of Bengio et al. 2003. A word is in one class; one that is
in none stands for itself.
"""

import os
from dataclasses import dataclass

import numpy as np

from lmtk.errors import FormatError, LmtkError
from lmtk.files import registry
from lmtk.files.streams import lines_of
from lmtk.lm import LanguageModel, Scores
from lmtk.mixture import folder_of, lowered, name_in
from lmtk.ngram.classes import read_classes
from lmtk.text.corpus import Corpus
from lmtk.text.vocab import EOS, Vocab, make_vocab


@dataclass(frozen=True)
class ClassModel:
    """lm: a model of classes; g (W,) int32: the id in it of each word's class; logp_word (W,): ln p(w | g_w).

    size: the number of classes; names: the files of the model and of the classes.
    """

    vocab: Vocab
    lm: LanguageModel
    g: np.ndarray
    logp_word: np.ndarray
    size: int
    names: tuple

    @property
    def order(self):
        return self.lm.order

    def score(self, corpus):
        """ln p of every scored token; the tag is that of the model of classes."""
        scores = self.lm.score(Corpus(self.g[corpus.ids], corpus.starts, corpus.scored))
        return Scores(np.where(corpus.scored, scores.logp + self.logp_word[corpus.ids], 0), scores.tag)

    def lower(self, order):
        """The same with shorter contexts."""
        return ClassModel(self.vocab, lowered(self.lm, order), self.g, self.logp_word, self.size, self.names)

    def describe(self):
        yield "kind", "class n-gram"
        yield "model of classes", os.path.relpath(self.names[0])
        yield "word classes", os.path.relpath(self.names[1])
        yield "classes", self.size
        yield "order", self.order
        yield "predicted words |V|", self.vocab.V


def class_model(lm, name, path):
    """The ClassModel of a model of classes, read from `name`, and the file `path` of classes.

    Raises LmtkError where the model predicts a word that is in a class, since the sum would not be one, or no class.
    """
    classes = read_classes(path)
    known = lm.vocab
    both = next((w for w in classes.members if known.predicts(w)), None)
    if both is not None:
        shown = both.decode("utf-8", "backslashreplace")
        raise LmtkError(f"{name}: it predicts {shown}, which has a class in {path}; was it made with these -classes?")
    if not any(map(known.predicts, classes.names)):
        raise LmtkError(f"{name}: it predicts no class of {path}; was it made with these -classes?")
    names = set(classes.names)
    words = [*classes.members, *(w for w in known.words[: known.V] if w not in names)]
    unk = known.unk in classes.members or known.predicts(known.unk)
    vocab = make_vocab(sorted(words), unk, known.predicts(EOS), known.unk, path)
    g, p = np.empty(len(vocab.words), np.int32), np.ones(len(vocab.words))
    for w, word in enumerate(vocab.words):
        c, p[w] = classes.members.get(word, (None, 1.0))
        own = word if c is None else classes.names[c]
        g[w] = known.index.get(own, known.unk_id)
        if c is not None and not known.predicts(own):
            p[w] = 0
    with np.errstate(divide="ignore"):
        return ClassModel(vocab, lm, g, np.log(p), len(names), (name, path))


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
    lm = registry.load(parts[b"model"], (*seen, here))
    return class_model(lm, parts[b"model"], parts[b"classes"])
