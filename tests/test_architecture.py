"""The rules of the architecture, checked in the source: layers, third-party imports, branches."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

import pytest

from ollim_bot.features.doctor.examination import MODULES

ROOT = Path(__file__).resolve().parent.parent
SOURCES, DOUBLES = ROOT / "src", ROOT / "devtools" / "doubles"
PACKAGE, STANDBY = "ollim_bot", "ollim_bot_standby"

# Each layer may import from the layers above it in this list, and from itself unless it is a row
# of several: those never import each other, and neither do features.
LAYERS: list[list[str]] = [
    ["kernel.base"],
    ["kernel.values"],
    ["kernel.store", "kernel.engine"],
    ["kernel.permissions", "kernel.changes", "kernel.prompts", "kernel.upkeep"],
    ["kernel.tools"],
    ["kernel.conversation"],
    ["kernel.schedule"],
    ["surfaces.discord", "surfaces.web", "surfaces.terminal", "offline"],
    ["features"],
    ["app"],
    ["__main__"],
    # A package of its own, which the program knows by one loader.
    [STANDBY],
]

# Imports that go up, or from one feature to another, and why. No line is added here: what two
# features need is a value of the kernel.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("features.calendars", "features.google"): "the account at Google",
    ("features.changes", "features.tasks"): "a task is taken back in its list",
    ("features.install", "features.keeping"): "an update begins with a backup",
    ("features.jobs", "features.today"): "the line that adds something stands in their list too",
    ("features.keeping", "features.doctor"): "a restore ends with an examination",
    ("features.sentinel", "features.install"): "a timer of the system's service starts it",
    ("features.sentinel", "features.phone"): "it sends to the phone",
    ("features.setup", "features.calendars"): "a question and a flag subscribe to one",
    ("features.setup", "features.doctor"): "it ends with a short report",
    ("features.setup", "features.install"): "its last question installs the service",
    ("features.setup", "features.phone"): "one of its questions pairs the phone",
    ("features.tasks", "features.google"): "the account at Google",
    ("features.today", "features.tasks"): "lines of the day are not declared by the feature yet",
    ("features.webhooks", "features.jobs"): "a webhook is a job, with the verbs of one",
}
MOST_EXCEPTIONS = 14

ALLOWED_IMPORTERS = {
    "claude_agent_sdk": ["kernel.engine"],
    "discord": ["surfaces.discord"],
    "cronsim": ["kernel.values.cron"],
    "dateutil": ["kernel.values.repeats"],
    "watchfiles": ["kernel.schedule.watcher"],
    "aiohttp": [
        "surfaces.web",
        "surfaces.discord",
        "features.webhooks.webhook_server",
        "kernel.base.loopback",
        "offline",
    ],
    "yaml": ["kernel.store.yaml_fields"],
    "anyio": ["features.tool_servers"],
    "httpx2": ["features.tool_servers"],
    "jsonschema": ["features.tool_servers", "features.webhooks"],
    "mcp": ["kernel.engine.bridge", "features.tool_servers"],
    "markdown_it": ["surfaces.web"],
    "nh3": ["surfaces.web"],
    "PIL": ["kernel.store.attachments"],
    "google": ["features.google"],
    "google_auth_oauthlib": ["features.google"],
    "oauthlib": ["features.google"],
    "requests": ["features.google"],
    "icalendar": ["features.calendars"],
    "recurring_ical_events": ["features.calendars"],
    "segno": ["features.phone"],
    "http.client": ["kernel.base.http_exchange"],
    "sqlite3": ["kernel.store", f"{STANDBY}.postgres"],
    "psycopg": [f"{STANDBY}.postgres"],
    "subprocess": [
        "kernel.store.journal",
        "features.skills.skill_packages",
        "kernel.engine",
        "features.calendars",
        *("features.doctor", "features.install", "features.setup", "kernel.base", "kernel.upkeep"),
    ],
}

# Outside the terminal, a few imports wait until they are needed, for the sake of its start.
LATE = {
    ("kernel.store.frontmatter", "ollim_bot.kernel.store.yaml_fields"),
    ("features.google.tokens", "ollim_bot.features.google.oauth"),
    ("features.google.login", "ollim_bot.features.google.oauth"),
    ("kernel.values.repeats", "dateutil.rrule"),
    ("features.phone.pairing", "segno"),
    # The bot loads these once its jobs are armed, or never: they take as long as all the rest.
    ("kernel.engine.engine", "ollim_bot.kernel.engine.session"),
    ("features.tool_servers.tool_servers", "ollim_bot.features.tool_servers.server_connection"),
    ("app.app", "ollim_bot.features.webhooks.webhook_server"),
    # psycopg is an extra.
    (f"{STANDBY}.checks", f"{STANDBY}.moving"),
}

# Modules that may name Discord beside its surface: the settings, the question at set-up, and the
# tools, whose server has this name.
NAMING_DISCORD = {
    *("kernel.base.settings", "features.setup.setup_command"),
    *("kernel.tools.tool_context", "kernel.values.tool_patterns"),
}

# Of the functions that are left when short ones are written where they are called: their number
# falls, and with it what a twentieth of them is. ruff holds each one below twelve.
BRANCHES_P95 = 8
BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.BoolOp,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.match_case,
    ast.comprehension,
)


# The only command that may start slowly.
BOT_ITSELF = "app.start"

# Each of these costs a command more time than all of our own code together.
HEAVY = ("aiohttp", "asyncio", "claude_agent_sdk", "discord", "jsonschema", "logging", "pydantic")


@dataclass(frozen=True)
class Import:
    source: str
    target: str
    line: int
    in_function: bool
    is_for_types: bool = False

    def __str__(self) -> str:
        return f"{self.source}:{self.line} imports {self.target}"


class Statement(NamedTuple):
    module: str
    node: ast.stmt
    in_function: bool


@cache
def modules() -> dict[str, ast.Module]:
    """Every module by its name below `ollim_bot`, or by its whole name in the other package."""
    found = {}
    for path in sorted(SOURCES.rglob("*.py")):
        parts = path.relative_to(SOURCES).with_suffix("").parts
        whole = parts[:-1] if parts[-1] == "__init__" and parts[:-1] != (PACKAGE,) else parts
        found[below(".".join(whole))] = ast.parse(path.read_text())
    return found


def below(name: str) -> str:
    return name.removeprefix(f"{PACKAGE}.")


def path_of(module: str) -> Path:
    whole = module if is_within(module, STANDBY) else f"{PACKAGE}.{module}"
    return SOURCES / f"{whole.replace('.', '/')}.py"


@cache
def statements() -> tuple[Statement, ...]:
    return tuple(
        Statement(module, node, in_function)
        for module, tree in modules().items()
        for node, in_function in _statements(tree)
    )


@cache
def imports() -> tuple[Import, ...]:
    return tuple(_imports())


def _imports() -> Iterator[Import]:
    for_types = {id(node) for tree in modules().values() for node in type_imports(tree)}
    for module, node, in_function in statements():
        for target in imported(node):
            yield Import(module, target, node.lineno, in_function, id(node) in for_types)


def type_imports(tree: ast.Module) -> Iterator[ast.stmt]:
    """What stands below `if TYPE_CHECKING`, and is never run."""
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from node.body


def _statements(node: ast.AST, in_function: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    """Every statement below a node, and whether it is inside a function."""
    in_function = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, part, ()):
            if isinstance(inner, ast.stmt):
                yield inner, in_function
            yield from _statements(inner, in_function)


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        module = node.module or ""
        whole = [f"{module}.{alias.name}" for alias in node.names]
        inside = [name for name in whole if below(name) in modules()]
        return inside or [module]
    return []


def is_within(module: str, place: str) -> bool:
    return module == place or module.startswith(f"{place}.")


def layer(module: str) -> tuple[int, str]:
    for number, row in enumerate(LAYERS):
        for place in row:
            if is_within(module, place):
                return number, capability(module) if place == "features" else place
    raise AssertionError(f"{module} belongs to no layer: add it to LAYERS")


def capability(module: str) -> str:
    """The feature that a module is part of, by its folder or by its one file."""
    return ".".join(module.split(".")[:2])


def our_imports() -> list[Import]:
    return [
        Import(found.source, below(found.target), found.line, found.in_function)
        for found in imports()
        if found.target.startswith((f"{PACKAGE}.", STANDBY))
    ]


def test_imports_go_down_only() -> None:
    def goes_up(found: Import) -> bool:
        (own, own_place), (other, other_place) = layer(found.source), layer(found.target)
        return other > own or (other == own and own_place != other_place)

    up = [found for found in our_imports() if goes_up(found)]
    assert [str(found) for found in up if excused(found) not in EXCEPTIONS] == []
    assert EXCEPTIONS.keys() - {excused(found) for found in up} == set(), "these are gone"
    assert len(EXCEPTIONS) <= MOST_EXCEPTIONS


def excused(found: Import) -> tuple[str, str]:
    """Of two features, all imports of one of the other; else the two modules."""
    ends = found.source, found.target
    return (
        (capability(ends[0]), capability(ends[1]))
        if all(is_within(end, "features") for end in ends)
        else ends
    )


def test_only_the_loader_knows_the_package_of_the_standby() -> None:
    """An import of it would be one upwards; it may not be loaded by its name elsewhere either."""
    core = (name for name in modules() if not is_within(name, STANDBY) and path_of(name).is_file())
    assert [name for name in core if STANDBY in path_of(name).read_text()] == [
        "kernel.store.standby_loader"
    ]


# The values of the views that a double shows.
SHOWN = ("features.today.day", "features.week.week")


def test_doubles_stand_on_values_and_the_store_only() -> None:
    """The forms of jobs and the tables of the store have no disk."""
    allowed = ("kernel.base", "kernel.values", "kernel.store", "kernel.changes", *SHOWN)
    wrong = [
        f"{path.name} imports {target}"
        for path in DOUBLES.glob("*.py")
        for node, _ in _statements(ast.parse(path.read_text()))
        for target in imported(node)
        if is_within(target, "ollim_bot")
        and not any(is_within(target, f"ollim_bot.{place}") for place in allowed)
    ]
    assert wrong == []


def test_the_program_needs_no_double() -> None:
    """What is for developers is not part of the wheel."""
    assert [str(found) for found in imports() if is_within(found.target, "devtools")] == []


def test_there_is_no_cycle() -> None:
    graph: dict[str, set[str]] = {name: set() for name in modules()}
    for found in our_imports():
        graph[found.source].add(found.target)
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, f"cycle: {' > '.join((*path, module))}"
        if module not in done:
            for target in sorted(graph.get(module, ())):
                visit(target, (*path, module))
            done.add(module)

    for module in graph:
        visit(module, ())


@pytest.mark.parametrize("package", ALLOWED_IMPORTERS)
def test_a_third_party_is_imported_only_where_it_is_allowed(package: str) -> None:
    wrong = [
        str(found)
        for found in imports()
        if is_within(found.target, package)
        and not any(is_within(found.source, importer) for importer in ALLOWED_IMPORTERS[package])
    ]
    assert wrong == []


def test_a_channel_is_known_by_its_name_only_where_it_is_set_up() -> None:
    naming = {
        module
        for module, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value == "discord"
        if not is_within(module, "surfaces.discord")
    }
    assert naming == NAMING_DISCORD


def is_terminal(module: str) -> bool:
    """Whether it is loaded for a command, and so imports what only some commands need late."""
    of_a_noun = module.startswith("features.") and (
        module.endswith("_command") or module in NOUNS_BESIDE
    )
    return (
        of_a_noun
        or is_within(module, "surfaces.terminal")
        or module in (BOT_ITSELF, STANDBY, f"{STANDBY}.cli")
    )


# The nouns that are a feature by themselves, and what several nouns share.
NOUNS_BESIDE = frozenset(
    f"features.{name}"
    for name in (
        *("marks", "page", "standby", "jobs.job_arguments", "jobs.job_listing"),
        *("phone.push_setup",),
    )
)


def test_imports_inside_functions_are_for_the_terminal_only() -> None:
    late = {
        (found.source, found.target)
        for found in imports()
        if found.in_function and not is_terminal(found.source)
    }
    assert late == {each for each in LATE if each[0] in modules()}


def test_nothing_rebinds_the_state_of_a_module() -> None:
    wrong = [
        f"{module}:{node.lineno}"
        for module, node, _ in statements()
        if isinstance(node, ast.Global)
    ]
    assert wrong == []


def test_no_two_classes_have_one_name() -> None:
    places: dict[str, list[str]] = {}
    for name, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(name)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


SMALL = 60

# Small modules with one importer that stay separate files, and why. A tool and a command always
# have their own file.
APART = {
    "app.persona": "it is what a session is made of, for every kind of session",
    "conversation.sessions.conversation_tools": "its importer only composes",
    "kernel.engine.die_with_parent": "a script, which Python runs by its file",
}


def test_a_small_module_with_one_importer_is_part_of_it() -> None:
    importers: dict[str, set[str]] = {}
    for found in our_imports():
        importers.setdefault(found.target, set()).add(found.source)
    small = {
        name
        for name, sources in importers.items()
        if len(sources) == 1
        and path_of(name).is_file()
        and path_of(name).read_text().count("\n") < SMALL
        and not is_within(name, "kernel.tools")
        and not is_terminal(name)
    }
    assert small - APART.keys() == set()


def test_a_handler_of_every_error_says_why_or_raises_it_again() -> None:
    wrong = [
        f"{module}:{handler.lineno}"
        for module, node, _ in statements()
        if isinstance(node, ast.Try | ast.TryStar)
        for handler in node.handlers
        if _catches_everything(handler) and not isinstance(handler.body[-1], ast.Raise)
        if "#" not in line_of(module, handler.lineno)
    ]
    assert wrong == []


def line_of(module: str, number: int) -> str:
    path = path_of(module)
    lines = path.read_text().splitlines() if path.is_file() else []
    return lines[number - 1]


def _catches_everything(handler: ast.ExceptHandler) -> bool:
    caught = handler.type
    return caught is None or (
        isinstance(caught, ast.Name) and caught.id in ("Exception", "BaseException")
    )


def test_functions_branch_little() -> None:
    functions = [
        node
        for _, node, _ in statements()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    branches = [sum(isinstance(node, BRANCHES) for node in own_nodes(each)) for each in functions]
    assert quantiles(branches, n=20)[-1] <= BRANCHES_P95


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """All that is in the function, but for what is in functions inside it."""
    waiting = [*ast.iter_child_nodes(function)]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield node
            waiting += ast.iter_child_nodes(node)


def imports_at_the_top(first: Iterable[str]) -> Iterator[Import]:
    """Follows the imports through all of our own modules."""
    reached, waiting = set[str](), list(first)
    while waiting:
        module = waiting.pop()
        if module in reached:
            continue
        reached.add(module)
        for found in imports():
            if found.source == module and not (found.in_function or found.is_for_types):
                waiting.append(below(found.target))
                yield found


def test_what_the_terminal_imports_at_its_top_is_light() -> None:
    commands = [name for name in modules() if is_terminal(name) and name != BOT_ITSELF]
    assert heavy_of(commands, HEAVY) == []


def test_upkeep_does_without_the_engine_and_discord() -> None:
    """Importing them takes longer than the work of the doctor, a backup or an update."""
    features = (f"features.{name}" for name in ("doctor", "install", "keeping"))
    places = ("kernel.upkeep", *features, *MODULES)
    upkeep = [name for name in modules() if any(is_within(name, place) for place in places)]
    unneeded = ("aiohttp", "claude_agent_sdk", "discord", "jsonschema", "mcp", "pydantic")
    assert heavy_of(upkeep, unneeded) == []


def test_each_check_is_asked_by_the_doctor() -> None:
    declaring = {
        module
        for module, node, _ in statements()
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CHECKS"
    }
    assert declaring == {*MODULES}


def heavy_of(first: Iterable[str], heavy: Sequence[str]) -> list[str]:
    return [
        str(found)
        for found in imports_at_the_top(first)
        if any(is_within(found.target, package) for package in heavy)
    ]


# What a command runs without, besides the heavy ones, and how many of our modules it may load.
NEEDS = {
    "version": (("dataclasses", "datetime", "json", "pathlib", "zoneinfo"), 5),
    "tasks list": (("argparse", "cronsim", "hashlib", "sqlite3", "subprocess"), 21),
    "sentinel": (("argparse", "cronsim", "hashlib", "sqlite3", "subprocess"), 18),
    "reminder list": (("argparse", "cronsim", "hashlib", "sqlite3", "subprocess"), 27),
}


@pytest.mark.real_process
@pytest.mark.parametrize("command", NEEDS)
def test_a_command_loads_only_what_it_needs(command: str, tmp_path: Path) -> None:
    unneeded, most = NEEDS[command]
    script = (
        f"import sys; from ollim_bot.surfaces.terminal.main import main; main({command.split()!r});"
        f"print(*sorted(set(sys.modules) & {set(HEAVY) | set(unneeded)!r}));"
        "ours = [sys.modules[name] for name in sys.modules if name.startswith('ollim_bot')];"
        "print(sum(not hasattr(each, '__path__') for each in ours))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script],
        env={"OLLIM_DATA_DIR": str(tmp_path / "data"), "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    *_, loaded, ours = ran.stdout.splitlines()
    assert loaded == ""
    assert int(ours) <= most
    assert list(tmp_path.iterdir()) == []


@pytest.mark.real_process
def test_the_bot_arms_its_jobs_before_it_loads_what_no_reminder_needs() -> None:
    late = {"claude_agent_sdk", "discord", "httpx2", "jsonschema", "mcp", "pydantic"}
    script = f"import sys, ollim_bot.app.start; print(*sorted(set(sys.modules) & {late!r}))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert found.stdout == b"\n"
