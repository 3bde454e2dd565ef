"""What was offered, kept and dropped, on disk and as tables; the report."""
