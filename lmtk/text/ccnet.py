"""CCNet's normalization of documents (Wenzek et al. 2020, "CCNet", section 3), in the form that datatrove applies.

Lower case, numbers to 0, no accents, Unicode's punctuation to ASCII's, no control characters. A line end is a control
character too, so that the words on both sides of it become one word.
"""

import re
import unicodedata

# a number may have one separator inside, so that 3.14 is one 0, and 1.2.3 becomes 0.0
NUMBER = re.compile(r"\d+(?:[.,\u060c\u066b\u2396\u2397\u2398]\d+)?")
PUNCTUATION = {
    '"': "„“”«»「」《》",
    "'": "´’",
    ",": "，、",
    ".": "。",
    ":": "∶：",
    "?": "？",
    "!": "！",
    ";": "；",
    "(": "（",
    ")": "）",
    "[": "【",
    "]": "】",
    "<": "〈",
    ">": "〉",
    "%": "％",
    "-": "–━►",
    "~": "～",
    " - ": "—",
    ". ": "．",
    "...": "…",
}
CONTROLS = [*range(32), *range(127, 160)]
TABLE = {ord(mark): ascii_mark for ascii_mark, marks in PUNCTUATION.items() for mark in marks}
TABLE |= dict.fromkeys(CONTROLS)


def normalize(text):
    """The normalized text, a string. The words between blanks do not depend on each other, so that a text may be
    normalized word by word. Blanks at the ends of a text stay.
    """
    text = NUMBER.sub("0", text.lower())
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
    return text.translate(TABLE)
