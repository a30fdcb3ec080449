"""Pages in a real browser: `make browser` installs what these tests need beside Chromium itself."""

import base64
import json
import os
import shutil
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parents[2]
AXE = Path(os.environ.get("CODEBOUND_AXE", ROOT / ".venv/axe/node_modules/axe-core/axe.min.js"))
SWITCHES = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
SIZES = {"phone": (390, 844), "desktop": (1280, 900)}


class Browser:
    """A page as a visitor sees it."""

    def __init__(self, driver, keys, chains):
        self.driver, self.keys, self._chains, self.width = driver, keys, chains, 0

    def open(self, path, *, size="desktop", scheme="light"):
        self.width, height = SIZES[size]
        self.tell(
            "Emulation.setDeviceMetricsOverride",
            width=self.width,
            height=height,
            deviceScaleFactor=1,
            mobile=size == "phone",
        )
        self.look(scheme)
        self.driver.get("about:blank")
        for log in ("performance", "browser"):
            self.driver.get_log(log)
        self.driver.get(Path(path).absolute().as_uri())

    def look(self, scheme, medium=""):
        self.tell(
            "Emulation.setEmulatedMedia",
            media=medium,
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    def tell(self, command, **options):
        return self.driver.execute_cdp_cmd(command, options)

    def js(self, source, *arguments):
        return self.driver.execute_script(source, *arguments)

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def text(self, selector):
        return self.find(selector).text

    def active(self):
        return self.driver.switch_to.active_element

    def hover(self, selector):
        self._chains(self.driver).move_to_element(self.find(selector)).perform()

    def slide(self, selector, value):
        self.js(
            "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'));",
            self.find(selector),
            value,
        )

    def expect_a_good_page(self, name, *, scheme):
        """It is quiet, accessible, fits the screen, and is as light or dark as it was asked to be."""
        assert self.violations() == []
        assert self.overhang() <= 0
        assert self.complaints() == []
        assert self.outside_requests() == []
        picture = self.picture(name).convert("L").resize((1, 1))
        assert (picture.getpixel((0, 0)) > 128) == (scheme == "light")

    def overhang(self):
        """By how many pixels the content is wider than the screen, or than the column that it stands in."""
        column = self.js("return document.body.scrollWidth - document.body.clientWidth")
        return max(column, self.js("return document.documentElement.scrollWidth") - self.width)

    def complaints(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def outside_requests(self):
        """What was asked for since the page was opened, beside itself and what it carries."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [
            each["params"]["request"]["url"]
            for each in events
            if each["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in sent if not url.startswith("data:") and url != self.driver.current_url]

    def violations(self):
        """What axe-core finds, each with the elements."""
        if not AXE.exists():
            pytest.skip(f"there is no axe-core at {AXE}: make browser fetches it")
        self.tell("Runtime.evaluate", expression=AXE.read_text())
        found = self.driver.execute_async_script(
            "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then(done);"
        )
        return [(each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]]

    def picture(self, name):
        """The whole page as a picture; kept in build/browser, to be looked at."""
        size = self.tell("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": self.width, "height": min(size["height"], 12000), "scale": 1}
        data = self.tell("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        path = ROOT / "build/browser" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(data))
        return Image.open(path)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: make browser")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    chromedriver = shutil.which("chromedriver")
    if not (chromium and chromedriver):
        pytest.skip("there is no chromium with its chromedriver on this machine")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for switch in (*SWITCHES, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
    from selenium.webdriver.common.keys import Keys

    yield Browser(driver, Keys, webdriver.ActionChains)
    driver.quit()
