"""Networks learned from few picked examples (C-15): the rule, its features, its learner."""
