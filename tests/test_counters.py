"""The code does not become harder to take over: see counters.py."""

import counters


def test_counts_are_below_their_limits():
    for count, (name, (limit, _)) in zip(counters.counters(), counters.LIMITS.items(), strict=True):
        assert count <= limit, name


def test_counts_see_what_they_count(tmp_path, monkeypatch):
    """A function of nine parameters and 70 lines, a record, a question of size and names that say nothing are found."""
    monkeypatch.setattr(counters, "LMTK", tmp_path)
    (tmp_path / "ngram").mkdir()
    lines = ["from dataclasses import dataclass", "@dataclass(frozen=True)", "class Record:", "    x: int"]
    lines += ["def f(a, b, c, d, e, f, g, given, i):", *["    pays(1)"] * 69, "    own = pays(1)"]
    (tmp_path / "ngram" / "new.py").write_text("\n".join(lines))
    assert counters.records() == ["new.Record"] and counters.many_parameters() == ["new.f"]
    assert counters.long_functions(60) == ["new.f"] == [*counters.long_functions(70)]
    assert sorted(counters.filler_names()) == ["new.given", "new.own"]
    assert len(counters.asking_pays()) == 70 and counters.lines_of("ngram") == 75
