/* test/reference_multipart_guide_test.c: the examples of the reference for weir/multipart.h, and of docs/urls.md. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/weir.h>

#include "test/support.h"

/* -- weir/multipart.h -- */

static void
a_form_is_one_body(void)
{
        char head[200];
        weir_multipart *form = weir_multipart_new();
        size_t size = 0;

        weir_multipart_add(form, "title", "Holidays");
        weir_multipart_add_data(form, "note", "note.txt", "text/plain", "sunny", 5);
        char *body = weir_multipart_encode(form, &size);

        const char *type = weir_multipart_type(form);
        snprintf(head, sizeof head, "Content-Type: %s\r\nContent-Length: %zu\r\n\r\n", type, size);
        CU_ASSERT_PTR_NOT_NULL(strstr(body, "name=\"note\"; filename=\"note.txt\"\r\nContent-Type: text/plain\r\n\r\nsunny\r\n"));
        free(body);
        weir_multipart_free(form);
}

static ssize_t
send_somewhere(const char *data, size_t size, int64_t *sent)
{
        *sent += data ? (int64_t)size : 0;
        return (ssize_t)size;
}

static void
a_form_with_files_is_read_in_pieces(void)
{
        char path[] = "/tmp/weir-multipart-XXXXXX", piece[16384];
        int fd = mkstemp(path);
        int64_t sent = 0;
        ssize_t size;
        weir_multipart *form = weir_multipart_new();

        CU_ASSERT_EQUAL(write(fd, "0123456789", 10), 10);
        int failed = weir_multipart_add_file(form, "photo", path, "beach.jpg", "image/jpeg");
        if (failed)
                fprintf(stderr, "%s: %s\n", path, strerror(-failed));
        weir_multipart_add_fd(form, "rest", NULL, NULL, fd, 5, 5); /* "56789" */
        while ((size = weir_multipart_read(form, piece, sizeof piece)) > 0)
                send_somewhere(piece, (size_t)size, &sent);

        CU_ASSERT_EQUAL(failed, 0);
        CU_ASSERT_EQUAL(size, 0);
        CU_ASSERT_EQUAL(sent, weir_multipart_size(form));
        weir_multipart_rewind(form); /* to send it again */
        CU_ASSERT_TRUE(weir_multipart_read(form, piece, sizeof piece) > 0);
        weir_multipart_free(form);
        close(fd);
        unlink(path);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_form_is_one_body),
                WEIR_TEST(a_form_with_files_is_read_in_pieces),
        };

        return weir_test_main("reference_multipart_guide", tests, sizeof tests / sizeof *tests);
}
