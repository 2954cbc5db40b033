/* protocol/text/cookie_date.h: the dates of cookies, which come in all forms.  Pure functions. */
#ifndef WEIR_PROTOCOL_COOKIE_DATE_H
#define WEIR_PROTOCOL_COOKIE_DATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads a date as the Expires of a cookie has it.  It looks for a time, a day, a month and a year, in any order, and ignores what
 * else is there.
 *
 * Result: whether there is one, and if so *ret_seconds, in Unix seconds.
 * Source: RFC 6265 section 5.1.1. */
bool weir__cookie_date_read(const char *text, size_t size, int64_t *ret_seconds);

#endif
