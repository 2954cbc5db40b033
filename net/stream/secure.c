/* net/stream/secure.c: settings of TLS, and what streams do with them.
 *
 * Threads: any.
 * Locks:   `making`, a leaf, guards which settings are the default ones.  Files are read without it: of two threads that read
 *          them at once, the first to end wins. */
#include "net/stream/secure.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "factory/sync/waitable.h"
#include "kernel/base/lock.h"
#include "kernel/observe/log.h"
#include "net/stream/stream.h"

static struct weir__lock making = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF);
static struct weir_tls *by_default; /* guarded by making; kept for ever */

/* Returns what contradicts itself in the config; or NULL. */
static const char *
fault_of(const struct weir_tls_config *config, bool is_client)
{
        if (config->size != sizeof *config)
                return "expected WEIR_TLS_CONFIG_DEFAULT as the initializer";
        if (config->min_version && strcmp(config->min_version, "1.2") != 0 && strcmp(config->min_version, "1.3") != 0)
                return "expected \"1.2\" or \"1.3\" as min_version";
        if (!config->certificate_file != !config->private_key_file)
                return "expected certificate_file and private_key_file together";
        if (!is_client && !config->certificate_file)
                return "expected a certificate_file: a server has a certificate";
        if (!is_client && config->insecure)
                return "expected `insecure` for a client only: a server without ca_file asks for no certificate";
        if (!is_client && config->pins)
                return "expected `pins` for a client only";
        return is_client && config->insecure && config->ca_file ? "expected ca_file or `insecure`, not both" : NULL;
}

static int
make_context(struct weir_tls *tls, const struct weir_tls_config *config)
{
        bool is_1_3 = config->min_version && strcmp(config->min_version, "1.3") == 0;
        struct weir__tls_pair pair = {(char *)config->certificate_file, (char *)config->private_key_file};
        const struct weir__tls_client_config client = {.pair = config->certificate_file ? &pair : NULL,
                                                       .ca_file = config->ca_file,
                                                       .protocols = config->protocols,
                                                       .pins = config->pins,
                                                       .groups = config->groups,
                                                       .is_1_3 = is_1_3,
                                                       .is_insecure = config->insecure};
        const struct weir__tls_server_config server = {.pairs = &pair,
                                                       .pair_count = 1,
                                                       .client_ca_file = config->ca_file,
                                                       .groups = config->groups,
                                                       .is_1_3 = is_1_3,
                                                       .protocols = config->protocols,
                                                       .check = config->ca_file ? WEIR__TLS_CHECK_REQUIRE : WEIR__TLS_CHECK_NONE};

        return tls->is_client ? weir__tls_context_new_client(&tls->context, &client)
                              : weir__tls_context_new_server(&tls->context, &server, NULL);
}

static weir_tls *
new_tls(const struct weir_tls_config *config, bool is_client, const char *call)
{
        static const struct weir_tls_config usual = WEIR_TLS_CONFIG_DEFAULT;
        struct weir_tls *tls = calloc(1, sizeof *tls);

        if (!tls)
                return NULL;
        config = config ? config : &usual;
        const char *fault = fault_of(config, is_client);
        atomic_init(&tls->references, 1);
        tls->is_client = is_client;
        tls->is_unchecked = config->insecure && !config->pins;
        tls->fault = fault ? weir__log_refusal("%s: %s", call, fault) : make_context(tls, config);
        return tls;
}

weir_tls *
weir_tls_client_new(const struct weir_tls_config *config)
{
        return new_tls(config, true, "weir_tls_client_new");
}

weir_tls *
weir_tls_server_new(const struct weir_tls_config *config)
{
        return new_tls(config, false, "weir_tls_server_new");
}

weir_tls *
weir_tls_ref(weir_tls *tls)
{
        if (tls)
                atomic_fetch_add_explicit(&tls->references, 1, memory_order_relaxed);
        return tls;
}

void
weir_tls_unref(weir_tls *tls)
{
        if (!tls)
                return;
        weir__memory_expect(tls);
        uint32_t references = atomic_fetch_sub_explicit(&tls->references, 1, memory_order_acq_rel);
        if (references == 0)
                weir__panic("weir_tls_unref: no reference is left: it was called once too often");
        if (references > 1)
                return;
        weir__tls_context_unref(tls->context);
        free(tls);
}

/* They are used for a connection to that host. */
static void
note_use(struct weir_tls *tls, const char *host)
{
        if (tls->is_unchecked && !atomic_exchange_explicit(&tls->has_warned, true, memory_order_relaxed))
                weir__log(WEIR_LOG_WARNING,
                          "TLS: \"%s\": its certificate is not checked, because the settings are `insecure`: anybody can be that "
                          "host, and read and change all",
                          host);
}

int
weir__stream_secure(struct weir_stream *stream, struct weir_tls *tls, const char *name, const char *address)
{
        struct weir__stream *own = &stream->transport.stream;
        struct weir__tls *made;
        char peer[WEIR__ADDRESS_TEXT];

        if (tls->fault)
                return tls->fault;
        if (!tls->is_client) {
                own->tls = weir__tls_new(tls->context, own->source.fd);
                return own->tls ? 0 : -ENOMEM;
        }
        int failed = weir__tls_new_client(&made, tls->context, own->source.fd, name);
        if (failed)
                return failed;
        if (own->tls)
                weir__tls_run_within(made, own->tls);
        weir__lock(&stream->lock);
        stream->is_secured = false;
        own->tls = made;
        weir__unlock(&stream->lock);
        note_use(tls, name);
        if (!address)
                weir__stream_describe(stream, peer, sizeof peer);
        weir__tls_resume(own->tls, name, address ? address : peer);
        return 0;
}

/* -- what a handshake has come to -- */

static int
take_peer(const struct weir__tls *tls, void *certificate)
{
        struct x509_st *peer = weir__tls_kept_peer(tls);

        *(struct x509_st **)certificate = peer;
        return peer ? 0 : -ENODATA;
}

int
weir_stream_peer_certificate(weir_stream *stream, char *out, size_t room)
{
        struct x509_st *certificate;

        if (!stream)
                return -ENOMEM;
        weir__memory_expect(stream);
        int failed = weir__stream_ask_tls(stream, take_peer, &certificate);
        if (failed)
                return failed;
        char *subject = weir__tls_subject(certificate);
        int size = subject ? snprintf(out, room, "%s", subject) : -ENOMEM;
        free(subject);
        return size;
}

struct text {
        char *out;
        size_t room;
};

static int
take_protocol(const struct weir__tls *tls, void *context)
{
        const struct text *text = context;
        size_t size;
        const char *protocol = weir__tls_protocol(tls, &size);

        return size ? snprintf(text->out, text->room, "%.*s", (int)size, protocol) : -ENODATA;
}

int
weir_stream_protocol(weir_stream *stream, char *out, size_t room)
{
        if (!stream)
                return -ENOMEM;
        weir__memory_expect(stream);
        return weir__stream_ask_tls(stream, take_protocol, &(struct text){out, room});
}

static int
take_resumed(const struct weir__tls *tls, void *nothing)
{
        (void)nothing;
        return weir__tls_is_resumed(tls);
}

bool
weir_stream_is_resumed(weir_stream *stream)
{
        if (!stream)
                return false;
        weir__memory_expect(stream);
        return weir__stream_ask_tls(stream, take_resumed, NULL) == 1;
}

/* -- the default settings -- */

struct weir_tls *
weir__tls_default_now(void)
{
        weir__lock(&making);
        struct weir_tls *tls = weir_tls_ref(by_default);
        weir__unlock(&making);
        return tls;
}

struct weir_tls *
weir__tls_default(void)
{
        struct weir_tls *tls = weir__tls_default_now(), *made = tls ? NULL : weir_tls_client_new(NULL);

        if (!made || made->fault) /* another try may find roots that are installed later */
                return tls ? tls : made;
        weir__lock(&making);
        if (!by_default)
                by_default = weir_tls_ref(made);
        tls = weir_tls_ref(by_default);
        weir__unlock(&making);
        weir_tls_unref(made);
        return tls;
}
