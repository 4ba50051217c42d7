void scale(const float* a, float* b, int n) { for (int i = 0; i < n; i++) b[i] = a[i] * 2; }
float loops(float x) { float y = 0; while (y < x) y += 1; return y; }
void f(const float* a, float* b, int n) {
    for (int i = 0; i < n; i++) {
        scale(a, b, n);
        b[i] = loops(a[i]) + scale(a, b, n);
    }
}
