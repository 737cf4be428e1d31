"""Neural translation by Bahdanau et al. (2015): RNNencdec and RNNsearch.

`network` is the model: an encoder, an alignment model and a decoder, whose recurrent units are in `lmtk.units`. The
equations of appendix A are in `kernels`. `training` turns a bitext into a model, with the settings of `recipes`. `beam`
translates sentences by beam search. `scoring` computes the probabilities of given translations. `alignment` writes the
attention weights as text, as pictures or as an HTML page.
"""
