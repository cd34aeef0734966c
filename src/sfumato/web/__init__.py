"""The steward's page: a small server on the steward's own machine (extra `[web]`).

Nothing is decided here. Every answer comes from the functions that the command line calls, in a
worker process; this room only carries requests to them and keeps strangers out.
"""
