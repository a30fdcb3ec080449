"""All bounds on one network side by side: certified, held out, and as published."""
