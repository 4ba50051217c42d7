for (int i = 1; i < N - 1; i++) {
    b[i] = a[i - 1] + a[i] + a[i + 1];
}
