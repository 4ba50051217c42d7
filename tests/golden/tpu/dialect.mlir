builtin.module {
  func.func @f(%A: memref<1000x257xf32>, %r: memref<f32>, %C: memref<4x1000x130xf32>) {
    %b = memref.alloc() {slots = 2 : i64} : memref<1000x128xbf16, "vmem">
    %s = memref.alloc() {slots = 2 : i64} : memref<1000x128xf32, "accumulators">
    tile.for %k0 in 257 step 128 axis "k.0" @serial {
      tpu.dma_in %b, %A[0 : 1000, 3 * %k0 + 4 : 128 clip] transposed : memref<1000x128xbf16, "vmem">, memref<1000x257xf32>
      tpu.dma_in %b, %r[] : memref<1000x128xbf16, "vmem">, memref<f32>
      tpu.clear %s, %C[0, 0 : 1000, %k0 : 128] : memref<1000x128xf32, "accumulators">, memref<4x1000x130xf32>
      tpu.load_weights %b : memref<1000x128xbf16, "vmem">
      tpu.stream_input %b : memref<1000x128xbf16, "vmem">
      tpu.systolic_execute "128x128", %s : memref<1000x128xf32, "accumulators">
      tpu.vector_add %b, %s, %s : memref<1000x128xbf16, "vmem">, memref<1000x128xf32, "accumulators">, memref<1000x128xf32, "accumulators">
      tpu.vector_add %b, %s number 1.500000e+00 : f64 : memref<1000x128xbf16, "vmem">, memref<1000x128xf32, "accumulators">
      tpu.activate "relu", %b, %s : memref<1000x128xbf16, "vmem">, memref<1000x128xf32, "accumulators">
      tpu.vector_round %b, %s, "bf16" : memref<1000x128xbf16, "vmem">, memref<1000x128xf32, "accumulators">
      tpu.store_output number 1.500000e+00 : f64, %C[3, 0 : 1000, %k0 : 128 clip] : memref<4x1000x130xf32>
      tpu.store_output %b, %C[3, 0 : 1000, %k0 : 128 clip] : memref<1000x128xbf16, "vmem">, memref<4x1000x130xf32>
    }
    func.return
  }
}
