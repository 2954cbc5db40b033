/* protocol/coding/mime.c: the media types of files.
 *
 * Threads: any; constant data and pure functions.  No locks. */
#include <stdlib.h>
#include <string.h>

#include "protocol/text/bytes.h"
#include "protocol/coding/mime.h"

#define LONGEST 11 /* of the extensions */

/* Sorted by extension.  A source map is JSON.  Served .ts files are transport streams; TypeScript is compiled before it is
 * served. */
static const struct row {
        const char extension[LONGEST + 1];
        const char *type;
} rows[] = {
        {"7z", "application/x-7z-compressed"},
        {"aac", "audio/aac"},
        {"apk", "application/vnd.android.package-archive"},
        {"apng", "image/apng"},
        {"atom", "application/atom+xml"},
        {"avi", "video/x-msvideo"},
        {"avif", "image/avif"},
        {"bin", "application/octet-stream"},
        {"bmp", "image/bmp"},
        {"bz2", "application/x-bzip2"},
        {"c", "text/plain; charset=utf-8"},
        {"conf", "text/plain; charset=utf-8"},
        {"crt", "application/x-x509-ca-cert"},
        {"css", "text/css; charset=utf-8"},
        {"csv", "text/csv; charset=utf-8"},
        {"deb", "application/vnd.debian.binary-package"},
        {"diff", "text/plain; charset=utf-8"},
        {"dmg", "application/octet-stream"},
        {"doc", "application/msword"},
        {"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
        {"eot", "application/vnd.ms-fontobject"},
        {"eps", "application/postscript"},
        {"epub", "application/epub+zip"},
        {"exe", "application/octet-stream"},
        {"flac", "audio/flac"},
        {"geojson", "application/geo+json"},
        {"gif", "image/gif"},
        {"gpx", "application/gpx+xml"},
        {"gz", "application/gzip"},
        {"h", "text/plain; charset=utf-8"},
        {"heic", "image/heic"},
        {"htm", "text/html; charset=utf-8"},
        {"html", "text/html; charset=utf-8"},
        {"ico", "image/vnd.microsoft.icon"},
        {"ics", "text/calendar; charset=utf-8"},
        {"img", "application/octet-stream"},
        {"ini", "text/plain; charset=utf-8"},
        {"iso", "application/octet-stream"},
        {"jar", "application/java-archive"},
        {"jpeg", "image/jpeg"},
        {"jpg", "image/jpeg"},
        {"js", "text/javascript; charset=utf-8"},
        {"json", "application/json"},
        {"jsonld", "application/ld+json"},
        {"jxl", "image/jxl"},
        {"kml", "application/vnd.google-earth.kml+xml"},
        {"log", "text/plain; charset=utf-8"},
        {"m3u8", "application/vnd.apple.mpegurl"},
        {"m4a", "audio/mp4"},
        {"m4v", "video/mp4"},
        {"map", "application/json"},
        {"markdown", "text/markdown; charset=utf-8"},
        {"md", "text/markdown; charset=utf-8"},
        {"mid", "audio/midi"},
        {"midi", "audio/midi"},
        {"mjs", "text/javascript; charset=utf-8"},
        {"mkv", "video/matroska"},
        {"mov", "video/quicktime"},
        {"mp3", "audio/mpeg"},
        {"mp4", "video/mp4"},
        {"mpd", "application/dash+xml"},
        {"mpeg", "video/mpeg"},
        {"mpg", "video/mpeg"},
        {"odp", "application/vnd.oasis.opendocument.presentation"},
        {"ods", "application/vnd.oasis.opendocument.spreadsheet"},
        {"odt", "application/vnd.oasis.opendocument.text"},
        {"oga", "audio/ogg"},
        {"ogg", "audio/ogg"},
        {"ogv", "video/ogg"},
        {"opus", "audio/ogg"},
        {"otf", "font/otf"},
        {"patch", "text/plain; charset=utf-8"},
        {"pdf", "application/pdf"},
        {"pem", "application/x-pem-file"},
        {"png", "image/png"},
        {"ppt", "application/vnd.ms-powerpoint"},
        {"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
        {"ps", "application/postscript"},
        {"rar", "application/vnd.rar"},
        {"rpm", "application/x-rpm"},
        {"rss", "application/rss+xml"},
        {"rtf", "application/rtf"},
        {"sql", "application/sql"},
        {"svg", "image/svg+xml"},
        {"tar", "application/x-tar"},
        {"text", "text/plain; charset=utf-8"},
        {"tgz", "application/gzip"},
        {"tif", "image/tiff"},
        {"tiff", "image/tiff"},
        {"toml", "application/toml"},
        {"ts", "video/mp2t"},
        {"tsv", "text/tab-separated-values; charset=utf-8"},
        {"ttf", "font/ttf"},
        {"txt", "text/plain; charset=utf-8"},
        {"vcf", "text/vcard; charset=utf-8"},
        {"vtt", "text/vtt; charset=utf-8"},
        {"wasm", "application/wasm"},
        {"wav", "audio/wav"},
        {"weba", "audio/webm"},
        {"webm", "video/webm"},
        {"webmanifest", "application/manifest+json"},
        {"webp", "image/webp"},
        {"woff", "font/woff"},
        {"woff2", "font/woff2"},
        {"xhtml", "application/xhtml+xml"},
        {"xls", "application/vnd.ms-excel"},
        {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
        {"xml", "application/xml"},
        {"xsd", "application/xml"},
        {"xsl", "application/xml"},
        {"xslt", "application/xslt+xml"},
        {"xz", "application/x-xz"},
        {"yaml", "application/yaml"},
        {"yml", "application/yaml"},
        {"zip", "application/zip"},
        {"zst", "application/zstd"},
};

static int
compare(const void *extension, const void *row)
{
        return strcmp(extension, ((const struct row *)row)->extension);
}

/* The text behind the last dot of the name; NULL without a dot. */
static const char *
extension_of(const char *path)
{
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
        const char *dot = strrchr(name, '.');

        return dot && dot > name ? dot + 1 : NULL;
}

const char *
weir__mime_type(const char *path)
{
        const char *extension = extension_of(path);
        size_t size = extension ? strlen(extension) : 0;
        char lower[LONGEST + 1];
        const struct row *row = NULL;

        if (size > 0 && size <= LONGEST) {
                for (size_t i = 0; i <= size; i++)
                        lower[i] = (char)(extension[i] >= 'A' && extension[i] <= 'Z' ? extension[i] | 0x20 : extension[i]);
                row = bsearch(lower, rows, sizeof rows / sizeof *rows, sizeof *rows, compare);
        }
        return row ? row->type : "application/octet-stream";
}

static bool
ends_with(const char *type, size_t size, const char *suffix)
{
        size_t suffix_size = strlen(suffix);

        return size > suffix_size && weir__bytes_equal(type + size - suffix_size, suffix, suffix_size);
}

bool
weir__mime_is_compressible(const char *type)
{
        static const char *const others[] = {
                "application/javascript",
                "application/json",
                "application/postscript",
                "application/rtf",
                "application/sql",
                "application/toml",
                "application/vnd.ms-fontobject",
                "application/wasm",
                "application/x-ndjson",
                "application/x-tar",
                "application/xml",
                "application/yaml",
                "font/otf",
                "font/ttf",
                "image/bmp",
                "image/vnd.microsoft.icon",
                "image/x-icon",
        };
        size_t size = strcspn(type, "; \t");

        if (WEIR__BYTES_ARE(type, size, "text/event-stream"))
                return false;
        if ((size > 5 && weir__bytes_equal(type, "text/", 5)) || ends_with(type, size, "+json") || ends_with(type, size, "+xml"))
                return true;
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
                if (strlen(others[i]) == size && weir__bytes_equal(type, others[i], size))
                        return true;
        return false;
}
