"""The files that a back-off model is written to."""

import contextlib
from dataclasses import dataclass

from lmtk.jobs.kenlm_files import write_kenlm


@dataclass(frozen=True)
class ModelFiles:
    """The files of a Backoff, and their forms.

    arpa, binary, kenlm: the file in ARPA format, in lmtk's binary form, in KenLM's; None: not wanted.
    layout: of ARPA, "srilm" or "kenlm". header: what the ARPA file begins with. sort: whether n-grams are sorted in
    byte order in SRILM's layout. kenlm_type: "probing" or "trie". compact, quantize: as for `compact.write_binary`, and
    for a trie. closed: add the suffixes of n-grams that the model lacks. name: what messages call the model.
    """

    arpa: str | None = None
    binary: str | None = None
    kenlm: str | None = None
    layout: str = "srilm"
    header: bytes = b""
    sort: bool = True
    kenlm_type: str = "probing"
    compact: bool = False
    quantize: int | None = None
    closed: bool = False
    name: str = "the model"

    @property
    def paths(self):
        """{field: path} of the files that are wanted."""
        paths = {"arpa": self.arpa, "binary": self.binary, "kenlm": self.kenlm}
        return {field: path for field, path in paths.items() if path}

    def others(self, field):
        """The fields of the files that are wanted in addition to this one."""
        return self.paths.keys() - {field}

    @property
    def form(self):
        """The `kenlm.layout.Form` of KenLM's file."""
        from lmtk.kenlm.layout import Form

        bits = self.quantize or 0
        return Form(self.kenlm_type, bits, bits, 255 if self.compact else None)


def write_files(model, files, may_reuse=False, opened=None):
    """Writes a Backoff to ModelFiles. Returns the model as it is written. may_reuse: whether the memory of the model
    may be overwritten in the end. opened: the open file of `files.binary`, or None.
    """
    from lmtk.files.outputs import open_out
    from lmtk.ngram.arpa import kenlm_layout, writer
    from lmtk.ngram.model import compact

    if files.closed:
        from lmtk.ngram.edit.closing import close

        model = close(model)
    if files.binary:
        with contextlib.nullcontext(opened) if opened else open_out(files.binary) as out:
            compact.write_binary(out, model, files.compact, files.quantize or 0)
    if files.kenlm:
        write_kenlm(model, files.kenlm, files.form, files.name)
    if files.arpa:  # the last, since it may reuse the model's memory
        with open_out(files.arpa) as out:
            out.write(files.header)
            if files.layout == "kenlm":
                kenlm_layout.write_text(out, model)
            else:
                writer.write_text(out, model, files.sort, may_reuse)
    return model
