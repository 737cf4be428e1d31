"""The words of a binary file, which are taken apart only if they are needed."""

from collections.abc import Sequence
from functools import cached_property


class Words(Sequence):
    """Words, bytes. Many jobs look up words in `text` alone; the list is made when a job needs it.

    text: the words, each with a line's end after it.
    """

    def __init__(self, text):
        self.text = text

    @cached_property
    def items(self):
        return self.text.split(b"\n")[:-1]

    @cached_property
    def size(self):
        return self.text.count(b"\n")

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
        """The place of a word. Raises ValueError if there is no such word."""
        if (at := self.find(word)) < 0:
            raise ValueError(f"{word} is not in the list")
        return self.text.count(b"\n", 0, at)

    def find(self, word):
        """Where a word begins in the text, -1 if there is no such word."""
        line = word + b"\n"
        return 0 if self.text.startswith(line) else self.text.find(b"\n" + line) + 1 or -1
