"""``python -m codebound``: the command line."""

from codebound.cli.main import main

if __name__ == "__main__":
    main()
