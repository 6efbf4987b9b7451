/* Prints the first handle of this process. */
#include "first.h"

int main(void)
{
    open_all();
    printf("%llx\n", (unsigned long long)memory.word);
    close_all();
    return 0;
}
