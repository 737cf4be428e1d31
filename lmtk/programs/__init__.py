"""The programs of SRILM, KenLM and Kaldi under their own names.

`srilm` and `kenlm` turn the command lines of the larger programs into command lines of lmtk, and `kaldi` those of
arpa2fst and kaldilm into a job. `lines` does the small jobs that go from lines to lines, `selection` chooses among
them, and `disambig` runs `lmtk.tagging`.
"""
