/* Between a process and its C library: lets the n-th write, sync or rename below one directory fail.
 *
 * Preloaded (LD_PRELOAD) into a Python process, which arms it through ctypes. Calls are counted per
 * class over all threads; LMDB's lock file is left alone, because it is not part of the data.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE, FDATASYNC, FSYNC, RENAME, CLASSES };
enum { NOT_DONE, DONE, SHORT, KILL_HALF_WAY, KILL_AFTER };

static char root[PATH_MAX];
static size_t root_length;
static int counted[CLASSES];
static int armed = -1, first, last, mode, error_number;
static int delay_us[CLASSES];

/* Count and fault only what lies below this directory. */
void fault_watch(const char *directory) {
    snprintf(root, sizeof root, "%s", directory);
    root_length = strlen(root);
    memset(counted, 0, sizeof counted);
}

/* Fault calls number `from` to `to` (from 1) of one class. */
void fault_arm(int class_, int from, int to, int how, int number) {
    first = from, last = to, mode = how, error_number = number;
    armed = class_;
}

void fault_disarm(void) { armed = -1; }
int fault_count(int class_) { return counted[class_]; }
void fault_delay(int class_, int microseconds) { delay_us[class_] = microseconds; }

static int below(const char *path) {
    const char *name = strrchr(path, '/');
    return root_length && strncmp(path, root, root_length) == 0 &&
           !(name && strcmp(name, "/lock.mdb") == 0);
}

static int watched(int fd) {
    char link[64], path[PATH_MAX];
    if (!root_length) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return below(path);
}

/* Whether this call is to be faulted; 2 for the calls that follow the first one. */
static int hit(int class_) {
    int number = __atomic_add_fetch(&counted[class_], 1, __ATOMIC_SEQ_CST);
    if (delay_us[class_]) usleep(delay_us[class_]);
    if (class_ != armed || number < first || number > last) return 0;
    return number == first ? 1 : 2;
}

static int failed(void) {
    errno = error_number;
    return -1;
}

/* One call as it came; `length` counts bytes, or parts of a vector. */
struct call {
    enum { PLAIN, AT, VECTOR, SYNC, DATASYNC, MOVE, MOVE_AT } kind;
    int fd, other_fd;
    const void *data;
    const char *from, *to;
    size_t length;
    off64_t offset;
};

#define REAL(name, type, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static ssize_t do_write(const struct call *c, size_t length) {
    REAL("write", ssize_t, int, const void *, size_t);
    return real(c->fd, c->data, length);
}

static ssize_t do_pwrite(const struct call *c, size_t length) {
    REAL("pwrite64", ssize_t, int, const void *, size_t, off64_t);
    return real(c->fd, c->data, length, c->offset);
}

static ssize_t do_writev(const struct call *c, size_t length) {
    REAL("writev", ssize_t, int, const struct iovec *, int);
    return length ? real(c->fd, c->data, (int)length) : 0;
}

static ssize_t do_fsync(const struct call *c) {
    REAL("fsync", int, int);
    return real(c->fd);
}

static ssize_t do_fdatasync(const struct call *c) {
    REAL("fdatasync", int, int);
    return real(c->fd);
}

static ssize_t do_rename(const struct call *c) {
    REAL("rename", int, const char *, const char *);
    return real(c->from, c->to);
}

static ssize_t do_renameat(const struct call *c) {
    REAL("renameat", int, int, const char *, int, const char *);
    return real(c->fd, c->from, c->other_fd, c->to);
}

static ssize_t perform(const struct call *c, size_t length) {
    switch (c->kind) {
    case PLAIN: return do_write(c, length);
    case AT: return do_pwrite(c, length);
    case VECTOR: return do_writev(c, length);
    case SYNC: return do_fsync(c);
    case DATASYNC: return do_fdatasync(c);
    case MOVE: return do_rename(c);
    default: return do_renameat(c);
    }
}

static ssize_t faulted(const struct call *c, int turn) {
    int divisible = c->kind == PLAIN || c->kind == AT || c->kind == VECTOR;
    switch (mode) {
    case DONE: perform(c, c->length); return failed();
    case SHORT: /* what a disk does that fills up: a part, and then nothing more */
        if (divisible && turn == 1 && c->length > 1) return perform(c, c->length / 2);
        return failed();
    case KILL_HALF_WAY:
        if (divisible) perform(c, c->length / 2);
        _exit(77);
    case KILL_AFTER: perform(c, c->length); _exit(77);
    default: return failed();
    }
}

static ssize_t take(const struct call *c, int class_, int mine) {
    int turn = mine ? hit(class_) : 0;
    return turn ? faulted(c, turn) : perform(c, c->length);
}

ssize_t write(int fd, const void *data, size_t length) {
    struct call c = {.kind = PLAIN, .fd = fd, .data = data, .length = length};
    return take(&c, WRITE, watched(fd));
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t at) {
    struct call c = {.kind = AT, .fd = fd, .data = data, .length = length, .offset = at};
    return take(&c, WRITE, watched(fd));
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t at) {
    return pwrite64(fd, data, length, at);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    struct call c = {.kind = VECTOR, .fd = fd, .data = parts, .length = (size_t)count};
    return take(&c, WRITE, watched(fd));
}

int fdatasync(int fd) {
    struct call c = {.kind = DATASYNC, .fd = fd};
    return (int)take(&c, FDATASYNC, watched(fd));
}

int fsync(int fd) {
    struct call c = {.kind = SYNC, .fd = fd};
    return (int)take(&c, FSYNC, watched(fd));
}

int rename(const char *from, const char *to) {
    struct call c = {.kind = MOVE, .from = from, .to = to};
    return (int)take(&c, RENAME, below(from));
}

int renameat(int fd, const char *from, int other_fd, const char *to) {
    struct call c = {.kind = MOVE_AT, .fd = fd, .from = from, .other_fd = other_fd, .to = to};
    return (int)take(&c, RENAME, below(from));
}
