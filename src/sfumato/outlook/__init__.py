"""Before publishing: what a table is, which guarantee fits it, and what each would cost."""
