"""Rules that both programs replay; only ``compare_rules``, which chooses one, is free to change."""
