"""The smoothing that the options of ngram-count ask for."""

import sys
import warnings

from lmtk.commands.options import orders, per_order
from lmtk.errors import LmtkWarning, UsageError


def asked_for(o):
    """({method: (its parameters, or whether it is for all orders, {order: parameters})},
    {method: {order: file of discounts}}).
    """
    given = {
        "n": (o.ndiscount, dict.fromkeys(orders(o.ndiscount_n), ())),
        "wb": (o.wbdiscount, dict.fromkeys(orders(o.wbdiscount_n), ())),
        "cd": (o.cdiscount is not None and (o.cdiscount,), alone(per_order(o.cdiscount_n, "cdiscountN", float, 0, 1))),
        "add": (o.addsmooth is not None and (o.addsmooth,), alone(per_order(o.addsmooth_n, "addsmoothN", float))),
        "ukn": (o.ukndiscount, dict.fromkeys(orders(o.ukndiscount_n), ())),
        "kn": (o.kndiscount, dict.fromkeys(orders(o.kndiscount_n), ())),
    }
    asked = any(everywhere or single for everywhere, single in given.values())
    if not o.model_wanted and (o.maxent or o.interpolate or asked):
        warnings.warn("smoothing is for a model; give -lm or -write-bin", LmtkWarning, stacklevel=1)
    if o.maxent and (o.interpolate or o.interpolate_n or asked):
        warnings.warn("-maxent is a method by itself; other smoothing is left alone", LmtkWarning, stacklevel=1)
    files = {"gt": per_order(o.gt, "gtN"), "kn": per_order(o.kn, "knN")}
    for n in range(1, o.order + 1) if o.kn_all else ():
        if not any(n in single for single in (*files.values(), *(single for _, single in given.values()))):
            files["kn"][n] = o.kn_all
    several = [name for name, (everywhere, _) in given.items() if everywhere or (name == "kn" and o.kn_all)]
    if len(several) > 1:
        raise UsageError(f"several smoothing methods for all orders: {', '.join(several)}")
    return given, files


def methods_of(o):
    """A methods.Method an order."""
    from lmtk.ngram import methods

    when = "never" if o.kn_counts_modified else "after" if o.kn_modify_counts_at_end else "before"
    floor, upto = per_order(o.gtmin_n, "gtNmin", float), per_order(o.gtmax_n, "gtNmax", int)
    cutoffs, chosen = o.prune_by_count or [0], []
    for n in range(1, o.order + 1):
        name, parameters = method_of(n, o.given, o.files)
        cutoff = cutoffs[min(n, len(cutoffs)) - 1]
        if o.kenlm:
            method = methods.lmplz(n, name, cutoff, bool(o.interpolate_unigrams))
        else:
            lower = o.interpolate or n in orders(o.interpolate_n)
            most = upto.get(n, o.gtmax if n > 9 else None)
            method = methods.srilm(n, name, parameters, lower, floor.get(n), o.gtmin, most, cutoff, when)
        if o.float_counts and method.smoothing.discounts:
            raise UsageError(f"order {n}: Good-Turing and Kneser-Ney smoothing need whole counts; see -wbdiscount{n}")
        if o.heldout and not (method.smoothing.continuation and method.interpolate):
            raise UsageError(f"order {n}: -heldout tunes interpolated Kneser-Ney smoothing (-kndiscount -interpolate)")
        chosen.append(method)
    return chosen


def method_of(n, given, files):
    """The smoothing of order n, by its own option, else by the one for all orders, else Good-Turing; its parameters."""
    own = [(name, single[n]) for name, (_, single) in given.items() if n in single]
    own += [(name, ()) for name, paths in files.items() if n in paths and not (name == "kn" and n in given["ukn"][1])]
    if len({name for name, _ in own}) > 1:
        raise UsageError(f"several smoothing methods for order {n}: {', '.join(sorted({name for name, _ in own}))}")
    if own:
        return own[0]
    for name, (everywhere, _) in given.items():
        if everywhere:
            return name, everywhere if everywhere is not True else ()
    return "gt", ()


def recipe_of(o, listed):
    """The methods.Recipe of the model, but for -heldout. listed: the words of -limit-vocab-file, or None."""
    from lmtk.files.streams import lines
    from lmtk.ngram.methods import Recipe, with_discounts

    def tell(line):
        if o.debug:
            sys.stderr.write(line + "\n")

    read = [(n, path) for paths in o.files.values() for n, path in paths.items() if o.model_written and n <= o.order]
    rows = {path: [*lines(path)] for path in dict.fromkeys(path for _, path in read)}  # one for several orders, too
    known = {n: with_discounts(o.methods[n - 1], rows[path], path) for n, path in read}
    fallback = fallback_discounts(o.discount_fallback)
    return Recipe(o.methods, fallback, tell, known, o.kenlm, listed, o.vocab_pad, trusting=o.trust_totals)


def fallback_discounts(values):
    """D1, D2, D3+ of -discount-fallback, or None where it was not given."""
    if not values:
        return None
    if values == ["default"]:
        return 0.5, 1.0, 1.5
    try:
        D = [positive(v) for v in values]
    except ValueError:
        raise UsageError("-discount-fallback takes numbers: D1 D2 D3+") from None
    if len(D) > 3 or any(d > r for r, d in enumerate(D, 1)):
        raise UsageError("-discount-fallback takes up to three discounts, D1 up to 1, D2 up to 2, D3+ up to 3")
    return *D, *[D[-1]] * (3 - len(D))


def write_discounts(o, used):
    """Those of the methods in use, where no model is written that would read them."""
    from lmtk.files.streams import open_out
    from lmtk.ngram import methods

    for n, path in sorted({**o.files["gt"], **o.files["kn"]}.items()):
        if not o.model_written and n <= o.order:
            with open_out(path) as out:
                methods.write_discounts(out, used[n - 1])


def alone(values):
    """{order: number} as {order: (number,)}, a method's only parameter."""
    return {order: (value,) for order, value in values.items()}


def positive(text):
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError
    return value
