// Arithmetic of halves, bfloat16 and fp8, of doubles, and integers of every width.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>

extern "C" __global__ void halves(const __half2* x, const __half2* w, __half2* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __half2 s = __hfma2(x[i], w[i], __hadd2(x[i], w[i]));
  s = __hmax2(s, __hmul2(x[i], __float2half2_rn(0.25f)));
  if (__hgt(__low2half(s), __high2half(s))) s = __lowhigh2highlow(s);
  y[i] = __hsub2(s, __half2half2(__hneg(__low2half(x[i]))));
}
extern "C" __global__ void brains(const __nv_bfloat162* x, __nv_bfloat162* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __nv_bfloat162 s = __hfma2(x[i], x[i], __float2bfloat162_rn(1.5f));
  y[i] = __hmin2(s, __hadd2(x[i], s));
  z[i] = __bfloat162float(__low2bfloat16(s)) + hexp2(__float2bfloat16(0.0f)).operator float();
}
extern "C" __global__ void eighths(const float2* x, unsigned short* y, float2* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __nv_fp8x2_e4m3 e(x[i]);
  __nv_fp8x2_e5m2 f(x[i]);
  y[2 * i] = e.__x;
  y[2 * i + 1] = f.__x;
  float2 a = static_cast<float2>(e), b = static_cast<float2>(f);
  z[i] = make_float2(a.x + b.x, a.y - b.y);
}
extern "C" __global__ void sum_of_doubles(const double* x, double* y, int n) {
  __shared__ double part[8];
  double s = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) s = fma(x[i], x[i], s);
  for (int o = 16; o > 0; o >>= 1) s += __shfl_down_sync(~0u, s, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < blockDim.x / 32; ++i) s += part[i];
    *y = sqrt(s) / (1.0 + s);
  }
}
extern "C" __global__ void integers(const int* a, const int* b, long long* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  long long r = __mulhi(a[i], b[i]);
  r = r * 31 + __umulhi(a[i], b[i]) + __mul64hi(r, (long long)a[i] * b[i]);
  r = r * 31 + __vabsdiffu4(a[i], b[i]) + __vadd2(a[i], b[i]) + __vmaxs4(a[i], b[i]);
  r = r * 31 + __dp4a(a[i], b[i], 7) + __dp2a_lo(a[i], b[i], 9) + __sad(a[i], b[i], 1u);
  r = r * 31 + __brev(a[i]) + __ffs(b[i]) + __byte_perm(a[i], b[i], 0x5140 + (i & 7));
  r = r * 31 + __funnelshift_l(a[i], b[i], i) + __funnelshift_rc(a[i], b[i], i + 20);
  r = r * 31 + __rhadd(a[i], b[i]) + __hadd(a[i], b[i]) + __clzll(r) + __popcll(r);
  r = r * 31 + (a[i] & ~b[i] | 0x1234 ^ b[i]) + (short)a[i] / ((signed char)b[i] | 1);
  y[i] = r + (unsigned long long)a[i] % 1000003u + a[i] / (b[i] | 1);
}
