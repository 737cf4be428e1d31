"""KenLM's programs: lmplz, build_binary, query, filter, interpolate."""

import contextlib
import getopt
import os
import re
import sys
import warnings

from lmtk.errors import LmtkWarning, UsageError, nearest, typed
from lmtk.machine.threads import import_numpy
from lmtk.programs.arpa import filter_arpa

SAID = {"false": "0", "no": "0", "off": "0", "true": "1", "yes": "1", "on": "1"}
BUILD_BINARY = "build_binary [OPTION ...] [probing|trie] ARPA BINARY"
BUILD_BINARY_OPTIONS = """  With an ARPA file alone, the memory that each kind of file takes is printed.
  -q BITS  quantize log probabilities (trie)
  -b BITS  quantize back-off weights (trie; default: as -q)
  -a BITS  compress pointers, at most this many bits of each (trie)
  -p X     buckets of a hash table for each entry (probing; default: 1.5)
  -u X     log10 probability of <unk> if the model has no <unk> (default: -100)
  -s       allow a model without <s> or </s>
  -i       make positive log probabilities 0
  -v       leave out the words
  -T DIR   the folder for temporary files (default: that of TMPDIR)
  -S, -w: no effect; accepted for KenLM scripts."""
MODES = "copy", "single", "union", "multiple"
# options of ngram-count: the names that lmplz has for them
LMPLZ = {"-order": "--order", "-text": "--text", "-lm": "--arpa", "-prune-by-count": "--prune", "-memory": "--memory"}
LMPLZ |= {
    f"-{name}": "--" + name.replace("-", "_")
    for name in (
        "limit-vocab-file",
        "discount-fallback",
        "interpolate-unigrams",
        "vocab-pad",
        "verbose-header",
        "skip-symbols",
    )
}


def short_options(words, letters, usage):
    """Parses options of one letter, as GNU's getopt(3) does: ([(letter, value)], the other words)."""
    try:
        return getopt.gnu_getopt(words, letters)
    except getopt.GetoptError as e:
        raise UsageError(f"{e}; {usage}") from None


def long_options(program, description):
    """A parser of long options. Its method `parse` returns (the options, the other words) and raises UsageError."""
    import argparse

    class Parser(argparse.ArgumentParser):
        names = ()

        def add_argument(self, *names, **options):
            self.names += names
            return super().add_argument(*names, **options)

        def error(self, message):
            raise UsageError(message)

        def parse(self, words):
            for word in words:  # argparse would take -order for -o rder
                if word.startswith("-") and "-" + word.partition("=")[0] in self.names:
                    raise UsageError(f"no option {word}; did you mean -{word}?")
            options, rest = self.parse_known_args(words)
            for word in rest:
                if word.startswith("-") and word != "-":
                    raise UsageError(f"no option {word}{nearest(re.sub('^-*', '--', word), self.names)}")
            return options, rest

    return Parser(prog=program, description=description)


def lmplz_parser():
    """The parser of lmplz's options."""
    parser = long_options("lmplz", "Estimate an interpolated Kneser-Ney model of a text, and write an ARPA file.")
    parser.add_argument("-o", "--order", type=int, required=True, help="order of the model")
    parser.add_argument("--text", default="-", help="the text (default: stdin)")
    parser.add_argument("--arpa", default="-", help="the model (default: stdout)")
    parser.add_argument(
        "--prune",
        nargs="+",
        default=[],
        help="leave out n-grams that occur this many times or fewer; give a number for each order",
    )
    parser.add_argument("--limit_vocab_file", help="leave out n-grams with words that are not in this list")
    parser.add_argument(
        "--discount_fallback",
        nargs="*",
        help="the discounts D1 D2 D3+ of orders for which none can be computed (without numbers: 0.5 1 1.5)",
    )
    parser.add_argument(
        "--interpolate_unigrams",
        nargs="?",
        default="1",
        const="1",
        help="1: interpolate 1-grams (default); 0: give all left-over mass of the 1-grams to <unk>",
    )
    parser.add_argument("--skip_symbols", action="store_true", help="ignore <s>, </s> and <unk> in the text")
    parser.add_argument("--vocab_pad", default="0", help="assume a vocabulary of this many words")
    parser.add_argument("--verbose_header", action="store_true", help="begin the file with comments about the text")
    parser.add_argument("-S", "--memory", help="memory for counting: 500M, 4G, 80%%")
    parser.add_argument("-T", "--temp_prefix", help="the folder for temporary files, or a path in this folder")
    parser.add_argument("--intermediate", help="not in lmtk")
    for name in ("--vocab_estimate", "--minimum_block", "--sort_block", "--block_count"):
        parser.add_argument(name, help="no effect")
    for name, effect in (("--renumber", "no effect"), ("--collapse_values", "not in lmtk")):
        parser.add_argument(name, action="store_true", help=effect)
    return parser


def lmplz(words):
    """-o N [OPTION ...] < TEXT > ARPA: estimate an interpolated Kneser-Ney model, by ngram-count -kenlm."""
    o, rest = lmplz_parser().parse(words)
    rest = [word for word in rest if word != "-"]  # scripts write it for stdin
    if rest:  # lmplz ignores them too; scripts write a type for build_binary here
        hint = f"; to read this text, write < {rest[0]} or --text {rest[0]}" if os.path.isfile(rest[0]) else ""
        warnings.warn(f"'{' '.join(rest)}' has no option before it and is ignored{hint}", LmtkWarning, stacklevel=1)
    if o.intermediate or o.collapse_values:
        raise UsageError("--intermediate and --collapse_values write files that only KenLM reads; use --arpa")
    if o.temp_prefix:
        use_folder_of(o.temp_prefix)
    typed.update(LMPLZ)
    out = ["-kenlm", "-layout", "kenlm", "-open-end", "-order", str(o.order), "-text", o.text, "-lm", o.arpa]
    out += ["-prune-by-count", *o.prune] if o.prune else []
    out += ["-discount-fallback", *o.discount_fallback] if o.discount_fallback is not None else []
    out += ["-memory", memory(o.memory)] if o.memory else []
    out += ["-limit-vocab-file", o.limit_vocab_file] if o.limit_vocab_file else []
    out += ["-interpolate-unigrams", SAID.get(o.interpolate_unigrams.lower(), o.interpolate_unigrams)]
    out += ["-vocab-pad", o.vocab_pad] if o.vocab_pad != "0" else []
    out += ["-verbose-header"] if o.verbose_header else []
    out += ["-skip-symbols"] if o.skip_symbols else []
    return [("ngram-count", out)]


def use_folder_of(prefix):
    """Puts temporary files into a folder, or into the folder of the path `prefix`."""
    os.environ["TMPDIR"] = prefix if os.path.isdir(prefix) else os.path.dirname(prefix) or "."


def memory(size):
    """A size for -memory: percentages of the machine's memory become bytes, other sizes do not change."""
    if not size.endswith("%"):
        return size
    try:
        return f"{int(float(size[:-1]) / 100 * os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES'))}b"
    except (ValueError, OverflowError):  # nan, inf
        raise UsageError(f"--memory {size}: a size is a number and b, K, M, G, T or %") from None


def build_binary(words):
    """[OPTION ...] [probing|trie] ARPA BINARY: write a model as a KenLM binary file. With an ARPA file alone, print how
    much memory each kind of file takes.
    """
    options, rest = short_options(words, "q:b:a:u:p:t:T:m:S:w:sir:vh", BUILD_BINARY)
    if ("-h", "") in options:
        print(f"usage: {BUILD_BINARY}\n{BUILD_BINARY_OPTIONS}")
        return
    if len(rest) == 3 and rest[0] not in ("probing", "trie"):
        raise UsageError(f"the type is probing or trie, not {rest[0]}")
    is_first_model = len(rest) == 1 or (len(rest) == 2 and rest[0] in ("probing", "trie"))
    if not 1 <= len(rest) <= 3 or (is_first_model and rest[0] != "-" and not os.path.exists(rest[0])):
        raise UsageError(f"give a model and an output file; usage: {BUILD_BINARY}")
    values = dict(options)
    if prefix := values.get("-T") or values.get("-t"):
        use_folder_of(prefix)
    import_numpy()
    from lmtk.jobs.kenlm_files import convert, report_sizes

    if len(rest) == 1:
        sys.stderr.write(report_sizes(rest[0], binary_form("trie", values)))
        return
    convert(rest[-2], rest[-1], binary_form(rest[0] if len(rest) == 3 else "probing", values))


def binary_form(kind, values):
    """The kenlm.layout.Form that build_binary's options describe. values: {option: its text}, such as {"-q": "8"}."""
    from lmtk.kenlm.layout import Form

    def number(letter, default, kind, low, high):
        try:
            value = kind(values.get(letter, default))
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            raise UsageError(f"{letter} takes a number from {low:g} to {high:g}, not '{values[letter]}'")
        return value

    if "-r" in values:
        raise UsageError("-r (rest costs) is not in lmtk")
    if "-b" in values and "-q" not in values:
        raise UsageError("-b (bits of back-off weights) needs -q (bits of probabilities)")
    if kind == "probing" and not values.keys().isdisjoint(("-q", "-a")):
        raise UsageError("-q and -a need the type trie")
    bits = number("-q", 8, int, 1, 25)
    return Form(
        kind,
        bits if "-q" in values else 0,
        number("-b", max(bits, 2), int, 2, 25) if "-q" in values else 0,  # two weights stand for 0
        number("-a", 0, int, 0, 65535) % 256 if "-a" in values else None,  # KenLM keeps eight bits; -a 256 is common
        number("-p", 1.5, float, 1.0001, 1000),
        number("-u", -100, float, -1e30, 0),
        has_words="-v" not in values,
        allows_positive="-i" in values,
        allows_missing_marks="-s" in values,
    )


def query(words):
    """[-b] [-n] [-v summary|sentence|word ...] [-l METHOD] MODEL: score the text on stdin."""
    import_numpy()
    from lmtk.files.registry import load
    from lmtk.reports.kenlm import LEVELS, report
    from lmtk.text.corpus import Marks

    usage = "query [-b] [-n] [-v summary|sentence|word ...] [-l lazy|populate|read|parallel] MODEL < TEXT"
    options, rest = short_options(words, "bnv:l:hs:w", usage)
    shown, chosen = set(), dict(options)
    for letter, value in options:
        if letter == "-v" and value not in (*LEVELS, "0", "1", "2"):
            raise UsageError(f"-v takes summary, sentence or word, not {value}")
        if letter == "-v":
            # 0, 1 and 2 stand for the first one, two and three levels
            shown = {value, *shown} if value in LEVELS else set(LEVELS[: int(value) + 1])
    if len(rest) > 1 and "-h" not in chosen:
        raise UsageError(f"expected one model, not {len(rest)} files; the text is read from standard input: {usage}")
    if len(rest) != 1 or "-h" in chosen:
        raise UsageError(usage)
    marks = Marks("-n" not in chosen, "-n" not in chosen)
    out = sys.stdout.buffer

    def write(text):
        out.write(text)
        if "-b" in chosen:
            out.flush()

    report(load(rest[0]), rest[0], "-", marks, shown or LEVELS, write, eager="-b" in chosen)


def filter(words):
    """copy|single|union|multiple [context] [raw] [vocab:|model:]FILE OUT: write the n-grams of a model or of a count
    file whose words are in a vocabulary.
    """
    from lmtk.files.decoding import lines

    usage = "filter copy|single|union|multiple [context] [raw|arpa] vocab:FILE OUT < MODEL (or model:FILE OUT < VOCAB)"
    if len(words) < 3:
        raise UsageError(usage)
    *chosen, source, out = words
    chosen = [word for word in chosen if not word.startswith(("threads:", "batch_size:"))]
    modes = [word for word in chosen if word in MODES]
    left = set(chosen) - {*MODES, "context", "raw", "arpa"}
    if any(word.startswith(("vocab:", "model:")) for word in (*left, out)):
        raise UsageError("give vocab:FILE or model:FILE before OUT, not both; stdin is the other file")
    if left or not modes:
        raise UsageError(f"{f'no mode {left.pop()}; ' if left else ''}{usage}")
    kind, _, name = source.rpartition(":")
    if kind not in ("", "vocab", "model"):
        raise UsageError(f"write vocab:FILE or model:FILE, not {kind}:FILE")
    model, vocab = ("-", name) if kind == "vocab" else (name, "-")
    context, forms = "context" in chosen, [word for word in chosen if word in ("raw", "arpa")]
    sentences = [line for _, line in lines(vocab) if line.split()] if modes[-1] != "copy" else []
    outs = [f"{out}{number}" for number in range(len(sentences))] if modes[-1] == "multiple" else [out]
    where = criterion_of(modes[-1], sentences)
    if forms[-1:] == ["raw"]:
        filter_counts(model, outs, where, context)
    else:
        filter_arpa(model, outs, where, context, pad=True)


def filter_counts(path, outs, where, context):
    """Writes the n-grams of a count file that stay to the files `outs`. where, context: as for `filter_arpa`."""
    from lmtk.files.decoding import lines
    from lmtk.files.outputs import open_out
    from lmtk.ngram.arpa.filtering import files_of

    with contextlib.ExitStack() as files:
        outs = [files.enter_context(open_out(out)) for out in outs]
        for _, line in lines(path):
            ngram = line.partition(b"\t")[0].split()
            for i in files_of(ngram[: len(ngram) - context], where, len(outs)):
                outs[i].write(line + b"\n")


def criterion_of(mode, sentences):
    """The criterion of a mode, as in `ngram.arpa.filtering`.

    single: an n-gram stays if each of its words is in some sentence. union, multiple: if one sentence has all its
    words. copy: every n-gram stays. Words such as <s> are in every sentence.
    """
    if mode == "copy":
        return lambda word: ()
    where = {}  # {word: the numbers of its sentences}
    for number, line in enumerate(sentences):
        for word in line.split():
            where.setdefault(word, {})[0 if mode == "single" else number] = True
    where = {word: list(lines) for word, lines in where.items()}
    return lambda word: () if word.startswith(b"<") and word.endswith(b">") else where.get(word)


def interpolate(words):
    """-m MODEL ... -w WEIGHT ... | -t TEXT [--just_tune]: interpolate models log-linearly; the ARPA file goes to
    stdout.
    """
    parser = long_options("interpolate", "Interpolate models log-linearly, and write an ARPA file to stdout.")
    parser.add_argument("-m", "--model", nargs="+", action="extend", required=True, help="ARPA or binary files")
    parser.add_argument("-w", "--weight", nargs="+", action="extend", type=float, help="a weight for each model")
    parser.add_argument("-t", "--tuning", help="a text on which the weights are learned")
    parser.add_argument("--just_tune", action="store_true", help="print the learned weights and write no model")
    for names in (("-T", "--temp_prefix"), ("-S", "--memory"), ("--sort_block",)):
        parser.add_argument(*names, help="no effect")
    o, rest = parser.parse(words)
    if rest:
        raise UsageError(f"'{rest[0]}' has no option before it; give models after -m")
    if bool(o.weight) == bool(o.tuning):
        raise UsageError("give either weights (-w) or a text to learn them on (-t)")
    if len(o.model) < 2 or len(o.weight or o.model) != len(o.model):
        raise UsageError("give two models or more (-m), and as many weights (-w)")
    if o.just_tune and not o.tuning:
        raise UsageError("--just_tune needs a text to learn weights on (-t)")
    for path in o.model:
        if not os.path.exists(path) and os.path.exists(path + ".kenlm_intermediate"):
            raise UsageError(f"{path}: lmtk does not read KenLM's intermediate form; give the ARPA or binary file")
    if o.just_tune:
        return print_weights(o.model, o.tuning)
    typed.update({"-lm": "-m", "-mix-lm": "-m", "-lambda": "-w", "-heldout": "-t"})
    first, *others = o.model
    out = ["-loglinear-mix", "-layout", "kenlm", "-lm", first, "-write-lm", "-", "-mix-lm", *others]
    out += ["-lambda", *map(str, o.weight)] if o.weight else ["-heldout", o.tuning]
    return [("ngram", out)]


def print_weights(models, text):
    """Prints the weights that maximize the likelihood of a text: interpolate --just_tune."""
    import_numpy()
    from lmtk.files.registry import load
    from lmtk.jobs.editing import EditJob
    from lmtk.jobs.loglinear import learn_weights, unite

    job = EditJob(lm=models[0], mix_lm=tuple(models[1:]), loglinear_mix=True, heldout=text)
    weights, _ = learn_weights(job, unite([load(path) for path in models], models))
    print("", *(f"{weight:.6g}" for weight in weights))
