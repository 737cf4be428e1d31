"""N-best lists.

`lists` reads and writes the lists of SRILM and Moses. `tuning` finds the weights of features that give the best BLEU,
and `risk` chooses the translation with the least expected loss.
"""
