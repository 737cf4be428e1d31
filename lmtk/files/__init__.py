"""Reading and writing files.

`inputs` opens every input: `-`, pipes and compressed files. `decoding` turns texts into blocks of bounded size and into
lines. `outputs` opens every output: a file appears complete or not at all, and the suffix chooses the compression.

`registry` looks at the first bytes of a model file and calls the reader of its kind; `texts` finds the kind of a text
file whose format does not name itself. Binary files are safetensors, written and read by `container`; `words` has the
words of such a file, and `declared` checks settings and arrays against the declaration of their kind. `bounded` keeps
large arrays in temporary files when memory is bounded (-memory), and `column` holds growing arrays. `figure` draws
pictures with matplotlib; `curve` stores and draws the course of a training run.
"""
