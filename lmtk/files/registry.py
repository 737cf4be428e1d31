"""The readers of all model files, chosen by the first bytes of a file.

`load` reads a language model of any kind, `load_translation` and `load_ensemble` translation models, and `describe` a
file of any kind for `lmtk info`. Readers are named as strings, "module:function", so that a command imports only the
module that it needs. A reader in TEXT is called with (stream, path, seen), a reader in BINARY with (about, arrays,
path). Both return a model; `lmtk info` shows what the model's `describe` yields.
"""

import importlib
import re
import warnings

from lmtk.errors import FormatError, LmtkError, LmtkWarning
from lmtk.files import container, declared, texts
from lmtk.files.decoding import BOM, JSONL, KENLM, OPENFST, PARQUET, UTF16, decode_blocks, split_lines, warn_about_bytes
from lmtk.files.inputs import open_in

# the first bytes of a text model -> its reader; a file that begins with { is JSON lines for `describe`
TEXT = {
    b"\\interp\\": "lmtk.ngram.estimate.interp:read_text",
    b"\\mixture\\": "lmtk.joint.mixture:read_text",
    b"\\class-ngram\\": "lmtk.joint.classes:read_text",
}
ARPA = "lmtk.ngram.arpa.reader:read_text"
DATA = re.compile(rb"(?m)^[ \t]*\\data\\[ \t\r]*$")
KENLM_READER = "lmtk.kenlm.reading:read"
FST_HEADER = "lmtk.fst.symbols:describe"
TOKENIZERS = "lmtk.text.tokenizer_files:find_description"
# the parts of a network's kind that `nplm.network.kind_of` makes of its layer and its output layer
LAYER_PARTS = "", "-tdnn", "-rnn", *(f"-{kind}{depth}" for kind in ("gru", "lstm") for depth in ("", "-2", "-3", "-4"))
OUTPUT_PARTS = "", "-tied", "-class", "-tree"
BINARY = {
    **{f"nplm{layer}{output}": "lmtk.nplm.network:from_arrays" for layer in LAYER_PARTS for output in OUTPUT_PARTS},
    **{f"nplm{layer}-shortlist": "lmtk.joint.shortlist:from_arrays" for layer in LAYER_PARTS},
    "nplm-energy": "lmtk.nplm.network:from_arrays",
    "interp": "lmtk.ngram.estimate.interp:from_arrays",
    "backoff": "lmtk.ngram.model.backoff:from_arrays",
    "backoff-compact": "lmtk.ngram.model.compact:from_arrays",
    "class-ngram": "lmtk.joint.classes:from_arrays",
}
TRANSLATION = {"nmt": "lmtk.nmt.network:from_arrays"}
MODELS = BINARY | TRANSLATION
INDEX = "lmtk.text.index:from_arrays"
DEEPEST = 8  # levels of models within models; a level that names a part twice doubles the work


def import_function(name):
    """Import the module of "module:function" and return the function."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def load_strictly(path, **options):
    """Load a model like `load`, with warnings as LmtkErrors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", LmtkWarning)
        try:
            return load(path, **options)
        except LmtkWarning as e:
            raise LmtkError(f"{e} (-strict)") from None


def load(path, seen=(), sums="now", home=None, linked=True, arpa=None):
    """Load the language model in a file ("-": stdin), whatever its kind. Raises FormatError.

    seen: the mixtures that contain this model, to detect a mixture that contains itself. sums: when to check the
    arrays, as in `container.read`. home: a function like `building.map_in_file` without `out`, which allocates the
    nodes of an ARPA file. linked: whether these nodes get the links to suffixes and the hash tables that scoring needs;
    `edit.vocabulary.merge` does not need them. arpa: a function arpa(stream, path) that reads ARPA files in place of
    their reader; `load` returns its result.
    """
    if len(seen) > DEEPEST:
        raise FormatError(path, f"models inside models, more than {DEEPEST} deep")
    with open_in(path) as stream:
        head = stream.peek(1 << 12)
        if not head:
            raise FormatError(path, "the file is empty; expected a model")
        if container.looks_binary(head):
            about, arrays = container.read(stream, path, sums)
            if about["kind"] in TRANSLATION:
                readers = "lmtk translate and lmtk rescore read it with -model"
                raise FormatError(path, f"a translation model; expected a language model ({readers})")
            if about["kind"] == "index":
                raise FormatError(path, "an index, which lmtk count-of reads; expected a language model")
            return make_model(about, arrays, path)
        if head.startswith(b"SRILM_BINARY_NGRAM"):
            raise FormatError(
                path, "SRILM's binary form, which lmtk does not read; convert it to ARPA with SRILM's ngram -write-lm"
            )
        if head.startswith(KENLM):
            return import_function(KENLM_READER)(stream, path)[0]
        if head.startswith(UTF16):
            raise FormatError(path, "a model must be in UTF-8, but this file is in UTF-16; iconv -f UTF-16 converts it")
        name = find_reader(head)
        if b"\0" in head and not name:
            raise FormatError(path, "not a model; it looks like a binary file of another program")
        name = name or ARPA  # its reader says what is missing
        if arpa and name == ARPA:
            return arpa(stream, path)
        return import_function(name)(stream, path, seen, *([home, linked] if name == ARPA else []))


def find_reader(head):
    r"""The reader of a model whose text begins with `head`: with a name in TEXT, or with ARPA's line \data\.

    Returns None if this is not the beginning of a model.
    """
    start = head.removeprefix(BOM).lstrip()
    return next((r for magic, r in TEXT.items() if start.startswith(magic)), ARPA if DATA.search(start) else None)


def load_translation(path):
    """Load the translation model in a file ("-": stdin). Raises FormatError."""
    with open_in(path) as stream:
        if not container.looks_binary(stream.peek(64)[:64]):
            raise FormatError(path, "not a translation model; lmtk nmt-train makes one")
        about, arrays = container.read(stream, path)
        if about["kind"] not in TRANSLATION:
            raise FormatError(path, f"expected a translation model, not a file of the kind {about['kind']}")
        return import_function(TRANSLATION[about["kind"]])(about, arrays, path)


def load_ensemble(paths):
    """Load the translation models in files, a list. Raises FormatError if they differ in words or subwords."""
    models = [load_translation(path) for path in paths]
    for path, model in zip(paths, models):
        for side, a, b in (("source", models[0].source, model.source), ("target", models[0].vocab, model.vocab)):
            if a.words != b.words or model.subwords != models[0].subwords:
                message = f"its {side} vocabulary is not that of {paths[0]}"
                raise FormatError(path, f"{message}; train all models on the same texts")
    return models


def not_a_model(kind):
    """The message for a binary file that is not a model."""
    program, _, stage = kind.partition("-")
    remedy = f"; lmtk {program}-train -finish writes the model of a checkpoint" if stage == "checkpoint" else ""
    return f"not a model but a file of the kind {kind}{remedy}"


def make_model(about, arrays, path):
    """Make the model, of any kind, from a binary file that `container.read` has read. Raises FormatError."""
    if about["kind"] not in MODELS:
        raise FormatError(path, not_a_model(about["kind"]))
    return import_function(MODELS[about["kind"]])(about, arrays, path)


def describe(path, shown=10):
    """Describe a file of any kind, for `lmtk info`: ([(name, value)], its words by id). Raises FormatError.

    shown: how many words of each class to show for a class file.
    """
    with open_in(path) as stream:
        head = stream.peek(1 << 16)
        if container.looks_binary(head):
            about, arrays = container.read(stream, path)
            if about["kind"] in MODELS:
                model = make_model(about, arrays, path)
                return rows_of(model), model.vocab.words
            if about["kind"] == "index":
                index = import_function(INDEX)(about, arrays, path)
                return list(index.describe()), index.words
            if not about["kind"].endswith("-checkpoint"):
                raise FormatError(path, f"a file of the kind {about['kind']}, which this version of lmtk does not know")
            declared.check_settings(about["settings"], declared.CHECKPOINT, path)
            # the options of its run, and how far it has come
            state = {name: about["settings"]["state"][name] for name in ("epoch", "step", "best_epoch", "curve")}
            options = container.settings_for_people(about["settings"]["run"] | state)
            return [("kind", about["kind"]), *options], declared.vocabulary(arrays, path)
        if head.startswith(b"SRILM_BINARY"):
            return [("kind", "SRILM's binary form, which only SRILM reads")], []
        if head.startswith(KENLM):
            model, kind = import_function(KENLM_READER)(stream, path)
            return [*model.describe(), ("file", f"KenLM's, {kind}")], model.vocab.words
        if head.startswith(OPENFST):
            return import_function(FST_HEADER)(stream, path)
        if describe_bytes := import_function(TOKENIZERS)(head):
            return describe_bytes(stream.read(), path), []
        if head.startswith(PARQUET):
            return [("kind", "parquet table; commands that have -field read a column of it")], []
        if JSONL.match(head):
            lines = sum(1 for _ in split_lines(decode_blocks(stream, path)))
            return [("kind", "JSON lines; commands that have -field read a field of them"), ("lines", lines)], []
        name = find_reader(head)
        if not name and b"\0" in head and not head.startswith(UTF16):
            return [("kind", "binary file of another program")], []
        if not name:
            blocks = warn_about_bytes(decode_blocks(stream, path), path)
            return texts.describe(split_lines(block for block in blocks if block.strip(b" \t\r\n")), shown)
        model = import_function(name)(stream, path, ())
    return rows_of(model), model.vocab.words


def rows_of(model):
    """[(name, value)] about a model."""
    digest = model.vocab.tokenizer
    return [*model.describe(), *([("tokenizer", f"SHA-256 {digest}")] if digest else [])]
