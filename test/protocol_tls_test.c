/* test/protocol_tls_test.c: own protocols over TLS, with a server of streams. */
#include "test/fixture.h"
#include "test/tls_peer.h"

#include <errno.h>

static const struct weir_protocol words = {
        .size = sizeof words, .length_width = 2, .length_adjust = 2, .bare = true, .depth = 8, .connections = 2};

static weir_stream_server *server;
static char address[64];

static void
echo(weir_task *message, void *context)
{
        size_t size;
        const void *data = weir_message_data(message, &size);

        (void)context;
        CU_ASSERT_EQUAL(weir_message_reply(message, data, size), 0);
}

static void
on_connection(weir_stream *stream, weir_series *series, void *context)
{
        weir_series_push(series, weir_protocol_serve_new(stream, &words, echo, NULL, context));
}

static void
begin(void)
{
        struct weir_stream_server_config config = WEIR_STREAM_SERVER_CONFIG_DEFAULT;

        weir_test_begin_real(2);
        config.certificate_file = tls_path("server.pem");
        config.private_key_file = tls_path("server.key");
        server = weir_stream_server_new(&config, on_connection, NULL);
        CU_ASSERT_EQUAL_FATAL(weir_stream_server_start(server, "127.0.0.1:0"), 0);
        snprintf(address, sizeof address, "127.0.0.1:%d", weir_stream_server_port(server));
}

static void
end(void)
{
        CU_ASSERT_EQUAL(weir_stream_server_stop(server, WEIR_TEST_TOLERANCE), 0);
        weir_stream_server_free(server);
        weir_test_end();
}

static weir_endpoint *
endpoint_for(const char *name)
{
        struct weir_tls_config config = WEIR_TLS_CONFIG_DEFAULT;

        config.ca_file = tls_path("ca.pem");
        weir_tls *tls = weir_tls_client_new(&config);
        weir_endpoint *endpoint = weir_endpoint_tls_new(address, tls, name, &words);
        weir_tls_unref(tls);
        return endpoint;
}

static _Atomic unsigned answered;
static struct weir_test_latch all;

static void
note(weir_task *ask, void *size_of_it)
{
        size_t size;
        const char *reply = weir_ask_reply(ask, &size);

        CU_ASSERT_EQUAL(weir_task_status(ask), 0);
        CU_ASSERT_EQUAL(size, (size_t)(uintptr_t)size_of_it);
        for (size_t i = 0; i < size; i++)
                if (reply[i] != (char)i) {
                        CU_FAIL("another byte");
                        break;
                }
        atomic_fetch_add(&answered, 1);
        weir_test_latch_count_down(&all);
}

static void
many_requests_are_answered(void)
{
        char bytes[60000];

        begin();
        weir_endpoint *endpoint = endpoint_for("server.example");
        weir_test_latch_init(&all, 300);
        answered = 0;
        for (size_t i = 0; i < sizeof bytes; i++)
                bytes[i] = (char)i;
        for (size_t i = 0; i < 300; i++) {
                size_t size = i * 199;

                CU_ASSERT_EQUAL(weir_task_start(weir_ask_new(endpoint, bytes, size, note, (void *)size)), 0);
        }
        weir_test_latch_wait(&all);
        CU_ASSERT_EQUAL(answered, 300);
        CU_ASSERT(weir_endpoint_connections(endpoint) <= 2);
        weir_endpoint_unref(endpoint);
        end();
}

static void
note_stage(weir_task *ask, void *stage)
{
        *(int *)stage = (int)weir_ask_stage(ask);
}

static void
a_wrong_name_is_told(void)
{
        int stage = -1;

        begin();
        weir_endpoint *endpoint = endpoint_for("other.example");
        CU_ASSERT_EQUAL(weir_task_run(weir_ask_new(endpoint, "x", 1, note_stage, &stage)), WEIR_ETLS_NAME);
        CU_ASSERT_EQUAL(stage, WEIR_ASK_CONNECTING);
        weir_endpoint_unref(endpoint);
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(many_requests_are_answered),
                WEIR_TEST(a_wrong_name_is_told),
        };

        tls_files_begin();
        tls_make_certificate("ca", &(struct tls_wish){.key = TLS_EC});
        tls_make_certificate("server",
                             &(struct tls_wish){.alternative_names = "DNS:server.example", .issuer = "ca", .key = TLS_EC});
        int result = weir_test_main("protocol_tls", tests, sizeof tests / sizeof *tests);
        tls_files_end();
        return result;
}
