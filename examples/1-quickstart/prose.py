"""English prose that every CPython carries: the sentences of pydoc's help topics, one a line."""

import re
from pydoc_data.topics import topics

for name in sorted(topics):
    for paragraph in re.split(r"\n\s*\n", topics[name]):
        text = " ".join(paragraph.split())
        # code, grammar rules, tables and headings are not prose
        if not re.search(r"[a-z,] [a-z]+ [a-z]+.*[.:]$", text) or re.search(r"::=|>>>|---|===|\|", text):
            continue
        text = re.sub(r"[*`_\\\"“”]+", "", text)
        for sentence in re.split(r"(?<=[.?!:]) (?=[A-Z])", text):
            print(sentence)
