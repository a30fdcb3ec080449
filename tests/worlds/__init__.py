"""What tests look at, each made in one place: networks, samples, facts, files, commands."""
