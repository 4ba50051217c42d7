float f(const float* a, float* b, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++) { b[i] = a[i]; sum += a[i]; }
    return sum;
}
