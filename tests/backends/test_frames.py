import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankdeck_backends.frames import (
    KEPT_NOISE,
    MARKER,
    MAX_BODY,
    MAX_HEADER,
    Frame,
    FrameError,
    FrameParser,
    encode,
)

HEADERS = st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=20) | st.none(), max_size=4)
FRAMES = st.lists(st.tuples(HEADERS, st.binary(max_size=200)), max_size=6)


def feed(parser: FrameParser, data: bytes, cuts: list[int]) -> list[Frame]:
    frames = []
    start = 0
    for cut in sorted({min(cut, len(data)) for cut in cuts} | {len(data)}):
        frames += parser.feed(data[start:cut])
        start = cut
    return frames


@settings(deadline=None)
@given(
    st.binary(max_size=300).filter(lambda noise: MARKER not in noise), FRAMES, st.lists(st.integers(0, 2000))
)
def test_any_cutting_gives_the_same_frames_and_the_noise_apart(noise, messages, cuts):
    parser = FrameParser()
    data = noise + MARKER + b"".join(encode(header, body) for header, body in messages)
    frames = feed(parser, data, cuts)
    assert [(frame.header, frame.body) for frame in frames] == messages
    # The marker's own first byte may end the noise early where the noise ends in a part of a marker.
    assert parser.noise + MARKER in data
    assert parser.started


@settings(deadline=None)
@given(st.binary(max_size=4000), st.lists(st.integers(0, 4000)))
def test_bytes_that_are_no_frames_end_in_an_error_or_wait_never_in_anything_else(data, cuts):
    parser = FrameParser(marker=b"")
    try:
        frames = feed(parser, data, cuts)
    except FrameError:
        return
    assert all(isinstance(frame.header, dict) for frame in frames)


def test_noise_is_bounded_and_its_end_is_kept():
    parser = FrameParser()
    for number in range(3000):
        assert parser.feed(b"%0100d\n" % number) == []
    parser.feed(b"last words")
    noise = parser.ended()
    assert len(noise) == KEPT_NOISE
    assert noise.endswith(b"last words")


def test_a_frame_that_was_cut_is_what_remains_at_the_end():
    parser = FrameParser(marker=b"")
    parser.feed(encode({"id": 1}, b"whole") + encode({"id": 2}, b"cut")[:-1])
    assert parser.ended().endswith(b"cu")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"Segmentation fault\n", "Segmentation fault"),
        (struct.pack(">II", 2, MAX_BODY + 1) + b"{}", str(MAX_BODY + 1)),
        (struct.pack(">II", 0, 0), "0 + 0 bytes"),
        (struct.pack(">II", 2, 0) + b"[]", "no JSON object"),
        (struct.pack(">II", 4, 0) + b"\xff{}\xff", "no JSON"),
        (struct.pack(">II", 20000, 0) + b"[" * 20000, "nested too deep"),
    ],
)
def test_an_error_names_what_was_found(data, said):
    with pytest.raises(FrameError, match=said.replace("+", r"\+")):
        FrameParser(marker=b"").feed(data)


def test_names_that_are_no_utf8_come_through():
    name = b"caf\xe9.txt".decode("utf-8", "surrogateescape")
    [frame] = FrameParser(marker=b"").feed(encode({"path": name}))
    assert frame.header["path"].encode("utf-8", "surrogateescape") == b"caf\xe9.txt"


def test_too_much_is_not_sent():
    with pytest.raises(FrameError, match="over the limit"):
        encode({"id": 1}, bytes(MAX_BODY + 1))
    with pytest.raises(FrameError, match="over the limit"):
        encode({"id": 1, "what": "x" * MAX_HEADER})
