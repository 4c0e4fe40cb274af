"""The vectors of secure aggregation, which the Rust crates test as well (protocol/src/secure), checked by Python.

Usage: secure_vectors.py. Prints the number of vectors that agree; the first one that does not ends it.
"""

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.hashes import SHA256

from secure import shamir
from secure.member import Member
from secure.roster import LABEL, SUITE, Context, Record, Roster, agreed, commitment, keystream, public_key, sha256, u16
from secure.sealing import opened, sealed
from secure.values import Form, kept, stride
from secure.words import mask, packed

checked = 0


def equal(found, expected, what):
    global checked
    found = found.hex() if isinstance(found, bytes) else found.tolist() if isinstance(found, np.ndarray) else found
    assert found == expected, f"{what}: {found} instead of {expected}"
    checked += 1


def close(found, expected, what):
    global checked
    assert np.allclose(found, expected, rtol=0, atol=1e-11), f"{what}: {found} instead of {expected}"
    checked += 1


def drawn(word, member):
    return sha256(b"tributary secagg test ", word.encode(), bytes([member]))


S, C, B, N, F = ([drawn(word, member) for member in range(3)] for word in "scbnf")


def roster_of(hashes, degree=2):
    job, group, model, plan = bytes(range(16)), bytes(range(16, 32)), sha256(b"model"), sha256(b"plan")
    sizes = {"suite": SUITE, "bits": 16, "threshold": 2, "degree": degree, "length": 8}
    context = Context(job=job, round=7, group=group, model=model, plan=plan, **sizes)
    assert len(context.to_bytes()) == 114
    return Roster(context, hashes)


def records():
    made = zip(C, S, N, B, F)
    return [Record(SUITE, public_key(c), public_key(s), nonce, commitment(b), f) for c, s, nonce, b, f in made]


ROSTER = roster_of([record.hash() for record in records()])


def keys_and_records():
    equal(S[0], "2f8426188d0517128ba474c3eef37518bf2396f29c3a03a08ac81c14d6d7c8cc", "s_0")
    equal(B[0], "17ee391f5285bab0aaaaa96ea6d86958faead663635d73671223aa697c1042d1", "b_0")
    equal(public_key(S[0]), "78811de12cc8136987ab7dba9b073d5e90185ee9ed5219c1345a563769b9317b", "key of s_0")
    equal(public_key(C[0]), "65824548f44e0e7199ea550d57f707a52251f5e886ee4560b62cc48c20a77e12", "key of c_0")
    equal(commitment(B[0]), "4203a14be90075d19d1bc3fc727fa9b062cac222f40ec2a21d09f4d5b60cf62e", "commitment of b_0")
    hashes = [
        "394fcf2ffd6d5dc938c9b10a174159c50d2eaf02d810173cb14f3c27200b1ca6",
        "87d956b3718d99caa9aeb866a3f0a4371b46906842d9368ef5f84aaa2e2957da",
        "a29ca3a626305c8624b404e81bfc0ffc291bf04a8bb641f2abd2ddd877521ba5",
    ]
    for member, record in enumerate(records()):
        equal(record.hash(), hashes[member], f"record of {member}")


def roster_and_circle():
    equal(ROSTER.hash, "234fd1d22d78415d7c9f38cf5a853b4366c4d8242db5b96ba5774166232b1b92", "roster")
    equal(ROSTER.circle, [1, 0, 2], "circle")
    # The circle follows from the hash, whatever group has it.
    ten = roster_of([bytes(32)] * 10, degree=4)
    ten.hash = ROSTER.hash
    ten.circle = ten.in_circle()
    equal(ten.circle, [1, 8, 7, 0, 2, 9, 6, 5, 4, 3], "circle of ten")
    equal(ten.neighbours(0), [2, 7, 8, 9], "neighbours among ten")
    secret = agreed(S[0], public_key(S[1]))
    equal(secret, "bc69db657cec172d9578668389320cd95d372893adaa29ff869bfd2fdd0c357b", "X25519 of s_0 and s_1")


def masks():
    keys = {
        (0, 1): "3f2cdc82d3f82bb45857c001ef59d00cbfedf025337c5364896f436e72a08bd8",
        (0, 2): "bb7baac03982078c181cf1f72c680025e71a0a325607f389b9c609d9618d0646",
        (1, 2): "26d81f71445a3040bd5a8637fd55dec76e922dadc7a063761dc61b9191bfcfd0",
    }
    words = {
        (0, 1): [34904, 62460, 4332, 34158, 24357, 58103, 40866, 16818],
        (0, 2): [33111, 13009, 62126, 13908, 26837, 46409, 3447, 29608],
        (1, 2): [58024, 27285, 23576, 6007, 23273, 53455, 58322, 11383],
    }
    for (one, other), expected in keys.items():
        key = pair_key("mask", one, other)
        equal(key, expected, f"mask key of {one} and {other}")
        equal(pair_key("mask", other, one), expected, f"mask key of {other} and {one}")
        equal(mask(key, 8, 16), words[one, other], f"mask of {one} and {other}")
    first = pair_key("mask", 0, 1)
    equal(mask(first, 4, 15), [2136, 29692, 4332, 1390], "15 bits")
    equal(mask(first, 4, 20), [821336, 921836, 483109, 171938], "20 bits")
    equal(mask(first, 4, 32), [4093413464, 2238583020, 3807862565, 1102225314], "32 bits")
    equal(mask(first, 2, 40), [1017705695320, 699592564517], "40 bits")
    equal(mask(pair_key("mask-slots", 0, 1), 1, 64), [14820727130004474382], "slots of 0 and 1")
    own = [
        "6d08ccdbcd606167305293c2900b9d09a0d4f8487b0951e18abe2fecc2f2868b",
        "b7d33c90fcfc328918b4a566e41449df18d36eca4e251bff7db3f7884c82ec22",
        "30001f911c74e19a04ec3258d3044e91e05a439078265f743603397ed83ef67a",
    ]
    for member, expected in enumerate(own):
        equal(ROSTER.key("self", B[member], member), expected, f"self key of {member}")
    self_words = [51960, 262, 39186, 41354, 52127, 32907, 13131, 37963]
    equal(mask(ROSTER.key("self", B[0], 0), 8, 16), self_words, "self mask of 0")
    equal(mask(ROSTER.key("self-slots", B[0], 0), 1, 64), [1801276869788097515], "own slots of 0")


def pair_key(purpose, one, other):
    return ROSTER.pair_key(purpose, agreed(S[one], public_key(S[other])), one, other)


X = [list(range(1, 9)), list(range(10, 90, 10)), [65535, 65534, 65533, 0, 0, 0, 1, 32768]]


def member(index):
    """One of the three, which has the shares of both others."""
    draws = iter([S[index], C[index], B[index], N[index]])
    member, others = Member(draw=lambda _: next(draws)), [other for other in range(3) if other != index]
    member.roster, member.index, member.shares = ROSTER, index, dict.fromkeys(others)
    member.agree({other: records()[other] for other in others})
    return member


def masked_values():
    y = [member(index).with_masks(np.array(X[index], np.uint64), "", 16) & np.uint64(0xFFFF) for index in range(3)]
    equal(y[0], [54440, 10197, 40111, 23888, 37790, 6353, 57451, 18861], "y_0")
    equal(y[1], [33343, 28869, 8516, 43968, 45066, 65477, 55581, 45572], "y_1")
    equal(y[2], [52717, 2848, 8176, 54436, 31464, 44752, 65401, 52262], "y_2")
    own = [mask(ROSTER.key("self", B[index], index), 8, 16) for index in range(3)]
    equal(sum(y) - sum(own) & np.uint64(0xFFFF), [10, 20, 30, 44, 55, 66, 78, 32856], "sum")
    pairs = mask(pair_key("mask", 0, 2), 8, 16) + mask(pair_key("mask", 1, 2), 8, 16)
    equal(y[0] + y[1] - own[0] - own[1] - pairs & np.uint64(0xFFFF), [11, 22, 33, 44, 55, 66, 77, 88], "without 2")
    equal(packed(y[0], 16), "a8d4d527af9c505d9e93d1186be0ad49", "packed y_0")
    equal(packed(np.array([1, 2, 3, 0xFFFFF], np.uint64), 20), "01002000000300f0ffff", "packed in 20 bits")


def sharing():
    equal(int(shamir.multiply(0x57, 0x83)), 0xC1, "product")
    equal(int(shamir.inverse(0x53)), 0xCA, "inverse")
    coefficients = [
        S[0],
        bytes.fromhex("64aa44a2cd836b7c5afadc5fb12433ee98033182a6b2b19cf5b957fef6b98919"),
        bytes.fromhex("5615b69b09fa6a19cb38e05d6c1dddcc1503336238c5c4f06cdd0fe344ddcc30"),
    ]
    shares = dict(zip(range(1, 6), shamir.shares(coefficients, range(1, 6))))
    equal(shares[1], "1d3bd421497c16771a6648c133ca9b3a32239412024d76cc13ac440964b38de5", "share 1")
    equal(shares[2], "a49f401d28dd728e3eab7a123ccf4ac2c029387e2b7c476ed0f88e522ae7dc3e", "share 2")
    equal(shares[3], "9620b224eca473ebaf694610e1f6a4e04d293a9eb50b3202499cd64f98839917", "share 3")
    equal(shares[4], "b351b8d504065a72fcccab0386a8c6f9a21f4fb69f20057fe965ab730f7aae85", "share 4")
    equal(shares[5], "81ee4aecc07f5b176d0e97015b9128db2f1f4d56015770137001f36ebd1eebac", "share 5")
    equal(shamir.combined({number: shares[number] for number in (1, 3, 5)}), S[0].hex(), "three shares")
    two = shamir.combined({number: shares[number] for number in (2, 4)}).hex()
    equal((two[:8], two[-7:]), ("a92ce1ac", "065f257"), "two shares")
    secret = agreed(C[0], public_key(C[1]))
    key = "7793901ace90d8627c149bcceb97f4d98c9394052694ce6fdcb77663aed5b650"
    equal(ROSTER.key("share", secret, 0, 1), key, "share key")
    own = bytes.fromhex("1a70abd61886610f8f61bd9b1fd5106e6985b245c5370141455b3075248d4e71")
    plain = b"\x02" + shares[2] + own
    ciphertext = sealed(ROSTER, secret, 0, 1, plain)
    expected = (
        "6ecf18fb77b9e37ecc2f5537f92f5ba4996bf50cc50722f52a4d5881b11333553030df38205f8198e325896bb251f55e"
        "322192d853b5dc296aa3a11d8daf48fa038f5f5bd994716fe04f6d85c9426de1ce"
    )
    equal(ciphertext, expected, "sealed share")
    equal(opened(ROSTER, secret, 0, 1, ciphertext), plain.hex(), "opened share")


def rotation():
    key = ROSTER.key("rotation")
    equal(key, "8a11b32c65358fa9a7c5fd9244033a3b28965580a7b8e8eb01cab5c65df4932f", "rotation key")
    signs = 1 - 2 * np.unpackbits(np.frombuffer(keystream(key, 1), np.uint8), bitorder="little").astype(int)
    equal(signs, [1, -1, -1, -1, 1, 1, 1, 1], "signs")
    expected = [6.363961030679, 0.707106781187, 0.707106781187, 0.707106781187]
    expected += [-12.020815280171, 2.12132034356, 3.535533905933, 0.707106781187]
    close(Form(8, 1.0, 8).rotated(np.arange(1.0, 9.0), ROSTER), expected, "rotated")
    equal(ROSTER.key("keep"), "3d44551456d280c27adb255f4cc665fbdcf2a0caecbe9d3f14b9b4d01ad18f98", "keep key")
    equal(kept(np.arange(8), 0.5, ROSTER), [0, 1, 2, 3, 7], "kept")


def layout():
    equal([stride(length) for length in (10, 65_537, 100_000)], [7, 40_502, 61_799], "strides")
    of_lengths = {1: [1], 9: [16], 65_536: [65_536], 65_537: [65_536, 1], 200_000: [65_536] * 3 + [4096]}
    for length, blocks in of_lengths.items():
        equal(Form(length, 1.0, 8).blocks, blocks, f"blocks of {length}")


def signatures():
    survivors = sha256(LABEL, b"survivors\n", ROSTER.hash, u16(3), b"\x03")
    equal(survivors, "7b9ce7966deefdbccea57232c2937d6019d55a62ef6e9ad12c72c17599dbc300", "survivors")
    point = bytes.fromhex(
        "04df26b2396b62dc8c4162677704937166d9ab3fdc664d9d9b936791f080c29c18"
        "af7d1e6f2cae63821a96af0c34bb58717bfb5abc70cfbbdb5174871cafc35d0c"
    )
    r = 0xBD6F50DA6A285E78749CE40339666962B8652D2FDFD519EE44FBAE1B1B85B9DE
    s = 0x134DD57CD2E06474052400E7E3993B0912CB5309570F15CC2C56AEE19DFCBE25
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    # It raises InvalidSignature where the two do not belong together.
    verified = key.verify(utils.encode_dss_signature(r, s), LABEL + b"sign roster\n" + ROSTER.hash, ec.ECDSA(SHA256()))
    equal(verified, None, "signature")


for vectors in (keys_and_records, roster_and_circle, masks, masked_values, sharing, rotation, layout, signatures):
    vectors()
print(f"{checked} vectors")
