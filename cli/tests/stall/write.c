/* Holds each write of a trace while the first byte of the file NETMEM_STALL is not 0, and no other write: as a disk does
 * that does not answer. The byte is looked at without a system call, of which a worker has few. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char begin[] = "{\"ns\":";
static const volatile char *held;

__attribute__((constructor)) static void look(void) {
    const char *path = getenv("NETMEM_STALL");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *page = mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (page != MAP_FAILED)
        held = page;
}

ssize_t write(int fd, const void *bytes, size_t len) {
    if (held && len >= sizeof begin - 1 && memcmp(bytes, begin, sizeof begin - 1) == 0)
        while (*held)
            ;
    return syscall(SYS_write, fd, bytes, len);
}
