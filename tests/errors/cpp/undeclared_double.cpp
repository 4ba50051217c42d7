for (int i = 0; i < N; i++) {
    c[i] = a[i] * 0.1;
    d[i] = a[i] / b[i];
}
