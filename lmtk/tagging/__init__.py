"""Sequence tagging by an n-gram model: the most likely tags behind the words of a text.

A source (`mapping`, for SRILM's disambig) says which tags each word may have, and with what probability. `candidates`
looks these tags up in a back-off model, lays them out in arrays, and cuts the text into sentences of positions.
`trellis` makes the states of each position, which are contexts of the model, and finds the N best paths through them
(Viterbi) or the probability of each tag (forward-backward). `hashing` lists states and tags in the order of SRILM's
hash tables, so that ties and last digits are SRILM's. `disambiguation` runs a whole job, from its options to the
printed lines.
"""
