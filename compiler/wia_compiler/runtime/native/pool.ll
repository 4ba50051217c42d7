; Memory for what kernels write: large buffers are kept when they are given back, so that the next
; result of that size costs no page faults.
;
;     take(bytes) -> address    64 bytes aligned; null where there is no memory
;     give(address)             back to the pool, or to the system where the pool is full
;
; The 64 bytes in front of a buffer hold how many it can take. A large one begins half a page behind a
; page's start: arrays of the system begin at its first bytes, and a store that has the low 12 bits of
; an address about to be read makes that read wait (a third of the time of an elementwise kernel in
; the second cache was seen to go there). Buffers of 2^k … 2^(k+1)
; bytes wait on one shelf of 8 places. A thread that finds the pool in use goes to the system instead,
; so nothing ever waits here, and a fork while another thread is in it does no harm.
; The four functions at the end make it an allocator of numpy's (PyDataMem_Handler, NEP 49): arrays
; own such buffers as they own any other memory, and give them back when they die.

@pool_limit = global i64 0          ; bytes that may wait in all; 0 keeps nothing
@pool_huge_pages = global i64 0     ; whether madvise(14) asks for huge pages here, as Linux does
@pool_waiting = global i64 0        ; bytes that wait
@pool_busy = internal global i32 0
@pool_counts = internal global [64 x i64] zeroinitializer
@pool_shelves = internal global [64 x [8 x ptr]] zeroinitializer

declare i32 @posix_memalign(ptr, i64, i64)
declare i32 @madvise(ptr, i64, i32)
declare void @free(ptr)
declare ptr @memcpy(ptr, ptr, i64)
declare ptr @memmove(ptr, ptr, i64)
declare ptr @memset(ptr, i32, i64)
declare i64 @llvm.ctlz.i64(i64, i1)

; The buffer's own room.
define internal i64 @room(ptr %buffer) alwaysinline {
  %head = getelementptr i8, ptr %buffer, i64 -64
  %room = load i64, ptr %head
  ret i64 %room
}

; Rounded up by at most an eighth, so that sizes that differ a little share buffers.
define internal i64 @rounded(i64 %bytes) {
  %least = call i64 @llvm.umax.i64(i64 %bytes, i64 512)
  %zeros = call i64 @llvm.ctlz.i64(i64 %least, i1 true)
  %shift = sub i64 60, %zeros
  %step = shl i64 1, %shift
  %last = sub i64 %step, 1
  %sum = add i64 %least, %last
  %mask = xor i64 %last, -1
  %room = and i64 %sum, %mask
  ret i64 %room
}
declare i64 @llvm.umax.i64(i64, i64)

; Where a buffer begins in what the system gave.
define internal i64 @lead(i64 %room) alwaysinline {
  %is_large = icmp uge i64 %room, 65536
  %lead = select i1 %is_large, i64 2112, i64 64
  ret i64 %lead
}

define internal void @release(ptr %buffer) {
  %room = call i64 @room(ptr %buffer)
  %lead = call i64 @lead(i64 %room)
  %back = sub i64 0, %lead
  %start = getelementptr i8, ptr %buffer, i64 %back
  call void @free(ptr %start)
  ret void
}

define internal i64 @shelf_of(i64 %room) alwaysinline {
  %zeros = call i64 @llvm.ctlz.i64(i64 %room, i1 true)
  %shelf = sub i64 63, %zeros
  ret i64 %shelf
}

define internal ptr @fresh(i64 %room) noinline {
entry:
  %place = alloca ptr
  %is_large = icmp uge i64 %room, 4194304
  %pages = icmp uge i64 %room, 65536
  %small = select i1 %pages, i64 4096, i64 64
  %alignment = select i1 %is_large, i64 2097152, i64 %small
  %lead = call i64 @lead(i64 %room)
  %bytes = add i64 %room, %lead
  %failed = call i32 @posix_memalign(ptr %place, i64 %alignment, i64 %bytes)
  %no_memory = icmp ne i32 %failed, 0
  br i1 %no_memory, label %none, label %made
made:
  %start = load ptr, ptr %place
  %huge = load i64, ptr @pool_huge_pages
  %knows = icmp ne i64 %huge, 0
  %asks = and i1 %knows, %is_large
  br i1 %asks, label %ask, label %done
ask:
  %ignored = call i32 @madvise(ptr %start, i64 %bytes, i32 14)
  br label %done
done:
  %buffer = getelementptr i8, ptr %start, i64 %lead
  %head = getelementptr i8, ptr %buffer, i64 -64
  store i64 %room, ptr %head
  ret ptr %buffer
none:
  ret ptr null
}

define ptr @take(i64 %bytes) {
entry:
  %room = call i64 @rounded(i64 %bytes)
  %shelf = call i64 @shelf_of(i64 %room)
  %pair = cmpxchg ptr @pool_busy, i32 0, i32 1 acquire monotonic
  %entered = extractvalue { i32, i1 } %pair, 1
  br i1 %entered, label %look, label %new
look:
  %count_place = getelementptr [64 x i64], ptr @pool_counts, i64 0, i64 %shelf
  %count = load i64, ptr %count_place
  br label %head
head:
  %index = phi i64 [ %count, %look ], [ %here, %body ]
  %more = icmp sgt i64 %index, 0
  br i1 %more, label %body, label %leave
body:
  %here = sub i64 %index, 1
  %slot = getelementptr [64 x [8 x ptr]], ptr @pool_shelves, i64 0, i64 %shelf, i64 %here
  %buffer = load ptr, ptr %slot
  %its_room = call i64 @room(ptr %buffer)
  %fits = icmp eq i64 %its_room, %room
  br i1 %fits, label %found, label %head
found:
  %last = sub i64 %count, 1
  %last_slot = getelementptr [64 x [8 x ptr]], ptr @pool_shelves, i64 0, i64 %shelf, i64 %last
  %last_buffer = load ptr, ptr %last_slot
  store ptr %last_buffer, ptr %slot
  store i64 %last, ptr %count_place
  %waiting = load i64, ptr @pool_waiting
  %less = sub i64 %waiting, %room
  store i64 %less, ptr @pool_waiting
  store atomic i32 0, ptr @pool_busy release, align 4
  ret ptr %buffer
leave:
  store atomic i32 0, ptr @pool_busy release, align 4
  br label %new
new:
  %made = call ptr @fresh(i64 %room)
  ret ptr %made
}

define void @give(ptr %buffer) {
entry:
  %room = call i64 @room(ptr %buffer)
  %limit = load i64, ptr @pool_limit
  %small_enough = icmp ule i64 %room, %limit
  br i1 %small_enough, label %try, label %release
try:
  %pair = cmpxchg ptr @pool_busy, i32 0, i32 1 acquire monotonic
  %entered = extractvalue { i32, i1 } %pair, 1
  br i1 %entered, label %look, label %release
look:
  %waiting = load i64, ptr @pool_waiting
  %sum = add i64 %waiting, %room
  %over = icmp ugt i64 %sum, %limit
  br i1 %over, label %empty, label %place
empty:                                    ; what waits is of sizes that are no longer asked for
  call void @drop_all()
  br label %place
place:
  %shelf = call i64 @shelf_of(i64 %room)
  %count_place = getelementptr [64 x i64], ptr @pool_counts, i64 0, i64 %shelf
  %count = load i64, ptr %count_place
  %full = icmp uge i64 %count, 8
  br i1 %full, label %exchange, label %put
put:
  %slot = getelementptr [64 x [8 x ptr]], ptr @pool_shelves, i64 0, i64 %shelf, i64 %count
  store ptr %buffer, ptr %slot
  %more = add i64 %count, 1
  store i64 %more, ptr %count_place
  %before = load i64, ptr @pool_waiting
  %after = add i64 %before, %room
  store i64 %after, ptr @pool_waiting
  store atomic i32 0, ptr @pool_busy release, align 4
  ret void
exchange:                                 ; the one that has waited longest makes room
  %first = getelementptr [64 x [8 x ptr]], ptr @pool_shelves, i64 0, i64 %shelf, i64 0
  %second = getelementptr [64 x [8 x ptr]], ptr @pool_shelves, i64 0, i64 %shelf, i64 1
  %last = getelementptr [64 x [8 x ptr]], ptr @pool_shelves, i64 0, i64 %shelf, i64 7
  %oldest = load ptr, ptr %first
  %moved = call ptr @memmove(ptr %first, ptr %second, i64 56)
  store ptr %buffer, ptr %last
  %oldest_room = call i64 @room(ptr %oldest)
  %held = load i64, ptr @pool_waiting
  %without = sub i64 %held, %oldest_room
  %with = add i64 %without, %room
  store i64 %with, ptr @pool_waiting
  store atomic i32 0, ptr @pool_busy release, align 4
  br label %release
release:
  %unwanted = phi ptr [ %buffer, %entry ], [ %buffer, %try ], [ %oldest, %exchange ]
  call void @release(ptr %unwanted)
  ret void
}

; Frees every buffer that waits; the pool is this thread's.
define internal void @drop_all() noinline {
entry:
  br label %shelf_head
shelf_head:
  %shelf = phi i64 [ 0, %entry ], [ %next_shelf, %shelf_end ]
  %more_shelves = icmp ult i64 %shelf, 64
  br i1 %more_shelves, label %shelf_body, label %end
shelf_body:
  %count_place = getelementptr [64 x i64], ptr @pool_counts, i64 0, i64 %shelf
  %count = load i64, ptr %count_place
  br label %head
head:
  %index = phi i64 [ 0, %shelf_body ], [ %next, %body ]
  %more = icmp ult i64 %index, %count
  br i1 %more, label %body, label %shelf_end
body:
  %slot = getelementptr [64 x [8 x ptr]], ptr @pool_shelves, i64 0, i64 %shelf, i64 %index
  %buffer = load ptr, ptr %slot
  call void @release(ptr %buffer)
  %next = add i64 %index, 1
  br label %head
shelf_end:
  store i64 0, ptr %count_place
  %next_shelf = add i64 %shelf, 1
  br label %shelf_head
end:
  store i64 0, ptr @pool_waiting
  ret void
}

; Frees every buffer that waits, unless the pool is in use at this moment.
define void @trim() {
entry:
  %pair = cmpxchg ptr @pool_busy, i32 0, i32 1 acquire monotonic
  %entered = extractvalue { i32, i1 } %pair, 1
  br i1 %entered, label %drop, label %end
drop:
  call void @drop_all()
  store atomic i32 0, ptr @pool_busy release, align 4
  br label %end
end:
  ret void
}

define ptr @numpy_malloc(ptr %context, i64 %bytes) {
  %buffer = call ptr @take(i64 %bytes)
  ret ptr %buffer
}

define ptr @numpy_calloc(ptr %context, i64 %number, i64 %size) {
entry:
  %pair = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %number, i64 %size)
  %bytes = extractvalue { i64, i1 } %pair, 0
  %overflows = extractvalue { i64, i1 } %pair, 1
  br i1 %overflows, label %none, label %try
try:
  %buffer = call ptr @take(i64 %bytes)
  %failed = icmp eq ptr %buffer, null
  br i1 %failed, label %none, label %clear
clear:
  %cleared = call ptr @memset(ptr %buffer, i32 0, i64 %bytes)
  ret ptr %buffer
none:
  ret ptr null
}
declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)

define ptr @numpy_realloc(ptr %context, ptr %buffer, i64 %bytes) {
entry:
  %is_new = icmp eq ptr %buffer, null
  br i1 %is_new, label %new, label %old
new:
  %first = call ptr @take(i64 %bytes)
  ret ptr %first
old:
  %room = call i64 @room(ptr %buffer)
  %fits = icmp ule i64 %bytes, %room
  br i1 %fits, label %same, label %move
same:
  ret ptr %buffer
move:
  %larger = call ptr @take(i64 %bytes)
  %failed = icmp eq ptr %larger, null
  br i1 %failed, label %none, label %copy
copy:
  %copied = call ptr @memcpy(ptr %larger, ptr %buffer, i64 %room)
  call void @give(ptr %buffer)
  ret ptr %larger
none:
  ret ptr null
}

define void @numpy_free(ptr %context, ptr %buffer, i64 %bytes) {
entry:
  %nothing = icmp eq ptr %buffer, null
  br i1 %nothing, label %end, label %back
back:
  call void @give(ptr %buffer)
  br label %end
end:
  ret void
}
