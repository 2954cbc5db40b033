/* protocol/route/form.h: percent-coding and forms, as the builder of URLs needs them.  Pure functions. */
#ifndef WEIR_PROTOCOL_FORM_H
#define WEIR_PROTOCOL_FORM_H

#include <weir/url.h>

/* Writes pairs as application/x-www-form-urlencoded, and a NUL.  Without an output it only counts.
 *
 * Result: the length without the NUL; SIZE_MAX for more than memory can have. */
size_t weir__form_write(char *out, const struct weir_form_pair *pairs);

#endif
