// Functions that are not inlined, a switch, arrays in local memory, calls in loops.
#include <stdint.h>

__device__ __noinline__ float step_of(float x, int n) {
  float r = x;
  for (int i = 0; i < n; ++i) r = r * 0.5f + x;
  return r;
}
__device__ __noinline__ int2 divided(int a, int b) {
  int2 r;
  r.x = a / b;
  r.y = a % b;
  return r;
}
__device__ __noinline__ void stored(float* to, float value) { *to = value; }
__device__ __noinline__ unsigned power(unsigned x, unsigned n) {
  return n == 0 ? 1u : (n & 1 ? x : 1u) * (n < 2 ? 1u : step_of(1.0f, 0) > 0 ? x * x : 0u);
}

extern "C" __global__ void calls(const float* x, float* y, int* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float s = step_of(x[i], i % 7);
  if (i % 3 == 0) s = step_of(s, 2) - s;
  stored(y + i, s);
  int2 d = divided(i * 37 - 100, i % 5 + 1);
  z[i] = d.x * 1000 + d.y + (int)power(i, i % 3);
}

// A choice of twelve, each with work of its own, that becomes a table of branches.
extern "C" __global__ void choices(const int* x, int* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int v = x[i], r = 0;
  switch (v) {
    case 0: for (int k = 0; k < i % 3; ++k) r += atomicAdd(y + n, 1) * 0 + k; break;
    case 1: r = v * 3 + x[(i + 1) % n]; break;
    case 2: r = v ^ 0x55; break;
    case 3: r = __popc(v * 12345 + i); break;
    case 4: r = i << 7; break;
    case 5: r = -v; for (int k = 0; k < i % 4; ++k) r += k * r;
    case 6: r += 1000; break;
    case 7: r = x[(i + 2) % n] / 3; break;
    case 8: r = i * i; break;
    case 9: atomicAdd(y + n, 10); break;
    case 10: r = x[i / 2] - 1; break;
    default: r = __clz(v);
  }
  y[i] = r;
}

// Sorts 16 numbers of each thread, whose places are only known as it runs.
extern "C" __global__ void sorted(const int* x, int* y) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  int local[16];
  for (int i = 0; i < 16; ++i) local[i] = x[t * 16 + i];
  for (int i = 1; i < 16; ++i) {
    int v = local[i], j = i - 1;
    while (j >= 0 && local[j] > v) { local[j + 1] = local[j]; --j; }
    local[j + 1] = v;
  }
  for (int i = 0; i < 16; ++i) y[t * 16 + i] = local[i];
}
