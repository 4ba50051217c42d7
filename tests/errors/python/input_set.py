import wia_compiler as wia


@wia.kernel
def f(x: "tensor<N, f32>", y: "output tensor<N, f32>"):
    for i in range(N):
        x[i] = 1.0
        y[i] += total
    y *= 2.0
