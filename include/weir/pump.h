/* weir/pump.h: a task that carries bytes from one stream to another. */
#ifndef WEIR_PUMP_H
#define WEIR_PUMP_H

#include <stdint.h>

#include <weir/stream.h>
#include <weir/task.h>

WEIR_BEGIN

/* Makes a task that writes to `to` what it reads from `from`, until that ends.  It reads on when
 * what it has is written: so a slow reader at one end slows the writer at the other.  It does not end
 * the writing of `to`: push weir_stream_finish_new behind it.
 *
 * A proxy has two of them, one for each direction, in a parallel.
 *
 * The system moves many bytes from one to the other without a copy (splice(2)), if both are plain
 * connections or pipes.  Small pieces are copied, and so are all where a side has TLS.  A pump that
 * waits for input has no buffer.  It has at most 256 KiB in hand.
 *
 * Bytes in hand cannot be given back when it ends early: then both streams are broken, so that no
 * peer takes data with a gap for the whole.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's start, run or push
 *          reports -ENOMEM for a NULL stream.  The task's status: 0: `from` has ended, and all of it
 *          is written; else those of weir_stream_read_new and weir_stream_write_new.
 * Threads: any. */
WEIR_API weir_task *weir_pump_new(weir_stream *from, weir_stream *to, weir_task_fn *done, void *context);

/* How many bytes a pump has written: those that the system has taken for `to`.  0 for another task.
 *
 * Threads: inside the task's callback. */
WEIR_API uint64_t weir_pump_moved(const weir_task *pump);

/* The stream whose failure has ended the pump, `from` or `to`.
 *
 * Owner:   the task has a reference; take one with weir_stream_ref to keep it.
 * Result:  NULL if neither has failed, and for another task.
 * Threads: inside the task's callback. */
WEIR_API weir_stream *weir_pump_failed(const weir_task *pump);

WEIR_END

#endif
