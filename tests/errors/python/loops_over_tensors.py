import wia_compiler as wia


@wia.kernel
def f(x: "tensor<N, f32>", y: "output tensor<N, f32>"):
    for value in x:
        pass
    for i, j in enumerate(x):
        pass
    for i in range(0, N, 2, 3):
        i = 3
    for i in range(N):
        i += 1
    else:
        pass
