"""Neural translation by Bahdanau et al. (2015): RNNencdec and RNNsearch.

`network` is the model: an encoder, an alignment model and a decoder. The equations of appendix A are in `kernels`.
`training` runs the epochs with the settings of `recipes`. `beam` translates by beam search, and `scoring` computes the
probabilities of given translations. `alignment` writes the attention weights as text, as pictures or as a page.
"""
