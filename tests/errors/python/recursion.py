import wia_compiler as wia


@wia.kernel
def factorial(n: "i64"):
    return n if n < 2 else n * factorial(n - 1)
