/* A plug-in that allocates a frame for the program that loads it (unloaded.c). */
#include <netmem.h>

int takes_a_frame(netmem_worker worker, netmem_pool pool, netmem_frame *frame)
{
    return netmem_alloc(worker, pool, frame, 1);
}
