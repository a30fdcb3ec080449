"""Any learner: picks examples for it, learns from them alone, and bounds the error of what it learned."""
