/* test/mime_test.c: media types by extension, and which of them gzip makes smaller. */
#include <string.h>

#include "protocol/coding/mime.h"
#include "test/support.h"

#define ASSERT_TYPE(path, type) CU_ASSERT_STRING_EQUAL(weir__mime_type(path), type)

static const char unknown[] = "application/octet-stream";

static void
an_extension_says_the_type(void)
{
        ASSERT_TYPE("index.html", "text/html; charset=utf-8");
        ASSERT_TYPE("a/b.c/style.css", "text/css; charset=utf-8");
        ASSERT_TYPE("/app.js", "text/javascript; charset=utf-8");
        ASSERT_TYPE("app.mjs", "text/javascript; charset=utf-8");
        ASSERT_TYPE("notes.txt", "text/plain; charset=utf-8");
        ASSERT_TYPE("data.json", "application/json");
        ASSERT_TYPE("feed.xml", "application/xml");
        ASSERT_TYPE("a.svg", "image/svg+xml");
        ASSERT_TYPE("a.png", "image/png");
        ASSERT_TYPE("a.jpeg", "image/jpeg");
        ASSERT_TYPE("a.wasm", "application/wasm");
        ASSERT_TYPE("a.woff2", "font/woff2");
        ASSERT_TYPE("a.webmanifest", "application/manifest+json");
        ASSERT_TYPE("a.mp4", "video/mp4");
}

static void
every_row_is_found(void)
{
        static const char *const extensions[] = {
                "7z",          "aac",  "apk",  "apng",   "atom",  "avi",  "avif", "bin",   "bmp",  "bz2",  "c",    "conf",
                "crt",         "css",  "csv",  "deb",    "diff",  "doc",  "docx", "eot",   "eps",  "epub", "flac", "geojson",
                "gif",         "gpx",  "gz",   "h",      "heic",  "htm",  "html", "ico",   "ics",  "ini",  "jar",  "jpeg",
                "jpg",         "js",   "json", "jsonld", "jxl",   "kml",  "log",  "m3u8",  "m4a",  "m4v",  "map",  "markdown",
                "md",          "mid",  "midi", "mjs",    "mkv",   "mov",  "mp3",  "mp4",   "mpd",  "mpeg", "mpg",  "odp",
                "ods",         "odt",  "oga",  "ogg",    "ogv",   "opus", "otf",  "patch", "pdf",  "pem",  "png",  "ppt",
                "pptx",        "ps",   "rar",  "rpm",    "rss",   "rtf",  "sql",  "svg",   "tar",  "text", "tgz",  "tif",
                "tiff",        "toml", "ts",   "tsv",    "ttf",   "txt",  "vcf",  "vtt",   "wasm", "wav",  "weba", "webm",
                "webmanifest", "webp", "woff", "woff2",  "xhtml", "xls",  "xlsx", "xml",   "xsd",  "xsl",  "xslt", "xz",
                "yaml",        "yml",  "zip",  "zst"};

        for (size_t i = 0; i < sizeof extensions / sizeof *extensions; i++) {
                char path[16] = "a.";

                strcat(path, extensions[i]);
                CU_ASSERT(strcmp(weir__mime_type(path), unknown) != 0 || strcmp(extensions[i], "bin") == 0);
        }
}

static void
case_does_not_matter(void)
{
        ASSERT_TYPE("INDEX.HTML", "text/html; charset=utf-8");
        ASSERT_TYPE("Photo.JpG", "image/jpeg");
}

static void
only_the_last_extension_counts(void)
{
        ASSERT_TYPE("a.tar.gz", "application/gzip");
        ASSERT_TYPE("a.html.bak", unknown);
        ASSERT_TYPE("a.b.html", "text/html; charset=utf-8");
}

static void
an_unknown_type_is_a_stream_of_bytes(void)
{
        static const char *const paths[] = {"",        ".",       "..",      "a",          "a.",
                                            "a.xyzzy", ".html",   "d/.html", "d.html/a",   "a.html/",
                                            "a.htmlx", "a.htm l", "html",    "a.\xc3\xa4", "a.verylongextensionindeed",
                                            "a..",     "a.html."};

        for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
                ASSERT_TYPE(paths[i], unknown);
        }
        ASSERT_TYPE("a..html", "text/html; charset=utf-8");
}

static void
text_and_what_is_written_like_it_is_compressible(void)
{
        static const char *const types[] = {"text/html",
                                            "text/html; charset=utf-8",
                                            "TEXT/CSS",
                                            "text/html;charset=utf-8",
                                            "application/json",
                                            "application/ld+json",
                                            "image/svg+xml",
                                            "Application/JSON; a=b",
                                            "application/xml",
                                            "application/wasm",
                                            "application/foo+xml;x",
                                            "font/ttf",
                                            "text/x"};

        for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
                CU_ASSERT_TRUE(weir__mime_is_compressible(types[i], strlen(types[i])));
        }
}

static void
types_that_are_compressed_already_are_not_compressible(void)
{
        static const char *const types[] = {"image/png",
                                            "image/jpeg",
                                            "application/zip",
                                            "application/gzip",
                                            unknown,
                                            "font/woff2",
                                            "video/mp4",
                                            "audio/mpeg",
                                            "",
                                            "text/",
                                            "text",
                                            "+json",
                                            "application/jsonx",
                                            "application/jso",
                                            "json",
                                            ";text/html",
                                            "text/event-stream",
                                            "Text/Event-Stream; charset=utf-8"};

        for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
                CU_ASSERT_FALSE(weir__mime_is_compressible(types[i], strlen(types[i])));
        }
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(an_extension_says_the_type),
                WEIR_TEST(every_row_is_found),
                WEIR_TEST(case_does_not_matter),
                WEIR_TEST(only_the_last_extension_counts),
                WEIR_TEST(an_unknown_type_is_a_stream_of_bytes),
                WEIR_TEST(text_and_what_is_written_like_it_is_compressible),
                WEIR_TEST(types_that_are_compressed_already_are_not_compressible),
        };

        return weir_test_main("mime", tests, sizeof tests / sizeof *tests);
}
