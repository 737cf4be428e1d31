"""Texts to sentences of word ids.

`corpus` finds the tokens of a text, looks up their ids and adds the sentence marks `<s>` and `</s>`. Its loops over
large texts are in `kernels`. `vocab` is the list of words, with the predicted words first, and reads word lists.
`bitext` reads two texts whose lines are translations of each other, `subwords` splits words into pieces by byte pair
encoding, and `items` reads sentences with columns and finds the places of their words. `normalize` changes a text
before training: lower case, numbers, proper nouns, and so on. `index` counts phrases of any length in a corpus by a
suffix array, with the kernels of `searching`. `sorting` sorts positions and n-grams by their words. `cells` prints
words and numbers, for kernels that write many lines.
"""
