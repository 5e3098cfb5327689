/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/pool/shm_file.h"

#include "dataplane/pool/shm_later.h"
#include "dataplane/pool/shm_lock.h"
#include "dataplane/pool/shm_recover.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Lost races of create against remove before giving up. */
#define OPEN_ATTEMPTS 16

struct reason {
	char *text;
	size_t len;
};

__attribute__((format(printf, 3, 4))) static int fail(const struct reason *why, int rc,
	const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (why->text != NULL && why->len > 0)
		vsnprintf(why->text, why->len, format, args);
	va_end(args);
	return rc;
}

/* Pointers into the mapping, by the layout the file's size asks for. */
static int file_map(struct shm *shm, uint64_t file_size)
{
	uint8_t *base;
	int rc;

	rc = shm_geometry_init(&shm->geo, file_size);
	if (rc != 0)
		return rc;
	base = mmap(NULL, file_size, PROT_READ | PROT_WRITE, MAP_SHARED, shm->fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	shm->hdr = (struct shm_header *)base;
	shm->buckets = (uint32_t *)(base + shm->geo.buckets_off);
	shm->entries = (struct shm_entry *)(base + shm->geo.entries_off);
	shm->cold = (struct shm_cold *)(base + shm->geo.cold_off);
	shm->arena = base + shm->geo.arena_off;
	shm->extents.pages = (struct shm_page *)(base + shm->geo.pages_off);
	shm->extents.state = &shm->hdr->extents;
	shm->extents.page_count = shm->geo.page_count;
	return 0;
}

static int file_layout(struct shm *shm)
{
	struct shm_header *hdr = shm->hdr;
	int rc;

	hdr->version = SHM_VERSION;
	hdr->header_size = sizeof(*hdr);
	hdr->file_size = shm->geo.file_size;
	hdr->entry_count = shm->geo.entry_count;
	hdr->page_count = shm->geo.page_count;
	if (getrandom(hdr->hash_key, sizeof(hdr->hash_key), 0) != sizeof(hdr->hash_key))
		return -EIO;
	rc = shm_lock_init(hdr);
	if (rc != 0)
		return rc;
	shm_recover(shm);
	hdr->magic = SHM_MAGIC;
	return 0;
}

/*
 * A file without a name in the directory of path, or with a name of its own where that does not
 * exist.
 */
static int temp_open(const char *path, mode_t mode, char temp[PATH_MAX])
{
	const char *slash = strrchr(path, '/');
	int fd, n;

	n = slash == NULL ? snprintf(temp, PATH_MAX, ".")
			  : snprintf(temp, PATH_MAX, "%.*s", (int)(slash - path + 1), path);
	if (n >= PATH_MAX)
		return -ENAMETOOLONG;
	fd = open(temp, O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
	temp[0] = '\0';
	if (fd >= 0)
		return fd;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
		return -errno;
	if (snprintf(temp, PATH_MAX, "%s.new.%ld", path, (long)getpid()) >= PATH_MAX)
		return -ENAMETOOLONG;
	unlink(temp);
	fd = open(temp, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, mode);
	return fd >= 0 ? fd : -errno;
}

static int temp_link(int fd, const char *temp, const char *path)
{
	char proc[64];

	if (temp[0] != '\0')
		return link(temp, path) == 0 ? 0 : -errno;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, proc, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0 ? 0 : -errno;
}

/* 0 also if somebody else was faster. */
static int file_create(const char *path, const struct shm_pool_options *options,
	const struct reason *why)
{
	mode_t mode = options->group ? 0660 : 0600;
	uint64_t size = options->create_size_bytes;
	uint64_t unit = SHM_PAGE;
	struct shm shm = { .fd = -1 };
	char temp[PATH_MAX];
	struct statfs fs;
	int rc;

	if (size < SHM_SIZE_MIN || size > SHM_SIZE_MAX)
		return fail(why, -EINVAL, "%s: size %llu is not between 1 MiB and 4 TiB", path,
			(unsigned long long)size);
	shm.fd = temp_open(path, mode, temp);
	if (shm.fd < 0)
		return fail(why, shm.fd, "%s: cannot create: %s", path, strerror(-shm.fd));
	/* The mode is part of the contract, whatever the umask. */
	if (fchmod(shm.fd, mode) != 0 || fstatfs(shm.fd, &fs) != 0) {
		rc = fail(why, -errno, "%s: cannot create: %s", path, strerror(errno));
		goto close;
	}
	if ((unsigned long)fs.f_type == HUGETLBFS_MAGIC)
		unit = (uint64_t)fs.f_bsize;
	size = (size + unit - 1) / unit * unit;
	if (ftruncate(shm.fd, (off_t)size) != 0) {
		rc = fail(why, -errno, "%s: cannot size to %llu bytes: %s", path,
			(unsigned long long)size, strerror(errno));
		goto close;
	}
	rc = options->sparse ? 0 : -posix_fallocate(shm.fd, 0, (off_t)size);
	if (rc != 0) {
		fail(why, rc, "%s: cannot reserve %llu bytes: %s", path, (unsigned long long)size,
			strerror(-rc));
		goto close;
	}
	rc = file_map(&shm, size);
	if (rc == 0)
		rc = file_layout(&shm);
	if (rc != 0) {
		fail(why, rc, "%s: cannot map %llu bytes: %s", path, (unsigned long long)size,
			strerror(-rc));
		goto unmap;
	}
	rc = temp_link(shm.fd, temp, path);
	if (rc == -EEXIST)
		rc = 0;
	if (rc != 0)
		fail(why, rc, "%s: cannot name the new file: %s", path, strerror(-rc));
unmap:
	if (shm.hdr != NULL)
		munmap(shm.hdr, size);
close:
	if (temp[0] != '\0')
		unlink(temp);
	close(shm.fd);
	return rc;
}

static int file_check_access(int fd, const char *path, bool group, uint64_t *size,
	const struct reason *why)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return fail(why, -errno, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return fail(why, -EINVAL, "%s: not a regular file", path);
	if (st.st_mode & S_IWOTH)
		return fail(why, -EPERM, "%s: anyone may write to it (mode %04o)", path,
			(unsigned int)(st.st_mode & 07777));
	if (st.st_uid != geteuid() && !(group && (st.st_mode & S_IWGRP)))
		return fail(why, -EPERM, "%s: belongs to user %u and is not %s", path,
			(unsigned int)st.st_uid,
			group ? "writable by its group" : "opened as group-shared");
	*size = (uint64_t)st.st_size;
	if (*size < SHM_SIZE_MIN || *size > SHM_SIZE_MAX || *size % SHM_PAGE != 0)
		return fail(why, -EUCLEAN, "%s: %llu bytes are not the size of a pool", path,
			(unsigned long long)*size);
	return 0;
}

static int file_check_header(const struct shm *shm, const char *path, const struct reason *why)
{
	const struct shm_header *hdr = shm->hdr;

	if (hdr->magic != SHM_MAGIC)
		return fail(why, -EILSEQ, "%s: not a Strait pool", path);
	if (hdr->version != SHM_VERSION || hdr->header_size != sizeof(*hdr))
		return fail(why, -EPROTO, "%s: pool format %u, this program has format %u", path,
			hdr->version, SHM_VERSION);
	if (hdr->file_size != shm->geo.file_size || hdr->entry_count != shm->geo.entry_count ||
		hdr->page_count != shm->geo.page_count)
		return fail(why, -EUCLEAN, "%s: made with %llu bytes, has %llu", path,
			(unsigned long long)hdr->file_size, (unsigned long long)shm->geo.file_size);
	return 0;
}

/* What this process keeps for itself. */
static int local_init(struct shm *shm)
{
	uint32_t *alive;

	shm->slot = SHM_NONE;
	shm->leases = calloc(shm->geo.entry_count, sizeof(*shm->leases));
	shm->later = shm_later_create();
	if (shm->leases == NULL || shm->later == NULL)
		return -ENOMEM;
	alive = mmap(NULL, SHM_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (alive == MAP_FAILED)
		return -errno;
	shm->alive = alive;
	if (madvise(alive, SHM_PAGE, MADV_WIPEONFORK) != 0)
		return -errno;
	*shm->alive = 1;
	return 0;
}

int shm_file_open(struct shm *shm, const char *path, const struct shm_pool_options *options,
	char *err, size_t err_len)
{
	const struct reason why = { .text = err, .len = err_len };
	uint64_t size = 0;
	int rc;

	memset(shm, 0, sizeof(*shm));
	for (int i = 0; i < OPEN_ATTEMPTS; i++) {
		shm->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (shm->fd >= 0 || errno != ENOENT || !options->create)
			break;
		rc = file_create(path, options, &why);
		if (rc != 0)
			return rc;
	}
	if (shm->fd < 0) {
		rc = errno == ELOOP || errno == EISDIR ? -EINVAL : -errno;
		return fail(&why, rc, "%s: %s", path,
			rc == -EINVAL ? "not a regular file" : strerror(errno));
	}
	rc = file_check_access(shm->fd, path, options->group, &size, &why);
	if (rc != 0)
		goto err;
	rc = file_map(shm, size);
	if (rc != 0) {
		fail(&why, rc, "%s: cannot map %llu bytes: %s", path, (unsigned long long)size,
			strerror(-rc));
		goto err;
	}
	rc = file_check_header(shm, path, &why);
	if (rc != 0)
		goto err;
	/* Both only help; kernels without them, or without huge pages in tmpfs, do as well. */
	madvise(shm->hdr, size, MADV_HUGEPAGE);
	if (options->prefault)
		madvise(shm->hdr, size, MADV_POPULATE_WRITE);
	rc = local_init(shm);
	if (rc != 0) {
		fail(&why, rc, "%s: %s", path, strerror(-rc));
		goto err;
	}
	return 0;
err:
	shm_file_close(shm);
	return rc;
}

bool shm_file_is_reserved(const struct shm *shm)
{
	struct statfs fs;
	struct stat st;

	if (fstatfs(shm->fd, &fs) != 0 || fstat(shm->fd, &st) != 0)
		return false;
	switch ((unsigned long)fs.f_type) {
	case TMPFS_MAGIC:
	case HUGETLBFS_MAGIC:
		return (uint64_t)st.st_blocks * 512 >= shm->geo.file_size;
	default:
		return false;
	}
}

int shm_file_check(struct shm *shm, const char *path, char *err, size_t err_len)
{
	const struct reason why = { .text = err, .len = err_len };
	struct stat ours, there;

	if (fstat(shm->fd, &ours) != 0)
		return 0; /* says nothing about the file */
	if ((uint64_t)ours.st_size < shm->geo.file_size) {
		shm->cut = true;
		return fail(&why, -ENXIO, "%s was cut from %llu to %llu bytes while in use", path,
			(unsigned long long)shm->geo.file_size, (unsigned long long)ours.st_size);
	}
	if (ours.st_nlink == 0)
		return fail(&why, -ENXIO, "%s was deleted or replaced while in use", path);
	if (lstat(path, &there) != 0)
		return errno != ENOENT ? 0
				       : fail(&why, -ENXIO, "%s was moved away while in use", path);
	if (there.st_dev != ours.st_dev || there.st_ino != ours.st_ino)
		return fail(&why, -ENXIO, "%s was replaced by another file while in use", path);
	return 0;
}

void shm_file_close(struct shm *shm)
{
	if (shm->alive != NULL)
		munmap((void *)(uintptr_t)shm->alive, SHM_PAGE);
	shm_later_destroy(shm->later);
	free(shm->leases);
	if (shm->hdr != NULL)
		munmap(shm->hdr, shm->geo.file_size);
	close(shm->fd);
}
