"""What tests look at, each made in one place: networks, messages, samples, facts, files, commands."""
