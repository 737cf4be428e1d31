"""N-gram language models, from text to scores.

`counting` turns texts, or files of counts, into the counts of all n-grams, in memory, on disk or shared by ranks.
`estimate` turns counts into probabilities and back-off weights by a smoothing method. The result is one kind of model,
`model.backoff.Backoff`: a vocabulary, and the n-grams as the nodes of a trie, with log10 in single precision. `model`
finds and scores n-grams in these nodes and keeps them in binary files; `arpa` reads and writes the text form. `edit`
makes a model from other models: pruned, merged, renormalized, or over another vocabulary. `classes` groups words for
class models, `generation` draws random sentences, and `mass` adds up probabilities.
"""
