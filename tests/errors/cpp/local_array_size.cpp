void f(const float* a, float* b, int n, int m) {
    float acc[m];
    float w[2] = {1, 2, 3};
    float* p = b;
    for (int i = 0; i < n; i++) b[i] = a[i] + acc[0] + w[1];
}
