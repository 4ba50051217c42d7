"""Results that PTX leaves open, moved within what it allows: ``run(…, jitter=seed)``."""

import numpy as np
import pytest
from ptx_texts import element, launch
from wia_compiler.base.errors import ArgumentError

RNG = np.random.default_rng(97)
COUNT = 4096


def computed(instruction: str, x: np.ndarray, **options) -> np.ndarray:
    y = np.zeros_like(x)
    body = f"""
        mov.u32 %r1, %ctaid.x; mad.lo.u32 %r1, %r1, 128, %r0;
        {element("%d2", "%d0", 4, "%r1")} {element("%d3", "%d1", 4, "%r1")}
        ld.global.f32 %f1, [%d2]; mov.f32 %f2, 0f40490FDB; {instruction}
        st.global.f32 [%d3], %f3;
    """
    launch(body, x, y, block=128, grid=len(x) // 128, **options)
    return y


def ulp(exact: np.ndarray) -> np.ndarray:
    return np.spacing(np.abs(exact).astype(np.float32)).astype("f8")


CASES = {
    "ex2.approx.f32 %f3, %f1;": (np.exp2, (-20, 20), lambda e, x: 2 * ulp(e)),
    "lg2.approx.f32 %f3, %f1;": (
        np.log2,
        (0.01, 100),
        lambda e, x: np.where((x > 0.5) & (x < 2), 1, np.abs(e)) * 2.0**-22,
    ),
    "rcp.approx.f32 %f3, %f1;": (lambda x: 1 / x, (0.1, 10), lambda e, x: ulp(e)),
    "rsqrt.approx.f32 %f3, %f1;": (
        lambda x: 1 / np.sqrt(x),
        (0.1, 10),
        lambda e, x: np.abs(e) * 2.0**-22.9,
    ),
    "sqrt.approx.f32 %f3, %f1;": (np.sqrt, (0.1, 10), lambda e, x: np.abs(e) * 2.0**-23),
    "sin.approx.f32 %f3, %f1;": (np.sin, (-3, 3), lambda e, x: 2.0**-20.5 + 0 * e),
    "tanh.approx.f32 %f3, %f1;": (np.tanh, (-3, 3), lambda e, x: np.abs(e) * 2.0**-11),
    "div.full.f32 %f3, %f2, %f1;": (
        lambda x: np.float32(np.pi).astype("f8") / x,
        (0.1, 10),
        lambda e, x: 2 * ulp(e),
    ),
}


@pytest.mark.parametrize("instruction", CASES)
def test_errors_stay_within_the_bounds_and_depend_on_the_seed(instruction):
    function, limits, bound = CASES[instruction]
    x = RNG.uniform(*limits, COUNT).astype(np.float32)
    plain = computed(instruction, x)
    made = [computed(instruction, x, jitter=seed) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(made[0], made[1])
    assert (made[0] != made[2]).mean() > 0.1
    exact = function(x.astype("f8"))
    for each in (plain, *made):
        assert (np.abs(each - exact) <= bound(exact, x.astype("f8"))).all()
    assert (made[0] != plain).mean() > 0.1


@pytest.mark.parametrize(
    "instruction",
    ["add.rn.f32 %f3, %f1, %f2;", "div.rn.f32 %f3, %f2, %f1;", "sqrt.rn.f32 %f3, %f1;"],
)
def test_what_has_one_result_keeps_it(instruction):
    x = RNG.uniform(0.1, 10, COUNT).astype(np.float32)
    np.testing.assert_array_equal(computed(instruction, x), computed(instruction, x, jitter=3))


def test_special_values_stay():
    x = np.zeros(128, np.float32)
    x[:6] = [np.inf, -np.inf, np.nan, 200, -200, 0]
    plain = computed("ex2.approx.f32 %f3, %f1;", x)
    np.testing.assert_array_equal(plain[:5], computed("ex2.approx.f32 %f3, %f1;", x, jitter=1)[:5])


def product(x: np.ndarray, types: str, **options) -> np.ndarray:
    y = np.zeros((32, 4), np.uint32)
    body = f"""
        {element("%d2", "%d0", 40)} {element("%d3", "%d1", 16)}
        ld.global.b32 %r10, [%d2]; ld.global.b32 %r11, [%d2+4]; ld.global.b32 %r12, [%d2+8];
        ld.global.b32 %r13, [%d2+12]; ld.global.b32 %r14, [%d2+16]; ld.global.b32 %r15, [%d2+20];
        ld.global.b32 %r16, [%d2+24]; ld.global.b32 %r17, [%d2+28]; ld.global.b32 %r18, [%d2+32];
        ld.global.b32 %r19, [%d2+36];
        mma.sync.aligned.{types} {{%r16, %r17, %r18, %r19}}, {{%r10, %r11, %r12, %r13}},
            {{%r14, %r15}}, {{%r16, %r17, %r18, %r19}};
        st.global.b32 [%d3], %r16; st.global.b32 [%d3+4], %r17; st.global.b32 [%d3+8], %r18;
        st.global.b32 [%d3+12], %r19;
    """
    launch(body, x, y, **options)
    return y


def test_sums_of_products_run_in_another_order():
    x = np.zeros((32, 20), np.float16)
    x[:, :12] = RNG.standard_normal((32, 12)) * 10.0 ** RNG.integers(-2, 3, (32, 12))
    plain, *made = (
        product(x, "m16n8k16.row.col.f32.f16.f16.f32", **options).view(np.float32)
        for options in ({}, {"jitter": 1}, {"jitter": 2})
    )
    largest = np.abs(plain).max()
    for each in made:
        assert (each != plain).any()
        np.testing.assert_allclose(each, plain, atol=largest * 2.0**-20)
    assert (made[0] != made[1]).any()


def test_products_of_integers_stay():
    x = RNG.integers(-(2**31), 2**31, (32, 10)).astype(np.int32)
    x[:, 6:] = 0
    words = "m16n8k32.row.col.s32.s8.s8.s32"
    np.testing.assert_array_equal(product(x, words), product(x, words, jitter=5))


def test_the_compiled_engine_has_no_jitter():
    with pytest.raises(ArgumentError, match="jitter= runs on numpy"):
        computed("ex2.approx.f32 %f3, %f1;", np.zeros(128, "f4"), jitter=1, engine="compiled")
