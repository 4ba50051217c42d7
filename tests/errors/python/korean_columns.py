import wia_compiler as wia


@wia.kernel
def f(x):
    """행렬 곱셈."""
    return "가나다" + x * 열 if 1 else x  # 열 is not set
