"""The deleted-interpolation model: relative frequencies of counts, weights by EM on held-out text."""

import os
import sys
import warnings
from dataclasses import dataclass, field

from lmtk.errors import LmtkWarning
from lmtk.jobs.rules import (
    check,
    check_outputs,
    format_number,
    marks_of,
    one_stdin,
    required,
    unknown_word,
    wrong_without_text,
)
from lmtk.jobs.texts import LOWERED_RULES, Reading, convert_texts


@dataclass(frozen=True)
class InterpolateJob:
    """Estimate a deleted-interpolation model, and write it.

    read, text: count files and texts, from which the relative frequencies come. heldout: a text on which the weights
    are learned. vocab: a word list; None: the words of the counts.
    lm, write_bin: files for the model, as text and in binary form.
    iterations: the largest number of iterations of EM. tolerance: EM stops when an iteration changes no weight by more.
    """

    read: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    heldout: str | None = None
    lm: str | None = None
    write_bin: str | None = None
    order: int = 3
    vocab: str | None = None
    unk: bool = False
    map_unk: str = "<unk>"
    iterations: int = 5
    tolerance: float = 0.001
    no_sos: bool = False
    no_eos: bool = False
    stream: bool = False
    tolower: bool = False
    float_counts: bool = False
    debug: int = 0
    reading: Reading = field(default_factory=Reading)

    def __post_init__(self):
        check(self, RULES)
        convert_texts(self, self.reading, *("text", "heldout") if self.text else ("heldout",))
        one_stdin(*self.read, *self.text, self.heldout, self.vocab)
        unknown_word(self.map_unk)


RULES = (
    required("heldout"),
    wrong_without_text(lambda job: not (job.read or job.text), "a text or counts are needed: give -read or -text"),
    *LOWERED_RULES,
)


def interpolate(job):
    """Runs an InterpolateJob. Returns the model, an `interp.Interpolated`."""
    from lmtk.files.outputs import open_out
    from lmtk.ngram.estimate import interp
    from lmtk.text.corpus import whole_corpus

    texts = [*job.text, job.heldout]
    check_outputs(job.lm, job.write_bin, texts=texts, inputs=[*job.read, job.vocab, job.reading.tokenizer])
    marks = marks_of(job)
    counts, vocab = count(job, marks)

    def tell(iteration, ppl):
        when = f"iteration {iteration}" if iteration else "at the end"
        sys.stderr.write(f"{when}: held-out ppl= {format_number(ppl)}\n")

    held = whole_corpus(job.heldout, vocab, marks)
    model, mass = interp.estimate(
        counts, vocab, job.order, held, job.iterations, job.tolerance, tell if job.debug else None
    )
    if job.debug:
        tell_bins(model, mass)
    if job.lm:
        with open_out(job.lm) as out:
            interp.write_text(out, model)
    if job.write_bin:
        with open_out(job.write_bin) as out:
            interp.write_binary(out, model)
    return model


def count(job, marks):
    """(the counts of an InterpolateJob, the vocabulary of its model)."""
    from lmtk.ngram.counting.collection import Sources, collect
    from lmtk.text.vocab import EOS, make_vocab, read_vocab, with_tokenizer

    unk = os.fsencode(job.map_unk)
    words = read_vocab(job.vocab, job.tolower) if job.vocab else None
    counts = collect(Sources(job.text, job.read, job.order, words, marks, unk, floats=job.float_counts))
    source = job.vocab or (job.read or job.text)[0]
    vocab = make_vocab(words if job.vocab else sorted(counts.words), job.unk, marks.eos, unk, source)
    vocab = with_tokenizer(vocab, job.reading.digest())
    if marks.eos and not counts.levels[0].count[counts.levels[0].keys == counts.words.index(EOS)].sum():
        warnings.warn(
            "the counts have no </s>; if they were made with -stream, add -stream here too", LmtkWarning, stacklevel=1
        )
    return counts, vocab


def tell_bins(model, mass):
    """-debug 1: the weights of each bin, and how many held-out words are in it."""
    for i, (alpha, tokens) in enumerate(zip(model.alpha, mass, strict=True)):
        weights, share = " ".join(map(format_number, alpha)), format_number(tokens / mass.sum())
        sys.stderr.write(f"bin {i}: {tokens} held-out words ({share}), alpha = ({weights})\n")
