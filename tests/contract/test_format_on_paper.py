"""Files of docs/format-1.0.md, written by hand, and the price of a choice, before any program follows it."""

import hashlib
import json
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from certificate_counts import (
    Sample,
    binomial_limit,
    cell,
    check_limits,
    count,
    hash_of,
    is_vacuous,
    picked_limit,
    recount,
)
from certificate_reader import Message, Refused, Unread, decode, read_container, read_message
from network_reader import TOP, bell

ZEROS = "0" * 64
TABLES = [{"by": "a", "columns": 2, "picks": None, "sha256": ZEROS}]
TABLES += [{"by": "b", "columns": 3, "picks": None, "sha256": ZEROS}]
COUNTED = {"bound": 1.0, "errors": 0, "n": 1, "of": "wrong", "picks": None}

# Bits of each message, as the page lists them.
USUAL = ("00", [["form", 1]], {"rows": 10})
FIRST = ("80", [["form", 2]], {"assurance": "recounted"})
# 110, gamma(2) = 010, 1, e = 12 = 1100 (biases of 1), and q = 0, 1, -1 as 0, 10, 11
BIASED = (
    "cb8b",
    [["form", 3], ["table", 3], ["biases", 10]],
    {"assurance": "recounted", "classes": 3},
)
# 1110, i = 5 = 0101 (half), normalised, m = 2 = 10, gamma 2^0 = 0101, lambda 2^-4 = 0100
SPLIT = ("e5ca80", [["form", 4], ["share", 4], ["rule", 11]], {"rows": 10})
# 11110, C - 1 = 2 = 010, first 10 = 0000, usual, B = 2 = 00001, R = 3 = 00010, e + 1 = 2 = 010, d = 2, b = 3
PICKS = (
    "f2084492",
    [["form", 5], ["classes", 3], ["first", 4], ["rule", 11], ["longer", 9]],
    {"rows": 10, "classes": 3, "law": "picked", "picks": 0},
)
# 1111110, class:1 = 000 010, answered:0.5 = 10 01011 (the 11th, from 0), 10
LOSS = (
    "fc14b8",
    [["form", 7], ["loss", 13], ["form", 2]],
    {"assurance": "recounted", "loss": "class:1", "on": "answered:0.5"},
)
# 111110, classes 2 = 1, scaling 00, tensors 0, no theta 0, no base 0, chain 0, one operation 1, linear 1,
# bias 0, mode 2 = 010: halves all of them, so the code word is these bits; a range of 2^47 is not yet
# shifted, so each part ends one shift late
NETWORK = (
    "fa0640",
    [["form", 6], ["setting", 2], ["options", 3], ["architecture", 4], ["0.weight", 3], ["end", 1]],
    {},
)
FORMS = {
    "usual split": USUAL,
    "first table": FIRST,
    "another table": BIASED,
    "another split": SPLIT,
    "picks": PICKS,
    "network": NETWORK,
}


def header_of(
    message: str, ledger, *, rows=0, classes=2, picks=None, shape=(2,), tables=None, **claim
) -> dict:
    bits = sum(size for _, size in ledger)
    claim = {"loss": "wrong", "on": "all", "law": "binomial", "assurance": "replayed", **claim}
    claim |= {
        "subject": "g",
        "delta": 0.05,
        "bound": 1.0,
        "vacuous": True,
        "limits": [COUNTED | {"picks": picks}],
    }
    return {
        "claim": claim,
        "declarations": ["Rows are independent draws."],
        "format": {"frozen": "2027-01-01", "sha256": ZEROS},
        "known": {
            "base": None,
            "features": None,
            "rows": rows,
            "tables": TABLES if tables is None else tables,
        },
        "made_by": {"codebound": "1.0", "commit": "", "date": "2027-01-01"},
        "message": {
            "bits": bits,
            "ledger": ledger,
            "sha256": hashlib.sha256(bytes.fromhex(message)).hexdigest(),
        },
        "original": None,
        "sample": {
            "classes": classes,
            "clusters": None,
            "copies": "any",
            "groups": None,
            "input_shape": list(shape),
            "order": "rows",
            "rows": 20,
            "salt": "",
            "sha256": ZEROS,
        },
    }


def file_of(message: str, header, start="43424f554e440004", witness="00000000") -> bytes:
    if isinstance(header, dict):
        header = json.dumps(header, sort_keys=True, separators=(",", ":"))
    head = header.encode("ascii")
    data = bytes.fromhex(start) + len(head).to_bytes(4, "little") + head + bytes.fromhex(message + witness)
    return data + hashlib.sha256(data).digest()


def read(message: str, ledger, options) -> Message:
    return read_message(read_container(file_of(message, header_of(message, ledger, **options))))


@pytest.mark.parametrize("form", FORMS)
def test_a_file_of_each_form_is_read(form):
    assert read(*FORMS[form]).form == form


def test_a_message_says_what_its_bits_say():
    assert read(*BIASED).biases == [0.0, 1.0, -1.0]
    rule = {"features": "columns", "normalised": 1, "weights": 2, "copies": 0, "gamma": 1.0, "lambda": 1 / 16}
    assert read(*SPLIT).rule == rule
    picks = read(*PICKS)
    assert picks.rule == {"usual": True, "score": 0.5, "batch": 2, "rounds": 3}
    assert (picks.rows, picks.classes, picks.longer) == (10, 3, {1: 3})
    other = read(*LOSS)
    assert (other.form, other.loss, other.on, other.table) == ("first table", "class:1", "answered:0.5", 0)
    assert not read(*NETWORK).network["tensors"]["0.weight"].any()


def test_features_of_pictures_are_named():
    # 1110, usual share, filters 01, straight, dictionary 1, pool 3, no weights, copies 2, 2^-1, 2^-2
    bits = "111000000111010001001000110"
    message = decode(*packed(bits), header_of("00", USUAL[1], shape=(1, 8, 8)))
    wanted = {"features": "filters", "straight": 1, "dictionary": 1, "pool": 3, "weights": 0, "copies": 2}
    assert message.rule == wanted | {"gamma": 0.5, "lambda": 0.25}
    # patches 10: size 6, 1024 filters, threshold 4, grid 3, whitening 2^-13, seed 0, no weights, one support
    bits = "11100000100111010001110000000101000110"
    message = decode(*packed(bits), header_of("00", USUAL[1], shape=(3, 32, 32)))
    assert message.rule["filters"] == 1024
    assert message.rule["whitening"] == 2.0**-13
    with pytest.raises(Refused, match="mirror"):
        decode(*packed("1110000001110100001"), header_of("00", USUAL[1], shape=(1, 8, 8)))


def packed(bits: str) -> tuple[bytes, int]:
    return int(bits.ljust(-(-len(bits) // 8) * 8, "0"), 2).to_bytes(-(-len(bits) // 8), "big"), len(bits)


def losses(bits: str, classes=3) -> Message:
    return decode(*packed("1111110" + bits + "1100100"), header_of("00", USUAL[1], classes=classes))


def test_every_loss_and_choice_of_rows_has_its_bits():
    assert losses("0010100110").loss == "confused:1:2"
    assert losses("0101110011").on == "predicted:2"
    assert losses("0110101110").loss == "top:2"
    assert losses("101111100").on == "each group"
    assert losses("101111110").on == "any row of a cluster"
    far = losses("10001000")
    assert far.loss == "cost-above:1:distance"
    assert far.costs == [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
    said = losses("100010100010110001010000")
    assert said.costs == [[0, 1, 2], [0, 0, 2], [2, 0, 0]]


@pytest.mark.parametrize(
    "bits",
    [
        "0010100100",  # confused with itself
        "000001000",  # label 3 of three classes
        "0110110",  # three of three classes
        "10001100",  # nothing costs more than 2
        "1010",  # what no word says
        "1100",
        "101111111",
    ],
)
def test_losses_that_say_nothing_are_refused(bits):
    with pytest.raises(Refused):
        losses(bits)


# Refusals


def test_a_reserved_word_is_refused():
    with pytest.raises(Refused, match="reserved"):
        read("fe", [["form", 7]], {})
    with pytest.raises(Refused, match="two losses"):
        decode(*packed("111111010110000001111110"), header_of("00", USUAL[1]))


@pytest.mark.parametrize("form", FORMS)
def test_longer_and_shorter_messages_are_refused(form):
    message, ledger, options = FORMS[form]
    header = header_of(message, ledger, **options)
    data, bits = bytes.fromhex(message) + b"\0", header["message"]["bits"]
    with pytest.raises(Refused, match=r"long|too short"):
        decode(data, bits + 1, header)
    if bits > 1:
        with pytest.raises(Refused, match=r"too short|otherwise"):
            decode(data, bits - 1, header)


def test_a_bit_behind_the_last_is_refused():
    with pytest.raises(Refused, match="unused"):
        read("01", *USUAL[1:])


@pytest.mark.parametrize("version", ["00", "01", "02", "03", "05", "34"])
def test_other_versions_are_refused(version):
    header = header_of(*USUAL[:2], **USUAL[2])
    with pytest.raises(Refused, match="version"):
        read_container(file_of("00", header, start="43424f554e4400" + version))


def test_headers_written_otherwise_are_refused():
    header = header_of(*USUAL[:2], **USUAL[2])
    plain = json.dumps(header, sort_keys=True, separators=(",", ":"))
    for other in (
        json.dumps(header, sort_keys=True),
        json.dumps(header, separators=(",", ":")),
        plain.replace('"rows":10', '"rows":10,"rows":10'),
        plain.replace("0.05", "5e-2"),
        plain.replace("0.05", "NaN"),
        plain.replace('"rows":10', '"rows":10.0'),
        plain.replace('"rows":10', '"rows":true'),
        plain.replace('"original":null', '"original":null,"other":0'),
        plain.replace('"original":null', '"original":' + "[" * 20_000 + "]" * 20_000),
        plain.replace('"rows":20', '"rows":' + "9" * 5_000),
        plain.replace('"rows":20', '"rows":10'),
        plain.replace('["form",1]', '["form",2]'),
    ):
        with pytest.raises(Refused):
            read_container(file_of("00", other))
    assert read_container(file_of("00", plain)).header == header


def test_files_of_another_length_or_hash_are_refused():
    data = file_of("00", header_of(*USUAL[:2], **USUAL[2]))
    for other in (data[:-1], data + b"\0", data[:-1] + bytes([data[-1] ^ 1]), data[:11], data[:8]):
        with pytest.raises(Refused):
            read_container(other)


def test_words_without_their_table_are_refused():
    with pytest.raises(Refused, match="table"):
        read(*FIRST[:2], {**FIRST[2], "tables": []})
    with pytest.raises(Refused, match="table"):
        read(*BIASED[:2], {**BIASED[2], "tables": TABLES[:1]})


def test_a_header_that_contradicts_its_message_is_refused():
    for form, changes in (
        ("usual split", {"rows": 11}),
        ("first table", {"assurance": "replayed"}),
        ("first table", {"law": "picked", "picks": 0}),
        ("first table", {"classes": 3}),
        ("picks", {"law": "binomial", "picks": None}),
        ("network", {"rows": 5}),
    ):
        message, ledger, options = FORMS[form]
        with pytest.raises(Refused):
            read(message, ledger, {**options, **changes})


# One code


def words_of(classes: int, longest: int, shape=(2,), split=3) -> list[str]:
    """List all messages of plain words up to a length, when a known share shows `split` classes."""
    header = header_of("00", USUAL[1], classes=classes, shape=shape)
    found, open_ = [], [""]
    while open_:
        bits = open_.pop()
        try:
            message = decode(*packed(bits), header) if bits else None
        except Refused as refused:
            message = None
            if str(refused) != "message is too short" and not bits.startswith("111110"):
                continue
        except Unread:
            message = None
        if message and (message.classes or split) == classes:
            found.append(bits)
        elif len(bits) < longest:
            open_ += [bits + "0", bits + "1"]
    return found


def test_all_short_messages_are_one_code():
    """Prefix-free words for each number of classes, and one unit for all of them together."""
    total = Fraction(0)
    for classes in (2, 3):
        words = sorted(words_of(classes, 14))
        assert not [a for a, b in pairwise(words) if b.startswith(a)]
        total += sum(Fraction(1, 2 ** len(word)) for word in words)
    assert Fraction(3, 4) < total <= 1


# Price of a choice

N, DELTA, DRAWS = 50, 0.5, 20_000


def bits_of(table: int) -> int:
    """Price the table as it is: word 10 for the first, 110 gamma(i) 0 for the others."""
    return 2 if table == 1 else 3 + 2 * (table.bit_length() - 1) + 1 + 1


@cache
def below_half(bits: int) -> int:
    """Give the most errors of 50 at which the limit is still below a half."""
    return max(k for k in range(-1, N) if k < 0 or binomial_limit(k, N, DELTA / 2**bits) < 0.5)


def share_of_false(prices: list[int], opposite: int = 0) -> float:
    """Draw coins as labels and tables; give how often the best of all offers claims less than a half."""
    random = np.random.default_rng(11)
    errors = random.binomial(N, 0.5, (DRAWS, len(prices)))
    if opposite:
        errors[:, opposite] = N - errors[:, 0]  # a table that is right where the first is wrong
    most = {bits: below_half(bits) for bits in set(prices)}
    return float((errors <= [most[bits] for bits in prices]).any(axis=1).mean())


def test_a_choice_among_declared_tables_is_paid_for():
    prices = [bits_of(table) for table in range(1, 9)]
    paid = sum(2.0**-bits for bits in {(bits, i): bits for i, bits in enumerate(prices)}.values())
    assert share_of_false(prices) <= DELTA * paid + 4 * (0.25 / DRAWS) ** 0.5
    assert share_of_false(prices, opposite=1) <= DELTA * paid + 4 * (0.25 / DRAWS) ** 0.5


def test_two_tables_of_one_word_are_not_paid_for():
    """False claims exceed what words 10 and 110 have paid for, then delta itself."""
    prices = [2, 2] + [bits_of(table) for table in range(3, 9)]
    assert share_of_false(prices, opposite=1) > DELTA * (1 / 4 + 1 / 64) + 0.03
    assert share_of_false([2] * 8) > DELTA + 0.03


# Sample and counts


def test_the_order_is_that_of_hashes_and_of_occurrences():
    x, y = np.array([[0.0], [-0.0], [1.0], [0.0]], np.float32), np.array([1, 1, 0, 2])
    keys = Sample(x, y).keys()
    zero, one = (0).to_bytes(8, "little"), (1).to_bytes(8, "little")
    assert keys[0] == hashlib.sha256(bytes(4) + one + zero).digest()
    assert keys[1] == hashlib.sha256(bytes(4) + one + one).digest()
    salted = Sample(x, y, salt="ab" * 32).keys()
    assert salted[2] == hashlib.sha256(bytes.fromhex("ab" * 32 + "0000803f") + zero + zero).digest()
    assert (
        hash_of(x, y) == hashlib.sha256(b"float32|4,1|" + x.tobytes() + b"int64|4|" + y.tobytes()).hexdigest()
    )


def test_reordering_the_file_changes_nothing():
    random = np.random.default_rng(0)
    x, y = random.integers(0, 3, (40, 2)).astype(np.uint8), random.integers(0, 2, 40)
    places = random.permutation(40)

    def share(sample):
        return [(sample.inputs[i], int(sample.y[i])) for i in sample.split(17)[0]]

    assert share(Sample(x, y)) == share(Sample(x[places], y[places]))


def test_what_is_equal_ends_the_known_share():
    x = np.repeat(np.arange(6, dtype=np.uint8), 4)[:, None]
    known, others = Sample(x, np.zeros(24, int), copies="repeated").split(6)
    assert len(known) == 8
    assert not {*x[known, 0]} & {*x[others, 0]}
    known, _ = Sample(x, np.zeros(24, int), order="clusters", copies="independent", clusters=x[:, 0]).split(9)
    assert len(known) == 12
    ends = Sample(np.array([[1], [2], [3], [1]], np.uint8), np.zeros(4, int), order="file", copies="repeated")
    with pytest.raises(Refused, match="no row"):
        ends.split(1)


def test_cells_say_what_they_say():
    digits = hashlib.sha256("caf\u00e9".encode()).hexdigest()[:12]
    assert cell(" cafe\u0301 ").tobytes()[::-1].hex() == "7ff9" + digits
    assert cell(None).tobytes()[::-1].hex() == "7ff8000000000000"
    assert cell(2) == 2.0


def test_each_reading_of_copies_counts_in_its_way():
    x = np.array([[0], [1], [1], [2], [2], [2], [0], [3]], np.uint8)
    right = np.array([True, True, True, False, False, True, True, True])
    every = np.ones(8, bool)
    for copies, wanted in (("any", (2, 5)), ("independent", (2, 7))):
        counts = count(Sample(x, np.zeros(8, int), order="file", copies=copies), 1, right, every)
        assert (counts["errors"], counts["n"]) == wanted  # of `any` the right inputs are 1, 2 and 3
    counts = count(Sample(x, np.zeros(8, int), copies="repeated"), 0, right, every)
    assert (counts["errors"], counts["n"]) == (1, 4)
    picked = count(Sample(x, np.zeros(8, int), order="file"), 1, right, every, picks=(1, 3))
    assert picked == {
        "errors": 1,
        "n": 4,
        "picks": 2,
    }  # inputs 1 and 2 were picked: of the right ones 3 is left


def test_declared_scores_are_counted():
    table = np.array([[2.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 3.0, 2.0], [0.0, 1.0, 5.0], [9.0, 0.0, 0.0]])
    sample = Sample(np.arange(5, dtype=np.uint8)[:, None], np.array([0, 0, 2, 2, 7]))

    def counted(**changes):
        found = recount(sample, Message(**changes), 0, table)
        return [(counts["errors"], counts["n"]) for counts in found]

    assert counted() == [(3, 5)]  # a tie, label 2, and a label that is no column
    assert counted(loss="top:2") == [(1, 5)]
    assert counted(loss="class:2") == [(1, 2)]
    assert counted(loss="confused:2:1") == [(1, 2)]
    assert counted(loss="false-alarm:0") == [(1, 3)]
    assert counted(on="answered:1") == [(1, 2), (3, 5)]
    assert counted(on="each class") == [(1, 2), (0, 0), (1, 2)]
    assert counted(loss="cost-above:1:distance", costs=[[0, 1, 2], [1, 0, 1], [2, 1, 0]]) == [(1, 5)]
    assert counted(biases=[0.0, -1.0, 1.0]) == [(2, 5)]  # the tie is gone, of label 2 one is wrong


def test_limits_are_those_of_the_laws():
    assert abs(binomial_limit(0, 100, 0.05) - (1 - 0.05**0.01)) < 1e-12
    assert abs(float(binomial_limit(20, 500, 0.05 / 8)) - 0.0674) < 1e-4
    assert binomial_limit(5, 5, 0.5) == picked_limit(2, 3, 5, 0.5) == 1
    p = picked_limit(1, 2, 30, 0.1)
    tail = sum(
        Fraction(1) * _ways(30, k) * Fraction(float(p)) ** k * (1 - Fraction(float(p))) ** (30 - k)
        for k in range(4, 31)
    )
    mass = _ways(30, 3) * Fraction(float(p)) ** 3 * (1 - Fraction(float(p))) ** 27
    assert abs(float(30 * Fraction(float(p)) * mass / tail) - 0.1) < 1e-9


def _ways(n: int, k: int) -> int:
    return 1 if k == 0 else _ways(n, k - 1) * (n - k + 1) // k


def test_printed_limits_are_recomputed():
    header = header_of(*FIRST[:2], **FIRST[2])
    own = [{"errors": 2, "n": 20, "picks": 0, "of": "wrong"}]
    value = float(binomial_limit(2, 20, 0.0125)) * (1 + 1e-9)

    def check(bound=value, errors=2, n=20, commonest=12):
        header["claim"] |= {"bound": bound, "limits": [COUNTED | {"bound": bound, "errors": errors, "n": n}]}
        file = read_container(file_of("80", header))
        check_limits(file, read_message(file), own)
        return is_vacuous(file, read_message(file), np.arange(20) >= commonest)

    assert not check()  # a third, where the commonest label is wrong on two fifths of the rows
    assert check(commonest=14)
    for change in ({"bound": value * (1 - 1e-6)}, {"bound": value * (1 + 1e-5)}, {"errors": 1}, {"n": 21}):
        with pytest.raises(Refused):
            check(**change)


# Arithmetic code


class Encoder:
    """Interval of a code word, as the page narrows it."""

    def __init__(self):
        self.low, self.range, self.shifts = 0, TOP, 0

    def put(self, cum: int, freq: int, total: int) -> None:
        r = self.range // total
        self.low, self.range = self.low + r * cum, r * freq if cum + freq < total else self.range - r * cum
        while self.range < TOP // 2:
            self.low, self.range, self.shifts = 2 * self.low, 2 * self.range, self.shifts + 1

    def plain(self, bits: str) -> None:
        for bit in bits:
            self.put(int(bit), 1, 2)

    def end(self) -> str:
        for more in range(3):
            size = 1 << (48 - more)
            v = -(-self.low // size)
            if (v + 1) * size <= self.low + self.range:
                break
        length = self.shifts + more
        return f"{v:0{length}b}"[:length] if length else ""


HEAD = "1000000110"  # two classes, one linear without bias, as above


def tensor_of(write, block="") -> np.ndarray:
    encoder = Encoder()
    encoder.plain(HEAD)
    write(encoder)
    bits = "111110" + encoder.end() + block
    return decode(*packed(bits), header_of("00", USUAL[1])).network["tensors"]["0.weight"]


def test_tensors_of_the_first_modes_are_read():
    """Tensors of step one: j = 0 stands for 8388608 2^-23."""

    def dense(encoder):
        encoder.plain("0111010")  # mode 3, step of j = 0, L = 2
        for q in (0, -2, 2, 1):
            encoder.put(q + 2, 1, 5)

    assert tensor_of(dense).tolist() == [[0, -2], [2, 1]]

    def masked(encoder):
        encoder.plain("0010011")  # mode 4, L = 1
        encoder.put(1, 1, 5)  # one of four
        for rest in (4, 3):
            encoder.put(0, rest - 1, rest)
        encoder.put(1, 1, 2)
        encoder.put(0, 1, 2)  # -1

    assert tensor_of(masked).tolist() == [[0, 0], [-1, 0]]

    def raw(encoder):
        encoder.plain("00110")
        for high in (0x3F80, 0xBF80, 0, 0x4000):
            encoder.put(high, 1, 1 << 16)
            encoder.put(0, 1, 1 << 16)

    assert tensor_of(raw).tolist() == [[1, -1], [0, 2]]

    def bells(encoder):
        encoder.plain("00011101000000")
        freqs = bell(0)
        for q in (0, 1, 0, -1):
            encoder.put(sum(freqs[: q + 255]), freqs[q + 255], sum(freqs))

    assert tensor_of(bells).tolist() == [[0, 1], [0, -1]]

    def adaptive(encoder):
        encoder.plain("1110000")  # mode 1, L = 1, no flags, kind 0
        for nonzero, (cum, freq, total) in ((0, (0, 1, 2)), (1, (3, 1, 4)), (0, (0, 3, 6)), (0, (0, 5, 8))):
            encoder.put(cum, freq, total)
            if nonzero:
                encoder.put(0, 1, 2)

    assert tensor_of(adaptive).tolist() == [[0, 1], [0, 0]]


def test_a_block_stands_behind_the_code_word():
    def static(encoder):
        encoder.plain("0011111")  # mode 7, L = 1
        encoder.plain("1")  # no -1
        for _ in range(2):  # 0 and 1: half of 2^16 each, gamma(2^15 + 1)
            encoder.plain("0" * 15 + f"{2**15 + 1:b}")
        encoder.put(0, 1, 13)

    state = 1 << 24
    for symbol in reversed((0, 1, 1, 0)):  # what a decoder undoes
        low = state % (1 << 15)
        state = (state >> 15) << 16 | symbol << 15 | low
    assert tensor_of(static, f"{state:040b}").tolist() == [[0, 1], [1, 0]]
    with pytest.raises(Refused, match="block"):
        tensor_of(static, f"{state + 1:040b}")


def test_laws_of_bells_fit_the_code():
    assert all(sum(bell(i)) <= 1 << 24 for i in range(64))
