// C = A B^T on Hopper: tiles of A and B by bulk copies that an mbarrier counts, products by wgmma.
// A is stored in tiles of 64 x 16 halves and B in tiles of 32 x 16, each as wgmma reads it without
// a swizzle: core matrices of 8 rows of 16 bytes, those of the first 8 columns before the others.
#include <cuda_fp16.h>
#include <stdint.h>

__device__ uint32_t address(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ uint64_t descriptor(const void* p, int rows) {
  return (address(p) >> 4) | (uint64_t)(rows * 16 >> 4) << 16 | (uint64_t)(128 >> 4) << 32;
}

extern "C" __global__ void __launch_bounds__(128) product(const half* a, const half* b, float* c, int tiles) {
  __shared__ __align__(128) half x[2][64 * 16];
  __shared__ __align__(128) half y[2][32 * 16];
  __shared__ __align__(8) uint64_t full[2];
  int t = threadIdx.x;
  if (t == 0) {
    for (int i = 0; i < 2; ++i)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(&full[i])));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
  }
  __syncthreads();
  float d[16];
  for (int i = 0; i < 16; ++i) d[i] = 0;
  for (int tile = 0; tile < tiles; ++tile) {
    int stage = tile & 1, phase = (tile >> 1) & 1;
    if (t == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(&full[stage])), "r"(3072));
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                   ::"r"(address(x[stage])), "l"(a + tile * 1024), "r"(2048), "r"(address(&full[stage])) : "memory");
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                   ::"r"(address(y[stage])), "l"(b + tile * 512), "r"(1024), "r"(address(&full[stage])) : "memory");
    }
    asm volatile("{\n.reg .pred P;\nWAIT:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 P, [%0], %1;\n@P bra DONE;\nbra WAIT;\nDONE:\n}"
                 ::"r"(address(&full[stage])), "r"(phase) : "memory");
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, %18, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
                 "%16, %17, keep, 1, 1, 0, 0;\n}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                   "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
                 : "l"(descriptor(x[stage], 64)), "l"(descriptor(y[stage], 32)), "r"(tile));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    __syncthreads();
  }
  for (int i = 0; i < 16; ++i)
    c[(16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2)) * 32 + 8 * (i / 4) + 2 * (t % 4) + i % 2] = d[i];
}
