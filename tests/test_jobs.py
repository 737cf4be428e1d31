"""Jobs: frozen records, and the tables of rules between their options."""

import dataclasses
import importlib
import inspect
import pkgutil
from dataclasses import dataclass

import pytest

import lmtk.commands
import lmtk.jobs
from lmtk.commands import COMMANDS, click_command
from lmtk.errors import UsageError
from lmtk.jobs import rules
from lmtk.jobs.rules import (
    build,
    check,
    excludes,
    fields_of,
    needs,
    one_of,
    option_named,
    options_given,
    required,
    wrong,
)

FOLDERS = lmtk.jobs, lmtk.commands
MODULES = [
    importlib.import_module(f"{folder.__name__}.{module.name}")
    for folder in FOLDERS
    for module in pkgutil.iter_modules(folder.__path__)
]
JOBS = [
    value
    for module in MODULES
    for name, value in vars(module).items()
    if inspect.isclass(value) and value.__module__ == module.__name__ and name.endswith(("Job", "Scoring", "Smoothing"))
]


@dataclass(frozen=True)
class Part:
    width: int = 1
    lists: dict[int, str] = option_named("listN", {})


@dataclass(frozen=True)
class Whole:
    part: Part = dataclasses.field(default_factory=Part)
    text: tuple[str, ...] = ()
    big_one: bool = False
    weight: float | None = option_named("lambda")
    kind: str = "plain"


def message(rule, **values):
    try:
        check(build(Whole, values), (rule,))
    except UsageError as e:
        return str(e)
    return None


def test_rules_say_which_options_are_wrong():
    assert message(needs("big_one weight", "width lists")) is None
    assert message(needs("big_one weight", "width lists"), weight=1.0) == "-lambda needs -width or -listN"
    assert message(needs("big_one weight", "width lists"), weight=1.0, lists={2: "x"}) is None
    assert message(excludes("big_one", "text weight"), big_one=True) is None
    either = {"big_one": True, "weight": 0.0}
    assert message(excludes("big_one", "text weight"), **either) == "-big-one cannot be combined with -lambda"
    assert message(excludes("big_one", "weight", "not with {weight}"), **either) == "not with 0.0"
    assert message(required("weight")) == "-lambda is missing"
    assert message(required("weight"), weight=0.0) is None
    assert message(wrong(lambda job: job.part.width > 2, "width {width}"), width=3) == "width 3"
    assert message(one_of("kind", ("plain", "odd", "even"))) is None
    assert message(one_of("kind", ("plain", "odd", "even")), kind="x") == "-kind is plain, odd or even, not x"


def test_jobs_are_made_of_fields_that_exist():
    job = build(Whole, {"width": 5, "text": ("a",)})
    assert (job.part.width, job.text, job.part.lists) == (5, ("a",), {})
    assert options_given(job, "width lists text weight") == ["-width", "-text"]
    with pytest.raises(TypeError, match="unknown option 'widht'"):
        build(Whole, {"widht": 5})
    with pytest.raises(KeyError):
        options_given(job, "widht")


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.__name__)
def test_jobs_are_frozen_and_documented(job):
    assert job.__dataclass_params__.frozen
    names = [about.name for about in dataclasses.fields(job)]
    assert job.__doc__ and not job.__doc__.startswith(f"{job.__name__}("), (
        "the fields have their meaning in a docstring"
    )
    assert len(names) == len(set(names))


@pytest.mark.parametrize("module", [m for m in MODULES if hasattr(m, "RULES")], ids=lambda m: m.__name__)
def test_rules_name_fields(module):
    """Every rule can be asked of a job with its defaults and of a job with other values: no field is misspelled."""
    job = [value for value in vars(module).values() if value in JOBS][-1]
    for values in ({}, {name: another(about.type) for name, about in fields_of(job).items()}):
        unchecked = unchecked_job(job, values)
        for rule in module.RULES:
            assert rule(unchecked) is None or "{" not in rule(unchecked)


def another(kind):
    """A value of a field of this type."""
    arguments = getattr(kind, "__args__", ())
    if getattr(kind, "__origin__", None) is tuple:
        return (another(arguments[0]),)
    if getattr(kind, "__origin__", None) is dict:
        return {2: another(arguments[1])}
    if arguments:
        return another(arguments[0])
    return {bool: True, int: 3, float: 0.5, str: "x", bytes: b"x"}[kind]


def unchecked_job(job, values):
    """A job that is not checked."""
    made = object.__new__(job)
    for about in dataclasses.fields(job):
        is_part = dataclasses.is_dataclass(about.type)
        value = unchecked_job(about.type, values) if is_part else values.get(about.name, rules.default_of(about))
        object.__setattr__(made, about.name, value)
    return made


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_heading_and_a_help_text(name):
    for option in click_command(name).params:
        assert option.rich_help_panel and option.help.endswith((".", ")", "...", "]"))
