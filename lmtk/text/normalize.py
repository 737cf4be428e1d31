"""Normalizes a text as Bengio et al. 2003 (section 4) did AP News: lower case, symbols for numbers and proper nouns. It
also splits punctuation off words.

Only words change: blanks, line ends and bytes that are not UTF-8 stay as they are.
"""

import re
import unicodedata
from functools import lru_cache
from itertools import groupby

from lmtk.text.vocab import lower

OPENING = rb"[(\[{\"'`<]*"
CLOSING = rb"[)\]}\"'`>.,;:!?]*"
# sign, currency, digits in groups joined by . , : / or -, then the ending of an ordinal or a plural, a % or nothing
NUMBER = rb"[-+]?(?:[$]|\xc2\xa3|\xe2\x82\xac)?(?:[0-9]+(?:[.,:/-][0-9]+)*|\.[0-9]+)(?:st|nd|rd|th|'?s|%)?"
NUMERIC = re.compile(rb"(?<![^ \t\r\n])(%s)%s(?=%s(?![^ \t\r\n]))" % (OPENING, NUMBER, CLOSING), re.IGNORECASE)
WORD = re.compile(r"[^ \t\r\n]+")
ENDS_SENTENCE = re.compile(r"[.!?][)\]}\"'`]*$")
ONLY_MARKS = re.compile(r"\W+$")
BEFORE = re.compile(r"\W*")
AFTER = re.compile(r"\W*(?:s['’])?")  # in a word that is read from its end
MARKS = 3  # the most marks at an end of a name in a list
# marks that stay inside a word: between letters or digits, or between digits alone
INSIDE, INSIDE_NUMBERS = frozenset("'’-‐‑_@.·׳״"), frozenset(",:/٫٬")
SYMBOL = re.compile(r"(</?\w+>)")
# two or more points, each after one or two letters, and at least one after a single letter: U.S. Ph.D. e.g.
ABBREVIATION = re.compile(r"(?=(?:[^\W\d_]{2}\.)*[^\W\d_]\.)(?:[^\W\d_]{1,2}\.){2,}")


def replace_numbers(text):
    """Replace numbers (1,234.5 -45 3rd 1960s 12:30 50%) by <num>; the punctuation around them stays."""
    return NUMERIC.sub(rb"\1<num>", text)


def replace_proper_nouns(text, names=None):
    """Replace proper nouns by <name>: the words `names`, a set of bytes, or, if it is None, capitalized words inside a
    sentence. A sentence starts with a line and after . ! or ?. The pronoun I is not a proper noun.
    """
    out = []
    for line in text.decode("utf-8", "surrogateescape").split("\n"):
        inside = False

        def replace(match):
            nonlocal inside
            word = match[0]
            before, core, after = split_marks(word)
            if word[0] + word[-1] == "<>":
                is_name = False  # it is a symbol already
            elif names is not None:
                before, is_name, after = find_name(before, core, after, names)
            else:
                is_name = inside and core[:1].isupper() and re.split("['’]", core)[0] != "I"
            if ENDS_SENTENCE.search(word):
                inside = False
            elif not ONLY_MARKS.match(word):
                inside = True
            return f"{before}<name>{after}" if is_name else word

        out.append(WORD.sub(replace, line))
    return "\n".join(out).encode("utf-8", "surrogateescape")


def split_marks(word):
    """(the marks before the core of a word, the core, the marks after the core, with a possessive 's)."""
    begin = BEFORE.match(word).end()
    end = len(word) - AFTER.match(word[begin:][::-1]).end()
    return word[:begin], word[begin:end], word[end:]


def find_name(before, core, after, names):
    """(what stands before the name in a word, whether the word has a name of the set `names`, what stands after it).

    before, after: the marks around the core of the word. A name may have some of them at its ends, as U.S. has.
    """
    for i in range(max(0, len(before) - MARKS), len(before) + 1):
        for j in range(min(len(after), MARKS), -1, -1):
            if (before[i:] + core + after[:j]).encode("utf-8", "surrogateescape") in names:
                return before[:i], True, after[j:]
    return before, False, after


def separate_tokens(text):
    """Put blanks between words and the punctuation and symbols (Unicode categories P and S) that touch them.

    These marks stay inside a word: ' - _ @ . and Hebrew's geresh and gershayim between letters or digits; , : / and
    Arabic's separators between digits; the points of an abbreviation (U.S.). A repeated mark (...) is one token; <num>
    and the like stay whole.
    """
    words = text.decode("utf-8", "surrogateescape")
    return WORD.sub(lambda match: split_word(match[0]), words).encode("utf-8", "surrogateescape")


@lru_cache(1 << 16)
def split_word(word):
    """Split a word into its tokens, with blanks between them."""
    if word.isalnum():
        return word
    return " ".join(token for part in SYMBOL.split(word) for token in ([part] if SYMBOL.match(part) else pieces(part)))


def pieces(part):
    """Yield the tokens of a word without symbols such as <num>."""
    abbreviation = ABBREVIATION.match(part)
    whole = abbreviation.end() if abbreviation else 0
    # for each character: itself if it is a mark to split off, "" if it belongs to the word
    marks = [
        "" if i < whole or not is_mark(c) or stays(c, part[i - 1 : i], part[i + 1 : i + 2]) else c
        for i, c in enumerate(part)
    ]
    at = 0
    for _, run in groupby(marks):
        length = len(list(run))
        yield part[at : at + length]
        at += length


def is_mark(c):
    return unicodedata.category(c)[0] in "PS"


def stays(mark, before, after):
    """Whether a mark between two characters ("": none) is part of the word."""
    if not before or not after or is_mark(before) or is_mark(after):
        return False
    return mark in INSIDE or (mark in INSIDE_NUMBERS and before.isdigit() and after.isdigit())


def normalize(text, tolower=False, to_num=False, proper=False, names=None, tokenize=False):
    """Normalize whole lines of text. names: a set of bytes, or None.

    Proper nouns are replaced first, since lower case would hide them. Numbers are replaced before `separate_tokens`
    splits their signs off.
    """
    if proper:
        text = replace_proper_nouns(text)
    if names is not None:
        text = replace_proper_nouns(text, names)
    if to_num:
        text = replace_numbers(text)
    if tokenize:
        text = separate_tokens(text)
    return lower(text) if tolower else text
