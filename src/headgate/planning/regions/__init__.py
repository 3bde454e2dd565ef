"""Plans for all rates, made in advance by dividing the box of rates (2007, section 5)."""
