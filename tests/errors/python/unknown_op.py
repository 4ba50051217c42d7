import numpy as np

import wia_compiler as wia


@wia.kernel
def f(x, y):
    z = np.exponential(x) + relu6x(y)
    return z + np.dot(x, y) + x.softmx(dim=-1)
