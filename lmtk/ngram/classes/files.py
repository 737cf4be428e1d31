"""Reads and writes files of word classes in SRILM's format, and replaces the words of a vocabulary by their classes.

They are a dictionary: word -> (the name of its class, p(word | class)). Classes are in the order of their first words.
"""

import warnings

import numpy as np

from lmtk.errors import FormatError, LmtkError, LmtkWarning, counted, name_of, shown
from lmtk.files.decoding import WORD, lines
from lmtk.text.vocab import EOS, SOS, UNK


def read_classes(path, scaled=True, rows=None):
    """The classes of a file of SRILM's, "CLASS P WORD" lines. Without P the words of a class are equally likely.
    Probabilities that do not sum to one are scaled, with one warning; with scaled=False they stay as they are. rows:
    the file's `decoding.lines`, if they were read before. Raises FormatError, for instance if a word is in two classes.
    """
    names, members, stated = {}, {}, {}  # members: word -> (the number of its class, p, the line)
    for number, line in lines(path) if rows is None else rows:
        fields = WORD.findall(line)
        if not fields:
            continue
        p = probability(fields[1]) if len(fields) == 3 else 1.0 if len(fields) == 2 else None
        if p is None:
            what_is_wrong = f"'{shown(fields[1])}' is not a probability: " if len(fields) == 3 else ""
            expected = f"{what_is_wrong}expected a class, a probability and one word"
            raise FormatError(path, f"{expected}, found '{shown(line)[:60]}'", number)
        name, word = fields[0], fields[-1]
        if word in members:
            problem = f"{shown(word)} already has a class in line {members[word][2]}; a word can be in one class only"
            raise FormatError(path, problem, number)
        if {name, word} & {SOS, EOS} or name == UNK:
            problem = "<s> and </s> cannot be in a class, and a class cannot be called <s>, </s> or <unk>"
            raise FormatError(path, problem, number)
        if stated.setdefault(name, len(fields)) != len(fields):
            raise FormatError(path, "a class must give the probabilities of all its words or of none", number)
        members[word] = names.setdefault(name, len(names)), p, number
    if not members:
        raise FormatError(path, "no classes in it")
    uniform = np.array([fields == 2 for fields in stated.values()])
    wordless = (number for w, (c, _, number) in members.items() if uniform[c] and probability(w) is not None)
    if not uniform.all() and (first := next(wordless, None)):
        raise FormatError(path, "a class and a probability, but no word", first)
    if both := next((name for name in names if name in members), None):
        raise FormatError(path, f"{shown(both)} is both a class and a word; rename the class", members[both][2])
    name_of_class, (of_word, p, _) = list(names), zip(*members.values())
    sums = np.bincount(of_word, p)
    if len(empty := np.flatnonzero(sums == 0)):
        raise FormatError(path, f"all words of the class {shown(name_of_class[empty[0]])} have probability 0")
    off = (np.abs(sums - 1) > 1e-4) & ~uniform & scaled
    sums[~uniform & (not scaled)] = 1
    if off.any():
        worst = sums[np.where(off, np.abs(sums - 1), 0).argmax()]
        many = counted(off.sum(), "class", "classes")
        problem = f"the probabilities of {many} do not sum to one; the worst sum is {worst:.7g}"
        warnings.warn(f"{name_of(path)}: {problem}; they are scaled to sum to one", LmtkWarning, stacklevel=2)
    return {word: (name_of_class[c], p / sums[c]) for word, (c, p, _) in members.items()}


def class_names(classes):
    """The names of the classes, in their order."""
    return list(dict.fromkeys(name for name, _ in classes.values()))


def probability(text):
    """The number in `text` if it is from 0 to 1, else None."""
    try:
        p = float(text)
    except ValueError:
        return None
    return p if 0 <= p <= 1 + 1e-9 and b"_" not in text else None


def write_classes(out, classes):
    """Write a class file in SRILM's format, class by class; words by falling probability, then by bytes."""
    place = {name: i for i, name in enumerate(class_names(classes))}
    for word, (name, p) in sorted(classes.items(), key=lambda item: (place[item[1][0]], -item[1][1], item[0])):
        out.write(b"%s %.10g %s\n" % (name, p, word))


def replaced(words, classes):
    """Words with classes in their place: (the new words, the new id of each old word (W,)). The new words are the first
    three, <s>, </s> and <unk>, even if <unk> is in a class; then all classes; then the words without a class. Raises
    LmtkError if a class has the name of a word without a class.
    """
    names, rest = class_names(classes), [w for w in words[3:] if w not in classes]
    new = [*words[:3], *names, *rest]
    index = {w: i for i, w in enumerate(new)}
    if len(index) < len(new):
        both = next(name for name in names if new.count(name) > 1)
        raise LmtkError(f"{shown(both)} is both a word and a class; rename the class")
    return new, np.array([index[classes.get(w, (w,))[0]] for w in words], np.int32)
