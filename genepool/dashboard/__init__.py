"""A live page of one experiment or of a folder of experiments. It never writes, except for orders with a token.

What it shows is read by `genepool.analysis`. `page/` has the sources of the page, which uses only the API.
"""

from genepool.dashboard.export import export_page
from genepool.dashboard.server import Dashboard, listen, serve

__all__ = ["Dashboard", "export_page", "listen", "serve"]
