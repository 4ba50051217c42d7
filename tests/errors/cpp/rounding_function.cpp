void f(const float* a, float* b, int n) {
    for (int i = 0; i < n; i++) b[i] = roundf(a[i]) + sqrtff(a[i]) + std::min(a[i]);
}
