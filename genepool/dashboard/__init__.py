"""A live page of one experiment or of a folder of experiments. It never writes, except for orders with a token.

documents     the JSON documents about an experiment
individual    the JSON documents about one individual
experiments   the experiments in a folder, and an observer for each that is shown
guard         which requests are answered, and orders of clients with the token
server        the routes and the live feed
export        the built page, and the same documents with it in one file

What the documents contain is read by `genepool.analysis`. `page/` has the sources of the page, which uses only the API.
"""

from genepool.dashboard.export import export_page
from genepool.dashboard.server import Dashboard, listen, serve

__all__ = ["Dashboard", "export_page", "listen", "serve"]
