/* weir/stream.h: connections, pipes and terminals: tasks that connect, read and write.
 *
 *     static void
 *     echo(weir_stream *stream, weir_series *series, void *context)
 *     {
 *             weir_series_push(series, weir_stream_read_new(stream, 1, 4096, write_back, stream));
 *     }
 *
 *     static void
 *     write_back(weir_task *read, void *stream)
 *     {
 *             size_t size;
 *             const void *data = weir_stream_data(read, &size);
 *
 *             if (weir_task_status(read) != 0)
 *                     return;                                  the peer has gone: the series ends
 *             weir_series *series = weir_series_of(read);
 *             weir_series_push(series, weir_stream_write_new(stream, data, size, NULL, NULL));
 *             weir_series_push(series, weir_stream_read_new(stream, 1, 4096, write_back, stream));
 *     }
 *
 *     weir_stream_serve("127.0.0.1:7777", echo, NULL);
 *
 * A stream reads nothing ahead: what no task wants stays in the socket, and slows the peer down.  It
 * has no buffer while it waits. */
#ifndef WEIR_STREAM_H
#define WEIR_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <weir/series.h>
#include <weir/task.h>

WEIR_BEGIN

/* A connection of TCP, TLS or a Unix socket; or one end of a pipe; or a terminal. */
typedef struct weir_stream weir_stream;

/* -- a stream -- */

/* Makes a stream of a connected socket, a pipe or a terminal.  It becomes non-blocking, and stays so for
 * all that share it, such as the shell behind a terminal.  Two streams must not have one descriptor:
 * tasks of the second end with -EEXIST.
 *
 * Owner:   the caller has a reference to the stream.  The stream owns the descriptor, and closes it;
 *          after a failure it is the caller's still.
 * Result:  NULL with errno EBADF: it is not open; EPERM: it is a regular file or a directory (the
 *          tasks of weir/file.h read those); ENOMEM; ECHILD in a forked child.
 * Threads: any.  It works before the runtime has started. */
WEIR_API weir_stream *weir_stream_of(int fd);

/* Takes and drops a reference.  Tasks of a stream have their own.  Without a reference it is closed:
 * what was written still goes out.  Both accept NULL.
 *
 * Threads: any. */
WEIR_API weir_stream *weir_stream_ref(weir_stream *stream);
WEIR_API void weir_stream_unref(weir_stream *stream);

/* Breaks the stream at once, also one that no task has used.  A connection of TCP is reset, so the
 * peer does not take what it has for the whole.  Tasks that wait, and later ones, end with
 * -ECONNABORTED.  A stream that has failed before keeps its error.  The caller keeps its reference.
 * Accepts NULL.
 *
 * Threads: any.  Never blocks. */
WEIR_API void weir_stream_break(weir_stream *stream);

/* Writes the address of the peer, or the own one, in the form that weir_connect_new reads, as
 * snprintf does.
 *
 * Result:  the size of the text without its NUL; -ENOTCONN: the stream is broken, or has no
 *          addresses; -ENOMEM for NULL.
 * Threads: any. */
WEIR_API int weir_stream_peer(weir_stream *stream, char *out, size_t room);
WEIR_API int weir_stream_local(weir_stream *stream, char *out, size_t room);

/* -- connect -- */

/* Makes a task that connects to an address:
 *
 *   "host:port", "[v6]:port"         TCP; the addresses of a name are tried side by side (docs/names.md)
 *   "unix:path", "unix:@abstract"    a Unix socket
 *   "tls:host:port"                  TCP with TLS; the certificate must have the name of the host, and
 *                                    the system's roots must stand behind it (weir/tls.h has more)
 *
 * It has no time limit of its own but that of the system, which is minutes: give its series a
 * deadline, or put it into weir_timeout_new.
 *
 * Owner:   the caller, until the task is consumed.  The address is copied.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's start, run or push
 *          reports -EINVAL for an address of another form, -ENAMETOOLONG for one that is too long.
 *          The task's status: 0: it is connected; -ENOENT: the name is not known, or there is no such
 *          Unix socket; -EIO: the servers of names answer with an error; -EAGAIN: they do not answer;
 *          -EINVAL: it is no name of a host;
 *          -EADDRNOTAVAIL: there is no free port; -ECONNREFUSED, -EHOSTUNREACH, -ENETUNREACH,
 *          -ETIMEDOUT and others of connect(2), those of the last attempt; with TLS also those of
 *          weir_connect_tls_new; -EMFILE, -ENFILE, -ENOMEM; -ECANCELED, -ETIMEDOUT or -ESHUTDOWN if
 *          its series ended before.
 * Threads: any. */
WEIR_API weir_task *weir_connect_new(const char *address, weir_task_fn *done, void *context);

/* The stream of a connect whose status is 0.
 *
 * Owner:   the caller has the reference.
 * Result:  NULL for another task or status, or when it was taken already.
 * Threads: inside the task's callback. */
WEIR_API weir_stream *weir_connect_take_stream(weir_task *connect);

/* Why a connect has failed, for people: "connect to example.org:443 (192.0.2.1): Connection refused";
 * for a name what weir_resolve_problem says; for a certificate its names and dates.
 *
 * Owner:   the task.
 * Result:  NULL for another task, and if it has not failed.
 * Threads: inside the task's callback. */
WEIR_API const char *weir_connect_problem(const weir_task *connect);

/* -- read -- */

/* Makes a task that reads at least `least` bytes, and at most `most`.  It ends as soon as there are
 * `least`.  Tasks that read one stream do so in the order of their starts.
 *
 * A cancel before the callback is decisive: the callback sees -ECANCELED, and what had come is there
 * for the next read.  If another read of the stream has gone on meanwhile, that cannot be: the stream
 * is broken then.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's start, run or push
 *          reports -EINVAL if `least` is 0, above `most` or 4 GiB, -ENOMEM for a NULL stream.  The task's
 *          status: 0: weir_stream_data has the bytes; -EPIPE: the stream has ended before there were
 *          `least`, and weir_stream_data has those that came; -ECONNRESET and other errors of
 *          recv(2); -ECONNABORTED: the stream was broken on this side, or TLS ended without its
 *          close_notify; WEIR_ETLS_REFUSED (weir_connect_tls_new); -EBUSY: TLS is being started on it;
 *          -EPERM: the system cannot wait for such a descriptor; -ENOMEM; -ECANCELED, -ETIMEDOUT or
 *          -ESHUTDOWN if its series ended before.
 * Threads: any. */
WEIR_API weir_task *weir_stream_read_new(weir_stream *stream, size_t least, size_t most, weir_task_fn *done, void *context);

/* The same, up to and with the first `delimiter`, which has 1 to 255 bytes.  If there is none within
 * `most` bytes the status is -EMSGSIZE, and the bytes are there for the next read.
 *
 * Owner:   the caller, until the task is consumed.  The delimiter is copied.
 * Result:  as weir_stream_read_new; -EINVAL also for a NULL, empty or too long delimiter, or if
 *          `most` is less than its size.
 * Threads: any. */
WEIR_API weir_task *weir_stream_read_until_new(weir_stream *stream, const void *delimiter, size_t size, size_t most,
                                               weir_task_fn *done, void *context);

/* The bytes of a read, followed by a NUL that is not counted.  `size` may be NULL.
 *
 * Owner:   the task.
 * Result:  "" and 0 bytes if it has none; NULL for another task.
 * Threads: inside the task's callback. */
WEIR_API const void *weir_stream_data(const weir_task *read, size_t *size);

/* -- write -- */

/* Makes a task that writes all of the bytes.  Tasks that write one stream do so in the order of their
 * starts.
 *
 * The task ends when the system has the bytes.  If the peer does not read, that waits: so a program
 * that writes its next piece behind the former one never has more in memory than that.
 *
 * A cancel takes back a write of which nothing is out.  If a part is out nothing can follow it, and
 * the stream is broken.  If all of it is out already, the callback still sees -ECANCELED.
 *
 * Owner:   the caller, until the task is consumed.  The bytes are copied.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's start, run or push
 *          reports -EINVAL for NULL data with a size, -ENOMEM for a NULL stream.  The task's status:
 *          0; -EPIPE: the peer reads no more, or weir_stream_finish_new has ended the writing;
 *          -ECONNRESET and other errors of send(2); -ECONNABORTED: the stream was broken on this
 *          side; -EPERM as for a read; -ECANCELED, -ETIMEDOUT or -ESHUTDOWN if its series ended
 *          before.
 * Threads: any. */
WEIR_API weir_task *weir_stream_write_new(weir_stream *stream, const void *data, size_t size, weir_task_fn *done, void *context);

/* The same with the bytes of several pieces, one behind the other.
 *
 * Owner:   the caller, until the task is consumed.  The bytes are copied.
 * Result:  as weir_stream_write_new.
 * Threads: any. */
WEIR_API weir_task *weir_stream_write_pieces_new(weir_stream *stream, const struct iovec *pieces, size_t count,
                                                 weir_task_fn *done, void *context);

/* The same without a copy: the bytes must stay as they are until the callback.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  as weir_stream_write_new.
 * Threads: any. */
WEIR_API weir_task *weir_stream_write_lent_new(weir_stream *stream, const void *data, size_t size, weir_task_fn *done,
                                               void *context);

/* The same with `size` bytes of a file from `offset` on; UINT64_MAX: all up to its present end.  The
 * system copies them, if it can (sendfile(2)).  The file's position does not change.  If the bytes
 * are not in memory, the worker waits for the disk.
 *
 * Owner:   the caller, until the task is consumed.  The descriptor must stay open until the callback.
 * Result:  as weir_stream_write_new; -EINVAL also for a descriptor that is not open, and for UINT64_MAX
 *          with what is no regular file.  The task's status also: -EBADF, -EIO and others of sendfile(2);
 *          -ENODATA: the file ended before `size` bytes, which breaks the stream.
 * Threads: any. */
WEIR_API weir_task *weir_stream_write_file_new(weir_stream *stream, int file, uint64_t offset, uint64_t size, weir_task_fn *done,
                                               void *context);

/* Makes a task that ends the writing, behind the writes that were started before: the peer sees the
 * end of the stream.  Reading goes on.  Later writes end with -EPIPE, and so does a second
 * finish.  The writing end of a pipe is closed by it.
 *
 * With TLS it sends a close_notify, and waits until the system has taken that.  A cancel while the
 * close_notify waits for room breaks the stream.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  as weir_stream_write_new.
 * Threads: any. */
WEIR_API weir_task *weir_stream_finish_new(weir_stream *stream, weir_task_fn *done, void *context);

/* -- in a fiber (weir/fiber.h) -- */

/* Connects, and waits until that is done.
 *
 * Owner:   the caller has the reference to the stream; NULL if the result is not 0.
 * Result:  as the start and the status of weir_connect_new, and as weir_await.
 * Threads: as weir_await: a fiber, or a thread of the program, which waits. */
WEIR_API int weir_fiber_connect(const char *address, weir_stream **stream);

/* Reads, as read(2) does: waits for the first byte, and takes what is there, up to `size` bytes.  The
 * second function waits for all of them.
 *
 * When the fiber ends early, what had come is there for the next read, as weir_stream_read_new says.
 *
 * Owner:   the memory is borrowed during the call.
 * Result:  how many bytes were read: 0 at the end of the stream; for weir_fiber_read_full fewer than
 *          `size` if the stream has ended before; -EINVAL also for NULL.  Otherwise as the start and
 *          the status of weir_stream_read_new, and as weir_await, but for -EPIPE.
 * Threads: as weir_fiber_connect.
 * Units:   bytes, 1 to 4 GiB. */
WEIR_API ssize_t weir_fiber_read(weir_stream *stream, void *memory, size_t size);
WEIR_API ssize_t weir_fiber_read_full(weir_stream *stream, void *memory, size_t size);

/* Writes all of the bytes, and waits until the system has them.
 *
 * Owner:   the bytes are borrowed during the call, and not copied.
 * Result:  0; as the start and the status of weir_stream_write_new, and as weir_await.
 * Threads: as weir_fiber_connect.
 * Units:   bytes. */
WEIR_API int weir_fiber_write(weir_stream *stream, const void *data, size_t size);

/* How many bytes of writes have started and not ended.  0 for NULL.
 *
 * Threads: any. */
WEIR_API size_t weir_stream_unsent(const weir_stream *stream);

WEIR_END

#endif
