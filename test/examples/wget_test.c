/* test/examples/wget_test.c: what is fetched, and what is left of what cannot be. */
#include <sys/stat.h>

#include "test/examples/program.h"

#include "examples/wget.c"
#undef main

#define LARGE 1000000

static weir_http_server *server;
static char base[64], urls[4][128], large[LARGE];

static void
handle(weir_task *exchange, void *context)
{
        const char *path = weir_http_path(exchange);

        (void)context;
        if (strcmp(path, "/old") == 0) {
                weir_http_reply_status(exchange, 302);
                weir_http_reply_header(exchange, "Location", "/large");
        } else if (strcmp(path, "/loop") == 0) {
                weir_http_reply_status(exchange, 302);
                weir_http_reply_header(exchange, "Location", "/loop");
        } else if (strcmp(path, "/large") == 0) {
                weir_http_reply_append(exchange, large, sizeof large);
        } else if (strcmp(path, "/cut") == 0) {
                weir_series_push(weir_series_of(exchange), weir_http_write_new(exchange, "part", 4, NULL, NULL));
                weir_series_fail(weir_series_of(exchange), -EIO);
                weir_series_cancel(weir_series_of(exchange));
        } else {
                weir_http_reply_text(exchange, strcmp(path, "/small") == 0 ? 200 : 404, "small\n");
        }
}

static char *
url(unsigned at, const char *path)
{
        snprintf(urls[at], sizeof urls[at], "%s%s", base, path);
        return urls[at];
}

/* The program shuts the runtime down, and with it the server. */
static int
run(int argc, const char *first, const char *second)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        char *argv[4] = {"wget"};

        config.pollers = 2;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        server = http_server(NULL, handle, NULL);
        snprintf(base, sizeof base, "http://127.0.0.1:%d", weir_http_server_port(server));
        if (argc > 1)
                argv[1] = strncmp(first, "/", 1) == 0 ? url(0, first) : (char *)first;
        if (argc > 2)
                argv[2] = url(1, second);
        program_catch();
        int result = program_main(argc, argv);
        program_release();
        weir_http_server_free(server);
        return result;
}

static off_t
size_of(const char *name)
{
        struct stat status;

        return stat(name, &status) == 0 ? status.st_size : -1;
}

static void
files_are_fetched(void)
{
        CU_ASSERT_EQUAL(run(3, "/small", "/old"), 0);
        CU_ASSERT_EQUAL(size_of("small"), 6);
        CU_ASSERT_EQUAL(size_of("old"), LARGE);
        CU_ASSERT_PTR_NOT_NULL(strstr(program_output.text, "old: 1000000 bytes\n"));
        CU_ASSERT_EQUAL(run(2, "/small", NULL), 1); /* it is there already, and is not touched */
        CU_ASSERT_EQUAL(size_of("small"), 6);
        unlink("small");
        unlink("old");
}

static void
what_cannot_be_fetched_leaves_nothing(void)
{
        CU_ASSERT_EQUAL(run(2, "/gone", NULL), 1);
        CU_ASSERT_EQUAL(size_of("gone"), -1);
        CU_ASSERT_EQUAL(run(2, "/loop", NULL), 1);
        CU_ASSERT_EQUAL(run(3, "/cut", "/small"), 1);
        CU_ASSERT_EQUAL(size_of("cut"), -1);
        CU_ASSERT_EQUAL(size_of("small"), 6);
        unlink("small");
        CU_ASSERT_EQUAL(run(2, "no url", NULL), 1);
        CU_ASSERT_EQUAL(run(1, NULL, NULL), 1);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(files_are_fetched),
                WEIR_TEST(what_cannot_be_fetched_leaves_nothing),
        };
        char directory[] = "/tmp/weir-wget-XXXXXX";

        if (!mkdtemp(directory) || chdir(directory))
                return 1;
        int result = weir_test_main("example_wget", tests, sizeof tests / sizeof *tests);
        rmdir(directory);
        return result;
}
