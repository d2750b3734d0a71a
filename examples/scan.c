/* SPDX-License-Identifier: MIT */
/**
 * @file scan.c
 * Count what is in directory trees, with many threads adding to the same few numbers.
 *
 * Workers take directories from one queue, read every file in them, and add to eight statistics at every file.
 * With ordinary shared counters these adds would fight for the same cache lines; here each CPU adds to memory
 * of its own, so the program need not collect numbers per thread and merge them.
 *
 * The statistics are those of a pcpu_tree with a node per directory, down to a depth; what lies deeper counts
 * for the directory at that depth. An add goes to one node alone and costs the same at any depth, and still the
 * root, read EXACT, holds the totals, and every node what is in the directory and below. The main thread reads
 * them at any moment and shows how far the scan has come and which directories it finds most in. Eight plain
 * pcpu_counters take the same adds; in the end the two must agree.
 *
 * The totals, and those of each directory, mean exactly what find and wc say, and --verify asks them:
 *
 *	files		find -H PATH... -type f			each name of a hard-linked file counts
 *	directories	find -H PATH... -type d			also those that cannot be read
 *	links		find -H PATH... -type l			counted, never followed
 *	others		any other type				sockets, pipes, devices: never opened
 *	empty		find -H PATH... -type f -size 0c
 *	bytes, lines, words	wc -c, -l, -w of the files in the C locale, those that can be read
 *
 * -H: a PATH that is itself a symbolic link is followed. File systems are crossed, as find does. A file that
 * vanishes between being listed and being opened is not counted. What cannot be read is reported, and makes
 * the exit status 1, as with find and wc.
 *
 * Reading order: totals, places, text, directories, queue, workers, progress, verify, main.
 */
#define _GNU_SOURCE /* DT_* of readdir, getopt_long, pipe2 */
#define PCPU_STAT_INLINE
#include <pcpu_stat/pcpu_stat.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_WORKERS 1024

/* Large enough that system calls do not count, small enough to stay in a core's own cache. Multiple of 8. */
#define READ_SIZE ((size_t)256 * 1024)

/* Names are handed to wc as paths up to this length, which is what open() takes with its final zero. */
#ifndef PATH_MAX
#define PATH_MAX 4096
#endif

extern char **environ;

/* ---- Totals ---- */

enum total {
	TOTAL_FILES,
	TOTAL_DIRECTORIES,
	TOTAL_LINKS,
	TOTAL_OTHERS,
	TOTAL_EMPTY,
	TOTAL_BYTES,
	TOTAL_LINES,
	TOTAL_WORDS,
	NR_TOTALS
};

/*
 * Batches: an add of the batch or more goes to the shared line at once, so the batch must be well above the
 * usual amount. One read adds at most READ_SIZE to each of bytes, lines and words; the others go by one, for
 * which the automatic batch (0) is made.
 */
static const struct {
	const char *name;
	const char *judge; /* who decides about it with --verify */
	uint32_t batch;
} total_facts[NR_TOTALS] = {
	[TOTAL_FILES] = {"files", "find", 0},
	[TOTAL_DIRECTORIES] = {"directories", "find", 0},
	[TOTAL_LINKS] = {"links", "find", 0},
	[TOTAL_OTHERS] = {"others", "find", 0},
	[TOTAL_EMPTY] = {"empty", "find", 0},
	[TOTAL_BYTES] = {"bytes", "wc", 16 * READ_SIZE},
	[TOTAL_LINES] = {"lines", "wc", 16 * READ_SIZE},
	[TOTAL_WORDS] = {"words", "wc", 16 * READ_SIZE},
};

static struct pcpu_counter totals[NR_TOTALS];
static struct pcpu_tree *tree; /* with the same statistics */
static struct pcpu_node *root;

/* What could not be opened or read. Rare, so that an ordinary atomic will do. */
static atomic_uint nr_errors;

static int totals_init(void)
{
	struct pcpu_stat_desc stats[NR_TOTALS] = {{0}};
	struct pcpu_tree_attr tree_attr = {
		.size = sizeof(tree_attr),
		.name = "scan",
		.stats = stats,
		.nr_stats = NR_TOTALS,
		.max_nodes = 1 << 20,
	};
	int error;

	for (unsigned i = 0; i < NR_TOTALS; i++) {
		struct pcpu_counter_attr attr = {.size = sizeof(attr), .batch = total_facts[i].batch};

		error = pcpu_counter_init(&totals[i], &attr);
		if (error != 0)
			return error;
		stats[i].name = total_facts[i].name;
	}
	error = pcpu_tree_create(&tree, &tree_attr);
	if (error == 0)
		root = pcpu_tree_root(tree);
	return error;
}

static void totals_destroy(void)
{
	pcpu_tree_destroy(tree);
	for (unsigned i = 0; i < NR_TOTALS; i++)
		pcpu_counter_destroy(&totals[i]);
}

/* ---- Places: directories with a node of their own ---- */

struct place {
	struct place *next;
	struct pcpu_node *node;
	size_t depth;	/* 0 for paths from the command line */
	int64_t before; /* bytes, when the main thread last looked */
	char path[];
};

/* All of them, newest first. They stay until the program ends. */
static _Atomic(struct place *) places;

static size_t max_depth = 3; /* of places */

/* Bytes of the UTF-8 character that begins here; 0: none does. */
static size_t utf8_length(const unsigned char *at)
{
	unsigned length = *at < 0x80   ? 1
			  : *at < 0xc2 ? 0
			  : *at < 0xe0 ? 2
			  : *at < 0xf0 ? 3
			  : *at < 0xf5 ? 4
				       : 0;

	for (unsigned i = 1; i < length; i++)
		if ((at[i] & 0xc0) != 0x80) /* also the final zero */
			return 0;
	/* Longer than need be, halves of UTF-16 pairs, beyond the last character. */
	if ((*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] > 0x9f) || (*at == 0xf0 && at[1] < 0x90) ||
	    (*at == 0xf4 && at[1] > 0x8f))
		return 0;
	return length;
}

#define NODE_NAME_MAX 63

/*
 * The name of a node for a directory. Nodes have names of 1..63 bytes of UTF-8 without a slash; directories may
 * have any bytes, 255 of them, and paths from the command line have slashes. What a node's name cannot hold,
 * what terminals act upon, and the percent sign itself are written as %XX. What gets too long is cut and ends
 * in %~ and a hash of it all, as does whatever must differ from a name that is there (attempt above 0). A
 * percent sign that stands for itself is never followed by ~, so each name has one meaning.
 */
static void node_name(char name[NODE_NAME_MAX + 1], const char *of, unsigned attempt)
{
	enum { TAIL = 2 + 16 };
	uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
	const unsigned char *at = (const unsigned char *)of;
	size_t length = 0, cut = 0;
	bool whole = attempt == 0;

	while (*at != '\0') {
		size_t taken = utf8_length(at);
		bool escaped = taken == 0 || *at == '%' || *at == '/' || *at < ' ' || *at == 0x7f;
		size_t added = escaped ? 3 : taken;

		taken = escaped ? 1 : taken;
		if (length + added > NODE_NAME_MAX)
			whole = false;
		else if (escaped)
			snprintf(name + length, 4, "%%%02X", *at);
		else
			memcpy(name + length, at, taken);
		if (length + added <= NODE_NAME_MAX)
			length += added;
		else
			added = NODE_NAME_MAX; /* nothing fits any more */
		if (length <= NODE_NAME_MAX - TAIL)
			cut = length;
		for (; taken > 0; taken--)
			hash = (hash ^ *at++) * UINT64_C(0x100000001b3);
	}
	name[length] = '\0';
	hash = (hash ^ attempt) * UINT64_C(0x100000001b3);
	if (!whole)
		snprintf(name + cut, TAIL + 1, "%%~%016" PRIx64, hash);
}

/* Make a place. NULL: no memory or no more nodes; what is found there then counts for the parent. */
static struct place *place_new(const struct place *parent, size_t depth, const char *name)
{
	size_t prefix = parent != NULL ? strlen(parent->path) : 0;
	struct place *place = malloc(sizeof(*place) + prefix + strlen(name) + 2);
	char node[NODE_NAME_MAX + 1];
	int error = -EEXIST;

	if (place == NULL)
		return NULL;
	/* The same path twice on the command line, or in a listing that changes while it is read. */
	for (unsigned attempt = 0; error == -EEXIST && attempt < 1000; attempt++) {
		node_name(node, name, attempt);
		error = pcpu_node_create(&place->node, parent != NULL ? parent->node : root, node);
	}
	if (error != 0) {
		free(place);
		return NULL;
	}
	place->depth = depth;
	place->before = 0;
	if (prefix > 0) {
		memcpy(place->path, parent->path, prefix);
		if (parent->path[prefix - 1] != '/')
			place->path[prefix++] = '/';
	}
	strcpy(place->path + prefix, name);
	place->next = atomic_load(&places);
	while (!atomic_compare_exchange_weak(&places, &place->next, place))
		;
	return place;
}

static void places_destroy(void)
{
	for (struct place *place = atomic_load(&places), *next; place != NULL; place = next) {
		next = place->next;
		free(place);
	}
}

/* ---- Text: lines and words ---- */

/*
 * Eight bytes at a time in one 64-bit word, the first byte lowest. A word of text is a run of bytes that are
 * no spaces and that holds at least one byte which makes it a word. With 0xff in each byte of a run and 0x80
 * in each byte that makes it a word, the sum of both carries out of the run exactly if it is one; the carry
 * lands in the space behind the run, where it is counted, or leaves the eight bytes and is the carry into the
 * next eight. No branch depends on the text.
 */
#define EACH_BYTE(value) (UINT64_C(0x0101010101010101) * (uint64_t)(value))

struct text {
	unsigned in_word; /* the bytes so far end in a word that is not counted yet: 0 or 1 */
	int64_t lines;
	int64_t words;
};

/*
 * POSIX makes a word of any bytes that are no spaces. GNU wc before 9.5 and others demand a byte that prints.
 * 0x80 in each byte where all bytes make words, 0 where only those that print do; set once at start.
 */
static uint64_t unprintable_makes_words = EACH_BYTE(0x80);

/* 0x80 in each byte of eight that lies in first..last, both below 0x80. No carry crosses into another byte.
 */
static inline uint64_t bytes_within(uint64_t eight, unsigned first, unsigned last)
{
	uint64_t low = eight & EACH_BYTE(0x7f);

	return (low + EACH_BYTE(0x80 - first)) & ~(low + EACH_BYTE(0x7f - last)) & ~eight & EACH_BYTE(0x80);
}

/*
 * Look at eight bytes. Bytes that end a line or a word add 1 to their byte of *lines and *words; the return
 * value is the sum whose carries are the words: see above.
 */
static inline unsigned count_eight(uint64_t eight, unsigned in_word, uint64_t *lines, uint64_t *words,
				   uint64_t *carries)
{
	uint64_t space = bytes_within(eight, '\t', '\r') | bytes_within(eight, ' ', ' ');
	uint64_t makes_word = bytes_within(eight, '!', '~') | (unprintable_makes_words & ~space);
	uint64_t ends = space >> 7;
	uint64_t runs = ~(ends * 0xff);
	uint64_t sum;
	unsigned carry = __builtin_add_overflow(runs, makes_word, &sum);

	carry |= __builtin_add_overflow(sum, (uint64_t)in_word, &sum);
	*lines += bytes_within(eight, '\n', '\n') >> 7;
	*words += sum & ends;
	*carries = sum;
	return carry;
}

static inline uint64_t load_eight(const unsigned char *from)
{
	uint64_t eight;

	memcpy(&eight, from, sizeof(eight));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	eight = __builtin_bswap64(eight);
#endif
	return eight;
}

/* The sum of the eight bytes of a word. */
static inline int64_t sum_of_bytes(uint64_t eight)
{
	uint64_t pairs = (eight & UINT64_C(0x00ff00ff00ff00ff)) + (eight >> 8 & UINT64_C(0x00ff00ff00ff00ff));

	return (int64_t)(pairs * UINT64_C(0x0001000100010001) >> 48);
}

/* Count the next part of a text, of any length. A word that ends with the text is counted by text_end(). */
static void text_part(struct text *text, const unsigned char *bytes, size_t length)
{
	unsigned in_word = text->in_word;
	uint64_t carries;

	while (length >= 8) {
		/* A byte of lines and words holds at most 255. */
		size_t rounds = length / 8 < 255 ? length / 8 : 255;
		uint64_t lines = 0, words = 0;

		length -= rounds * 8;
		for (; rounds > 0; rounds--, bytes += 8)
			in_word = count_eight(load_eight(bytes), in_word, &lines, &words, &carries);
		text->lines += sum_of_bytes(lines);
		text->words += sum_of_bytes(words);
	}
	if (length > 0) {
		/* Spaces behind the last bytes: what is carried into the first of them is still to be
		 * counted. */
		unsigned char last[8] = "        ";
		uint64_t lines = 0, words = 0;

		memcpy(last, bytes, length);
		count_eight(load_eight(last), in_word, &lines, &words, &carries);
		in_word = carries >> 8 * length & 1;
		text->lines += sum_of_bytes(lines);
		text->words += sum_of_bytes(words) - in_word;
	}
	text->in_word = in_word;
}

static void text_end(struct text *text)
{
	text->words += text->in_word;
	text->in_word = 0;
}

/* ---- Directories ---- */

/*
 * A directory that is queued or being scanned, or above one that is. Children are opened relative to their
 * parent, so that no path is too long and no renamed or replaced part of a path leads elsewhere.
 */
struct directory {
	struct directory *parent; /* NULL: a path from the command line, perhaps no directory at all */
	struct directory *next;	  /* in the queue, or in a list on its way there */
	size_t depth;		  /* 0 for paths from the command line */
	struct pcpu_node *node;	  /* where to count: its own, or that of the nearest directory above */
	struct place *place;	  /* its own, or NULL */
	atomic_size_t references; /* children, and 1 until it is scanned itself: then it is freed */
	atomic_size_t unopened;	  /* children not yet opened, and 1 until all are known: then fd is closed */
	int fd;			  /* to open children; -1 where it was not kept */
	dev_t device;
	ino_t inode;
	char name[]; /* within the parent; for depth 0 a path */
};

/*
 * How many more descriptors may be kept open for children to come. A directory that gets none costs its
 * children the way from the top; without this bound, a tree both deep and wide would use up all descriptors.
 */
static atomic_int descriptors_left;

static struct directory *directory_new(struct directory *parent, const char *name)
{
	size_t length = strlen(name) + 1;
	struct directory *directory = malloc(sizeof(*directory) + length);

	if (directory == NULL)
		return NULL;
	directory->parent = parent;
	directory->next = NULL;
	directory->depth = parent != NULL ? parent->depth + 1 : 0;
	directory->node = parent != NULL ? parent->node : root;
	directory->place = NULL;
	atomic_init(&directory->references, 1);
	atomic_init(&directory->unopened, 1);
	directory->fd = -1;
	directory->device = 0;
	directory->inode = 0;
	memcpy(directory->name, name, length);
	if (parent != NULL) {
		atomic_fetch_add(&parent->references, 1);
		atomic_fetch_add(&parent->unopened, 1);
	}
	return directory;
}

/* Give a directory its node, before anything in it is counted. */
static void directory_settle(struct directory *directory)
{
	struct directory *parent = directory->parent;

	if (directory->depth > max_depth || (parent != NULL && parent->place == NULL))
		return;
	directory->place =
		place_new(parent != NULL ? parent->place : NULL, directory->depth, directory->name);
	if (directory->place != NULL)
		directory->node = directory->place->node;
}

/* A child was opened, or there will be no more children. */
static void directory_put_descriptor(struct directory *directory)
{
	if (atomic_fetch_sub(&directory->unopened, 1) == 1 && directory->fd >= 0) {
		close(directory->fd);
		atomic_fetch_add(&descriptors_left, 1);
	}
}

static void directory_put(struct directory *directory)
{
	while (directory != NULL && atomic_fetch_sub(&directory->references, 1) == 1) {
		struct directory *parent = directory->parent;

		free(directory);
		directory = parent;
	}
}

/* Keep a descriptor for the children, if there are any left. Before the first child is shared. */
static void directory_keep_descriptor(struct directory *directory, int fd)
{
	if (atomic_fetch_sub(&descriptors_left, 1) > 0)
		directory->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (directory->fd < 0)
		atomic_fetch_add(&descriptors_left, 1);
}

static int open_retry(int at, const char *name, int flags)
{
	int fd;

	do
		fd = openat(at, name, flags | O_CLOEXEC | O_NOCTTY);
	while (fd < 0 && errno == EINTR);
	return fd;
}

/* Open a directory by every name from the top down. Returns a descriptor, or -1 and errno. */
static int directory_open_from_top(const struct directory *directory)
{
	size_t depth = directory->depth;
	const struct directory **way = malloc((depth + 1) * sizeof(*way));
	int fd = AT_FDCWD;

	if (way == NULL)
		return -1;
	for (size_t i = depth + 1; i-- > 0; directory = directory->parent)
		way[i] = directory;
	for (size_t i = 0; i <= depth; i++) {
		int below = open_retry(fd, way[i]->name, O_RDONLY | O_DIRECTORY | (i > 0 ? O_NOFOLLOW : 0));
		int error = errno;

		if (fd != AT_FDCWD)
			close(fd);
		errno = error;
		fd = below;
		if (fd < 0)
			break;
	}
	free(way);
	return fd;
}

static int directory_open(struct directory *directory)
{
	struct directory *parent = directory->parent;
	int fd, error;

	if (parent == NULL)
		return open_retry(AT_FDCWD, directory->name, O_RDONLY | O_DIRECTORY);
	if (parent->fd >= 0)
		fd = open_retry(parent->fd, directory->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	else
		fd = directory_open_from_top(directory);
	error = errno;
	directory_put_descriptor(parent);
	errno = error;
	return fd;
}

/* A mount can make a directory its own descendant. find reports that, counts nothing, and goes on. */
static bool directory_is_own_ancestor(const struct directory *directory)
{
	const struct directory *above = directory->parent;

	while (above != NULL && (above->inode != directory->inode || above->device != directory->device))
		above = above->parent;
	return above != NULL;
}

/* Report trouble with an entry of a directory, or with the directory itself where name is NULL. */
static void report(const struct directory *directory, const char *name, int error)
{
	size_t size = name != NULL ? strlen(name) + 1 : 1;
	char *path, *end;

	atomic_fetch_add(&nr_errors, 1);
	for (const struct directory *at = directory; at != NULL; at = at->parent)
		size += strlen(at->name) + 1;
	path = malloc(size);
	if (path == NULL) {
		fprintf(stderr, "scan: %s: %s\n", name != NULL ? name : directory->name, strerror(error));
		return;
	}
	/* From the end to the beginning, since directories know their parents alone. */
	end = path + size;
	*--end = '\0';
	for (const struct directory *at = directory; name != NULL || at != NULL;) {
		const char *part = name != NULL ? name : at->name;
		size_t length = strlen(part);

		if (*end != '\0' && length > 0 && part[length - 1] != '/')
			*--end = '/';
		end -= length;
		memcpy(end, part, length);
		if (name != NULL)
			name = NULL;
		else
			at = at->parent;
	}
	for (char *byte = end; *byte != '\0'; byte++)
		if ((unsigned char)*byte < ' ' || *byte == 0x7f)
			*byte = '?';
	fprintf(stderr, "scan: %s: %s\n", end, strerror(error));
	free(path);
}

/* ---- The queue ---- */

/* Last in, first out: a tree is gone through in depth, which keeps the queue and the open descriptors few. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;	 /* for workers: something to do, or nothing will ever be */
	pthread_cond_t finished; /* for the main thread; on the monotonic clock */
	struct directory *first;
	size_t unfinished; /* directories queued or being scanned */
	unsigned waiting;  /* workers */
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* Put a list of directories, linked by next from first to last, in front of the queue. */
static void queue_push(struct directory *first, struct directory *last, size_t nr)
{
	unsigned waiting;

	pthread_mutex_lock(&queue.lock);
	last->next = queue.first;
	queue.first = first;
	queue.unfinished += nr;
	waiting = queue.waiting;
	pthread_mutex_unlock(&queue.lock);
	if (waiting > 0 && nr > 1)
		pthread_cond_broadcast(&queue.changed);
	else if (waiting > 0)
		pthread_cond_signal(&queue.changed);
}

/* The next directory to scan, after finishing one (or none, at first). NULL: everything is scanned. */
static struct directory *queue_next(bool finished_one)
{
	struct directory *directory;

	pthread_mutex_lock(&queue.lock);
	if (finished_one && --queue.unfinished == 0) {
		pthread_cond_broadcast(&queue.changed);
		pthread_cond_signal(&queue.finished);
	}
	queue.waiting++;
	while (queue.first == NULL && queue.unfinished > 0)
		pthread_cond_wait(&queue.changed, &queue.lock);
	queue.waiting--;
	directory = queue.first;
	if (directory != NULL)
		queue.first = directory->next;
	pthread_mutex_unlock(&queue.lock);
	return directory;
}

/* ---- Workers ---- */

struct worker {
	pthread_t thread;
	unsigned char *buffer; /* READ_SIZE bytes */
};

/* Everything is counted here, with the directory where it was found; NULL: a path from the command line. */
static inline void count(struct directory *where, enum total total, int64_t n)
{
	pcpu_node_add(where != NULL ? where->node : root, total, n);
	pcpu_counter_add(&totals[total], n);
}

/* Read a file to its end. Counts as it goes, so that a huge file is seen to move. */
static void scan_text(struct worker *worker, struct directory *directory, const char *name, int fd)
{
	struct text text = {0};

	for (;;) {
		ssize_t length = read(fd, worker->buffer, READ_SIZE);

		if (length < 0 && errno == EINTR)
			continue;
		if (length < 0)
			report(directory, name, errno);
		if (length <= 0)
			break;
		text_part(&text, worker->buffer, (size_t)length);
		count(directory, TOTAL_BYTES, length);
		count(directory, TOTAL_LINES, text.lines);
		count(directory, TOTAL_WORDS, text.words);
		text.lines = text.words = 0;
	}
	text_end(&text);
	if (text.words > 0)
		count(directory, TOTAL_WORDS, text.words);
}

/*
 * Scan a file of which a directory listing said that it is a regular one. It may have become anything since:
 * O_NOFOLLOW keeps us from leaving the tree, O_NONBLOCK from waiting for a writer of a pipe.
 */
static void scan_file(struct worker *worker, struct directory *directory, int at, const char *name,
		      int nofollow)
{
	int fd = open_retry(at, name, O_RDONLY | O_NONBLOCK | nofollow);
	struct stat status;
	int error = 0;

	if (fd < 0 && errno == ENOENT)
		return;
	if (fd < 0) {
		error = errno;
		if (fstatat(at, name, &status, nofollow != 0 ? AT_SYMLINK_NOFOLLOW : 0) != 0)
			status = (struct stat){.st_mode = S_IFREG, .st_size = 1};
	} else if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
		error = ESTALE;
	}
	count(directory, TOTAL_FILES, 1);
	if (error != ESTALE && status.st_size == 0)
		count(directory, TOTAL_EMPTY, 1);
	if (error != 0)
		report(directory, name, error);
	else
		scan_text(worker, directory, name, fd);
	if (fd >= 0)
		close(fd);
}

/* The type of a directory entry as readdir has it, asking for it where the file system does not say. */
static int entry_type(struct directory *directory, int at, const struct dirent *entry)
{
	struct stat status;

	if (entry->d_type != DT_UNKNOWN)
		return entry->d_type;
	if (fstatat(at, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0)
		return IFTODT(status.st_mode);
	if (errno == ENOENT)
		return DT_WHT; /* gone */
	report(directory, entry->d_name, errno);
	return DT_UNKNOWN;
}

/* Subdirectories are handed to other workers this many at a time, before a long directory ends. */
#define SHARE_EVERY 32

static void scan_entries(struct worker *worker, struct directory *directory, DIR *stream)
{
	struct directory *first = NULL, *last = NULL;
	bool has_directories = false;
	size_t nr = 0;
	int fd = dirfd(stream);

	for (;;) {
		struct directory *below;
		struct dirent *entry;

		errno = 0;
		entry = readdir(stream);
		if (entry == NULL)
			break;
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		switch (entry_type(directory, fd, entry)) {
		case DT_REG:
			scan_file(worker, directory, fd, entry->d_name, O_NOFOLLOW);
			break;
		case DT_DIR:
			if (!has_directories)
				directory_keep_descriptor(directory, fd);
			has_directories = true;
			below = directory_new(directory, entry->d_name);
			if (below == NULL) {
				report(directory, entry->d_name, ENOMEM);
				break;
			}
			below->next = first;
			first = below;
			if (nr++ == 0)
				last = below;
			if (nr == SHARE_EVERY) {
				queue_push(first, last, nr);
				first = last = NULL;
				nr = 0;
			}
			break;
		case DT_LNK:
			count(directory, TOTAL_LINKS, 1);
			break;
		case DT_WHT:
			break;
		default:
			count(directory, TOTAL_OTHERS, 1);
			break;
		}
	}
	if (errno != 0)
		report(directory, NULL, errno);
	if (nr > 0)
		queue_push(first, last, nr);
}

static void scan_directory(struct worker *worker, struct directory *directory)
{
	int fd = directory_open(directory);
	struct stat status;
	DIR *stream;

	if (fd < 0) {
		if (errno == ENOENT)
			return;
		report(directory, NULL, errno);
		directory_settle(directory);
		count(directory, TOTAL_DIRECTORIES, 1);
		return;
	}
	if (fstat(fd, &status) == 0) {
		directory->device = status.st_dev;
		directory->inode = status.st_ino;
		if (directory_is_own_ancestor(directory)) {
			report(directory, NULL, ELOOP);
			close(fd);
			return;
		}
	}
	directory_settle(directory);
	count(directory, TOTAL_DIRECTORIES, 1);
	stream = fdopendir(fd);
	if (stream == NULL) {
		report(directory, NULL, errno);
		close(fd);
		return;
	}
	scan_entries(worker, directory, stream);
	closedir(stream);
}

/* A path from the command line: followed if it is a link that leads somewhere, and perhaps no directory. */
static void scan_path(struct worker *worker, struct directory *path)
{
	struct stat status;

	if (fstatat(AT_FDCWD, path->name, &status, 0) != 0 &&
	    fstatat(AT_FDCWD, path->name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
		report(path, NULL, errno);
		return;
	}
	if (S_ISDIR(status.st_mode))
		scan_directory(worker, path);
	else if (S_ISREG(status.st_mode))
		scan_file(worker, path->parent, AT_FDCWD, path->name, 0);
	else
		count(path, S_ISLNK(status.st_mode) ? TOTAL_LINKS : TOTAL_OTHERS, 1);
}

static void *worker_run(void *argument)
{
	struct worker *worker = argument;
	struct directory *directory = queue_next(false);

	while (directory != NULL) {
		if (directory->parent == NULL)
			scan_path(worker, directory);
		else
			scan_directory(worker, directory);
		directory_put_descriptor(directory);
		directory_put(directory);
		directory = queue_next(true);
	}
	return NULL;
}

/* Start up to nr workers; returns how many run. Fewer than asked for is worth a word, not a failure. */
static unsigned workers_start(struct worker *workers, unsigned nr)
{
	unsigned started;
	int error = 0;

	for (started = 0; started < nr; started++) {
		struct worker *worker = &workers[started];
		void *buffer;

		error = posix_memalign(&buffer, 64, READ_SIZE);
		if (error != 0)
			break;
		worker->buffer = buffer;
		error = pthread_create(&worker->thread, NULL, worker_run, worker);
		if (error != 0) {
			free(buffer);
			break;
		}
	}
	if (started < nr)
		fprintf(stderr, "scan: %u of %u workers started: %s\n", started, nr, strerror(error));
	return started;
}

static void workers_join(struct worker *workers, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		pthread_join(workers[i].thread, NULL);
		free(workers[i].buffer);
	}
}

/* ---- Progress ---- */

struct sample {
	int64_t nanoseconds; /* on the monotonic clock */
	int64_t value[NR_TOTALS];
};

static int64_t monotonic_nanoseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* EXACT: a few samples per second may take the longer way and show numbers that hold every add so far. */
static void sample_take(struct sample *sample)
{
	sample->nanoseconds = monotonic_nanoseconds();
	pcpu_node_snapshot(root, sample->value, NR_TOTALS, PCPU_READ_EXACT);
}

/* With no worker left: do the counters say the same as the tree? */
static bool counters_agree(const struct sample *end)
{
	bool agree = true;

	for (unsigned i = 0; i < NR_TOTALS; i++) {
		int64_t sum = pcpu_counter_sum(&totals[i]);

		if (sum == end->value[i])
			continue;
		fprintf(stderr, "scan: %s: the tree says %" PRId64 ", the counter %" PRId64 "\n",
			total_facts[i].name, end->value[i], sum);
		agree = false;
	}
	return agree;
}

static int64_t sample_rate(const struct sample *from, const struct sample *to, unsigned total)
{
	double seconds = (double)(to->nanoseconds - from->nanoseconds) / 1e9;

	return seconds > 0 ? (int64_t)((double)(to->value[total] - from->value[total]) / seconds) : 0;
}

/* Room for the longest: sign, 19 digits, 6 commas, zero. */
struct grouped {
	char text[32];
};

/* A number with commas between thousands. */
static struct grouped grouped(int64_t value)
{
	char digits[24];
	int length = snprintf(digits, sizeof(digits), "%" PRId64, value);
	struct grouped result;
	char *to = result.text;

	for (int i = 0; i < length; i++) {
		*to++ = digits[i];
		if (digits[i] != '-' && i + 1 < length && (length - i - 1) % 3 == 0)
			*to++ = ',';
	}
	*to = '\0';
	return result;
}

#define TABLE_LINES (NR_TOTALS + 1)

static void print_table(const struct sample *from, const struct sample *to, const char *end_of_line)
{
	printf("%-12s %22s %22s%s\n", "", "total", "per second", end_of_line);
	for (unsigned i = 0; i < NR_TOTALS; i++)
		printf("%-12s %22s %22s%s\n", total_facts[i].name, grouped(to->value[i]).text,
		       grouped(sample_rate(from, to, i)).text, end_of_line);
	fflush(stdout);
}

static void print_line(const struct sample *begin, const struct sample *from, const struct sample *to)
{
	printf("%7.2f s ", (double)(to->nanoseconds - begin->nanoseconds) / 1e9);
	for (unsigned i = 0; i < NR_TOTALS; i++)
		if (i == TOTAL_FILES || i == TOTAL_BYTES || i == TOTAL_LINES || i == TOTAL_WORDS)
			printf(" %s %s (%s/s)", grouped(to->value[i]).text, total_facts[i].name,
			       grouped(sample_rate(from, to, i)).text);
	printf("\n");
	fflush(stdout);
}

#define MAX_TOP 50

struct ranked {
	const struct place *place;
	int64_t bytes, rate; /* per second */
};

static bool ranks_before(const struct ranked *a, const struct ranked *b)
{
	return a->rate != b->rate ? a->rate > b->rate : a->bytes > b->bytes;
}

/* The first nr places by bytes per second since the last look, or by bytes. Returns how many there are. */
static unsigned rank_places(struct ranked *top, unsigned nr, int64_t nanoseconds)
{
	unsigned found = 0;

	for (struct place *place = atomic_load(&places); place != NULL; place = place->next) {
		struct ranked one = {.place = place,
				     .bytes = pcpu_node_read(place->node, TOTAL_BYTES, PCPU_READ_CACHED)};
		unsigned at;

		if (nanoseconds > 0)
			one.rate = (int64_t)((double)(one.bytes - place->before) * 1e9 / (double)nanoseconds);
		place->before = one.bytes;
		if (found == nr && !ranks_before(&one, &top[nr - 1]))
			continue;
		for (at = found < nr ? found++ : nr - 1; at > 0 && ranks_before(&one, &top[at - 1]); at--)
			top[at] = top[at - 1];
		top[at] = one;
	}
	return found;
}

/* The end of a path, in so many bytes, without what terminals act upon. */
static const char *shown_path(char *buffer, size_t size, const char *path)
{
	size_t length = strlen(path);
	bool cut = length >= size;

	if (cut) {
		path += length - (size - 4);
		while ((*path & 0xc0) == 0x80) /* from the beginning of a character on */
			path++;
	}
	snprintf(buffer, size, "%s%s", cut ? "..." : "", path);
	for (char *byte = buffer; *byte != '\0'; byte++)
		if ((unsigned char)*byte < ' ' || *byte == 0x7f)
			*byte = '?';
	return buffer;
}

/*
 * As many lines as asked for, and one above, whatever there is to show. nanoseconds: since the last look; 0: no
 * rates, sorted by bytes. CACHED: the EXACT read of the root that every sample begins with has brought all
 * places up to date, so that a look at each is a load.
 */
static void print_top(unsigned nr, int64_t nanoseconds, size_t width, const char *end_of_line)
{
	struct ranked top[MAX_TOP];
	unsigned found = rank_places(top, nr, nanoseconds);
	char path[PATH_MAX];
	size_t room = width > 41 && width - 40 < sizeof(path) ? width - 40 : sizeof(path);

	printf("%18s %18s  %s%s\n", "bytes", nanoseconds > 0 ? "per second" : "files", "directory",
	       end_of_line);
	for (unsigned i = 0; i < nr; i++) {
		const struct ranked *one = &top[i];
		int64_t second;

		if (i >= found) {
			printf("%s\n", end_of_line);
			continue;
		}
		second = nanoseconds > 0 ? one->rate
					 : pcpu_node_read(one->place->node, TOTAL_FILES, PCPU_READ_CACHED);
		printf("%18s %18s  %s%s\n", grouped(one->bytes).text, grouped(second).text,
		       shown_path(path, room, one->place->path), end_of_line);
	}
	fflush(stdout);
}

/* Whether standard output can be drawn over: a terminal that moves its cursor and has the room. */
static bool can_redraw(unsigned lines, size_t *width)
{
	const char *type = getenv("TERM");
	struct winsize window;

	*width = 0;
	if (!isatty(STDOUT_FILENO) || type == NULL || strcmp(type, "") == 0 || strcmp(type, "dumb") == 0 ||
	    ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0)
		return false;
	*width = window.ws_col;
	return (window.ws_row == 0 || window.ws_row > lines + 1) &&
	       (window.ws_col == 0 || window.ws_col > 60);
}

/* Wait until everything is scanned, or until the given time. Returns whether everything is. */
static bool wait_finished(int64_t until_nanoseconds)
{
	struct timespec until = {.tv_sec = until_nanoseconds / 1000000000,
				 .tv_nsec = until_nanoseconds % 1000000000};
	bool finished;
	int error = 0;

	pthread_mutex_lock(&queue.lock);
	while (queue.unfinished > 0 && error == 0)
		error = pthread_cond_timedwait(&queue.finished, &queue.lock, &until);
	finished = queue.unfinished == 0;
	pthread_mutex_unlock(&queue.lock);
	return finished;
}

/*
 * Show how the scan goes until it has gone. interval: seconds between two looks, 0 to choose; top: so many
 * directories as well.
 */
static void show_progress(const struct sample *begin, struct sample *end, double interval, unsigned top)
{
	unsigned lines = TABLE_LINES + (top > 0 ? top + 1 : 0);
	size_t width;
	bool redraw = can_redraw(lines, &width);
	int64_t step = (int64_t)((interval > 0 ? interval : redraw ? 0.1 : 1.0) * 1e9);
	int64_t next = begin->nanoseconds + step;
	struct sample before = *begin;
	unsigned errors_drawn = 0;
	bool drawn = false;

	while (!wait_finished(next)) {
		unsigned errors = atomic_load(&nr_errors);
		struct sample now;

		sample_take(&now);
		if (redraw) {
			/* Messages have pushed the table up: begin another one below them. */
			if (drawn && errors == errors_drawn)
				printf("\033[%uA", lines);
			print_table(&before, &now, "\033[K");
			drawn = true;
			errors_drawn = errors;
		} else {
			print_line(begin, &before, &now);
		}
		if (top > 0)
			print_top(top, now.nanoseconds - before.nanoseconds, width, redraw ? "\033[K" : "");
		before = now;
		/* At the beat begun with; beats missed while the program was stopped are not made up for. */
		do
			next += step;
		while (next <= now.nanoseconds);
	}
	sample_take(end);
	if (drawn && atomic_load(&nr_errors) == errors_drawn)
		printf("\033[%uA\033[J", lines);
}

/* ---- Verify: ask find and wc ---- */

/* No shell: names go to wc through a pipe, each ended by a zero, and to find as arguments. */

/* Run a program with the given standard input (-1: ours) and output. Returns 0 or a negative errno value. */
static int run(pid_t *child, const char *const arguments[], int input, int output)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t signals;
	int error;

	error = posix_spawn_file_actions_init(&actions);
	if (error != 0)
		return -error;
	error = posix_spawnattr_init(&attributes);
	if (error != 0) {
		posix_spawn_file_actions_destroy(&actions);
		return -error;
	}
	/* This process may ignore SIGPIPE; programs expect it to end them. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGPIPE);
	posix_spawnattr_setsigdefault(&attributes, &signals);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
	if (input >= 0)
		error = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
	if (error == 0)
		error = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
	if (error == 0)
		error = posix_spawnp(child, arguments[0], &actions, &attributes, (char *const *)arguments,
				     environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return -error;
}

/* Wait for a program. Returns its exit status, or -1 if it did not get that far. */
static int wait_for(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

struct wc_counts {
	int64_t lines, words, bytes;
};

static const char *const wc_one[] = {"wc", "-lwc", NULL};
static const char *const wc_many[] = {"wc", "-lwc", "--files0-from=-", NULL};

/*
 * Read to the end what wc prints, and take the numbers of the last line: the total or, for a single file,
 * that file. Names come after the numbers, and wc quotes those that have newlines.
 */
static struct wc_counts wc_last_line(int fd)
{
	struct wc_counts counts = {0, 0, 0}, line_counts;
	FILE *stream = fdopen(fd, "r");
	char *line = NULL;
	size_t size = 0;

	if (stream == NULL) {
		close(fd);
		return counts;
	}
	while (getdelim(&line, &size, '\n', stream) >= 0)
		if (sscanf(line, "%" SCNd64 " %" SCNd64 " %" SCNd64, &line_counts.lines, &line_counts.words,
			   &line_counts.bytes) == 3)
			counts = line_counts;
	free(line);
	fclose(stream);
	return counts;
}

/* What wc says about what a descriptor reads. Returns 0 or a negative errno value. */
static int wc_descriptor(int input, struct wc_counts *counts)
{
	int output[2];
	pid_t child;
	int error;

	if (pipe2(output, O_CLOEXEC) != 0)
		return -errno;
	error = run(&child, wc_one, input, output[1]);
	close(output[1]);
	if (error != 0) {
		close(output[0]);
		return error;
	}
	*counts = wc_last_line(output[0]);
	return wait_for(child) == 0 ? 0 : -EIO;
}

/* Find out whether this system's wc makes words of bytes that do not print; where there is no wc, POSIX does.
 */
static void ask_what_makes_words(void)
{
	struct wc_counts counts;
	int input[2];

	if (pipe2(input, O_CLOEXEC) != 0)
		return;
	if (write(input[1], "\001", 1) == 1) {
		close(input[1]);
		if (wc_descriptor(input[0], &counts) == 0 && counts.bytes == 1 && counts.words == 0)
			unprintable_makes_words = 0;
	} else {
		close(input[1]);
	}
	close(input[0]);
}

/* Open a file by a path of any length, which is cut up for it. Returns a descriptor, or -1 and errno. */
static int open_long_path(char *path)
{
	int at = AT_FDCWD;
	int fd;

	for (;;) {
		char *cut = NULL;

		if (strlen(path) >= PATH_MAX) {
			cut = path + PATH_MAX - 1;
			while (cut > path && *cut != '/')
				cut--;
			if (cut == path) {
				errno = ENAMETOOLONG;
				fd = -1;
				break;
			}
			*cut = '\0';
		}
		fd = open_retry(at, path, O_RDONLY | (cut != NULL ? O_DIRECTORY : 0));
		if (fd < 0 || cut == NULL)
			break;
		if (at != AT_FDCWD)
			close(at);
		at = fd;
		path = cut + 1;
	}
	if (at != AT_FDCWD) {
		int error = errno;

		close(at);
		errno = error;
	}
	return fd;
}

struct wc_reader {
	int fd;
	struct wc_counts counts;
};

static void *wc_reader_run(void *argument)
{
	struct wc_reader *reader = argument;

	reader->counts = wc_last_line(reader->fd);
	return NULL;
}

/*
 * Go through what find prints: for each entry a letter for what it is, its path where it is a file, and a
 * zero. Files go to wc, except those whose path no open() takes: each of these goes to a wc of its own.
 */
static int verify_entries(FILE *entries, FILE *to_wc, int64_t *expected, struct wc_counts *long_paths)
{
	char *entry = NULL;
	size_t size = 0;
	ssize_t length;
	int error = 0;

	while (error == 0 && (length = getdelim(&entry, &size, '\0', entries)) > 0) {
		char *path = entry + 1;

		switch (entry[0]) {
		case 'e':
			expected[TOTAL_EMPTY]++;
			/* fall through */
		case 'f':
			expected[TOTAL_FILES]++;
			if (strlen(path) < PATH_MAX) {
				if (fwrite(path, 1, strlen(path) + 1, to_wc) < strlen(path) + 1)
					error = -errno;
			} else {
				struct wc_counts counts = {0, 0, 0};
				int fd = open_long_path(path);

				if (fd >= 0) {
					error = wc_descriptor(fd, &counts);
					close(fd);
				}
				long_paths->lines += counts.lines;
				long_paths->words += counts.words;
				long_paths->bytes += counts.bytes;
			}
			break;
		case 'd':
			expected[TOTAL_DIRECTORIES]++;
			break;
		case 'l':
			expected[TOTAL_LINKS]++;
			break;
		default:
			expected[TOTAL_OTHERS]++;
			break;
		}
	}
	if (ferror(entries) && error == 0)
		error = -errno;
	free(entry);
	return error;
}

/* find's arguments for the given paths; the paths themselves must outlive it. NULL without memory. */
static const char **find_arguments(char *const *paths, int nr_paths)
{
	/* -type alone, so that find need not be able to look at the file: reading the directory is enough. */
	static const char *const expression[] = {
		"-type",   "f",	   "-size",   "0c",	"-printf", "e%p\\0", "-o", /* empty files */
		"-type",   "f",	   "-printf", "f%p\\0", "-o",			   /* other files */
		"-type",   "d",	   "-printf", "d\\0",	"-o",			   /* directories */
		"-type",   "l",	   "-printf", "l\\0",	"-o",			   /* links */
		"-printf", "o\\0", NULL};
	size_t nr_expression = sizeof(expression) / sizeof(expression[0]);
	const char **arguments = malloc((2 + (size_t)nr_paths + nr_expression) * sizeof(*arguments));

	if (arguments == NULL)
		return NULL;
	arguments[0] = "find";
	arguments[1] = "-H";
	for (int i = 0; i < nr_paths; i++)
		arguments[2 + i] = paths[i];
	memcpy(arguments + 2 + nr_paths, expression, sizeof(expression));
	return arguments;
}

/* Fill expected with what find and wc say. Returns 0 or a negative errno value, with *program to blame. */
static int ask_find_and_wc(char *const *paths, int nr_paths, int64_t *expected, const char **program)
{
	const char **arguments = find_arguments(paths, nr_paths);
	int find_output[2] = {-1, -1}, wc_input[2] = {-1, -1}, wc_output[2] = {-1, -1};
	struct wc_counts long_paths = {0, 0, 0};
	struct wc_reader reader;
	FILE *entries = NULL, *to_wc = NULL;
	pid_t find = -1, wc = -1;
	pthread_t thread;
	int error;

	*program = "find";
	error = arguments != NULL ? 0 : -ENOMEM;
	if (error == 0 && pipe2(find_output, O_CLOEXEC) != 0)
		error = -errno;
	if (error == 0)
		error = run(&find, arguments, -1, find_output[1]);
	free(arguments);
	if (error != 0)
		goto out;
	close(find_output[1]);
	find_output[1] = -1;

	*program = "wc";
	if (pipe2(wc_input, O_CLOEXEC) != 0 || pipe2(wc_output, O_CLOEXEC) != 0)
		error = -errno;
	if (error == 0)
		error = run(&wc, wc_many, wc_input[0], wc_output[1]);
	if (error != 0)
		goto out;
	close(wc_input[0]);
	close(wc_output[1]);
	wc_input[0] = wc_output[1] = -1;

	entries = fdopen(find_output[0], "r");
	to_wc = fdopen(wc_input[1], "w");
	if (entries == NULL || to_wc == NULL) {
		error = -errno;
		goto out;
	}
	/* wc prints a line per file while it still takes names: somebody must read them meanwhile. */
	reader.fd = wc_output[0];
	error = -pthread_create(&thread, NULL, wc_reader_run, &reader);
	if (error != 0)
		goto out;
	wc_output[0] = -1;
	error = verify_entries(entries, to_wc, expected, &long_paths);
	if (fclose(to_wc) != 0 && error == 0)
		error = -errno;
	to_wc = NULL;
	wc_input[1] = -1;
	pthread_join(thread, NULL);
	expected[TOTAL_LINES] = reader.counts.lines + long_paths.lines;
	expected[TOTAL_WORDS] = reader.counts.words + long_paths.words;
	expected[TOTAL_BYTES] = reader.counts.bytes + long_paths.bytes;
out:
	if (entries != NULL)
		fclose(entries);
	else if (find_output[0] >= 0)
		close(find_output[0]);
	if (to_wc != NULL)
		fclose(to_wc);
	else if (wc_input[1] >= 0)
		close(wc_input[1]);
	if (find_output[1] >= 0)
		close(find_output[1]);
	if (wc_input[0] >= 0)
		close(wc_input[0]);
	if (wc_output[0] >= 0)
		close(wc_output[0]);
	if (wc_output[1] >= 0)
		close(wc_output[1]);
	/* Both exit with 1 where something could not be read, which this program has reported as well. */
	if (wc > 0 && wait_for(wc) < 0 && error == 0)
		error = -EIO;
	if (find > 0 && wait_for(find) < 0 && error == 0) {
		*program = "find";
		error = -EIO;
	}
	return error;
}

/* Name what differs between counted and expected, of a place or (NULL) of all. Returns whether nothing does. */
static bool compare(const struct place *place, const int64_t *counted, const int64_t *expected)
{
	char path[256];
	bool equal = true;

	for (unsigned i = 0; i < NR_TOTALS; i++) {
		if (counted[i] == expected[i])
			continue;
		fprintf(stderr, "scan: verify: %s%s%s differ: counted %" PRId64 ", %s says %" PRId64 "\n",
			place != NULL ? shown_path(path, sizeof(path), place->path) : "",
			place != NULL ? ": " : "", total_facts[i].name, counted[i], total_facts[i].judge,
			expected[i]);
		equal = false;
	}
	return equal;
}

static bool ask_and_compare(const struct place *place, char *const *paths, int nr_paths,
			    const int64_t *counted)
{
	int64_t expected[NR_TOTALS] = {0};
	const char *program;
	int error = ask_find_and_wc(paths, nr_paths, expected, &program);

	if (error != 0) {
		fprintf(stderr, "scan: verify: %s failed: %s\n", program, strerror(-error));
		return false;
	}
	return compare(place, counted, expected);
}

/* Each place costs a find and a wc of all below it: of those deeper than this, so many are asked about. */
#define VERIFY_DEPTH  2
#define VERIFY_SAMPLE 100
#define MAX_DIFFERENT 10

/* Compare directories with what find and wc say of each. */
static bool verify_places(void)
{
	int64_t begin = monotonic_nanoseconds();
	unsigned all = 0, deep = 0, asked = 0, different = 0, nth = 0;

	for (const struct place *place = atomic_load(&places); place != NULL; place = place->next) {
		all++;
		deep += place->depth > VERIFY_DEPTH;
	}
	for (const struct place *place = atomic_load(&places); place != NULL; place = place->next) {
		int64_t counted[NR_TOTALS];
		char *path = (char *)place->path;

		/* Evenly spread: the quotient goes up by one VERIFY_SAMPLE times. */
		if (place->depth > VERIFY_DEPTH && deep > VERIFY_SAMPLE) {
			nth++;
			if ((uint64_t)nth * VERIFY_SAMPLE / deep ==
			    (uint64_t)(nth - 1) * VERIFY_SAMPLE / deep)
				continue;
		}
		/* No program takes such a path. */
		if (strlen(path) >= PATH_MAX)
			continue;
		pcpu_node_snapshot(place->node, counted, NR_TOTALS, PCPU_READ_EXACT);
		asked++;
		if (!ask_and_compare(place, &path, 1, counted) && ++different == MAX_DIFFERENT) {
			fprintf(stderr, "scan: verify: that will do\n");
			break;
		}
	}
	if (different == 0 && asked > 0)
		printf("verify: equal to find and wc in %u of %u directories (they took %.2f s)\n", asked,
		       all, (double)(monotonic_nanoseconds() - begin) / 1e9);
	return different == 0;
}

/* Compare the totals with what find and wc say. Returns whether all are equal; says so or names those not. */
static bool verify(char *const *paths, int nr_paths, const struct sample *end)
{
	int64_t begin = monotonic_nanoseconds();

	/* A wc that ends early must not end this program. */
	signal(SIGPIPE, SIG_IGN);
	if (!ask_and_compare(NULL, paths, nr_paths, end->value))
		return false;
	printf("verify: equal to find and wc in all %d totals (they took %.2f s)\n", NR_TOTALS,
	       (double)(monotonic_nanoseconds() - begin) / 1e9);
	return verify_places();
}

/* ---- main ---- */

static const char usage[] =
	"Usage: scan [OPTION]... [PATH]...\n"
	"Count files, directories, bytes, lines and words below each PATH, with many threads.\n"
	"Without a PATH: /usr/share/doc and /usr/include.\n"
	"\n"
	"  -j, --workers N         threads; default one per CPU online, at most 1024\n"
	"  -i, --interval SECONDS  time between two progress reports; default 0.1 on a\n"
	"                          terminal, where they are drawn in place, else 1\n"
	"  -q, --quiet             no progress, only the table at the end\n"
	"      --depth N           count each directory by itself down to this depth below a\n"
	"                          PATH; default 3, at most 100\n"
	"      --top N             also show the N directories, at most 50, with most bytes:\n"
	"                          per second while it runs, in all at the end\n"
	"      --verify            then compare the totals, and those of directories, with\n"
	"                          what find and wc say: all down to depth 2, some deeper\n"
	"  -h, --help              this text\n"
	"\n"
	"Symbolic links below a PATH are counted, not followed. Words are those of wc -w in\n"
	"the C locale. Exit status: 0 well; 1 something could not be read, or a total\n"
	"differs; 2 wrong usage.\n";

struct options {
	unsigned workers; /* 0: one per CPU */
	double interval;  /* seconds; 0: choose */
	unsigned top;	  /* 0: none */
	bool quiet;
	bool verify;
};

__attribute__((noreturn, format(printf, 1, 2))) static void wrong_usage(const char *format, ...)
{
	va_list arguments;

	fputs("scan: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputs("; try --help\n", stderr);
	exit(2);
}

/* A number as an argument, or the end of the program. */
static unsigned parse_number(const char *what, unsigned least, unsigned most)
{
	unsigned long number;
	char *end;

	errno = 0;
	number = strtoul(optarg, &end, 10);
	if (optarg[0] < '0' || optarg[0] > '9' || *end != '\0' || errno != 0 || number < least ||
	    number > most)
		wrong_usage("%s '%s' is not %u..%u", what, optarg, least, most);
	return (unsigned)number;
}

static void parse_options(struct options *options, int argc, char **argv)
{
	enum { OPTION_VERIFY = 256, OPTION_DEPTH, OPTION_TOP };
	static const struct option names[] = {{"workers", required_argument, NULL, 'j'},
					      {"interval", required_argument, NULL, 'i'},
					      {"quiet", no_argument, NULL, 'q'},
					      {"verify", no_argument, NULL, OPTION_VERIFY},
					      {"depth", required_argument, NULL, OPTION_DEPTH},
					      {"top", required_argument, NULL, OPTION_TOP},
					      {"help", no_argument, NULL, 'h'},
					      {NULL, 0, NULL, 0}};
	char *end;
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, ":j:i:qh", names, NULL)) != -1) {
		switch (option) {
		case 'j':
			options->workers = parse_number("number of workers", 1, MAX_WORKERS);
			break;
		case OPTION_DEPTH:
			max_depth = parse_number("depth", 0, 100);
			break;
		case OPTION_TOP:
			options->top = parse_number("number of directories", 1, MAX_TOP);
			break;
		case 'i':
			options->interval = strtod(optarg, &end);
			if (end == optarg || *end != '\0' ||
			    !(options->interval >= 0.001 && options->interval <= 86400))
				wrong_usage("interval '%s' is not 0.001..86400 seconds", optarg);
			break;
		case 'q':
			options->quiet = true;
			break;
		case OPTION_VERIFY:
			options->verify = true;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(fflush(stdout) == 0 ? 0 : 1);
		case ':':
			wrong_usage("option '%s' needs a value", argv[optind - 1]);
		default:
			if (optopt > 0 && optopt < 256)
				wrong_usage("unknown option '-%c'", optopt);
			wrong_usage("unknown option '%s'", argv[optind - 1]);
		}
	}
	for (int i = optind; i < argc; i++)
		if (argv[i][0] == '\0')
			wrong_usage("a path is empty");
}

/*
 * The paths to scan. find would take "-name" or "(" for a part of its expression: anything that does not
 * begin with a slash gets "./" in front, here already, so that both programs see the same.
 */
static char **paths_new(const char *const *given, int nr)
{
	char **paths = calloc((size_t)nr, sizeof(*paths));

	for (int i = 0; paths != NULL && i < nr; i++) {
		size_t size = strlen(given[i]) + 3;

		paths[i] = malloc(size);
		if (paths[i] == NULL)
			return NULL; /* the program ends */
		snprintf(paths[i], size, "%s%s", given[i][0] == '/' ? "" : "./", given[i]);
	}
	return paths;
}

/* Leave room for what the workers open for themselves (a directory, a file, a way from the top) and for
 * stdio. */
static void limit_descriptors(unsigned nr_workers)
{
	struct rlimit limit;
	int left = 0;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		rlim_t own = 16 + 4 * (rlim_t)nr_workers;

		if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > INT_MAX)
			limit.rlim_cur = INT_MAX;
		if (limit.rlim_cur > own)
			left = (int)(limit.rlim_cur - own);
	}
	atomic_init(&descriptors_left, left);
}

static int scan(const struct options *options, char *const *paths, int nr_paths, unsigned nr_workers,
		struct sample *end)
{
	struct worker *workers = calloc(nr_workers, sizeof(*workers));
	pthread_condattr_t attributes;
	struct sample begin;

	if (workers == NULL)
		return -ENOMEM;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&queue.finished, &attributes);
	pthread_condattr_destroy(&attributes);
	limit_descriptors(nr_workers);
	for (int i = nr_paths; i-- > 0;) {
		struct directory *path = directory_new(NULL, paths[i]);

		if (path == NULL)
			return -ENOMEM; /* the program ends */
		queue_push(path, path, 1);
	}
	sample_take(&begin);
	nr_workers = workers_start(workers, nr_workers);
	if (nr_workers == 0)
		return -EAGAIN;
	if (options->quiet) {
		workers_join(workers, nr_workers);
		sample_take(end);
	} else {
		show_progress(&begin, end, options->interval, options->top);
		workers_join(workers, nr_workers);
	}
	free(workers);
	printf("%u workers, %.2f s\n", nr_workers, (double)(end->nanoseconds - begin.nanoseconds) / 1e9);
	print_table(&begin, end, "");
	if (options->top > 0)
		print_top(options->top, 0, 0, "");
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const default_paths[] = {"/usr/share/doc", "/usr/include"};
	struct pcpu_info info = {.size = sizeof(info)};
	struct options options = {0};
	struct sample end;
	char **paths;
	int nr_paths;
	bool well;
	int error;

	parse_options(&options, argc, argv);
	if (argc > optind)
		paths = paths_new((const char *const *)argv + optind, nr_paths = argc - optind);
	else
		paths = paths_new(default_paths, nr_paths = 2);
	/* The locale of the programs asked. */
	if (paths == NULL || setenv("LC_ALL", "C", 1) != 0) {
		fprintf(stderr, "scan: %s\n", strerror(ENOMEM));
		return 1;
	}
	ask_what_makes_words();

	error = pcpu_get_info(&info);
	if (error == 0)
		error = totals_init();
	if (error == 0) {
		printf("scan: %u CPUs, counting by %s\n", info.slots_online, pcpu_backend_name(info.backend));
		error = scan(&options, paths, nr_paths,
			     options.workers > 0 ? options.workers : info.slots_online, &end);
	}
	if (error != 0) {
		fprintf(stderr, "scan: %s\n", strerror(-error));
		return 1;
	}
	well = counters_agree(&end) && atomic_load(&nr_errors) == 0;
	if (options.verify)
		well = verify(paths, nr_paths, &end) && well;
	totals_destroy();
	places_destroy();
	for (int i = 0; i < nr_paths; i++)
		free(paths[i]);
	free(paths);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "scan: cannot write to standard output: %s\n", strerror(errno));
		well = false;
	}
	return well ? 0 : 1;
}
