/* proxy/forward/outgoing.h: the request as it goes on. */
#ifndef WEIR_PROXY_OUTGOING_H
#define WEIR_PROXY_OUTGOING_H

#include <stddef.h>

#include <weir/http_proxy.h>

/* -- target.c -- */

/* The URL that the request goes to.
 *
 * Owner:   the caller; free.  NULL and *failed otherwise: -EINVAL: `base` has no host, or a query; -EACCES: the path leads out of
 *          that of `base`; -ENOMEM. */
char *weir__target_url(const weir_task *exchange, const char *base, int *failed);

/* -- identity.c -- */

/* Writes the fields that name the client and the proxies.  `has_forwarded`: the request has some of them.  `via`: "" for none.
 * Result: 0; -ENOMEM. */
int weir__identity_add(weir_http_call *call, const weir_task *exchange, const struct weir_http_proxy_config *config,
                       bool has_forwarded, const char *via);

/* -- fields.c -- */

/* Copies the fields of the request that go on.  *has_forwarded: it has some that weir__identity_add writes.
 * Result: 0; -ENOMEM. */
int weir__fields_copy(weir_http_call *call, const weir_task *exchange, bool keep_host, bool *has_forwarded);

/* -- hops.c -- */

/* How many proxies the request may still pass; -1: it does not say. */
long long weir__hops_left(const weir_task *exchange);
int weir__hops_set(weir_http_call *call, long long left); /* result: 0; -ENOMEM */
int weir__hops_answer(weir_task *exchange);               /* it ends here; result: 0; -ENOMEM */

#endif
