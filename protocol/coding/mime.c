/* protocol/coding/mime.c: the media types of files.
 *
 * Threads: any; constant data and pure functions.  No locks. */
#include <string.h>

#include "protocol/text/bytes.h"
#include "protocol/coding/mime.h"

#define EXTENSION_MAX 11 /* bytes */
#define UNKNOWN_TYPE  "application/octet-stream"

/* Types with their extensions.  A type without an extension is only written by programs.  Types of text, JSON and XML need no
 * mark: their names say that they are compressible.
 *
 * A source map is JSON.  Served .ts files are transport streams; TypeScript is compiled before it is served. */
static const struct row {
        const char *type;
        bool is_compressible;
        char extensions[3][EXTENSION_MAX + 1];
} rows[] = {
        {"application/atom+xml", false, {"atom"}},
        {"application/dash+xml", false, {"mpd"}},
        {"application/epub+zip", false, {"epub"}},
        {"application/geo+json", false, {"geojson"}},
        {"application/gpx+xml", false, {"gpx"}},
        {"application/gzip", false, {"gz", "tgz"}},
        {"application/java-archive", false, {"jar"}},
        {"application/javascript", true, {""}},
        {"application/json", true, {"json", "map"}},
        {"application/ld+json", false, {"jsonld"}},
        {"application/manifest+json", false, {"webmanifest"}},
        {"application/msword", false, {"doc"}},
        {"application/pdf", false, {"pdf"}},
        {"application/postscript", true, {"eps", "ps"}},
        {"application/rss+xml", false, {"rss"}},
        {"application/rtf", true, {"rtf"}},
        {"application/sql", true, {"sql"}},
        {"application/toml", true, {"toml"}},
        {"application/vnd.android.package-archive", false, {"apk"}},
        {"application/vnd.apple.mpegurl", false, {"m3u8"}},
        {"application/vnd.debian.binary-package", false, {"deb"}},
        {"application/vnd.google-earth.kml+xml", false, {"kml"}},
        {"application/vnd.ms-excel", false, {"xls"}},
        {"application/vnd.ms-fontobject", true, {"eot"}},
        {"application/vnd.ms-powerpoint", false, {"ppt"}},
        {"application/vnd.oasis.opendocument.presentation", false, {"odp"}},
        {"application/vnd.oasis.opendocument.spreadsheet", false, {"ods"}},
        {"application/vnd.oasis.opendocument.text", false, {"odt"}},
        {"application/vnd.openxmlformats-officedocument.presentationml.presentation", false, {"pptx"}},
        {"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", false, {"xlsx"}},
        {"application/vnd.openxmlformats-officedocument.wordprocessingml.document", false, {"docx"}},
        {"application/vnd.rar", false, {"rar"}},
        {"application/wasm", true, {"wasm"}},
        {"application/x-7z-compressed", false, {"7z"}},
        {"application/x-bzip2", false, {"bz2"}},
        {"application/x-ndjson", true, {""}},
        {"application/x-pem-file", false, {"pem"}},
        {"application/x-rpm", false, {"rpm"}},
        {"application/x-tar", true, {"tar"}},
        {"application/x-x509-ca-cert", false, {"crt"}},
        {"application/x-xz", false, {"xz"}},
        {"application/xhtml+xml", false, {"xhtml"}},
        {"application/xml", true, {"xml", "xsd", "xsl"}},
        {"application/xslt+xml", false, {"xslt"}},
        {"application/yaml", true, {"yaml", "yml"}},
        {"application/zip", false, {"zip"}},
        {"application/zstd", false, {"zst"}},
        {"audio/aac", false, {"aac"}},
        {"audio/flac", false, {"flac"}},
        {"audio/midi", false, {"mid", "midi"}},
        {"audio/mp4", false, {"m4a"}},
        {"audio/mpeg", false, {"mp3"}},
        {"audio/ogg", false, {"oga", "ogg", "opus"}},
        {"audio/wav", false, {"wav"}},
        {"audio/webm", false, {"weba"}},
        {"font/otf", true, {"otf"}},
        {"font/ttf", true, {"ttf"}},
        {"font/woff", false, {"woff"}},
        {"font/woff2", false, {"woff2"}},
        {"image/apng", false, {"apng"}},
        {"image/avif", false, {"avif"}},
        {"image/bmp", true, {"bmp"}},
        {"image/gif", false, {"gif"}},
        {"image/heic", false, {"heic"}},
        {"image/jpeg", false, {"jpeg", "jpg"}},
        {"image/jxl", false, {"jxl"}},
        {"image/png", false, {"png"}},
        {"image/svg+xml", false, {"svg"}},
        {"image/tiff", false, {"tif", "tiff"}},
        {"image/vnd.microsoft.icon", true, {"ico"}},
        {"image/webp", false, {"webp"}},
        {"image/x-icon", true, {""}},
        {"text/calendar; charset=utf-8", false, {"ics"}},
        {"text/css; charset=utf-8", false, {"css"}},
        {"text/csv; charset=utf-8", false, {"csv"}},
        {"text/html; charset=utf-8", false, {"htm", "html"}},
        {"text/javascript; charset=utf-8", false, {"js", "mjs"}},
        {"text/markdown; charset=utf-8", false, {"markdown", "md"}},
        {"text/plain; charset=utf-8", false, {"c", "conf", "diff"}},
        {"text/plain; charset=utf-8", false, {"h", "ini", "log"}},
        {"text/plain; charset=utf-8", false, {"patch", "text", "txt"}},
        {"text/tab-separated-values; charset=utf-8", false, {"tsv"}},
        {"text/vcard; charset=utf-8", false, {"vcf"}},
        {"text/vtt; charset=utf-8", false, {"vtt"}},
        {"video/matroska", false, {"mkv"}},
        {"video/mp2t", false, {"ts"}},
        {"video/mp4", false, {"m4v", "mp4"}},
        {"video/mpeg", false, {"mpeg", "mpg"}},
        {"video/ogg", false, {"ogv"}},
        {"video/quicktime", false, {"mov"}},
        {"video/webm", false, {"webm"}},
        {"video/x-msvideo", false, {"avi"}},
};

#define ROWS (sizeof rows / sizeof *rows)

/* The text behind the last dot of the name; NULL without a dot. */
static const char *
extension_of(const char *path)
{
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
        const char *dot = strrchr(name, '.');

        return dot && dot > name ? dot + 1 : NULL;
}

static bool
row_has(const struct row *row, const char *extension)
{
        for (size_t i = 0; i < sizeof row->extensions / sizeof *row->extensions; i++)
                if (row->extensions[i][0] == extension[0] && strcmp(row->extensions[i], extension) == 0)
                        return true;
        return false;
}

const char *
weir__mime_type(const char *path)
{
        const char *extension = extension_of(path);
        size_t size = extension ? strlen(extension) : 0;
        char lower[EXTENSION_MAX + 1];

        if (size == 0 || size > EXTENSION_MAX)
                return UNKNOWN_TYPE;
        for (size_t i = 0; i <= size; i++)
                lower[i] = (char)(extension[i] >= 'A' && extension[i] <= 'Z' ? extension[i] | 0x20 : extension[i]);
        for (size_t i = 0; i < ROWS; i++)
                if (row_has(&rows[i], lower))
                        return rows[i].type;
        return UNKNOWN_TYPE;
}

static bool
ends_with(const char *type, size_t size, const char *suffix)
{
        size_t suffix_size = strlen(suffix);

        return size > suffix_size && weir__bytes_equal(type + size - suffix_size, suffix, suffix_size);
}

bool
weir__mime_is_compressible(const char *type, size_t type_size)
{
        size_t size = 0;

        while (size < type_size && type[size] != ';' && !weir__byte_is_space(type[size]))
                size++;
        if (WEIR__BYTES_ARE(type, size, "text/event-stream"))
                return false;
        if ((size > 5 && weir__bytes_equal(type, "text/", 5)) || ends_with(type, size, "+json") || ends_with(type, size, "+xml"))
                return true;
        for (size_t i = 0; i < ROWS; i++)
                if (rows[i].is_compressible && strlen(rows[i].type) == size && weir__bytes_equal(type, rows[i].type, size))
                        return true;
        return false;
}
