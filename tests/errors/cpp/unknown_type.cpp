void f(const flaot* a, float* b, int n) {
    for (int i = 0; i < n; i++) b[i] = a[i];
}
