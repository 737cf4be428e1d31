"""N-best lists: rescoring, tuning and choosing.

`lists` reads the lists of SRILM and Moses, adds the scores of language models, sorts and writes them. `tuning` finds
the weights of the features that give the best BLEU, and `risk` chooses the translation with the least expected loss.
"""
