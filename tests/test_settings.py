"""Settings in sections: presets, bounds, names, files and the command line."""

import msgspec
import pytest
from msgspec.structs import replace

from genepool.errors import SettingsError
from genepool.experiment import Experiment
from genepool.settings import (
    FIELDS,
    FIXED,
    PRESETS,
    SECTIONS,
    Settings,
    by_name,
    changed,
    differences,
    fixed_and_tunable,
    flat,
    from_values,
    override,
    preset,
    read_toml,
    seconds,
    size,
    to_values,
    written,
)

NUMBERS = {
    name: field
    for name, field in FIELDS.items()
    if isinstance(field.kind, msgspec.inspect.IntType | msgspec.inspect.FloatType)
}


def test_the_paper_preset_has_every_figure_of_the_paper():
    paper = preset("paper")
    assert (paper.population.size, paper.workers.number(1000), paper.training.steps) == (1000, 250, 25_600)
    assert (paper.training.batch, paper.training.momentum, paper.training.weight_decay) == (50, 0.9, 0.0001)
    assert (paper.breeding.learning_rate, paper.breeding.mutations, paper.breeding.odds) == (0.1, 1, None)
    assert (paper.population.selection, paper.population.set_point) == ("tournament", "paper")
    assert paper.population.founders == "population"


@pytest.mark.parametrize("name", ["paper", "lab", "faithful"])
def test_these_presets_differ_only_in_numbers(name):
    numbers = {"population.size", "population.lease", "training.steps", "budget.time", "data.source"}
    assert differences(preset("paper"), preset(name)).keys() <= numbers


@pytest.mark.parametrize(("population", "workers"), [(2, 1), (3, 1), (10, 2), (50, 12), (100, 25), (1000, 250)])
def test_workers_are_a_quarter_of_the_population_unless_given(population, workers):
    for name in ("paper", "lab", "faithful"):
        settings = changed(preset(name), {"population.size": population})
        assert settings.workers.number(settings.population.size) == workers
        assert changed(settings, {"workers.count": 7}).workers.number(population) == 7
    assert preset("laptop").workers.number(population) is None
    assert changed(preset("laptop"), {"workers.rule": "quarter"}).workers.number(population) == workers


def test_the_paper_has_no_departure():
    assert preset("paper").limits == SECTIONS["limits"]()
    off = dict.fromkeys(("parameters", "memory", "flops", "milliseconds", "child_steps")) | {"redraw": False}
    assert msgspec.structs.asdict(preset("paper").limits) == off
    assert set(by_name(preset("paper")).values()) >= {None}
    for section in ("training_budget", "final_phase", "escape", "budget"):
        assert getattr(preset("paper"), section) == SECTIONS[section]()


@pytest.mark.parametrize("name", PRESETS)
def test_presets_keep_every_bound_and_survive_a_round_trip(name):
    assert from_values(to_values(preset(name))) == preset(name)
    assert changed(Settings(), by_name(preset(name))) == preset(name)


def test_an_unknown_preset_gets_the_nearest_name():
    with pytest.raises(SettingsError, match="no preset 'labtop'; did you mean 'laptop'"):
        preset("labtop")


@pytest.mark.parametrize("name", NUMBERS)
def test_every_number_has_bounds_that_are_kept_and_named(name):
    kind, optional = NUMBERS[name].kind, NUMBERS[name].optional
    low, least = (kind.gt, "more than") if kind.ge is None else (kind.ge, "at least")
    for value, words, bound in (
        (low - 1, least, low),
        (kind.le * 2 if kind.le > 2**63 else min(kind.le * 2, 2**63), "at most", kind.le),
    ):
        with pytest.raises(SettingsError) as caught:
            changed(Settings(), {name: value})
        number = str(bound).removesuffix(".0")
        tail = ", or none." if optional else "."
        assert str(caught.value) == f"The setting {name} is {value}, but must be {words} {number}{tail}"
    assert by_name(changed(Settings(), {name: kind.le}))[name] == kind.le


@pytest.mark.parametrize("name", NUMBERS)
def test_no_number_may_be_a_text(name):
    for value in ("many", "", "nan" if isinstance(NUMBERS[name].kind, msgspec.inspect.FloatType) else "2.5"):
        with pytest.raises(SettingsError, match=f"The setting {name} is '?{value}'?, but must be"):
            changed(Settings(), {name: value})


@pytest.mark.parametrize("name", FIELDS)
def test_only_optional_settings_take_none(name):
    if FIELDS[name].optional:
        assert by_name(override(Settings(), [f"{name}=none"]))[name] is None
        assert by_name(changed(Settings(), {name: None}))[name] is None
    else:
        with pytest.raises(SettingsError, match=f"The setting {name} is none, but must be"):
            changed(Settings(), {name: None})


def test_assignments_are_read_as_the_type_of_the_setting():
    settings = override(
        Settings(),
        ["training.steps=10", "budget.target=0.5", "training.inheritance=none", "limits.redraw=true", "data.size=8x9"],
    )
    assert (settings.training.steps, settings.budget.target, settings.training.inheritance) == (10, 0.5, "none")
    assert settings.limits.redraw is True
    assert settings.data.height_and_width == (8, 9)


def test_single_odds_are_added_to_those_in_force():
    odds = override(Settings(), ["breeding.odds.identity=3"]).breeding.odds
    assert odds == {"identity": 3.0}
    laptop = override(preset("laptop"), ["breeding.odds.identity=3", "breeding.odds.widen=0"]).breeding.odds
    assert laptop == {**preset("laptop").breeding.odds, "identity": 3.0, "widen": 0.0}
    assert override(preset("laptop"), ["breeding.odds=none"]).breeding.odds is None


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("population.size=1", "The setting population.size is 1, but must be at least 2."),
        ("training.steps=many", "The setting training.steps is 'many', but must be a whole number."),
        ("training.momentum=high", "The setting training.momentum is 'high', but must be a number."),
        ("budget.individuals=0", "The setting budget.individuals is 0, but must be at least 1, or none."),
        ("population.durability=none", "The setting population.durability is 'none', but must be one of fast, safe."),
        ("data.size=32", "The setting data.size is 32, but must be written like 32x32, or none."),
        (
            "data.mean=grey",
            "The setting data.mean is 'grey', but must be written like 0.485,0.456,0.406, or none.",
        ),
        ("data.channels=2", "The setting data.channels is 2, but must be one of 1, 3, or none."),
        ("data.flip=maybe", "The setting data.flip is 'maybe', but must be true or false."),
        ("training.steps", "'training.steps' is not a setting; write section.name=value."),
        (
            "breeding.odds.identity=-1",
            "The setting breeding.odds is '{'identity': '-1'}', but must be a table of odds, each at least 0, or none.",
        ),
        ("training.stps=5", "There is no setting 'training.stps'; did you mean 'training.steps'?"),
        ("trainin.steps=5", "There is no setting 'trainin.steps'; did you mean 'training.steps'?"),
        ("qqqq=5", "There is no setting 'qqqq'; write section.name, with one of the sections experiment, data, popul"),
        ("a\nb=1", "There is no setting 'a\\nb'"),
    ],
)
def test_a_wrong_assignment_is_refused_in_one_sentence(assignment, message):
    with pytest.raises(SettingsError) as caught:
        override(Settings(), [assignment])
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("finish", "final_phase.share"),
        ("population_size", "population.size"),
        ("mutation_odds", "breeding.odds"),
        ("data", "data.source"),
        ("max_memory", "limits.memory"),
        ("escape_time", "escape.time"),
        ("time", "budget.time"),
        ("steps", "training.steps"),
        ("seed", "experiment.seed"),
        ("affordable", "limits.child_steps"),
    ],
)
def test_a_name_without_its_section_is_refused_with_the_right_one(old, new):
    with pytest.raises(SettingsError) as caught:
        override(Settings(), [f"{old}=1"])
    assert str(caught.value) == f"There is no setting '{old}'; it is now {new}."
    assert new in FIELDS


def test_there_are_65_settings():
    assert len(FIELDS) == sum(len(struct.__struct_fields__) for struct in SECTIONS.values()) == 65


def test_a_toml_file_has_a_table_per_section(tmp_path):
    (tmp_path / "a.toml").write_text(
        'population.set_point = "damped"\n[training]\nsteps = 7\n[breeding.odds]\nidentity = 2\n'
        '[budget]\ntime = "none"\n'
    )
    settings = changed(preset("laptop"), flat(read_toml(tmp_path / "a.toml")))
    assert (settings.training.steps, settings.population.set_point) == (7, "damped")
    assert (settings.breeding.odds, settings.budget.time) == ({"identity": 2.0}, None)
    (tmp_path / "old.toml").write_text("steps = 7")
    with pytest.raises(SettingsError, match=r"it is now training\.steps"):
        changed(Settings(), flat(read_toml(tmp_path / "old.toml")))
    (tmp_path / "section.toml").write_text("[trainin]\nsteps = 7")
    with pytest.raises(SettingsError, match="There is no setting 'trainin'"):
        changed(Settings(), flat(read_toml(tmp_path / "section.toml")))
    (tmp_path / "b.toml").write_text("steps = = 7")
    with pytest.raises(SettingsError, match=r"b\.toml' is not TOML"):
        read_toml(tmp_path / "b.toml")
    with pytest.raises(SettingsError, match=r"c\.toml' cannot be read"):
        read_toml(tmp_path / "c.toml")


def test_fixed_settings_are_stored_apart_and_refused_later(tmp_path):
    assert set(FIXED) == {
        "experiment.seed", "experiment.start", "data.source", "data.size", "data.channels", "data.mean", "data.std",
        "data.flip", "population.lease", "population.durability", "training.batch", "objective.kind",
        "objective.flops_target", "objective.flops_weight",
    }  # fmt: skip
    fixed, tunable = fixed_and_tunable(Settings())
    assert set(flat(fixed)) == set(FIXED)
    assert set(flat(tunable)) == set(FIELDS) - set(FIXED)
    experiment = Experiment.create(tmp_path / "e", preset("laptop"))
    other = {
        "experiment.seed": 3, "experiment.start": "x y", "data.source": "mnist", "data.size": "8x8", "data.flip": False,
        "data.channels": 1, "data.mean": "0.5", "data.std": "0.5",
        "population.lease": 5, "population.durability": "fast", "training.batch": 20,
        "objective.kind": "accuracy-per-flops", "objective.flops_target": 5, "objective.flops_weight": 1,
    }  # fmt: skip
    assert set(other) == set(FIXED)
    for name, value in other.items():
        with pytest.raises(SettingsError, match=f"other settings \\({name} is "):
            experiment.set({name: value})
    assert experiment.version() == 1


def test_values_made_in_python_are_checked_when_an_experiment_is_created(tmp_path):
    wrong = replace(preset("laptop"), population=replace(preset("laptop").population, size=1))
    with pytest.raises(SettingsError, match=r"population\.size is 1, but must be at least 2"):
        Experiment.create(tmp_path / "e", wrong)
    assert not (tmp_path / "e").exists()


def test_the_record_of_a_change_is_written_as_on_the_command_line(tmp_path):
    experiment = Experiment.create(tmp_path / "e", preset("laptop"))
    experiment.set({"budget.time": None, "limits.redraw": False, "training.steps": 7})
    assert experiment.published()[2].what == "set training.steps=7 limits.redraw=false budget.time=none"
    assert differences(preset("laptop"), experiment.settings()) == {
        "training.steps": 7,
        "limits.redraw": False,
        "budget.time": None,
    }
    assert [written(value) for value in (None, True, 0.5, "safe")] == ["none", "true", "0.5", "safe"]


@pytest.mark.parametrize(("text", "value"), [("90", 90), ("90s", 90), ("10m", 600), ("1.5h", 5400), ("2d", 172_800)])
def test_times_have_units(text, value):
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "m", "ten", "-5m", "nan", "1e99", "5 minutes"])
def test_what_is_not_a_time_is_refused(text):
    with pytest.raises(SettingsError, match="not a time"):
        seconds(text)


def test_amounts_of_memory_are_written_as_people_write_them():
    assert [size(text) for text in ("2G", "800m", "1.5GiB", "512MB", "4096")] == [
        2 * 2**30, 800 * 2**20, 3 * 2**29, 512 * 2**20, 4096,
    ]  # fmt: skip
    for text in ("", "G", "two", "-1G", "nanM", "0", "9e99"):
        with pytest.raises(SettingsError, match="not an amount of memory"):
            size(text)
