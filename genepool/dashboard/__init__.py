"""A live page of one experiment or of a folder of them: an observer, which never writes where it looks.

table      everybody who ever lived, as columns of numbers
records    what a row needs of a record, and no more of it
reader     one experiment: looks again and again, reads only what is new
standing   cost, rates, budget and settings in force, from the table
bulletin   the same as one text for all who follow, made no more often than need be
crew       who works, since when, and who has fallen silent
detail     one individual: its record, its network layer by layer, its ancestors
images     the shape of the images, which no record names
folder     which experiments there are, and their readers
api        the JSON documents (docs/dashboard.md), as plain values
control    what somebody with the token may do
guard      which requests are answered at all
server     the routes and the live feed: the only starlette
export     the same documents and the page in one file
assets     the built page

`page/` has the sources of the page itself; it knows nothing but the API.
"""
