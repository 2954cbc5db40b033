/* server/operate/config.c: the configuration of a server, with its defaults. */
#include "server/operate/operate.h"

#include <errno.h>

#include "kernel/observe/log.h"
#include "kernel/runtime/config.h"
#include "protocol/message/gate.h"
#include "protocol/coding/gzip.h"

#define MAX_REQUEST_HEAD ((size_t)32 * 1024) /* bytes */
#define MAX_LINE         ((size_t)8 * 1024)  /* bytes */
#define MAX_FIELDS       256
#define MAX_PAIRS        1000                  /* of a query, a form or cookies */
#define MAX_REQUEST_BODY ((size_t)1024 * 1024) /* bytes */
#define HEAD_TIMEOUT     WEIR_SEC(10)
#define BODY_TIMEOUT     WEIR_SEC(30)
#define IDLE_TIMEOUT     WEIR_SEC(60)
#define WRITE_TIMEOUT    WEIR_SEC(60)
#define HANDSHAKE        WEIR_SEC(10)
#define STOP_WITHIN      WEIR_SEC(30)

#define COMPRESS_LEAST 1024 /* bytes of a body */

/* Says what was expected.  Result: -EINVAL. */
static int
refuse(const char *expected)
{
        weir__log(WEIR_LOG_ERROR, "weir_http_server_new: %s", expected);
        return -EINVAL;
}

int
weir__server_config_proxies(const struct weir_http_server_config *config, struct weir__proxies **ret_proxies)
{
        int failed = weir__proxies_new(config->trusted_proxies, config->forwarded_field, ret_proxies);
        const char *expected = NULL, *text;
        size_t size;

        if (failed == -EINVAL)
                expected = weir__proxies_expected(config->trusted_proxies, config->forwarded_field, &text, &size);
        if (expected)
                weir__log(WEIR_LOG_ERROR, "weir_http_server_new: %s: \"%.*s\": expected %s",
                          text == config->forwarded_field ? "forwarded_field" : "trusted_proxies", size < 100 ? (int)size : 100,
                          text, expected);
        return failed;
}

int
weir__server_config_read(struct weir_http_server_config *to, const struct weir_http_server_config *from)
{
        *to = (struct weir_http_server_config)WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        int failed = from ? weir__config_read(to, sizeof *to, from) : 0;
        if (failed)
                return refuse(WEIR__CONFIG_EXPECTED("weir_http_server_config", "WEIR_HTTP_SERVER_CONFIG_DEFAULT"));
        const struct {
                size_t *field, value;
        } sizes[] = {
                {&to->max_connections, SIZE_MAX},  {&to->max_connections_per_address, SIZE_MAX},
                {&to->max_head, MAX_REQUEST_HEAD}, {&to->max_body, MAX_REQUEST_BODY},
                {&to->max_line, MAX_LINE},         {&to->max_fields, MAX_FIELDS},
                {&to->max_pairs, MAX_PAIRS},
        };
        const struct {
                weir_nsec *field, value;
                const char *expected;
        } times[] = {
                {&to->head_timeout, HEAD_TIMEOUT, "head_timeout: expected 0 or more"},
                {&to->body_timeout, BODY_TIMEOUT, "body_timeout: expected 0 or more"},
                {&to->idle_timeout, IDLE_TIMEOUT, "idle_timeout: expected 0 or more"},
                {&to->write_timeout, WRITE_TIMEOUT, "write_timeout: expected 0 or more"},
                {&to->handshake_timeout, HANDSHAKE, "handshake_timeout: expected 0 or more"},
                {&to->shed_lateness, WEIR_FOREVER, "shed_lateness: expected 0 or more"},
                {&to->stop_within, STOP_WITHIN, "stop_within: expected 0 or more"},
        };
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
                *sizes[i].field = *sizes[i].field ? *sizes[i].field : sizes[i].value;
        for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
                *times[i].field = *times[i].field ? *times[i].field : times[i].value;
                if (*times[i].field < 0)
                        failed = refuse(times[i].expected);
        }
        to->max_head = to->max_head == SIZE_MAX ? WEIR__HEAD_MAX : to->max_head;
        to->compress_least = to->compress_least ? to->compress_least : COMPRESS_LEAST;
        if (to->max_head > WEIR__HEAD_MAX)
                failed = refuse("max_head: expected 16 MiB at most, or SIZE_MAX");
        if (to->compress < 0 || to->compress > WEIR__GZIP_LEVEL_MAX)
                failed = refuse("compress: expected 0 to 9");
        return failed;
}

/* -- TLS -- */

/* Returns a contradiction in the config; or NULL. */
static const char *
fault_of(const struct weir_http_server_config *config)
{
        bool has_files = config->certificate_file || config->private_key_file;

        if (!config->certificate_file != !config->private_key_file)
                return "expected certificate_file and private_key_file together";
        if (config->ssl_ctx && has_files)
                return "expected certificate_file or ssl_ctx, not both";
        if (config->ssl_ctx && (config->ocsp_file || config->client_ca_file || config->client_check || config->tls_groups))
                return "expected ocsp_file, client_ca_file, client_check and tls_groups not to be set beside ssl_ctx";
        if (config->client_check < WEIR_HTTP_CLIENT_UNCHECKED || config->client_check > WEIR_HTTP_CLIENT_REQUIRED)
                return "expected client_check to be one of enum weir_http_client_check";
        if (config->client_check && !config->client_ca_file)
                return "expected client_ca_file beside client_check: the authorities that may sign clients' certificates";
        if (config->client_ca_file && !config->client_check)
                return "expected client_check beside client_ca_file: nobody would be asked for a certificate";
        return config->reserved ? "expected reserved to be 0" : NULL;
}

struct weir__secure_config
weir__http_config_secure(const struct weir_http_server_config *config)
{
        return (struct weir__secure_config){
                .fault = fault_of(config),
                .certificate_file = config->certificate_file,
                .private_key_file = config->private_key_file,
                .ocsp_file = config->ocsp_file,
                .client_ca_file = config->client_ca_file,
                .groups = config->tls_groups,
                .protocols = "http/1.1,http/1.0",
                .ssl_ctx = config->ssl_ctx,
                .check = (enum weir__tls_client_check)config->client_check,
        };
}
