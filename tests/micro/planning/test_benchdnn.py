"""benchdnn's words for a convolution: read, written, and there and back; what is none of ours is named."""

from __future__ import annotations

import itertools

import pytest

from kernels.ops.conv.problem import Conv
from micro.planning.benchdnn import NotTaken, is_descriptor, is_list, problem, read


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('g2mb256ic96ih27oc256oh27kh5ph2n"alexnet:conv2"', Conv(256, 96, 27, 27, 256, 5, 5, pad=2, groups=2)),
        ("ic3ih8oc4kh3", Conv(2, 3, 8, 8, 4, 3, 3)),  # batch 2, no padding
        ("mb1ic3ih8oc4oh8kh3", Conv(1, 3, 8, 8, 4, 3, 3, pad=1)),  # padding from the outputs
        ("mb1ic3ih9oc4oh9kh3dh1", Conv(1, 3, 9, 9, 4, 3, 3, pad=2, dilation=2)),  # dilation from 0
        ("mb4ic1ih161iw700oc32kh5kw20sh2sw2", Conv(4, 1, 161, 700, 32, 5, 20, stride=2)),
        ("mb1ic2ih9iw6oc4kh3kw1", Conv(1, 2, 9, 6, 4, 3, 1)),
        # 54·4 + 11 - 224 - 2: one row less would do at the bottom, and two are alike
        ("mb1ic3ih224oc96oh55kh11sh4ph2", Conv(1, 3, 224, 224, 96, 11, 11, 4, 2)),
        # SAME of TensorFlow: nothing before, one after
        ("mb1ic3ih224oc32oh112kh3sh2ph0", Conv(1, 3, 224, 224, 32, 3, 3, 2, pad_bottom=1, pad_right=1)),
        (
            "mb1ic3ih8iw8oc4oh9ow8kh3kw3ph1pw1",
            Conv(1, 3, 8, 8, 4, 3, 3, pad_top=1, pad_left=1, pad_bottom=2, pad_right=1),
        ),
        ("mb3ic4iw10oc5ow10kw3pw1", Conv(3, 4, 1, 10, 5, 1, 3, pad_left=1, pad_right=1)),  # a line of pixels
        ("mb16_ic96oc256_ih27oh27kh5sh1dh0ph2_iw27ow27kw5sw1dw0pw2", Conv(16, 96, 27, 27, 256, 5, 5, pad=2)),
        ("g1mb2ic4oc4ih8kh8sh3", Conv(2, 4, 8, 8, 4, 8, 8, 3)),
    ],
)
def test_a_text_is_a_convolution(text: str, expected: Conv) -> None:
    assert is_descriptor(text) and problem(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("mb1ic3id8ih8oc4kd3kh3", "3-d"),
        ("mb1ic3ih8iw8oc4kh3kw3sh2sw1", "two strides"),
        ("mb1ic3ih8iw8oc4kh3kw3dh1dw0", "two dilations"),
        ("mb1ic3ih9oc4oh3kh3ph0", "outputs left out"),
        ("mb1ic3ih9oc4kh3sh0", "stride 0"),
    ],
)
def test_what_is_none_of_ours_is_named(text: str, reason: str) -> None:
    with pytest.raises(NotTaken, match=f"^{reason}$"):
        problem(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mb1ic3ih8oc4", "kh is missing, beside ih"),
        ("mb1ic3ih8iw9oc4kh3", "kw is missing, beside iw"),
        ("mb1ic3ih8oc4kh3ic4", "stands there twice"),
        ("mb1ih8oc4kh3", "names ic, oc, ih and kh"),
        ("mb1ic3oc4", "names ic, oc, ih and kh"),
        ("mb1ic3ih8oc4kh9", "--r 9: longer than an image of 8"),
        ("g2mb1ic3ih8oc4kh3", "--groups 2: --c 3 is not a multiple of it"),
        ("mb1ic3ih8oc4kh3x2", "no convolution like"),
        ("64x3x7x7", "no convolution like"),
    ],
)
def test_what_is_no_convolution_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        problem(text)


def cases() -> list[Conv]:
    """Odd shapes of all kinds, every side's padding its own in some."""
    sizes = [(1, 9, 9, 3, 3), (2, 9, 12, 3, 2), (1, 1, 20, 1, 3), (3, 16, 16, 5, 5)]
    rest = itertools.product((1, 2), (1, 2), ((0, 0, 0, 0), (1, 1, 1, 1), (0, 0, 1, 1), (1, 0, 0, 1)), (1, 2))
    return [
        Conv(n, 4, h, w, 6, r, s, stride, 0, *pads, dilation if r > 1 else 1, groups)
        for (n, h, w, r, s), (stride, groups, pads, dilation) in itertools.product(sizes, rest)
    ]


def test_there_and_back() -> None:
    """Padding after the image that reads nothing is not said, and so is what it must be: the outputs stay."""
    for one in cases():
        option, text = one.descriptor.split(" ")
        assert option == "--dir=FWD_D"
        back = problem(text)
        sides = {"pad", "pad_bottom", "pad_right"}
        assert {k: v for k, v in vars(back).items() if k not in sides} == {
            k: v for k, v in vars(one).items() if k not in sides
        }, text
        assert [x.outputs for x in back.lines] == [x.outputs for x in one.lines], text
        assert back.inside == one.inside, text


def test_a_size_may_stand_there_twice_with_one_value() -> None:
    assert problem("mb1ic3ih8oc4kh5_kh5ph2") == problem("mb1ic3ih8oc4kh5ph2")


def test_every_pass_has_its_word() -> None:
    words = [Conv(1, 1, 3, 3, 1, direction=x).descriptor for x in ("forward", "dgrad", "wgrad")]
    assert words == [f"--dir={word} mb1ic1ih3oc1oh1kh3ph0" for word in ("FWD_D", "BWD_D", "BWD_W")]


def test_a_file_is_in_all_passes_until_it_says_which() -> None:
    listed = read(
        "# two\nmb1ic1ih3oc1kh3  # one\n\n--dir=FWD_B,FWD_D,BWD_WB\nmb2ic1ih3oc1kh3\nmb2ic1ih3oc1kh3sh1sw2kw3iw3\n"
    )
    assert [(x.n, x.direction) for x in listed.problems] == [
        (1, "forward"),
        (1, "dgrad"),
        (1, "wgrad"),
        (2, "forward"),
        (2, "wgrad"),
    ]
    assert (listed.taken, listed.left_out) == (2, {"two strides": 1})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("--dir=FWD_D\n--dt=bf16\nmb1ic1ih3oc1kh3", "line 2: --dt=bf16: of benchdnn's options --dir alone is read"),
        ("--dir=FWD\nmb1ic1ih3oc1kh3", "line 1: --dir=FWD: FWD: there are FWD_B"),
        ("mb1ic1ih3oc1kh3\nmb1ic1ih3oc1", "line 2: kh is missing"),
    ],
)
def test_a_line_that_is_not_read_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read(text)


def test_a_list_is_told_from_a_log() -> None:
    assert is_list("# remark\n\nmb1ic1ih3oc1kh3\n") and is_list("--dir=FWD_D\n")
    assert not is_list("") and not is_list("{}") and not is_list("onednn_verbose,v1,info,cpu\nmb1ic1ih3oc1kh3")
