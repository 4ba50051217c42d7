void f(const float* a, float* b, int n) {
    for (int i = 0; i < n; i++) b[i] = a * 2;
    b = 0;
}
