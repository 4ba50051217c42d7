void f(const float* a, float* b, unsigned n) {
    for (size_t i = 0; i < n; i++) b[i] = a[i];
}
