import wia_compiler as wia


@wia.kernel
def f(x):
    y = x * 2.0
