"""From texts and files of counts to the counts of n-grams.

`collection` reads the texts in blocks of bounded size and numbers their words. `counts` holds the counts of each order,
sorted by context, and reads and writes files of counts; its loops are in `kernels`. With -memory, `runs` sorts the
counts of one block after another, keeps them on disk and merges them. A model alone does not need counts: `collection`
then passes on the ids of the text, with -mpi those of a part of it on each rank.
"""
