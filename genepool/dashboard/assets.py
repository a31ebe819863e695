"""The page as `make page` builds it: three files beside this one, which a wheel carries and the repository does not."""

from __future__ import annotations

from pathlib import Path

from genepool.errors import MissingDependencyError

FOLDER = Path(__file__).parent / "static"
KINDS = {"index.html": "text/html", "page.js": "text/javascript", "page.css": "text/css"}


def page() -> dict[str, str]:
    """The files by name."""
    try:
        return {name: (FOLDER / name).read_text() for name in KINDS}
    except OSError:
        raise MissingDependencyError(
            "The dashboard's page has not been built: run `make page` in the checkout (it needs Node.js and npm), "
            "or install a released wheel, which carries it."
        ) from None
