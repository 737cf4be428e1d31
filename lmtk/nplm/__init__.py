"""The neural probabilistic language model of Bengio et al. (2003), and the models that came after it.

`network` joins a hidden layer (`layers`) and an output layer (`outputs`, `classes`, `tree` or `energy`) and scores a
text; `model` holds the code that output layers share. The equations of the paper are in `kernels`, over arrays with the
paper's letters.

`training` runs the epochs with the settings of `recipes`. For each minibatch, `objectives` chooses how the output layer
learns, `sgd` makes the update, `sampled` and `nce` train the output layer on words that they draw, `pace` limits the
learning rates, and `dropout` draws what is set to 0. `single` makes updates of one example, as the paper does.
`running` arranges a text for gru and lstm, which carry their state. `asynchronous` shares parameters among ranks.

`energy` and `energy_sgd` are the energy-based network of section 5.1. `oov` gives vectors to words unseen in training,
`senses` gives a word several vectors, and `features` compares, writes and draws the vectors. `cooccurrence` computes
vectors from a text without a network. `adaptive` adapts a trained network to the text that it scores.
"""
