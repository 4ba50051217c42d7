"""Random C++ loops, compiled by g++ and by us: equal to the last bit.

The expressions mix types, so that every implicit conversion of C++ is among them.
"""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import wia_compiler as wia

COMPILER = shutil.which("g++")
TYPES = {
    "float": np.float32,
    "double": np.float64,
    "int8_t": np.int8,
    "uint8_t": np.uint8,
    "int16_t": np.int16,
    "int": np.int32,
    "int64_t": np.int64,
    "bool": np.bool_,
}
FLOATS = ("float", "double")
COUNT = 57
HEADER = "#include <algorithm>\n#include <cmath>\n#include <cstdint>\nusing namespace std;\n"
FUNCTIONS = 30


class Writer:
    """Writes one function: its parameters' types, then an expression over them."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.arrays = {name: self.random.choice(list(TYPES)) for name in "abc"}
        self.result = self.random.choice(list(TYPES))

    def text(self, name: str) -> str:
        parameters = ", ".join(f"const {type_}* {array}" for array, type_ in self.arrays.items())
        local = self.random.choice(list(TYPES))
        first, _ = self.expression(3)
        second, _ = self.expression(2)
        third, _ = self.expression(3)
        operator = self.random.choice(["+=", "-=", "*="])
        if self.result == "bool":
            operator = "="
        return (
            f"void {name}({parameters}, {self.result}* out, int n) {{\n"
            f"    for (int i = 0; i < n; i++) {{\n"
            f"        {local} t = {self.safe(first, local)};\n"
            f"        if ({second}) {{ t = {self.safe(third, local)}; }}\n"
            f"        out[i] = {self.safe('t', self.result)};\n"
            f"        out[i] {operator} {self.safe('a[i]', self.result)};\n"
            f"    }}\n}}\n"
        )

    def safe(self, text: str, type_: str) -> str:
        """A value in the range of a type: converting another float to an integer is undefined."""
        if type_ in (*FLOATS, "bool"):
            return text
        return f"(int)fmax(fmin((double)({text}), 100.0), {'0.0' if type_[0] == 'u' else '-100.0'})"

    def expression(self, depth: int) -> tuple[str, bool]:
        """The text of an expression, and whether its value is a float."""
        if depth == 0:
            return self.leaf()
        kind = self.random.randrange(9)
        left, is_float = self.expression(depth - 1)
        right, other_is_float = self.expression(depth - 1)
        both = is_float or other_is_float
        match kind:
            case 0 | 1:
                return f"({left} {self.random.choice('+-*')} {right})", both
            case 2:
                if both:
                    return f"({left} / {right})", True
                divisor = self.random.choice(["3", "-3", "7", f"({right} | 1)"])
                return f"({left} {self.random.choice('/%')} {divisor})", False
            case 3:
                sign = self.random.choice(["<", "<=", ">", ">=", "==", "!="])
                return f"({left} {sign} {right})", False
            case 4:
                test, _ = self.expression(0)
                return f"({test} ? {left} : {right})", both
            case 5:
                return f"({left} {self.random.choice(['&&', '||'])} {right})", False
            case 6:
                type_ = self.random.choice(["float", "double", "int64_t"])
                if type_ == "int64_t":
                    return f"(int64_t)({self.safe(left, 'int')})", False
                return f"static_cast<{type_}>({left})", True
            case 7:
                if both:
                    return f"{self.random.choice(['fmin', 'fmax'])}({left}, {right})", True
                return f"({left} {self.random.choice('&|^')} {right})", False
            case _:
                sign = self.random.choice(["-", "!"])
                return f"({sign}{left})", is_float and sign == "-"

    def leaf(self) -> tuple[str, bool]:
        if self.random.random() < 0.7:
            name = self.random.choice("abc")
            return f"{name}[i]", self.arrays[name] in FLOATS
        literal = self.random.choice(["i", "2", "3", "0.5f", "0.1f", "0.1", "1.5", "true", "'7'"])
        return ("7", False) if literal == "'7'" else (literal, "." in literal)


def values(type_: str, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    if type_ in FLOATS:
        found = generator.standard_normal(COUNT) * 10
        found[::7] = np.round(found[::7])
        found[3], found[11] = 0.0, -0.0
        return found.astype(TYPES[type_])
    if type_ == "bool":
        return generator.integers(0, 2, COUNT).astype(np.bool_)
    low = 0 if type_[0] == "u" else -100
    return generator.integers(low, 100, COUNT).astype(TYPES[type_])


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> ctypes.CDLL:
    folder = Path(tmp_path_factory.mktemp("cpp"))
    texts = [Writer(seed).text(f"f{seed}") for seed in range(FUNCTIONS)]
    source = folder / "all.cpp"
    source.write_text(HEADER + 'extern "C" {\n' + "".join(texts) + "}\n")
    target = folder / "all.so"
    assert COMPILER is not None
    options = ["-O1", "-fwrapv", "-ffp-contract=off", "-shared", "-fPIC", "-w", "-std=c++20"]
    subprocess.run([COMPILER, *options, str(source), "-o", str(target)], check=True)
    return ctypes.CDLL(str(target))


@pytest.mark.skipif(COMPILER is None, reason="g++ is not on this machine")
@pytest.mark.parametrize("seed", range(FUNCTIONS))
def test_as_the_compiler_has_it(seed, library, tmp_path, monkeypatch):
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path))
    writer = Writer(seed)
    text = writer.text(f"f{seed}")
    arrays = [values(type_, seed + place) for place, type_ in enumerate(writer.arrays.values())]
    expected = np.zeros(COUNT, TYPES[writer.result])
    pointers = [each.ctypes.data_as(ctypes.c_void_p) for each in (*arrays, expected)]
    getattr(library, f"f{seed}")(*pointers, COUNT)
    kernel = wia.compile(HEADER + text, language="c++")[f"f{seed}"]
    used = [a for a, p in zip(arrays, writer.arrays, strict=True) if p in names_of(kernel)]
    found = wia.reference(kernel, *used)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected, err_msg=text)
    if seed % 4 == 0:
        np.testing.assert_array_equal(kernel(*used), expected, err_msg=text)


def names_of(kernel: wia.Kernel) -> set[str]:
    return {parameter.name for parameter in kernel.signature.passed}
