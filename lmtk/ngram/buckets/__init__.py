"""A large text's model in buckets, each sorted and estimated alone by the engine in memory: in little memory, where
they are kept in a file, or by several ranks, each of which owns some.

symbol  shape    meaning
N n W   -        positions, the highest order, ids of the text as in `suffix`: 0, the border, and words
bucket  -        a range of words, and the positions q whose word x[q] is in it; the first has the border alone. Rank r
                 of P has every P-th from r on: frequent words and rare ones
record  (n + 1,) x[q - n + 1] .. x[q + 1], int32
context -        an n-gram that ends in x[q]: sorted with it, as in `suffix`; its weight, its words and its line are
                 made in this bucket
event   -        one that ends in x[q + 1], with a context in the bucket: its probability is made here

For an event of order k > 2 all that the probability is made of is in the bucket too: those of its context; its counts,
as what stands before it stands before the same x[q]; and the event without its oldest word. So buckets have only sums
in common (the words, the bigrams that end in each, the counts of counts), until the probabilities go, once, each from
the bucket of its n-gram's context to that of its last word. They need no keys: what goes from bucket c to d is, on
both sides, in suffix order.

Few ranks get the whole text, 4 bytes a position, and make the records of a bucket when it is sorted; where memory is
bounded, or the records of a rank's buckets are fewer bytes, these go to it.

To the engine a bucket is one Suffixes: the places of the events come first, those of the contexts from the next
multiple of 64 on.
"""
