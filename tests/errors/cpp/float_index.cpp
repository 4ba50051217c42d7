void f(const float* a, float* b, int n) {
    for (int i = 0; i < n; i++) {
        float half = i / 2;
        b[i] = a[half] + a[i] % 2;
    }
}
