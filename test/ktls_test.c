/* test/ktls_test.c: writes through TLS where the kernel encrypts (kTLS).
 *
 * No kernel does: once the handshake is over, a BIO of the suite's says so, and OpenSSL gives it plain bytes, from where they
 * lie.  It takes some of them, or none, by turns.  From 3.2 on OpenSSL does not believe that; then it encrypts as ever, and the
 * rest is the same. */
#include <stdio.h>

#include <openssl/err.h>
#include <sys/mman.h>

#include "test/tls_wire.h"

#define SIZE  ((size_t)200000)
#define TAKEN 5000

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void __real_free(void *block);
void __wrap_free(void *block);

static struct weir__tls_context *context;
static struct tls_wire wire;
static BIO_METHOD *method;
static BIO *taken; /* what the kernel has taken; it belongs to the client if OpenSSL encrypts all the same */
static bool is_plain, is_busy;
static size_t blocks; /* of malloc's, that the library and this file have not freed */
static bool refuses;

void *
__wrap_malloc(size_t size)
{
        void *block = refuses ? NULL : __real_malloc(size);

        blocks += block != NULL;
        return block;
}

void
__wrap_free(void *block)
{
        blocks -= block != NULL;
        __real_free(block);
}

/* -- the kernel -- */

static int
kernel_write(BIO *bio, const char *data, int size)
{
        BIO_clear_retry_flags(bio);
        is_busy = !is_busy;
        if (!is_busy)
                return BIO_write(taken, data, size < TAKEN ? size : TAKEN);
        BIO_set_retry_write(bio);
        return -1;
}

static long
kernel_ctrl(BIO *bio, int command, long number, void *pointer)
{
        (void)bio, (void)number, (void)pointer;
        return command == BIO_CTRL_GET_KTLS_SEND || command == BIO_CTRL_FLUSH;
}

static void
notice(const SSL *ssl, int where, int result)
{
        BIO *bio;

        if (where != SSL_CB_ACCEPT_EXIT || result != 1) /* after the tickets, which are encrypted as ever */
                return;
        bio = BIO_new(method);
        BIO_set_init(bio, 1);
        SSL_set0_wbio((SSL *)ssl, bio);
}

static void
open_wire(void)
{
        is_busy = false;
        tls_wire_open(&wire, context, &(struct tls_client_wish){0});
        taken = is_plain ? BIO_new(BIO_s_mem()) : SSL_get_rbio(wire.client);
}

static void
connect_wire(void)
{
        bool client;

        open_wire();
        CU_ASSERT_EQUAL_FATAL(tls_wire_shake(&wire, SIZE_MAX, &client), 0);
        CU_ASSERT_TRUE_FATAL(client);
}

static void
close_wire(void)
{
        weir__stream_close(&wire.stream);
        if (is_plain)
                BIO_free(taken);
        tls_wire_close(&wire);
}

/* The taken bytes are exactly the expected ones. */
static void
expect_taken(const char *expected, size_t size)
{
        char *got = malloc(size + 1);
        size_t have = 0;
        int count;

        if (is_plain) {
                while (have <= size && (count = BIO_read(taken, got + have, (int)(size + 1 - have))) > 0)
                        have += (size_t)count;
        } else {
                have = tls_wire_hear(&wire, got, size + 1);
        }
        CU_ASSERT_EQUAL(have, size);
        CU_ASSERT(have == size && memcmp(got, expected, size) == 0);
        free(got);
}

static char *
make_data(void)
{
        char *data = malloc(SIZE);

        for (size_t i = 0; i < SIZE; i++)
                data[i] = (char)(i * 31 + i / 251);
        return data;
}

/* As a server that has its bytes elsewhere each time: where they lay before is overwritten, and freed once the next are there. */
static ssize_t
write_from_elsewhere(const char *data, size_t size, size_t head, char **former)
{
        char *copy = malloc(size);
        struct iovec pieces[2] = {{copy, size < head ? size : head}, {copy, 0}};

        free(*former);
        *former = copy;
        memcpy(copy, data, size);
        pieces[1].iov_base = copy + pieces[0].iov_len;
        pieces[1].iov_len = size - pieces[0].iov_len;
        ssize_t count = weir__stream_write(&wire.stream, pieces, pieces[1].iov_len ? 2 : 1);
        memset(copy, 'x', size);
        return count;
}

static void
write_all(const char *data, size_t size, size_t head)
{
        char *former = NULL;
        unsigned full = 0;

        for (size_t sent = 0; sent < size;) {
                ssize_t count = write_from_elsewhere(data + sent, size - sent, head, &former);

                CU_ASSERT_FATAL(count > 0 || count == -EAGAIN);
                CU_ASSERT(count != -EAGAIN || weir__tls_wants_write(wire.stream.tls) || !sent);
                full += count == -EAGAIN;
                sent += count > 0 ? (size_t)count : 0;
        }
        CU_ASSERT(full > 0);
        free(former);
}

/* -- the tests -- */

static void
bytes_that_the_kernel_did_not_take_may_be_overwritten(void)
{
        static const size_t heads[] = {1, 200, 16383, 16384, 16385, 70000, SIZE};
        char *data = make_data();

        for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
                connect_wire();
                write_all(data, SIZE, heads[i]);
                expect_taken(data, SIZE);
                close_wire();
        }
        free(data);
}

static void
the_write_may_be_what_ends_the_handshake(void)
{
        char *data = make_data(), *former = NULL;

        open_wire();
        SSL_do_handshake(wire.client);
        tls_wire_send(&wire, SIZE_MAX);
        CU_ASSERT_EQUAL(write_from_elsewhere(data, SIZE, SIZE, &former), -EAGAIN);
        tls_wire_receive(&wire);
        CU_ASSERT_EQUAL(SSL_do_handshake(wire.client), 1);
        tls_wire_send(&wire, SIZE_MAX);
        CU_ASSERT_EQUAL(write_from_elsewhere(data, SIZE, SIZE, &former), -EAGAIN);
        CU_ASSERT_EQUAL(weir__tls_handshake(wire.stream.tls), 0);
        tls_wire_receive(&wire);
        write_all(data, SIZE, SIZE);
        expect_taken(data, SIZE);
        close_wire();
        free(former);
        free(data);
}

static void
bytes_behind_the_held_record_may_be_replaced(void)
{
        char *data = make_data(), *former = NULL;

        connect_wire();
        CU_ASSERT_EQUAL(write_from_elsewhere(data, SIZE, SIZE, &former), -EAGAIN);
        size_t held = weir__stream_held(&wire.stream);
        CU_ASSERT(held > 0 && held <= 16384);
        memset(data + held, 'y', SIZE - held);
        write_all(data, SIZE, SIZE);
        CU_ASSERT_EQUAL(weir__stream_held(&wire.stream), 0);
        expect_taken(data, SIZE);
        close_wire();
        free(former);
        free(data);
}

/* Overwrites what calls had on the stack before. */
static void
use_the_stack(void)
{
        volatile char waste[64 * 1024];

        for (size_t i = 0; i < sizeof waste; i++)
                waste[i] = 'z';
}

static void
a_file_goes_out_as_it_was_when_it_was_read(void)
{
        char *data = make_data();
        int file = memfd_create("file", MFD_CLOEXEC);

        CU_ASSERT_EQUAL_FATAL(write(file, data, SIZE), (ssize_t)SIZE);
        connect_wire();
        for (size_t sent = 0; sent < SIZE;) {
                ssize_t count = weir__stream_write_file(&wire.stream, file, sent, SIZE - sent);

                CU_ASSERT_FATAL(count > 0 || count == -EAGAIN);
                use_the_stack();
                if (count == -EAGAIN) /* so a part of the record would be of another state of the file */
                        CU_ASSERT_EQUAL(pwrite(file, "changed", 7, (off_t)sent), 7);
                sent += count > 0 ? (size_t)count : 0;
        }
        expect_taken(data, SIZE);
        close_wire();
        close(file);
        free(data);
}

static void
a_connection_that_writes_nothing_has_no_memory_for_it(void)
{
        char *data = make_data();

        connect_wire();
        size_t before = blocks;
        CU_ASSERT_EQUAL(weir__stream_write(&wire.stream, &(struct iovec){data, SIZE}, 1), -EAGAIN);
        CU_ASSERT_EQUAL(blocks, before + 1);
        write_all(data, SIZE, SIZE);
        CU_ASSERT_EQUAL(blocks, before);
        close_wire();
        free(data);
}

static void
bytes_that_were_not_taken_go_with_the_connection(void)
{
        char *data = make_data();
        size_t before = blocks;

        connect_wire();
        CU_ASSERT_EQUAL(weir__stream_write(&wire.stream, &(struct iovec){data, SIZE}, 1), -EAGAIN);
        close_wire();
        CU_ASSERT_EQUAL(blocks, before);
        free(data);
}

static void
without_memory_nothing_is_written(void)
{
        char *data = make_data();

        connect_wire();
        refuses = true;
        ssize_t count = weir__stream_write(&wire.stream, &(struct iovec){data, SIZE}, 1);
        refuses = false;
        CU_ASSERT_EQUAL(count, -ENOMEM);
        CU_ASSERT_EQUAL(weir__stream_held(&wire.stream), 0);
        expect_taken(data, 0);
        write_all(data, SIZE, SIZE);
        expect_taken(data, SIZE);
        close_wire();
        free(data);
}

static void
make_context(void)
{
        SSL_CTX *ssl_ctx = SSL_CTX_new(TLS_server_method());

        if (SSL_CTX_use_certificate_chain_file(ssl_ctx, tls_path("server.pem")) != 1 ||
            SSL_CTX_use_PrivateKey_file(ssl_ctx, tls_path("server.key"), SSL_FILETYPE_PEM) != 1)
                abort();
        SSL_CTX_set_info_callback(ssl_ctx, notice);
        if (weir__tls_context_new_server(&context, &(struct weir__tls_server_config){.ssl_ctx = ssl_ctx}, NULL))
                abort();
        SSL_CTX_free(ssl_ctx);
        method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "kernel");
        BIO_meth_set_write(method, kernel_write);
        BIO_meth_set_ctrl(method, kernel_ctrl);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(bytes_that_the_kernel_did_not_take_may_be_overwritten),
                WEIR_TEST(the_write_may_be_what_ends_the_handshake),
                WEIR_TEST(bytes_behind_the_held_record_may_be_replaced),
                WEIR_TEST(a_file_goes_out_as_it_was_when_it_was_read),
                WEIR_TEST(a_connection_that_writes_nothing_has_no_memory_for_it),
                WEIR_TEST(bytes_that_were_not_taken_go_with_the_connection),
                WEIR_TEST(without_memory_nothing_is_written),
        };

        is_plain = OpenSSL_version_num() < 0x30200000L;
        tls_files_begin();
        tls_make_certificate("server", &(struct tls_wish){0});
        make_context();
        int failed = weir_test_main("ktls", tests, sizeof tests / sizeof *tests);
        weir__tls_context_unref(context);
        BIO_meth_free(method);
        tls_files_end();
        return failed;
}
