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
 * What is in hand when it ends early cannot be given back: then both streams are broken, so that no
 * peer takes what has a gap for the whole.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's start, run or push
 *          reports -ENOMEM for a NULL stream.  The task's status: 0: `from` has ended, and all of it
 *          is written; else those of weir_stream_read_new and weir_stream_write_new.
 * Threads: any. */
WEIR_API weir_task *weir_pump_new(weir_stream *from, weir_stream *to, weir_task_fn *done, void *context);

/* How many bytes a pump has written.  0 for another task.
 *
 * Threads: inside the task's callback. */
WEIR_API uint64_t weir_pump_moved(const weir_task *pump);

WEIR_END

#endif
