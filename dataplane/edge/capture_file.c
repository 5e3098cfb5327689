/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/capture_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	BLOCK_SECTION = 0x0a0d0d0a,
	BLOCK_INTERFACE = 1,
	BLOCK_STATISTICS = 5,
	BLOCK_PACKET = 6,
	BYTE_ORDER_MAGIC = 0x1a2b3c4d,
	LINKTYPE_ETHERNET = 1,
	OPT_END = 0,
	SHB_USERAPPL = 4,
	IF_NAME = 2,
	IF_TSRESOL = 9,
	ISB_IFRECV = 4,
	ISB_IFDROP = 5,
	EPB_FLAGS = 2,
	TSRESOL_NS = 9,
	NAME_MAX_BYTES = 100,
	BLOCK_MAX = 512, /* of everything but packets */
	BUFFER_BYTES = 64 * 1024,
};

struct capture_file {
	FILE *out;
	uint64_t bytes, unix_ns;
	uint64_t whole; /* of them, in whole blocks, the kernel has; an error takes the rest away */
	uint32_t snap;
	int error;
};

/* A block under construction; everything is in the machine's byte order, as the format allows. */
struct block {
	uint8_t bytes[BLOCK_MAX];
	uint32_t len;
};

static void add(struct block *b, const void *data, uint32_t len)
{
	if (len == 0 || b->len + ((len + 3) & ~3u) > BLOCK_MAX)
		return;
	memcpy(b->bytes + b->len, data, len);
	memset(b->bytes + b->len + len, 0, -len & 3);
	b->len += (len + 3) & ~3u;
}

static void add32(struct block *b, uint32_t v)
{
	add(b, &v, sizeof(v));
}

/* Times have their high half first. */
static void add_time(struct block *b, uint64_t ns)
{
	add32(b, (uint32_t)(ns >> 32));
	add32(b, (uint32_t)ns);
}

static void add_option(struct block *b, uint16_t code, const void *data, uint16_t len)
{
	const uint16_t head[2] = { code, len };

	add(b, head, sizeof(head));
	add(b, data, len);
}

static void put(struct capture_file *f, const void *data, size_t len)
{
	if (f->error == 0 && fwrite(data, 1, len, f->out) != len)
		f->error = errno != 0 ? -errno : -EIO;
	f->bytes += len;
}

/* body holds everything between the two lengths. */
static void put_block(struct capture_file *f, uint32_t type, const struct block *b)
{
	const uint32_t total = b->len + 12, head[2] = { type, total };

	put(f, head, sizeof(head));
	put(f, b->bytes, b->len);
	put(f, &total, sizeof(total));
}

static void put_header(struct capture_file *f, const struct capture_file_config *cfg)
{
	const uint16_t version[2] = { 1, 0 }, link[2] = { LINKTYPE_ETHERNET, 0 };
	const uint8_t resolution = TSRESOL_NS;
	const int64_t unknown = -1;
	struct block b = { .len = 0 };

	add32(&b, BYTE_ORDER_MAGIC);
	add(&b, version, sizeof(version));
	add(&b, &unknown, sizeof(unknown));
	add_option(&b, SHB_USERAPPL, cfg->application,
		(uint16_t)strnlen(cfg->application, NAME_MAX_BYTES));
	add_option(&b, OPT_END, NULL, 0);
	put_block(f, BLOCK_SECTION, &b);

	b.len = 0;
	add(&b, link, sizeof(link));
	add32(&b, cfg->snap);
	add_option(&b, IF_NAME, cfg->interface, (uint16_t)strnlen(cfg->interface, NAME_MAX_BYTES));
	add_option(&b, IF_TSRESOL, &resolution, sizeof(resolution));
	add_option(&b, OPT_END, NULL, 0);
	put_block(f, BLOCK_INTERFACE, &b);
}

int capture_file_name_check(const char *name, char *err, size_t err_len)
{
	static const char may[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
	size_t len = strlen(name);

	if (len > 0 && len <= NAME_MAX_BYTES && name[0] != '.' && strspn(name, may) == len)
		return 0;
	snprintf(err, err_len,
		"the file is a name of at most %d letters, digits, dots, - and _ in the capture "
		"directory, no dot in front",
		NAME_MAX_BYTES);
	return -EINVAL;
}

struct capture_file *capture_file_create(const struct capture_file_config *cfg)
{
	struct capture_file *f = calloc(1, sizeof(*f));
	int dir = -1, fd = -1, error;

	if (f == NULL)
		return NULL;
	dir = open(cfg->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0)
		fd = openat(dir, cfg->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			0600);
	if (fd >= 0)
		f->out = fdopen(fd, "w");
	error = errno;
	if (f->out == NULL) {
		if (fd >= 0)
			close(fd);
		free(f);
		f = NULL;
	} else {
		setvbuf(f->out, NULL, _IOFBF, BUFFER_BYTES);
		f->unix_ns = cfg->unix_ns;
		f->snap = cfg->snap;
		put_header(f, cfg);
		if (capture_file_flush(f) < 0) {
			error = -f->error;
			unlinkat(dir, cfg->name, 0);
			__fpurge(f->out);
			fclose(f->out);
			free(f);
			f = NULL;
		}
	}
	if (dir >= 0)
		close(dir);
	errno = error;
	return f;
}

int capture_file_write(struct capture_file *f, const struct capture_record *r)
{
	const uint32_t kept = r->kept < f->snap ? r->kept : f->snap, pad = -kept & 3;
	const uint32_t flags = r->way, total = 28 + kept + pad + 12 + 4;
	static const uint8_t zeros[4];
	struct block head = { .len = 0 }, tail = { .len = 0 };

	/* The kernel gets whole blocks only, so that a crash leaves nothing else. */
	if (f->bytes - f->whole + total > BUFFER_BYTES && capture_file_flush(f) < 0)
		return f->error;
	add32(&head, BLOCK_PACKET);
	add32(&head, total);
	add32(&head, 0); /* interface */
	add_time(&head, f->unix_ns + r->time_ns);
	add32(&head, kept);
	add32(&head, r->len);
	add_option(&tail, EPB_FLAGS, &flags, sizeof(flags));
	add_option(&tail, OPT_END, NULL, 0);
	add32(&tail, total);
	put(f, head.bytes, head.len);
	put(f, r->bytes, kept);
	put(f, zeros, pad);
	put(f, tail.bytes, tail.len);
	return f->error;
}

int capture_file_flush(struct capture_file *f)
{
	if (f->error == 0 && fflush(f->out) != 0)
		f->error = errno != 0 ? -errno : -EIO;
	if (f->error == 0)
		f->whole = f->bytes;
	return f->error;
}

uint64_t capture_file_bytes(const struct capture_file *f)
{
	return f->error == 0 ? f->bytes : f->whole;
}

int capture_file_close(struct capture_file *f, uint64_t now_ns, uint64_t received, uint64_t missed)
{
	struct block b = { .len = 0 };
	int ret;

	add32(&b, 0);
	add_time(&b, f->unix_ns + now_ns);
	add_option(&b, ISB_IFRECV, &received, sizeof(received));
	add_option(&b, ISB_IFDROP, &missed, sizeof(missed));
	add_option(&b, OPT_END, NULL, 0);
	put_block(f, BLOCK_STATISTICS, &b);
	ret = capture_file_flush(f);
	if (ret < 0) {
		/* The disk is full: end with the last whole block, or readers call it damaged. */
		__fpurge(f->out);
		if (ftruncate(fileno(f->out), (off_t)f->whole) < 0)
			ret = -errno;
	}
	if (fclose(f->out) != 0 && ret == 0)
		ret = -errno;
	free(f);
	return ret;
}
