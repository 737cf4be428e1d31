"""The words of a binary file or of a large text, which are taken apart only if they are needed."""

from collections.abc import Sequence
from functools import cached_property

GAPS = b"\n\n", b" ", b"\t", b"\r"  # what is in the lines of words if a word is empty, or has a blank in it


class Words(Sequence):
    """Words, bytes. Many jobs look up words in `text` alone; the list is made when a job needs it.

    text: the words, each with a line's end after it.
    """

    def __init__(self, text):
        self.text = text

    @classmethod
    def join(cls, words):
        """The Words of a list, or Words as they are."""
        return words if isinstance(words, cls) else cls(b"\n".join([*words, b""]))

    @cached_property
    def items(self):
        return self.text.split(b"\n")[:-1]

    @cached_property
    def size(self):
        return self.text.count(b"\n")

    @cached_property
    def gaps(self):
        """Those of GAPS that the words have. No text has such words."""
        text = b"\n" + self.text
        return {gap for gap in GAPS if gap in text}

    def __len__(self):
        return self.size

    def __getitem__(self, place):
        return self.items[place]

    def __iter__(self):
        return iter(self.items)

    def __eq__(self, other):
        return self.text == other.text if isinstance(other, Words) else self.items == other

    __hash__ = None

    def __contains__(self, word):
        return self.find(word) >= 0

    def index(self, word):
        """The place of a word in the list. Raises ValueError if the list does not have it."""
        if (at := self.find(word)) < 0:
            raise ValueError(f"{word} is not in the list")
        return self.text.count(b"\n", 0, at)

    def without(self, words):
        """The Words without some of them. Finding one takes a search of the whole text."""
        text = self.text
        for word in words:
            if (at := Words(text).find(word)) >= 0:
                text = text[:at] + text[at + len(word) + 1 :]
        return Words(text)

    def find(self, word):
        """Where a word begins in `text`; -1 if the list does not have it."""
        line = word + b"\n"
        return 0 if self.text.startswith(line) else self.text.find(b"\n" + line) + 1 or -1
