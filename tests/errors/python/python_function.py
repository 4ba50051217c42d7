import wia_compiler as wia


def helper(x):
    return x * 2


@wia.kernel
def f(x):
    print(x)
    helper(x)
    return helper(x) + x(3) + len(x)
