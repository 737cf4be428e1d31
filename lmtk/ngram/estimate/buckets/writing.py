"""A model in buckets -> ARPA, by one process or by all ranks together."""

import contextlib
import io
import os
from collections import deque
from functools import partial
from itertools import chain

import numpy as np

from lmtk.files.bounded import give_back
from lmtk.files.column import put_at
from lmtk.machine import threads
from lmtk.ngram.arpa import printing
from lmtk.ngram.estimate import suffix
from lmtk.ngram.estimate.buckets.division import begins_of, ends_of, fetch

f32 = np.float32


def write_arpa(out, job, path=None, layout=None, may_reuse=False):
    """Writes the model of Buckets as ARPA, with lines sorted by the ids of their words, compared from the last word
    back. Rank 0 has `out`, the open file `path`; on the others it is None. may_reuse: whether the caller gives up the
    model; its memory is then given back on the way.
    """
    layout, scratch, comm = layout or printing.srilm_layout(job.vocab.words), threads.Scratch(), job.comm
    work = job.estimator if may_reuse else None
    if work:
        give_back(work.suffixes.come)
    write = contextlib.nullcontext((out.write, lambda: None)) if comm.size == 1 else write_together(out, comm, path)
    with write as (write, done):
        if out:
            sizes = b"".join(b"ngram %d=%d\n" % (k, size) for k, size in enumerate(job.sizes, 1))
            write(layout.begin + b"\\data\\\n" + sizes)
        for k in range(1, job.order + 1):
            if out:
                write(b"\n\\%d-grams:\n" % k)
            buckets = pieces_of_buckets(job, k, layout, scratch)
            groups = ([bucket] for bucket in buckets)  # ranks go on together
            if comm.size == 1:  # another thread loads buckets ahead; () stands for one that `buckets` lacks
                groups = [threads.map_in_order(partial(next, buckets), [()] * len(job.rank_buckets), threads=1)]
            for group in groups:
                for text in threads.map_in_order(lambda piece: piece(), chain.from_iterable(group)):
                    write(text)
                done()
            for columns in (work.log10p, work.log10bow, work.marks) if work else ():
                give_back(columns[k])
        if out:
            write(b"\n\\end\\\n")
        done()


@contextlib.contextmanager
def write_together(out, comm, path):
    """Yields (a function to which a rank gives parts of a file, bytes; a function that all ranks must call equally
    often). The latter writes the parts since its last call, in the order of ranks, into rank 0's `out`. If `out` is a
    regular file that all ranks can open, each rank writes to its own place in it, one call later, so that none waits
    for the others' sizes; otherwise rank 0 receives all.
    """
    parts, end, ahead = [], 0, deque()
    name, file = open_shared(out, comm)

    def done():
        ahead.append(([*parts], comm.tell(sum(map(len, parts)))))
        parts.clear()
        if len(ahead) > 1 or file is None:
            put()

    def put():
        nonlocal end
        ready, sizes_of_ranks = ahead.popleft()
        sizes = sizes_of_ranks()
        at = end + sum(sizes[: comm.rank])
        end += sum(sizes)
        if file is not None:
            for part in ready:
                put_at(file, memoryview(part), at)
                at += len(part)
        elif out:
            out.writelines(ready)
            for rank in range(1, comm.size):
                out.writelines(comm.receive(rank))
        else:
            comm.send(ready)

    try:
        yield parts.append, done
        while ahead:
            put()
        comm.gather(None)  # rank 0's file is whole when every rank has written
    except BaseException as e:
        if file is not None:  # a failure here ends rank 0 too, which cannot remove the file then
            with contextlib.suppress(OSError):
                os.unlink(name)
        if isinstance(e, OSError) and e.filename is None:
            e.filename = path
        raise
    finally:
        if file is not None:
            os.close(file)


def open_shared(out, comm):
    """(the name of rank 0's `out`; a descriptor of it, None unless it is a regular file that all ranks can write)."""
    plain = out and isinstance(getattr(out, "raw", None), io.FileIO) and os.path.isfile(out.raw.name)
    name, file = comm.gather(out.raw.name if plain else None)[0], None
    with contextlib.suppress(OSError, TypeError):
        file = os.open(name, os.O_WRONLY)
    if comm.sum(int(file is None)) and file is not None:
        os.close(file)
        return name, None
    return name, file


def pieces_of_buckets(job, k, layout, scratch):
    """Yields, for each of a rank's buckets, what printing.pieces_of makes of the contexts of order k in the bucket. At
    order 1 only rank 0 has lines, those of all words.
    """
    pieces = partial(printing.pieces_of, k=k, layout=layout, scratch=scratch)
    if job.estimator:
        work = job.estimator
        yield pieces(work.suffixes, (work.log10p[k], work.log10bow[k], work.marks[k]))
    elif k == 1:
        yield [] if job.comm.rank else pieces(None, (job.log10p, job.log10bow, job.marks))
    else:
        for b, (p, marks) in zip(job.rank_buckets, fetch(job, k, {"p": f32, "marks": np.uint8})):
            oldest = [None, None, *(job.shelf.get(("contexts", "oldest", b, d), np.int32) for d in range(2, k + 1))]
            contexts = suffix.Suffixes(begins_of(job, b, "contexts"), oldest, ends_of(job, b, "contexts"))
            yield pieces(contexts, (p, job.shelf.get(("bow", b, k), f32), marks))
            job.show((b + 1) / (len(job.bounds) - 1), f"writing {k}-grams")
