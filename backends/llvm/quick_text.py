"""The LLVM text of the function behind quick calls.

It gets a header (the data of its self, an array of words): the type of arrays, the word `out`, the slow call, the
kernel, the number of arguments, the first of the remembered calls, the types of numbers, where the address of what
shares loops stands (-1: not known), and None. A remembered call is a list of words as well: the next one, how many
outputs and private tensors there are, whether other threads may run, the frame and its length, whether data may be at
fault; then the arguments (what, where in the frame, type, dimensions, bytes, shape) and the arrays to make (where in
the frame, type, dimensions, bytes, what makes them, shape).
"""

from __future__ import annotations

from enum import IntEnum


class Kind(IntEnum):
    """What an argument is."""

    ARRAY = 0
    F32 = 1
    F64 = 2
    INT = 3


# Flags of numpy: row by row and aligned; besides, to be written.
READ, WRITTEN = 0x101, 0x501

TEXT = f"""\
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; Word number %at behind %base.
define internal i64 @word(ptr %base, i64 %at) alwaysinline {{
  %place = getelementptr inbounds i64, ptr %base, i64 %at
  %value = load i64, ptr %place, align 8
  ret i64 %value
}}

; Whether an object is an array of a type and shape, with these flags.
define internal i1 @fits(ptr %object, i64 %class, i64 %descr, i64 %rank, ptr %shape, i32 %flags) alwaysinline {{
entry:
  %own.class = call i64 @word(ptr %object, i64 1)
  %is.array = icmp eq i64 %own.class, %class
  br i1 %is.array, label %look, label %no
look:
  %own.descr = call i64 @word(ptr %object, i64 7)
  %same.descr = icmp eq i64 %own.descr, %descr
  %rank.at = getelementptr inbounds i8, ptr %object, i64 24
  %own.rank32 = load i32, ptr %rank.at, align 8
  %own.rank = sext i32 %own.rank32 to i64
  %same.rank = icmp eq i64 %own.rank, %rank
  %flags.at = getelementptr inbounds i8, ptr %object, i64 64
  %own.flags = load i32, ptr %flags.at, align 8
  %of.flags = and i32 %own.flags, %flags
  %same.flags = icmp eq i32 %of.flags, %flags
  %both = and i1 %same.descr, %same.rank
  %all = and i1 %both, %same.flags
  br i1 %all, label %sides, label %no
sides:
  %shape.at = call i64 @word(ptr %object, i64 4)
  %own.shape = inttoptr i64 %shape.at to ptr
  br label %side
side:
  %n = phi i64 [ 0, %sides ], [ %n.next, %equal ]
  %more = icmp slt i64 %n, %rank
  br i1 %more, label %compare, label %yes
compare:
  %own = call i64 @word(ptr %own.shape, i64 %n)
  %wanted = call i64 @word(ptr %shape, i64 %n)
  %same = icmp eq i64 %own, %wanted
  br i1 %same, label %equal, label %no
equal:
  %n.next = add i64 %n, 1
  br label %side
yes:
  ret i1 true
no:
  ret i1 false
}}

; Whether the arguments are those of a remembered call, from %records on: what follows them, or nothing.
; Their words are put into the frame.
define internal ptr @matches(ptr %header, ptr %records, ptr %args, i64 %count, ptr %frame) {{
entry:
  %class = call i64 @word(ptr %header, i64 0)
  %class.float = call i64 @word(ptr %header, i64 6)
  %class.int = call i64 @word(ptr %header, i64 7)
  %over = alloca i32
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %n.next, %well ]
  %record = phi ptr [ %records, %entry ], [ %record.next, %well ]
  %more = icmp slt i64 %n, %count
  br i1 %more, label %one, label %yes
one:
  %object.at = getelementptr inbounds ptr, ptr %args, i64 %n
  %object = load ptr, ptr %object.at, align 8
  %kind = call i64 @word(ptr %record, i64 0)
  %slot = call i64 @word(ptr %record, i64 1)
  %first = call i64 @word(ptr %record, i64 2)
  %second = call i64 @word(ptr %record, i64 3)
  %own.class = call i64 @word(ptr %object, i64 1)
  %is.float = icmp eq i64 %own.class, %class.float
  %is.int = icmp eq i64 %own.class, %class.int
  switch i64 %kind, label %no [ i64 {Kind.ARRAY:d}, label %array
                                i64 {Kind.F32:d}, label %f32
                                i64 {Kind.F64:d}, label %f64
                                i64 {Kind.INT:d}, label %int ]
array:
  %shape = getelementptr inbounds i64, ptr %record, i64 5
  %fits = call i1 @fits(ptr %object, i64 %class, i64 %first, i64 %second, ptr %shape, i32 {READ})
  br i1 %fits, label %address, label %no
address:
  %data = call i64 @word(ptr %object, i64 2)
  br label %well
f32:
  br i1 %is.float, label %narrow, label %no
narrow:
  %value.at = getelementptr inbounds i8, ptr %object, i64 16
  %value = load double, ptr %value.at, align 8
  %rounded = fptrunc double %value to float
  %bits32 = bitcast float %rounded to i32
  %bits = zext i32 %bits32 to i64
  br label %well
f64:
  br i1 %is.float, label %wide, label %no
wide:
  %bits.wide = call i64 @word(ptr %object, i64 2)
  br label %well
int:
  br i1 %is.int, label %whole, label %no
whole:
  %integer = call i64 @PyLong_AsLongLongAndOverflow(ptr %object, ptr %over)
  %beyond = load i32, ptr %over
  %inside = icmp eq i32 %beyond, 0
  %above = icmp sge i64 %integer, %first
  %below = icmp sle i64 %integer, %second
  %between = and i1 %above, %below
  %fitting = and i1 %between, %inside
  br i1 %fitting, label %well, label %no
well:
  %found = phi i64 [ %data, %address ], [ %bits, %narrow ], [ %bits.wide, %wide ], [ %integer, %whole ]
  %rank = phi i64 [ %second, %address ], [ 0, %narrow ], [ 0, %wide ], [ 0, %whole ]
  %used = icmp sge i64 %slot, 0
  %place.any = select i1 %used, i64 %slot, i64 0
  %place = getelementptr inbounds i64, ptr %frame, i64 %place.any
  %before = load i64, ptr %place, align 8
  %stored = select i1 %used, i64 %found, i64 %before
  store i64 %stored, ptr %place, align 8
  %n.next = add i64 %n, 1
  %size = add i64 %rank, 5
  %record.next = getelementptr inbounds i64, ptr %record, i64 %size
  br label %next
yes:
  ret ptr %record
no:
  ret ptr null
}}

; Whether an array to write to shares no memory with an argument.
define internal i1 @apart(ptr %records, ptr %args, i64 %count, i64 %start, i64 %bytes) {{
entry:
  %end = add i64 %start, %bytes
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %n.next, %well ]
  %record = phi ptr [ %records, %entry ], [ %record.next, %well ]
  %more = icmp slt i64 %n, %count
  br i1 %more, label %one, label %yes
one:
  %kind = call i64 @word(ptr %record, i64 0)
  %is.array = icmp eq i64 %kind, {Kind.ARRAY:d}
  %rank.any = call i64 @word(ptr %record, i64 3)
  %rank = select i1 %is.array, i64 %rank.any, i64 0
  %object.at = getelementptr inbounds ptr, ptr %args, i64 %n
  %object = load ptr, ptr %object.at, align 8
  br i1 %is.array, label %compare, label %well
compare:
  %low = call i64 @word(ptr %object, i64 2)
  %own = call i64 @word(ptr %record, i64 4)
  %high = add i64 %low, %own
  %before = icmp ule i64 %end, %low
  %behind = icmp ule i64 %high, %start
  %clear = or i1 %before, %behind
  br i1 %clear, label %well, label %no
well:
  %n.next = add i64 %n, 1
  %size = add i64 %rank, 5
  %record.next = getelementptr inbounds i64, ptr %record, i64 %size
  br label %next
yes:
  ret i1 true
no:
  ret i1 false
}}

define internal void @drop(ptr %objects, i64 %low, i64 %high) {{
entry:
  br label %next
next:
  %n = phi i64 [ %low, %entry ], [ %n.next, %one ]
  %more = icmp slt i64 %n, %high
  br i1 %more, label %one, label %done
one:
  %at = getelementptr inbounds ptr, ptr %objects, i64 %n
  %object = load ptr, ptr %at, align 8
  call void @Py_DecRef(ptr %object)
  %n.next = add i64 %n, 1
  br label %next
done:
  ret void
}}

define ptr @call(ptr %self, ptr %args, i64 %count, ptr %names) {{
entry:
  %header.at = call i64 @word(ptr %self, i64 2)
  %header = inttoptr i64 %header.at to ptr
  %cell.at = call i64 @word(ptr %header, i64 8)
  %cell = inttoptr i64 %cell.at to ptr
  %runner = load i64, ptr %cell, align 8
  %known = icmp ne i64 %runner, -1
  %wanted = call i64 @word(ptr %header, i64 4)
  %right = icmp eq i64 %count, %wanted
  %begin = and i1 %known, %right
  br i1 %begin, label %words, label %slow
words:
  %plain = icmp eq ptr %names, null
  br i1 %plain, label %search, label %named
named:
  %number = call i64 @word(ptr %names, i64 2)
  %one.name = icmp eq i64 %number, 1
  br i1 %one.name, label %name, label %slow
name:
  %name.is = call i64 @word(ptr %names, i64 3)
  %name.out = call i64 @word(ptr %header, i64 1)
  %is.out = icmp eq i64 %name.is, %name.out
  br i1 %is.out, label %value, label %slow
value:
  %out.at = getelementptr inbounds ptr, ptr %args, i64 %count
  %out.value = load ptr, ptr %out.at, align 8
  %none.at = call i64 @word(ptr %header, i64 9)
  %none = inttoptr i64 %none.at to ptr
  %is.none = icmp eq ptr %out.value, %none
  %out.given = select i1 %is.none, ptr null, ptr %out.value
  br label %search
search:
  %out = phi ptr [ null, %words ], [ %out.given, %value ]
  %any.out = icmp ne ptr %out, null
  %first = call i64 @word(ptr %header, i64 5)
  br label %remembered
remembered:
  %memo.at = phi i64 [ %first, %search ], [ %memo.next, %other ]
  %memo = inttoptr i64 %memo.at to ptr
  %is.memo = icmp ne i64 %memo.at, 0
  br i1 %is.memo, label %try, label %slow
try:
  %memo.next = call i64 @word(ptr %memo, i64 0)
  %outputs = call i64 @word(ptr %memo, i64 1)
  %privates = call i64 @word(ptr %memo, i64 2)
  %long = call i64 @word(ptr %memo, i64 3)
  %template.at = call i64 @word(ptr %memo, i64 4)
  %template = inttoptr i64 %template.at to ptr
  %length = call i64 @word(ptr %memo, i64 5)
  %fails = call i64 @word(ptr %memo, i64 6)
  %records = getelementptr inbounds i64, ptr %memo, i64 7
  %stack = call ptr @llvm.stacksave.p0()
  %frame = alloca i64, i64 %length, align 16
  %bytes = mul i64 %length, 8
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %frame, ptr align 8 %template, i64 %bytes, i1 false)
  %made = call ptr @matches(ptr %header, ptr %records, ptr %args, i64 %count, ptr %frame)
  %alike = icmp ne ptr %made, null
  br i1 %alike, label %ready, label %other
other:
  call void @llvm.stackrestore.p0(ptr %stack)
  br label %remembered
ready:
  %last = sub i64 %length, 1
  %last.at = getelementptr inbounds i64, ptr %frame, i64 %last
  store i64 %runner, ptr %last.at, align 8
  %all = add i64 %outputs, %privates
  %objects = alloca ptr, i64 %all, align 16
  br i1 %any.out, label %given, label %make
given:
  ; One output, and data that cannot be at fault.
  %single = icmp eq i64 %outputs, 1
  %safe = icmp eq i64 %fails, 0
  %fit.for = and i1 %single, %safe
  br i1 %fit.for, label %fit, label %slow
fit:
  %class = call i64 @word(ptr %header, i64 0)
  %out.slot = call i64 @word(ptr %made, i64 0)
  %out.descr = call i64 @word(ptr %made, i64 1)
  %out.rank = call i64 @word(ptr %made, i64 2)
  %out.bytes = call i64 @word(ptr %made, i64 3)
  %out.shape = getelementptr inbounds i64, ptr %made, i64 5
  %out.fits = call i1 @fits(ptr %out, i64 %class, i64 %out.descr, i64 %out.rank, ptr %out.shape, i32 {WRITTEN})
  br i1 %out.fits, label %clear, label %slow
clear:
  %out.data = call i64 @word(ptr %out, i64 2)
  %is.apart = call i1 @apart(ptr %records, ptr %args, i64 %count, i64 %out.data, i64 %out.bytes)
  br i1 %is.apart, label %take, label %slow
take:
  %out.place = getelementptr inbounds i64, ptr %frame, i64 %out.slot
  store i64 %out.data, ptr %out.place, align 8
  store ptr %out, ptr %objects, align 8
  call void @Py_IncRef(ptr %out)
  %skip = add i64 %out.rank, 5
  %made.rest = getelementptr inbounds i64, ptr %made, i64 %skip
  br label %make
make:
  %low = phi i64 [ 0, %ready ], [ 1, %take ]
  %made.first = phi ptr [ %made, %ready ], [ %made.rest, %take ]
  br label %array
array:
  %n = phi i64 [ %low, %make ], [ %n.next, %made.one ]
  %record = phi ptr [ %made.first, %make ], [ %record.next, %made.one ]
  %more = icmp slt i64 %n, %all
  br i1 %more, label %make.one, label %run
make.one:
  %slot = call i64 @word(ptr %record, i64 0)
  %rank = call i64 @word(ptr %record, i64 2)
  %maker.at = call i64 @word(ptr %record, i64 4)
  %maker = inttoptr i64 %maker.at to ptr
  %object = call ptr @PyObject_CallNoArgs(ptr %maker)
  %none.made = icmp eq ptr %object, null
  br i1 %none.made, label %no.room, label %made.one
no.room:
  call void @drop(ptr %objects, i64 0, i64 %n)
  ret ptr null
made.one:
  %object.at = getelementptr inbounds ptr, ptr %objects, i64 %n
  store ptr %object, ptr %object.at, align 8
  %data = call i64 @word(ptr %object, i64 2)
  %place = getelementptr inbounds i64, ptr %frame, i64 %slot
  store i64 %data, ptr %place, align 8
  %n.next = add i64 %n, 1
  %size = add i64 %rank, 5
  %record.next = getelementptr inbounds i64, ptr %record, i64 %size
  br label %array
run:
  %kernel.at = call i64 @word(ptr %header, i64 3)
  %kernel = inttoptr i64 %kernel.at to ptr
  %is.long = icmp ne i64 %long, 0
  br i1 %is.long, label %apart, label %alone
apart:
  %state = call ptr @PyEval_SaveThread()
  %code.apart = call i64 %kernel(ptr %frame)
  call void @PyEval_RestoreThread(ptr %state)
  br label %ran
alone:
  %code.alone = call i64 %kernel(ptr %frame)
  br label %ran
ran:
  %code = phi i64 [ %code.apart, %apart ], [ %code.alone, %alone ]
  %well = icmp eq i64 %code, 0
  br i1 %well, label %result, label %fault
fault:
  ; The slow call says what is the matter.
  call void @drop(ptr %objects, i64 0, i64 %all)
  br label %slow
result:
  call void @drop(ptr %objects, i64 %outputs, i64 %all)
  %only = icmp eq i64 %outputs, 1
  br i1 %only, label %single.result, label %tuple
single.result:
  %result.one = load ptr, ptr %objects, align 8
  ret ptr %result.one
tuple:
  %pair = call ptr @PyTuple_New(i64 %outputs)
  %no.pair = icmp eq ptr %pair, null
  br i1 %no.pair, label %lost, label %fill
lost:
  call void @drop(ptr %objects, i64 0, i64 %outputs)
  ret ptr null
fill:
  %k = phi i64 [ 0, %tuple ], [ %k.next, %filled ]
  %rest = icmp slt i64 %k, %outputs
  br i1 %rest, label %filled, label %whole
filled:
  %item.at = getelementptr inbounds ptr, ptr %objects, i64 %k
  %item = load ptr, ptr %item.at, align 8
  call i32 @PyTuple_SetItem(ptr %pair, i64 %k, ptr %item)
  %k.next = add i64 %k, 1
  br label %fill
whole:
  ret ptr %pair
slow:
  %slow.at = call i64 @word(ptr %header, i64 2)
  %slow.call = inttoptr i64 %slow.at to ptr
  %answer = call ptr @PyObject_Vectorcall(ptr %slow.call, ptr %args, i64 %count, ptr %names)
  ret ptr %answer
}}

declare ptr @llvm.stacksave.p0()
declare void @llvm.stackrestore.p0(ptr)

define i64 @kernel(ptr %frame) {{
  ret i64 0
}}

define void @release() {{
  ret void
}}
"""
