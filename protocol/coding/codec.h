/* protocol/coding/codec.h: one content coding, decoded by a library as the bytes come.  decoder.c calls it, and it alone sets
 * bounds.  No I/O.
 *
 * Content consists of frames: members of gzip, frames of zstd.  Deflate and brotli have one. */
#ifndef WEIR_PROTOCOL_CODEC_H
#define WEIR_PROTOCOL_CODEC_H

#include <stddef.h>

#define WEIR__CODEC_END 1 /* the end of a frame */

struct weir__codec {
        /* Begins the first or another frame.  `first` is its first byte, which the step will get.
         *
         * Result: 0; -EBADMSG: no frame begins so, or none may follow; -ENOMEM. */
        int (*begin)(struct weir__codec *codec, char first);

        /* Takes bytes of a frame.  *used says how many, and *made how many it has written to `out`, which has room for one at
         * least.
         *
         * Result: 0; WEIR__CODEC_END; -EBADMSG: it is damaged; -EMSGSIZE: it wants too large a window; -ENOMEM. */
        int (*step)(struct weir__codec *codec, const char *data, size_t size, size_t *used, char *out, size_t room, size_t *made);

        void (*free)(struct weir__codec *codec);
};

/* Owner:   the caller: its `free`.
 * Result:  NULL when out of memory. */
struct weir__codec *weir__codec_gzip(void);
struct weir__codec *weir__codec_deflate(void);
struct weir__codec *weir__codec_brotli(void); /* if WEIR_HAS_BROTLI */
struct weir__codec *weir__codec_zstd(void);   /* if WEIR_HAS_ZSTD */

#endif
