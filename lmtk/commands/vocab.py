from typing import Annotated

from lmtk.commands.options import Texts, Tolower, VocabFile, Write, check_outputs, from_stdin, one_stdin, option
from lmtk.errors import UsageError


def command(
    text: Texts = None,
    lm: Annotated[
        list[str] | None, option("lm", "A model whose words to take, of any kind (several).", "FILE", group="Data")
    ] = None,
    mincount: Annotated[
        int, option("mincount", "Only words seen N times or more in the texts.", "N", min=0, group="Words")
    ] = 1,
    top: Annotated[int | None, option("top", "Only the N most frequent words.", "N", min=1, group="Words")] = None,
    vocab: VocabFile = None,
    limit_vocab: Annotated[
        bool, option("limit-vocab", "Only words that stand in the -vocab list too.", group="Words")
    ] = False,
    tolower: Tolower = False,
    write: Write = "-",
):
    """Write the words of texts and models, the most frequent first, then in byte order.

    The counts of several texts add up; the words of models and (without -limit-vocab) of the -vocab list join them
    whatever their count.

    \b
    Example: lmtk vocab -text train.txt -mincount 4 -write vocab.txt
    """
    from lmtk.files.outputs import open_out
    from lmtk.files.registry import load
    from lmtk.jobs.bar import reading
    from lmtk.text.corpus import count_words
    from lmtk.text.vocab import EOS, SOS, read_vocab

    if not (text or lm or vocab):
        raise UsageError(f"nothing to read: give -text, -lm or -vocab{from_stdin()}")
    if limit_vocab and not vocab:
        raise UsageError("-limit-vocab needs -vocab")
    one_stdin(*(text or []), *(lm or []), vocab)
    check_outputs(write, texts=text or [], inputs=lm or [])
    with reading(text or [], "counting words"):
        counts = count_words(text or [], tolower)
    kept = {w for w, n in counts.items() if n >= mincount and w not in (SOS, EOS)}
    listed = read_vocab(vocab, tolower) if vocab else []
    if limit_vocab:
        kept.intersection_update(listed)
    else:
        kept.update(listed)
    for path in lm or []:
        kept.update(load(path).vocab.words)
    words = sorted(kept, key=lambda w: (-counts.get(w, 0), w))
    with open_out(write) as out:
        out.write(b"".join(w + b"\n" for w in words[:top]))
