/* client/draft/words.c: what has gone wrong, in words.
 *
 * Threads: any. */
#include "client/draft/words.h"

#include <errno.h>
#include <stdio.h>

#include <weir/runtime.h>

static const char *
words_of_time(uint8_t stage)
{
        static const char *const words[] = {
                "too late while it waited for a connection",
                "too late while the name was looked up",
                "too late while the connection was made",
                "too late while the proxy opened the way",
                "too late in the handshake of TLS",
                "too late: the server took nothing more of the request",
                "too late: the head of the response did not come",
                "too late: the body of the response stopped coming",
                "too late",
        };

        _Static_assert(sizeof words / sizeof *words == WEIR_HTTP_COMPLETE + 1, "each stage has one");
        return words[stage];
}

static const char *
words_of_fault(const struct weir__http_call *call)
{
        switch ((enum weir__http_fault)call->fault) {
        case WEIR__FAULT_LINE: return "what came is no valid HTTP/1 response: its first line is no status line";
        case WEIR__FAULT_FIELD: return "what came is no valid HTTP/1 response: one of its fields is wrong";
        case WEIR__FAULT_MEANING: return "what came is no valid HTTP/1 response: its status is wrong, or the length of its body";
        case WEIR__FAULT_UPGRADE: return "what came is no valid HTTP/1 response: it changes to a protocol that was not asked for";
        case WEIR__FAULT_CHUNK: return "what came is no valid HTTP/1 response: a chunk of its body is wrong";
        case WEIR__FAULT_NONE: break;
        }
        return "the coding of the body is damaged";
}

static const char *
words_of(const struct weir__http_call *call, int status)
{
        switch (status) {
        case -ETIMEDOUT: return words_of_time(call->stage);
        case -ECONNRESET: return "the server has closed the connection without a response";
        case -ECONNABORTED: return "the server has closed the connection in the middle of the response";
        case -EBADMSG: return words_of_fault(call);
        case -EMSGSIZE: return call->received ? "the body is larger than the limit" : "the head is larger than the limit";
        case -E2BIG: return "the body without its coding is larger than the limit";
        case -ENOTSUP: return "the body has a coding that is not known, or too many";
        case -ELOOP: return "more redirects than allowed";
        case -ENOLINK: return "a redirect without a valid Location";
        case -EBUSY:
        case -EREMOTEIO: return "the response is an error";
        case -EACCES: return "a redirect from https to http";
        default: return weir_strerror(status);
        }
}

char *
weir__client_words(const struct weir__draft *draft, const struct weir__http_call *call, int status, const char *problem)
{
        char *text;

        if (!draft->url)
                return NULL;
        if (asprintf(&text, "%s %s://%s%s: %s", draft->method, weir_url_scheme(draft->url), weir_url_host_field(draft->url),
                     weir_url_path(draft->url), problem ? problem : words_of(call, status)) < 0)
                return NULL;
        return text;
}
