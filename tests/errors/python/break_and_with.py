import wia_compiler as wia


@wia.kernel
def f(x: "tensor<N, f32>", y: "output tensor<N, f32>"):
    for i in range(N):
        if x[i] > 0.0:
            break
        y[i] = x[i]
    with open("log"):
        pass
    assert N > 0
