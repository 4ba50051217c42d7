// A transpose in shared memory, a scan with votes, matching lanes, products of a warp.
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void transposed(const float* x, float* y, int rows, int columns) {
  __shared__ float tile[32][33];
  int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8)
    if (row + k < rows && column < columns) tile[threadIdx.y + k][threadIdx.x] = x[(row + k) * columns + column];
  __syncthreads();
  column = blockIdx.y * 32 + threadIdx.x, row = blockIdx.x * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8)
    if (row + k < columns && column < rows) y[(row + k) * rows + column] = tile[threadIdx.x][threadIdx.y + k];
}

// Places of the positive numbers, by ballots; then how many lanes of the warp hold the same value.
extern "C" __global__ void places(const int* x, int* y, int* same, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int v = i < n ? x[i] : 0;
  unsigned positive = __ballot_sync(~0u, v > 0);
  int place = __popc(positive & ((1u << (threadIdx.x & 31)) - 1));
  bool some = __any_sync(~0u, v == 5), every = __all_sync(~0u, v < 100);
  unsigned alike = __match_any_sync(~0u, v);
  int most = __reduce_max_sync(~0u, v);
  if (i < n) y[i] = v > 0 ? place + 100 * some + 1000 * every : -1;
  if (i < n) same[i] = __popc(alike) + most;
}

// C = A B with tiles of 16 x 16 x 16, a warp for each; A rows, B columns next to one another.
extern "C" __global__ void tensor_product(const half* a, const half* b, float* c, int m, int n, int k) {
  int row = blockIdx.y * 16, column = blockIdx.x * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> y;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> z;
  wmma::fill_fragment(z, 0.0f);
  for (int p = 0; p < k; p += 16) {
    wmma::load_matrix_sync(x, a + row * k + p, k);
    wmma::load_matrix_sync(y, b + column * k + p, k);
    wmma::mma_sync(z, x, y, z);
  }
  for (int i = 0; i < z.num_elements; ++i) z.x[i] = z.x[i] * 0.5f;
  wmma::store_matrix_sync(c + row * n + column, z, n, wmma::mem_row_major);
}
extern "C" __global__ void integer_product(const signed char* a, const signed char* b, int* c) {
  __shared__ __align__(32) signed char rows[32 * 16];
  for (int i = threadIdx.x; i < 32 * 16; i += 32) rows[i] = a[i];
  __syncthreads();
  wmma::fragment<wmma::matrix_a, 32, 8, 16, signed char, wmma::row_major> x;
  wmma::fragment<wmma::matrix_b, 32, 8, 16, signed char, wmma::row_major> y;
  wmma::fragment<wmma::accumulator, 32, 8, 16, int> z;
  wmma::fill_fragment(z, 1);
  wmma::load_matrix_sync(x, rows, 16);
  wmma::load_matrix_sync(y, b, 8);
  wmma::mma_sync(z, x, y, z);
  wmma::store_matrix_sync(c, z, 32, wmma::mem_col_major);
}
