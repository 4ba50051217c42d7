; The threads that share a kernel's parallel loops (see threads.py, which fills in what is the
; machine's own: the instruction of a waiting loop and the number of a system call).
;
; wia_parallel(body, context, count, scratch) runs body(context, begin, end, own scratch) on parts
; of 0 … count until all of them are done. The caller works too. What is left is cut into parts of
; a quarter of each thread's share, so that parts get smaller and threads end together. A worker
; waits in a loop for a while, then sleeps until a caller wakes it.
;
; A caller that wakes a worker first takes its own core from those the worker may run on, which the
; worker gives itself back as soon as it runs. Left alone, schedulers of virtual machines put a
; woken thread on the core of the one that woke it, as they hold idle virtual cores for taken away,
; and there it stands until the next tick.
;
; A job is published by `active`. A worker counts itself in `users` before it looks at `active`, and
; the caller clears `active` before it waits for `users` to be 0: so no worker touches a job that
; has ended. All of these are sequentially consistent.

%arena = type { ptr, i64 }                        ; scratch memory of one thread, its size in bytes
;               claimed active limit stop waiting parties, count, body, context, scratch bytes, arena
%job = type { i32, i32, i32, i32, i32, i32, i64, ptr, ptr, i64, %arena, [56 x i8],
;             next, users, tickets
              i64, i32, i32, [112 x i8] }
;                 pthread_self, job, scratch, rest, the cores that it had before it was woken
%worker = type { i64, ptr, %arena, i32, i32, [128 x i8], [24 x i8] }
; rest: 0 awake, 1 asleep, 2 being woken, 3 woken with fewer cores, 4 woken with all of its cores

@jobs = internal global [16 x %job] zeroinitializer, align 128
@workers = internal global [256 x %worker] zeroinitializer, align 64
@started = internal global i32 0, align 64        ; workers that there are
@starting = internal global i32 0, align 64       ; 1 while a thread starts workers
@epoch = internal global i32 0, align 64          ; changes with each job
@sleepers = internal global i32 0, align 64       ; workers that are asleep or about to be
@wia_cores = global i32 1, align 64               ; threads where the environment says nothing
@name = internal constant [4 x i8] c"wia\00"
@own_variable = internal constant [16 x i8] c"WIA_NUM_THREADS\00"
@usual_variable = internal constant [16 x i8] c"OMP_NUM_THREADS\00"
@wrong = internal constant [58 x i8] c"WIA_NUM_THREADS='%.200s': expected a whole number from 1\00\00"
@PyExc_ValueError = external global ptr

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i64 @pthread_self()
declare i32 @pthread_setname_np(i64, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @pthread_getaffinity_np(i64, i64, ptr)
declare i32 @pthread_setaffinity_np(i64, i64, ptr)
declare i32 @sched_getcpu()
declare i32 @sched_yield()
declare i32 @sigfillset(ptr)
declare i64 @syscall(i64, ...)
declare i32 @clock_gettime(i32, ptr)
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @madvise(ptr, i64, i32)
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare ptr @PyErr_Occurred()
declare i32 @PyErr_CheckSignals()
declare ptr @PyErr_NoMemory()
declare ptr @PyErr_Format(ptr, ptr, ...)
declare ptr @getenv(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
PAUSE_DECLARATION

define internal i64 @now_ns() {
  %time = alloca [2 x i64], align 8
  %failed = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %rest_place = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest_place
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  ret i64 %now
}

; Sleep while the word holds this value, for `span` at most (null: for ever).
define internal void @sleep(ptr %word, i32 %value, ptr %span) {
  %result = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i32 128, i32 %value, ptr %span)
  ret void
}

define internal void @wake(ptr %word, i32 %number) {
  %result = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i32 129, i32 %number)
  ret void
}

; At least so many bytes of an arena, on whole pages; null where there is no memory.
define internal ptr @scratch(ptr %arena, i64 %bytes) {
entry:
  %size_place = getelementptr %arena, ptr %arena, i64 0, i32 1
  %size = load i64, ptr %size_place
  %memory = load ptr, ptr %arena
  %none = icmp eq i64 %bytes, 0
  br i1 %none, label %nothing, label %compare
nothing:
  ret ptr inttoptr (i64 64 to ptr)
compare:
  %enough = icmp uge i64 %size, %bytes
  br i1 %enough, label %keep, label %grow
keep:
  ret ptr %memory
grow:
  %had = icmp ne i64 %size, 0
  br i1 %had, label %free, label %map
free:
  %freed = call i32 @munmap(ptr %memory, i64 %size)
  br label %map
map:
  store i64 0, ptr %size_place
  %more = add i64 %bytes, 65535
  %rounded = and i64 %more, -65536
  %made = call ptr @mmap(ptr null, i64 %rounded, i32 3, i32 34, i32 -1, i64 0)
  %number = ptrtoint ptr %made to i64
  %failed = icmp eq i64 %number, -1
  br i1 %failed, label %empty, label %advise
empty:
  ret ptr null
advise:
  %advised = call i32 @madvise(ptr %made, i64 %rounded, i32 14)
  store ptr %made, ptr %arena
  store i64 %rounded, ptr %size_place
  ret ptr %made
}

; Whether a signal's handler raised; it runs here, where this is the thread that handles signals.
define internal i1 @ask() {
entry:
  %state = call i32 @PyGILState_Ensure()
  %raised = call ptr @PyErr_Occurred()
  %already = icmp ne ptr %raised, null
  br i1 %already, label %end, label %check
check:
  %failed = call i32 @PyErr_CheckSignals()
  %fresh = icmp ne i32 %failed, 0
  br label %end
end:
  %stop = phi i1 [ true, %entry ], [ %fresh, %check ]
  call void @PyGILState_Release(i32 %state)
  ret i1 %stop
}

; A MemoryError for the caller, whose kernel ends as if it had been told to stop.
define internal void @no_memory() {
  %state = call i32 @PyGILState_Ensure()
  %nothing = call ptr @PyErr_NoMemory()
  call void @PyGILState_Release(i32 %state)
  ret void
}

; The number that a text begins with, up to its end or a comma; 0 where there is none.
define internal i32 @number(ptr %text) {
entry:
  br label %next
next:
  %place = phi ptr [ %text, %entry ], [ %following, %digit ]
  %value = phi i32 [ 0, %entry ], [ %kept, %digit ]
  %byte = load i8, ptr %place
  switch i8 %byte, label %other [ i8 0, label %end
                                  i8 44, label %end ]
other:
  %above = sub i8 %byte, 48
  %is_digit = icmp ult i8 %above, 10
  br i1 %is_digit, label %digit, label %none
digit:
  %wide = zext i8 %above to i32
  %shifted = mul i32 %value, 10
  %more = add i32 %shifted, %wide
  %kept = call i32 @llvm.smin.i32(i32 %more, i32 100000)
  %following = getelementptr i8, ptr %place, i64 1
  br label %next
end:
  ret i32 %value
none:
  ret i32 0
}

; How many threads share a loop, the caller included; 0 and a ValueError where that is no number.
define internal i32 @threads() {
entry:
  %own = call ptr @getenv(ptr @own_variable)
  %unset = icmp eq ptr %own, null
  br i1 %unset, label %usual, label %look
look:
  %first = load i8, ptr %own
  %empty = icmp eq i8 %first, 0
  br i1 %empty, label %usual, label %parse
parse:
  %number = call i32 @number(ptr %own)
  %good = icmp ne i32 %number, 0
  br i1 %good, label %answer, label %complain
answer:
  ret i32 %number
complain:
  %state = call i32 @PyGILState_Ensure()
  %type = load ptr, ptr @PyExc_ValueError
  %nothing = call ptr (ptr, ptr, ...) @PyErr_Format(ptr %type, ptr @wrong, ptr %own)
  call void @PyGILState_Release(i32 %state)
  ret i32 0
usual:
  %text = call ptr @getenv(ptr @usual_variable)
  %absent = icmp eq ptr %text, null
  br i1 %absent, label %cores, label %try
try:
  %count = call i32 @number(ptr %text)
  %told = icmp ne i32 %count, 0
  br i1 %told, label %accept, label %cores
accept:
  ret i32 %count
cores:
  %all = load atomic i32, ptr @wia_cores monotonic, align 4
  ret i32 %all
}

define internal void @run_parts(ptr %job, ptr %memory, i1 %asks) {
entry:
  %stop_place = getelementptr %job, ptr %job, i64 0, i32 3
  %parties_place = getelementptr %job, ptr %job, i64 0, i32 5
  %count_place = getelementptr %job, ptr %job, i64 0, i32 6
  %body_place = getelementptr %job, ptr %job, i64 0, i32 7
  %context_place = getelementptr %job, ptr %job, i64 0, i32 8
  %next_place = getelementptr %job, ptr %job, i64 0, i32 12
  %parties = load i32, ptr %parties_place
  %count = load i64, ptr %count_place
  %body = load ptr, ptr %body_place
  %context = load ptr, ptr %context_place
  %parties64 = zext i32 %parties to i64
  %shares = shl i64 %parties64, 2
  %start = call i64 @now_ns()
  br label %next
next:
  %seen = phi i64 [ %start, %entry ], [ %seen, %take ], [ %seen, %worked ], [ %seen, %look ], [ %now, %asked ]
  %stop = load atomic i32, ptr %stop_place acquire, align 4
  %stopped = icmp ne i32 %stop, 0
  br i1 %stopped, label %end, label %find
find:
  %begin = load atomic i64, ptr %next_place monotonic, align 8
  %left = sub i64 %count, %begin
  %any = icmp sgt i64 %left, 0
  br i1 %any, label %take, label %end
take:
  %share = udiv i64 %left, %shares
  %small = icmp eq i64 %share, 0
  %part = select i1 %small, i64 1, i64 %share
  %stop_before = add i64 %begin, %part
  %pair = cmpxchg ptr %next_place, i64 %begin, i64 %stop_before seq_cst monotonic, align 8
  %won = extractvalue { i64, i1 } %pair, 1
  br i1 %won, label %work, label %next
work:
  %told = call i1 %body(ptr %context, i64 %begin, i64 %stop_before, ptr %memory)
  br i1 %told, label %note, label %worked
worked:
  br i1 %asks, label %look, label %next
look:
  %now = call i64 @now_ns()
  %past = sub i64 %now, %seen
  %due = icmp ugt i64 %past, 20000000
  br i1 %due, label %asked, label %next
asked:
  %raised = call i1 @ask()
  br i1 %raised, label %note, label %next
note:
  store atomic i32 1, ptr %stop_place release, align 4
  br label %end
end:
  ret void
}

; Take part in a job that is under way; whether there was anything to do.
define internal i1 @help(ptr %job, ptr %worker) {
entry:
  %active_place = getelementptr %job, ptr %job, i64 0, i32 1
  %limit_place = getelementptr %job, ptr %job, i64 0, i32 2
  %waiting_place = getelementptr %job, ptr %job, i64 0, i32 4
  %count_place = getelementptr %job, ptr %job, i64 0, i32 6
  %bytes_place = getelementptr %job, ptr %job, i64 0, i32 9
  %next_place = getelementptr %job, ptr %job, i64 0, i32 12
  %users_place = getelementptr %job, ptr %job, i64 0, i32 13
  %tickets_place = getelementptr %job, ptr %job, i64 0, i32 14
  %own_job_place = getelementptr %worker, ptr %worker, i64 0, i32 1
  %arena = getelementptr %worker, ptr %worker, i64 0, i32 2
  %active = load atomic i32, ptr %active_place acquire, align 4
  %idle = icmp eq i32 %active, 0
  br i1 %idle, label %nothing, label %enter
nothing:
  ret i1 false
enter:
  %before = atomicrmw add ptr %users_place, i32 1 seq_cst, align 4
  %still = load atomic i32, ptr %active_place seq_cst, align 4
  %ended = icmp eq i32 %still, 0
  br i1 %ended, label %leave, label %compare
compare:
  %next = load atomic i64, ptr %next_place monotonic, align 8
  %count = load i64, ptr %count_place
  %some = icmp slt i64 %next, %count
  br i1 %some, label %ticket, label %leave
ticket:
  %limit = load i32, ptr %limit_place
  %taken = load atomic i32, ptr %tickets_place monotonic, align 4
  %full = icmp sge i32 %taken, %limit
  br i1 %full, label %leave, label %draw
draw:
  %number = atomicrmw add ptr %tickets_place, i32 1 seq_cst, align 4
  %late = icmp sge i32 %number, %limit
  br i1 %late, label %leave, label %prepare
prepare:
  %bytes = load i64, ptr %bytes_place
  %memory = call ptr @scratch(ptr %arena, i64 %bytes)
  %none = icmp eq ptr %memory, null
  br i1 %none, label %leave, label %run
run:
  store atomic ptr %job, ptr %own_job_place release, align 8
  call void @run_parts(ptr %job, ptr %memory, i1 false)
  store atomic ptr null, ptr %own_job_place release, align 8
  br label %leave
leave:
  %helped = phi i1 [ false, %enter ], [ false, %compare ], [ false, %ticket ], [ false, %draw ], [ false, %prepare ], [ true, %run ]
  %users = atomicrmw sub ptr %users_place, i32 1 seq_cst, align 4
  %last = icmp eq i32 %users, 1
  br i1 %last, label %tell, label %end
tell:
  %waiting = load atomic i32, ptr %waiting_place seq_cst, align 4
  %awaited = icmp ne i32 %waiting, 0
  br i1 %awaited, label %call, label %end
call:
  call void @wake(ptr %users_place, i32 1)
  br label %end
end:
  ret i1 %helped
}

; Sleep until there is a job that came after `epoch`.
define internal void @rest(ptr %worker, i32 %epoch) {
entry:
  %rest_place = getelementptr %worker, ptr %worker, i64 0, i32 3
  %cores = getelementptr %worker, ptr %worker, i64 0, i32 5
  %self = load i64, ptr %worker
  %one_more = atomicrmw add ptr @sleepers, i32 1 seq_cst, align 4
  store atomic i32 1, ptr %rest_place seq_cst, align 4
  br label %look
look:
  %now_epoch = load atomic i32, ptr @epoch seq_cst, align 4
  %news = icmp ne i32 %now_epoch, %epoch
  br i1 %news, label %rise, label %asleep
asleep:
  call void @sleep(ptr %rest_place, i32 1, ptr null)
  br label %look
rise:
  %pair = cmpxchg ptr %rest_place, i32 1, i32 0 seq_cst seq_cst, align 4
  %state = extractvalue { i32, i1 } %pair, 0
  switch i32 %state, label %end [ i32 2, label %yield
                                  i32 3, label %spread
                                  i32 4, label %awake ]
yield:
  %yielded = call i32 @sched_yield()
  br label %rise
spread:
  %set = call i32 @pthread_setaffinity_np(i64 %self, i64 128, ptr %cores)
  br label %awake
awake:
  store atomic i32 0, ptr %rest_place seq_cst, align 4
  br label %end
end:
  %one_less = atomicrmw sub ptr @sleepers, i32 1 seq_cst, align 4
  ret void
}

; The cores of a worker without this one, into `others`; whether that leaves any and takes one.
define internal i1 @without(ptr %cores, i32 %core, ptr %others) {
entry:
  %countable = icmp ult i32 %core, 1024
  br i1 %countable, label %copy, label %no
no:
  ret i1 false
copy:
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %others, ptr align 8 %cores, i64 128, i1 false)
  %core64 = zext i32 %core to i64
  %word = lshr i64 %core64, 6
  %bit = and i64 %core64, 63
  %mask = shl i64 1, %bit
  %place = getelementptr i64, ptr %others, i64 %word
  %before = load i64, ptr %place
  %held = and i64 %before, %mask
  %had = icmp ne i64 %held, 0
  %unset = xor i64 %mask, -1
  %after = and i64 %before, %unset
  store i64 %after, ptr %place
  br label %next
next:
  %index = phi i64 [ 0, %copy ], [ %following, %next ]
  %seen = phi i64 [ 0, %copy ], [ %all, %next ]
  %each = getelementptr i64, ptr %others, i64 %index
  %some = load i64, ptr %each
  %all = or i64 %seen, %some
  %following = add i64 %index, 1
  %more = icmp ult i64 %following, 16
  br i1 %more, label %next, label %end
end:
  %left = icmp ne i64 %all, 0
  %possible = and i1 %had, %left
  ret i1 %possible
}

; Wake so many workers, or all that sleep, on other cores than this one.
define internal void @rouse(i32 %wanted) {
entry:
  %others = alloca [128 x i8], align 8
  %own = call i32 @sched_getcpu()
  %there = load atomic i32, ptr @started acquire, align 4
  br label %next
next:
  %index = phi i32 [ 0, %entry ], [ %following, %over ]
  %left = phi i32 [ %wanted, %entry ], [ %left_after, %over ]
  %more = icmp ult i32 %index, %there
  %needed = icmp sgt i32 %left, 0
  %go = and i1 %more, %needed
  br i1 %go, label %look, label %end
look:
  %index64 = zext i32 %index to i64
  %worker = getelementptr [256 x %worker], ptr @workers, i64 0, i64 %index64
  %rest_place = getelementptr %worker, ptr %worker, i64 0, i32 3
  %cores = getelementptr %worker, ptr %worker, i64 0, i32 5
  %pair = cmpxchg ptr %rest_place, i32 1, i32 2 seq_cst seq_cst, align 4
  %won = extractvalue { i32, i1 } %pair, 1
  br i1 %won, label %choose, label %over
choose:
  %self = load i64, ptr %worker
  %unknown = call i32 @pthread_getaffinity_np(i64 %self, i64 128, ptr %cores)
  %known = icmp eq i32 %unknown, 0
  br i1 %known, label %choose_others, label %call
choose_others:
  %possible = call i1 @without(ptr %cores, i32 %own, ptr %others)
  br i1 %possible, label %move, label %call
move:
  %failed = call i32 @pthread_setaffinity_np(i64 %self, i64 128, ptr %others)
  %moved = icmp eq i32 %failed, 0
  br label %call
call:
  %fewer = phi i1 [ false, %choose ], [ false, %choose_others ], [ %moved, %move ]
  %woken = select i1 %fewer, i32 3, i32 4
  store atomic i32 %woken, ptr %rest_place seq_cst, align 4
  call void @wake(ptr %rest_place, i32 1)
  br label %over
over:
  %one = phi i32 [ 0, %look ], [ 1, %call ]
  %left_after = sub i32 %left, %one
  %following = add i32 %index, 1
  br label %next
end:
  ret void
}

define internal ptr @work(ptr %worker) {
entry:
  %self = call i64 @pthread_self()
  store atomic i64 %self, ptr %worker release, align 8
  %named = call i32 @pthread_setname_np(i64 %self, ptr @name)
  br label %round
round:
  %epoch = load atomic i32, ptr @epoch seq_cst, align 4
  br label %jobs
jobs:
  %index = phi i64 [ 0, %round ], [ %following, %job ]
  %any = phi i1 [ false, %round ], [ %found, %job ]
  %more = icmp ult i64 %index, 16
  br i1 %more, label %job, label %all
job:
  %place = getelementptr [16 x %job], ptr @jobs, i64 0, i64 %index
  %helped = call i1 @help(ptr %place, ptr %worker)
  %found = or i1 %any, %helped
  %following = add i64 %index, 1
  br label %jobs
all:
  br i1 %any, label %round, label %wait
wait:
  %start = call i64 @now_ns()
  br label %spin
spin:
  %turn = phi i32 [ 0, %wait ], [ %turn_after, %spin_on ]
  %turn_after = add i32 %turn, 1
  call void PAUSE
  %now_epoch = load atomic i32, ptr @epoch monotonic, align 4
  %news = icmp ne i32 %now_epoch, %epoch
  br i1 %news, label %round, label %clock
clock:
  %low = and i32 %turn, 15
  %look = icmp eq i32 %low, 15
  br i1 %look, label %late, label %spin_on
late:
  %now = call i64 @now_ns()
  %past = sub i64 %now, %start
  %long = icmp ugt i64 %past, WAIT_NS
  br i1 %long, label %rest, label %spin_on
spin_on:
  br label %spin
rest:
  call void @rest(ptr %worker, i32 %epoch)
  br label %round
}

; See to it that there are so many workers; fewer where the system gives no more threads.
define internal void @start(i32 %wanted) {
entry:
  %identity = alloca i64, align 8
  %all = alloca [128 x i8], align 8
  %before = alloca [128 x i8], align 8
  %have = load atomic i32, ptr @started acquire, align 4
  %enough = icmp sge i32 %have, %wanted
  br i1 %enough, label %end, label %lock
lock:
  %pair = cmpxchg ptr @starting, i32 0, i32 1 seq_cst monotonic, align 4
  %won = extractvalue { i32, i1 } %pair, 1
  br i1 %won, label %begin, label %end
begin:
  ; Signals are for the threads of Python.
  %filled = call i32 @sigfillset(ptr %all)
  %masked = call i32 @pthread_sigmask(i32 2, ptr %all, ptr %before)
  br label %next
next:
  %number = load atomic i32, ptr @started acquire, align 4
  %more = icmp slt i32 %number, %wanted
  br i1 %more, label %create, label %unlock
create:
  %index = zext i32 %number to i64
  %worker = getelementptr [256 x %worker], ptr @workers, i64 0, i64 %index
  %failed = call i32 @pthread_create(ptr %identity, ptr null, ptr @work, ptr %worker)
  %made = icmp eq i32 %failed, 0
  br i1 %made, label %count, label %unlock
count:
  %thread = load i64, ptr %identity
  %detached = call i32 @pthread_detach(i64 %thread)
  %with = add i32 %number, 1
  store atomic i32 %with, ptr @started release, align 4
  br label %next
unlock:
  %restored = call i32 @pthread_sigmask(i32 2, ptr %before, ptr null)
  store atomic i32 0, ptr @starting release, align 4
  br label %end
end:
  ret void
}

; A job of nobody, made the caller's; null where all are in use.
define internal ptr @claim() {
entry:
  br label %next
next:
  %index = phi i64 [ 0, %entry ], [ %following, %try ]
  %more = icmp ult i64 %index, 16
  br i1 %more, label %try, label %none
try:
  %job = getelementptr [16 x %job], ptr @jobs, i64 0, i64 %index
  %pair = cmpxchg ptr %job, i32 0, i32 1 seq_cst monotonic, align 4
  %won = extractvalue { i32, i1 } %pair, 1
  %following = add i64 %index, 1
  br i1 %won, label %claimed, label %next
claimed:
  ret ptr %job
none:
  ret ptr null
}

; Run the loop on this thread alone, with memory that is given back at once.
define internal i1 @run_alone(ptr %body, ptr %context, i64 %count, i64 %bytes) {
entry:
  %arena = alloca %arena, align 8
  store %arena zeroinitializer, ptr %arena
  %memory = call ptr @scratch(ptr %arena, i64 %bytes)
  %none = icmp eq ptr %memory, null
  br i1 %none, label %missing, label %run
missing:
  call void @no_memory()
  ret i1 true
run:
  %told = call i1 %body(ptr %context, i64 0, i64 %count, ptr %memory)
  %size_place = getelementptr %arena, ptr %arena, i64 0, i32 1
  %size = load i64, ptr %size_place
  %had = icmp ne i64 %size, 0
  br i1 %had, label %free, label %end
free:
  %made = load ptr, ptr %arena
  %freed = call i32 @munmap(ptr %made, i64 %size)
  br label %end
end:
  ret i1 %told
}

; Wait until no worker is in a job any more, and ask for signals meanwhile.
define internal void @finish(ptr %job) {
entry:
  %span = alloca [2 x i64], align 8
  %nanoseconds = getelementptr i64, ptr %span, i64 1
  %active_place = getelementptr %job, ptr %job, i64 0, i32 1
  %stop_place = getelementptr %job, ptr %job, i64 0, i32 3
  %waiting_place = getelementptr %job, ptr %job, i64 0, i32 4
  %users_place = getelementptr %job, ptr %job, i64 0, i32 13
  store i64 0, ptr %span
  store i64 20000000, ptr %nanoseconds
  store atomic i32 0, ptr %active_place seq_cst, align 4
  %start = call i64 @now_ns()
  br label %spin
spin:
  %users = load atomic i32, ptr %users_place seq_cst, align 4
  %alone = icmp eq i32 %users, 0
  br i1 %alone, label %end, label %clock
clock:
  call void PAUSE
  %now = call i64 @now_ns()
  %past = sub i64 %now, %start
  %long = icmp ugt i64 %past, WAIT_NS
  br i1 %long, label %wait, label %spin
wait:
  store atomic i32 1, ptr %waiting_place seq_cst, align 4
  %rest = load atomic i32, ptr %users_place seq_cst, align 4
  %done = icmp eq i32 %rest, 0
  br i1 %done, label %end, label %sleep
sleep:
  call void @sleep(ptr %users_place, i32 %rest, ptr %span)
  %later = call i64 @now_ns()
  %asleep = sub i64 %later, %now
  %due = icmp ugt i64 %asleep, 20000000
  br i1 %due, label %ask, label %clock
ask:
  %raised = call i1 @ask()
  br i1 %raised, label %note, label %again
note:
  store atomic i32 1, ptr %stop_place release, align 4
  br label %again
again:
  br label %wait
end:
  store atomic i32 0, ptr %waiting_place seq_cst, align 4
  ret void
}

; Run a loop on the threads there are; whether it stopped, with an exception, before it was done.
define i1 @wia_parallel(ptr %body, ptr %context, i64 %count, i64 %bytes) {
entry:
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %ask, label %nothing
nothing:
  ret i1 false
ask:
  %threads = call i32 @threads()
  %unknown = icmp eq i32 %threads, 0
  br i1 %unknown, label %refuse, label %claim
refuse:
  ret i1 true
claim:
  %job = call ptr @claim()
  %busy = icmp eq ptr %job, null
  br i1 %busy, label %alone, label %memory
alone:
  %told_alone = call i1 @run_alone(ptr %body, ptr %context, i64 %count, i64 %bytes)
  ret i1 %told_alone
memory:
  %arena = getelementptr %job, ptr %job, i64 0, i32 10
  %memory_here = call ptr @scratch(ptr %arena, i64 %bytes)
  %none = icmp eq ptr %memory_here, null
  br i1 %none, label %missing, label %divide
missing:
  call void @no_memory()
  br label %release
divide:
  %most = call i64 @llvm.smin.i64(i64 %count, i64 256)
  %most32 = trunc i64 %most to i32
  %parties = call i32 @llvm.smin.i32(i32 %threads, i32 %most32)
  %shared = icmp sgt i32 %parties, 1
  br i1 %shared, label %publish, label %serial
serial:
  %told = call i1 %body(ptr %context, i64 0, i64 %count, ptr %memory_here)
  br label %release
publish:
  %helpers = sub i32 %parties, 1
  call void @start(i32 %helpers)
  %active_place = getelementptr %job, ptr %job, i64 0, i32 1
  %limit_place = getelementptr %job, ptr %job, i64 0, i32 2
  %stop_place = getelementptr %job, ptr %job, i64 0, i32 3
  %parties_place = getelementptr %job, ptr %job, i64 0, i32 5
  %count_place = getelementptr %job, ptr %job, i64 0, i32 6
  %body_place = getelementptr %job, ptr %job, i64 0, i32 7
  %context_place = getelementptr %job, ptr %job, i64 0, i32 8
  %bytes_place = getelementptr %job, ptr %job, i64 0, i32 9
  %next_place = getelementptr %job, ptr %job, i64 0, i32 12
  %tickets_place = getelementptr %job, ptr %job, i64 0, i32 14
  store i32 %helpers, ptr %limit_place
  store atomic i32 0, ptr %stop_place monotonic, align 4
  store i32 %parties, ptr %parties_place
  store i64 %count, ptr %count_place
  store ptr %body, ptr %body_place
  store ptr %context, ptr %context_place
  store i64 %bytes, ptr %bytes_place
  store atomic i64 0, ptr %next_place monotonic, align 8
  store atomic i32 0, ptr %tickets_place monotonic, align 4
  store atomic i32 1, ptr %active_place seq_cst, align 4
  %epoch = atomicrmw add ptr @epoch, i32 1 seq_cst, align 4
  %sleepers = load atomic i32, ptr @sleepers seq_cst, align 4
  %asleep = icmp sgt i32 %sleepers, 0
  br i1 %asleep, label %rouse, label %work
rouse:
  call void @rouse(i32 %helpers)
  br label %work
work:
  call void @run_parts(ptr %job, ptr %memory_here, i1 true)
  call void @finish(ptr %job)
  %stop = load atomic i32, ptr %stop_place acquire, align 4
  %stopped = icmp ne i32 %stop, 0
  br label %release
release:
  %result = phi i1 [ %told, %serial ], [ %stopped, %work ], [ true, %missing ]
  store atomic i32 0, ptr %job release, align 4
  ret i1 %result
}

declare i64 @llvm.smin.i64(i64, i64)
declare i32 @llvm.smin.i32(i32, i32)

; On a worker 1 where its job was told to stop, else 0; -1 on a thread of Python.
define i32 @wia_told_to_stop() {
entry:
  %self = call i64 @pthread_self()
  br label %next
next:
  %index = phi i64 [ 0, %entry ], [ %following, %compare ]
  %more = icmp ult i64 %index, 256
  br i1 %more, label %compare, label %other
compare:
  %worker = getelementptr [256 x %worker], ptr @workers, i64 0, i64 %index
  %identity = load atomic i64, ptr %worker acquire, align 8
  %same = icmp eq i64 %identity, %self
  %following = add i64 %index, 1
  br i1 %same, label %own, label %next
other:
  ret i32 -1
own:
  %job_place = getelementptr %worker, ptr %worker, i64 0, i32 1
  %job = load atomic ptr, ptr %job_place acquire, align 8
  %idle = icmp eq ptr %job, null
  br i1 %idle, label %on, label %look
on:
  ret i32 0
look:
  %stop_place = getelementptr %job, ptr %job, i64 0, i32 3
  %stop = load atomic i32, ptr %stop_place acquire, align 4
  ret i32 %stop
}

; In a forked child, where the workers are gone.
define void @wia_forget() {
  call void @llvm.memset.p0.i64(ptr align 8 @jobs, i8 0, i64 4096, i1 false)
  call void @llvm.memset.p0.i64(ptr align 8 @workers, i8 0, i64 49152, i1 false)
  store atomic i32 0, ptr @started release, align 4
  store atomic i32 0, ptr @starting release, align 4
  store atomic i32 0, ptr @sleepers release, align 4
  ret void
}
