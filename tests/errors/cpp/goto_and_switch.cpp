void f(const float* a, float* b, int n) {
    for (int i = 0; i < n; i++) {
        switch (i) { case 0: b[i] = 1; }
        if (a[i] > 0) goto end;
        b[i] = a[i];
        if (a[i] < 0) break;
        if (a[i] == 0) continue;
    }
end:
    return;
}
