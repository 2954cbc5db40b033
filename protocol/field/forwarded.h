/* protocol/field/forwarded.h: the client of a request that trusted proxies have passed on.  No I/O. */
#ifndef WEIR_PROTOCOL_FORWARDED_H
#define WEIR_PROTOCOL_FORWARDED_H

#include "protocol/field/peer.h"
#include "protocol/message/request.h"

struct weir__proxies; /* constant; NULL: none is trusted */

/* Reads a list of addresses, networks ("10.0.0.0/8", "fd00::/8") and "unix:" between commas.  `field` names the field in which
 * the proxies report the client; NULL: X-Forwarded-For.  Forwarded has the grammar of RFC 7239; every other field is a list of
 * addresses.
 *
 * Owner:  the caller; free.
 * Result: 0, and NULL for an empty list or none; -EINVAL for an invalid list, for a network with bits behind its prefix, or for a
 *         field name that is no token; -ENOMEM. */
int weir__proxies_new(const char *list, const char *field, struct weir__proxies **ret_proxies);

/* What weir__proxies_new has refused as invalid: sets *text and *size, a part of the list or the field.
 *
 * Result: what was expected instead; NULL: nothing is invalid. */
const char *weir__proxies_expected(const char *list, const char *field, const char **text, size_t *size);

const char *weir__proxies_field(const struct weir__proxies *proxies); /* the name of that field; NULL for NULL */

bool weir__proxies_have(const struct weir__proxies *proxies, const struct weir__peer *peer);

/* The client's address.  It begins with the peer.  As long as the address is a trusted proxy, the member before it in the field
 * replaces it. */
struct weir__peer weir__forwarded_client(const struct weir__proxies *proxies, const struct weir__request *request,
                                         const struct weir__peer *peer);

#endif
