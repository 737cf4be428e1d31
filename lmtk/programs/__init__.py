"""The programs of SRILM and KenLM under their own names.

`srilm` and `kenlm` turn the command lines of the larger programs into command lines of lmtk. `lines` does the small
jobs that go from lines to lines, `selection` chooses among them, and `disambig` runs `lmtk.tagging`.
"""
