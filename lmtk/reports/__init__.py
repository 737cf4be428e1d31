"""From scores to the reports of other programs, byte for byte.

`srilm` writes SRILM's report of a text at each level of -debug; `tally` holds its sums. `kenlm` scores a model as KenLM
does, in single precision, and writes the report of its `query`. `lines` prints the lines of single words in the reports
of large texts, by kernels. `following` is not a report: it gives the states and scores with which a text continues word
by word, for lists of next words, random sentences and decoders.
"""
