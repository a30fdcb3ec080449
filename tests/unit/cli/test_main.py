"""``--config run.toml``: a file gives options, flags go on top, and what is unknown or wrong is refused."""

import json

import pytest
import typer
from typer.testing import CliRunner

from codebound.cli.main import add_config, app
from codebound.cli.options import Known
from codebound.run.errors import UsageError

COMMANDS = ("train", "measure", "compress", "sketch", "plan", "certify")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = typer.Typer()

    @small.command()
    @add_config
    def show(
        data: str = typer.Option(...),
        place: str = typer.Argument("nowhere"),
        margin_share: float = 0.1,
        seed: int = typer.Option(0, min=0),
        quiet: bool = typer.Option(False, "--quiet", "-q"),
        options: list[str] | None = typer.Option(None, "--set"),  # noqa: B008
        known: Known = None,
        version: bool = typer.Option(False, "--version", is_eager=True),
    ) -> None:
        typer.echo(json.dumps([data, place, margin_share, seed, quiet, options, known]))

    def invoke(text, *arguments):
        (tmp_path / "run.toml").write_text(text)
        return CliRunner().invoke(small, ["--config", "run.toml", *arguments])

    return invoke


def test_a_file_gives_options_flags_lists_and_arguments(run):
    text = (
        'data = "digits"\nplace = "here"\nmargin_share = 0.2\nseed = 3\nquiet = true\nset = ["a=1", "b=2"]\n'
    )
    assert json.loads(run(text).stdout) == ["digits", "here", 0.2, 3, True, ["a=1", "b=2"], None]


def test_hyphens_are_underscores_and_flags_go_on_top(run):
    text = 'data = "digits"\nmargin-share = 0.2\nset = ["a=1"]\n'
    result = run(text, "there", "--margin-share", "0.3", "--set", "c=3", "-q")
    assert json.loads(result.stdout) == ["digits", "there", 0.3, 0, True, ["c=3"], None]


def test_a_table_has_keys_and_flags_go_on_top_of_each(run):
    text = 'data = "digits"\n[known]\nshare = 0.5\ndata_folder = "a,b"\nscores = ["x.npy", "y.npy"]\n'
    found = json.loads(run(text, "--known", "share=0.3").stdout)[-1]
    assert found == ["data-folder=a,b", "scores=x.npy", "scores=y.npy", "share=0.3"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("known = 3", "'known' is a table: [known] and its keys below. Got 3"),
        ("margin-shar = 0.1", "no option 'margin-shar'; the nearest is 'margin-share'"),
        ("version = true", "no option 'version'"),
        ('config = "other.toml"', "no option 'config'"),
        ("options = ['a=1']", "no option 'options'"),
        ("margin-share = 0.1\nmargin_share = 0.2", "'margin-share' is given twice"),
        ("seed = true", "'seed' is a text or a number. Got True"),
        ("quiet = 1", "'quiet' is true or false. Got 1"),
        ("set = 'a=1'", "'set' is a list. Got 'a=1'"),
        ("set = [true]", "'set' is a list. Got [True]"),
        ("seed = [1]", "'seed' is a text or a number. Got [1]"),
        ("[seed]\nvalue = 1", "'seed' is a text or a number"),
        ("seed = 1979-05-27", "'seed' is a text or a number"),
        ("seed 1", "run.toml is no TOML"),
        ("#" * (1 << 21), "more than 1,048,576 bytes"),
    ],
)
def test_what_is_unknown_or_wrong_is_refused(run, text, message):
    result = run(text, "--data", "digits")
    assert isinstance(result.exception, UsageError)
    assert message in str(result.exception)


def test_a_value_out_of_range_is_refused_like_a_flag(run):
    result = run('data = "digits"\nseed = -1\n')
    assert result.exit_code == 2
    assert "--seed" in result.stderr


@pytest.mark.parametrize("name", ["missing.toml", "."])
def test_a_file_that_cannot_be_read_is_refused(run, name):
    result = run("", "--config", name)
    assert isinstance(result.exception, UsageError)
    assert "cannot be read" in str(result.exception)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_have_it(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    assert "--config" in CliRunner().invoke(app, [command, "--help"]).stdout
