/* weir/trace.h: what ran when and where, as a file that https://ui.perfetto.dev and chrome://tracing show.
 *
 * The file is JSON, in the trace event format: an array of events.  Each thread that runs callbacks or functions has a track.  On
 * it is a slice for each callback, function and free function, named by kind and name, which says in its arguments the number of
 * its series, the status that it saw, how late it was if it is a timer's, and whether it has lost its poller; and slices for
 * sleeps.  Arrows lead along each series from one of its callbacks to the next, from the last callback before a parallel to the
 * first of each of its series, and from who gives or loses a poller to who gets it.  Marks tell what was shared, stolen and taken
 * over.
 *
 * A callback never waits for the disk: it leaves 128 bytes in a buffer of its thread, of 2 MiB, and a thread of the trace writes
 * them.  What finds the buffer full is left out, and counted.
 *
 * What it costs: without a trace one load and a branch for each callback, which nothing has measured; with one about 100 ns on its
 * thread, and 750 ns on that of the trace. */
#ifndef WEIR_TRACE_H
#define WEIR_TRACE_H

#include <weir/export.h>

WEIR_BEGIN

/* Begins a trace: what begins from now on is written to that file, which is made, or emptied.  One that is open when the process
 * ends by exit() or the return of main is closed then, as by weir_trace_stop.  But where nothing can be written, as to a FIFO that
 * nobody reads, exit() waits for config.exit_wait at most (weir/runtime.h; 2 seconds before the first weir_init), and the rest is
 * lost.  The file of a process that ends so, or not by exit(), lacks the end of its array, which both viewers accept.
 *
 * Result:  0; -EBUSY while there is one; -EINVAL for NULL; -ECHILD in a forked child, which has none either; what open and
 *          pthread_create report.
 * Units:   the file's timestamps are microseconds on the clock of weir_now: on the virtual clock, virtual ones, where most slices
 *          have no length.
 * Threads: any, at any time, also inside a callback, before weir_init and after weir_shutdown: it goes on across both.  Waits for
 *          the file to be opened. */
WEIR_API int weir_trace_start(const char *path);

/* Ends it: what has ended until now is in the file when this returns.  Of a callback that is running nothing is.
 *
 * Result:  how many events were left out because a buffer was full, INT_MAX for more (the file says so as well, and so does a
 *          warning), or a negative errno: -EALREADY when there is none; -ECHILD in a forked child; what a write to the file has
 *          failed with, such as -ENOSPC: what was written before is there, and its array has its end if that could be written.
 * Threads: any, also inside a callback.  Waits for the disk. */
WEIR_API int weir_trace_stop(void);

WEIR_END

#endif
