"""Back-off models as finite-state transducers in OpenFst's forms, as Kaldi's arpa2fst and kaldilm make them.

`symbols` reads the numbers of words, the labels of arcs. `ngrams` gets the n-grams of an ARPA file in the order of its
lines, or those of a model in another form. `compiling` makes states and arcs of them, and removes states that have
only a back-off arc. `writing` writes the result in binary or text form.
"""
