"""After publishing: guarantees side by side, and what a release proved, on one page."""
