void f(const float A[M][N], float B[M][N], int M, int N) {
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) B[i][j] = A[i] + A[i][j][0];
}
