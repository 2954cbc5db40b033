/* weir/http_file.h: replies that are files. */
#ifndef WEIR_HTTP_FILE_H
#define WEIR_HTTP_FILE_H

#include <weir/http.h>

WEIR_BEGIN

/* Makes the reply the file at `path`, which is percent-decoded, as weir_http_path gives it, beneath the directory `root`.
 * Slashes it begins with are skipped.  A path that is empty or ends in a slash names the index.html in that directory.
 *
 * Nothing outside of `root` can be named: a path with a component ".." names nothing, and a symbolic link that leads out, or that
 * is absolute, is as if it were not there.  Links within `root` are followed; before Linux 5.6, or where a sandbox forbids
 * openat2, none are.  `root` itself may be one.
 *
 * The reply is complete whatever the result is, and so the result may be ignored: what was put into its body before is gone,
 * its fields stay, of which Content-Type, when it was set, is that of the file.  It also gets ETag, Accept-Ranges, and, once the
 * second in which the file was modified is over, Last-Modified.  Conditions and one range of bytes are heeded.
 *
 * What the handler does to the reply afterwards counts, whatever the request has asked for.  A field that it sets itself stands in
 * the place of the file's.  Another call of this, weir_http_reply_text, weir_http_reply_upgrade, and a task that writes, take back
 * all that this call has said, with the file: also its status, so that it is 200 unless the handler has said one since.  Another
 * status makes the file the body, whole, and takes back what does not go with it: ETag, Last-Modified, Accept-Ranges,
 * Content-Range; one of 400 or more in place of an error makes that the error.  Nothing can be appended to a file, also when it is
 * a 304, 412 or 416.
 *
 * Result:  0: 200, 206, 304, 412 or 416, as the request asks;
 *          -EALREADY when the reply has begun;
 *          -ENOENT (404): there is nothing of that name beneath `root`;
 *          -EACCES (403): it may not be read;
 *          -EISDIR: a directory, but the path does not end in a slash: 301 to the same target with one, if `path` is what the
 *          path of the request ends in; else 404;
 *          -EINVAL (403): neither a file nor a directory; (500): a NULL argument;
 *          -EOPNOTSUPP (405, with Allow): the method is neither GET nor HEAD; then nothing was looked at;
 *          -EMFILE, -ENFILE, -EAGAIN (503): no descriptor, or the file is being given away (fcntl(2), leases);
 *          -ENOMEM (500); -EIO and what else the file system reports (500);
 *          -EDOM, and nothing has changed: the task is no exchange.
 * Threads: inside callbacks of the exchange's series.  It may block for as long as the file system does.
 * Source:  RFC 9110 sections 8.8, 13 and 14. */
WEIR_API int weir_http_reply_file(weir_task *exchange, const char *root, const char *path);

WEIR_END

#endif
