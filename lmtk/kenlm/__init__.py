"""KenLM's binary files, which C++ decoders map into memory.

`layout` has the parts that all of these files share: header, hashes of words, sizes. `reading` makes a model of a file;
probing tables stay as they are (`hashed`), a trie becomes a `Backoff`. `probing` and `trie` write files, with the bytes
of KenLM's own build_binary. `levels` puts the n-grams of a model in the order of a trie. The n-grams of an ARPA file
are passed on as they are read (`feeding`), to probing tables or, for a trie, to a sorter (`slices`).
"""
