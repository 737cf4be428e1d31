"""ARPA files, the text form of back-off models.

`reader` reads a file forward only: small files line by line, large ones in blocks whose n-grams `rows` sorts into a
trie. `writer` writes SRILM's form, `kenlm_layout` KenLM's with as few digits as possible. Large models are printed by
the kernels of `printing`, which sorts their n-grams first with -memory and for KenLM's order.
`filtering` copies the lines of n-grams whose words are wanted, without building a model.
"""
