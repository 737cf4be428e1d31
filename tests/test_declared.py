"""What a wrong binary file is told: one line that names the file, and the setting or array that is wrong."""

import shutil
import subprocess

import pytest
from helpers import ENVIRONMENT, FILES, in_process
from mutation import decoded, encoded


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with a file of several kinds, by commands."""
    folder = tmp_path_factory.mktemp("models")
    shutil.copy(FILES / "nmt.bin", folder / "nmt")
    train = "nplm-train -text tr -hidden 2 -features 3 -order 3 -epochs 1 -threads 1 -quiet -lm"
    for command in [
        "ngram-count -text tr -order 2 -wbdiscount -write-bin backoff",
        "ngram-interp -text tr -heldout tr -order 2 -write-bin interp",
        f"{train} nplm",
        f"{train} tree -objective tree",
        f"{train} class -objective class",
        f"{train} energy -model energy",
        f"{train} tdnn -model tdnn",
    ]:
        shutil.copy(FILES / "tr.txt", folder / "tr")
        assert in_process(folder, *command.split())[0] == 0
    return folder


def set_to(name, value):
    def change(about, arrays):
        *above, last = name.split(".")
        settings = about["settings"]
        for key in above:
            settings = settings[key]
        if value is None:
            del settings[last]
        else:
            settings[last] = value

    return change


def array(name, made):
    """made: the new array from the old one, or None where it goes."""

    def change(about, arrays):
        old = arrays.pop(name)
        if made is not None:
            arrays[name] = made(old)

    return change


def element(name, place, value):
    def made(a):
        a[place] = value
        return a

    return array(name, made)


WRONG = [  # kind, what is changed, what is said
    ("nplm", set_to("order", "x"), 'damaged: the setting order is "x"; expected a whole number from 1 to 99'),
    ("nplm", set_to("order", True), "damaged: the setting order is true; expected a whole number from 1 to 99"),
    ("nplm", set_to("order", None), "damaged: the setting order is missing; expected a whole number from 1 to 99"),
    ("tdnn", set_to("order", 1), "damaged: the setting order is 1; expected a whole number from 2 to 99"),
    ("nplm", set_to("order", 4), "damaged: the array C is float32 (12, 3); expected float32 (12, 2)"),
    ("nplm", set_to("training", [1]), "damaged: the setting training is [1]; expected options with their values"),
    ("nplm", set_to("V", 10**6), "damaged: the array U is float32 (10, 2); expected float32 (1000000, 2)"),
    ("nplm", array("H", None), "damaged: the array H is missing"),
    ("nplm", array("C", None), "damaged: the array C is missing"),
    ("nplm", array("d", lambda a: a.astype("f8")), "damaged: the array d is float64 (2); expected float32 (2)"),
    ("nplm", element("b", 3, float("nan")), "damaged: the array b has numbers that are not finite"),
    (
        "nplm",
        array("vocabulary", lambda a: a[:-4]),
        "damaged: the array C is float32 (12, 3); expected float32 (11, 3)",
    ),
    ("energy", array("C", lambda a: a[:0]), "damaged: the array C is float32 (0, 3); expected float32 (12, 3)"),
    ("tree", element("tree", (0, 0), 10**6), "damaged: the array tree has numbers from"),
    ("tree", element("tree", (0, 0), 0), "damaged: its tree does not lead from node 0 to each word once"),
    ("class", element("classes", slice(None), 0), "damaged: a class has no word"),
    ("interp", element("keys2", 1, 0), "damaged: the numbers of the array keys2 are not in ascending order"),
    ("interp", element("count1", 0, -1), "damaged: the array count1 has numbers from -1 to"),
    ("backoff", set_to("unk", 7), "damaged: the setting unk is 7; expected a word in Latin-1"),
    ("backoff", set_to("unk", "zebra"), "its vocabulary has no zebra"),
    ("backoff", array("nodes1", lambda a: a[:, :2].copy()), "damaged: the array nodes1 is int32"),
    ("nmt", set_to("sizes.gates", 5), "damaged: the setting sizes.gates is 5; expected 2 or 3"),
    ("nmt", set_to("sizes", 5), "damaged: the setting sizes is 5; expected several settings"),
    ("nmt", set_to("sizes", None), "damaged: the setting sizes is missing; expected several settings"),
]


@pytest.mark.parametrize("kind, change, said", WRONG, ids=lambda x: x[:40] if isinstance(x, str) else "")
def test_a_wrong_file_is_one_line(models, monkeypatch, kind, change, said):
    from lmtk.errors import FormatError
    from lmtk.files.registry import load, load_translation

    about, arrays = decoded((models / kind).read_bytes())
    change(about, arrays)
    (models / "wrong").write_bytes(encoded(about, arrays))
    monkeypatch.chdir(models)
    with pytest.raises(FormatError) as actual:
        (load_translation if kind == "nmt" else load)("wrong")
    assert str(actual.value).startswith(f"wrong: {said}") and "\n" not in str(actual.value)


@pytest.mark.parametrize("value", [10**400, -(10**400), float("inf"), float("nan"), True, "1", None])
def test_what_is_not_a_finite_number(value):
    from lmtk.files.declared import REAL

    assert not REAL.fits(value) and REAL.fits(-1e308) and REAL.fits(10**300)


def test_a_text_with_a_number_of_5000_digits_is_described():
    from lmtk.files.texts import describe

    assert dict(describe([(1, b"0 ||| a ||| 1 ||| b ||| 1 " + b"9" * 5000)])[0])["kind"].startswith("n-best lists")


@pytest.mark.parametrize("size", [2**31, 2**62, 2**70])
def test_a_header_that_claims_much_is_not_believed(models, monkeypatch, size):
    """Through a pipe too, of which the length is not known beforehand."""

    def lie(table):
        last = max(table.values(), key=lambda entry: entry["data_offsets"][1])
        last["data_offsets"][1] = last["data_offsets"][0] + size
        last["shape"] = [size]

    (models / "wrong").write_bytes(encoded(*decoded((models / "nplm").read_bytes()), lie))
    for command in ("lmtk info wrong", "cat wrong | lmtk info -"):
        limited = ["sh", "-c", f"ulimit -v 600000; {command}"]
        done = subprocess.run(limited, cwd=models, env=ENVIRONMENT, capture_output=True, text=True)
        place = "wrong" if "cat" not in command else "stdin"
        said = f"lmtk info: {place}: the file is incomplete or damaged; write it again\n"
        assert (done.returncode, done.stdout, done.stderr) == (1, "", said)
