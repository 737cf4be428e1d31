"""Makes back-off models of other back-off models, whatever their size.

`renormalize` computes new back-off weights from the probabilities. `prune` removes n-grams, and `vocabulary` merges
models or changes their vocabulary, with the n-grams of several models put together by `union`. These work on the
records of `nodes`, in kernels that take contexts in storage order; threads share the contexts. An edit copies the
records, or takes them over with `may_reuse`, changes them in place, and returns a new model. Removing or adding
n-grams makes new records, whose suffixes `building.finish` finds again. The kernels compile when they are first used,
which takes 2 to 4 seconds even for a small model; afterwards they come from the cache. `closing` adds the suffixes of
n-grams that a model lacks. `kneser` prunes Kneser-Ney models with the counts of the text.
"""
