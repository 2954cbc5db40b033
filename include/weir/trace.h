/* weir/trace.h: what ran when and where, as a file for https://ui.perfetto.dev and
 * chrome://tracing.
 *
 * The file is JSON in the trace event format: an array of events.  Each thread that runs callbacks
 * or functions has a track with
 *
 * - a slice for each callback, function and free function, named by kind and name.  Its arguments
 *   have the number of the series, the status that the callback saw, the lateness of a timer, and
 *   whether the callback has lost its poller;
 * - slices for sleeps;
 * - slices for each stage of a request, a connect and a promise, such as "waiting GET
 *   https://example.com:443", each in a row of its own, because stages last while their threads run
 *   other things;
 * - arrows along each series, from one callback to the next; from the last callback before a
 *   parallel to the first one of each of its series; and from the worker that gives or loses a
 *   poller to the one that gets it;
 * - marks for work that was shared, stolen and taken over.
 *
 * A callback never waits for the disk.  It writes 128 bytes into a buffer of its thread, of 2 MiB.
 * A thread of the trace writes them to the file.  If the buffer is full, the event is left out and
 * counted.
 *
 * Cost: without a trace one load and one branch for each callback, too small to measure.  With a
 * trace about 100 ns on the callback's thread, and 750 ns on the thread of the trace. */
#ifndef WEIR_TRACE_H
#define WEIR_TRACE_H

#include <weir/export.h>

WEIR_BEGIN

/* Begins a trace.  Everything that begins from now on is written to the file at `path`, which is made or
 * emptied.
 *
 * A trace that is open when the process ends by exit(), or by return from main, is closed as by
 * weir_trace_stop.  If the file takes nothing, like a FIFO without a reader, exit() waits for at
 * most config.exit_wait (weir/runtime.h; 2 seconds before the first weir_init), and the rest is
 * lost.  Such a file, and the file of a process that ends in another way, lacks the end of its
 * array.  Both viewers accept that.
 *
 * Result:  0; -EBUSY while there is a trace; -EINVAL for NULL; -ECHILD in a forked child, which has
 *          no trace; what open and pthread_create report.
 * Units:   timestamps in the file are microseconds on the clock of weir_now.  On the virtual clock
 *          they are virtual, and most slices have no length.
 * Threads: any, at any time, also inside a callback, before weir_init and after weir_shutdown.  A
 *          trace goes on across both.  Blocks until the file is open. */
WEIR_API int weir_trace_start(const char *path);

/* Ends the trace.  Everything that has ended until now is in the file when this returns.  A
 * callback that is still running is not in it.
 *
 * Result:  how many events were left out because a buffer was full, at most INT_MAX (the file and a
 *          warning have the number too); or an error: -EALREADY when there is no trace; -ECHILD in
 *          a forked child; the error of a write to the file, such as -ENOSPC.  After such an error
 *          the file has what was written before, and the end of its array if that could be written.
 * Threads: any, also inside a callback.  Blocks as the disk does. */
WEIR_API int weir_trace_stop(void);

WEIR_END

#endif
