"""Word lists of texts and models."""

from dataclasses import dataclass, field

from lmtk.jobs.rules import check, check_outputs, needs, one_stdin, wrong_without_text
from lmtk.jobs.texts import LOWERED_RULES, Reading, convert_texts, needs_text


@dataclass(frozen=True)
class VocabularyJob:
    """Write the words of texts, models and a word list. mincount: how often a word of the texts occurs at least. top:
    the number of words. limit_vocab: only words of the word list.
    """

    text: tuple[str, ...] = ()
    lm: tuple[str, ...] = ()
    mincount: int = 1
    top: int | None = None
    vocab: str | None = None
    limit_vocab: bool = False
    tolower: bool = False
    write: str = "-"
    reading: Reading = field(default_factory=Reading)

    def __post_init__(self):
        check(self, RULES)
        convert_texts(self, self.reading)
        one_stdin(*self.text, *self.lm, self.vocab)


RULES = (
    wrong_without_text(lambda job: not (job.text or job.lm or job.vocab), "nothing to read: give -text, -lm or -vocab"),
    needs("limit_vocab", "vocab"),
    *LOWERED_RULES,
    needs_text(),
)


def write_vocabulary(job):
    """Runs a VocabularyJob."""
    from lmtk.files.outputs import open_out

    check_outputs(job.write, texts=job.text, inputs=[*job.lm, job.reading.tokenizer])
    words = words_of(job)
    with open_out(job.write) as out:
        out.write(b"".join(w + b"\n" for w in words))


def words_of(job):
    """The words that a VocabularyJob asks for, in order."""
    from lmtk.files.registry import load
    from lmtk.jobs.bar import reading_bar
    from lmtk.text.corpus import by_count, count_words
    from lmtk.text.vocab import EOS, SOS, read_vocab

    with reading_bar(job.text, "counting words"):
        counts = count_words(job.text, job.tolower)
    del counts[SOS], counts[EOS]
    kept = {w for w, n in counts.items() if n >= job.mincount}
    listed = read_vocab(job.vocab, job.tolower) if job.vocab else []
    if job.limit_vocab:
        kept.intersection_update(listed)
    else:
        kept.update(listed)
    for path in job.lm:
        kept.update(load(path).vocab.words)
    return by_count(kept, counts)[: job.top]
