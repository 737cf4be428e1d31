"""Word classes.

`induction` finds classes in a text, by exchange (Kneser and Ney 1993) or by merging (Brown et al. 1992); its inner
loops are in `kernels`. `files` reads and writes SRILM's class files and replaces words by classes. A model of classes
is estimated like any other; `lmtk.joint.classes` makes a model of words from it.
"""
