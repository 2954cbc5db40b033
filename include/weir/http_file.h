/* weir/http_file.h: replies that are files. */
#ifndef WEIR_HTTP_FILE_H
#define WEIR_HTTP_FILE_H

#include <weir/http.h>

WEIR_BEGIN

/* Makes the reply the file at `path` below the directory `root`.  `path` is percent-decoded, as
 * weir_http_path returns it.  Slashes at its beginning are skipped.  A path that is empty or ends
 * in a slash names the index.html in that directory.
 *
 * Nothing outside of `root` can be named.  A path with a component ".." names nothing.  A symbolic
 * link that is absolute, or leads outside, is treated as missing.  Links within `root` are
 * followed; before Linux 5.6, or where a sandbox forbids openat2, no links are followed.  `root`
 * itself may be a link.
 *
 * The reply is complete whatever the result is, so the result may be ignored.  A body that was
 * built before is gone.  Fields stay; a Content-Type that was set is that of the file.  The reply
 * also gets ETag, Accept-Ranges and, once the second in which the file was modified is over,
 * Last-Modified.  Conditional requests and requests for one range of bytes are answered.
 *
 * Later calls of the handler override the file:
 *
 * - A field that it sets replaces that of the file.
 * - Another call of this function, weir_http_reply_text, weir_http_reply_upgrade and a task that
 *   writes undo everything that this call has set: the file and also its status, which is 200 then
 *   unless the handler has set one since.
 * - Another status makes the whole file the body and removes ETag, Last-Modified, Accept-Ranges and
 *   Content-Range.  If this call made an error, a status of 400 or more replaces the status of that
 *   error.
 * - Nothing can be appended to a file, also when it is a 304, 412 or 416.
 *
 * Result:  0: the reply is 200, 206, 304, 412 or 416, as the request asks.  Otherwise, with the
 *          status of the reply:
 *          -EALREADY when the reply has begun;
 *          -ENOENT (404): there is nothing of that name below `root`;
 *          -EACCES (403): it may not be read;
 *          -EISDIR: a directory, but the path does not end in a slash.  The reply is 301 to the
 *            same target with a slash, if the path of the request ends in `path`; otherwise 404;
 *          -EINVAL (403): neither a file nor a directory; (500): a NULL argument;
 *          -EOPNOTSUPP (405, with Allow): the method is neither GET nor HEAD; no file was looked
 *            at;
 *          -EMFILE, -ENFILE, -EAGAIN (503): no descriptor, or the file is under a lease (fcntl(2));
 *          -ENOMEM (500); -EIO and other errors of the file system (500);
 *          -EDOM: the task is no exchange, and nothing has changed.
 * Threads: inside callbacks of the exchange's series.  May block as long as the file system does.
 * Source:  RFC 9110 sections 8.8, 13 and 14. */
WEIR_API int weir_http_reply_file(weir_task *exchange, const char *root, const char *path);

WEIR_END

#endif
