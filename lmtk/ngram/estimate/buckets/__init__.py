"""A large text's model in buckets; the engine sorts and estimates each bucket by itself. With bounded memory the
buckets are kept in a file; with several ranks, each rank owns some of them.

symbol  shape    meaning
N n W   -        positions, the highest order, ids of the text as in `suffix`: 0, the border, and words
bucket  -        a range of words, and the positions q whose word x[q] is in it; the first has only the border. Rank r
                 of P has every P-th bucket from r on, so that each rank has frequent words and rare ones
record  (n + 1,) x[q - n + 1] .. x[q + 1], int32
context -        an n-gram that ends in x[q]. Its weight, its words and its line are made in this bucket
event   -        an n-gram that ends in x[q + 1]; its context is in the bucket. Its probability is made here

A bucket has all that determines the probability of an event of order k > 2: the other events of its context; its
counts, since the words that precede it precede the same x[q]; and the event without its oldest word. So buckets share
only sums: those of words, of the bigrams that end in each word, and of counts of counts. At the end, each probability
goes once from the bucket of its n-gram's context to that of its last word. This needs no keys, since the n-grams that
go from one bucket to another are in suffix order in both.

To the engine, a bucket is one Suffixes: the places of events, and behind them those of contexts.
"""
