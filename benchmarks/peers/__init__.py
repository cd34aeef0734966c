"""sfumato beside other programs: what each answers, and what each gives away."""
