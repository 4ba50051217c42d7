// Sums by cooperative groups: tiles of a warp, the block, coalesced threads.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

extern "C" __global__ void sum_of_groups(const int* x, int* y, int n) {
  __shared__ int parts[32];
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
  int sum = 0;
  for (int i = block.thread_rank(); i < n; i += block.size()) sum += x[i];
  sum = cg::reduce(warp, sum, cg::plus<int>());
  if (warp.thread_rank() == 0) parts[warp.meta_group_rank()] = sum;
  block.sync();
  if (warp.meta_group_rank() == 0) {
    int part = warp.thread_rank() < warp.meta_group_size() ? parts[warp.thread_rank()] : 0;
    part = cg::reduce(warp, part, cg::plus<int>());
    if (warp.thread_rank() == 0) y[0] = part;
  }
}

// The largest of every four threads, as floats, by shuffles of a small tile.
extern "C" __global__ void largest_of_four(const float* x, float* y) {
  cg::thread_block_tile<4> tile = cg::tiled_partition<4>(cg::this_thread_block());
  float best = x[blockIdx.x * blockDim.x + threadIdx.x];
  for (int o = tile.size() / 2; o > 0; o /= 2) best = fmaxf(best, tile.shfl_xor(best, o));
  if (tile.thread_rank() == 0) y[(blockIdx.x * blockDim.x + threadIdx.x) / 4] = best;
}

// One atomic operation for all threads of a warp that chose a value.
extern "C" __global__ void count_odd(const int* x, int* count, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && x[i] % 2 != 0) {
    cg::coalesced_group together = cg::coalesced_threads();
    if (together.thread_rank() == 0) atomicAdd(count, together.size());
  }
}
