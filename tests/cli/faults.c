/* Lets one call of the system fail: the n-th one, after `fault_arm`, that concerns a file of the catalogue. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static long left, seen;
static int with;

void fault_arm(long number, int code) { left = number; seen = 0; with = code; }
long fault_seen(void) { return seen; }

static int named(const char *path) { return path && strstr(path, "catalog.sqlite") != NULL; }

static int of_catalogue(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, path, sizeof path - 1);
  if (size < 0) return 0;
  path[size] = 0;
  return named(path);
}

static int fails(int concerned) {
  if (!with || !concerned) return 0;
  if (++seen != left) return 0;
  errno = with;
  return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
ssize_t pread64(int fd, void *to, size_t size, off64_t at) { return fails(of_catalogue(fd)) ? -1 : REAL(pread64)(fd, to, size, at); }
ssize_t pwrite64(int fd, const void *of, size_t size, off64_t at) { return fails(of_catalogue(fd)) ? -1 : REAL(pwrite64)(fd, of, size, at); }
ssize_t pread(int fd, void *to, size_t size, off_t at) { return fails(of_catalogue(fd)) ? -1 : REAL(pread)(fd, to, size, at); }
ssize_t pwrite(int fd, const void *of, size_t size, off_t at) { return fails(of_catalogue(fd)) ? -1 : REAL(pwrite)(fd, of, size, at); }
int fsync(int fd) { return fails(of_catalogue(fd)) ? -1 : REAL(fsync)(fd); }
int fdatasync(int fd) { return fails(of_catalogue(fd)) ? -1 : REAL(fdatasync)(fd); }
int ftruncate(int fd, off_t size) { return fails(of_catalogue(fd)) ? -1 : REAL(ftruncate)(fd, size); }
int ftruncate64(int fd, off64_t size) { return fails(of_catalogue(fd)) ? -1 : REAL(ftruncate64)(fd, size); }

int open(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  int mode = va_arg(rest, int);
  va_end(rest);
  return fails(named(path)) ? -1 : REAL(open)(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  int mode = va_arg(rest, int);
  va_end(rest);
  return fails(named(path)) ? -1 : REAL(open64)(path, flags, mode);
}
