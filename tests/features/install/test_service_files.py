"""The files of the service mean to systemd and launchd exactly what was put into them."""

from __future__ import annotations

import plistlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.features.install.unit_syntax import BadUnit, Unit

from ollim_bot.features.install.service import (
    LABEL,
    LAUNCHD,
    SENTINEL,
    SENTINEL_LABEL,
    SYSTEMD,
    TIMER,
    UNIT,
    ServiceDefinition,
    Supervisor,
    SupervisorKind,
    is_ours,
    is_unchanged,
)

LOG = Path("/home/ada/Library/Logs/ollim-bot.log")
_ODD = st.text(st.sampled_from("""ab/ .%$"'\\{}#;:=&<>~-üß漢"""), min_size=1, max_size=12)
_PATHS = _ODD.map(lambda text: f"/{text.strip()}/x")
_DEFINITIONS = st.builds(
    ServiceDefinition,
    st.tuples(_PATHS, _ODD),
    _PATHS.map(Path),
    st.dictionaries(st.sampled_from(["PATH", "OLLIM_DATA_DIR", "TZ"]), _ODD),
)
PLAIN = ServiceDefinition(
    ("/home/ada/.local/bin/ollim-bot",),
    Path("/home/ada/.ollim-bot"),
    {"OLLIM_DATA_DIR": "/home/ada/.ollim-bot", "PATH": "/usr/bin:/bin"},
)


@given(_DEFINITIONS)
def test_systemd_runs_exactly_these_words_in_this_place(wanted: ServiceDefinition) -> None:
    files = SYSTEMD.texts(wanted, LOG)
    bot, sentinel = (Unit(files[name]) for name in (UNIT, SENTINEL))
    for unit, command in ((bot, wanted.command), (sentinel, (*wanted.command, "sentinel"))):
        ran = unit.command({"x": "expanded"})
        assert tuple(ran[3:] if ran[0] == "/bin/sh" else ran) == command
        assert unit.environment() == wanted.environment
        assert Path(unit.folder()) == wanted.data_dir
    assert SYSTEMD.definition_in(files[UNIT]) == wanted


@given(_DEFINITIONS)
def test_launchd_runs_exactly_these_words_in_this_place(wanted: ServiceDefinition) -> None:
    files = LAUNCHD.texts(wanted, LOG)
    for label, command in (
        (LABEL, wanted.command),
        (SENTINEL_LABEL, (*wanted.command, "sentinel")),
    ):
        agent = plistlib.loads(files[f"{label}.plist"].encode())
        assert agent["Label"] == label
        assert tuple(agent["ProgramArguments"]) == command
        assert agent["EnvironmentVariables"] == wanted.environment
        assert Path(agent["WorkingDirectory"]) == wanted.data_dir
    assert LAUNCHD.definition_in(files[f"{LABEL}.plist"]) == wanted


def test_the_bot_comes_again_after_a_failure_in_pauses_and_never_for_wrong_settings() -> None:
    unit = Unit(SYSTEMD.texts(PLAIN, LOG)[UNIT])
    assert unit.one("Service.Restart") == "on-failure"
    assert unit.one("Service.RestartPreventExitStatus") == "2"
    assert unit.one("Unit.StartLimitIntervalSec") == "0"
    assert unit.one("Service.KillMode") == "mixed", "the engine ends after the bot"
    assert int(unit.one("Service.TimeoutStopSec")) > 20
    assert int(unit.one("Service.RestartSec")) >= 5
    assert unit.one("Install.WantedBy") == "default.target"
    agent = plistlib.loads(LAUNCHD.texts(PLAIN, LOG)[f"{LABEL}.plist"].encode())
    assert agent["KeepAlive"] == {"SuccessfulExit": False}
    assert agent["ExitTimeOut"] > 20
    assert agent["ThrottleInterval"] >= 10


def test_the_sentinel_comes_every_five_minutes() -> None:
    timer = Unit(SYSTEMD.texts(PLAIN, LOG)[TIMER])
    assert timer.one("Timer.OnCalendar") == "*:0/5"
    assert timer.one("Install.WantedBy") == "timers.target"
    agent = plistlib.loads(LAUNCHD.texts(PLAIN, LOG)[f"{SENTINEL_LABEL}.plist"].encode())
    assert agent["StartInterval"] == 300
    assert "KeepAlive" not in agent


def test_another_hand_in_a_file_is_seen() -> None:
    files = {**SYSTEMD.texts(PLAIN, LOG), **LAUNCHD.texts(PLAIN, LOG)}
    for text in files.values():
        assert is_ours(text)
        assert is_unchanged(text)
        edited = text.replace("ollim-bot", "ollim-bot2").replace(
            "ollim-bot2 service", "ollim-bot service"
        )
        assert is_ours(edited)
        assert not is_unchanged(edited)
        assert not is_ours("[Service]\nExecStart=/usr/bin/ollim-bot\n")


@pytest.mark.parametrize("text", ["", "[Service]\n", "not a unit", "<plist>", "<a><b></a>"])
@pytest.mark.parametrize("kind", [SYSTEMD, LAUNCHD])
def test_a_file_of_another_kind_is_no_service(
    kind: SupervisorKind, text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    supervisor = Supervisor(kind, {"HOME": str(tmp_path_factory.mktemp("home"))})
    supervisor.folder.mkdir(parents=True)
    supervisor.file.write_text(text)
    installed = supervisor.installed()
    assert installed is not None
    assert installed.definition is None


def test_the_reader_of_units_refuses_what_systemd_refuses() -> None:
    for line in ('"/a', "relative", '"/a\\"b"', "/a\\q", "/a %q"):
        with pytest.raises(BadUnit):
            Unit(f"[Service]\nExecStart={line}\n").command({})
    assert Unit("[Service]\nExecStart=/a $x ${x} $$x %h\n").command({"x": "1 2"}) == [
        *("/a", "1", "2", "1 2", "$x", "/home/expanded")
    ]
