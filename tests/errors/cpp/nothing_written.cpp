void f(const float* a, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++) sum += a[i];
}
float g(float x) { x + 1; }
