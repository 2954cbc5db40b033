/* test/tls_pin_test.c: keys that clients of TLS expect: which texts are pins, which certificates have them, and when memory is
 * refused. */
#include <stdio.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <weir/log.h>

#include "kernel/tls/tls_internal.h"
#include "test/tls_memory.h"
#include "test/tls_pair.h"

#define HOST "server.example"
#define ZERO "sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

static struct weir__tls_context *serving;
static char said[1024];

static void
listen_to_log(enum weir_log_level level, const char *message, void *nothing)
{
        (void)level, (void)nothing;
        snprintf(said, sizeof said, "%s", message);
}

/* The pin of a certificate's key, by OpenSSL alone; valid for the next three calls. */
static const char *
pin_of(const char *name)
{
        static char pins[4][80];
        static unsigned next;
        char file[64], *pin = pins[next++ % 4];
        unsigned char hash[32], digits[64], *key = NULL;

        snprintf(file, sizeof file, "%s.pem", name);
        FILE *stream = fopen(tls_path(file), "re");
        X509 *x509 = stream ? PEM_read_X509(stream, NULL, NULL, NULL) : NULL;
        CU_ASSERT_PTR_NOT_NULL_FATAL(x509);
        int size = i2d_PUBKEY(X509_get0_pubkey(x509), &key);
        CU_ASSERT_EQUAL(EVP_Digest(key, (size_t)size, hash, NULL, EVP_sha256(), NULL), 1);
        EVP_EncodeBlock(digits, hash, sizeof hash);
        snprintf(pin, sizeof pins[0], "sha256/%s", (const char *)digits);
        OPENSSL_free(key);
        X509_free(x509);
        fclose(stream);
        return pin;
}

static int
make(struct weir__tls_context **context, const char *pins, bool is_insecure)
{
        const struct weir__tls_client_config config = {
                .ca_file = is_insecure ? NULL : tls_path("authority.pem"), .pins = pins, .is_insecure = is_insecure};

        *context = NULL;
        return weir__tls_context_new_client(context, &config);
}

/* Two connections with these pins: a session that was resumed is of the same key.  Returns what the first handshake says. */
static int
meet(const char *pins, bool is_insecure, struct weir__tls_context *other, const char *host)
{
        struct weir__tls_context *context;
        int first = 0;

        CU_ASSERT_EQUAL_FATAL(make(&context, pins, is_insecure), 0);
        for (unsigned i = 0; i < 4; i++) {
                CU_ASSERT_EQUAL_FATAL(open_both(context, other, host), 0);
                SSL_set_max_proto_version(client.tls->ssl, versions[i / 2]);
                weir__tls_resume(client.tls, host, i / 2 ? "a:1" : "a:2");
                int result = shake(NULL);
                first = i ? first : result;
                CU_ASSERT_EQUAL(result, first);
                if (result == 0)
                        CU_ASSERT_EQUAL(weir__stream_read(&client, buffer, 100), -EAGAIN);
                CU_ASSERT_EQUAL(weir__tls_is_resumed(client.tls), result == 0 && i % 2);
                snprintf(said, sizeof said, "%s", weir__tls_problem(client.tls) ? weir__tls_problem(client.tls) : "");
                close_both();
        }
        weir__tls_context_unref(context);
        return first;
}

static void
a_pinned_key_is_accepted(void)
{
        char several[256];

        snprintf(several, sizeof several, "%s,%s,%s", ZERO, pin_of("server"), pin_of("lonely"));
        CU_ASSERT_EQUAL(meet(pin_of("server"), false, serving, HOST), 0);
        CU_ASSERT_EQUAL(meet(several, false, serving, HOST), 0);
        CU_ASSERT_EQUAL(meet(pin_of("authority"), false, serving, HOST), 0); /* it was verified, too */
        CU_ASSERT_STRING_EQUAL(said, "");
}

static void
another_key_is_refused_in_words(void)
{
        char words[256];

        CU_ASSERT_EQUAL(meet(ZERO, false, serving, HOST), WEIR_ETLS_PIN);
        snprintf(words, sizeof words, "the certificate of CN=server,O=weir has the key %s, which is not pinned",
                 pin_of("server"));
        CU_ASSERT_STRING_EQUAL(said, words);
}

/* A pin takes nothing away from the other checks. */
static void
a_pin_comes_on_top_of_the_check(void)
{
        struct weir__tls_context *lonely = NULL;
        const char *name = "lonely";

        CU_ASSERT_EQUAL_FATAL(tls_make_context(&lonely, &name, 1, NULL, NULL), 0);
        CU_ASSERT_EQUAL(meet(pin_of("server"), false, serving, "other.example"), WEIR_ETLS_NAME);
        CU_ASSERT_EQUAL(meet(pin_of("lonely"), false, lonely, "lonely.example"), WEIR_ETLS_SELF_SIGNED);
        CU_ASSERT_EQUAL(meet(pin_of("lonely"), true, lonely, "any.example"), 0); /* but in place of one that is off */
        CU_ASSERT_EQUAL(meet(pin_of("server"), true, lonely, "lonely.example"), WEIR_ETLS_PIN);
        weir__tls_context_unref(lonely);
}

/* Anybody can send the authority's certificate behind his own. */
static void
without_a_check_only_the_own_key_counts(void)
{
        static const char *const chain[] = {"stranger", "authority"};
        struct weir__tls_context *other = NULL;
        const char *name = "both";

        tls_join("both", chain, 2);
        CU_ASSERT_EQUAL_FATAL(link(tls_path("stranger.key"), tls_path("both.key")), 0);
        CU_ASSERT_EQUAL_FATAL(tls_make_context(&other, &name, 1, NULL, NULL), 0);
        CU_ASSERT_EQUAL(meet(pin_of("authority"), true, other, HOST), WEIR_ETLS_PIN);
        CU_ASSERT_EQUAL(meet(pin_of("authority"), false, other, HOST), WEIR_ETLS_SELF_SIGNED);
        CU_ASSERT_EQUAL(meet(pin_of("stranger"), true, other, HOST), 0);
        weir__tls_context_unref(other);
}

static void
a_text_that_is_no_pin_is_named(void)
{
        static const struct {
                const char *text;
                unsigned at;
        } cases[] = {
                {"", 0},
                {"sha256", 0},
                {"sha1/AAAAAAAAAAAAAAAAAAAAAAAAAAA=", 0},
                {"sha256/AAAA", 0},
                {"sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", 0},
                {"sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==", 0},
                {"sha256/AAAAAAAAAAAAAAAAAAAA-AAAAAAAAAAAAAAAAAAAAAA=", 0},
                {"sha256/ AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", 0},
                {ZERO " ", 0},
                {ZERO ",", 52},
                {ZERO "," ZERO ",sha512/AAAA", 104},
                {ZERO "," ZERO ";" ZERO, 52},
        };
        struct weir__tls_context *context;
        char place[32];

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                said[0] = '\0';
                CU_ASSERT_EQUAL(make(&context, cases[i].text, false), -EINVAL);
                CU_ASSERT_PTR_NULL(context);
                snprintf(place, sizeof place, "byte %u:", cases[i].at);
                CU_ASSERT_PTR_NOT_NULL(strstr(said, place));
        }
}

/* One allocation of the client is refused.  Returns whether it has accepted the key. */
static bool
live(const char *pins, bool is_insecure, int64_t refused_one)
{
        struct weir__tls_context *context;
        int ours = -EAGAIN, theirs = -EAGAIN;

        refuse_after(refused_one);
        int failed = make(&context, pins, is_insecure);
        int64_t left = allocations_left;
        refuse_none();
        CU_ASSERT_EQUAL(failed != 0, context == NULL);
        if (failed)
                return false;
        CU_ASSERT_EQUAL_FATAL(open_both(context, serving, HOST), 0);
        for (unsigned i = 0; i < 4 && ours == -EAGAIN; i++) {
                allocations_left = left;
                ours = weir__stream_handshake(&client);
                left = allocations_left;
                refuse_none();
                theirs = theirs == -EAGAIN ? weir__stream_handshake(&server) : theirs;
        }
        close_both();
        weir__tls_context_unref(context);
        ERR_clear_error();
        return ours == 0;
}

static void
a_pin_is_never_passed_over(void)
{
        for (unsigned i = 0; i < 4; i++) {
                const char *pins = i % 2 ? ZERO : pin_of("server");
                int64_t count = 0;
                unsigned failures = 0;

                do {
                        bool is_accepted = live(pins, i / 2, count);

                        CU_ASSERT(!is_accepted || i % 2 == 0);
                        failures += !is_accepted;
                        count += 1 + count / 40;
                } while (has_refused);
                CU_ASSERT(failures > 30);
        }
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_pinned_key_is_accepted),        WEIR_TEST(another_key_is_refused_in_words),
                WEIR_TEST(a_pin_comes_on_top_of_the_check), WEIR_TEST(without_a_check_only_the_own_key_counts),
                WEIR_TEST(a_text_that_is_no_pin_is_named),  WEIR_TEST(a_pin_is_never_passed_over),
        };

        if (!can_refuse())
                return 1;
        tls_files_begin();
        weir_log_set(listen_to_log, NULL);
        tls_make_certificate("authority", &(struct tls_wish){0});
        tls_make_certificate("server", &(struct tls_wish){.issuer = "authority", .alternative_names = "DNS:server.example"});
        tls_make_certificate("lonely", &(struct tls_wish){.alternative_names = "DNS:lonely.example"});
        tls_make_certificate("stranger", &(struct tls_wish){.alternative_names = "DNS:server.example"});
        const char *name = "server";
        if (tls_make_context(&serving, &name, 1, NULL, NULL))
                return 1;
        int failed = weir_test_main("tls pin", tests, sizeof tests / sizeof *tests);
        weir__tls_context_unref(serving);
        weir_log_set(NULL, NULL);
        tls_files_end();
        return failed;
}
