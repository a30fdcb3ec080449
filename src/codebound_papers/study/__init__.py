"""The three papers, each as one call: what it claims, what it says about a network, and what is true.

Example:
    >>> import codebound as cb
    >>> about = cb.study.subject("linear", epochs=1)
    >>> about.sample.n, about.test_set.n  # for cb.study.guha23(about), arora18 and shin21
    (1437, 360)
"""

from codebound.run.extensions import lazily

__all__, __getattr__, __dir__ = lazily(
    __name__,
    """
    codebound_papers.guha23: sketch
    codebound_papers.plan.network_plan: plan
    codebound_papers.study.arora: arora18
    codebound_papers.study.guha: guha23
    codebound_papers.study.result_page: StudyResult
    codebound_papers.study.shin: shin21
    codebound_papers.study.subjects: Subject subject
    """,
)
