void copy(const float* a, float* b, int n) {
    float* end = b + n;
    while (b < end) { *b++ = *a++; }
}
