"""The jobs of lmtk, for commands and for Python alike.

A job is a frozen record. Its fields have the names of the command's options, with "_" for "-", and the same defaults.
It is checked where it is built: a table of rules stands beside the fields, and `rules.check` reads the table. One
function runs the job: it opens files, calls the layers below, writes the outputs that the record names, and returns
what it has made. A command makes the record from its options. `lmtk.functions` makes it from a function's arguments.
"""
