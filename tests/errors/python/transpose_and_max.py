import wia_compiler as wia


@wia.kernel
def f(x):
    a = x.transpose(0, 1)
    b = x.max(dim=1)
    c = x.std()
    return a + b + c + x.device
