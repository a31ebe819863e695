"""`python -m genepool` is `genepool`."""

from genepool.cli import main

main()
