"""Files of docs/format-1.0.md, written by hand, and the price of a choice, before any program follows it."""

import hashlib
import json
from fractions import Fraction
from functools import cache
from itertools import pairwise
from math import comb

import numpy as np
import pytest
from certificate_counts import Sample, cell, check_limits, hash_of, is_vacuous, limit_of, recount
from certificate_reader import Message, Refused, decode, read_container, read_message
from code_writer import encoded, packed, within
from network_reader import STEPS, bell

ZEROS = "0" * 64
MADE = {"by": "a", "of": "b", "rows": 0, "sha256": ZEROS}
TABLES = [MADE | {"columns": 2, "picks": None}, MADE | {"columns": 3, "picks": None, "rows": 4}]
COUNTED = {"bound": 1.0, "errors": 0, "n": 1, "of": "wrong", "picks": None}
RECOUNTED = {"claim.assurance": "recounted"}

# Bits of each message, as the page lists them, its ledger, and what the header says otherwise
USUAL = ("0", "form 1", {"known.rows": 10})
FIRST = ("10", "form 2", RECOUNTED)
# gamma(2), e = 12 (biases of 1), and q = 0, 1, -1
BIASED = ("110 010 1 1100 0 10 11", "form 3, table 3, biases 10")
BIASED += ({"sample.classes": 3, "known.rows": 4, **RECOUNTED},)
# i = 5 (half), normalised, m = 2, gamma 2^0, lambda 2^-4
SPLIT = ("1110 0101 1 10 0101 0100", "form 4, share 4, rule 11", {"known.rows": 10})
# C - 1 = 2, first 10, usual, B = 2, R = 3, e + 1 = 2, d = 2, b = 3
PICKED = {"claim.law": "picked", "claim.limits": [COUNTED | {"picks": 0}]}
PICKS = ("11110 010 0000 1 00001 00010 010 010 010", "form 5, classes 3, first 4, rule 11, longer 9")
PICKS += ({"known.rows": 10, "sample.classes": 3, **PICKED},)
# class:1, answered:0.5 (the 11th, from 0), and the first table
LOSSES = {"claim.loss": "class:1", "claim.on": "answered:0.5", **RECOUNTED}
LOSS = ("1111110 000 010 10 01011 10", "form 7, loss 13, form 2", LOSSES)
# classes 2 = 1, scaling 00, tensors 0, no theta 0, no base 0, chain 0, one operation 1, linear 1, bias 0, and
# mode 2 = 010: halves all of them, so the code word is these bits; a range of 2^47 is not yet shifted, so
# each part ends one shift late
HEAD = "1000000110"
NETWORK = (f"111110 {HEAD} 010", "form 6, setting 2, options 3, architecture 4, 0.weight 3, end 1", {})
FORMS = {"usual split": USUAL, "first table": FIRST, "another table": BIASED, "another split": SPLIT}
FORMS |= {"picks": PICKS, "network": NETWORK}


def header_of(bits: str, ledger: str = "form 1", changes=None) -> dict:
    message, count = packed(bits)
    parts = [[name, int(size)] for name, _, size in (part.rpartition(" ") for part in ledger.split(", "))]
    claim = {"loss": "wrong", "on": "all", "law": "binomial", "assurance": "replayed", "subject": "g"}
    claim |= {"delta": 0.05, "bound": 1.0, "vacuous": True, "limits": [COUNTED]}
    sample = {"classes": 2, "clusters": None, "copies": "any", "groups": None, "input_shape": [2], "rows": 20}
    sample |= {"order": "rows", "salt": "", "seal": "", "sha256": ZEROS}
    header = {"claim": claim, "sample": sample, "original": None, "declarations": ["Rows are draws."]}
    header["known"] = {"base": None, "features": None, "rows": 0, "tables": TABLES}
    header["message"] = {"bits": count, "ledger": parts, "sha256": hashlib.sha256(message).hexdigest()}
    header["made_by"] = {"codebound": "1.0", "commit": "", "date": "2027-01-01"}
    header["format"] = {"frozen": "2027-01-01", "sha256": ZEROS}
    for key, value in (changes or {}).items():
        first, _, second = key.partition(".")
        header[first] = header[first] | {second: value} if second else value
    return header


def file_of(bits: str, header, version=4) -> bytes:
    if isinstance(header, dict):
        header = json.dumps(header, sort_keys=True, separators=(",", ":"))
    data = b"CBOUND\0" + bytes([version]) + len(header).to_bytes(4, "little") + header.encode()
    data += packed(bits)[0] + bytes(4)
    return data + hashlib.sha256(data).digest()


def read(bits: str, ledger: str, changes) -> Message:
    return read_message(read_container(file_of(bits, header_of(bits, ledger, changes))))


def decoded(bits: str, units=None, **changes) -> Message:
    sample = {f"sample.{key}": value for key, value in changes.items()}
    return decode(*packed(bits), header_of("0", changes=sample), units)


def test_a_message_says_what_its_bits_say():
    assert read(*BIASED).biases == [0.0, 1.0, -1.0]
    rule = {"features": "columns", "normalised": 1, "weights": 2, "copies": 0, "gamma": 1.0, "lambda": 1 / 16}
    assert read(*SPLIT).rule == rule
    usual = {"usual": True, "gamma": 1 / 2, "lambda": 1 / 16, "score": 1 / 2, "batch": 2, "rounds": 3}
    assert read(*PICKS).rule == usual | {"longer": {1: 3}}
    assert (read(*LOSS).loss, read(*LOSS).on, read(*LOSS).table) == ("class:1", "answered:0.5", 0)
    assert not read(*NETWORK).network["tensors"]["0.weight"].any()
    # pictures: usual share, filters, straight, dictionary 1, pool 3, no weights, copies 2, 2^-1, 2^-2
    rule = decoded("1110 0000 01 1 1 01 00 010 0100 0110", input_shape=[1, 8, 8]).rule
    wanted = {"features": "filters", "straight": 1, "dictionary": 1, "pool": 3, "weights": 0, "copies": 2}
    assert rule == wanted | {"gamma": 0.5, "lambda": 0.25}
    # patches: size 6, 1024 filters, threshold 4, grid 3, whitening 2^-13, seed 0, no weights, one support
    rule = decoded("1110 0000 10 011 10 100 01 110 00 00 001 0100 0110", input_shape=[3, 32, 32]).rule
    wanted = {"size": 6, "filters": 1024, "threshold": 4, "grid": 3, "seed": 0, "copies": 1}
    assert rule.items() >= (wanted | {"whitening": 2.0**-13}).items()
    with pytest.raises(Refused, match="mirror"):
        decoded("1110 0000 01 1 1 01 00 001 0100 0110", input_shape=[1, 8, 8])


def losses(bits: str) -> Message:
    return decoded("1111110" + bits + "110 010 0", classes=3)


def test_losses_and_choices_of_rows_have_their_bits_or_are_refused():
    assert (losses("001 010 011 0").loss, losses("010 1 110 011").on) == ("confused:1:2", "predicted:2")
    assert (losses("010 1 110 011").loss, losses("011 010 1110").loss) == ("false-alarm:0", "top:2")
    assert (losses("011 010 1110").on, losses("101 1111 00").on) == ("each class", "each group")
    far, told = losses("100 010 0 0"), losses("100 010 1 0001 01 10 00 10 10 00 0")
    assert (far.loss, far.costs) == ("cost-above:1:distance", [[0, 1, 2], [1, 0, 1], [2, 1, 0]])
    assert (told.loss, told.costs) == ("cost-above:1:120220", [[0, 1, 2], [0, 0, 2], [2, 0, 0]])
    # itself for itself, labels and K beyond the classes, costs below L, what needs no word, and no loss
    refused = "001 010 010 0, 000 00100 0, 010 1 110 00100, 011 011 0, 100 011 0 0, 101 0, 110 0, "
    refused += "101 1111 11, 101 1111 01, 101 1111 10"  # a reserved choice, and clusters that are none
    for bits in refused.split(", "):
        with pytest.raises(Refused):
            losses(bits)
    for bits in ("1111111", "1111110 000 1 0 1111110", "1111110 000 1 0 1111111"):
        with pytest.raises(Refused, match="reserved"):
            decoded(bits)


def test_containers_and_headers_written_otherwise_are_refused():
    header = header_of(*USUAL)
    plain, data = json.dumps(header, sort_keys=True, separators=(",", ":")), file_of("0", header)
    changes = [("0.05", other) for other in ("5e-2", "NaN", "1.0", "0.0", "0")] + [(ZEROS, "A" * 64)]
    changes += [('"rows":10', '"rows":' + other) for other in ("10.0", "true", '10,"rows":10')]
    changes += [('"rows":20', '"rows":' + other) for other in ("10", "9" * 5_000)] + [("2027", "\\u0662027")]
    changes += [("null", other) for other in ('null,"other":0', "[" * 20_000 + "]" * 20_000)]
    changes += [('"by":"a"', f'"by":"{other}"') for other in ("a" * 401, "\x7f")]
    changes += [('["form",1]', '["form",2]'), ('"bound":1.0', '"bound":1')]
    others = [json.dumps(header, sort_keys=True), json.dumps(header, separators=(",", ":"))]
    others = [file_of("0", other) for other in others + [plain.replace(*change) for change in changes]]
    others += [data[:-1], data + b"\0", data[:-1] + bytes([data[-1] ^ 1]), data[:11], data[:8]]
    for other in others + [file_of("0", header, version) for version in (0, 1, 2, 3, 5, 52)]:
        assert other != data
        with pytest.raises(Refused):
            read_container(other)
    assert read_container(data).header == header
    changes = USUAL[2] | {"message.sha256": hashlib.sha256(b"\1").hexdigest()}
    with pytest.raises(Refused, match="unused"):
        read_container(file_of("00000001", header_of("0", "form 1", changes)))


LEARNED = {"known.features": MADE | {"rows": 4}, "sample.order": "file"}
INPUTS = {"claim.assurance": "replayed on declared inputs"}
CLUSTERS = {"order": "clusters", "clusters": ZEROS, "copies": "independent"}
ROW = {f"sample.{key}": value for key, value in CLUSTERS.items()} | {"claim.on": "one row a cluster"}
GIVEN = {"chain": [["linear", 2, 0]], "domain": [0.0, 1.5], "sha256": ZEROS, "unlabelled": None}
BOUNDED = {"claim.subject": "f", "original": GIVEN}
UNLABELLED = {"chain": None, "domain": None, "sha256": ZEROS}
UNLABELLED |= {"unlabelled": {"disagreements": 3, "rows": 2000, "sha256": ZEROS}}
SUM = {"claim.law": "sum", "claim.subject": "f", "original": UNLABELLED, **INPUTS}
WRONG = {"usual split": [({}, {"known.rows": 11}), ({"known.base": MADE}, INPUTS)]}
WRONG["usual split"] += [({"sample.copies": "repeated"}, {"sample.copies": "twice"})]
WRONG["usual split"] += [({"sample.salt": ZEROS, "sample.seal": "a"}, {"sample.seal": ""})]
WRONG["usual split"] += [(LEARNED | INPUTS, {"sample.order": "rows"}), (ROW, {"sample.copies": "any"})]
WRONG["first table"] = [({}, {"claim.assurance": "replayed"}), ({}, PICKED), ({}, {"sample.classes": 3})]
WRONG["first table"] += [({}, {"known.tables": []}), ({}, {"known.rows": 4}), ({}, LEARNED)]
WRONG["another table"] = [(LEARNED, {"known.features": MADE | {"rows": 5}}), ({}, {"known.rows": 0})]
WRONG["another table"] += [({}, {"known.tables": TABLES[:1]}), ({}, {"sample.rows": 2**30})]
WRONG["another split"] = [({}, {"claim.on": "one row a cluster"})]
WRONG["picks"] = [({}, {"claim.law": "binomial", "claim.limits": [COUNTED]})]
WRONG["network"] = [({}, {"known.rows": 5}), (SUM, {"claim.law": "binomial"}), (BOUNDED, {"original": None})]
WRONG["network"] += [
    (SUM, {"claim.assurance": "replayed"}),
    (BOUNDED, {"original": GIVEN | {"domain": [0, 1]}}),
]


@pytest.mark.parametrize("form", FORMS)
def test_messages_and_headers_that_do_not_fit_are_refused(form):
    bits, ledger, usual = FORMS[form]
    header, (data, count) = header_of(bits, ledger, usual), packed(bits)
    with pytest.raises(Refused, match=r"long|too short"):
        decode(data + b"\0", count + 1, header)
    with pytest.raises(Refused, match=r"too short|otherwise"):
        decode(data, count - 1, header)
    for changes, wrong in WRONG[form]:
        assert read(bits, ledger, usual | changes).form == form
        with pytest.raises(Refused):
            read(bits, ledger, usual | changes | wrong)


def words_of(classes: int, longest: int, split=3) -> list[str]:
    """List all messages of plain words up to a length, when a known share shows `split` classes."""
    header, found, open_ = header_of("0", changes={"sample.classes": classes}), [], ["0", "1"]
    while open_:
        bits, message = open_.pop(), None
        try:
            message = decode(*packed(bits), header)
        except (Refused, NotImplementedError) as refused:
            if str(refused) != "message is too short" and not bits.startswith("111110"):
                continue
        if message and (message.classes or split) == classes:
            found.append(bits)
        elif len(bits) < longest:
            open_ += [bits + "0", bits + "1"]
    return sorted(found)


def test_all_short_messages_are_one_code_and_two_tables_of_one_word_are_none():
    """Prefix-free words for each number of classes, and one unit for all of them together."""
    lists = [words_of(classes, 14) for classes in (2, 3)]
    assert not [a for words in lists for a, b in pairwise(words) if b.startswith(a)]
    total = sum(Fraction(1, 2 ** len(word)) for words in lists for word in words)
    assert Fraction(3, 4) < total <= 1
    assert total + sum(Fraction(1, 4) for words in lists if "10" in words) > 1


@cache
def below_half(bits: int) -> int:
    """Give the most errors of 50 at which the limit is still below a half."""
    return max(k for k in range(-1, 50) if k < 0 or limit_of(k, 50, 0.5 / 2**bits) < 0.5)


def share_of_false(prices: list[int], opposite: int = 0) -> float:
    """Draw coins as labels and tables; give how often the best of all offers claims less than a half."""
    errors = np.random.default_rng(11).binomial(50, 0.5, (20_000, len(prices)))
    if opposite:
        errors[:, opposite] = 50 - errors[:, 0]  # a table that is right where the first is wrong
    return float((errors <= [below_half(bits) for bits in prices]).any(axis=1).mean())


def test_a_choice_among_declared_tables_is_paid_for_and_one_among_tables_of_a_word_is_not():
    prices = [2] + [3 + 2 * (table.bit_length() - 1) + 1 + 1 for table in range(2, 9)]  # 110 gamma(i) 0
    paid = 0.5 * sum(2.0**-bits for bits in prices)
    assert max(share_of_false(prices, other) for other in (0, 1)) <= paid + 4 * (0.25 / 20_000) ** 0.5
    assert share_of_false([2, 2, *prices[2:]], opposite=1) > 0.5 * (1 / 4 + 1 / 64) + 0.03
    assert share_of_false([2] * 8) > 0.5 + 0.03


def sha(*parts) -> bytes:
    return hashlib.sha256(b"".join(np.asarray(part).tobytes() for part in parts)).digest()


def test_the_order_is_that_of_hashes_and_of_occurrences():
    x, y = np.array([[0.0], [-0.0], [1.0], [0.0]], np.float32), np.array([1, 1, 0, 2])
    zero, one, two = np.arange(3)
    assert Sample(x, y).keys[:2] == [sha(x[0], one, zero), sha(x[0], one, one)]
    assert Sample(x, y, salt="ab" * 32).keys[2] == sha(np.full(32, 0xAB, np.uint8), x[2], zero, zero)
    assert Sample(x, y, groups=np.array([1, 2, 1, 1])).keys[1] == sha(x[0], one, two, zero)
    clusters = Sample(x, y, order="clusters", clusters=np.array([3, 4, 4, 5]))
    assert clusters.keys[1] == clusters.keys[0]
    assert clusters.key(*sorted(clusters.keys[1:3]), bytes(8)) in dict(clusters.blocks)
    assert hash_of(x, y) == sha(b"float32|4,1|", x, b"int64|4|", y).hex()
    assert cell(" cafe\u0301 ").tobytes()[::-1].hex() == "7ff9" + sha("caf\u00e9".encode()).hex()[:12]
    assert (cell(None).tobytes()[::-1].hex(), cell(2)) == ("7ff8000000000000", 2.0)


def test_reordering_the_file_and_renumbering_clusters_change_nothing():
    random = np.random.default_rng(0)
    x, y, c = random.integers(0, 3, (40, 2)).astype(np.uint8), random.integers(0, 2, 40), np.arange(40) // 2
    places = random.permutation(40)

    def share(x, y, **options):
        sample = Sample(x, y, **options)
        return [(sample.inputs[i], int(y[i])) for i in sample.split(9)[0]]

    for copies in ("any", "repeated"):
        assert share(x, y, copies=copies) == share(x[places], y[places], copies=copies)
    known = share(x, y, order="clusters", clusters=c)
    again = share(x[places], y[places], order="clusters", clusters=(7 * c % 20)[places])
    assert (len(known), known) == (18, again)
    # what is equal ends the known share
    x, y = np.repeat(np.arange(6, dtype=np.uint8), 4)[:, None], np.zeros(24, int)
    known, others = Sample(x, y, copies="repeated").split(6)
    assert (len(known), {*x[known, 0]} & {*x[others, 0]}) == (8, set())
    assert len(Sample(x, y, order="file", copies="repeated").split(6)[0]) == 6
    with pytest.raises(Refused, match="no row"):
        Sample(x, y, copies="repeated").split(21)


TABLE = np.array([[2.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 3.0, 2.0], [0.0, 1.0, 5.0], [9.0, 0.0, 0.0]])
LABELS, GROUPS = np.array([0, 0, 2, 2, 7]), np.array([1, 1, 1, 4, 4])
FIVE = Sample(np.arange(5)[:, None], LABELS, groups=GROUPS)


def counted(room=0.0, sample=FIVE, table=TABLE, picks=(), **changes):
    return [(each["errors"], each["n"]) for each in recount(sample, Message(**changes), table, picks, room)]


def test_each_reading_of_copies_counts_in_its_way():
    x, y = np.array([[0], [1], [1], [2], [2], [2], [0], [3]], np.uint8), np.zeros(8, int)
    table = np.eye(2)[[0, 0, 0, 1, 1, 0, 0, 0]]
    copied = {each: Sample(x, y, "file", copies=each) for each in ("any", "independent", "repeated")}
    assert counted(0, copied["any"], table, rows=1) == [(2, 5)]  # right inputs are 1, 2 and 3
    assert counted(0, copied["independent"], table, rows=1) == [(2, 7)]
    assert counted(0, copied["repeated"], table, rows=1) == [(1, 3)]  # 2 is wrong, 1 and 3 are right
    assert counted(0, copied["repeated"], table) == [(1, 4)]
    assert counted(0, copied["repeated"], 1 - table, rows=1) == [(4, 4)]  # wrong rows of known inputs count
    assert counted(0, copied["any"], table, (1, 3), rows=1) == [(1, 4)]  # of the right ones 3 is left
    assert counted(0, copied["repeated"], table, (1, 3), rows=1) == [(1, 4)]
    assert recount(copied["any"], Message(rows=1), table, (1, 3))[0]["picks"] == 2


def test_declared_scores_are_counted():
    assert counted() == [(3, 5)]  # a tie, label 2, and a label that is no column
    costs = {"loss": "cost-above:1:distance", "costs": [[0, 1, 2], [1, 0, 1], [2, 1, 0]]}
    assert counted(loss="top:2") == counted(**costs) == [(1, 5)]
    assert counted(loss="class:2") == counted(loss="confused:2:1") == [(1, 2)]
    assert counted(loss="false-alarm:0") == [(1, 3)]
    assert counted(on="answered:1") == [(1, 2), (3, 5)]
    assert counted(on="predicted:0") == [(1, 2)]  # nothing is above the other of a tie
    assert counted(on="each class") == [(1, 2), (0, 0), (1, 2)]
    assert counted(on="each group") == [(2, 3), (1, 2)]
    assert counted(on="each group", picks=[2, 3]) == [(1, 3), (1, 2)]
    assert counted(biases=[0.0, -1.0, 1.0]) == [(2, 5)]  # the tie is gone, of label 2 one is wrong
    with pytest.raises(Refused, match="label"):
        counted(form="picks", picks=[4])
    # in doubt: wrong, answered, predicted and silent
    doubt = (0.5, Sample(np.arange(3)[:, None], np.zeros(3, int)), np.array([[0.3, 0], [1, 0], [0, 1]]))
    assert counted(*doubt) == [(2, 3)]
    assert counted(*doubt, on="answered:0.2") == [(2, 3), (1, 3)]
    assert counted(*doubt, on="predicted:0") == [(1, 2)]


def test_a_cluster_counts_once_by_a_row_of_its_own_choice():
    assert (decoded("0", 8, **CLUSTERS).rows, decoded("0", 8, **CLUSTERS).on) == (4, "one row a cluster")
    assert decoded("1111110 101 1111 10 0", 8, **CLUSTERS).on == "any row of a cluster"
    for bits in ("1111110 000 1 0 10", "1111110 101 1110 10"):
        with pytest.raises(Refused, match="clusters"):
            decoded(bits, 8, **CLUSTERS)
    # clusters that all hold the same two rows, one right and one wrong: about half are wrong
    x, y, c = np.tile([[0], [1]], (60, 1)), np.zeros(120, int), np.arange(120) // 2
    world = (0.0, Sample(x, y, order="clusters", copies="independent", clusters=c), np.eye(2)[x[:, 0]])
    [(errors, n)] = counted(*world, on="one row a cluster", rows=10)
    assert (n, 10 < errors < 40) == (50, True)
    assert counted(*world, on="any row of a cluster", rows=10) == [(50, 50)]
    assert counted(*world, on="any row of a cluster", loss="class:1") == [(0, 0)]


def checked(form, changes, own):
    file = read_container(file_of(form[0], header_of(*form[:2], form[2] | changes)))
    check_limits(file, read_message(file), own)
    return file


def test_limits_are_those_of_the_laws_and_printed_ones_are_recomputed():
    assert abs(limit_of(0, 100, 0.05) - (1 - 0.05**0.01)) < 1e-12
    assert abs(float(limit_of(20, 500, 0.05 / 8)) - 0.0674) < 1e-4
    assert limit_of(5, 5, 0.5) == limit_of(2, 5, 0.5, 3) == 1
    p = Fraction(float(limit_of(1, 30, 0.1, 2)))
    mass = [comb(30, k) * p**k * (1 - p) ** (30 - k) for k in range(31)]
    assert abs(float(30 * p * mass[3] / sum(mass[4:])) - 0.1) < 1e-9
    value = float(limit_of(2, 20, 0.0125)) * (1 + 1e-9)

    def check(commonest=12, loss="wrong", **limit):
        own = COUNTED | {"errors": 2, "n": 20, "picks": 0}
        told = own | {"bound": value, "picks": None} | limit
        changes = {"claim.bound": told["bound"], "claim.limits": [told]}
        message = Message(loss=loss, costs=[[0, 1], [2, 0]])
        return is_vacuous(checked(FIRST, changes, [own]), message, np.arange(20) >= commonest)

    assert not check() | check(14, "class:1") | check(loss="confused:0:1")
    assert check(14) & check(loss="cost-above:1:12")  # a third, where the commonest label is wrong on 30 %
    for change in ({"bound": value * (1 - 1e-6)}, {"bound": value * (1 + 1e-5)}, {"errors": 1}, {"n": 21}):
        with pytest.raises(Refused):
            check(**change)


def test_both_limits_of_a_sum_pay_for_the_message():
    own = [{"errors": e, "n": 2000, "picks": 0, "of": of} for e, of in ((2, "risk"), (3, "disagreement"))]

    def check(*prices, shift=None):
        limits = [each | {"picks": None} for each in own]
        for limit, price in zip(limits, prices, strict=True):
            limit["bound"] = float(limit_of(limit["errors"], 2000, 0.025 / 2**price)) * (1 + 1e-9)
        exact = sum(Fraction(limit["bound"]) for limit in limits)
        bound = float(exact) if float(exact) >= exact else float(np.nextafter(float(exact), 1))
        bound = bound if shift is None else float(np.nextafter(bound, shift))
        changes = {"sample.rows": 2000, "claim.limits": limits, "claim.bound": bound}
        checked(NETWORK, SUM | changes, own)

    check(19, 19)
    for prices, shift in (((19, 0), None), ((0, 19), None), ((19, 19), 0), ((19, 19), 1)):
        with pytest.raises(Refused):
            check(*prices, shift=shift)


def network_of(*steps, block="", **changes) -> dict:
    return decoded("111110" + encoded(*steps) + block, **changes).network


MASK = ((1, 5), (0, 3, 4), (0, 2, 3), (1, 2))  # one of four, the third
LAW = bell(0)
BELLS = [(sum(LAW[:q]), LAW[q], sum(LAW)) for q in (255, 256, 255, 254)]
MODES = {"dense": (["011 1 010", (2, 5), (0, 5), (4, 5), (3, 5)], [0, -2, 2, 1])}  # step 1: j = 0
MODES["enumerative"] = (["00100 1 1", *MASK, (0, 2)], [0, 0, -1, 0])
MODES["codebook"] = (["00101", 2, -2.5, 7.0, *MASK, (0, 2)], [0, 0, -2.5, 0])
MODES["raw"] = (["00110", 1.0, -1.0, 0.0, 2.0], [1, -1, 0, 2])
MODES["bell"] = (["0001110 1 000000", *BELLS], [0, 1, 0, -1])


@pytest.mark.parametrize("mode", MODES)
def test_tensors_of_the_plain_modes_are_read(mode):
    steps, wanted = MODES[mode]
    assert (STEPS[-1], max(sum(bell(i)) for i in range(64)) <= 1 << 24) == (15384775, True)
    assert network_of(HEAD, *steps)["tensors"]["0.weight"].ravel().tolist() == wanted
    word = encoded(HEAD, *MODES["dense"][0])
    with pytest.raises(Refused, match="otherwise"):
        decoded(f"111110{int(word, 2) + 1:0{len(word)}b}")


@pytest.mark.parametrize("kind", range(4))
@pytest.mark.parametrize("flags", ["00", "10", "01", "11"])
def test_adaptive_tensors_are_read(kind, flags):
    q = np.array([[0, 3, 0, -1, 2], [0, 0, 0, 0, 0], [1, -2, 0, 3, 3]])
    open_ = [(np.abs(q).max(1 - axis) > 0) | (flags[axis] == "0") for axis in (0, 1)]
    told, signs, sizes, nonzero = [0, 0], [0, 0], [0, 0, 0], {}
    steps = [1, 1, 3, flags]  # mode, step, L
    steps += [within(told, int(flag)) for axis in (0, 1) if flags[axis] == "1" for flag in open_[axis]]
    steps += [(kind, 4), *[2] * (kind == 3)]  # stride 2
    wide = np.pad(q, ((1, 0), (2, 0))) != 0
    for i, j in np.argwhere(np.outer(*open_)).tolist():
        near = wide[i + 1, j + 1] + 2 * wide[i + 1, j] + 4 * wide[i, j + 2]
        steps.append(within(nonzero.setdefault((0, j, i, int(near))[kind], [0, 0]), int(q[i, j] != 0)))
        if q[i, j]:
            steps += [within(signs, int(q[i, j] < 0)), within(sizes, abs(int(q[i, j])) - 1)]
    found = network_of("010 000000110", *steps, input_shape=[5], classes=3)["tensors"]
    assert found["0.weight"].tolist() == q.tolist()


def test_a_block_stands_behind_the_code_word():
    steps = (HEAD, "00111 1 1 1", 2**15 + 1, 2**15 + 1, (0, 13))  # L = 1: no -1, half of 2^16 for 0 and for 1
    state = 1 << 24
    for symbol in reversed((0, 1, 1, 0)):  # what a decoder undoes
        state = (state >> 15) << 16 | symbol << 15 | state % (1 << 15)
    assert network_of(*steps, block=f"{state:040b}")["tensors"]["0.weight"].tolist() == [[0, 1], [1, 0]]
    with pytest.raises(Refused, match="block"):
        network_of(*steps, block=f"{state + 1:040b}")


def test_networks_of_pictures_have_their_tensors_and_stacks_their_fields():
    # divisor 255, theta -1, five operations: conv of 4 maps, 3 x 3, padding 1, with bias; max pool 2;
    # normalised conv of 6 maps, 5 x 5; global average pool; linear without bias; and zeros
    steps = ("1 01 0 1 010 0 0", 5, 2, 4, 3, 1, 2, "1", 3, 2, 8, 6, 5, 5, 1, "0 010 010 010 010")
    network = network_of(*steps, input_shape=[3, 8, 8])
    assert (network["scaling"], network["theta"]) == ([255, 0.0, 1.0], -1)
    shapes = {"0.weight": (4, 3, 3, 3), "0.bias": (4,), "2.weight": (6, 4, 5, 5), "4.weight": (2, 6)}
    assert {name: tensor.shape for name, tensor in network["tensors"].items()} == shapes
    with pytest.raises(Refused, match="fit"):
        network_of(*steps, input_shape=[3, 1, 1])
    # views 2, dictionary 3, pool 3; width 32, two convs of 5 x 5; double, one conv of 3 x 3, max pool; global
    parts = [(value, 3) for value in (1, 2, 0, 2, 0, 1, 1)]
    with pytest.raises(NotImplementedError, match="stack") as unread:
        network_of("1 00 0 0 0 1", "0010 011 10 01 011", *parts, "11", input_shape=[3, 32, 32])
    stages = [(32, 2, 5, 0), (64, 1, 3, 1)]
    assert unread.value.args[1] == {"views": 2, "dictionary": 3, "pool": 3, "stages": stages, "end": 3}
