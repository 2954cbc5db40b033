/* test/reference_cookies_guide_test.c: the examples of the reference for weir/cookie_jar.h, and of docs/cookies.md. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/weir.h>

#include "test/support.h"

/* -- weir/cookie_jar.h -- */

static void
a_jar_keeps_what_servers_set(void)
{
        weir_cookie_jar *jar = weir_cookie_jar_new();
        weir_url *login = weir_url_parse("https://shop.example.com/login", NULL);
        weir_url *cart = weir_url_parse("https://shop.example.com/cart/1", NULL);
        char field[4096];

        weir_cookie_jar_set(jar, login, "id=42; Path=/; Secure; HttpOnly");
        weir_cookie_jar_set(jar, login, "view=list; Path=/cart; Max-Age=3600");
        size_t size = weir_cookie_jar_header(jar, cart, field, sizeof field);

        CU_ASSERT_TRUE(size < sizeof field); /* all has fitted */
        CU_ASSERT_STRING_EQUAL(field, "view=list; id=42");
        CU_ASSERT_EQUAL(weir_cookie_jar_count(jar), 2);
        weir_cookie_jar_clear(jar);
        CU_ASSERT_EQUAL(weir_cookie_jar_header(jar, cart, field, sizeof field), 0);
        weir_url_free(login);
        weir_url_free(cart);
        weir_cookie_jar_unref(jar);
}

static void
print_cookie(const struct weir_cookie *cookie, void *context)
{
        fprintf(context, "%s%s%s %s\n", cookie->is_host_only ? "" : ".", cookie->domain, cookie->path, cookie->name);
}

static void
a_jar_is_a_file(void)
{
        char path[] = "/tmp/weir-cookies-XXXXXX", *shown = NULL;
        size_t size;
        FILE *out = open_memstream(&shown, &size);
        weir_cookie_jar *jar = weir_cookie_jar_new(), *next = weir_cookie_jar_new();
        weir_cookie_jar *shared = weir_cookie_jar_ref(jar); /* for another thread, which calls weir_cookie_jar_unref */
        weir_url *url = weir_url_parse("https://shop.example.com/", NULL);

        close(mkstemp(path));
        weir_cookie_jar_set(shared, url, "id=42; Domain=example.com");
        ssize_t saved = weir_cookie_jar_save(jar, path);
        if (saved < 0)
                fprintf(stderr, "%s: %s\n", path, strerror((int)-saved));
        CU_ASSERT_EQUAL(weir_cookie_jar_load(next, path), 1);
        weir_cookie_jar_each(next, print_cookie, out);

        fclose(out);
        CU_ASSERT_STRING_EQUAL(shown, ".example.com/ id\n");
        free(shown);
        unlink(path);
        weir_url_free(url);
        weir_cookie_jar_unref(shared);
        weir_cookie_jar_unref(jar);
        weir_cookie_jar_unref(next);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_jar_keeps_what_servers_set),
                WEIR_TEST(a_jar_is_a_file),
        };

        return weir_test_main("reference_cookies_guide", tests, sizeof tests / sizeof *tests);
}
