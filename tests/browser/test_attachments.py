"""Files are added by button, drop and paste. A file that is too large is reported at once."""

from __future__ import annotations

import pytest
from playwright.async_api import FilePayload, Locator, Page, expect
from tests.browser.scene import PageScene, box, message, messages
from tests.engine.scene import tiny_png

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

_CARRY = """([kind, files]) => {
    const carried = new DataTransfer();
    for (const [name, type, bytes] of files) {
        carried.items.add(new File([new Uint8Array(bytes)], name, {type}));
    }
    const details = {bubbles: true, cancelable: true};
    const event = kind === "paste"
        ? new ClipboardEvent(kind, {...details, clipboardData: carried})
        : new DragEvent(kind, {...details, dataTransfer: carried});
    document.body.dispatchEvent(event);
}"""

_PASTE_TEXT_WITH_ITS_PICTURE = """() => {
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/plain", "a table");
    clipboardData.items.add(new File([new Uint8Array(3)], "table.png", {type: "image/png"}));
    const details = {clipboardData, cancelable: true, bubbles: true};
    return document.getElementById("box").dispatchEvent(new ClipboardEvent("paste", details));
}"""

_DROP_A_FILM = """() => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([new Uint8Array(26 * 1024 * 1024)], "film.mp4"));
    dataTransfer.items.add(new File(["fine"], "small.txt"));
    document.body.dispatchEvent(new DragEvent("drop", {dataTransfer, bubbles: true}));
}"""


def picture(name: str = "tap.png") -> FilePayload:
    return {"name": name, "mimeType": "image/png", "buffer": tiny_png()}


def chips(page: Page) -> Locator:
    return page.get_by_role("list", name="Files to send").get_by_role("listitem")


async def choose(page: Page, *files: FilePayload) -> None:
    async with page.expect_file_chooser() as choosing:
        await page.get_by_role("button", name="Add files").click()
    await (await choosing.value).set_files(list(files))


async def carry(page: Page, kind: str, *files: FilePayload) -> None:
    plain = [[file["name"], file["mimeType"], list(file["buffer"])] for file in files]
    await page.evaluate(_CARRY, [kind, plain])


async def test_files_from_the_button_are_shown_sent_and_can_be_opened(
    scene: PageScene, page: Page
) -> None:
    """A removed file is not sent, and unsent files survive a reload with their message."""
    await choose(page, picture("keep.png"), picture("drop.png"))
    await page.get_by_role("button", name="Remove drop.png").click()
    await expect(chips(page)).to_contain_text(["keep.png"])
    await box(page).press("Enter")
    await expect(messages(page).get_by_role("img")).to_have_count(1)
    assert [file.name for file in scene.core.received[0].files] == ["keep.png"]

    letter: FilePayload = {"name": "letter.txt", "mimeType": "text/plain", "buffer": b"Dear" * 500}
    await choose(page, picture(), letter)
    await expect(chips(page)).to_have_text([f"tap.png{len(tiny_png())} bytes", "letter.txt2 KB"])
    await expect(chips(page).first.locator("img")).to_have_js_property("naturalWidth", 1)
    await expect(box(page)).to_be_focused()
    await box(page).press_sequentially("This is the tap")
    await box(page).press("Enter")

    sent = message(page, "This is the tap")
    await expect(sent.get_by_role("img", name="tap.png")).to_have_js_property("naturalWidth", 1)
    await expect(chips(page)).to_have_count(0)
    assert [file.name for file in scene.core.received[1].files] == ["tap.png", "letter.txt"]
    async with page.expect_download() as downloading:
        await sent.get_by_role("link", name="letter.txt").click()
    path = await (await downloading.value).path()
    assert path.read_bytes() == b"Dear" * 500

    async with scene.without_server():
        await choose(page, picture("basin.png"))
        await box(page).press_sequentially("look")
        await box(page).press("Enter")
        await expect(message(page, "look")).to_contain_text("not sent yet")
    await page.reload()
    await expect(messages(page).get_by_role("img", name="basin.png")).to_be_visible()
    assert [file.name for file in scene.core.received[2].files] == ["basin.png"]
    assert len(scene.core.received) == 3


async def test_dropped_files_and_pasted_pictures_are_added_and_pasted_text_stays_text(
    scene: PageScene, page: Page
) -> None:
    """Files that are too large or too many are reported at once, and not added."""
    await carry(page, "dragover", picture())
    await expect(page.get_by_text("Drop the files to add them")).to_be_visible()
    await carry(page, "drop", picture('one "1".png'), picture("zwölf.png"))
    await expect(page.get_by_text("Drop the files to add them")).to_be_hidden()
    await expect(chips(page)).to_have_count(2)
    await box(page).press("Enter")
    await expect(messages(page).get_by_role("img")).to_have_count(2)
    assert [file.name for file in scene.core.received[0].files] == ['one "1".png', "zwölf.png"]

    await carry(page, "paste", picture("image.png"))
    await expect(chips(page)).to_contain_text(["image.png"])
    await box(page).press("Enter")
    await expect(messages(page).get_by_role("img", name="image.png")).to_be_visible()
    assert scene.core.received[1].text == ""
    await expect(chips(page)).to_have_count(0)

    assert await page.evaluate(_PASTE_TEXT_WITH_ITS_PICTURE), "it is left to the box"
    await expect(chips(page)).to_have_count(0)

    await page.evaluate(_DROP_A_FILM)
    notice = page.get_by_role("alert")
    await expect(notice).to_have_text("film.mp4 is too large. Files can be up to 25 MB.")
    await expect(chips(page)).to_contain_text(["small.txt"])
    await box(page).press_sequentially("x")
    await expect(notice).to_have_text("")
    await page.get_by_role("button", name="Remove small.txt").click()
    await expect(chips(page)).to_have_count(0)
    await choose(page, *(picture(f"{number}.png") for number in range(11)))
    await expect(chips(page)).to_have_count(10)
    await expect(notice).to_have_text("10.png is one file too many. A message takes up to 10.")
