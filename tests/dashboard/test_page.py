"""The dashboard's page in a real browser, on running experiments. Screenshots go to build/screenshots."""

import contextlib
import functools
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from genepool.dashboard import export
from genepool.experiment import Experiment
from tests.support.dashboards import COMMAND, PATIENCE, dashboard, evolve, experiment, wait_for
from tests.support.processes import workers_of

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PICTURES = Path(os.environ.get("GENEPOOL_SCREENSHOTS", "build/screenshots"))
WAIT = 1000 * PATIENCE
MARKUP = "<img src=x onerror=document.title='broken'>"


@pytest.fixture(scope="module", autouse=True)
def needed():
    """Skip without a browser or a page, unless GENEPOOL_NEEDS_BROWSER is set."""
    missing = [
        *([] if BROWSER else ["chromium (Debian: apt-get install chromium)"]),
        *([] if (export.FOLDER / "page.js").exists() else ["the built page (make page)"]),
    ]
    if missing and os.environ.get("GENEPOOL_NEEDS_BROWSER"):
        pytest.fail(f"The page cannot be tested without {' and '.join(missing)}.")
    if missing:
        pytest.skip(f"needs {' and '.join(missing)}")


@pytest.fixture(scope="module")
def browser(needed):
    from playwright.sync_api import sync_playwright

    PICTURES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"], timeout=WAIT)
        yield found
        found.close()


@pytest.fixture(scope="module")
def folder(needed, tmp_path_factory):
    """A run in progress in its own processes, an evolved experiment, an empty one and a broken one."""
    place = tmp_path_factory.mktemp("experiments")
    evolve(experiment(place / f"evolved {MARKUP.replace('/', '')}"), 60)
    experiment(place / "empty")
    (place / "torn").mkdir()
    (place / "torn" / "experiment.json").write_text("{")
    words = [
        "--preset",
        "faithful",
        "--workers",
        1,
        "--population",
        6,
        "--steps",
        15,
        "--seed",
        4,
        "--set",
        "budget.time=none",
    ]
    command = [*COMMAND, "run", place / "going", *words, "--set", "population.durability=fast", "--dashboard"]
    errors = (place / "run.txt").open("w")
    run = subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True)
    try:
        wait_for(lambda: (place / "going" / "experiment.json").exists())
        yield place
    finally:
        for process in (run.pid, *workers_of(place / "going")):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        run.wait()
        errors.close()


@pytest.fixture(scope="module")
def client(folder):
    with dashboard(folder, "--control") as found:
        yield found


@pytest.fixture
def page(browser):
    """A page without errors in the console, except those that a test excuses."""
    context = browser.new_context(viewport={"width": 1280, "height": 860}, permissions=["clipboard-read"])
    with listened(context) as page:
        yield page


@contextlib.contextmanager
def listened(context):
    """A page of a context; the console must be empty at the end."""
    page, complaints = context.new_page(), []
    page.set_default_timeout(WAIT)
    page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.excused = []
    yield page
    context.close()
    assert [text for text in complaints if not any(words in text for words in page.excused)] == []


def key_of(client, name):
    """The key of an experiment that the dashboard has read."""
    key = client.keys()[name]
    wait_for(lambda: not client.status(key)["reading"])
    return key


def at(client, view, name, rest=""):
    return f"{client.address}#/{view}/{key_of(client, name)}{rest}"


def evolved(client):
    return next(one for one in list(client.keys()) if one.startswith("evolved"))


def picture(page, name):
    # Changes of one frame are painted by the end of the next.
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.screenshot(path=PICTURES / f"{name}.png")


def dots(page):
    return int(page.get_attribute(".cloud", "data-dots"))


def until_dots(page, least):
    """Wait until that many individuals are drawn."""
    until(page, f"Number(document.querySelector('.cloud')?.dataset.dots) >= {least}")
    until(page, f"window.genepoolCloud?.frames.rows >= {least}")


def choose(page, label, value):
    """Choose an axis or a colouring, and wait until it is drawn."""
    page.select_option(f"label:has-text('{label}') select", value)
    until(page, f"genepoolCloud.frames.{label} === '{value}'")


def place_of(page, row):
    """The position of a dot on the screen."""
    return page.evaluate(
        """row => { const [x, y] = genepoolCloud.place(row), box = genepoolCloud.plot.over.getBoundingClientRect();
                    return [x + box.left, y + box.top]; }""",
        row,
    )


def until(page, condition):
    """Wait without `eval`, which the page's policy forbids."""
    wait_for(lambda: page.evaluate(f"() => Boolean({condition})"))


def until_address(page, end):
    until(page, f"location.hash.endsWith('{end}')")


def wide(page):
    """The visible length of the x axis."""
    return page.evaluate("genepoolCloud.plot.scales.x.max - genepoolCloud.plot.scales.x.min")


def pixels_drawn(page):
    """The number of pixels of the plot's buffer that are not empty."""
    return page.evaluate(
        "() => new Uint32Array(genepoolCloud.pixels.data.buffer).reduce((count, pixel) => count + (pixel !== 0), 0)"
    )


def test_a_run_in_progress_gains_dots_without_a_reload(page, client, folder):
    page.goto(at(client, "population", "going"))
    until_dots(page, 3)
    page.evaluate("window.marked = true")
    until_dots(page, dots(page) + 4)
    assert page.evaluate("window.marked")
    assert pixels_drawn(page) > 20
    page.wait_for_selector(".pill:has-text('running')")
    picture(page, "population-going")
    # The dashboard that `genepool run --dashboard` started shows the same run.
    line = wait_for(lambda: re.search(r"dashboard  (http://127.0.0.1:\d+/)", (folder / "run.txt").read_text()))
    page.goto(line[1])
    until_dots(page, 3)
    page.goto("about:blank")


def test_pointing_clicking_and_zooming(page, client):
    page.goto(at(client, "population", evolved(client)))
    until_dots(page, 60)
    assert dots(page) == 60
    row = page.evaluate("genepoolCloud.population.best()")
    identity = page.evaluate("row => genepoolCloud.population.ids[row]", row)
    choose(page, "across", "order")
    x, y = place_of(page, row)
    page.mouse.move(x, y)
    page.wait_for_selector(f".glance[data-id='{identity}']")
    page.mouse.click(x, y)
    until_address(page, identity)
    until(page, f"genepoolCloud.selected === {row}")
    picture(page, "population-selected")
    whole = wide(page)
    page.mouse.wheel(0, -400)
    wait_for(lambda: wide(page) < 0.9 * whole)
    near = page.evaluate("genepoolCloud.plot.scales.x.min")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 120, y + 10, steps=4)
    page.mouse.up()
    until(page, f"genepoolCloud.plot.scales.x.min < {near}")
    assert page.evaluate("location.hash").endswith(identity), "dragging is not clicking"
    picture(page, "population-zoomed")
    page.click("text=everything")
    wait_for(lambda: wide(page) > 0.99 * whole)


def test_every_axis_and_colouring(page, client):
    page.goto(at(client, "population", evolved(client)))
    until_dots(page, 60)
    for colour in ("mutation", "depth", "parameters", "learning_rate", "state"):
        choose(page, "colour", colour)
        assert pixels_drawn(page) > 100
        picture(page, f"population-{colour}")
    for axis in ("flops", "order", "time"):
        choose(page, "across", axis)
        assert pixels_drawn(page) > 100
        picture(page, f"population-{axis}")


def test_the_keyboard_is_enough(page, client):
    page.goto(at(client, "population", evolved(client)))
    until_dots(page, 60)
    whole, row = wide(page), page.evaluate("genepoolCloud.population.best()")
    page.focus(".cloud")
    page.keyboard.press("+")
    wait_for(lambda: wide(page) < 0.9 * whole)
    page.keyboard.press("0")
    wait_for(lambda: wide(page) > 0.99 * whole)
    page.keyboard.press("b")
    until(page, f"genepoolCloud.selected === {row}")
    page.keyboard.press("p")
    until(page, f"genepoolCloud.selected >= 0 && genepoolCloud.selected !== {row}")
    page.keyboard.press("Enter")
    page.wait_for_selector(".individual svg.diagram")


def test_an_individual_is_drawn_and_its_dna_can_be_copied(page, client):
    key = key_of(client, evolved(client))
    rows = client.get(f"/api/experiments/{key}/individuals")["rows"]
    deepest = rows["id"][rows["depth"].index(max(rows["depth"]))]
    page.goto(at(client, "individual", evolved(client), f"/{deepest}"))
    page.wait_for_selector(".individual svg.diagram")
    one = client.get(f"/api/experiments/{key}/individuals/{deepest}")
    assert page.locator(".drawing svg .layer").count() == len(one["layers"]) + 1
    arcs = sum(not (e["backbone"] and e["from"] == i - 1) for i, v in enumerate(one["layers"]) for e in v["edges"])
    assert page.locator(".drawing svg .arc").count() == arcs
    assert page.locator("tbody tr").count() == sum(len(layer["edges"]) for layer in one["layers"])
    page.click("text=Copy DNA")
    copied = wait_for(lambda: page.evaluate("navigator.clipboard.readText()"))
    assert json.loads(copied) == one["dna"]
    with page.expect_download() as download:
        page.click("text=Download DNA")
    assert json.loads(download.value.path().read_text()) == one["dna"]
    page.wait_for_selector(".facts-and-curves .chart canvas >> nth=1")  # the one along the lineage is loaded later
    picture(page, "individual")


def test_the_lineage_is_a_strip_from_the_trivial_network_on(page, client):
    key = key_of(client, evolved(client))
    best = client.status(key)["best"]["id"]
    line = client.get(f"/api/experiments/{key}/lineage/{best}")["ancestors"]
    page.goto(at(client, "lineage", evolved(client)))
    page.wait_for_selector(f".strip .card >> nth={len(line) - 1}")
    assert page.locator(".strip .card").count() == len(line) > 2
    shown = page.locator(".between .mutation").all_inner_texts()
    assert shown == [" + ".join(one["mutations"]) for one in line[1:]]
    assert page.locator(".family circle").count() >= len(line)
    picture(page, "lineage")
    page.locator(".strip .card").last.click()
    page.wait_for_selector(f".individual[data-id='{best}']")


def test_budget_and_workers(page, client):
    page.goto(at(client, "budget", "going"))
    page.wait_for_selector("table.workers tbody tr")
    assert page.locator("table.workers tbody tr").count() == 1
    page.wait_for_selector(".budget-view .chart canvas")
    picture(page, "budget")


def test_experiments_are_compared(page, client):
    page.goto(at(client, "compare", "going"))
    page.wait_for_selector(".compare[data-curves='2']")
    assert "not a valid manifest" in page.inner_text(".compare")
    page.select_option("label:has-text('across') select", "flops")
    page.wait_for_selector(".compare[data-across='flops'] canvas")
    picture(page, "compare")
    page.uncheck("tr:has-text('going') input")
    page.wait_for_selector(".compare[data-curves='1']")


def test_control_is_refused_without_the_token_and_works_with_it(page, client, folder):
    page.excused.append("401")
    page.goto(at(client, "control", "going"))
    page.wait_for_selector("text=needs the token")
    picture(page, "control-token")
    page.fill("input[name=token]", "wrong-token")
    page.click("text=Use it")
    page.fill("input[name=value]", "2")
    page.click("button:text-is('Change')")
    page.wait_for_selector(".trouble:has-text('The token is missing or wrong')")
    assert page.locator("input[name=token]").count() == 1
    assert Experiment.open(folder / "going").settings().breeding.mutations == 1
    picture(page, "control-refused")
    page.goto("about:blank")
    page.goto(f"{client.address}#token={client.token}")
    page.wait_for_selector("main > *")
    assert client.token not in page.url
    page.goto(at(client, "control", "going"))
    page.fill("input[name=value]", "2")
    page.click("button:text-is('Change')")
    page.wait_for_selector("p.done:has-text('mutations is 2 now')")
    assert Experiment.open(folder / "going").settings().breeding.mutations == 2
    page.click("text=Raise the rate")
    page.wait_for_selector("p.done:has-text('More mutations')")
    page.click("summary")
    page.wait_for_selector("details[open]")
    picture(page, "control")
    page.goto(at(client, "population", "going"))
    page.click(".changes summary")
    page.wait_for_selector(".changes[open] li:has-text('mutations')")
    picture(page, "population-changes")


def test_nothing_in_a_directory_becomes_markup(page, client, folder):
    (folder / evolved(client) / "pop" / "0000" / MARKUP.replace("/", "")).mkdir()
    page.goto(at(client, "budget", evolved(client)))
    page.wait_for_selector("li:has-text('foreign:')")
    assert page.title() == "Genepool"
    assert page.locator("img").count() == 0
    page.locator("text=Put aside").scroll_into_view_if_needed()
    picture(page, "budget-broken-entry")


ATTACK = """async ([target, experiment]) => {
  const order = { method: 'POST', body: '{"stop": true}', headers: { 'content-type': 'application/json' } };
  const read = (path, options) => fetch(path, options).then((answer) => answer.text(), () => '');
  const run = new Promise((done) => {
    const script = document.createElement('script');
    script.onload = () => done('run');
    script.onerror = () => done('');
    script.src = target + 'page.js';
    document.body.append(script);
  });
  const heard = new Promise((done) => {
    const feed = new EventSource(experiment + '/events');
    feed.onmessage = feed.onopen = () => done('heard');
    feed.onerror = () => done('');
  });
  await read(experiment + '/control', { ...order, mode: 'no-cors' });
  return [await read(target + 'api'), await read(experiment + '/control', order), await heard, await run];
}"""


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"], ids=["another site", "another port of the same host"])
def test_a_page_from_elsewhere_gets_nothing_and_changes_nothing(page, client, folder, tmp_path, host):
    page.excused.append("")  # the browser reports all of it
    (tmp_path / "index.html").write_text("<title>elsewhere</title>")
    handler = functools.partial(Silent, directory=tmp_path)
    before = Experiment.open(folder / "empty").version()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as elsewhere:
        threading.Thread(target=elsewhere.serve_forever, daemon=True).start()
        page.goto(f"http://{host}:{elsewhere.server_port}/")
        experiment = f"{client.address}api/experiments/{client.keys()['empty']}"
        got = page.evaluate(ATTACK, [client.address, experiment])
        elsewhere.shutdown()
    assert got == [""] * len(got)
    assert Experiment.open(folder / "empty").version() == before


def test_empty_and_unreadable_experiments_are_shown_as_such(page, client):
    page.excused.append("404")
    page.goto(at(client, "population", "empty"))
    page.wait_for_selector("text=No individuals yet")
    picture(page, "state-empty")
    page.goto(f"{client.address}#/population/{client.keys()['torn']}")
    page.wait_for_selector("text=The experiment cannot be read")
    picture(page, "state-broken")


@pytest.mark.thorough
def test_finished_and_missing_experiments_are_shown_as_such(page, tmp_path):
    place, away = tmp_path / "experiments" / "e", tmp_path / "away"
    evolve(experiment(place), 20)
    with dashboard(place.parent) as client:
        page.goto(at(client, "population", "e"))
        until_dots(page, 20)
        picture(page, "population-20")
        Experiment.open(place).set({"budget.individuals": 10})
        page.wait_for_selector("text=Finished: 10 individuals")
        picture(page, "state-finished")
        place.rename(away)
        page.wait_for_selector("[role=alert]:has-text('There is no experiment')")
        assert dots(page) == 20
        picture(page, "state-missing")
        away.rename(place)
        until(page, "!document.querySelector('[role=alert]')")
        page.goto("about:blank")


def test_a_folder_without_experiments_waits_for_one(page, tmp_path):
    with dashboard(tmp_path) as client:
        page.goto(client.address)
        page.wait_for_selector("text=No experiment here yet")
        picture(page, "state-no-experiment")
        evolve(experiment(tmp_path / "first"), 4)
        until_dots(page, 4)
        page.goto("about:blank")


SEEN = {
    "population": ".cloud canvas",
    "individual": ".individual .diagram",
    "lineage": ".strip .card",
    "budget": ".budget-view .chart canvas",
    "compare": ".compare[data-curves='2'] canvas",
    "control": "input[name=token]",
}
"""A selector that shows that a view has been drawn."""


@pytest.mark.parametrize(
    ("name", "size", "scheme"),
    [
        ("phone", (390, 844), "dark"),
        pytest.param("phone-by-day", (390, 844), "light", marks=pytest.mark.thorough),
        ("dark", (1280, 860), "dark"),
    ],
)
def test_it_fits_a_phone_and_a_dark_theme(browser, client, name, size, scheme):
    screen = {"width": size[0], "height": size[1]}
    with listened(browser.new_context(viewport=screen, color_scheme=scheme, has_touch=size[0] < 500)) as page:
        for view, there in SEEN.items():
            page.goto(at(client, view, evolved(client)))
            page.wait_for_selector(there)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
            picture(page, f"{name}-{view}")


def test_the_page_reconnects_to_a_restarted_dashboard(page, folder):
    page.excused.append("ERR_")
    place = folder / "going"
    with dashboard(place) as first:
        page.goto(first.address)
        until_dots(page, 3)
        before, port = dots(page), first.place.rpartition(":")[2]
    page.wait_for_selector("text=connection lost")
    picture(page, "state-connection-lost")
    with dashboard(place, "--port", port):
        until_dots(page, before + 1)
        until(page, "!document.body.innerText.includes('connection lost')")
        page.goto("about:blank")


def test_the_exported_file_opens_without_a_server(page, folder, tmp_path):
    target = tmp_path / "page.html"
    subprocess.run([*COMMAND, "dashboard", str(folder), "--export", str(target)], check=True, capture_output=True)
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(target.as_uri())
    page.wait_for_selector("select.which")
    names = page.locator("select.which option").all_inner_texts()
    page.select_option("select.which", label=next(name for name in names if name.startswith("evolved")))
    until_dots(page, 60)
    page.click("nav a:has-text('Lineage')")
    page.wait_for_selector(".strip .card")
    picture(page, "export")
    assert all(url.startswith(("file:", "data:")) for url in requests)
