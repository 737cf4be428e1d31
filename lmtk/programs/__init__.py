"""The programs of SRILM, KenLM and Kaldi under their own names.

`srilm` and `kenlm` turn the command lines of the larger programs into command lines of lmtk. `kaldi` turns those of
arpa2fst and kaldilm into a job, and `disambig` those of SRILM's disambig. `scripts` and `selection` have SRILM's small
programs, which work on lines of text. `arpa` reads and filters ARPA files as lines.
"""
