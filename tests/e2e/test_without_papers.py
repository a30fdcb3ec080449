"""The product works where the papers cannot be imported, and says what is missing when they are asked for."""

import subprocess
import sys

import pytest

START = "import sys; sys.modules['codebound_papers'] = None; from codebound.cli.main import main\n"
ALL = """
for line in sys.stdin.read().splitlines():
    sys.argv[1:] = line.split()
    try:
        main()
    except SystemExit as end:
        assert not end.code, line
"""


def run(folder, code, *arguments, lines=""):
    command = [sys.executable, "-c", START + code, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, input=lines)


@pytest.mark.few(1)
@pytest.mark.parametrize("verb", ["measure", "compress", "sketch", "plan", "compare", "reproduce", "sweep"])
def test_a_verb_of_the_papers_is_refused_in_a_sentence(tmp_path, verb):
    result = run(tmp_path, "main()", verb, "--model", "mlp", "--data", "digits")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"UsageError: there is no verb '{verb}'. Not available: papers (")
    assert "codebound_papers" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.thorough
def test_the_verbs_are_those_of_the_product(tmp_path):
    listed = run(tmp_path, "main()", "--help").stdout
    for verb in ("data", "train", "certify", "verify", "export", "show", "bound", "doctor"):
        assert f" {verb} " in listed
    assert "│ measure " not in listed


@pytest.mark.thorough
def test_the_verbs_of_the_product_work(tmp_path):
    lines = """\
train linear --data digits --epochs 1 --out run
certify digits --model linear --network run/model.safetensors --run effort=quick --method prune --out c
verify c/certificate.cbound --data digits
export c/certificate.cbound --to safetensors
show c/certificate.cbound
bound --errors 30 --n 1000 --bits 100
doctor
data list"""
    result = run(tmp_path, ALL, lines=lines)
    assert result.returncode == 0, result.stderr
    assert "ACCEPT" in result.stdout


@pytest.mark.slow
def test_the_demo_ends_with_the_certificate(tmp_path):
    result = run(tmp_path, "main()", "demo")
    assert result.returncode == 0, result.stderr
    assert "certified error" in result.stdout
    assert "compare.html" not in result.stderr
