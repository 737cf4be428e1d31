"""How the counts of each order are smoothed: the options of ngram-count, and the methods that they choose."""

from dataclasses import dataclass

from lmtk.errors import UsageError
from lmtk.jobs.rules import check, option_named, wrong


@dataclass(frozen=True)
class Smoothing:
    """The smoothing of each order. A field that ends in _n is for single orders: {order: value}, or orders.

    gtmin, gtmin_n: n-grams with lower counts are left out. gtmax, gtmax_n: the highest counts that Good-Turing
    discounts.
    gt, kn, kn_all: files of discounts. They are read if a model is estimated, otherwise they are written.
    ndiscount, wbdiscount, cdiscount, addsmooth, ukndiscount, kndiscount: the methods. Without any, it is Good-Turing.
    interpolate: interpolate with lower orders.
    discount_fallback: the discounts D1 D2 D3+ of orders for which none can be computed.
    prune_by_count: for each order, n-grams with this count or a lower one are left out; the last number is for all
    higher orders.
    interpolate_unigrams: with kenlm, 0 gives the left-over unigram mass to <unk>.
    """

    gtmin: float | None = None
    gtmin_n: dict[int, float] = option_named("gtNmin", {})
    gtmax: int | None = None
    gtmax_n: dict[int, int] = option_named("gtNmax", {})
    gt: dict[int, str] = option_named("gtN", {})
    kn_all: str | None = option_named("kn")
    kn_counts_modified: bool = False
    kn_modify_counts_at_end: bool = False
    kn: dict[int, str] = option_named("knN", {})
    ndiscount: bool = False
    ndiscount_n: tuple[int, ...] = option_named("ndiscountN", ())
    wbdiscount: bool = False
    wbdiscount_n: tuple[int, ...] = option_named("wbdiscountN", ())
    cdiscount: float | None = None
    cdiscount_n: dict[int, float] = option_named("cdiscountN", {})
    addsmooth: float | None = None
    addsmooth_n: dict[int, float] = option_named("addsmoothN", {})
    ukndiscount: bool = False
    ukndiscount_n: tuple[int, ...] = option_named("ukndiscountN", ())
    kndiscount: bool = False
    kndiscount_n: tuple[int, ...] = option_named("kndiscountN", ())
    interpolate: bool = False
    interpolate_n: tuple[int, ...] = option_named("interpolateN", ())
    discount_fallback: tuple[float, ...] | None = None
    prune_by_count: tuple[int, ...] = ()
    interpolate_unigrams: int = 1

    def __post_init__(self):
        check(self, RULES)

    @property
    def reads_or_writes_discounts(self):
        return bool(self.gt or self.kn or self.kn_all)

    @property
    def is_chosen(self):
        """Whether a method is chosen."""
        return any(everywhere or single for everywhere, single in self.chosen().values())

    def chosen(self, kenlm=False):
        """{method: (for all orders, {order: parameters})}. The first is False if the method is not for all orders, else
        its parameters, or True for a method without parameters. kenlm: whether -kenlm chooses "kn".
        """
        alone = lambda values: {order: (value,) for order, value in values.items()}
        return {
            "n": (self.ndiscount, dict.fromkeys(self.ndiscount_n, ())),
            "wb": (self.wbdiscount, dict.fromkeys(self.wbdiscount_n, ())),
            "cd": (self.cdiscount is not None and (self.cdiscount,), alone(self.cdiscount_n)),
            "add": (self.addsmooth is not None and (self.addsmooth,), alone(self.addsmooth_n)),
            "ukn": (self.ukndiscount, dict.fromkeys(self.ukndiscount_n, ())),
            "kn": (self.kndiscount or kenlm, dict.fromkeys(self.kndiscount_n, ())),
        }

    def files(self, order):
        """{method: {order: file of discounts}}, up to `order` for the file of all orders."""
        files, chosen = {"gt": self.gt, "kn": dict(self.kn)}, self.chosen()
        for n in range(1, order + 1) if self.kn_all else ():
            if not any(n in single for single in (*files.values(), *(single for _, single in chosen.values()))):
                files["kn"][n] = self.kn_all
        return files


def are_discounts(D):
    """Whether D has three discounts, and none exceeds its count: D1 <= 1, D2 <= 2, D3+ <= 3."""
    return len(D) == 3 and all(0 <= d <= r for r, d in enumerate(D, 1))


def are_cutoffs(cutoffs):
    """Whether the numbers of -prune-by-count begin with 0 and do not fall, as lmplz wants."""
    return not cutoffs[0] and list(cutoffs) == sorted(cutoffs)


FALLBACK = "-discount-fallback takes up to three discounts: D1 from 0 to 1, D2 from 0 to 2, D3+ from 0 to 3"
RULES = (
    wrong(lambda job: job.discount_fallback and not are_discounts(job.discount_fallback), FALLBACK),
    wrong(
        lambda job: job.prune_by_count and not are_cutoffs(job.prune_by_count),
        "-prune-by-count must begin with 0, for 1-grams, and must not fall from order to order; to remove rare words "
        "use lmtk vocab -mincount",
    ),
)


def methods_of(smoothing, order, kenlm=False):
    """A methods.Method for each order. Raises UsageError where several methods are chosen for an order."""
    from lmtk.ngram.estimate import methods

    if len(smoothing.prune_by_count) > order:
        numbers = len(smoothing.prune_by_count)
        raise UsageError(f"-prune-by-count has {numbers} numbers, but -order is {order}; give one for each order")
    chosen, files = smoothing.chosen(kenlm), smoothing.files(order)
    several = [name for name, (everywhere, _) in chosen.items() if everywhere or (name == "kn" and smoothing.kn_all)]
    if len(several) > 1:
        raise UsageError(f"several smoothing methods for all orders ({', '.join(several)}); choose one")
    when = "never" if smoothing.kn_counts_modified else "after" if smoothing.kn_modify_counts_at_end else "before"
    cutoffs, result = smoothing.prune_by_count or [0], []
    for n in range(1, order + 1):
        name, parameters = method_of(n, chosen, files)
        cutoff = cutoffs[min(n, len(cutoffs)) - 1]
        if kenlm:
            result.append(methods.lmplz(n, name, cutoff, bool(smoothing.interpolate_unigrams)))
        else:
            if name == "gt":
                parameters = (highest_by_options(n, smoothing),)
            least = smoothing.gtmin_n.get(n, methods.least_count(n, smoothing.gtmin))
            interpolate = smoothing.interpolate or n in smoothing.interpolate_n
            result.append(methods.METHODS[name](parameters, interpolate, least, cutoff, when))
    return result


def highest_by_options(n, smoothing):
    """The highest count of order n that Good-Turing discounts. Raises UsageError."""
    from lmtk.ngram.estimate import methods

    highest = smoothing.gtmax_n.get(n, smoothing.gtmax if n > 9 else None)
    if (highest or 0) > methods.MOST:
        raise UsageError(f"-gt{n}max takes values up to {methods.MOST}, not {highest}")
    return methods.highest_discounted(n) if highest is None else highest


def method_of(n, chosen, files):
    """(the method of order n, its parameters): by the option for this order, else by the option for all orders, else
    Good-Turing.
    """
    named = [(name, single[n]) for name, (_, single) in chosen.items() if n in single]
    of_files = [name for name, paths in files.items() if n in paths]
    named += [(name, ()) for name in of_files if not (name == "kn" and n in chosen["ukn"][1])]
    if len({name for name, _ in named}) > 1:
        several = ", ".join(sorted({name for name, _ in named}))
        raise UsageError(f"several smoothing methods for order {n} ({several}); choose one")
    if named:
        return named[0]
    for name, (everywhere, _) in chosen.items():
        if everywhere:
            return name, everywhere if everywhere is not True else ()
    return "gt", ()


def fallback_discounts(values):
    """D1, D2, D3+ of -discount-fallback, whose last number is repeated; None if it is not given. Raises UsageError."""
    if not values:
        return None
    if list(values) == ["default"]:
        return 0.5, 1.0, 1.5
    try:
        D = [float(v) for v in values]
    except ValueError:
        raise UsageError(FALLBACK) from None
    return *D, *[D[-1]] * (3 - len(D))
