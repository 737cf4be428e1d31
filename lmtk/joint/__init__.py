"""Models made of other models, of any kind, or of several texts.

`mixture` mixes models with fixed weights, and `dynamic` with weights that depend on the words before. `classes` scores
words by a model of classes and the probabilities of words in their classes; `expansions` does so for classes that stand
for several words. `shortlist` asks a network for the frequent words and a back-off model for the others. `multiwords`
takes words apart at a letter, and `zeros` replaces probabilities of zero. `loglinear` makes one back-off model of the
normalized product of several, and `sources` estimates one from the weighted counts of several texts.
"""
