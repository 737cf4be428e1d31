"""A back-off model of several texts, whose weights are learned on held-out text: ngram-count -source."""

import sys
from dataclasses import replace

from lmtk.errors import LmtkError, name_of
from lmtk.jobs import counting


def pooled_model(job, lists):
    """(the Backoff of an EstimateJob with sources; the counts of contexts for pruning, as `counts.contexts_of` returns
    them, or None). lists: the Lists of the job. Raises LmtkError for a source, or a held-out text, without words.
    """
    from lmtk.jobs.bar import Bar
    from lmtk.joint.sources import pool, tune

    count_job = job.count
    with Bar(job.debug > 0) as bar:
        sources = []
        for i, path in enumerate(count_job.sources):
            bar(i / (len(count_job.sources) + 2), f"counting {name_of(path)}")
            sources.append(count_source(count_job, lists, path))
        words = list(dict.fromkeys(word for counts in sources for word in counts.words))
        vocab = counting.vocabulary_of(count_job, lists, words, job.unk)
        rows, unknown = heldout_words(job, vocab)
        pooled = pool(sources, vocab)
        sources.clear()
        bar((len(count_job.sources) + 1) / (len(count_job.sources) + 2), "learning weights")
        weights, D, before, after = tune(pooled.features(rows), vocab.V)
        if job.debug:
            sys.stderr.writelines(report(count_job.sources, weights, D))
            line = f"{len(rows)} held-out words, {unknown} unknown, ppl= {after:.6g}"
            sys.stderr.write(f"{line}; before learning {before:.6g}\n")
        contexts = pooled.contexts(weights[0]) if job.prunes_by_counts else None
        return pooled.estimate(weights, D), contexts


def count_source(count_job, lists, path):
    """The Counts of one source of a CountJob. Raises LmtkError if it has no words."""
    from lmtk.machine.parallel import ALONE

    counts = counting.collect_counts(replace(count_job, text=(path,), sources=()), lists, ALONE)
    if not counts.tokens:
        raise LmtkError(f"{name_of(path)}: no words in it; leave this source out")
    return counts.up_to(count_job.order)


def heldout_words(job, vocab):
    """Returns (rows (N, order), the number of unknown words in the held-out text). A row has a predicted word, then the
    words before it, the nearest first. Raises LmtkError if the text has no known word.
    """
    import numpy as np

    from lmtk.text.corpus import contexts, whole_corpus

    corpus = whole_corpus(job.heldout, vocab, job.count.marks)
    is_unknown = corpus.ids == vocab.unk_id
    at = np.flatnonzero(corpus.scored & (corpus.ids < vocab.V))
    if not (corpus.scored & ~is_unknown & (corpus.ids != vocab.eos_id)).any():
        raise LmtkError(f"{name_of(job.heldout)}: no word of it is in a source; is it the right text?")
    return np.column_stack((corpus.ids, contexts(corpus, job.count.order)))[at], int(np.count_nonzero(is_unknown))


def report(sources, weights, D):
    """The lines of -debug: the weight and the discounts of each source and order."""
    for k, (of_order, discounts) in enumerate(zip(weights, D), 1):
        for path, weight, values in zip(sources, of_order, discounts):
            numbers = " ".join(f"{value:.4f}" for value in values)
            yield f"{name_of(path)}: order {k}, weight {weight:.6g}, discounts {numbers}\n"
