"""The text of a model's README.md: what it is, how good, on what data, how it came about, how to use it."""

from __future__ import annotations

from collections.abc import Iterator

from genepool.errors import shown
from genepool.nn.export.facts import Facts, Link, Member


def card_text(facts: Facts) -> str:
    """The whole of `README.md`."""
    return "\n".join(_lines(facts)) + "\n"


def _lines(facts: Facts) -> Iterator[str]:
    size = f"{facts.height} x {facts.width} pixels, {'grey' if facts.channels == 1 else 'red, green, blue'}"
    count, search = len(facts.members), facts.search
    yield f"# {_plain(facts.name)}"
    yield ""
    yield f"An image classifier for {len(facts.classes)} classes, evolved by Genepool, after Real et al.,"
    yield "Large-Scale Evolution of Image Classifiers (2017)."
    yield ""
    yield "| | |"
    yield "|---|---|"
    yield f"| data set | {_plain(facts.data)} |"
    yield f"| images | {size} |"
    yield f"| validation accuracy | {_percent(facts.validation_accuracy)} ({_selection(facts)}) |"
    yield f"| test accuracy | {_percent(facts.test_accuracy)} |"
    yield f"| networks | {count}{', whose probabilities are averaged' if count > 1 else ''} |"
    yield f"| parameters | {facts.parameters:,} |"
    yield f"| FLOPs an image | {facts.flops:,} |"
    yield f"| the search cost | {search.flops:.3g} FLOPs, {search.individuals:,} individuals, {_span(search.seconds)} |"
    yield f"| SHA-256 of the weights | `{facts.digest}` |"
    yield ""
    yield from _use(facts)
    yield "## Classes"
    yield ""
    for number, name in enumerate(facts.classes):
        yield f"{number}. {_plain(name)}"
    for member in facts.members:
        yield from _member(member)


def _use(facts: Facts) -> Iterator[str]:
    shape = f"(n, {facts.height}, {facts.width}, {facts.channels})"
    yield "## How to use it"
    yield ""
    yield "It needs torch and nothing else; opening image files needs Pillow too."
    yield ""
    yield "```sh"
    yield "python model.py photo.png ...    # the three likeliest classes of each image"
    yield "```"
    yield ""
    yield "```python"
    yield "import model"
    yield ""
    yield "classifier = model.load()"
    yield f"probabilities = classifier(images)    # images: a uint8 tensor {shape}, n as you like"
    yield "```"
    yield ""
    yield f"Photographs are turned upright, laid on white, resized to {facts.width} x {facts.height} pixels (bicubic)."
    yield "The network itself normalises them. `genepool predict` takes this folder too."
    yield ""


def _selection(facts: Facts) -> str:
    if all(member.accuracy in (None, member.fitness) for member in facts.members):
        return "evolution selects by it"
    return "evolution selected by a fitness that counts the cost too"


def _member(member: Member) -> Iterator[str]:
    yield ""
    yield f"## Individual {member.id}"
    yield ""
    yield f"`{member.network}`"
    yield ""
    price = f"{member.parameters:,} parameters, {member.flops:,} FLOPs an image"
    yield f"Accuracy {_percent(_accuracy(member))}, {price}. From the beginning to here:"
    yield ""
    yield "| mutation | accuracy |"
    yield "|---|---|"
    for link in member.lineage:
        yield f"| {_plain(' + '.join(link.mutations)) or '(the beginning)'} | {_percent(_accuracy(link))} |"


def _accuracy(of: Member | Link) -> float | None:
    return of.fitness if of.accuracy is None else of.accuracy


def _plain(text: str) -> str:
    """Somebody's words as one line that Markdown leaves as it is."""
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]<>#|!" else letter for letter in shown(text))


def _percent(share: float | None) -> str:
    return "not measured" if share is None else f"{100 * share:.1f} %"


def _span(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 3600} h {whole % 3600 // 60:02d} m {whole % 60:02d} s" if whole >= 60 else f"{whole} s"
