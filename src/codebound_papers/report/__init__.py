"""Tables, figures and pages about measurements and comparisons."""
