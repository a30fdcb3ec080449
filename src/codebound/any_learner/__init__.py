"""Pick-to-learn for any learner with the interface of scikit-learn."""
