"""Smoothing methods (Chen and Goodman 1998), and the rules by which SRILM and lmplz choose their settings.

A method is a class in METHODS. It gives the terms of p for an n-gram h w of count c,

    p(w | h) = f(c) / q(h) + weight(h) p(w | h without its oldest word)

where f(c) is the discounted count (`discounted_counts`), and q and weight follow from totals of the context (`shares`).
f(c) is a table for low counts, and c minus a constant for higher ones. An order that is not interpolated lacks the last
term. Numpy and the kernels use the same class. The options of a method are fields of jobs.smoothing.Smoothing.
"""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from lmtk.errors import FormatError, LmtkError, UsageError, shown

MOST = 10_000  # the highest count that Good-Turing can discount
EPSILON = 3e-6  # a smaller probability mass counts as none, as in SRILM


class NoDiscount(LmtkError):
    """The counts of counts n_1 .. n_r of an order do not give the discounts that Kneser-Ney smoothing needs."""

    def __init__(self, order, n, kenlm=False):
        counts = ", ".join(f"n{r} = {n_r}" for r, n_r in enumerate(n, 1))
        self.order = order
        self.cause = f"order {order} has too few different counts for Kneser-Ney discounts ({counts})"
        instead = "" if kenlm else f", or use Witten-Bell smoothing (ngram-count -wbdiscount{order})"
        super().__init__(f"{self.cause}; add -discount-fallback{instead}")


@dataclass(frozen=True)
class Method:
    """How one order is smoothed. The subclasses are the methods.

    parameters: the number of -cdiscount, -addsmooth or -gtNmax, the D's of Kneser-Ney, or the coefficients of
    Good-Turing. interpolate: whether the lower order is added in. minimum: n-grams with lower counts are left out.
    cutoff: once the discounts are known, n-grams seen `cutoff` times or less are left out, and their counts go to the
    lower order, as in KenLM's lmplz --prune. counts: when continuation counts replace the raw counts: "before" the
    discounts are estimated, "after", or "never", if the counts are continuation counts already.

    Subclasses set: highest: the discounts follow from n_1 .. n_highest, the numbers of n-grams seen once, twice and so
    on; 0 if the user gives them. names: of the discounts in a discount file; None: the counts 1, 2, ... are the names.
    continuation: whether orders below the highest use continuation counts. neutral: the parameters with which f(c) / q
    is c / T, which leaves no mass for unseen words; or None.
    """

    parameters: tuple = ()
    interpolate: bool = False
    minimum: float = 1
    cutoff: int = 0
    counts: str = "before"

    highest = 0
    names = None
    continuation = False
    neutral = None

    def discounted_counts(self):
        """f(c): ([f(0) .. f(C - 1)], the constant that is subtracted from counts of C and more)."""
        return [0.0], 0.0

    def shares(self, T, types, V):
        """(q(h), the weight of the lower order) in each context, (H,) each. T (H,): the sum of the counts of a
        context's extensions. types (3, H): the number of its extensions, of those with a count of 2 or more, and of
        those with 3 or more. V: the size of the vocabulary. In the weight, SRILM rounds up T of float counts.
        """
        return T, np.zeros(len(T))

    def with_discounts(self, k, n, recipe):
        """The method with its discounts of order k. n(r): gives n_1 .. n_r. Raises NoDiscount."""
        return self

    @property
    def continued(self):
        """Whether orders below the highest use continuation counts."""
        return self.continuation and self.counts != "never"

    @property
    def idle(self):
        """Whether the counts stay unchanged, so that no mass is left for unseen words."""
        return self.minimum <= 1 and self.parameters == self.neutral

    def discount(self, c):
        """f(c) of counts (N,), 0 for counts below the minimum."""
        f, less = self.discounted_counts()
        whole = np.ceil(np.minimum(c, MOST + 1)).astype(np.int64)
        return np.where(c < self.minimum, 0.0, np.where(whole < len(f), np.take(f, whole, mode="clip"), c - less))


class GoodTuring(Method):
    """f(r) = d(r) r for counts r with a coefficient d(r), r for others; q = T (Katz 1987)."""

    neutral = ()

    @property
    def highest(self):
        return max(int(self.parameters[0]) + 1, 4)

    def discounted_counts(self):
        return [0.0, *(r * d_r for r, d_r in enumerate(self.parameters, 1))], 0.0

    def with_discounts(self, k, n, recipe):
        """The method with Katz's coefficients d_r for counts r up to -gtmax. As in SRILM, d_r is 1 where n_r is 0 or
        d_r out of range, and gtmax is lowered while n_(gtmax + 1) is 0.
        """
        upto, tell = int(self.parameters[0]), recipe.tell
        n = n(upto + 1)
        tell(f"Good-Turing discounting {k}-grams")
        for r, n_r in enumerate([0, *n]):
            tell(f"GT-count [{r}] = {n_r}")
        if n[0] == 0:
            tell("warning: no singleton counts")
            upto = 0
        while upto > 0 and n[upto] == 0:
            tell(f"warning: count of count {upto + 1} is zero -- lowering maxcount")
            upto -= 1
        if not upto:
            tell("GT discounting disabled")
        d = [1.0] * upto
        for r in range(1, upto + 1):
            common = (upto + 1) * n[upto] / n[0]
            if n[r - 1] == 0:
                tell(f"warning: count of count {r} is zero")
                continue
            plain = (r + 1) * n[r] / (r * n[r - 1])
            with np.errstate(divide="ignore", invalid="ignore"):
                value = float(np.divide(plain - common, 1 - common))
            if not np.isfinite(value) or value <= EPSILON or plain > 1:
                tell(f"warning: discount coeff {r} is out of range: {value:.6g}")
            else:
                d[r - 1] = value
        return replace(self, parameters=tuple(d))


class WittenBell(Method):
    """f(c) = c; q = T + types; the weight is the rest, types / (T + types) (Witten and Bell 1991, method C)."""

    def shares(self, T, types, V):
        return T + types[0], types[0] / (np.ceil(T) + types[0])


class NaturalLaw(Method):
    """f(c) = c; q = T (T (T + 1) + 2 k) / (T (T + 1) + k (1 - k)), where k is the number of types; T if k = V: Ristad's
    natural law of succession (1995).
    """

    def shares(self, T, types, V):
        k = types[0].astype(np.float64)  # k^2 may be too large for the integers of kernels
        return T / np.where(k == V, 1, (T * (T + 1) + k * (1 - k)) / (T * (T + 1) + 2 * k)), np.zeros(len(T))


class Additive(Method):
    """f(c) = c + delta; q = T + V delta (Lidstone)."""

    neutral = (0,)

    def discounted_counts(self):
        return [0.0], -self.parameters[0]

    def shares(self, T, types, V):
        return T + V * self.parameters[0], np.zeros(len(T))


class Absolute(Method):
    """Absolute discounting: f(c) = c - D_c; q = T, and the weight is (D_1 n_1 + D_2 n_2 + ..) / T, n_r being the types
    of count r. The last discount is also that of all higher counts.
    """

    neutral = (0,)

    def discounted_counts(self):
        *D, last = self.parameters
        return [0.0, *(r - d for r, d in enumerate(D, 1))], last

    def shares(self, T, types, V):
        higher = *types[1 : len(self.parameters)], 0
        return T, sum(D * (n - more) for D, n, more in zip(self.parameters, types, higher)) / np.ceil(T)


class KneserNey(Absolute):
    """The original Kneser-Ney method (1995): absolute discounting, with continuation counts in lower orders."""

    highest, names, continuation, neutral = 4, ("1",), True, None

    def closed_form(self, n, kenlm):
        """(D = n1 / (n1 + 2 n2), as a tuple, None), or ((), why there is none)."""
        if min(n[:2]) == 0:
            return (), "D = n1 / (n1 + 2 n2) needs n1 and n2"
        return (n[0] / (n[0] + 2 * n[1]),), None

    def with_discounts(self, k, n, recipe):
        """The method with the discounts of the closed form, or, if it gives none, of the recipe's `fallback`. With
        `kenlm`, lmplz's conditions hold: n4 may be 0, and D(c) may not be above c. Raises NoDiscount.
        """
        names, tell, fallback = self.names, recipe.tell, recipe.fallback
        n = n(2 if len(names) == 1 else 4)
        tell(f"Kneser-Ney smoothing {k}-grams")
        for r, n_r in enumerate(n, 1):
            tell(f"n{r} = {n_r}")
        D, why = self.closed_form(n, recipe.kenlm)
        if why:
            if fallback is None:
                tell(why)
                raise NoDiscount(k, n, recipe.kenlm)
            D = tuple(fallback[: len(names)])
            sys.stderr.write(f"fallback discounts for order {k}: {' '.join(map(str, D))}\n")
        for name, value in zip(names, D):
            tell(f"D{name} = {value:.6g}" if len(names) > 1 else f"D = {value:.6g}")
        return replace(self, parameters=D)


class ModifiedKneserNey(KneserNey):
    """Kneser-Ney smoothing with discounts D1, D2 and D3+ for counts of 1, 2, and 3 or more (Chen and Goodman 1998)."""

    names = ("1", "2", "3+")

    def closed_form(self, n, kenlm):
        """((D1, D2, D3+), None); for invalid discounts, the second is the reason. kenlm: as in KenLM, in single
        precision, which decides whether a discount next to 0 is valid.
        """
        if min(n[: 3 if kenlm else 4]) == 0:
            r = min(n.index(0) + 1, 3)
            return (), f"D{r}{'+' * (r == 3)} = {r} - {r + 1} Y n{r + 1}/n{r} with Y = n1/(n1 + 2 n2) needs n1 .. n4"
        number = np.float32 if kenlm else float
        Y = number(n[0]) / number(n[0] + 2 * n[1])
        D = tuple(float(number(r) - number(r + 1) * Y * number(n[r]) / number(n[r - 1])) for r in (1, 2, 3))
        for r, d in enumerate(D, 1):
            if d < 0 or (kenlm and d > r):
                outside = "below 0" if d < 0 else f"above {r}"
                return D, f"D{r}{'+' * (r == 3)} = {r} - {r + 1} Y n{r + 1}/n{r} is {d:.4g}, {outside}"
        return D, None


METHODS = {
    "gt": GoodTuring,
    "wb": WittenBell,
    "n": NaturalLaw,
    "cd": Absolute,
    "add": Additive,
    "ukn": KneserNey,
    "kn": ModifiedKneserNey,
}


@dataclass(frozen=True)
class Recipe:
    """How counts become a model.

    methods: a Method for each order. fallback: D1, D2, D3+ to use if Kneser-Ney's formula gives none, or None. tell: is
    called with SRILM's lines about the discounts. fixed: {order: Method} with discounts from files (-kn, -gt). kenlm:
    all methods interpolate, and the weights of the lower orders are the back-off weights, as in KenLM; otherwise
    back-off weights follow from the probabilities in single precision, as in SRILM. listed: with `kenlm`, only n-grams
    of these words are kept. size: with `kenlm`, the least number of words, including unknown ones. heldout: a
    heldout.HeldOut, on which Kneser-Ney's discounts are tuned unless they are in `fixed`, or None. trusting: the total
    of a context is its own count, not the sum of the counts of its extensions.
    """

    methods: list
    fallback: tuple = None
    tell: Callable = lambda line: None
    fixed: dict = field(default_factory=dict)
    kenlm: bool = False
    listed: set = None
    size: int = 0
    heldout: object = None
    trusting: bool = False

    def discounted_method(self, k, n):
        """The Method of order k with discounts from `fixed`, or by n(r), n_1 .. n_r. Raises NoDiscount."""
        return self.fixed.get(k) or self.methods[k - 1].with_discounts(k, n, self)

    def tuned(self, features):
        """The Recipe with discounts under which held-out text is most likely. features: as in HeldOut.tune."""
        tuned = self.heldout.tune(features) | self.fixed
        for k in sorted(tuned.keys() - self.fixed):
            self.tell(f"tuned discounts for order {k}: {' '.join(f'{d:.6g}' for d in tuned[k].parameters)}")
        return replace(self, fixed=tuned)


def least_count(k, above=None):
    """The count below which SRILM's ngram-count leaves out n-grams of order k, unless an option sets it: n-grams seen
    once are left out at the orders 3 to 9. above: the count for orders above 9, or None.
    """
    return (above or 1) if k > 9 else 1 if k < 3 else 2


def highest_discounted(k):
    """The highest count of order k that Good-Turing discounts in SRILM's ngram-count, unless an option sets it."""
    return 1 if k == 1 else 7 if k <= 9 else 5


def lmplz(k, name="kn", cutoff=0, uniform=True):
    """The Method of order k by the rules of KenLM's lmplz, which leaves out n-grams only by `cutoff`. uniform: whether
    order 1 is interpolated with the uniform distribution; otherwise <unk> gets all the mass that words leave. Raises
    UsageError for a method other than "kn".
    """
    if name != "kn":
        raise UsageError(f"order {k}: -kenlm smooths all orders by modified Kneser-Ney; leave out other methods")
    return ModifiedKneserNey((), k > 1 or uniform, 1, cutoff)


def read_discounts(method, rows, path):
    """The method with the discounts and the minimum of a file that SRILM's -kn or -gt wrote. rows: the file's
    `decoding.lines`. Raises FormatError.
    """
    from lmtk.ngram.counting.counts import parse_counts

    values, minimum, names = {}, method.minimum, method.names
    for number, line in rows:
        if line.split()[:1] in ([], [b"maxcount"]):
            continue
        # Katz's coefficients are "discount 1 0.5", Kneser-Ney's "discount1 0.5"
        fields = line.strip().removeprefix(b"discount").split()
        numbers = parse_counts(fields[1:], True) if len(fields) == 2 else None
        if numbers is None:
            raise FormatError(path, "expected a name and a number, such as discount1 0.5", number)
        name, value = shown(fields[0]), float(numbers[0])
        if name == "mincount":
            minimum = value
            continue
        most = (int(name[0]) if name in names else 1) if names else MOST  # Katz's coefficients may be above 1
        if not 0 <= value <= most:
            raise FormatError(path, f"the discount {value:g} is not between 0 and {most}", number)
        values[name] = value
    if names is None:
        # counts without a coefficient are not discounted
        upto = max((int(name) for name in values if re.fullmatch("[1-9][0-9]{0,3}", name)), default=0)
        return replace(method, parameters=tuple(values.get(str(r), 1.0) for r in range(1, upto + 1)), minimum=minimum)
    if any(name not in values for name in names):
        raise FormatError(path, f"expected {len(names)} discounts; was the file written for another method?")
    return replace(method, parameters=tuple(values[name] for name in names), minimum=minimum)


def write_discounts(out, method):
    """Writes a file of discounts as SRILM's -kn and -gt options do."""
    text = f"mincount {method.minimum:g}\n"
    if method.names:
        text += "".join(f"discount{name} {d:.16f}\n" for name, d in zip(method.names, method.parameters))
    else:
        text += f"maxcount {len(method.parameters)}\n"
        text += "".join(f"discount {r} {d:.16g}\n" for r, d in enumerate(method.parameters, 1))
    out.write(text.encode())
