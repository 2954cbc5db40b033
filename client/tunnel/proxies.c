/* client/tunnel/proxies.c: the proxies of a client.
 *
 * Threads: any.
 *
 * The environment is read once, when the client is made.  A server that runs CGI programs gives them the fields of requests as
 * variables: Proxy becomes HTTP_PROXY.  So names in upper case are not read, and http_proxy is not where REQUEST_METHOD says that
 * this is such a program.  Source: CVE-2016-5385 and those beside it ("httpoxy"). */
#include "client/tunnel/proxies.h"

#include <errno.h>
#include <stdlib.h>

#include "kernel/observe/log.h"

/* `what`: the text's name, for people. */
static int
read_proxy(struct weir__proxy **proxy, const char *text, const char *what, const char *call)
{
        struct weir__proxy_fault fault;

        if (!text || !text[0])
                return 0;
        int failed = weir__proxy_parse(text, proxy, &fault);
        if (failed == -EINVAL)
                weir__log_refusal("%s: %s, at byte %zu: %s; the whole is [http://|https://|socks5://][user:password@]host[:port]",
                                  call, what, fault.at, fault.text);
        return failed;
}

static int
read_bypass(struct weir__client_proxies *proxies, const char *text, const char *what, const char *call)
{
        const char *expected;
        size_t at;

        if (!text)
                return 0;
        int failed = weir__bypass_parse(&proxies->bypass, text, &at, &expected);
        if (failed == -EINVAL)
                weir__log_refusal("%s: %s, at byte %zu: %s", call, what, at, expected);
        return failed;
}

static int
read_environment(struct weir__client_proxies *proxies, const char *call)
{
        const char *plain = secure_getenv("REQUEST_METHOD") ? NULL : secure_getenv("http_proxy");
        int failed = read_proxy(&proxies->plain, plain, "the environment's http_proxy", call);

        if (!failed)
                failed = read_proxy(&proxies->secure, secure_getenv("https_proxy"), "the environment's https_proxy", call);
        if (!failed)
                failed = read_proxy(&proxies->all, secure_getenv("all_proxy"), "the environment's all_proxy", call);
        return failed;
}

int
weir__client_proxies_set(struct weir__client_proxies *proxies, const char *proxy, const char *no_proxy, bool from_environment,
                         const char *call)
{
        int failed = proxy              ? read_proxy(&proxies->all, proxy, "proxy", call)
                     : from_environment ? read_environment(proxies, call)
                                        : 0;

        if (failed || no_proxy)
                return failed ? failed : read_bypass(proxies, no_proxy, "no_proxy", call);
        return from_environment ? read_bypass(proxies, secure_getenv("no_proxy"), "the environment's no_proxy", call) : 0;
}

void
weir__client_proxies_done(struct weir__client_proxies *proxies)
{
        weir__proxy_free(proxies->plain);
        weir__proxy_free(proxies->secure);
        weir__proxy_free(proxies->all);
        weir__bypass_done(&proxies->bypass);
}

const struct weir__proxy *
weir__client_proxies_for(const struct weir__client_proxies *proxies, bool is_secure, const char *host)
{
        const struct weir__proxy *own = is_secure ? proxies->secure : proxies->plain, *proxy = own ? own : proxies->all;

        return proxy && !weir__bypass_has(&proxies->bypass, host) ? proxy : NULL;
}
