"""First bytes -> reader."""

import importlib

from lmtk.errors import FormatError
from lmtk.files import container
from lmtk.files.streams import BOM, open_in

TEXT = {b"\\interp\\": "lmtk.ngram.interp:read_text", b"\\mixture\\": "lmtk.mixture:read_text"}
ARPA = "lmtk.ngram.arpa:read_text"
BINARY = {"nplm": "lmtk.nplm.network:from_arrays", "interp": "lmtk.ngram.interp:from_arrays"}


def function(name):
    """The function "module:name", imported when it is needed."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def load(path, seen=()):
    """The model in a file ("-": stdin), whatever its kind, told by its content. Raises FormatError.

    seen: the mixtures on whose behalf it is read, so that one that names itself is found out.
    """
    with open_in(path) as stream:
        head = stream.peek(64)[:64]
        if not head:
            raise FormatError(path, "the file is empty; a model was wanted")
        if container.looks_binary(head):
            about, arrays = container.read(stream, path)
            if about["kind"] not in BINARY:
                raise FormatError(path, f"a file of kind {about['kind']}, not a model")
            return function(BINARY[about["kind"]])(about, arrays, path)
        head = head.removeprefix(BOM).lstrip()
        name = next((r for magic, r in TEXT.items() if head.startswith(magic)), ARPA)
        return function(name)(stream, path, seen)
