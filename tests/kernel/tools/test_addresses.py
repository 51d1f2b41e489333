"""Only public addresses are fetched, however an address is written."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.kernel.permissions import refusals as texts
from ollim_bot.kernel.permissions.path_rules import address_problem, resolve

NAMES = {
    "example.com": ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"],
    "xn--mnchen-3ya.example": ["93.184.215.14"],
    "rebound.example": ["93.184.215.14", "127.0.0.1"],
    "six.example": ["fe80::1%eth0"],
    "behind-nat64.example": ["64:ff9b::5db8:d70e"],
    "inside-nat64.example": ["64:ff9b::c0a8:101"],
    "router.example": ["192.168.1.1"],
    "empty.example": [],
}


def resolver(host: str) -> Sequence[str]:
    if host not in NAMES:
        raise socket.gaierror("no such name")
    return NAMES[host]


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com",
        "https://example.com/a?b=c@d#e",
        "HTTP://EXAMPLE.com:8080/",
        "https://example.com./",
        "https://münchen.example/ä",
        "https://93.184.215.14/",
        "https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]/",
        "https://93.184.215.14./",
        "https://0x5db8d70e/",
        "https://[64:ff9b::93.184.215.14]/",
        "https://[2002:5db8:d70e::1]/",
        "https://[::ffff:93.184.215.14]/",
        "https://[2606:2800::5efe:93.184.215.14]/",
        "https://behind-nat64.example/",
    ],
)
def test_public_addresses_are_fetched(url: str) -> None:
    assert address_problem(url, resolver) is None


@pytest.mark.parametrize(
    "host",
    ["nobody-knows.example", "NOBODY-knows.example.", "xn--nobody-3ya.example", "empty.example"],
)
def test_a_name_without_an_address_is_not_fetched(host: str) -> None:
    assert address_problem(f"https://{host}/x", resolver) == texts.unknown_address(
        host.lower().removesuffix(".")
    )


@pytest.mark.parametrize(
    "trouble", [socket.gaierror(-3, "try again"), TimeoutError(), OSError("no network")]
)
def test_where_nobody_can_say_what_a_name_leads_to_it_is_not_fetched(trouble: OSError) -> None:
    def failing(_: str) -> Sequence[str]:
        raise trouble

    assert address_problem("https://example.com/", failing) == texts.unknown_address("example.com")


@pytest.mark.real_time
def test_a_look_up_that_hangs_is_left_behind_and_many_of_them_are_too() -> None:
    release = threading.Event()

    def hanging(_: str) -> Sequence[str]:
        release.wait(60)
        return ["93.184.215.14"]

    try:
        before, began = threading.active_count(), time.monotonic()
        for _ in range(12):
            with pytest.raises(TimeoutError):
                resolve("example.com", 0.01, hanging)
        assert threading.active_count() - before <= 8
        assert time.monotonic() - began < 10
    finally:
        release.set()
    assert resolve("example.com", 30, resolver) == NAMES["example.com"]
    with pytest.raises(socket.gaierror):
        resolve("nobody-knows.example", 30, resolver)


@pytest.mark.parametrize("host", ["fa\u00df.example", "a\u200db.example", "\u03b1\u03c2.example"])
def test_a_name_that_the_one_who_fetches_reads_otherwise_is_not_fetched(host: str) -> None:
    def everything(_: str) -> Sequence[str]:
        return ["93.184.215.14"]

    assert address_problem(f"https://{host}/", everything) == texts.NO_WEB_ADDRESS


PRIVATE = [
    "localhost", "LOCALHOST", "localhost.", "a.localhost", "ⓛocalhost", "local\u00adhost",
    "127.0.0.1", "127.0.0.1.", "127.1", "127.255.255.254", "2130706433", "0x7f000001",
    "0x7f.0.0.1", "0177.0.0.1", "017700000001", "１２７.0.0.1", "127。0。0。1", "0", "0.0.0.0",
    "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.0.1", "169.254.169.254", "100.64.0.1",
    "2852039166", "0xa9fea9fe", "192.0.0.1", "198.18.0.1", "224.0.0.1", "240.0.0.1",
    "255.255.255.255", "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]", "[::127.0.0.1]", "[fe80::1]", "[fc00::1]", "[fd00:ec2::254]",
    "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[2001:0:1::1]", "[ff02::1]", "[2001:db8::1]",
    "[64:ff9b::192.168.1.1]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b::]", "[64:ff9b:1::5db8:d70e]",
    "[64:ff9b:1:7f00:0:100::]", "[2002:c0a8:101::1]", "[2002:a9fe:a9fe::]", "[2002::]",
    "[2001:0:5db8:d70e::a247:28f1]", "[::ffff:10.0.0.1]", "[::ffff:0:7f00:1]", "[::93.184.215.14]",
    "[2606:2800::5efe:10.0.0.1]", "[2606:2800::200:5efe:c0a8:101]", "[3fff::1]", "[fec0::1]",
    "[100::1]", "192.0.0.9", "127.0.0.1。", "0x7F.1", "127.0x1", "017700000001.", "１２７。１",
    "inside-nat64.example", "metadata.google.internal",
    "printer.local", "nas.lan", "nas.home.arpa", "router", "metadata",
    "rebound.example", "six.example", "router.example",
]  # fmt: skip


@pytest.mark.parametrize("host", PRIVATE)
@pytest.mark.parametrize("form", ["http://{}", "https://{}:8421/x"])
def test_nothing_of_this_machine_or_its_network_is_fetched(host: str, form: str) -> None:
    reason = address_problem(form.format(host), resolver)
    assert reason is not None
    assert "on this machine or its network" in reason


@pytest.mark.parametrize(
    "url",
    [
        "", "example.com", "//example.com", "ftp://example.com", "file:///etc/passwd",
        "data:text/html,x", "javascript:x", "http:example.com", "http:/example.com",
        "http:///example.com", "https://", "https:// example.com", " https://example.com",
        "https://exa mple.com", "https://example.com\\@127.0.0.1", "https://example.com/\\x",
        "http://\n127.0.0.1", "http://%31%32%37.0.0.1", "http://[::1", "http://[::zz]/", "http://a<b.com",
        "http://[fe80::1%25eth0]/", "http://example.com:port/", "http://example.com:99999/",
        "http://a..b/", "http://localhost../", "http://exam\0ple.com/", "gopher://127.0.0.1",
        "http://[::ffff:127.0.0.1]x/", "http://" + "a" * 70 + ".com",
    ],
)  # fmt: skip
def test_what_is_no_plain_address_is_not_fetched(url: str) -> None:
    assert address_problem(url, resolver) == texts.NO_WEB_ADDRESS


@pytest.mark.parametrize(
    "url",
    [
        "https://me@example.com",
        "https://me:pw@example.com/",
        "https://@example.com",
        "http://127.0.0.1%2f@x",
    ],
)
def test_an_address_with_a_sign_in_is_not_fetched(url: str) -> None:
    assert address_problem(url, resolver) == texts.NO_SIGN_IN


FORMS = st.sampled_from(["{0}", "{1}", "0x{1:x}", "0{1:o}", "[::ffff:{0}]", "0x{2:x}.{3}"])


@given(st.ip_addresses(network="127.0.0.0/8"), FORMS)
def test_no_form_of_a_loopback_address_gets_through(address: object, form: str) -> None:
    number = int(address)  # type: ignore[call-overload]
    host = form.format(address, number, number >> 24, number & 0xFFFFFF)
    assert address_problem(f"http://{host}/", resolver) is not None
