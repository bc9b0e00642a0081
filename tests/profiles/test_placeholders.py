"""`$RANK`-like names: the grammar, and that data comes through whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankdeck_profiles import placeholders
from rankdeck_profiles.placeholders import NAMES, PlaceholderError

VALUES = {name: f"<{name}>" for name in NAMES}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("$RANK", "<RANK>"),
        ("--local_rank=$LOCAL_RANK", "--local_rank=<LOCAL_RANK>"),
        ("${RANK}of${WORLD_SIZE}", "<RANK>of<WORLD_SIZE>"),
        ("$RANK-$NODE_RANK/$LOCAL_WORLD_SIZE", "<RANK>-<NODE_RANK>/<LOCAL_WORLD_SIZE>"),
        ("tcp://$MASTER_ADDR:$MASTER_PORT", "tcp://<MASTER_ADDR>:<MASTER_PORT>"),
        ("$$RANK", "$RANK"),
        ("$$$RANK", "$<RANK>"),
        ("a$$b$$", "a$b$"),
        ("", ""),
    ],
)
def test_fill(text, filled):
    placeholders.check([text])
    assert placeholders.fill([text], VALUES) == (filled,)


@pytest.mark.parametrize(
    ("args", "index", "column", "found"),
    [
        (["$HOME"], 0, 1, "$HOME"),
        (["ok", "a$RNK"], 1, 2, "$RNK"),
        (["${USER}"], 0, 1, "${USER}"),
        (["x$"], 0, 2, "$"),
        (["$(id)"], 0, 1, "$("),
        (["$1"], 0, 1, "$1"),
        (["${RANK"], 0, 1, "${"),
        (["$RANKS"], 0, 1, "$RANKS"),
        (["$rank"], 0, 1, "$rank"),
        (["$$$x"], 0, 3, "$x"),
    ],
)
def test_other_dollars_are_refused_with_their_place(args, index, column, found):
    with pytest.raises(PlaceholderError) as caught:
        placeholders.check(args)
    assert (caught.value.index, caught.value.column, caught.value.found) == (index, column, found)
    assert "$WORLD_SIZE" in caught.value.hint


@given(st.text())
def test_escaped_text_comes_back(text):
    placeholders.check([placeholders.escape(text)])
    assert placeholders.fill([placeholders.escape(text)], {}) == (text,)


@given(
    st.lists(st.one_of(st.text(), st.sampled_from(NAMES))), st.dictionaries(st.sampled_from(NAMES), st.text())
)
def test_values_are_data_and_never_read_again(parts, some):
    values = {**VALUES, **some}
    arg = "".join(f"${{{part}}}" if part in NAMES else placeholders.escape(part) for part in parts)
    assert placeholders.fill([arg], values) == ("".join(values.get(part, part) for part in parts),)


@given(st.text(alphabet="$RANK_{}a1"))
def test_what_check_accepts_fill_can_fill(text):
    try:
        placeholders.check([text])
    except PlaceholderError:
        return
    placeholders.fill([text], VALUES)
