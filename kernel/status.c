/* kernel/status.c: what statuses mean in English, and the library's version. */
#include <string.h>

#include <weir/runtime.h>

const char *
weir_strerror(int status)
{
        if (status == 0)
                return "Success";
        const char *description = status < 0 && status > -4096 ? strerrordesc_np(-status) : NULL;
        return description ? description : "Unknown status";
}

const char *
weir_version(void)
{
        return WEIR_VERSION;
}
