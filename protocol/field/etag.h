/* protocol/field/etag.h: entity tags: made from the metadata of a file, and looked up in the lists of a request.  Pure functions.
 *
 * Source: RFC 9110 section 8.8.3. */
#ifndef WEIR_PROTOCOL_ETAG_H
#define WEIR_PROTOCOL_ETAG_H

#include <stdbool.h>
#include <stdint.h>

#define WEIR__ETAG_SIZE 53 /* quotes, three numbers of 16 digits with two dashes between, NUL */

/* Writes the tag of a file: when it was last modified, in nanoseconds, its size and its inode, in hexadecimal.
 *
 * The tag is strong, as ranges and If-Match need.  A write changes the time.  A file that replaces another one has another inode.
 * The tag does not change when a program writes as many bytes twice within one tick of the kernel's clock, or puts the time back.
 * The same file on another file system has another tag. */
void weir__etag_make(char out[WEIR__ETAG_SIZE], int64_t modified, uint64_t size, uint64_t inode);

/* Whether the tag, a strong one, is in a list of tags between commas.  A weak tag of the list is equal only in the weak
 * comparison (`is_weak`).  Reading ends at the first invalid tag of the list. */
bool weir__etag_is_in(const char *list, const char *tag, bool is_weak);

#endif
