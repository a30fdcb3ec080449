"""Methods of certify: each offers classifiers, and ``Offer.rank`` says which is issued."""
