"""ARPA files, the text form of back-off models.

`reader` reads a file forward only: small files line by line, large ones in blocks whose n-grams `rows` sorts into a
trie. `writer` writes SRILM's form. Large models are printed by the kernels of `printing`; with -memory, `sorting` sorts
the printed lines on disk. `kenlm_layout` writes KenLM's form, whose numbers `digits` prints with as few digits as
possible. `filtering` copies the lines of n-grams whose words are wanted, without building a model.
"""
