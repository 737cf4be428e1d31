"""KenLM's binary files, which C++ decoders map into memory.

`layout` has the parts that all of these files share: header, hashes of words, sizes. `levels` puts the n-grams of a
model in the order of a trie. `reading` makes a model of a file; probing tables stay as they are (`hashed`), a trie
becomes a `Backoff`. `trie` and `probing` write files. The bytes are those of KenLM's own build_binary.
"""
