"""weir-gdb.py: commands of gdb for programs that use weir: their fibers.

    weir fibers                     all fibers: function, series, state, what each waits for, and where
    weir fiber NUMBER [COMMAND]     runs a command of gdb in that fiber; without one, `bt`
    weir fiber ADDRESS [COMMAND]    the same by the address of the fiber, or by one on its stack
    weir gcore FILE                 a core of the process, as gcore, with the stacks of its fibers

For example:

    (gdb) weir fibers
      1  fetch   "page 7"   awaits a timer       fetch (program.c:31)
      2  relay              awaits a receive     relay (program.c:48)
    (gdb) weir fiber 2
    (gdb) weir fiber 1 bt full
    (gdb) weir fiber 1 frame 3

The commands work in a process that is stopped and in a core, and change nothing there.  The core may be one of the kernel or
of `weir gcore`.  In a gcore of gdb the stacks are empty: gdb skips the rest of a mapping behind a page that cannot be read, such
as a guard.  The commands read the library's own structs, so they need its debug information: a build with -g, or the package
libweir0-dbgsym.

gdb loads the file by itself for a shared library of the system.  Otherwise, for example for a program that is linked statically:

    (gdb) source /usr/share/weir/weir-gdb.py

How it works: each stack has an entry in a table of its arena, which names the fiber.  A fiber that waits has left its registers
on its stack.  While a command runs in it an unwinder says that the innermost frame of the selected thread was called from there.
So frame 0 is the thread's, which the output leaves out, and the frames of the fiber begin with 1.
"""
import struct

import gdb
from gdb.unwinder import Unwinder, register_unwinder

WISHES = ["yields", "sleeps", "awaits", "awaits", "joins a group", "ends"]
YIELD, SLEEP, WAIT, AWAIT, JOIN, END = range(6)

# For each processor: the stack pointer, the program counter, the size of what weir__context_swap has stored, and where in it
# which register is.  kernel/stack/frame.c has the same.
FRAMES = {
    "i386:x86-64": ("rsp", "rip", 64, dict(r15=8, r14=16, r13=24, r12=32, rbx=40, rbp=48, rip=56)),
    "aarch64": ("sp", "pc", 176, dict({"x%d" % (19 + i): 16 + 8 * i for i in range(12)}, pc=104)),
}


# -- the structs of the library --

def find_type(name):
    try:
        return gdb.lookup_type("struct " + name)
    except gdb.error:
        raise gdb.GdbError("There is no debug information of weir: build it with -g, or install libweir0-dbgsym.")


def number(value):
    return int(value.cast(gdb.lookup_type("unsigned long")))


def children_left(group):
    """How many children of a group that is joined have not ended: factory/fiber/group.c."""
    left = 0
    for i in range(number(group["made"])):
        block = (i + 1).bit_length() - 1
        slots = group["blocks"][block][i + 1 - (1 << block)]
        left += bin(number(slots["taken"]) & ((1 << 63) - 1)).count("1")
    return left


def text_at(pointer, size=-1):
    """The C string there, or the empty one."""
    try:
        if not number(pointer):
            return ""
        return pointer.cast(gdb.lookup_type("char").pointer()).string("utf-8", "replace", size)
    except gdb.MemoryError:
        return "?"


def offset_of(type, field):
    return type[field].bitpos // 8


class Fiber:
    """A fiber that has a stack."""

    def __init__(self, value, stack):
        self.value, self.stack, self.number = value, stack, 0
        self.address = number(value.address)
        self.top = number(stack["top"])
        self.low = self.top - number(stack["size"])
        self.at = number(value["at"])
        self.thread = None  # of gdb: on it the fiber runs

    @property
    def wish(self):
        return number(self.value["wish"])

    def series(self):
        extra = number(self.value["inner"]["extra"])
        if not extra:
            return ""
        extra = gdb.Value(extra).cast(find_type("weir__series_extra").pointer())
        if not number(extra["own_name"]) or number(extra["is_name_past"]):
            return ""
        name = extra["own_name"]["name"]
        return '"%s"' % text_at(name["text"].address, number(name["size"]))

    def task(self):
        """What the task that it awaits is."""
        task = self.value["wanted"]["awaited"]["task"]
        ops = task["work"]["ops"].cast(find_type("weir__task_ops").pointer())
        what = text_at(ops["work"]["kind"]) or "a task"
        if number(ops["name_at"]):
            name = gdb.Value(number(task) + number(ops["name_at"])).cast(find_type("weir__name").pointer())
            what += ' "%s"' % text_at(name["text"].address, number(name["size"]))
        return "%s (weir_task *) 0x%x" % (what, number(task))

    def state(self):
        if self.thread:
            return "runs on thread %d" % self.thread.num
        if not self.at:
            return "is between two awaits" if number(self.value["inner"]["started"]) else "begins"
        try:
            return WISHES[self.wish] + self.wanted()
        except gdb.MemoryError:  # it is said on the stack, which a gcore of gdb lacks
            return WISHES[self.wish]

    def wanted(self):
        """What it waits for, behind the verb."""
        wish, wanted = self.wish, self.value["wanted"]
        if wish == SLEEP:
            return " for %g s" % (int(wanted["duration"]) / 1e9)
        elif wish == WAIT:
            return " %s at 0x%x" % (text_at(wanted["wait"]["ops"]["work"]["kind"]), number(wanted["wait"]["object"]))
        elif wish == AWAIT:
            return " " + self.task()
        elif wish == JOIN:
            return " of %d that have not ended" % children_left(wanted["group"])
        return ""

    def place(self):
        """Where it waits."""
        if not self.at or self.thread:
            return ""
        block, line = gdb.block_for_pc(self.at - 1), gdb.find_pc_line(self.at - 1)
        while block and not block.function:
            block = block.superblock
        name = block.function.print_name if block else "0x%x" % self.at
        return "%s (%s:%d)" % (name, line.symtab.filename.rsplit("/", 1)[-1], line.line) if line.symtab else name


def arenas():
    """The addresses of all arenas: the entries of the tables of kernel/stack/slots.c."""
    pointer = gdb.lookup_type("unsigned long").sizeof
    inferior = gdb.selected_inferior()
    for symbol in gdb.lookup_static_symbols("arena_tables"):
        tables = symbol.value()
        if tables.address is None:
            continue  # with optimization across files the symbol of the file is empty
        count = tables.type.sizeof // pointer
        memory = inferior.read_memory(number(tables.address), count * pointer)
        for table in struct.unpack("%dL" % count, memory):
            if table:
                yield from filter(None, struct.unpack("%dL" % count, inferior.read_memory(table, count * pointer)))


def tables_of_arenas():
    """Of each arena: its address, and the beginning and the end of its table of stacks."""
    arena_type, size = find_type("weir__arena").pointer(), find_type("weir__stack").sizeof
    for address in arenas():
        arena = gdb.Value(address).cast(arena_type)
        first = number(arena["stacks"].address)
        yield address, first, first + number(arena["fresh"]) * size


def stacks():
    """The addresses of all stacks with an owner, and the owner's."""
    inferior, stack_type = gdb.selected_inferior(), find_type("weir__stack")
    owner = offset_of(stack_type, "owner")
    for arena, first, end in tables_of_arenas():
        memory = bytes(inferior.read_memory(first, end - first))
        for at in range(0, len(memory), stack_type.sizeof):
            value, = struct.unpack_from("L", memory, at + owner)
            if value:
                yield first + at, value


def fibers():
    """All fibers that have a stack, in the order of their stacks."""
    fiber_type, stack_type = find_type("weir__fiber").pointer(), find_type("weir__stack").pointer()
    found = []
    for stack, owner in stacks():
        value = gdb.Value(owner).cast(fiber_type).dereference()
        try:
            if number(value["stack"]) == stack:  # else it has given that back
                found.append(Fiber(value, gdb.Value(stack).cast(stack_type).dereference()))
        except gdb.MemoryError:
            continue
    pointers = running_stack_pointers()
    for i, fiber in enumerate(found):
        fiber.number = i + 1
        for sp, thread in pointers:
            if fiber.low <= sp < fiber.top:
                fiber.thread = thread
    return found


def fiber_of(text):
    """The fiber of that number or address."""
    wanted = number(gdb.parse_and_eval(text))
    for fiber in fibers():
        if wanted in (fiber.number, fiber.address) or fiber.low <= wanted < fiber.top:
            return fiber
    raise gdb.GdbError("There is no fiber %s." % text)


def running_stack_pointers():
    """Of all threads."""
    selected, result = gdb.selected_thread(), []
    level = gdb.selected_frame().level() if selected else 0
    for thread in gdb.selected_inferior().threads():
        try:
            thread.switch()
            result.append((number(gdb.newest_frame().read_register("sp")), thread))
        except gdb.error:
            continue  # it runs
    if selected:
        selected.switch()
        select_frame(level)
    return result


def select_frame(level):
    frame = gdb.newest_frame()
    while frame.level() < level:
        frame = frame.older()
    frame.select()


# -- frames of a fiber that waits --

class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


class FiberUnwinder(Unwinder):
    """Says of the innermost frame of the selected thread that a fiber has called it."""

    def __init__(self):
        super().__init__("weir fiber")
        self.fiber = None

    def __call__(self, pending):
        if not self.fiber or pending.level() != 0:
            return None
        sp_name, pc_name, size, registers = FRAMES[pending.architecture().name()]
        long = gdb.lookup_type("unsigned long")
        sp = number(self.fiber.value["context"]["sp"])
        frame = bytes(gdb.selected_inferior().read_memory(sp, size))
        # Seen from the frames of the fiber this one is further in.
        info = pending.create_unwind_info(FrameId(gdb.Value(sp), pending.read_register(pc_name)))
        info.add_saved_register(sp_name, gdb.Value(sp + size).cast(long))
        for name, offset in registers.items():
            value, = struct.unpack_from("Q", frame, offset)
            info.add_saved_register(name, gdb.Value(value).cast(long))
        return info


unwinder = FiberUnwinder()
register_unwinder(None, unwinder, replace=True)


def run_in(fiber, command):
    """The output of a command of gdb in that fiber."""
    frame = gdb.selected_frame()
    arch = frame.architecture().name()
    if arch not in FRAMES:
        raise gdb.GdbError("Stacks of this processor (%s) are not known." % arch)
    selected = frame.level()
    try:
        unwinder.fiber = fiber
        gdb.invalidate_cached_frames()
        select_frame(1)
        lines = gdb.execute(command, to_string=True).splitlines()
    finally:
        unwinder.fiber = None
        gdb.invalidate_cached_frames()
        select_frame(selected)
    # The frame of the thread.
    if lines and lines[0].startswith("#0 "):
        while lines and not lines[0].startswith("#1 "):
            lines.pop(0)
    return "\n".join(lines)


# -- commands --

class WeirCommand(gdb.Command):
    """Commands for programs that use weir."""

    def __init__(self):
        super().__init__("weir", gdb.COMMAND_STATUS, gdb.COMPLETE_NONE, True)


class FibersCommand(gdb.Command):
    """Lists all fibers: number, function, series, state, and where each waits.

    weir fibers"""

    def __init__(self):
        super().__init__("weir fibers", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        rows = [(str(fiber.number), text_at(fiber.value["name"]), fiber.series(), fiber.state(), fiber.place())
                for fiber in fibers()]
        widths = [max(map(len, column)) for column in zip(*rows)]
        for row in rows:
            cells = [row[0].rjust(widths[0])] + [cell.ljust(width) for cell, width in zip(row[1:], widths[1:])]
            gdb.write("  ".join(cell for cell, width in zip(cells, widths) if width).rstrip() + "\n")
        if not rows:
            gdb.write("No fibers.\n")


class FiberCommand(gdb.Command):
    """Runs a command of gdb in a fiber; without a command, bt.

    weir fiber NUMBER [COMMAND]
    weir fiber ADDRESS [COMMAND]

The numbers are those of `weir fibers`; they change when the program goes on.  The address is that of the fiber, or one on its
stack.
The frames of the fiber begin with 1."""

    def __init__(self):
        super().__init__("weir fiber", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        which, _, command = argument.strip().partition(" ")
        if not which:
            raise gdb.GdbError("weir fiber NUMBER|ADDRESS [COMMAND]")
        fiber = fiber_of(which)
        command = command.strip() or "bt"
        gdb.write('fiber %d, %s%s: %s\n' % (fiber.number, text_at(fiber.value["name"]),
                                            " of " + fiber.series() if fiber.series() else "", fiber.state()))
        if fiber.thread:
            gdb.write(gdb.execute("thread apply %d -q %s" % (fiber.thread.num, command), to_string=True))
        elif not fiber.at:
            gdb.write("It has no frames yet.\n")
        else:
            gdb.write(run_in(fiber, command) + "\n")


class GcoreCommand(gdb.Command):
    """Writes a core of the process, with the stacks of its fibers.

    weir gcore FILE"""

    def __init__(self):
        super().__init__("weir gcore", gdb.COMMAND_FILES, gdb.COMPLETE_FILENAME)

    def invoke(self, argument, from_tty):
        if not argument:
            raise gdb.GdbError("weir gcore FILE")
        gdb.write(gdb.execute("generate-core-file " + argument, to_string=True))
        with open(argument, "r+b") as core:
            segments = list(segments_of(core))
            for arena, first, end in tables_of_arenas():
                add(core, segments, arena, end)
            for fiber in fibers():
                is_parked = fiber.at and not fiber.thread
                add(core, segments, number(fiber.value["context"]["sp"]) if is_parked else fiber.low, fiber.top)


# -- cores --

def segments_of(core):
    """Address, size, and place in the file of the memory in a core of 64 bits."""
    header = core.read(64)
    first, = struct.unpack_from("Q", header, 32)
    size, count = struct.unpack_from("HH", header, 54)
    for i in range(count):
        core.seek(first + i * size)
        kind, _, place, address, _, length = struct.unpack("IIQQQQ", core.read(40))
        if kind == 1:
            yield address, length, place


def add(core, segments, low, end):
    """That memory of the process."""
    memory = gdb.selected_inferior().read_memory(low, end - low)
    for address, length, place in segments:
        if address <= low and end <= address + length:
            core.seek(place + low - address)
            core.write(memory)


WeirCommand()
FibersCommand()
FiberCommand()
GcoreCommand()
