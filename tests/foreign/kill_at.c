/* Kills the process before one of its calls that change files or names. To be preloaded.
 *   KILL_AT=n   before the n-th call from the start; or the process calls foreign_kill_at(n)
 *   COUNT_TO=f  at the end, the number of calls goes to the file f */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static long calls, at;

long foreign_kill_at(long n) {
  long before = calls;
  calls = 0;
  at = n;
  return before;
}

static void call(void) {
  if (__atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST) == at) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }
}

__attribute__((constructor)) static void begin(void) {
  const char *n = getenv("KILL_AT");
  if (n) at = atol(n);
}

__attribute__((destructor)) static void end(void) {
  const char *path = getenv("COUNT_TO");
  FILE *file = path ? fopen(path, "w") : NULL;
  if (file) {
    fprintf(file, "%ld", calls);
    fclose(file);
  }
}

#define COUNTED(type, name, parameters, arguments)       \
  type name parameters {                                 \
    static type(*real) parameters;                       \
    if (!real) real = dlsym(RTLD_NEXT, #name);           \
    call();                                              \
    return real arguments;                               \
  }
COUNTED(ssize_t, pwrite, (int fd, const void *b, size_t n, off_t o), (fd, b, n, o))
COUNTED(ssize_t, pwrite64, (int fd, const void *b, size_t n, off64_t o), (fd, b, n, o))
COUNTED(int, fsync, (int fd), (fd))
COUNTED(int, fdatasync, (int fd), (fd))
COUNTED(int, ftruncate, (int fd, off_t n), (fd, n))
COUNTED(int, ftruncate64, (int fd, off64_t n), (fd, n))
COUNTED(int, unlink, (const char *p), (p))
COUNTED(int, unlinkat, (int d, const char *p, int f), (d, p, f))
COUNTED(int, rename, (const char *a, const char *b), (a, b))
COUNTED(int, link, (const char *a, const char *b), (a, b))

ssize_t write(int fd, const void *b, size_t n) {
  static ssize_t (*real)(int, const void *, size_t);
  struct stat s;
  if (!real) real = dlsym(RTLD_NEXT, "write");
  if (fd > 2 && !fstat(fd, &s) && S_ISREG(s.st_mode)) call();
  return real(fd, b, n);
}

#define OPEN(name)                                                                                \
  int name(const char *path, int flags, ...) {                                                    \
    static int (*real)(const char *, int, ...);                                                   \
    va_list more;                                                                                 \
    int mode;                                                                                     \
    if (!real) real = dlsym(RTLD_NEXT, #name);                                                    \
    va_start(more, flags);                                                                        \
    mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0;                                 \
    va_end(more);                                                                                 \
    if (flags & (O_CREAT | O_TRUNC) && strncmp(path, "/dev/", 5)) call();                         \
    return real(path, flags, mode);                                                               \
  }
OPEN(open)
OPEN(open64)
