"""The form for a profile: the framework proposed from the script, and each framework's own settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Input

from rankdeck_profiles import frameworks
from rankdeck_profiles.library import Library
from rankdeck_profiles.model import Profile
from rankdeck_tui.app import RankdeckApp
from rankdeck_tui.widgets.choice import Choice
from tui.deck import deck, sees, text, until

SIZE = (120, 40)
LIGHTNING = "import lightning as L\nL.Trainer()\n"
SERVERS = "import tensorflow as tf\ntf.distribute.ParameterServerStrategy(r)\n"


def saved(place: Path, name: str) -> Profile:
    return Library(place / "config", place / "work").profile(name)


def chosen(app: RankdeckApp, key: str) -> str:
    return app.screen.query_one(f"#{key}", Choice).value


async def test_the_script_s_framework_is_proposed_with_the_reason(place: Path) -> None:
    (place / "work/train.py").write_text(LIGHTNING)
    app = deck(place)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "n")
        await sees(pilot, "New profile", "Settings of torchrun", "max_restarts")
        await pilot.press(*"mine", "tab", *"train.py")
        await sees(pilot, "train.py imports lightning", "Settings of lightning", "default: node")
        await pilot.press("tab")
        await sees(pilot, "Tell its Trainer num_nodes")
        await pilot.press("ctrl+s")
        await sees(pilot, "mine")
        await until(pilot, lambda: "New profile" not in text(app))
        assert (saved(place, "mine").framework, dict(saved(place, "mine").options)) == ("lightning", {})


async def test_the_person_s_own_choice_stands(place: Path) -> None:
    (place / "work/train.py").write_text(LIGHTNING)
    app = deck(place)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "n")
        await sees(pilot, "New profile")
        await pilot.press("tab", "tab", "right")
        await until(pilot, lambda: chosen(app, "framework") == "pytorch")
        await pilot.press("shift+tab", *"train.py")
        await sees(pilot, "train.py imports lightning: lightning would fit")
        assert chosen(app, "framework") == "pytorch"


async def test_settings_that_the_script_needs_come_with_the_proposal(place: Path) -> None:
    (place / "work/ps.py").write_text(SERVERS)
    app = deck(place)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "n")
        await sees(pilot, "New profile")
        await pilot.press(*"mine", "tab", *"ps.py")
        await sees(pilot, "ParameterServerStrategy", "Settings of tensorflow")
        assert chosen(app, "option-strategy") == "ps"
        app.screen.query_one("#option-workers", Input).value = "3"
        app.screen.query_one("#process_count", Input).value = "4"
        await pilot.press("ctrl+s")
        await until(pilot, lambda: (place / "config/profiles/mine.toml").exists())
        profile = saved(place, "mine")
        assert (profile.framework, profile.process_count) == ("tensorflow", 4)
        assert dict(profile.options) == {"strategy": "ps", "workers": 3}


async def test_a_setting_that_can_not_be_is_told_beside_it(place: Path) -> None:
    app = deck(place)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "n")
        await sees(pilot, "max_restarts")
        await pilot.press(*"mine", "tab", *"train.py")
        app.screen.query_one("#option-max_restarts", Input).value = "often"
        await pilot.press("ctrl+s")
        await sees(pilot, "max_restarts = often", "a whole number, 0 or more")
        assert app.screen.focused is app.screen.query_one("#option-max_restarts")
        assert not (place / "config/profiles/mine.toml").exists()


async def test_settings_and_further_keys_are_changed_and_taken_away(place: Path) -> None:
    path = place / "config/profiles/tf.toml"
    path.write_text(
        'framework = "tensorflow"\nscript = "t.py"\ncommunication_backend = "gloo"\nazure_names = true\n'
        'process_count = 4\n[options]\nstrategy = "ps"\nevaluator = true\n'
    )
    app = deck(place)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "tf")
        await pilot.press("tab", "j", "j", "e")
        await sees(pilot, "Change profile tf", "Settings of tensorflow")
        assert chosen(app, "option-evaluator") == "true"
        assert (chosen(app, "communication_backend"), chosen(app, "azure_names")) == ("gloo", "true")
        evaluator = app.screen.query_one("#option-evaluator", Choice)
        evaluator.focus()
        await pilot.press("left", "ctrl+s")
        await until(pilot, lambda: "evaluator" not in path.read_text())
        assert dict(saved(place, "tf").options) == {"strategy": "ps"}
        await sees(pilot, "tf")
        await until(pilot, lambda: "Change profile" not in text(app))
        await pilot.press("e")
        await sees(pilot, "Settings of tensorflow")
        app.screen.query_one("#framework", Choice).focus()
        await pilot.press("right")
        await sees(pilot, "Settings of jax")
        app.screen.query_one("#azure_names", Choice).focus()
        await pilot.press("left", "ctrl+s")
        await until(pilot, lambda: "jax" in path.read_text())
    profile = saved(place, "tf")
    assert (profile.framework, dict(profile.options), profile.azure_names) == ("jax", {}, False)
    assert profile.process_count == 4


@pytest.mark.parametrize("name", frameworks.names())
async def test_every_framework_s_settings_have_a_field_with_help(place: Path, name: str) -> None:
    (place / "config/profiles/resnet.toml").write_text(f'framework = "{name}"\nscript = "t.py"\n')
    options = frameworks.get(name).options
    app = deck(place)
    async with app.run_test(size=(80, 24)) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "j", "e")
        await sees(pilot, "Change profile resnet")
        await until(pilot, lambda: len(app.screen.query("#settings Field")) == len(options))
        for key, option in options.items():
            field = app.screen.query_one(f"#option-{key}")
            field.focus()
            begin = " ".join(option.what.split()[1:4])
            await until(pilot, lambda begin=begin: begin in " ".join(text(app).split()))
            await sees(pilot, key)
            assert field.region.height == 1
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "Change profile" not in text(app))
    assert (saved(place, "resnet").framework, dict(saved(place, "resnet").options)) == (name, {})


async def test_what_is_not_changed_is_not_rewritten(place: Path) -> None:
    """A command that ends in .py stays a command."""
    path = place / "config/profiles/resnet.toml"
    path.write_text('framework = "command"\ncommand = ["./my tool.py", "--fast"]\nargs = ["a b"]\n')
    app = deck(place)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "j", "e")
        await sees(pilot, "Change profile resnet", "'./my tool.py' --fast")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "Change profile" not in text(app))
    assert saved(place, "resnet").command == ("./my tool.py", "--fast")
    assert saved(place, "resnet").args == ("a b",)


async def test_a_program_that_is_no_script_is_a_command(place: Path) -> None:
    app = deck(place)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "n")
        await sees(pilot, "New profile")
        await pilot.press(*"mine", "tab", *"./solver", "tab", "right", "right", "ctrl+s")
        await until(pilot, lambda: (place / "config/profiles/mine.toml").exists())
    assert (saved(place, "mine").framework, saved(place, "mine").command) == ("mpi", ("./solver",))


async def test_the_form_fits_a_small_screen(place: Path) -> None:
    app = deck(place)
    async with app.run_test(size=(40, 10)) as pilot:
        await sees(pilot, "Runs")
        await pilot.press("tab", "n")
        await sees(pilot, "New profile", "Save")
        for _ in range(13):
            await pilot.press("tab")
            assert "Save" in text(app)
            assert app.screen.focused is not None
            assert app.screen.focused.region.height == 1


async def test_the_list_of_frameworks_says_when_to_choose_each(place: Path) -> None:
    app = deck(place)
    async with app.run_test(size=(80, 24)) as pilot:
        await sees(pilot, "bert")
        await pilot.press("tab", "n")
        await sees(pilot, "New profile")
        app.screen.query_one("#framework", Choice).focus()
        await pilot.press("enter")
        await sees(pilot, "Hugging Face Trainer scripts: one rank a GPU, by torchrun")
        await pilot.press(*"jax", "enter")
        await until(pilot, lambda: bool(app.screen.query("#option-slurm_names")))
        assert chosen(app, "framework") == "jax"


async def test_the_folder_and_the_interpreter_are_saved_and_kept_as_they_were_spelled(place: Path) -> None:
    (place / "work/code").mkdir()
    (place / "work/code/train.py").write_text(LIGHTNING)
    app = deck(place)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "n")
        await sees(pilot, "New profile")
        await pilot.press(*"mine", "tab", *"train.py")
        app.screen.query_one("#python", Input).value = "~/venv/bin/python"
        app.screen.query_one("#workdir", Input).value = "code"
        await sees(pilot, "train.py imports lightning")
        await pilot.press("ctrl+s")
        file = place / "config/profiles/mine.toml"
        await until(pilot, file.exists)
        assert 'python = "~/venv/bin/python"' in file.read_text()
        assert 'workdir = "code"' in file.read_text()
        await until(pilot, lambda: "New profile" not in text(app))
        await sees(pilot, "mine")
        written = file.read_text()
        await pilot.press("e")
        await sees(pilot, "Change profile")
        app.screen.query_one("#args", Input).value = "--fast"
        await pilot.press("ctrl+s")
        await until(pilot, lambda: file.read_text() != written)
        assert 'workdir = "code"' in file.read_text()
        assert 'python = "~/venv/bin/python"' in file.read_text()


async def test_the_very_name_that_is_typed_is_taken(place: Path) -> None:
    """Others may hold the word in what is said of them, and stand before it."""
    app = deck(place)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "n")
        await sees(pilot, "New profile")
        app.screen.query_one("#framework", Choice).focus()
        for typed in ("pytorch", "tens", "torchrun"):
            await pilot.press("enter")
            await sees(pilot, "type to narrow")
            await pilot.press(*typed, "enter")
            await until(pilot, lambda typed=typed: chosen(app, "framework").startswith(typed))
