/* What misuse looks like on standard error: usage: report | report abort */
#include "first.h"

int main(int argc, char **argv)
{
    (void)argv;
    open_all();
    CHECK(netmem_trace(1) == 0);
    netmem_frame frame = one();
    if (argc > 1)
        CHECK(netmem_set_policy(NETMEM_ABORT) == 0);
    CHECK(netmem_free(worker, &frame, 1) == 0); /* given back here */
    CHECK(netmem_free(worker, &frame, 1) < 0);  /* and here again */
    close_all();
    return 0;
}
