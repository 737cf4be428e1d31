"""lmtk and its peers do random jobs alike, where SRILM and KenLM are on PATH."""

import pytest
from differential import KINDS, NEEDS, compare, peers

PATH, NAMES = peers()


@pytest.mark.parametrize("kind", KINDS)
def test_lmtk_does_what_its_peer_does(kind, amount, seed):
    if missing := NEEDS[kind] - NAMES:
        pytest.skip(f"{' '.join(sorted(missing))} of SRILM or KenLM: not on PATH")
    reports = list(compare(kind, seed, range(amount(10, 200)), PATH))
    assert not reports, f"seed {seed}\n" + "\n".join(reports)
