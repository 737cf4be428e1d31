"""Text to text, as Bengio et al. 2003 (section 4) did it for AP News: lower case, symbols for numbers and proper nouns.

Only words change: blanks, line ends and bytes that are not UTF-8 stay as they are.
"""

import re

from lmtk.text.vocab import lower

OPENING = rb"[(\[{\"'`<]*"
CLOSING = rb"[)\]}\"'`>.,;:!?]*"
# sign or currency, digits in groups joined by . , : / or -, then an ordinal, plural, percent or unit-less ending
NUMBER = rb"[-+]?(?:[$]|\xc2\xa3|\xe2\x82\xac)?(?:[0-9]+(?:[.,:/-][0-9]+)*|\.[0-9]+)(?:st|nd|rd|th|'?s|%)?"
NUMERIC = re.compile(rb"(?<![^ \t\r\n])(%s)%s(?=%s(?![^ \t\r\n]))" % (OPENING, NUMBER, CLOSING), re.IGNORECASE)
WORD = re.compile(r"[^ \t\r\n]+")
ENDS_SENTENCE = re.compile(r"[.!?][)\]}\"'`]*$")
ONLY_MARKS = re.compile(r"\W+$")
CORE = re.compile(r"(\W*)(.*?)((?:['’]s?)?\W*)$", re.DOTALL)


def numbers(text):
    """Numeric forms (1,234.5 -45 3rd 1960s 12:30 50%) to <num>; the punctuation around them stays."""
    return NUMERIC.sub(rb"\1<num>", text)


def proper_nouns(text, names=None):
    """A capitalised word inside a sentence to <name>, or any word of `names` (a set of bytes) wherever it stands.

    A sentence starts with a line and after . ! or ?; the pronoun I is none.
    """
    out = []
    for line in text.decode("utf-8", "surrogateescape").split("\n"):
        inside = False

        def replace(match):
            nonlocal inside
            word = match[0]
            before, core, after = CORE.match(word).groups()
            if word[0] + word[-1] == "<>":
                name = False  # a symbol already
            elif names is not None:
                name = core.encode("utf-8", "surrogateescape") in names
            else:
                name = inside and core[:1].isupper() and re.split("['’]", core)[0] != "I"
            if ENDS_SENTENCE.search(word):
                inside = False
            elif not ONLY_MARKS.match(word):
                inside = True
            return f"{before}<name>{after}" if name else word

        out.append(WORD.sub(replace, line))
    return "\n".join(out).encode("utf-8", "surrogateescape")


def normalize(text, tolower=False, to_num=False, proper=False, names=None):
    """Whole lines of text, normalized: proper nouns first, since they are known by their capital letter."""
    if proper:
        text = proper_nouns(text)
    if names is not None:
        text = proper_nouns(text, names)
    if to_num:
        text = numbers(text)
    return lower(text) if tolower else text
