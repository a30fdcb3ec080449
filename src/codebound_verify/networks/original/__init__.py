"""Statements about the original network f, by way of the decoded g (docs/format.md, section 7).

Reached when the statement is C-12a (f and g are near each other on a whole domain) or C-12b (they seldom
disagree on fresh unlabelled inputs), and the weights of f are given. Read ``domain`` (how far they can be
apart), then ``checking``.
"""
