"""Writing KenLM's binary files: from a model in memory, or straight from an ARPA file."""

import warnings
from itertools import dropwhile, islice, takewhile

from lmtk.errors import FormatError, LmtkError, LmtkWarning, UsageError, counted, name_of
from lmtk.jobs.rules import check_outputs, needs, one_of, wrong
from lmtk.text.vocab import EOS, SOS

# of the fields write_bin, write_kenlm, kenlm_type, compact and quantize of a job
KENLM_RULES = (
    needs("compact quantize", "write_bin write_kenlm"),
    one_of("kenlm_type", ("probing", "trie")),
    needs("kenlm_type", "write_kenlm"),
    wrong(
        lambda job: job.write_kenlm and job.kenlm_type == "probing" and (job.compact or job.quantize),
        "-compact and -quantize need -kenlm-type trie; KenLM's probing tables are not compressed",
    ),
)


def write_kenlm(model, path, form, name):
    """Writes a model as a KenLM file. name: what messages call the model. Raises LmtkError."""
    from lmtk.files import bounded
    from lmtk.files.outputs import open_out
    from lmtk.kenlm import probing, slices, trie
    from lmtk.kenlm.hashed import NO_WORDS, Hashed
    from lmtk.kenlm.layout import places_of_unknown
    from lmtk.kenlm.levels import clip, of_backoff
    from lmtk.lm import kind_of_model
    from lmtk.ngram.edit.closing import close
    from lmtk.ngram.model.backoff import Backoff

    if not isinstance(model, Backoff):
        reason = NO_WORDS
        if not isinstance(model, Hashed):
            reason = "has no list of n-grams; give an ARPA file or lmtk's binary form"
        raise LmtkError(f"{name}: this model, {kind_of_model(model)}, {reason}")
    levels, vocab = model.nodes.levels[1:], model.vocab
    marks = [mark for mark, w in ((SOS, vocab.sos_id), (EOS, vocab.eos_id)) if w in levels[0]["word"][:-1]]
    check_for_kenlm(form, name, len(levels), marks, positive_of([level["log10p"][:-1] for level in levels]))
    with open_out(path) as out:
        if form.kind == "probing":
            probing.write(out, model, form)
        elif bounded.bound or len(places_of_unknown(vocab.words)) > 1:
            # the other way reads memory at random, and takes the two names of <unk> for different words
            slices.write(out, slices.slices_of(model, form.allows_positive), form)
        else:
            trie.write(out, of_backoff(close(clip(model) if form.allows_positive else model)), form)


def write_estimate(model, path, form):
    """Writes the Buckets of an estimated model as a KenLM trie, without sorting its n-grams by prefix, if that is
    possible; the Buckets cannot be used afterwards. Returns whether it was possible. Raises LmtkError.
    """
    from lmtk.files.outputs import open_out
    from lmtk.kenlm import trie
    from lmtk.kenlm.levels import of_estimate

    levels = of_estimate(model)
    if levels:
        check_for_kenlm(form, "the model", model.order, levels.words, positive_of(model.estimator.log10p[1:]))
        with open_out(path) as out:
            trie.write(out, levels, form)
    return bool(levels)


def positive_of(columns):
    """(How many log probabilities of the columns are positive, the largest of them)."""
    positive = [column[column > 0] for column in columns]
    return sum(map(len, positive)), max(float(p.max(initial=0)) for p in positive)


def convert(source, target, form):
    """Writes the model in the file `source` as a KenLM file; the n-grams of an ARPA file are written as they are read.

    Raises LmtkError, and UsageError if the target is an ARPA file and the source is not: the two were exchanged.
    """
    from lmtk.files.inputs import is_file, open_in
    from lmtk.files.outputs import open_out
    from lmtk.files.registry import load

    name = name_of(source)
    check_outputs(target, inputs=[source])
    if is_file(source) and is_file(target):
        with open_in(source) as stream, open_in(target) as before:
            exchanged = is_arpa(before) and not is_arpa(stream)
        if exchanged:
            raise UsageError(
                f"{target} is an ARPA file and {name} is not; give the ARPA file first, then the binary file"
            )
    with open_in(source) as stream:
        if is_arpa(stream):
            with open_out(target) as out:
                (convert_to_trie if form.kind == "trie" else convert_to_tables)(stream, source, form, out)
            return
    with warnings.catch_warnings():
        # `check_for_kenlm` says these
        warnings.filterwarnings("ignore", ".*(positive log probabilit|the model has no )", LmtkWarning)
        model = load(source)
    write_kenlm(model, target, form, name)


def report_sizes(source, form):
    """The report of `lmtk.kenlm.sizes` for an ARPA file. Only the numbers after \\data\\ are read. Raises LmtkError."""
    from lmtk.files.decoding import lines_in
    from lmtk.files.inputs import open_in
    from lmtk.kenlm.sizes import report
    from lmtk.ngram.arpa.reader import STATED

    sizes = []
    with open_in(source) as stream:
        if not is_arpa(stream):
            raise FormatError(source, "this is not an ARPA file; give an ARPA file, or an output file too")
        rows = ((number, line.strip()) for number, line in lines_in(stream, source))
        rows = islice(dropwhile(lambda row: row[1] != b"\\data\\", rows), 1, None)
        for number, line in takewhile(lambda row: not row[1].startswith(b"\\"), rows):
            if b"=" in line:
                k, size = len(sizes) + 1, STATED.fullmatch(line)
                if not size or size[1] != b"%d" % k:
                    raise FormatError(source, f"expected 'ngram {k}=count'", number)
                sizes.append(int(size[2]))
    if not sizes:
        raise FormatError(source, "\\data\\ does not state any number of n-grams")
    check_for_kenlm(form, name_of(source), len(sizes), (SOS, EOS), (0, 0))
    return report(sizes, form)


def convert_to_tables(stream, source, form, out):
    """Writes the ARPA file `source`, which is open as `stream`, as probing tables."""
    from lmtk.kenlm import probing

    tables, *positive = probing.read(stream, source, form, out)
    check_for_kenlm(form, name_of(source), len(tables.sizes), tables.words, positive)
    tables.write()


def convert_to_trie(stream, source, form, out):
    """Writes the ARPA file `source`, which is open as `stream`, as a trie."""
    from lmtk.kenlm import slices
    from lmtk.ngram.arpa import reader

    growing = slices.GrowingSlices(source, form.allows_positive)
    stated, *positive = growing.read(stream)
    reader.tell_sizes(source, stated, growing.sizes)
    model, growing = growing.slices, None  # the memory of its table of words is used for what follows
    check_for_kenlm(form, name_of(source), len(model.sizes), model.words, positive)
    reader.tell_repeated(source, slices.write(out, model, form))


def is_arpa(stream):
    """Whether a stream begins like an ARPA file."""
    from lmtk.files.registry import ARPA, find_reader

    return find_reader(stream.peek(1 << 12)) == ARPA


def check_for_kenlm(form, name, order, words, positive):
    """Raises LmtkError for a model that KenLM does not take; warns of one that most KenLM programs do not take. words:
    those with a 1-gram, or only the marks among them. positive: how many positive log probabilities there are, and the
    largest.
    """
    from lmtk.kenlm.layout import MOST_ORDERS

    if order < 2:
        raise LmtkError(f"{name}: KenLM's binary files need a model of order 2 or more; this one has only 1-grams")
    missing = [mark.decode() for mark in (SOS, EOS) if mark not in words]
    if missing and not form.allows_missing_marks:
        raise LmtkError(f"{name}: the model has no {' and no '.join(missing)}; to allow that, use build_binary -s")
    if positive[0] and not form.allows_positive:
        count = counted(positive[0], "positive log probability", "positive log probabilities")
        raise LmtkError(f"{name}: {count}, up to {positive[1]:.7g}; to make them 0, use build_binary -i")
    if order > MOST_ORDERS:
        reason = f"KenLM reads models up to order {MOST_ORDERS}, unless it is compiled with a larger KENLM_MAX_ORDER"
        warnings.warn(f"{name}: order {order}; {reason}", LmtkWarning, stacklevel=2)
