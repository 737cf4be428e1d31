"""The command line of SRILM's disambig: options -> a DisambigJob, which `tagging.disambiguation` runs."""

import os
import sys

from lmtk.commands.spelling import Option, spelled
from lmtk.errors import UsageError
from lmtk.machine.threads import import_numpy

# option -> what may stand behind it, and what -help says of it; a field of DisambigJob has the same name
FILE, FLAG, NUMBER = Option("one"), Option(), Option("one", number=float)
OPTIONS = {
    "-help": (FLAG, "this list"),
    "-text": (FILE, "the text, a sentence a line"),
    "-map": (FILE, "what words may stand for: lines of a word and hidden words, each with p(word | hidden) or 1"),
    "-classes": (FILE, "the same as classes: lines of a hidden word, p(word | hidden) or nothing, and a word"),
    "-text-map": (FILE, "text and map in one: a line as those of -map for each word of the text"),
    "-lm": (FILE, "a back-off model of the hidden words; none: the map alone decides"),
    "-order": (Option("one", number=int, low=1), "how long its n-grams may be (2)"),
    "-lmw": (NUMBER, "the weight of its log probabilities (1)"),
    "-mapw": (NUMBER, "the weight of those of the map (1)"),
    "-logmap": (FLAG, "the map's numbers are log10 p"),
    "-scale": (FLAG, "the map's numbers are p(hidden | word)"),
    "-keep-unk": (FLAG, "a word that stands for <unk> stays as it is"),
    "-tolower1": (FLAG, "words of the text in lower case"),
    "-tolower2": (FLAG, "hidden words in lower case"),
    "-no-eos": (FLAG, "no </s> behind a line"),
    "-continuous": (FLAG, "the whole text as one sentence without <s> and </s>, a blank behind each word"),
    "-escape": (FILE, "lines that begin so are printed as they are"),
    "-nbest": (Option("one", number=int, low=1), "how many best paths are printed (1)"),
    "-fb": (FLAG, "the most likely hidden word at each place, by the forward-backward algorithm"),
    "-fwOnly": (FLAG, "the same by the words up to the place"),
    "-posteriors": (FLAG, "what each hidden word has of the probability"),
    "-totals": (FLAG, "log10 of the probability of each sentence"),
    "-write-counts": (FILE, "how often each word stood for which hidden word"),
    "-write-map": (FILE, "the map as it was understood"),
    "-write-vocab1": (FILE, "the hidden words, as SRILM has it"),
    "-write-vocab2": (FILE, "the words of the map"),
    "-debug": (NUMBER, "taken without an effect"),
}


def disambig(words):
    """[OPTION ...]: the hidden words behind those of a text."""
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
    """Raises UsageError for options that do not make sense together, OSError for a file that is missing."""
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
