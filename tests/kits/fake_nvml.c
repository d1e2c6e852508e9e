/* A libnvidia-ml.so.1 for tests. Two cards, in an order that llama.cpp does not use. What it does is in the file that
   FAKE_NVML names, read at every call, one word each: `init=N`, `card=ADDRESS:N` and `memory=N` return code N, `hang` does
   not return from a memory query, `huge` answers all ones. Built with NO_V2 it is a driver from before 510. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

typedef unsigned long long u64;
struct card { const char *address; u64 total, reserved, used; };
static struct card cards[] = {
    {"0000:0b:00.0", 8ULL << 30, 400ULL << 20, 1ULL << 30},
    {"0000:0a:00.0", 24ULL << 30, 500ULL << 20, 3ULL << 30},
};

static const char *word(const char *start) {
    static char text[1024];
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) return NULL;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    char *found = strstr(text, start);
    return found ? found + strlen(start) : NULL;
}

static int code(const char *start) {
    const char *rest = word(start);
    return rest ? atoi(rest) : 0;
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; return code("init="); }

int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **handle) {
    char start[64];
    snprintf(start, sizeof start, "card=%s:", address);
    if (code(start)) return code(start);
    for (unsigned i = 0; i < sizeof cards / sizeof *cards; i++)
        if (!strcasecmp(cards[i].address, address)) { *handle = &cards[i]; return 0; }
    return 6;
}

int nvmlDeviceGetCount_v2(unsigned *count) { *count = sizeof cards / sizeof *cards; return 0; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) { *handle = &cards[index]; return 0; }

static int trouble(void) {
    while (word("hang")) pause();
    return code("memory=");
}

int nvmlDeviceGetMemoryInfo(struct card *card, struct { u64 total, free, used; } *memory) {
    if (trouble()) return trouble();
    memory->total = word("huge") ? ~0ULL : card->total;
    memory->used = card->used + card->reserved;
    memory->free = card->total - card->used - card->reserved;
    return 0;
}

#ifndef NO_V2
int nvmlDeviceGetMemoryInfo_v2(struct card *card, struct { unsigned version; u64 total, reserved, free, used; } *memory) {
    if (memory->version != 0x02000028) return 25;
    if (trouble()) return trouble();
    memory->total = word("huge") ? ~0ULL : card->total;
    memory->reserved = word("huge") ? 0 : card->reserved;
    memory->used = card->used;
    memory->free = card->total - card->used - card->reserved;
    return 0;
}
#endif
