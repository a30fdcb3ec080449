"""Methods of certify: each proposes messages, the smallest bound is kept."""
