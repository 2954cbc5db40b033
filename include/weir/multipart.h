/* weir/multipart.h: bodies of multipart/form-data, as a browser sends forms with files.
 *
 *     weir_multipart *form = weir_multipart_new();
 *
 *     weir_multipart_add(form, "title", "Holidays");
 *     weir_multipart_add_file(form, "photo", "/home/ann/beach.jpg", NULL, NULL);
 *     weir_multipart_type(form);                               for the field Content-Type
 *     char *body = weir_multipart_encode(form, &size);         in one piece, or
 *     weir_multipart_read(form, buffer, sizeof buffer);        piece by piece, with nothing of a file in memory
 *
 * All functions for adding accept a NULL form with -EINVAL, so that only the last result has to be looked at
 * if memory may run out.
 *
 * Threads: a form belongs to one thread at a time.
 * Source:  RFC 7578; WHATWG HTML standard, section "multipart form data", for names. */
#ifndef WEIR_MULTIPART_H
#define WEIR_MULTIPART_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <weir/export.h>

WEIR_BEGIN

/* A form that becomes a body. */
typedef struct weir_multipart weir_multipart;

/* Makes an empty form.  Its boundary has 144 random bits, so no content has it by chance.
 *
 * Owner:   the caller; weir_multipart_free.
 * Result:  NULL with errno ENOMEM, or ENOSYS if the system has no random bytes. */
WEIR_API weir_multipart *weir_multipart_new(void);

/* Frees a form, and closes its files.  Accepts NULL. */
WEIR_API void weir_multipart_free(weir_multipart *form);

/* -- parts, in the order in which they are added -- */

/* Adds a field.  In a name '"', CR and LF become %22, %0D and %0A, and a line break is CR LF, as browsers
 * do it.  The value stays as it is.
 *
 * Owner:   both are copied.
 * Result:  0; -EINVAL for a NULL; -EBUSY once it is read, until weir_multipart_rewind; -EFBIG: the body
 *          would have more than INT64_MAX bytes; -ENOMEM. */
WEIR_API int weir_multipart_add(weir_multipart *form, const char *name, const char *value);

/* Adds `size` bytes as a file, or as a field if `filename` is NULL.  In a filename the same bytes are
 * encoded.  A NULL `content_type` is application/octet-stream for a file, and none for a field.
 *
 * Owner:   all is copied.
 * Result:  as for weir_multipart_add; -EINVAL also for a type that is empty or has a control character. */
WEIR_API int weir_multipart_add_data(weir_multipart *form, const char *name, const char *filename, const char *content_type,
                                     const void *data, size_t size);

/* Adds a file of the disk.  It is opened now, and read when the body is.  A NULL `filename` is the last
 * part of the path.  A NULL `content_type` is chosen by the extension of the path.
 *
 * Owner:   texts are copied.
 * Result:  as for weir_multipart_add_data; -EINVAL also if it is not a regular file; an error of open(2),
 *          as -ENOENT or -EACCES.
 * Units:   the size is the present one: what is appended later is not sent.
 * Threads: it waits for the disk, to open the file. */
WEIR_API int weir_multipart_add_file(weir_multipart *form, const char *name, const char *path, const char *filename,
                                     const char *content_type);

/* Adds `size` bytes of an open file from `offset` on, as weir_multipart_add_data.  They are read by
 * pread(2): the descriptor's own offset is neither used nor changed.
 *
 * Owner:   the descriptor is the caller's, and must be open until the form is freed.
 * Result:  as for weir_multipart_add_data; -EINVAL also for a negative number. */
WEIR_API int weir_multipart_add_fd(weir_multipart *form, const char *name, const char *filename, const char *content_type,
                                   int fd, int64_t offset, int64_t size);

/* -- the body -- */

/* The value of Content-Type, with the boundary.
 *
 * Owner:   borrowed until weir_multipart_free.
 * Result:  NULL for NULL. */
WEIR_API const char *weir_multipart_type(const weir_multipart *form);

/* The length of the body, in bytes, for Content-Length; 0 for NULL. */
WEIR_API int64_t weir_multipart_size(const weir_multipart *form);

/* Reads the next bytes of the body.
 *
 * Result:  how many: `room`, unless the body or what can be read ends; 0 behind the end; -EINVAL for a
 *          NULL form; -ENODATA: a file has become shorter; an error of pread(2), as -EIO.  The next call
 *          tries again.
 * Threads: it waits for the disk if a file is next: call it on the executor (weir/go.h), or with small
 *          pieces. */
WEIR_API ssize_t weir_multipart_read(weir_multipart *form, void *out, size_t room);

/* Has the next read begin at the first byte, for a request that is sent again.  Accepts NULL. */
WEIR_API void weir_multipart_rewind(weir_multipart *form);

/* The whole body in memory, with a NUL behind it that is not counted.  Neither uses nor changes the place
 * of weir_multipart_read.
 *
 * Owner:   the caller; free.
 * Result:  NULL with errno EINVAL for a NULL form, ENOMEM, or as weir_multipart_read.  *ret_size is
 *          untouched then.
 * Threads: as for weir_multipart_read. */
WEIR_API char *weir_multipart_encode(const weir_multipart *form, size_t *ret_size);

WEIR_END

#endif
