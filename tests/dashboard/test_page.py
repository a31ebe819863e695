"""The dashboard's page in a real browser, on experiments that really go on. Screenshots go to build/screenshots."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from genepool.dashboard import assets
from genepool.experiment import Experiment
from tests.acceptance.processes import workers_of
from tests.dashboard.living import COMMAND, dashboard, evolve, experiment, wait_for

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.thorough
PICTURES = Path(os.environ.get("GENEPOOL_SCREENSHOTS", "build/screenshots"))
WAIT = 15_000
MARKUP = "<img src=x onerror=document.title='broken'>"


@pytest.fixture(scope="module", autouse=True)
def needed():
    """Skipped where there is no browser or no page, unless somebody has said that there must be."""
    missing = [
        *([] if BROWSER else ["chromium (Debian: apt-get install chromium)"]),
        *([] if (assets.FOLDER / "page.js").exists() else ["the built page (make page)"]),
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
        found = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def folder(needed, tmp_path_factory):
    """A run that goes on in processes of its own, one that has been evolved, an empty one and a broken one."""
    place = tmp_path_factory.mktemp("experiments")
    evolve(experiment(place / f"evolved {MARKUP.replace('/', '')}"), 60)
    experiment(place / "empty")
    (place / "torn").mkdir()
    (place / "torn" / "experiment.json").write_text("{")
    words = ["--preset", "faithful", "--workers", 1, "--population", 6, "--steps", 15, "--seed", 4, "--set", "time=0"]
    command = [*COMMAND, "run", place / "going", *words, "--set", "durability=fast", "--dashboard"]
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
    """A page of which nothing may complain."""
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    page = context.new_page()
    page.set_default_timeout(WAIT)
    complaints = []
    page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.complaints = complaints
    yield page
    context.close()
    assert complaints == []


def at(client, view, name, rest=""):
    return f"{client.address}#/{view}/{client.keys()[name]}{rest}"


def evolved(client):
    return next(one for one in list(client.keys()) if one.startswith("evolved"))


def picture(page, name):
    page.wait_for_timeout(150)
    page.screenshot(path=PICTURES / f"{name}.png")


def dots(page):
    return int(page.get_attribute(".cloud", "data-dots"))


def place_of(page, row):
    """Where a dot is on the screen."""
    return page.evaluate(
        """row => { const [x, y] = genepoolCloud.place(row), box = genepoolCloud.plot.over.getBoundingClientRect();
                    return [x + box.left, y + box.top]; }""",
        row,
    )


def until(page, condition):
    """Waits without `eval`, which the page's own policy forbids."""
    wait_for(lambda: page.evaluate(f"() => Boolean({condition})"))


def pixels_drawn(page):
    """How many pixels of the cloud's own buffer are not empty."""
    return page.evaluate(
        "() => new Uint32Array(genepoolCloud.pixels.data.buffer).reduce((count, pixel) => count + (pixel !== 0), 0)"
    )


def test_a_run_that_goes_on_gains_dots_without_a_reload(page, client, folder):
    page.goto(at(client, "population", "going"))
    page.wait_for_selector(".cloud canvas")
    until(page, "document.querySelector('.cloud').dataset.dots > 2")
    page.evaluate("window.marked = true")
    before = dots(page)
    until(page, f"document.querySelector('.cloud').dataset.dots >= {before + 4}")
    assert page.evaluate("window.marked")
    assert pixels_drawn(page) > 20
    assert "going on" in page.inner_text(".pill")
    picture(page, "population-going")
    # The dashboard that `genepool run --dashboard` started beside its workers looks at the same run.
    line = wait_for(lambda: re.search(r"dashboard  (http://127.0.0.1:\d+/)", (folder / "run.txt").read_text()))
    page.goto(line[1])
    until(page, "document.querySelector('.cloud')?.dataset.dots > 2")
    page.goto("about:blank")


def test_pointing_clicking_and_zooming(page, client):
    page.goto(at(client, "population", evolved(client)))
    page.wait_for_selector(".cloud canvas")
    until(page, "document.querySelector('.cloud').dataset.dots >= 60")  # the server may still be reading
    count = dots(page)
    assert count == 60
    row = page.evaluate("genepoolCloud.population.best()")
    identity = page.evaluate("row => genepoolCloud.population.ids[row]", row)
    page.select_option("label:has-text('across') select", "order")
    x, y = place_of(page, row)
    page.mouse.move(x, y)
    page.wait_for_selector(f".glance[data-id='{identity}']")
    page.mouse.click(x, y)
    until(page, f"location.hash.endsWith('{identity}')")
    picture(page, "population-selected")
    scale = page.evaluate("genepoolCloud.plot.scales.x.max - genepoolCloud.plot.scales.x.min")
    page.mouse.wheel(0, -400)
    until(page, f"genepoolCloud.plot.scales.x.max - genepoolCloud.plot.scales.x.min < {0.9 * scale}")
    near = page.evaluate("genepoolCloud.plot.scales.x.min")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 120, y + 10, steps=4)
    page.mouse.up()
    until(page, f"genepoolCloud.plot.scales.x.min < {near}")
    assert page.evaluate("location.hash").endswith(identity), "dragging is not clicking"
    picture(page, "population-zoomed")
    page.click("text=everything")
    until(page, f"genepoolCloud.plot.scales.x.max - genepoolCloud.plot.scales.x.min > {0.99 * scale}")
    for mode in ("mutation", "depth", "parameters", "learning_rate"):
        page.select_option("label:has-text('colour') select", mode)
        picture(page, f"population-{mode}")
    for axis in ("flops", "time"):
        page.select_option("label:has-text('across') select", axis)
        page.wait_for_timeout(50)
    page.focus(".cloud")
    page.keyboard.press("b")
    page.keyboard.press("p")
    until(page, f"!location.hash.endsWith('{identity}')")
    page.keyboard.press("Enter")
    page.wait_for_selector(".individual svg.diagram")


def test_an_individual_is_drawn_and_its_dna_can_be_taken(page, client):
    key = client.keys()[evolved(client)]
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
    page.wait_for_selector("text=Copied")
    with page.expect_download() as download:
        page.click("text=Download DNA")
    assert '"learning_rate"' in download.value.path().read_text()
    picture(page, "individual")


def test_the_lineage_is_a_strip_from_the_trivial_network_on(page, client):
    key = client.keys()[evolved(client)]
    best = client.standing(key)["best"]["id"]
    line = client.get(f"/api/experiments/{key}/lineage/{best}")["ancestors"]
    page.goto(at(client, "lineage", evolved(client)))
    page.wait_for_selector(".strip .card")
    assert page.locator(".strip .card").count() == len(line) > 2
    shown = page.locator(".between .mutation").all_inner_texts()
    assert shown == [" + ".join(one["mutations"]) for one in line[1:]]
    assert page.locator(".family circle").count() >= len(line)
    picture(page, "lineage")
    page.locator(".strip .card").last.click()
    page.wait_for_selector(f".individual[data-id='{best}']")


def test_cost_and_workers(page, client):
    page.goto(at(client, "cost", "going"))
    page.wait_for_selector("table.workers tbody tr")
    assert page.locator("table.workers tbody tr").count() == 1
    picture(page, "cost")


def test_experiments_are_laid_over_each_other(page, client):
    page.goto(at(client, "compare", "going"))
    page.wait_for_selector(".compare[data-curves='2']")
    assert "not a manifest of ours" in page.inner_text(".compare")
    page.select_option("label:has-text('across') select", "flops")
    picture(page, "compare")
    page.uncheck("tr:has-text('going') input")
    page.wait_for_selector(".compare[data-curves='1']")


def test_control_is_refused_without_the_token_and_works_with_it(page, client, folder):
    page.goto(at(client, "control", "going"))
    page.wait_for_selector("text=needs the token")
    picture(page, "control-refused")
    page.fill("input[name=token]", "wrong-token")
    page.click("text=Use it")
    page.fill("input[name=value]", "2")
    page.click("button:text-is('Change')")
    page.wait_for_selector("text=needs the token")
    assert Experiment.open(folder / "going").settings().mutations == 1
    assert [text for text in page.complaints if "401" not in text] == []
    page.complaints.clear()
    page.goto("about:blank")
    page.goto(f"{client.address}#token={client.token}")
    page.wait_for_selector("main > *")
    assert client.token not in page.url
    page.goto(at(client, "control", "going"))
    page.fill("input[name=value]", "2")
    page.click("button:text-is('Change')")
    page.wait_for_selector("p.done")
    assert Experiment.open(folder / "going").settings().mutations == 2
    page.click("text=Raise the rate")
    until(page, "document.querySelector('p.done').innerText.includes('More mutations')")
    page.click("summary")
    picture(page, "control")
    page.goto(at(client, "population", "going"))
    page.wait_for_selector(".marks")
    page.click(".marks summary")
    assert "mutations" in page.inner_text(".marks")
    picture(page, "population-marks")


def test_nothing_in_a_directory_becomes_markup(page, client, folder):
    (folder / evolved(client) / "pop" / "0000" / MARKUP.replace("/", "")).mkdir()
    page.goto(at(client, "cost", evolved(client)))
    page.wait_for_selector("li:has-text('foreign:')")
    assert page.title() == "Genepool"
    assert page.locator("img").count() == 0


def test_empty_broken_vanished_and_finished_say_what_they_are(page, client, folder):
    page.goto(at(client, "population", "empty"))
    page.wait_for_selector("text=Nobody lives here yet")
    picture(page, "state-empty")
    broken = client.keys()["torn"]
    page.goto(f"{client.address}#/population/{broken}")
    page.wait_for_selector("text=It cannot be read")
    assert [text for text in page.complaints if "404" not in text] == []
    page.complaints.clear()
    picture(page, "state-broken")
    Experiment.open(folder / evolved(client)).set({"individuals": 10})
    page.goto(at(client, "population", evolved(client)))
    page.wait_for_selector("text=Finished: 10 individuals")
    picture(page, "state-finished")
    place, away = folder / evolved(client), folder.parent / f"{folder.name}-away"
    place.rename(away)
    page.wait_for_selector("[role=alert]:has-text('There is no experiment')")
    assert dots(page) == 60
    picture(page, "state-vanished")
    away.rename(place)
    until(page, "!document.querySelector('[role=alert]')")
    # The page of the broken one asks again every few seconds, and may have done so once more while it was left.
    assert [text for text in page.complaints if "404" not in text] == []
    page.complaints.clear()


def test_a_folder_without_experiments_waits_for_one(page, tmp_path):
    with dashboard(tmp_path) as client:
        page.goto(client.address)
        page.wait_for_selector("text=No experiment here yet")
        picture(page, "state-no-experiment")
        evolve(experiment(tmp_path / "first"), 4)
        page.wait_for_selector(".cloud canvas")
        page.goto("about:blank")


def test_it_fits_a_phone_also_by_night(browser, client):
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="dark", has_touch=True)
    page = context.new_page()
    for view in ("population", "individual", "lineage", "cost", "compare", "control"):
        page.goto(at(client, view, evolved(client)))
        page.wait_for_selector("main > *")
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
        picture(page, f"phone-{view}")
    context.close()


def test_a_dashboard_that_stops_and_starts_again_is_found_again(page, folder):
    place = folder / "going"
    with dashboard(place) as first:
        page.goto(first.address)
        until(page, "document.querySelector('.cloud')?.dataset.dots > 2")
        before, port = dots(page), first.place.rpartition(":")[2]
    page.wait_for_selector("text=connection lost")
    picture(page, "state-connection-lost")
    with dashboard(place, "--port", port):
        until(page, f"document.querySelector('.cloud')?.dataset.dots > {before}")
        until(page, "!document.body.innerText.includes('connection lost')")
    assert [text for text in page.complaints if "ERR_" not in text] == []
    page.goto("about:blank")
    page.complaints.clear()


def test_the_exported_file_opens_without_a_server(page, folder, tmp_path):
    target = tmp_path / "page.html"
    subprocess.run([*COMMAND, "dashboard", str(folder), "--export", str(target)], check=True, capture_output=True)
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(target.as_uri())
    until(page, "document.querySelector('.cloud, .blank')")
    names = page.locator("select.which option").all_inner_texts()
    page.select_option("select.which", label=next(name for name in names if name.startswith("evolved")))
    until(page, "document.querySelector('.cloud')?.dataset.dots == 60")
    page.click("nav a:has-text('Lineage')")
    page.wait_for_selector(".strip .card")
    picture(page, "export")
    assert all(url.startswith(("file:", "data:")) for url in requests)
