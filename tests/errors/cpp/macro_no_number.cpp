#define SQUARE(x) ((x) * (x))
#define TYPE float
#define TILE 32 * 2
for (int i = 0; i < N; i += TILE) c[i] = a[i];
