; kernel(A, B) from CPython's arguments to machine code and back, with no interpreter in between.
;
; A kernel object holds the address of a table: the addresses of plans, newest first, and 0 at its
; end. A plan says what the arguments of one kind of call are, what is allocated and what runs.
; Arguments that fit no plan go to the method ``_call_in_python``, which writes another one.
; plans.py writes these records, field by field in this order.

%Plan = type {
  i64,    ; 0  positional arguments
  i64,    ; 1  out=: 0 none, 1 an array, 2 a tuple of arrays
  i64,    ; 2  inputs
  ptr,    ; 3  %Input[]
  i64,    ; 4  outputs
  ptr,    ; 5  %Output[]
  ptr,    ; 6  the code: void (ptr buffers[])
  i64,    ; 7  bytes of its workspace, 0 for none
  i64,    ; 8  whether others may run Python meanwhile
  ptr,    ; 9  what owns the code: kept alive
  ptr,    ; 10 called with the status record where a check failed; null where nothing is checked
  i64,    ; 11 arrays in the tuple of out=
  i64,    ; 12 whether it writes arrays of the caller
  i64     ; 13 whether it reads arrays of a dictionary
}
%Input = type {
  i64,    ; 0  0 array, 1 an array of a dictionary, 2 constant, 3 f64, 4 f32, 5 integer, 6 bool
  ptr,    ; 1  its dtype; address of the constant
  i64,    ; 2  axes
  ptr,    ; 3  sizes
  ptr,    ; 4  strides, null where the flags say it all
  i64,    ; 5  flags that it must have; least integer
  i64,    ; 6  bytes from its data to its lowest element (at most 0); largest integer
  i64,    ; 7  bytes from its data to the end of its highest element
  ptr,    ; 8  the dictionary
  ptr     ; 9  the key in it
}
%Output = type {
  i64,    ; 0  number of the inout argument that it updates, -1 for none
  ptr,    ; 1  dtype
  i64,    ; 2  axes
  ptr,    ; 3  sizes
  i64,    ; 4  bytes
  i64     ; 5  its place in out=
}
; what callable.py adds to an object's head: this code, the table of plans
%Kernel = type { i64, ptr, ptr, ptr }
; numpy's PyArrayObject_fields (numpy/ndarraytypes.h) and CPython's float
%Array = type { i64, ptr, ptr, i32, ptr, ptr, ptr, ptr, i32, ptr, ptr, ptr }
;          type 1, data 2, axes 3, sizes 4, strides 5, base 6, dtype 7, flags 8, handler 11

@ndarray = global ptr null              ; numpy.ndarray
@new_from_descr = global ptr null       ; PyArray_NewFromDescr
@handler = global ptr null              ; the capsule of the pool's PyDataMem_Handler
@pooled_from = global i64 4096          ; outputs of so many bytes come from the pool
@tuple_offset = global i64 24           ; of the items in a tuple
@out_name = global ptr null             ; the string "out", interned
@python_name = global ptr null          ; the string "_call_in_python", interned
@true_object = global ptr null
@false_object = global ptr null
@PyFloat_Type = external global i8
@PyLong_Type = external global i8
@PyTuple_Type = external global i8

declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare double @PyFloat_AsDouble(ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare ptr @PyErr_Occurred()
declare ptr @PyErr_NoMemory()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare void @PyErr_Clear()
declare ptr @PyTuple_New(i64)
declare i64 @PyTuple_Size(ptr)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyObject_VectorcallMethod(ptr, ptr, i64, ptr)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare ptr @PyBytes_FromStringAndSize(ptr, i64)
declare ptr @memcpy(ptr, ptr, i64)
declare double @llvm.fabs.f64(double)
declare ptr @take(i64)
declare void @give(ptr)

define internal i1 @is_exactly(ptr %object, ptr %type) alwaysinline {
  %place = getelementptr %Array, ptr %object, i64 0, i32 1
  %found = load ptr, ptr %place
  %same = icmp eq ptr %found, %type
  ret i1 %same
}

define internal ptr @data_of(ptr %array) alwaysinline {
  %place = getelementptr %Array, ptr %array, i64 0, i32 2
  %data = load ptr, ptr %place
  ret ptr %data
}

define internal i1 @same_numbers(ptr %left, ptr %right, i64 %count) alwaysinline {
entry:
  br label %head
head:
  %index = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp ult i64 %index, %count
  br i1 %more, label %body, label %yes
body:
  %left_place = getelementptr i64, ptr %left, i64 %index
  %right_place = getelementptr i64, ptr %right, i64 %index
  %one = load i64, ptr %left_place
  %other = load i64, ptr %right_place
  %same = icmp eq i64 %one, %other
  %next = add i64 %index, 1
  br i1 %same, label %head, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; Whether an object is an ndarray of that dtype, number of axes and sizes, with those flags.
define internal i1 @is_array(
    ptr %object, ptr %dtype, i64 %axes, ptr %sizes, i64 %flags) alwaysinline {
entry:
  %ndarray = load ptr, ptr @ndarray
  %known = call i1 @is_exactly(ptr %object, ptr %ndarray)
  br i1 %known, label %look, label %no
look:
  %dtype_place = getelementptr %Array, ptr %object, i64 0, i32 7
  %its_dtype = load ptr, ptr %dtype_place
  %same_dtype = icmp eq ptr %its_dtype, %dtype
  br i1 %same_dtype, label %look_axes, label %no
look_axes:
  %axes_place = getelementptr %Array, ptr %object, i64 0, i32 3
  %its_axes_32 = load i32, ptr %axes_place
  %its_axes = zext i32 %its_axes_32 to i64
  %same_axes = icmp eq i64 %its_axes, %axes
  br i1 %same_axes, label %look_flags, label %no
look_flags:
  %flags_place = getelementptr %Array, ptr %object, i64 0, i32 8
  %its_flags_32 = load i32, ptr %flags_place
  %its_flags = zext i32 %its_flags_32 to i64
  %common = and i64 %its_flags, %flags
  %has_flags = icmp eq i64 %common, %flags
  br i1 %has_flags, label %look_sizes, label %no
look_sizes:
  %sizes_place = getelementptr %Array, ptr %object, i64 0, i32 4
  %its_sizes = load ptr, ptr %sizes_place
  %same_sizes = call i1 @same_numbers(ptr %its_sizes, ptr %sizes, i64 %axes)
  ret i1 %same_sizes
no:
  ret i1 false
}

define internal i1 @fits_array(ptr %input, ptr %object) {
entry:
  %dtype_place = getelementptr %Input, ptr %input, i64 0, i32 1
  %dtype = load ptr, ptr %dtype_place
  %axes_place = getelementptr %Input, ptr %input, i64 0, i32 2
  %axes = load i64, ptr %axes_place
  %sizes_place = getelementptr %Input, ptr %input, i64 0, i32 3
  %sizes = load ptr, ptr %sizes_place
  %flags_place = getelementptr %Input, ptr %input, i64 0, i32 5
  %flags = load i64, ptr %flags_place
  %is = call i1 @is_array(ptr %object, ptr %dtype, i64 %axes, ptr %sizes, i64 %flags)
  br i1 %is, label %look, label %no
look:
  %strides_place = getelementptr %Input, ptr %input, i64 0, i32 4
  %strides = load ptr, ptr %strides_place
  %in_order = icmp eq ptr %strides, null
  br i1 %in_order, label %yes, label %look_strides
look_strides:
  %its_place = getelementptr %Array, ptr %object, i64 0, i32 5
  %its_strides = load ptr, ptr %its_place
  %same = call i1 @same_numbers(ptr %its_strides, ptr %strides, i64 %axes)
  ret i1 %same
yes:
  ret i1 true
no:
  ret i1 false
}

; A Python number as the scalar of %input, written to %slot; false where it needs a closer look.
define internal i1 @fits_number(ptr %input, i64 %kind, ptr %object, ptr %slot) {
entry:
  %overflow_place = alloca i32
  switch i64 %kind, label %no [ i64 3, label %float
                                i64 4, label %float
                                i64 5, label %integer
                                i64 6, label %bool ]
float:
  %is_float = call i1 @is_exactly(ptr %object, ptr @PyFloat_Type)
  br i1 %is_float, label %take_float, label %no
take_float:
  %value = call double @PyFloat_AsDouble(ptr %object)
  %is_wide = icmp eq i64 %kind, 3
  br i1 %is_wide, label %store_wide, label %narrow
store_wide:
  store double %value, ptr %slot
  ret i1 true
narrow:                                   ; a finite number beyond f32 is an error, told in Python
  %size = call double @llvm.fabs.f64(double %value)
  %is_finite = fcmp one double %size, 0x7FF0000000000000
  %is_large = fcmp ogt double %size, 0x47EFFFFFE0000000
  %is_lost = and i1 %is_finite, %is_large
  br i1 %is_lost, label %no, label %store_narrow
store_narrow:
  %rounded = fptrunc double %value to float
  store float %rounded, ptr %slot
  ret i1 true
integer:
  %is_integer = call i1 @is_exactly(ptr %object, ptr @PyLong_Type)
  br i1 %is_integer, label %take_integer, label %no
take_integer:
  %number = call i64 @PyLong_AsLongLongAndOverflow(ptr %object, ptr %overflow_place)
  %overflow = load i32, ptr %overflow_place
  %is_inside = icmp eq i32 %overflow, 0
  %least_place = getelementptr %Input, ptr %input, i64 0, i32 5
  %least = load i64, ptr %least_place
  %most_place = getelementptr %Input, ptr %input, i64 0, i32 6
  %most = load i64, ptr %most_place
  %not_below = icmp sge i64 %number, %least
  %not_above = icmp sle i64 %number, %most
  %in_range = and i1 %not_below, %not_above
  %taken = and i1 %is_inside, %in_range
  br i1 %taken, label %store_integer, label %no
store_integer:
  store i64 %number, ptr %slot
  ret i1 true
bool:
  %true = load ptr, ptr @true_object
  %false = load ptr, ptr @false_object
  %is_true = icmp eq ptr %object, %true
  %is_false = icmp eq ptr %object, %false
  %is_bool = or i1 %is_true, %is_false
  br i1 %is_bool, label %store_bool, label %no
store_bool:
  %bit = zext i1 %is_true to i8
  store i8 %bit, ptr %slot
  ret i1 true
no:
  ret i1 false
}

; Whether the arguments are those of the plan: %buffers gets the addresses of the inputs, %found the
; arrays that come from dictionaries (null elsewhere).
define internal i1 @fits(
    ptr %plan, ptr %arguments, i64 %number, ptr %buffers, ptr %slots, ptr %found) {
entry:
  %number_place = getelementptr %Plan, ptr %plan, i64 0, i32 0
  %expected = load i64, ptr %number_place
  %same_number = icmp eq i64 %number, %expected
  br i1 %same_number, label %start, label %no
start:
  %count_place = getelementptr %Plan, ptr %plan, i64 0, i32 2
  %count = load i64, ptr %count_place
  %inputs_place = getelementptr %Plan, ptr %plan, i64 0, i32 3
  %inputs = load ptr, ptr %inputs_place
  br label %head
head:
  %index = phi i64 [ 0, %start ], [ %next, %store ]
  %more = icmp ult i64 %index, %count
  br i1 %more, label %body, label %yes
body:
  %input = getelementptr %Input, ptr %inputs, i64 %index
  %kind = load i64, ptr %input
  %buffer_place = getelementptr ptr, ptr %buffers, i64 %index
  %found_place = getelementptr ptr, ptr %found, i64 %index
  %argument_place = getelementptr ptr, ptr %arguments, i64 %index
  store ptr null, ptr %found_place
  switch i64 %kind, label %number_argument [ i64 0, label %array_argument
                                             i64 1, label %bound
                                             i64 2, label %constant ]
array_argument:
  %array = load ptr, ptr %argument_place
  br label %array_common
bound:
  %dictionary_place = getelementptr %Input, ptr %input, i64 0, i32 8
  %dictionary = load ptr, ptr %dictionary_place
  %key_place = getelementptr %Input, ptr %input, i64 0, i32 9
  %key = load ptr, ptr %key_place
  %value = call ptr @PyDict_GetItemWithError(ptr %dictionary, ptr %key)
  %missing = icmp eq ptr %value, null
  br i1 %missing, label %gone, label %have
gone:
  call void @PyErr_Clear()
  ret i1 false
have:
  store ptr %value, ptr %found_place
  br label %array_common
array_common:
  %object = phi ptr [ %array, %array_argument ], [ %value, %have ]
  %is = call i1 @fits_array(ptr %input, ptr %object)
  br i1 %is, label %array_data, label %no
array_data:
  %data = call ptr @data_of(ptr %object)
  br label %store
constant:
  %constant_place = getelementptr %Input, ptr %input, i64 0, i32 1
  %constant_data = load ptr, ptr %constant_place
  br label %store
number_argument:
  %number_object = load ptr, ptr %argument_place
  %slot = getelementptr i64, ptr %slots, i64 %index
  %taken = call i1 @fits_number(ptr %input, i64 %kind, ptr %number_object, ptr %slot)
  br i1 %taken, label %store, label %no
store:
  %address = phi ptr [ %data, %array_data ], [ %constant_data, %constant ], [ %slot, %number_argument ]
  store ptr %address, ptr %buffer_place
  %next = add i64 %index, 1
  br label %head
yes:
  ret i1 true
no:
  ret i1 false
}

define internal i1 @apart(ptr %start, ptr %end, ptr %other_start, ptr %other_end) alwaysinline {
  %before = icmp ule ptr %end, %other_start
  %after = icmp ule ptr %other_end, %start
  %apart = or i1 %before, %after
  ret i1 %apart
}

; The array that is written for output %index: of out=, or the inout argument; null for a new one.
define internal ptr @written(ptr %plan, ptr %arguments, ptr %out, i64 %index) {
entry:
  %outputs_place = getelementptr %Plan, ptr %plan, i64 0, i32 5
  %outputs = load ptr, ptr %outputs_place
  %inout_place = getelementptr %Output, ptr %outputs, i64 %index, i32 0
  %inout = load i64, ptr %inout_place
  %is_inout = icmp sge i64 %inout, 0
  br i1 %is_inout, label %argument, label %given
argument:
  %argument_place = getelementptr ptr, ptr %arguments, i64 %inout
  %array = load ptr, ptr %argument_place
  ret ptr %array
given:
  %form_place = getelementptr %Plan, ptr %plan, i64 0, i32 1
  %form = load i64, ptr %form_place
  %in_tuple = icmp eq i64 %form, 2
  br i1 %in_tuple, label %item, label %whole
item:
  %place_place = getelementptr %Output, ptr %outputs, i64 %index, i32 5
  %place = load i64, ptr %place_place
  %offset = load i64, ptr @tuple_offset
  %items = getelementptr i8, ptr %out, i64 %offset
  %item_place = getelementptr ptr, ptr %items, i64 %place
  %item_array = load ptr, ptr %item_place
  ret ptr %item_array
whole:
  ret ptr %out
}

; Whether what is written lies apart: arrays of out= from all inputs, and all from each other.
define internal i1 @fits_written(ptr %plan, ptr %arguments, ptr %out, ptr %buffers) noinline {
entry:
  %count_place = getelementptr %Plan, ptr %plan, i64 0, i32 4
  %count = load i64, ptr %count_place
  %outputs_place = getelementptr %Plan, ptr %plan, i64 0, i32 5
  %outputs = load ptr, ptr %outputs_place
  %input_count_place = getelementptr %Plan, ptr %plan, i64 0, i32 2
  %input_count = load i64, ptr %input_count_place
  %inputs_place = getelementptr %Plan, ptr %plan, i64 0, i32 3
  %inputs = load ptr, ptr %inputs_place
  br label %head
head:
  %index = phi i64 [ 0, %entry ], [ %next, %done ]
  %more = icmp ult i64 %index, %count
  br i1 %more, label %body, label %yes
body:
  %next = add i64 %index, 1
  %array = call ptr @written(ptr %plan, ptr %arguments, ptr %out, i64 %index)
  %is_new = icmp eq ptr %array, null
  br i1 %is_new, label %done, label %look
look:
  %output = getelementptr %Output, ptr %outputs, i64 %index
  %inout = load i64, ptr %output
  %is_given = icmp slt i64 %inout, 0
  %bytes_place = getelementptr %Output, ptr %output, i64 0, i32 4
  %bytes = load i64, ptr %bytes_place
  br i1 %is_given, label %look_given, label %others
look_given:
  %dtype_place = getelementptr %Output, ptr %output, i64 0, i32 1
  %dtype = load ptr, ptr %dtype_place
  %axes_place = getelementptr %Output, ptr %output, i64 0, i32 2
  %axes = load i64, ptr %axes_place
  %sizes_place = getelementptr %Output, ptr %output, i64 0, i32 3
  %sizes = load ptr, ptr %sizes_place
  %is = call i1 @is_array(ptr %array, ptr %dtype, i64 %axes, ptr %sizes, i64 1281) ; CARRAY
  br i1 %is, label %inputs_head, label %no
inputs_head:
  %input_index = phi i64 [ 0, %look_given ], [ %input_next, %inputs_body ], [ %input_next, %inputs_look ]
  %more_inputs = icmp ult i64 %input_index, %input_count
  br i1 %more_inputs, label %inputs_body, label %others
inputs_body:
  %input_next = add i64 %input_index, 1
  %input = getelementptr %Input, ptr %inputs, i64 %input_index
  %kind = load i64, ptr %input
  %is_array = icmp ule i64 %kind, 1
  br i1 %is_array, label %inputs_look, label %inputs_head
inputs_look:
  %start = call ptr @data_of(ptr %array)
  %end = getelementptr i8, ptr %start, i64 %bytes
  %low_place = getelementptr %Input, ptr %input, i64 0, i32 6
  %low = load i64, ptr %low_place
  %high_place = getelementptr %Input, ptr %input, i64 0, i32 7
  %high = load i64, ptr %high_place
  %input_place = getelementptr ptr, ptr %buffers, i64 %input_index
  %input_data = load ptr, ptr %input_place
  %input_start = getelementptr i8, ptr %input_data, i64 %low
  %input_end = getelementptr i8, ptr %input_data, i64 %high
  %apart = call i1 @apart(ptr %start, ptr %end, ptr %input_start, ptr %input_end)
  br i1 %apart, label %inputs_head, label %no
others:
  br label %others_head
others_head:
  %other_index = phi i64 [ %next, %others ], [ %other_next, %others_body ], [ %other_next, %others_look ]
  %more_others = icmp ult i64 %other_index, %count
  br i1 %more_others, label %others_body, label %done
others_body:
  %other_next = add i64 %other_index, 1
  %other = call ptr @written(ptr %plan, ptr %arguments, ptr %out, i64 %other_index)
  %other_is_new = icmp eq ptr %other, null
  br i1 %other_is_new, label %others_head, label %others_type
others_type:                              ; one that is no array is refused in its own turn
  %ndarray = load ptr, ptr @ndarray
  %other_known = call i1 @is_exactly(ptr %other, ptr %ndarray)
  br i1 %other_known, label %others_look, label %no
others_look:
  %own_start = call ptr @data_of(ptr %array)
  %own_end = getelementptr i8, ptr %own_start, i64 %bytes
  %other_bytes_place = getelementptr %Output, ptr %outputs, i64 %other_index, i32 4
  %other_bytes = load i64, ptr %other_bytes_place
  %other_start = call ptr @data_of(ptr %other)
  %other_end = getelementptr i8, ptr %other_start, i64 %other_bytes
  %others_apart = call i1 @apart(ptr %own_start, ptr %own_end, ptr %other_start, ptr %other_end)
  br i1 %others_apart, label %others_head, label %no
done:
  br label %head
yes:
  ret i1 true
no:
  ret i1 false
}

; A new array for an output; large ones in memory of the pool, which they give back by themselves.
define ptr @new_array(ptr %output) {
entry:
  %dtype_place = getelementptr %Output, ptr %output, i64 0, i32 1
  %dtype = load ptr, ptr %dtype_place
  %axes_place = getelementptr %Output, ptr %output, i64 0, i32 2
  %axes_64 = load i64, ptr %axes_place
  %axes = trunc i64 %axes_64 to i32
  %sizes_place = getelementptr %Output, ptr %output, i64 0, i32 3
  %sizes = load ptr, ptr %sizes_place
  %bytes_place = getelementptr %Output, ptr %output, i64 0, i32 4
  %bytes = load i64, ptr %bytes_place
  %ndarray = load ptr, ptr @ndarray
  %new = load ptr, ptr @new_from_descr
  %least = load i64, ptr @pooled_from
  %is_pooled = icmp uge i64 %bytes, %least
  call void @Py_IncRef(ptr %dtype)         ; NewFromDescr takes this reference
  br i1 %is_pooled, label %pooled, label %plain
plain:
  %small = call ptr %new(ptr %ndarray, ptr %dtype, i32 %axes, ptr %sizes, ptr null, ptr null, i32 0, ptr null)
  ret ptr %small
pooled:
  %buffer = call ptr @take(i64 %bytes)
  %no_memory = icmp eq ptr %buffer, null
  br i1 %no_memory, label %none, label %wrap
wrap:
  %array = call ptr %new(ptr %ndarray, ptr %dtype, i32 %axes, ptr %sizes, ptr null, ptr %buffer, i32 1281, ptr null)
  %failed = icmp eq ptr %array, null
  br i1 %failed, label %back, label %own
own:
  %flags_place = getelementptr %Array, ptr %array, i64 0, i32 8
  %flags = load i32, ptr %flags_place
  %owns = or i32 %flags, 4                 ; NPY_ARRAY_OWNDATA
  store i32 %owns, ptr %flags_place
  %handler = load ptr, ptr @handler
  call void @Py_IncRef(ptr %handler)
  %handler_place = getelementptr %Array, ptr %array, i64 0, i32 11
  store ptr %handler, ptr %handler_place
  ret ptr %array
back:
  call void @give(ptr %buffer)
  ret ptr null
none:
  call void @Py_DecRef(ptr %dtype)
  %ignored = call ptr @PyErr_NoMemory()
  ret ptr null
}

; The value of out=, null where it is not given; kernel objects themselves stand for what only
; Python understands (other keywords).
define internal ptr @out_of(ptr %self, ptr %arguments, i64 %number, ptr %names) {
entry:
  %none = icmp eq ptr %names, null
  br i1 %none, label %absent, label %look
look:
  %count = call i64 @PyTuple_Size(ptr %names)
  %is_one = icmp eq i64 %count, 1
  br i1 %is_one, label %look_name, label %other
look_name:
  %offset = load i64, ptr @tuple_offset
  %name_place = getelementptr i8, ptr %names, i64 %offset
  %name = load ptr, ptr %name_place
  %out_name = load ptr, ptr @out_name
  %is_out = icmp eq ptr %name, %out_name
  br i1 %is_out, label %given, label %other
given:
  %out_place = getelementptr ptr, ptr %arguments, i64 %number
  %out = load ptr, ptr %out_place
  ret ptr %out
other:
  ret ptr %self
absent:
  ret ptr null
}

; 0 for no out=, 1 for one object, 2 for a tuple of as many arrays as the plan wants.
define internal i1 @fits_out(ptr %plan, ptr %arguments, ptr %out, ptr %buffers) {
entry:
  %form_place = getelementptr %Plan, ptr %plan, i64 0, i32 1
  %form = load i64, ptr %form_place
  %absent = icmp eq ptr %out, null
  %wants_none = icmp eq i64 %form, 0
  %agree = icmp eq i1 %absent, %wants_none
  br i1 %agree, label %look, label %no
look:
  %is_tuple = icmp eq i64 %form, 2
  br i1 %is_tuple, label %look_tuple, label %look_inouts
look_tuple:
  %type_known = call i1 @is_exactly(ptr %out, ptr @PyTuple_Type)
  br i1 %type_known, label %look_size, label %no
look_size:
  %size = call i64 @PyTuple_Size(ptr %out)
  %wanted_place = getelementptr %Plan, ptr %plan, i64 0, i32 11
  %wanted = load i64, ptr %wanted_place
  %same_size = icmp eq i64 %size, %wanted
  br i1 %same_size, label %written, label %no
look_inouts:
  %writes_place = getelementptr %Plan, ptr %plan, i64 0, i32 12
  %writes = load i64, ptr %writes_place
  %writes_nothing = icmp eq i64 %writes, 0
  br i1 %writes_nothing, label %yes, label %written
written:
  %fits = call i1 @fits_written(ptr %plan, ptr %arguments, ptr %out, ptr %buffers)
  ret i1 %fits
yes:
  ret i1 true
no:
  ret i1 false
}

; How the interpreter calls a kernel object (PEP 590: vectorcallfunc). The upper bit of the number
; says that the place before the arguments may be written to.
define ptr @call(ptr %self, ptr %arguments, i64 %number_and_flag, ptr %names) {
entry:
  %number = and i64 %number_and_flag, 9223372036854775807
  %buffers = alloca [256 x ptr], align 8
  %slots = alloca [256 x i64], align 8
  %found = alloca [256 x ptr], align 8
  %out = call ptr @out_of(ptr %self, ptr %arguments, i64 %number, ptr %names)
  %is_other = icmp eq ptr %out, %self
  br i1 %is_other, label %miss, label %search
search:
  %table_place = getelementptr %Kernel, ptr %self, i64 0, i32 3
  %plans = load ptr, ptr %table_place
  br label %head
head:
  %index = phi i64 [ 0, %search ], [ %next, %body ], [ %next, %look_out ]
  %plan_place = getelementptr ptr, ptr %plans, i64 %index
  %plan = load ptr, ptr %plan_place
  %ends = icmp eq ptr %plan, null
  br i1 %ends, label %miss, label %body
body:
  %next = add i64 %index, 1
  %fits = call i1 @fits(ptr %plan, ptr %arguments, i64 %number, ptr %buffers, ptr %slots, ptr %found)
  br i1 %fits, label %look_out, label %head
look_out:
  %fits_out = call i1 @fits_out(ptr %plan, ptr %arguments, ptr %out, ptr %buffers)
  br i1 %fits_out, label %hit, label %head
hit:
  %result = call ptr @run(ptr %plan, ptr %arguments, ptr %out, ptr %buffers, ptr %found)
  ret ptr %result
miss:
  %again = call ptr @call_in_python(ptr %self, ptr %arguments, i64 %number, ptr %names)
  ret ptr %again
}

define internal ptr @call_in_python(ptr %self, ptr %arguments, i64 %number, ptr %names) noinline {
entry:
  %no_names = icmp eq ptr %names, null
  br i1 %no_names, label %positional, label %named
named:
  %count = call i64 @PyTuple_Size(ptr %names)
  br label %positional
positional:
  %keywords = phi i64 [ 0, %entry ], [ %count, %named ]
  %all = add i64 %number, %keywords
  %with_self = add i64 %all, 1
  %stack = alloca ptr, i64 %with_self
  store ptr %self, ptr %stack
  %rest = getelementptr ptr, ptr %stack, i64 1
  %size = shl i64 %all, 3
  %copied = call ptr @memcpy(ptr %rest, ptr %arguments, i64 %size)
  %name = load ptr, ptr @python_name
  %positions = add i64 %number, 1
  %result = call ptr @PyObject_VectorcallMethod(ptr %name, ptr %stack, i64 %positions, ptr %names)
  ret ptr %result
}

; Runs a plan whose inputs lie in %buffers: allocates, calls, and gives what the kernel gives.
define internal ptr @run(ptr %plan, ptr %arguments, ptr %out, ptr %buffers, ptr %found) {
entry:
  %results = alloca [256 x ptr], align 8   ; references of ours
  %input_count_place = getelementptr %Plan, ptr %plan, i64 0, i32 2
  %input_count = load i64, ptr %input_count_place
  %count_place = getelementptr %Plan, ptr %plan, i64 0, i32 4
  %count = load i64, ptr %count_place
  %outputs_place = getelementptr %Plan, ptr %plan, i64 0, i32 5
  %outputs = load ptr, ptr %outputs_place
  %owner_place = getelementptr %Plan, ptr %plan, i64 0, i32 9
  %owner = load ptr, ptr %owner_place
  %bound_place = getelementptr %Plan, ptr %plan, i64 0, i32 13
  %bound = load i64, ptr %bound_place
  %has_bound = icmp ne i64 %bound, 0
  call void @Py_IncRef(ptr %owner)
  br i1 %has_bound, label %hold, label %outputs_start
hold:                                      ; a dictionary may let go of them while Python runs
  call void @hold_all(ptr %found, i64 %input_count)
  br label %outputs_start
outputs_start:
  %output_buffers = getelementptr ptr, ptr %buffers, i64 %input_count
  br label %head
head:
  %index = phi i64 [ 0, %outputs_start ], [ %next, %placed ]
  %more = icmp ult i64 %index, %count
  br i1 %more, label %body, label %workspace
body:
  %output = getelementptr %Output, ptr %outputs, i64 %index
  %inout = load i64, ptr %output
  %buffer_place = getelementptr ptr, ptr %output_buffers, i64 %index
  %result_place = getelementptr ptr, ptr %results, i64 %index
  %given = call ptr @written(ptr %plan, ptr %arguments, ptr %out, i64 %index)
  %is_new = icmp eq ptr %given, null
  br i1 %is_new, label %make, label %use
make:
  %made = call ptr @new_array(ptr %output)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %give_up, label %made_data
made_data:
  %made_buffer = call ptr @data_of(ptr %made)
  br label %placed
use:
  call void @Py_IncRef(ptr %given)
  %is_inout = icmp sge i64 %inout, 0
  br i1 %is_inout, label %aside, label %direct
direct:
  %direct_buffer = call ptr @data_of(ptr %given)
  br label %placed
aside:                                     ; the kernel reads the old values while it writes the new
  %bytes_place = getelementptr %Output, ptr %output, i64 0, i32 4
  %bytes = load i64, ptr %bytes_place
  %aside_buffer = call ptr @take(i64 %bytes)
  %no_memory = icmp eq ptr %aside_buffer, null
  br i1 %no_memory, label %no_aside, label %placed
no_aside:
  call void @Py_DecRef(ptr %given)
  %ignored = call ptr @PyErr_NoMemory()
  br label %give_up
placed:
  %array = phi ptr [ %made, %made_data ], [ %given, %direct ], [ %given, %aside ]
  %buffer = phi ptr [ %made_buffer, %made_data ], [ %direct_buffer, %direct ], [ %aside_buffer, %aside ]
  store ptr %array, ptr %result_place
  store ptr %buffer, ptr %buffer_place
  %next = add i64 %index, 1
  br label %head
workspace:
  %workspace_bytes_place = getelementptr %Plan, ptr %plan, i64 0, i32 7
  %workspace_bytes = load i64, ptr %workspace_bytes_place
  %no_workspace = icmp eq i64 %workspace_bytes, 0
  br i1 %no_workspace, label %start, label %take_workspace
take_workspace:
  %taken = call ptr @take(i64 %workspace_bytes)
  %workspace_place = getelementptr ptr, ptr %output_buffers, i64 %count
  store ptr %taken, ptr %workspace_place
  %no_room = icmp eq ptr %taken, null
  br i1 %no_room, label %no_workspace_memory, label %start
no_workspace_memory:
  %ignored_too = call ptr @PyErr_NoMemory()
  br label %give_up
start:
  %space = phi ptr [ null, %workspace ], [ %taken, %take_workspace ]
  %code_place = getelementptr %Plan, ptr %plan, i64 0, i32 6
  %code = load ptr, ptr %code_place
  %releases_place = getelementptr %Plan, ptr %plan, i64 0, i32 8
  %releases = load i64, ptr %releases_place
  %keeps_lock = icmp eq i64 %releases, 0
  br i1 %keeps_lock, label %short, label %long
short:
  call void %code(ptr %buffers)
  br label %ran
long:
  %thread = call ptr @PyEval_SaveThread()
  call void %code(ptr %buffers)
  call void @PyEval_RestoreThread(ptr %thread)
  %raised = call ptr @PyErr_Occurred()     ; the kernel saw a signal, and its handler raised
  %stopped = icmp ne ptr %raised, null
  br i1 %stopped, label %end_early, label %ran
ran:
  %failed_place = getelementptr %Plan, ptr %plan, i64 0, i32 10
  %on_failure = load ptr, ptr %failed_place
  %unchecked = icmp eq ptr %on_failure, null
  br i1 %unchecked, label %finish, label %look_status
look_status:
  %status = load i64, ptr %space
  %passed = icmp eq i64 %status, 0
  br i1 %passed, label %finish, label %tell
tell:
  %record = call ptr @PyBytes_FromStringAndSize(ptr %space, i64 128)
  %no_record = icmp eq ptr %record, null
  br i1 %no_record, label %end_early, label %tell_record
tell_record:
  %nothing = call ptr @PyObject_CallOneArg(ptr %on_failure, ptr %record)
  call void @Py_DecRef(ptr %record)
  br label %end_early
end_early:
  br label %give_back
give_up:                                   ; before anything ran: %index outputs are there
  %so_far = phi i64 [ %index, %make ], [ %index, %no_aside ], [ %count, %no_workspace_memory ]
  br label %give_back
finish:
  br label %give_back
give_back:
  %complete = phi i1 [ true, %finish ], [ false, %end_early ], [ false, %give_up ]
  %present = phi i64 [ %count, %finish ], [ %count, %end_early ], [ %so_far, %give_up ]
  %its_space = phi ptr [ %space, %finish ], [ %space, %end_early ], [ null, %give_up ]
  %has_space = icmp ne ptr %its_space, null
  br i1 %has_space, label %give_space, label %inouts_head
give_space:
  call void @give(ptr %its_space)
  br label %inouts_head
inouts_head:
  %place = phi i64 [ 0, %give_back ], [ 0, %give_space ], [ %place_next, %inouts_next ]
  %more_places = icmp ult i64 %place, %present
  br i1 %more_places, label %inouts_body, label %let_go
inouts_body:
  %place_next = add i64 %place, 1
  %output_done = getelementptr %Output, ptr %outputs, i64 %place
  %done_inout = load i64, ptr %output_done
  %was_inout = icmp sge i64 %done_inout, 0
  br i1 %was_inout, label %aside_done, label %inouts_next
aside_done:
  %aside_place = getelementptr ptr, ptr %output_buffers, i64 %place
  %aside_memory = load ptr, ptr %aside_place
  br i1 %complete, label %update, label %aside_back
update:
  %updated_place = getelementptr ptr, ptr %results, i64 %place
  %updated = load ptr, ptr %updated_place
  %destination = call ptr @data_of(ptr %updated)
  %update_bytes_place = getelementptr %Output, ptr %output_done, i64 0, i32 4
  %update_bytes = load i64, ptr %update_bytes_place
  %copied = call ptr @memcpy(ptr %destination, ptr %aside_memory, i64 %update_bytes)
  br label %aside_back
aside_back:
  call void @give(ptr %aside_memory)
  br label %inouts_next
inouts_next:
  br label %inouts_head
let_go:
  call void @Py_DecRef(ptr %owner)
  br i1 %has_bound, label %release_bound, label %gather
release_bound:
  call void @release_all(ptr %found, i64 %input_count)
  br label %gather
gather:
  br i1 %complete, label %count_results, label %drop
drop:
  call void @release_all(ptr %results, i64 %present)
  ret ptr null
count_results:
  %is_one = icmp eq i64 %count, 1
  br i1 %is_one, label %single, label %several
single:
  %only = load ptr, ptr %results
  ret ptr %only
several:
  %tuple = call ptr @PyTuple_New(i64 %count)
  %no_tuple = icmp eq ptr %tuple, null
  br i1 %no_tuple, label %drop, label %fill_head
fill_head:
  %item = phi i64 [ 0, %several ], [ %item_next, %fill_body ]
  %more_items = icmp ult i64 %item, %count
  br i1 %more_items, label %fill_body, label %filled
fill_body:
  %item_next = add i64 %item, 1
  %item_place = getelementptr ptr, ptr %results, i64 %item
  %item_array = load ptr, ptr %item_place
  %set = call i32 @PyTuple_SetItem(ptr %tuple, i64 %item, ptr %item_array)
  br label %fill_head
filled:
  ret ptr %tuple
}

define internal void @hold_all(ptr %objects, i64 %count) noinline {
entry:
  br label %head
head:
  %index = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp ult i64 %index, %count
  br i1 %more, label %body, label %end
body:
  %place = getelementptr ptr, ptr %objects, i64 %index
  %object = load ptr, ptr %place
  call void @Py_IncRef(ptr %object)        ; null is nothing to it
  %next = add i64 %index, 1
  br label %head
end:
  ret void
}

define internal void @release_all(ptr %objects, i64 %count) noinline {
entry:
  br label %head
head:
  %index = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp ult i64 %index, %count
  br i1 %more, label %body, label %end
body:
  %place = getelementptr ptr, ptr %objects, i64 %index
  %object = load ptr, ptr %place
  call void @Py_DecRef(ptr %object)        ; null is nothing to it
  %next = add i64 %index, 1
  br label %head
end:
  ret void
}
