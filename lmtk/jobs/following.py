"""The next word, for models of any kind: the most probable words after contexts, and random sentences."""

import warnings
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from lmtk.errors import LmtkError, LmtkWarning, counted, name_of
from lmtk.files.decoding import WORD, lines
from lmtk.jobs.rules import check, check_outputs, check_texts, model_missing, one_stdin, required, wrong
from lmtk.jobs.texts import LOWERED_RULES, READING_RULES, Reading, convert_texts, needs_text

TOGETHER = 64  # contexts, or sentences, that are computed at once
PART = 1 << 16  # probabilities from which a thread draws words at once


@dataclass(frozen=True)
class NextJob:
    """Print the most probable next words after contexts, which are the lines of texts.

    lm: the model's file. top: the number of words for each context. no_sos: do not add <s> before a context.
    unk: print <unk> too, if the model predicts it.
    """

    lm: str | None = None
    text: tuple[str, ...] = ()
    top: int = 10
    no_sos: bool = False
    tolower: bool = False
    unk: bool = False
    write: str = "-"
    reading: Reading = field(default_factory=Reading)

    def __post_init__(self):
        check(self, (lambda job: model_missing(job.lm, job.text), required("lm"), *LOWERED_RULES))
        object.__setattr__(self, "text", self.text or ("-",))
        one_stdin(self.lm, *self.text)
        convert_texts(self, self.reading.unsplit)


@dataclass(frozen=True)
class SampleJob:
    """Print random sentences.

    lm: the model's file. count: the number of sentences. prefixes: a file of lines to continue, instead of `count`.
    temperature: log p is divided by this number before a word is drawn. Values below 1 give more probable sentences,
    values above 1 more varied ones.
    most: the largest number of words drawn for a sentence. unk: allow <unk> to be drawn.
    """

    lm: str | None = None
    count: int = 10
    prefixes: str | None = None
    seed: int = 1
    temperature: float = 1.0
    most: int = 1000
    unk: bool = False
    write: str = "-"
    reading: Reading = field(default_factory=Reading)

    def __post_init__(self):
        check(self, SAMPLE_RULES)
        one_stdin(self.lm, self.prefixes)
        convert_texts(self, self.reading, "prefixes")


SAMPLE_RULES = (
    required("lm"),
    wrong(lambda job: not job.temperature > 0, "-temperature must be above 0"),
    *READING_RULES,
    needs_text("prefixes"),
)


def print_next_words(job):
    """Runs a NextJob."""
    import numpy as np

    from lmtk.files.outputs import open_out
    from lmtk.files.registry import load
    from lmtk.reports.following import Follower, largest
    from lmtk.text.vocab import count_missing, lower

    check_texts(job.text, "context", "lmtk next -lm", job.lm)
    check_outputs(job.write, texts=job.text, inputs=[job.lm, job.reading.tokenizer])
    follower, tally = Follower(load(job.lm)), Counter()
    job.reading.check_model(follower.lm, job.lm)
    vocab = follower.lm.vocab
    contexts = (line for path in job.text for _, line in lines(path))
    with open_out(job.write) as out:
        while batch := list(islice(contexts, TOGETHER)):
            words_read = job.reading.split([lower(line) for line in batch] if job.tolower else batch)
            states = np.concatenate([states_after(follower, context, not job.no_sos) for context in words_read])
            tally.update(count_missing(WORD.findall(b" ".join(words_read)), vocab))
            for context, log10p in zip(batch, follower.scores(states)):
                if not job.unk and vocab.unk_id < vocab.V:
                    log10p[vocab.unk_id] = -np.inf
                out.write(context + b"\n")
                for w in largest(log10p, job.top):
                    out.write(b"\t%s\t%.7g\t%.7g\n" % (vocab.words[w], log10p[w], 10.0 ** log10p[w]))
            out.flush()
    if missing := tally["missing"]:
        remedy = "was the model made with this tokenizer?" if job.reading.tokenizer else "check the spelling"
        if tally["upper"]:
            remedy = f"with -tolower only {missing - tally['upper']} would be missing"
        count = counted(tally["seen"], "context word")
        text = f"{name_of(job.lm)}: the model does not have {missing} of {count}; {remedy}"
        warnings.warn(text, LmtkWarning, stacklevel=1)


def states_after(follower, context, bos):
    """The state of a Follower after a context, bytes: (1,)."""
    states, vocab = follower.states(1, bos), follower.lm.vocab
    for word in WORD.findall(context):
        states = follower.advance(states, [vocab.index.get(word, vocab.unk_id)])
    return states


def sample(job):
    """Runs a SampleJob."""
    from lmtk.files.outputs import open_out
    from lmtk.files.registry import load
    from lmtk.reports.following import Follower

    check_outputs(job.write, inputs=[job.lm, job.prefixes, job.reading.tokenizer])
    follower = Follower(load(job.lm))
    if job.prefixes:
        job.reading.check_model(follower.lm, job.lm)
    prefixes = (line for _, line in lines(job.prefixes)) if job.prefixes else iter([b""] * job.count)
    with open_out(job.write) as out:
        for sentence in random_sentences(follower, prefixes, job):
            out.write(sentence + b"\n")


def random_sentences(follower, prefixes, job):
    """Yields a random continuation of each prefix, as bytes, after the prefix itself. Each sentence has random numbers
    of its own, so it does not depend on the others.
    """
    import numpy as np

    from lmtk.machine.threads import map_at_once

    vocab, number = follower.lm.vocab, 0
    size = max(PART // vocab.V, 1)
    while batch := list(islice(prefixes, TOGETHER)):
        states = np.concatenate([states_after(follower, prefix, True) for prefix in batch])
        random = [np.random.default_rng([job.seed, number + i]) for i in range(len(batch))]
        words, going = [WORD.findall(prefix) for prefix in batch], np.arange(len(batch))
        for _ in range(job.most):
            generators, scores = [random[i] for i in going.tolist()], follower.scores(states[going])
            parts = [(generators[i : i + size], scores[i : i + size]) for i in range(0, len(going), size)]
            drawn = np.concatenate(map_at_once(partial(draw, job, vocab), parts))
            going, drawn = going[drawn != vocab.eos_id], drawn[drawn != vocab.eos_id]
            for i, w in zip(going.tolist(), drawn.tolist()):
                words[i].append(vocab.words[w])
            if not len(going):
                break
            states[going] = follower.advance(states[going], drawn)
        number += len(batch)
        yield from map(b" ".join, words)


def draw(job, vocab, part):
    """The ids of B random words by p^(1/temperature). part: B generators of random numbers; log10 p of all words,
    (B, V).
    """
    import numpy as np

    generators, log10p = part
    log10p = log10p.astype(np.float64)
    if not job.unk and vocab.unk_id < vocab.V:
        log10p[:, vocab.unk_id] = -np.inf
    largest = log10p.max(axis=1, keepdims=True)
    if np.isneginf(largest).any():
        raise LmtkError(f"{name_of(job.lm)}: the model gives every word the probability 0 after some context")
    sums = np.cumsum(10.0 ** ((log10p - largest) / job.temperature), axis=1)
    return [np.searchsorted(p, random.random() * p[-1], "right") for random, p in zip(generators, sums)]
