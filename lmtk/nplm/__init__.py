"""The neural probabilistic language model of Bengio et al. (2003), and the models that came after it.

`network` joins a hidden layer (`layers`) and an output (`outputs`, or `classes` and `tree`) and scores a text with
them; `model` holds what all networks have in common. The equations of the paper are in `kernels`, over arrays with the
paper's letters. `training` runs the epochs: `objectives` puts a layer, an output and a sample of words together, `sgd`
makes an update, `sampled` and `nce` choose the words that an output is trained on, and `pace` limits an update.
`recipes` are the settings that a command names. `energy` and `energy_sgd` are the energy-based variant of section 5.1,
`oov` gives vectors to words unseen in training, `senses` gives a word several vectors, and `features` explores them.
"""
