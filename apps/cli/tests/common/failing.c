/* Counts the calls of a process that change files, and fails or kills it at one of them: CALL is its
   number from 1, FAIL_WITH an errno, or nothing for a kill. Tests load it with LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long calls;

static int is_hit(void) {
  const char *call = getenv("CALL"), *error = getenv("FAIL_WITH"), *mark = getenv("MARK");
  if (!call || atomic_fetch_add(&calls, 1) + 1 != atol(call)) return 0;
  if (mark) symlink("hit", mark);
  if (!error) kill(getpid(), SIGKILL);
  errno = atoi(error);
  return 1;
}

#define CHANGES(type, name, parameters, arguments)             \
  type name parameters {                                       \
    static type(*real) parameters;                             \
    if (!real) real = dlsym(RTLD_NEXT, #name);                 \
    return is_hit() ? -1 : real arguments;                     \
  }

CHANGES(ssize_t, pwrite64, (int f, const void *b, size_t l, off64_t o), (f, b, l, o))
CHANGES(int, fsync, (int f), (f))
CHANGES(int, fdatasync, (int f), (f))
CHANGES(int, ftruncate64, (int f, off64_t l), (f, l))
CHANGES(int, rename, (const char *a, const char *b), (a, b))
CHANGES(int, renameat, (int d, const char *a, int e, const char *b), (d, a, e, b))
CHANGES(int, unlink, (const char *a), (a))
CHANGES(int, unlinkat, (int d, const char *a, int f), (d, a, f))
CHANGES(int, mkdir, (const char *a, mode_t m), (a, m))
CHANGES(int, rmdir, (const char *a), (a))
CHANGES(int, linkat, (int d, const char *a, int e, const char *b, int f), (d, a, e, b, f))

ssize_t write(int f, const void *b, size_t l) {
  static ssize_t (*real)(int, const void *, size_t);
  struct stat s;
  if (!real) real = dlsym(RTLD_NEXT, "write");
  return !fstat(f, &s) && S_ISREG(s.st_mode) && is_hit() ? -1 : real(f, b, l);
}

int open64(const char *path, int flags, ...) {
  static int (*real)(const char *, int, ...);
  va_list more;
  int mode = 0;
  if (!real) real = dlsym(RTLD_NEXT, "open64");
  va_start(more, flags);
  if (flags & (O_CREAT | O_TMPFILE)) mode = va_arg(more, int);
  va_end(more);
  int changes = (flags & (O_CREAT | O_TRUNC)) && strncmp(path, "/dev", 4) && strncmp(path, "/proc", 5);
  return changes && is_hit() ? -1 : real(path, flags, mode);
}
