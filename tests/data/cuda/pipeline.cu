// Copies that overlap with computation: two stages of cp.async through cuda_pipeline's primitives.
#include <cuda_pipeline_primitives.h>

// y[b] = the sum over all tiles of x[tile, b] * w[tile], tiles of 128 floats; blocks of 128 threads.
extern "C" __global__ void pipelined(const float* x, const float* w, float* y, int tiles) {
  __shared__ __align__(16) float buffer[2][128];
  int t = threadIdx.x;
  const float* mine = x + blockIdx.x * tiles * 128;
  float sum = 0;
  for (int tile = 0; tile < tiles + 1; ++tile) {
    if (tile < tiles && t < 32)
      __pipeline_memcpy_async(&buffer[tile & 1][4 * t], mine + tile * 128 + 4 * t, 16);
    __pipeline_commit();
    if (tile == 0) continue;
    __pipeline_wait_prior(1);
    __syncthreads();
    sum += buffer[(tile - 1) & 1][(t * 5 + 3) % 128] * w[tile - 1];
    __syncthreads();
  }
  y[blockIdx.x * 128 + t] = sum;
}
