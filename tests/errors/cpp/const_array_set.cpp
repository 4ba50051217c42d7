void f(const float* a, float* b, const int n) {
    for (int i = 0; i < n; i++) {
        b[i] = a[i];
        a[i] = 0;
        n += 1;
    }
}
