import wia_compiler as wia


@wia.kernel
def f(x, *rest, **more):
    parts = [y * 2 for y in x]
    g = lambda v: v + 1
    return g(x), {"a": x}, f"{x}"
