for (int i = 0; i < N; i++) {
    float result = compute(data[i]);
    out[i] = result;
}
