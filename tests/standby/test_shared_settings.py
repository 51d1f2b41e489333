"""Zone, names and models are those of the bot, whatever a machine of it says."""

from __future__ import annotations

import pytest
from tests.standby.scene import StandbyScene, env_of
from tests.terminal import Terminal

from ollim_bot.kernel.base.settings import SHARED, Settings
from ollim_bot_standby.keys import note_missing

pytestmark = pytest.mark.usefixtures("postgres")

OWNERS = {
    "OLLIM_TIMEZONE": "America/New_York",
    "OLLIM_USER_NAME": "Zoë „Zo“ O'Neil #1",
    "OLLIM_BOT_NAME": "Mühle",
    "OLLIM_MODEL": "offline",
    "ANTHROPIC_MODEL": "claude-opus-5-5",
    "ANTHROPIC_DEFAULT_OPUS_MODEL": "opus-of-hers",
    "ANTHROPIC_DEFAULT_SONNET_MODEL": "sonnet-of-hers",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL": "haiku-of-hers",
}
OTHERS = {
    "OLLIM_TIMEZONE": "Asia/Kathmandu",
    "OLLIM_USER_NAME": "Robin",
    "OLLIM_BOT_NAME": "Otto",
    "OLLIM_MODEL": "auto",
    **{name: "another" for name in OWNERS if name.startswith("ANTHROPIC_")},
}


def settings_of(terminal: Terminal) -> Settings:
    return Settings.from_env(terminal.environ, cwd=terminal.home)


def env_text(values: dict[str, str]) -> str:
    return "".join(f'{name}="{value}"\n' for name, value in values.items())


def moved(scene: StandbyScene, owners: dict[str, str]) -> Terminal:
    """The first machine has moved; the second one, which is in use, has said nothing yet."""
    scene.desk.environ.pop("OLLIM_TIMEZONE")
    scene.desk.write(".env", env_text(owners))
    scene.init()
    scene.use("shelf")
    shelf = scene.machine("shelf")
    shelf.environ.update(OLLIM_TIMEZONE="", TZ="UTC", LANG="de_DE.UTF-8", LC_ALL="tr_TR.UTF-8")
    return shelf


@pytest.mark.parametrize(
    ("owners", "others"),
    [(OWNERS, {}), (OWNERS, OTHERS), ({"OLLIM_TIMEZONE": "America/New_York"}, OTHERS)],
    ids=["silent", "otherwise", "first is silent"],
)
def test_the_settings_of_the_first_machine_count_on_the_second(
    scene: StandbyScene, owners: dict[str, str], others: dict[str, str]
) -> None:
    shelf = moved(scene, owners)
    shelf.write(".env", env_text(others))
    told = shelf.done("standby", "join", "--from", str(scene.file))
    desk, found = settings_of(scene.desk), settings_of(shelf)
    assert found.shared() == desk.shared()
    assert str(found.zone) == "America/New_York"
    unlike = {name for name in others if others[name] != owners.get(name, "not set")}
    if "OLLIM_MODEL" not in owners:
        unlike.discard("OLLIM_MODEL")  # both leave the choice to the bot
    status = shelf.done("standby", "status")
    for name in SHARED:
        for said in (told, status):
            assert (f"{name} is {others.get(name)} here" in said) == (name in unlike), (name, said)
    for said in (told, status):
        clock = "The clock of this machine is on UTC; the bot keeps America/New_York." in said
        assert clock == (not others)
    assert "here;" not in scene.desk.done("standby", "status")


@pytest.mark.real_process
def test_doctor_commands_and_set_up_go_by_those_of_the_owner(scene: StandbyScene) -> None:
    scene.desk.done("reminder", "add", "--at", "2026-11-18T20:50", "-m", "Pill")
    shelf = moved(scene, OWNERS)
    shelf.write(".env", env_text({"OLLIM_USER_NAME": "Robin"}))
    shelf.done("standby", "join", "--from", str(scene.file))
    told = shelf.run("doctor").out
    assert "OLLIM_USER_NAME is Robin here" in told
    assert "America/New_York, from the settings; this machine is on UTC" in told
    assert "is Robin here" not in scene.desk.run("doctor").out
    assert shelf.done("reminder", "list") == scene.desk.done("reminder", "list")
    assert "20:50" in shelf.done("reminder", "list")
    shelf.done("setup", "--non-interactive", "--user-name", "Ada", "--timezone", "Europe/Rome")
    assert scene.on_server(lambda tx: tx.names.get()).user == "Ada"
    assert scene.on_server(lambda tx: tx.config.get()).timezone == "Europe/Rome"


def test_the_address_alone_makes_them_count(scene: StandbyScene) -> None:
    """What lies there of another bot, or of an earlier time, changes nothing."""
    desk = scene.desk
    desk.write("state/settings.env", env_text(OWNERS))
    assert settings_of(desk).user_name == "friend"
    assert str(settings_of(desk).zone) == "Europe/Berlin"


def test_who_goes_back_to_a_file_keeps_them(scene: StandbyScene) -> None:
    """Also on a machine that says otherwise."""
    shelf = moved(scene, OWNERS)
    shelf.write(".env", env_text(OTHERS))
    shelf.done("standby", "join", "--from", str(scene.file))
    with scene.leading("shelf", shelf):
        pass
    before = settings_of(shelf).shared()
    assert "back. From the next start on" in shelf.done("standby", "leave", "--yes")
    assert "DATABASE_URL" not in env_of(shelf)
    assert settings_of(shelf).shared() == before


def test_a_leader_notes_what_no_machine_has_noted_and_the_zone_of_the_schedule(
    scene: StandbyScene,
) -> None:
    """So it is for a bot that moved to its server before these came along."""
    shelf = moved(scene, OWNERS)
    shelf.done("standby", "join", "--from", str(scene.file))
    for machine in (shelf, scene.desk):
        machine.paths.shared_settings.unlink()
    shelf.write(".env", f"DATABASE_URL={scene.url}\nOLLIM_BOT_NAME=Otto\n")
    first = note_missing(settings_of(shelf), "America/New_York")
    assert (str(first.zone), first.bot_name, first.user_name) == (
        "America/New_York",
        "Otto",
        "friend",
    )
    scene.desk.paths.shared_settings.write_text(shelf.paths.shared_settings.read_text())
    second = note_missing(settings_of(scene.desk), "Asia/Kathmandu")
    assert (str(second.zone), second.bot_name) == ("America/New_York", "Otto")
    assert second.user_name == OWNERS["OLLIM_USER_NAME"]
    assert second == note_missing(settings_of(scene.desk), "")


def test_what_is_wrong_in_the_shared_settings_is_named_and_does_not_count(
    scene: StandbyScene,
) -> None:
    moved(scene, OWNERS)
    path = scene.desk.paths.shared_settings
    path.write_text(path.read_text().replace("America/New_York", "Atlantis/Süd"))
    scene.desk.write(".env", f"DATABASE_URL={scene.url}\nOLLIM_TIMEZONE=Europe/Rome\n")
    found = settings_of(scene.desk)
    assert (str(found.zone), found.user_name) == ("Europe/Rome", OWNERS["OLLIM_USER_NAME"])
    [told] = found.unlike
    assert told.startswith(f"{path}: OLLIM_TIMEZONE: 'Atlantis/Süd' is not a time zone.")
