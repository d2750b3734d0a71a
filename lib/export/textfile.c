/* SPDX-License-Identifier: MIT */
/* A file that is always whole: written aside, then renamed over the old one. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h> /* renameat */
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <pcpu_stat/export.h>

#define MODE 0644 /* the collector is another user as a rule */

/* Names to try before giving up: each is taken with next to no chance. */
#define TRIES 100u

static int write_all(void *ctx, const char *buf, size_t len)
{
	const int *fd = ctx;

	while (len) {
		ssize_t n = write(*fd, buf, len);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return -EIO; /* rather than for ever */
		if (n > 0) {
			buf += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

/* Hidden and not *.prom, so that collectors pass by; the length does not depend on the file's name. */
static const char prefix[] = ".pcpu_stat-", suffix[] = ".tmp";
#define DIGITS	   16u
#define NAME_BYTES (sizeof(prefix) - 1 + DIGITS + sizeof(suffix))

/* A name unlikely to be taken. That it is not, O_EXCL says. */
static void aside_name(char *name)
{
	static uint32_t calls;
	struct timespec now = {0};
	uint64_t mix;
	char *at = name;

	clock_gettime(CLOCK_MONOTONIC, &now);
	mix = (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 30 ^ (uint64_t)getpid() << 40;
	mix += (uint64_t)__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) << 20;
	mix ^= (uint64_t)(uintptr_t)&now; /* differs by thread, and by process where addresses are random */
	/* splitmix64's finalizer (Steele, Lea, Flood 2014): every bit comes to depend on all. */
	mix = (mix ^ mix >> 30) * 0xbf58476d1ce4e5b9u;
	mix = (mix ^ mix >> 27) * 0x94d049bb133111ebu;
	mix ^= mix >> 31;
	memcpy(at, prefix, sizeof(prefix) - 1);
	at += sizeof(prefix) - 1;
	for (unsigned i = 0; i < DIGITS; i++, mix >>= 4)
		*at++ = "0123456789abcdef"[mix & 15];
	memcpy(at, suffix, sizeof(suffix));
}

/* A new file in @dir; its name goes to @name. */
static int open_aside(int dir, char *name)
{
	int fd = -1;

	for (unsigned i = 0; i < TRIES && fd < 0; i++) {
		aside_name(name);
		fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, MODE);
		if (fd < 0 && errno != EEXIST && errno != EINTR)
			break;
	}
	return fd < 0 ? -errno : fd;
}

/* Renaming would put a file where a device, a pipe or a socket is. */
static int check_target(int dir, const char *base)
{
	struct stat found;

	if (fstatat(dir, base, &found, 0))
		return 0; /* not there, or a link to nowhere; or renaming will say what is wrong */
	if (S_ISDIR(found.st_mode))
		return -EISDIR;
	return S_ISREG(found.st_mode) ? 0 : -EINVAL;
}

static int export_at(struct pcpu_tree *tree, int dir, const char *base)
{
	char name[NAME_BYTES];
	int r = check_target(dir, base), fd;

	if (r)
		return r;
	fd = open_aside(dir, name);
	if (fd < 0)
		return fd;
	r = pcpu_export_prometheus(tree, write_all, &fd);
	/* Some file systems find out only now that there is no room, and after a crash of the machine some would
	 * have the name and not yet the content. */
	if (!r && fsync(fd))
		r = -errno;
	close(fd);
	if (!r && renameat(dir, name, dir, base))
		r = -errno;
	if (r)
		unlinkat(dir, name, 0);
	return r;
}

/* By its directory and its name there, so that both files are in the same one whatever is renamed meanwhile. */
static int export_to(struct pcpu_tree *tree, const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;
	size_t bytes = (size_t)(base - path);
	char parent[PATH_MAX] = ".";
	int dir, r;

	if (!base[0])
		return -EINVAL;
	if (bytes >= sizeof(parent))
		return -ENAMETOOLONG;
	if (bytes) {
		memcpy(parent, path, bytes);
		parent[bytes] = '\0';
	}
	dir = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	r = export_at(tree, dir, base);
	close(dir);
	return r;
}

int pcpu_export_textfile(struct pcpu_tree *tree, const char *path)
{
	int saved = errno, r;

	if (!tree || !path)
		return -EINVAL;
	r = export_to(tree, path);
	errno = saved;
	return r;
}
