"""One seed for all that is random outside hypothesis, printed so that a run can be repeated."""

from __future__ import annotations

import secrets

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--chaos-seconds", type=float, default=10, help="how long to injure")
    parser.addoption("--chaos-seed", type=int, default=None, help="repeat the run of a seed")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "chaos: real processes are killed at random moments")
    if config.option.chaos_seed is None:
        config.option.chaos_seed = secrets.randbelow(1_000_000)


def pytest_report_header(config: pytest.Config) -> str:
    seed = config.option.chaos_seed
    return f"chaos seed: {seed} (repeat with --chaos-seed {seed})"
