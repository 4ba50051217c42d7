for (int i = 0; i < N; i++) {
    squares[i] = i * i;
}
