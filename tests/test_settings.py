"""Settings from presets, files and the command line."""

import pytest

from genepool.errors import SettingsError
from genepool.settings import PRESETS, Settings, changed, from_values, override, preset, read_toml, seconds, to_values


def test_the_paper_preset_has_every_figure_of_the_paper():
    paper = preset("paper")
    assert (paper.population_size, paper.workers, paper.steps) == (1000, 250, 25_600)
    assert (paper.batch, paper.momentum, paper.weight_decay) == (50, 0.9, 0.0001)
    assert (paper.learning_rate, paper.mutations, paper.mutation_odds) == (0.1, 1, {})
    assert (paper.selection, paper.set_point) == ("tournament", "paper")
    assert paper.workers * 4 == paper.population_size


@pytest.mark.parametrize("name", PRESETS)
def test_presets_survive_a_round_trip(name):
    assert from_values(to_values(preset(name))) == preset(name)


def test_assignments_are_read_as_the_settings_own_kind():
    settings = override(Settings(), ["steps=10", "target=0.5", "set_point=damped", "mutation_odds.identity=3"])
    assert (settings.steps, settings.target, settings.set_point) == (10, 0.5, "damped")
    assert settings.mutation_odds == {"identity": 3.0}


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("populaton_size=5", "did you mean 'population_size'"),
        ("steps", "write name=value"),
        ("steps=many", "wrong kind"),
        ("steps=-1", "steps is -1, but must lie between"),
        ("population_size=1", "population_size is 1"),
        ("target=nan", "target"),
        ("durability=none", "durability"),
        ("mutation_odds.identity=-1", "must not be negative"),
        ("a\nb=1", r"no setting 'a\\nb'"),
    ],
)
def test_a_wrong_assignment_is_one_sentence(assignment, message):
    with pytest.raises(SettingsError, match=message) as caught:
        override(Settings(), [assignment])
    assert "\n" not in str(caught.value)


def test_a_toml_file_gives_settings(tmp_path):
    (tmp_path / "a.toml").write_text('steps = 7\nset_point = "damped"\n[mutation_odds]\nidentity = 2\n')
    settings = changed(Settings(), read_toml(tmp_path / "a.toml"))
    assert (settings.steps, settings.set_point, settings.mutation_odds) == (7, "damped", {"identity": 2.0})
    (tmp_path / "b.toml").write_text("steps = = 7")
    with pytest.raises(SettingsError, match=r"b\.toml' is not TOML"):
        read_toml(tmp_path / "b.toml")
    with pytest.raises(SettingsError, match=r"c\.toml' cannot be read"):
        read_toml(tmp_path / "c.toml")


@pytest.mark.parametrize(("text", "value"), [("90", 90), ("90s", 90), ("10m", 600), ("1.5h", 5400), ("2d", 172_800)])
def test_times_have_units(text, value):
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "m", "ten", "-5m", "nan", "1e99", "5 minutes"])
def test_what_is_not_a_time_is_refused(text):
    with pytest.raises(SettingsError, match="not a time"):
        seconds(text)


def test_amounts_of_memory_are_written_as_people_write_them():
    from genepool.settings import size

    assert [size(text) for text in ("2G", "800m", "1.5GiB", "512MB", "4096")] == [
        2 * 2**30, 800 * 2**20, 3 * 2**29, 512 * 2**20, 4096,
    ]  # fmt: skip
    for text in ("", "G", "two", "-1G", "nanM", "0", "9e99"):
        with pytest.raises(SettingsError, match="not an amount of memory"):
            size(text)
