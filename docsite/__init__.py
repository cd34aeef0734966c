"""The documents as a site: what `make docs` adds to the pages in `docs`."""
