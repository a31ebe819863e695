"""The complete example of the page "Write a layer", as its reader saves it: the page is its only place."""

import atexit
import re
import shutil
import tempfile
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "write-a-layer.md"
NAME = "spatial_gate_layer.py"


def spatial_gate() -> Path:
    """The file, in a folder of its own that is deleted when the process ends."""
    [text] = re.findall(rf"^```python file {NAME}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    folder = Path(tempfile.mkdtemp(prefix="genepool-page-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / NAME).write_text(text)
    return folder / NAME
