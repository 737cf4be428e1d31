"""SRILM's disambig: its options become a DisambigJob, which `tagging.disambiguation` runs."""

import os
import sys

from lmtk.commands.spelling import Option, spelled
from lmtk.errors import UsageError
from lmtk.machine.threads import import_numpy

# option: (the values that follow it, its line in the help). The field of DisambigJob has the same name.
FILE, FLAG, NUMBER = Option("one"), Option(), Option("one", number=float)
OPTIONS = {
    "-help": (FLAG, "this list"),
    "-text": (FILE, "the text, one sentence per line"),
    "-map": (FILE, "each line has a word and its hidden words; p(word | hidden) can follow a hidden word"),
    "-classes": (
        FILE,
        "a map in the form of classes: a line has a hidden word, optionally p(word | hidden), and a word",
    ),
    "-text-map": (FILE, "text and map in one file: for each word of the text, a line as in -map"),
    "-lm": (FILE, "a back-off model of the hidden words (without it the map alone decides)"),
    "-order": (Option("one", number=int, low=1), "the order of -lm (default: 2)"),
    "-lmw": (NUMBER, "the weight of the log probabilities of -lm (default: 1)"),
    "-mapw": (NUMBER, "the weight of the log probabilities of the map (default: 1)"),
    "-logmap": (FLAG, "the map's numbers are log10 p"),
    "-scale": (FLAG, "the map's numbers are p(hidden | word)"),
    "-keep-unk": (FLAG, "print an unknown word as it is, not as <unk>"),
    "-tolower1": (FLAG, "convert the words of the text to lower case"),
    "-tolower2": (FLAG, "convert the hidden words to lower case"),
    "-no-eos": (FLAG, "do not add </s> at the end of a line"),
    "-continuous": (FLAG, "read the text as one sentence, without <s> and </s>; print a blank after each word"),
    "-escape": (FILE, "print lines that begin with this text unchanged"),
    "-nbest": (Option("one", number=int, low=1), "print this many best sequences of hidden words (default: 1)"),
    "-fb": (FLAG, "print the most likely hidden word at each position, by the forward-backward algorithm"),
    "-fwOnly": (FLAG, "like -fb, but use only the words up to each position"),
    "-posteriors": (FLAG, "print the probability of each hidden word at each position"),
    "-totals": (FLAG, "print log10 p of each sentence"),
    "-write-counts": (FILE, "write the counts of pairs of a word and its hidden word"),
    "-write-map": (FILE, "write the map as it was read"),
    "-write-vocab1": (FILE, "write the list of hidden words, as SRILM's -write-vocab1 does"),
    "-write-vocab2": (FILE, "write the list of words in the map"),
    "-debug": (NUMBER, "no effect; accepted for SRILM scripts"),
}


def disambig(words):
    """[OPTION ...]: print the most likely hidden words of a text."""
    words = ["-fwOnly" if w.lstrip("-").lower().replace("_", "-") in ("fwonly", "fw-only") else w for w in words]
    words = spelled(words, {name: option for name, (option, _) in OPTIONS.items()}, stray=True)
    values = {}
    while words:
        name = words.pop(0)
        option = OPTIONS[name][0]
        values[name] = (option.number or str)(words.pop(0)) if option.values == "one" else True
    if "-help" in values:
        width = max(map(len, OPTIONS))
        rows = [f"  {name:{width}}  {text}\n" for name, (_, text) in OPTIONS.items()]
        sys.stdout.write(f"usage: disambig -text FILE -map FILE [-lm FILE] [OPTION ...]\n\n{''.join(rows)}")
        return
    check(values)
    values.pop("-debug", None)
    import_numpy()
    from lmtk.tagging.disambiguation import DisambigJob, disambiguate

    fields = {name[1:].replace("-", "_").replace("fwOnly", "fw_only"): value for name, value in values.items()}
    disambiguate(DisambigJob(**fields))


def check(values):
    """Raises UsageError for conflicting options, and OSError for a missing file."""
    texts = [values.get(name) for name in ("-text", "-text-map")]
    inputs = [values.get(name) for name in ("-map", "-classes", "-lm")]
    read = [path for path in texts + inputs if path]
    written = [path for name, path in values.items() if name.startswith("-write-")]
    if not {"-map", "-classes", "-text-map"} & {*values}:
        raise UsageError("no map; give -map, -classes or -text-map")
    if not any(texts) and not written:
        raise UsageError("no text; disambig -text FILE -map FILE [-lm FILE] [OPTION ...]")
    if read.count("-") > 1:
        raise UsageError("only one input can be stdin (-)")
    for path in read:
        if path != "-":
            os.stat(path)
    if written:
        from lmtk.jobs.rules import check_outputs

        check_outputs(*written, texts=texts, inputs=inputs)
