import wia_compiler as wia


@wia.kernel
def f(x: "tensr<N, f32>", y: "tensor<N, float33>", z: float, s=1.0, t: "f32 f32" = 2):
    return x
