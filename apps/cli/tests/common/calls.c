// Kills the process at its call number KILL_AT that changes a file, or lets that call fail with the
// errno FAIL_WITH. Writes the number of its calls to COUNT_FILE at the end. For LD_PRELOAD.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long calls;
static long at;
static int error;

__attribute__((constructor)) static void begin(void) {
  const char *value = getenv("KILL_AT");
  at = value ? atol(value) : -1;
  value = getenv("FAIL_WITH");
  error = value ? atoi(value) : 0;
}

// Whether this call fails.
static int fails(void) {
  long call = atomic_fetch_add(&calls, 1) + 1;
  if (at <= 0 || call != at) return 0;
  if (!error) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }
  errno = error;
  return 1;
}

__attribute__((destructor)) static void end(void) {
  const char *name = getenv("COUNT_FILE");
  FILE *file = name ? fopen(name, "w") : NULL;
  if (!file) return;
  fprintf(file, "%ld", (long)calls);
  fclose(file);
}

#define CALL(type, name, args, given)                  \
  type name args {                                     \
    static type(*real) args;                           \
    if (!real) real = dlsym(RTLD_NEXT, #name);         \
    return fails() ? -1 : real given;                  \
  }

CALL(ssize_t, pwrite64, (int f, const void *b, size_t n, off64_t o), (f, b, n, o))
CALL(ssize_t, pwrite, (int f, const void *b, size_t n, off_t o), (f, b, n, o))
CALL(int, fsync, (int f), (f))
CALL(int, fdatasync, (int f), (f))
CALL(int, ftruncate64, (int f, off64_t n), (f, n))
CALL(int, ftruncate, (int f, off_t n), (f, n))
CALL(int, rename, (const char *a, const char *b), (a, b))
CALL(int, unlink, (const char *a), (a))
CALL(int, unlinkat, (int d, const char *a, int f), (d, a, f))
CALL(int, mkdir, (const char *a, mode_t m), (a, m))
CALL(int, rmdir, (const char *a), (a))
CALL(int, link, (const char *a, const char *b), (a, b))
CALL(int, fallocate64, (int f, int m, off64_t o, off64_t n), (f, m, o, n))

ssize_t write(int f, const void *b, size_t n) {
  static ssize_t (*real)(int, const void *, size_t);
  struct stat s;
  if (!real) real = dlsym(RTLD_NEXT, "write");
  if (f > 2 && !fstat(f, &s) && S_ISREG(s.st_mode) && fails()) return -1;
  return real(f, b, n);
}

int open64(const char *path, int flags, ...) {
  static int (*real)(const char *, int, ...);
  int mode = 0;
  if (!real) real = dlsym(RTLD_NEXT, "open64");
  if (flags & (O_CREAT | O_TMPFILE)) {
    va_list more;
    va_start(more, flags);
    mode = va_arg(more, int);
    va_end(more);
  }
  int is_file = strncmp(path, "/dev", 4) && strncmp(path, "/proc", 5);
  if ((flags & (O_CREAT | O_TRUNC)) && is_file && fails()) return -1;
  return real(path, flags, mode);
}
