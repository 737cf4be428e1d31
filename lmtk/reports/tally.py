"""The sums of a text in the form that SRILM prints."""

import os

import numpy as np


class Tally:
    """The sums of a part of a text. log10p leaves out OOVs and zeroprobs, as both denominators do."""

    def __init__(self, sentences=0, words=0, oovs=0, zeroprobs=0, log10p=0.0):
        self.sentences, self.words, self.oovs, self.zeroprobs, self.log10p = sentences, words, oovs, zeroprobs, log10p

    def add(self, other):
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    @property
    def ppl(self):
        """The perplexity over all predictions, as SRILM prints it."""
        return perplexity(self.log10p, self.words - self.oovs - self.zeroprobs + self.sentences)

    def lines(self, head=""):
        """SRILM's two lines: ppl over all predictions, ppl1 leaving out the sentence ends.

        ppl = 10^(-log10p / (words - OOVs - zeroprobs + sentences)).
        """
        text = f"{head}{self.sentences:.16g} sentences, {self.words:.16g} words, {self.oovs:.16g} OOVs\n"
        if self.words + self.sentences:
            ppl1 = perplexity(self.log10p, self.words - self.oovs - self.zeroprobs)
            text += f"{self.zeroprobs:.16g} zeroprobs, logprob= {self.log10p:.7g} ppl= {self.ppl} ppl1= {ppl1}\n"
        return os.fsencode(text)


def added(total, numbers):
    """Add the numbers (N,) to the total one after another, so that the sum does not depend on how they are divided."""
    return float(np.add.accumulate(np.concatenate(([total], numbers)))[-1])


def perplexity(log10p, count):
    """10^(-log10p / count) in SRILM's format; "undefined" if nothing was predicted."""
    if count <= 0:
        return "undefined"
    exponent = -log10p / count
    return f"{10**exponent:.7g}" if exponent < 308 else "inf"
