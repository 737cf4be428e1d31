"""Mixtures of models: p = sum_j weight_j p_j, with one set of weights or a set for each bin of context frequencies.

Section 2, "Mixture of models", of Bengio et al. 2003: fixed weights, weights learned on held-out text, or weights that
depend on the frequency of the context. The bins are those of the deleted-interpolation model among the parts.
`read_text` and `write_text` read and write the file of a mixture, which names the files of its parts.
"""

import os
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from lmtk.em import check_weights
from lmtk.errors import FormatError, LmtkError, counted, first_words
from lmtk.files import registry
from lmtk.files.decoding import lines_in
from lmtk.lm import ABSENT, UNKNOWN, Scores, after_each, after_each_by_scores, has_sentence_starts, reach
from lmtk.ngram.edit.vocabulary import unite_vocabularies
from lmtk.text.vocab import differences


class Combined:
    """A model that is made of others, `parts`, which have the same words."""

    @property
    def vocab(self):
        return self.parts[0].vocab

    @property
    def order(self):
        return max(part.order for part in self.parts)

    @property
    def reach(self):
        return max(map(reach, self.parts))


@dataclass(frozen=True)
class Mixture(Combined):
    """parts: models of one vocabulary; weights (bins, parts); binned: the place in `parts` of the one with these bins,
    or None. names: the files of the parts.
    """

    parts: list
    weights: np.ndarray
    binned: int | None = None
    names: list = field(default_factory=list)

    @cached_property
    def vocab(self):
        """The words that any part predicts: some parts may not predict <unk> or </s>. The part that predicts the most
        words gives their order.
        """
        return unite_vocabularies(sorted((part.vocab for part in self.parts), key=lambda vocab: -vocab.V))

    @property
    def has_sentence_starts(self):
        return all(map(has_sentence_starts, self.parts))

    def score(self, corpus):
        """ln p of every scored token; the columns of `length` are those of the parts."""
        logp, bins, *rest = part_scores(self.parts, corpus, self.binned, self.vocab)
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.weights)[bins]
        mixed = np.logaddexp.reduce(logp + log_weights, axis=1)
        return Scores(np.where(corpus.scored, mixed, 0), *rest)

    def after_each(self, contexts):
        """ln p of each predicted word after each of B contexts, lists of ids: (B, V)."""
        if self.binned is not None:
            return after_each_by_scores(self, contexts)
        mixed = np.full((len(contexts), self.vocab.V), -np.inf)
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.weights[0])
        for part, log_weight in zip(self.parts, log_weights):
            ids = part.vocab.ids_of_words(self.vocab.words)
            logp = after_each(part, [ids[context].tolist() for context in contexts])
            logp = np.column_stack((logp, np.full(len(contexts), -np.inf)))
            columns = np.minimum(ids[: self.vocab.V], part.vocab.V)  # parts may differ in <unk> and the marks
            mixed = np.logaddexp(mixed, logp[:, columns] + log_weight)
        return mixed

    def lower(self, order):
        """The mixture of the parts at a lower order."""
        return replace(self, parts=[lowered(part, order) for part in self.parts])

    def describe(self):
        yield "kind", "mixture"
        for i, name in enumerate(self.names):
            weight = f"{self.weights[0, i]:.7g}" if self.binned is None else "by context frequency"
            yield f"part {i + 1}", f"{os.path.relpath(name)} weight {weight}"
        yield "bins", len(self.weights)
        yield "order", self.order
        yield "predicted words |V|", self.vocab.V


def lowered(model, order):
    """The model with contexts cut to order - 1 words. Raises LmtkError if the model has longer contexts that cannot be
    cut.
    """
    if order >= model.order:
        return model
    if not hasattr(model, "lower"):
        raise LmtkError(f"-order {order}: this kind of model has the fixed order {model.order}")
    return model.lower(order)


def part_scores(parts, corpus, binned, vocab=None):
    """ln p of each part (N, J), the bin of each token (N,), and `length` and `kinds` of all parts. vocab: the
    vocabulary of the corpus; None: the first part's.
    """
    vocab = vocab or parts[0].vocab
    scores, bins = [], np.zeros(len(corpus.ids), np.int64)
    for part in parts:
        ids = corpus.ids if part.vocab.words == vocab.words else part.vocab.ids_of_words(vocab.words)[corpus.ids]
        renumbered = replace(corpus, ids=ids)
        scores.append(part.score(renumbered))
        if len(scores) - 1 == binned:
            bins = part.bins(renumbered)
    lengths = np.column_stack(
        [
            np.where((s.logp[:, None] > -np.inf) | (s.length > 0) | (s.length == ABSENT), s.length, UNKNOWN)
            for s in scores
        ]
    )
    return np.column_stack([s.logp for s in scores]), bins, lengths, sum((s.kinds for s in scores), ())


class OtherWords(LmtkError):
    """Models that are mixed predict different words. cause: the message without the remedy."""

    def __init__(self, cause):
        self.cause = cause
        remedy = "train both models with the same -vocab and -unk"
        super().__init__(f"{cause}; {remedy}; for back-off models lmtk-mix(1) shows other ways")


def check_vocabularies(parts, names):
    """Raise OtherWords if two parts predict different words."""
    for part, name in zip(parts[1:], names[1:]):
        words = differences(parts[0].vocab, part.vocab)
        if words:
            only = counted(len(words), "word is", "words are")
            raise OtherWords(
                f"{names[0]} and {name} must predict the same words, but {only} in only one of them "
                f"({first_words(words)})"
            )


def binned_part(parts):
    """The first part that has bins of context frequencies. Raises LmtkError."""
    for i, part in enumerate(parts):
        if hasattr(part, "bins"):
            return i
    raise LmtkError("-bins needs a model of ngram-interp, whose counts give the context frequencies")


def folder_of(path):
    """The folder that the names in a file are relative to; for "-" it is the working folder."""
    return os.path.dirname(os.path.realpath(path)) if path != "-" else os.getcwd()


def part_of(path, name, seen=()):
    """Load the model in the file `name`, a part of the mixture in the file `path`. Raises LmtkError."""
    check_part(path, name)
    return registry.load(name, (*seen, os.path.realpath(path)))


def check_part(path, name):
    """Raise LmtkError if the file `name`, a part of the mixture in the file `path`, is missing or not a regular file.

    A FIFO or a device could make lmtk wait for ever.
    """
    part = os.path.relpath(name, folder_of(path))
    if not os.path.exists(name):
        raise LmtkError(
            f"{path}: its part {part} does not exist; move a model together with the files that it refers to"
        )
    if not os.path.isfile(name):
        raise LmtkError(f"{path}: its part {part} is not a regular file; copy it to one")


def name_in(path, name):
    """The name of a part in the mixture file `path`. Raises LmtkError if the file cannot be named there."""
    if "\n" in name:
        raise LmtkError(f"the file name {name!r} contains a line end, so a model cannot refer to it; rename the file")
    if not os.path.isfile(name):
        raise LmtkError(f"{name} is not a regular file, so a model cannot refer to it as its part")
    return os.path.relpath(name, folder_of(path))


def write_text(out, mixture, path):
    r"""Write the \mixture\ file `path` ("-": stdout), which names its parts relative to its own folder."""
    text = ["\\mixture\\", *("model " + name_in(path, name) for name in mixture.names)]
    text += [f"bins {0 if mixture.binned is None else mixture.binned + 1} {len(mixture.weights)}", "", "\\weights\\"]
    text += [f"{i} " + " ".join(map(repr, row)) for i, row in enumerate(mixture.weights.tolist())]
    out.write(os.fsencode("\n".join([*text, "", "\\end\\", ""])))


def read_text(stream, path, seen=()):
    r"""Read the Mixture in a \mixture\ file, with its parts. Raises FormatError."""
    if os.path.realpath(path) in seen:
        raise FormatError(path, "a mixture that contains itself")
    names, rows, bins, where = [], [], None, None
    folder = folder_of(path)
    for number, line in lines_in(stream, path):
        words = line.split()
        if not words:
            continue
        try:
            if words[0] in (b"\\mixture\\", b"\\weights\\"):
                where = words[0]
            elif words[0] == b"\\end\\":
                break
            elif where == b"\\weights\\":
                rows.append([float(w) for w in words[1:]])
                if int(words[0]) != len(rows) - 1 or len(rows[-1]) != len(names):
                    raise ValueError
            elif words[0] == b"model":
                names.append(os.path.join(folder, os.fsdecode(line.split(None, 1)[1])))
            elif words[0] == b"bins":
                bins = int(words[1]), int(words[2])
            else:
                raise ValueError
        except (ValueError, IndexError):
            raise FormatError(
                path, "expected 'model FILE', 'bins PART NUMBER', or a bin and a weight for each model", number
            ) from None
    else:
        raise FormatError(path, "the line \\end\\ is missing, so the file is incomplete")
    if not names or not rows or bins is None or len(rows) != bins[1] or not 0 <= bins[0] <= len(names):
        raise FormatError(path, "damaged: the mixture's models, bins and weights do not match")
    weights = np.array(rows)
    check_weights(weights, path)
    parts = [part_of(path, name, seen) for name in names]
    check_vocabularies(parts, names)
    binned = bins[0] - 1 if bins[0] else None
    if binned is not None and (not hasattr(parts[binned], "alpha") or len(parts[binned].alpha) != len(weights)):
        raise FormatError(path, f"{names[binned]} has other bins than this mixture; make the mixture again")
    if binned is None and len(weights) != 1:
        raise FormatError(path, "damaged: several sets of weights, but no bins")
    return Mixture(parts, weights, binned, names)
