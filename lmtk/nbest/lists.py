"""N-best lists in the formats of Moses and SRILM: read, score by language models, sort by weighted sums, write.

`read` makes one `NBest` of all lists. `add_scores` adds the scores of models as features, `compute_totals` and
`sort_lists` rank the hypotheses, and `write` writes them. The score of a hypothesis is linear: total = sum_k weight_k
feature_k. Moses's lists name their features; the features of SRILM's lists are `ac`, `lm` and `words`, the columns of
nbest-format(5).
"""

import math
import warnings
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from lmtk.errors import FormatError, LmtkError, LmtkWarning, counted, shown
from lmtk.files.decoding import lines
from lmtk.lm import LN10
from lmtk.reports.srilm import outcome
from lmtk.text.corpus import TOKEN, Marks, corpora
from lmtk.text.vocab import EOS, PAUSE

MOSES, SRILM = "Moses's", "SRILM's"
SRILM_NAMES = [b"ac", b"lm", b"words"]
BYTELOG = 1024 / 10000.5 / LN10  # log10 of a bytelog: a logarithm to base 1.0001, divided by 1024
LMW, WTW = 8.0, 0.0  # SRILM's weights of a language model's score and of a word
BLANKS = b" \t\r"
BATCH = 1 << 14  # hypotheses that a model scores at once


@dataclass(frozen=True)
class NBest:
    """N hypotheses in L lists, in the order of the input.

    form: MOSES or SRILM.
    words: N hypotheses, bytes.
    names, features: the names of the columns, and (N, K) float64; a feature with several values has several columns.
    totals: (N,) float64, the scores in the input.
    starts: (L + 1,), the hypothesis where each list starts.
    files: (L,), the number of the input file of each list.
    fields: for each line of Moses's lists, its parts, and the number of the part with the features; else None.
    """

    form: str
    words: tuple
    names: list
    features: np.ndarray
    totals: np.ndarray
    starts: np.ndarray
    files: np.ndarray
    fields: tuple

    def columns(self, name):
        return [k for k, other in enumerate(self.names) if other == name]


def read(paths):
    """Read the lists of all files as one NBest. The first line of a file decides its format.

    Raises FormatError with the line if a line has none of the formats or an invalid number, if its features differ from
    the features of earlier lines, and if a file is empty or has another format than earlier files.
    """
    form, names, rows, starts, files = None, None, [], [], []
    for i, path in enumerate(paths):
        parse, key, number, before = None, None, 0, len(rows)
        for number, line in lines(path):
            try:
                line.decode()
                if parse is None:
                    parse = PARSERS.get(line.strip(BLANKS), parse_moses if b"|||" in line else parse_plain)
                    line_form = MOSES if parse is parse_moses else SRILM
                    if form not in (None, line_form):
                        now = f"this list has {line_form} form, but earlier lists have {form}"
                        raise ValueError(f"{now}; rescore the lists of each form separately")
                    form = line_form
                    if parse not in (parse_moses, parse_plain):
                        continue
                line_key, line_names, *row = parse(line)
                if names is None:
                    names = line_names
                if line_names != names:
                    now, earlier = format_names(line_names), format_names(names)
                    raise ValueError(f"this line has the features {now}, but earlier lines have {earlier}")
            except UnicodeDecodeError:
                raise FormatError(path, "not UTF-8; convert it with iconv", number) from None
            except ValueError as e:
                raise FormatError(path, str(e), number) from None
            if len(rows) == before or line_key != key:
                starts.append(len(rows))
                files.append(i)
                key = line_key
            rows.append(row)
        if len(rows) == before:
            raise FormatError(path, "no hypotheses in it; is it an n-best list?", number)
    words, values, totals, fields = zip(*rows)
    features = np.array(values, float).reshape(len(rows), len(names))
    starts = np.array([*starts, len(rows)])
    return NBest(form, words, list(names), features, np.array(totals), starts, np.array(files), fields)


def parse_moses(line):
    """Parse `key ||| words ||| Name= v v ... ||| total [||| ...]`; alignments may also come before the features."""
    fields = [field.strip(BLANKS) for field in line.split(b"|||")]
    at = 3 if len(fields) > 4 and b"=" not in fields[2] and b"=" in fields[3] else 2
    if len(fields) < 4:
        raise ValueError(f"expected key ||| words ||| features ||| total, found {len(fields)} fields")
    name, names, values = None, [], []
    for token in TOKEN.findall(fields[at]):
        if token[-1:] in (b"=", b":"):
            name = token[:-1]
            continue
        if name is None:
            raise ValueError(f"expected Name= before the features, found '{shown(token)}'")
        names.append(name)
        values.append(parse_number(token))
    return fields[0], names, fields[1], values, parse_number(fields[at + 1]), (fields, at)


def parse_plain(line):
    """Parse `acscore lmscore nwords words`, with logarithms to base 10."""
    fields = line.strip(BLANKS).split(None, 3)
    if len(fields) < 3:
        raise ValueError(f"expected acscore lmscore nwords and the words, found {len(fields)} fields")
    try:
        ac, lm, n = map(parse_number, fields[:3])
    except ValueError as e:
        forms = "SRILM's form is acscore lmscore nwords words; Moses's form has |||"
        raise ValueError(f"not a line of an n-best list: {e}; {forms}") from None
    words = fields[3] if len(fields) > 3 else b""
    return None, SRILM_NAMES, words, (ac, lm, n), ac + LMW * lm + WTW * n, None


def parse_decipher1(line):
    """Parse `(score) words` of an NBestList1.0. The score, of all models and in bytelogs, is used as the acoustic
    score.
    """
    score, tokens = split_decipher_score(line)
    return None, SRILM_NAMES, b" ".join(tokens), (score, 0.0, count_spoken(tokens)), score, None


def parse_decipher2(line):
    """Parse `(score) word ( st: s et: e g: lm a: ac ) ...` of an NBestList2.0.

    As in SRILM, the acoustic score is the score minus the language model scores of the words. A unit is a part of the
    previous word unless it starts after the end of that word.
    """
    score, tokens = split_decipher_score(line)
    words, lm, end = [], 0.0, -1.0
    if len(tokens) % 11:
        raise ValueError("expected WORD ( st: NUMBER et: NUMBER g: NUMBER a: NUMBER ) for each word")
    for i in range(0, len(tokens), 11):
        word, *labels = tokens[i : i + 11]
        if [labels[j] for j in (0, 1, 3, 5, 7, 9)] != [b"(", b"st:", b"et:", b"g:", b"a:", b")"]:
            form = "( st: NUMBER et: NUMBER g: NUMBER a: NUMBER )"
            raise ValueError(f"expected {form} after {shown(word)}, found '{shown(b' '.join(labels))}'")
        start, stop, g = parse_number(labels[2]), parse_number(labels[4]), parse_number(labels[6])
        if start > end:
            words.append(word)
            lm, end = lm + g * BYTELOG, stop
    return None, SRILM_NAMES, b" ".join(words), (score - lm, lm, count_spoken(words)), score, None


def split_decipher_score(line):
    tokens = TOKEN.findall(line)
    if not tokens or tokens[0][:1] != b"(" or tokens[0][-1:] != b")":
        raise ValueError("expected (score) before the words")
    return parse_number(tokens[0][1:-1]) * BYTELOG, tokens[1:]


PARSERS = {b"NBestList1.0": parse_decipher1, b"NBestList2.0": parse_decipher2}


def count_spoken(tokens):
    return float(len(tokens) - tokens.count(PAUSE))


def parse_number(field):
    """A finite number. Raises ValueError."""
    try:
        x = float(field)
    except ValueError:
        x = math.nan
    if not math.isfinite(x) or b"_" in field:
        raise ValueError(f"'{shown(field)}' is not a finite number")
    return x


def format_names(names):
    return shown(b" ".join(names)) or "none"


def score_sentences(model, sentences, penalty, tolower=False):
    """log10 p of each sentence, (N,): the sum over its words and </s>.

    penalty: used for a word without a probability, such as an OOV. Equal sentences are scored once, in large batches.
    """
    place = {}
    where = np.array([place.setdefault(s, len(place)) for s in sentences])
    distinct, sums, vocab = list(place), [], model.vocab
    batches = (distinct[first : first + BATCH] for first in range(0, len(distinct), BATCH))
    # a blank line would be skipped; </s> alone is the sentence without words
    texts = (b"".join((row.strip(BLANKS) or EOS) + b"\n" for row in rows) for rows in batches)
    for corpus in corpora(texts, vocab, Marks(tolower=tolower)):
        oov, zero, logs = outcome(vocab, corpus, model.score(corpus))
        never = (oov | zero) & (corpus.ids != vocab.eos_id)
        sums.append(np.add.reduceat(np.where(never, penalty, logs), corpus.starts[:-1]))
    return np.concatenate(sums)[where]


def score_hypotheses(nbest, model, penalty, tolower=False, split=None):
    """log10 p of all hypotheses, (N,), as in `score_sentences`. As in SRILM, a language model does not see pauses.

    split: a function from lines, bytes, to lines of the words that the model sees.
    """
    sentences = nbest.words
    if nbest.form == SRILM:
        sentences = [without_pauses(s) for s in sentences]
    return score_sentences(model, split(sentences) if split else sentences, penalty, tolower)


def without_pauses(sentence):
    if PAUSE not in sentence:
        return sentence
    return b" ".join(word for word in TOKEN.findall(sentence) if word != PAUSE)


def source_lines(nbest, paths, count):
    """The number of the source line that each hypothesis of Moses's lists translates, (N,): the key, from 0 on.

    count: the number of source lines. Raises FormatError if a key is not the number of a line. Warns if the lists begin
    with the first line and do not reach the last.
    """
    numbers = []
    for file, start, end in zip(nbest.files, nbest.starts[:-1], nbest.starts[1:]):
        key = nbest.fields[start][0][0]
        digits = key.lstrip(b"0") or b"0"
        if not key.isdigit() or len(digits) > len(b"%d" % count) or int(digits) >= count:
            lines = f"-source has lines 0 to {count - 1}" if count else "-source is empty"
            raise FormatError(paths[file], f"the key '{shown(key)}' of a list is not a line of -source; {lines}")
        numbers += [int(digits)] * (end - start)
    if numbers and min(numbers) == 0 and max(numbers) + 1 < count:
        keys = f"the highest key of the lists is {max(numbers)}, but -source has the lines 0 to {count - 1}"
        warnings.warn(f"{keys}; if -source is another text, give the text of the lists", LmtkWarning, stacklevel=2)
    return np.array(numbers)


def unused_names(nbest, stem, count):
    """The first `count` of the names stem0, stem1, .. that are not features of the lists."""
    candidates = (stem + b"%d" % i for i in range(len(nbest.names) + count))
    return list(islice((name for name in candidates if name not in nbest.names), count))


def add_scores(nbest, columns, names):
    """Add the log10 p of models, (N,) each, to the lists. In SRILM's lists the score of the one model is the feature
    `lm`.

    In Moses's lists each model has a feature, ln p as usual in Moses: it replaces the feature of that name, or is
    added. Raises LmtkError if several features have the name.
    """
    unit = 1 if nbest.form == SRILM else LN10
    features, all_names = nbest.features, list(nbest.names)
    for column, name in zip(columns, names, strict=True):
        column, at = round_as_written(unit * column), nbest.columns(name)
        if len(at) > 1:
            raise LmtkError(f"-name {shown(name)}: the lists have {len(at)} values of that name; choose another")
        if at:
            features = features.copy()
            features[:, at[0]] = column
        else:
            features = np.column_stack((features, column))
            all_names.append(name)
    return replace(nbest, names=all_names, features=features)


def round_as_written(numbers):
    """Round numbers as they are written, so that readers of the file get the same totals."""
    return np.array([float(f"{x:.7g}") for x in numbers])


def count_words(nbest):
    return np.array([len(TOKEN.findall(words)) for words in nbest.words], float)


def compute_totals(features, weights):
    """sum_k weight_k feature_k of each hypothesis, (N,), in one order on any machine, unlike a matrix product."""
    return (features * weights).sum(axis=1)


def sort_lists(totals, starts):
    """The hypotheses of each list by descending total, (N,); equal ones keep their order."""
    return np.lexsort((-totals, np.repeat(np.arange(len(starts) - 1), np.diff(starts))))


# features that need no model: the number of words, because the sums of ln p penalize long translations; and the total
# in the input, which may not be a weighted sum of the features
MADE = {b"words": count_words, b"score": lambda nbest: nbest.totals}


def add_derived_features(nbest, names):
    """Add those of the features `names` that the lists lack and that can be computed from the lists themselves."""
    for name in names:
        if name in MADE and name not in nbest.names:
            features = np.column_stack((nbest.features, round_as_written(MADE[name](nbest))))
            nbest = replace(nbest, names=[*nbest.names, name], features=features)
    return nbest


def fit_weights(nbest):
    """Weights (K,) with which the weighted sums of the features are nearest to the totals in the input.

    They are found by least squares of the differences within a list. If the totals of a decoder are weighted sums of
    the features, these are its weights.
    """
    sizes = np.diff(nbest.starts)
    both = np.column_stack((nbest.features, nbest.totals))
    within = both - np.repeat(np.add.reduceat(both, nbest.starts[:-1]) / sizes[:, None], sizes, axis=0)
    return np.linalg.lstsq(within[:, :-1], within[:, -1])[0]


def read_weights(path):
    """(line, name, the words after it) of the weights in a file: lines `Name= w w`.

    In a moses.ini these are the lines of the section [weight]. Raises FormatError.
    """
    rows = [(i, line.strip(BLANKS)) for i, line in lines(path)]
    section = next((i for i, (_, row) in enumerate(rows) if row == b"[weight]"), None)
    if section is not None:
        rows = rows[section + 1 :]
        rows = rows[: next((i for i, (_, row) in enumerate(rows) if row[:1] == b"["), len(rows))]
    weights = []
    for i, row in rows:
        if not row or row.startswith(b"#"):
            continue
        name, *values = TOKEN.findall(row)
        if name[-1:] not in (b"=", b":"):
            raise FormatError(path, f"expected Name= and weights, found '{shown(row)}'", i)
        weights.append((i, name[:-1], values))
    return weights


def match_weights(rows, names, path):
    """The weights of the features, (K,), from the rows of `read_weights`, a value for each column of a name.

    Raises FormatError if a name is unknown, occurs twice or is missing.
    """
    weights = {}
    for i, name, values in rows:
        if name not in names:
            features = format_names(dict.fromkeys(names))
            raise FormatError(path, f"the lists have no feature {shown(name)}; they have {features}", i)
        if name in weights:
            raise FormatError(path, f"{shown(name)} has two lines; give each feature one line", i)
        if len(values) != names.count(name):
            wanted = counted(names.count(name), "weight")
            raise FormatError(path, f"expected {wanted} of {shown(name)}, found {len(values)}", i)
        try:
            weights[name] = list(map(parse_number, values))
        except ValueError as e:
            raise FormatError(path, str(e), i) from None
    missing = [name for name in dict.fromkeys(names) if name not in weights]
    if missing:
        raise FormatError(
            path,
            f"the weight of {shown(missing[0])} is missing; to ignore this feature add a line {shown(missing[0])}= 0",
        )
    return np.array([weights[name].pop(0) for name in names])


def write_weights(out, names, weights):
    for name in dict.fromkeys(names):
        values = [w for other, w in zip(names, weights) if other == name]
        out.write(name + b"= " + " ".join(f"{w:.7g}" for w in values).encode() + b"\n")


def write(out, nbest, order, totals, added):
    """Write the hypotheses `order`, one on each line.

    totals: the new totals (N,), or None to keep the old ones. added: the features of models.
    """
    for i in order:
        out.write(b"%s\n" % (format_srilm(nbest, i) if nbest.form == SRILM else format_moses(nbest, i, totals, added)))


def format_srilm(nbest, i):
    numbers = " ".join(f"{x:.7g}" for x in nbest.features[i]).encode()
    return numbers + b" " + nbest.words[i] if nbest.words[i] else numbers


def format_moses(nbest, i, totals, added):
    fields, at = nbest.fields[i]
    features = TOKEN.findall(fields[at])
    for name in added:
        value = f"{nbest.features[i, nbest.columns(name)[0]]:.7g}".encode()
        label = next((j for j, token in enumerate(features) if token in (name + b"=", name + b":")), None)
        if label is None:
            features += [name + b"=", value]
        else:
            old = [token for token in features[label + 1 : label + 2] if token[-1:] not in (b"=", b":")]
            features[label + 1 : label + 1 + len(old)] = [value]  # a name may lack its value
    total = fields[at + 1] if totals is None else f"{totals[i]:.7g}".encode()
    return b" ||| ".join([*fields[:at], b" ".join(features), total, *fields[at + 2 :]])
