/* A child of fork(2) that ends by exit(3), which looks for leaks where a sanitizer does. */
#include "first.h"
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    int status;
    netmem_worker second;
    open_all();
    netmem_frame frame = one();
    CHECK(netmem_worker_open(memory, &second) == 0);
    if (fork() == 0)
        exit(netmem_free(worker, &frame, 1) == -ECHILD && strstr(netmem_last_error(), "open the memory after the fork") ? 0 : 1);
    CHECK(wait(&status) > 0 && status == 0);
    CHECK(netmem_worker_close(second) == 0 && netmem_free(worker, &frame, 1) == 0);
    close_all();
    printf("all as it should be\n");
    return 0;
}
