import wia_compiler as wia


@wia.kernel
def f(x, w: "tensor<?, 3, f32>"):
    s = x.shape
    n = x.shape[0]
    m = w.shape[0]
    k = w.shape[2]
    M, N, K = w.shape
    return x * 2.0
