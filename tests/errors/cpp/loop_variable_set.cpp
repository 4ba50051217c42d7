void f(const float* a, float* b, int n) {
    const int four = 4;
    for (int i = 0; i < n; i++) {
        n = four;
        four = 3;
        a[i] = 0;
    }
}
