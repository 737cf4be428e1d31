"""From counts to a back-off model, by a smoothing method.

`methods` has one entry for each smoothing method: its counts, its discounts and how it spreads the left-over
probability mass. `estimation` picks one of two ways. Small jobs, and a few special ones, go through `smoothing`, which
is numpy alone. Large jobs put n-grams in suffix order, from a text (`suffix`) or from counts (`leaves`), and go through
the kernels of `engine`. With -memory or several ranks, `buckets` runs the engine on one range of words after another.
`growing` finds the n-grams of a text that pruning may keep. `heldout` tunes discounts on held-out text, `maxent`
trains the same model by maximum entropy, and `interp` is deleted interpolation, which is a model of its own.
"""
