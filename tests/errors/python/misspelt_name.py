import wia_compiler as wia

weight = "not an array"


@wia.kernel
def f(features, bias):
    scaled = feature * 2.0
    return scaled + weight + bais
