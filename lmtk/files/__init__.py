"""Reading and writing files.

`streams` opens every input and output: `-`, compressed files, pipes, blocks of bounded size, and outputs that appear
whole or not at all. `registry` looks at the first bytes of a model file and calls the reader of its kind; `texts` names
the kind of a text file that does not name itself. Binary files are safetensors, written and read by `container`, with
the checksums of `sums`, which are computed while other work goes on. `declared` checks the settings and arrays of a
binary file against what its kind declares. `column` keeps arrays that grow, on disk if memory is short. `figure` draws
pictures with matplotlib, and `curve` keeps and draws the course of a training.
"""
