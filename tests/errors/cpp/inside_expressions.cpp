void f(const float* a, float* b, int n) {
    int k = 0;
    for (int i = 0; i < n; i++) {
        b[i] = a[k++];
        float x = (k = 2);
        b[i] = sizeof(float) + 'c' + (i, 2);
    }
}
