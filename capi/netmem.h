/* libnetmem: the memory system of a packet dataplane, with handles that catch every misuse. See libnetmem(3).
 *
 * Made by `NETMEM_WRITE_HEADER=1 cargo test -p netmem-capi --test header`: change capi/src/api, not this file.
 *
 * Calls return a number that is not negative, or a negative errno; netmem_last_error() has the line that goes with it. Calls that
 * move or name frames are macros over functions that end in _at and take the place of the call too, for reports.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */

#ifndef NETMEM_H
#define NETMEM_H

#include <stddef.h>
#include <stdint.h>

/* What is done about misuse: it is counted; and there is a line on standard error; and the process ends. */
#define NETMEM_COUNT 0
#define NETMEM_REPORT 1
#define NETMEM_ABORT 2
/* In the place of a number that is usual where it is 0: none at all. */
#define NETMEM_NONE UINT32_MAX


/* A counter. */
typedef struct {
    /* Its name, ended by 0. */
    char name[32];
    uint64_t value;
} netmem_count;

/* How a memory is made. What is 0 is as usual. */
typedef struct {
    /* Bytes of pages, rounded up to 2 MiB; 0: 64 MiB. */
    uint64_t bytes;
    /* Workers at most, to 64; 0: 4. */
    uint32_t workers;
    /* 1: small pages, without a try to have huge ones. */
    uint32_t small_pages;
    /* 1: in a file that a peer process can map (netmem_memory_fd). Ports hand its frames to the peers they are told to lend to: a memif port with
     * lend=yes wants such a memory, of less than 4 GiB. */
    uint32_t in_file;
    /* 0. */
    uint32_t reserved[5];
} netmem_memory_config;

/* A memory: pages, and the workers that may take them. 0 in `word` is none, here and in the other handles. */
typedef struct {
    uint64_t word;
} netmem_memory;

/* A worker of a memory, for one thread at a time. */
typedef struct {
    uint64_t word;
} netmem_worker;

/* How a pool is made. What is 0 is as usual. */
typedef struct {
    /* What it is called in reports; NULL: "pool". */
    const char *name;
    /* Frames at most; 0: 4096. */
    uint32_t frames;
    /* Bytes of a frame: 2048, 4096, 8192, 16384 or 32768; 0: 2048. */
    uint32_t frame_size;
    /* Frames that its worker keeps at hand; 0: 512. To have none, NETMEM_NONE. */
    uint32_t cache;
    /* 1: all bytes of a frame are 0 when it is given out. */
    uint32_t cleared;
    /* 0. */
    uint32_t reserved[8];
} netmem_pool_config;

/* A pool of frames. */
typedef struct {
    uint64_t word;
} netmem_pool;

/* A frame, and the use it was given out for. It is good until that use ends: by netmem_free, by netmem_port_tx. */
typedef struct {
    uint64_t word;
} netmem_frame;

/* A frame's data, and the room around it. */
typedef struct {
    /* The first byte; NULL where the word was refused. */
    void *data;
    /* Bytes of data. */
    uint32_t len;
    /* Bytes before it. */
    uint16_t headroom;
    /* Bytes after it. */
    uint16_t tailroom;
} netmem_span;

/* A lane: rings by which frames and packets go from one worker to another. */
typedef struct {
    uint64_t word;
} netmem_lane;

/* How a cache is made. What is 0 is as usual. */
typedef struct {
    /* What it is called in reports; NULL: "cache". */
    const char *name;
    /* Bytes of an object. */
    uint32_t size;
    /* What its address is a multiple of, a power of two; 0: 8. */
    uint32_t align;
    /* 0. */
    uint32_t reserved[6];
} netmem_cache_config;

/* A cache of objects of one size. */
typedef struct {
    uint64_t word;
} netmem_cache;

/* Size classes: bytes of any number. */
typedef struct {
    uint64_t word;
} netmem_sizes;

/* An object of a cache, or bytes of size classes, and the use that it was given out for. It is good until netmem_object_free. */
typedef struct {
    uint64_t word;
} netmem_object;

/* A block of pages, and the use that it was given out for. It is good until netmem_page_free. */
typedef struct {
    uint64_t word;
} netmem_page;

/* How heads are made. What is 0 is as usual. */
typedef struct {
    /* What they are called in reports; NULL: "packet_head". */
    const char *name;
    /* Free heads that each worker has at hand at most, 1 to 4096; 0: 128. */
    uint32_t size;
    /* Heads that a worker gets at once when it has none, 1 to size; 0: a quarter of size. */
    uint32_t refill;
    /* Heads that a worker gives back at once when it has too many, 1 to size; 0: a quarter of size. */
    uint32_t flush;
    /* 0. */
    uint32_t reserved[5];
} netmem_heads_config;

/* Heads for packets: of each packet what is known of it beside its bytes. */
typedef struct {
    uint64_t word;
} netmem_heads;

/* A packet: a head, and bytes in one frame or in several parts; and the use that it was given out for. It is good until that use ends: by
 * netmem_packet_free, by netmem_port_tx_packets. */
typedef struct {
    uint64_t word;
} netmem_packet;

/* One part of a packet, to be read. */
typedef struct {
    /* The first byte. */
    const void *data;
    /* Bytes of data; some parts may have none. */
    uint32_t len;
    /* Of the first part, bytes before it that netmem_packet_push can take; 0 of others. */
    uint16_t headroom;
    /* Of the last part, bytes after it that netmem_packet_put can take; 0 of others. */
    uint16_t tailroom;
} netmem_part;

/* A ready pool: packets whose head and frame stay together from one use to the next. */
typedef struct {
    uint64_t word;
} netmem_ready;

/* One of several claims on a frame, which none of them writes, and the use that it was given out for. It is good until netmem_shared_free. */
typedef struct {
    uint64_t word;
} netmem_shared;

/* How a port is opened. What is 0 is as usual. */
typedef struct {
    /* Places of each ring, a power of two (else -EINVAL); 0: 2048. */
    uint32_t ring;
    /* 0. */
    uint32_t reserved[7];
} netmem_port_config;

/* A port of a worker. */
typedef struct {
    uint64_t word;
} netmem_port;

/* Where a pool's frames are: free + cached + ready + owned + posted + queued + returning is total while nobody moves one. */
typedef struct {
    uint64_t total;
    uint64_t free;
    uint64_t cached;
    uint64_t ready;
    /* With the program. */
    uint64_t owned;
    /* With devices. */
    uint64_t posted;
    uint64_t queued;
    uint64_t returning;
    uint64_t astray;
} netmem_ledger;

/* Frames, or objects of a cache, that were given out at one place of the program and have not come back. */
typedef struct {
    /* Where, as "FILE:LINE"; NULL where that was before netmem_trace(1). */
    const char *site;
    /* How many. */
    uint64_t frames;
} netmem_holder;

/* A frame without a generation: nothing that is done with it is checked. Bits 32 to 47 are its headroom, 48 to 63 its length. */
typedef struct {
    uint64_t word;
} netmem_raw;

/* How a stock is made. */
typedef struct {
    /* What it is called in reports; NULL: "stock". */
    const char *name;
    /* Objects at most. */
    uint32_t objects;
    /* 0. */
    uint32_t reserved[7];
} netmem_stock_config;

/* A stock: objects of the program's own, each free or out. Any thread may take and give back. */
typedef struct {
    uint64_t word;
} netmem_stock;

/* Where a stock's objects are: free + cached + out is total, and doubled is 0. */
typedef struct {
    uint64_t total;
    uint64_t free;
    /* Out, and in the caches that the call named. */
    uint64_t cached;
    /* Out, and in none: with the program, or lost by it. */
    uint64_t out;
    /* In those caches, but free, or twice: given back twice, and not yet come by here. */
    uint64_t doubled;
    /* Objects that were taken, and given back, since it was opened. */
    uint64_t taken;
    uint64_t given;
    /* Calls that wanted more than were free. */
    uint64_t short_of;
    /* Refused: given back twice, and never of this stock. */
    uint64_t freed_twice;
    uint64_t made_up;
} netmem_census;

/* Objects that were taken at one place of the program and are out. */
typedef struct {
    /* As "program+0x1234 (function+0x56)", ended by 0; empty where it is not known. */
    char place[120];
    /* How many. */
    uint64_t objects;
} netmem_stock_holder;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/* The library's version, as "0.1.0". */
const char *netmem_version(void);

/* What went wrong with the last call of this thread that failed, in one line; good until its next failure. Where a call has
 * refused several words it is about the first, as the errno is. */
const char *netmem_last_error(void);

/* Says what is done about misuse: NETMEM_COUNT, NETMEM_REPORT (a line on standard error, the default) or NETMEM_ABORT (and
 * the process ends). In each case it is counted, and the call does nothing and returns a negative errno. */
int netmem_set_policy(int policy);

/* What is done about misuse now. */
int netmem_policy(void);

/* Notes from now on where each frame, object and page is given out and where its use ends, for reports, netmem_pool_holders and
 * netmem_cache_holders; 0: no longer. */
int netmem_trace(int on);

/* Misuse so far, by kind: writes at most `room` counters and returns how many there are. */
int netmem_misuses(netmem_count *counts, size_t room);

/* Opens a memory of its own; `config` may be NULL. */
int netmem_memory_open(const netmem_memory_config *config, netmem_memory *memory);

/* Opens a memory over `bytes` bytes at `base`, which are the caller's: mapped, readable and writable, and touched by nobody else
 * until netmem_memory_close has returned 0. A mapping of a memfd is such memory. `config` may be NULL. */
int netmem_memory_lend(void *base,
                       size_t bytes,
                       const netmem_memory_config *config,
                       netmem_memory *memory);

/* The descriptor of the file that a memory with `in_file` lies in, for a peer to map. It is closed with the memory. */
int netmem_memory_fd(netmem_memory memory);

/* Closes a memory, whose workers, pools, caches, heads, ready pools and lanes were closed before, and waits up to `milliseconds` until the last of its frames is home.
 * Returns 0 when nothing of it is in use any more, and -ETIMEDOUT when some is: then it may be called again. */
int netmem_memory_close(netmem_memory memory,
                        uint32_t milliseconds);

/* Opens a worker of a memory, for the thread that calls. Every call that moves frames wants one, and only its own thread may make
 * them; threads that use the library at the same time have a worker each. */
int netmem_worker_open(netmem_memory memory,
                       netmem_worker *worker);

/* Closes a worker, which has no port and no end of a lane any more, and holds no frame, object, page, packet or shared frame (else -EBUSY). Raw frames are
 * not counted: they are out of their pool until they are freed, by whatever worker. */
int netmem_worker_close(netmem_worker worker);

/* Makes the worker no thread's, for another one to call netmem_worker_enter. A thread that ends leaves or closes its workers first. */
int netmem_worker_leave(netmem_worker worker);

/* Makes a worker that no thread has the calling thread's. */
int netmem_worker_enter(netmem_worker worker);

/* Frames, objects, pages, packets and shared frames that the worker was given and has not given back. Raw frames are not among them: only their pool has
 * them, as `owned` in netmem_pool_ledger, and netmem_pool_close waits for them. */
int netmem_worker_held(netmem_worker worker);

/* Opens a pool of frames, whose owner is the worker: what it allocates and frees there costs least. `config` may be NULL. */
int netmem_pool_open(netmem_worker worker,
                     const netmem_pool_config *config,
                     netmem_pool *pool);

/* Closes a pool, from which nothing is allocated any more, and waits up to `milliseconds` until its frames are home. Returns 0 when they are,
 * and -ETIMEDOUT when some are not (netmem_last_error says how many): the pool is closed, its frames stay good until they are freed, and it may be
 * called again. */
int netmem_pool_close(netmem_pool pool,
                      uint32_t milliseconds);

/* Allocates up to `n` empty frames of a pool; returns how many, which are fewer only when the pool has no more. */
int netmem_alloc_at(netmem_worker worker,
                    netmem_pool pool,
                    netmem_frame *frames,
                    uint32_t n,
                    const char *site);

/* Frees frames of whatever pool. Those whose word is good are freed, also when another's is not: then the result is the negative errno
 * of the first that is not, and 0 else. */
int netmem_free_at(netmem_worker worker,
                   const netmem_frame *frames,
                   uint32_t n,
                   const char *site);

/* As netmem_free, of frames that must be this pool's: others are refused (-EXDEV), and stay with the caller. */
int netmem_pool_free_at(netmem_worker worker,
                        netmem_pool pool,
                        const netmem_frame *frames,
                        uint32_t n,
                        const char *site);

/* Says of each frame where its data is, how long it is and what room is around it. Where a word is not good its span's `data` is
 * NULL, and the result the negative errno of the first such; 0 else. */
int netmem_spans_at(netmem_worker worker,
                    const netmem_frame *frames,
                    uint32_t n,
                    netmem_span *spans,
                    const char *site);

/* The frame's data; NULL where the word is not good. */
void *netmem_data_at(netmem_worker worker, netmem_frame frame, const char *site);

/* Bytes of data. */
int netmem_len_at(netmem_worker worker, netmem_frame frame, const char *site);

/* Ends the data `n` bytes later. Returns where those bytes are, to be written: they hold what an earlier use left there. NULL where the
 * word is not good, or there is no room. */
void *netmem_put_at(netmem_worker worker,
                    netmem_frame frame,
                    uint32_t n,
                    const char *site);

/* Begins the data `n` bytes earlier, for a header in front. Returns its new start, or NULL where the word is not good, or the headroom is
 * smaller. */
void *netmem_push_at(netmem_worker worker,
                     netmem_frame frame,
                     uint32_t n,
                     const char *site);

/* Begins the data `n` bytes later. Returns its new start, or NULL where the word is not good, or there is less data. */
void *netmem_pull_at(netmem_worker worker,
                     netmem_frame frame,
                     uint32_t n,
                     const char *site);

/* Cuts the data to its first `len` bytes; -ENOBUFS where there are fewer. */
int netmem_trim_at(netmem_worker worker, netmem_frame frame, uint32_t len, const char *site);

/* Makes frames nobody's, to be given to another thread, and replaces each word by the one under which that thread attaches the frame.
 * Returns how many. Where a word is not good, it and those behind it are as they were; where that is the first one the result is the negative errno. */
int netmem_detach_at(netmem_worker worker,
                     netmem_frame *frames,
                     uint32_t n,
                     const char *site);

/* Makes detached frames this worker's, and replaces each word by the one that is good from now on. Returns as netmem_detach does. Of several that
 * try, one gets the frame. */
int netmem_attach_at(netmem_worker worker,
                     netmem_frame *frames,
                     uint32_t n,
                     const char *site);

/* Opens a lane, whose sender is the worker, for up to `frames` frames that wait, 64 to 2^20, and as many packets; 0: 1024. Another worker of the memory
 * becomes its receiver by netmem_lane_join. */
int netmem_lane_open(netmem_worker worker,
                     uint32_t frames,
                     netmem_lane *lane);

/* Makes the worker the receiver of a lane, which has none yet (else -EBUSY). It may be the sender too. */
int netmem_lane_join(netmem_worker worker,
                     netmem_lane lane);

/* Sends frames, from the front, as many as the lane has room for; returns how many. Their words are good no longer: the receiver gets new ones. The others
 * stay the caller's, as they are. -EPIPE where the receiver has closed its end. Where a word is not good nothing is sent from it on, and where it is among the
 * first 64 the result is the negative errno. */
int netmem_lane_send_at(netmem_worker worker,
                        netmem_lane lane,
                        const netmem_frame *frames,
                        uint32_t n,
                        const char *site);

/* Receives up to `n` frames, oldest first; returns how many. -EPIPE where there are none and the sender has closed its end. */
int netmem_lane_receive_at(netmem_worker worker,
                           netmem_lane lane,
                           netmem_frame *frames,
                           uint32_t n,
                           const char *site);

/* Before the receiver sleeps on netmem_lane_fd: 1 where something waits already, or the sender has closed its end, and it had better not. */
int netmem_lane_arm(netmem_worker worker,
                    netmem_lane lane);

/* After the receiver has slept, or would not. */
int netmem_lane_disarm(netmem_worker worker, netmem_lane lane);

/* The descriptor that is readable when frames or packets come, or the sender closes its end, while the lane is armed. It is the lane's, and closed with it. */
int netmem_lane_fd(netmem_worker worker,
                   netmem_lane lane);

/* Closes the worker's end of a lane, or both if it has both. What the sender sent before it closed waits for the receiver. What waits when the receiver closes
 * goes home; returns how many frames and packets those were, 0 of the sender. A lane without a receiver is joined by some worker first, to be closed for good. */
int netmem_lane_close(netmem_worker worker,
                      netmem_lane lane);

/* A lane's counters: writes at most `room` and returns how many there are. */
int netmem_lane_counts(netmem_lane lane, netmem_count *counts, size_t room);

/* Opens a cache of objects of one size, for all workers of the memory. */
int netmem_cache_open(netmem_worker worker, const netmem_cache_config *config, netmem_cache *cache);

/* Closes a cache, of which no object is out any more (else -EBUSY). */
int netmem_cache_close(netmem_cache cache);

/* Opens size classes, for all workers of the memory: bytes of any number up to 4 MiB, as of malloc(3). `name` may be NULL. */
int netmem_sizes_open(netmem_worker worker,
                      const char *name,
                      netmem_sizes *sizes);

/* Closes size classes, of which no bytes are out any more (else -EBUSY). */
int netmem_sizes_close(netmem_sizes sizes);

/* A cache's counters under the names of `netmem stat`: writes at most `room` and returns how many there are. */
int netmem_cache_counts(netmem_cache cache,
                        netmem_count *counts,
                        size_t room);

/* Allocates up to `n` objects of a cache; returns how many, which are fewer only when the memory has no more. They hold what an earlier use left
 * there. */
int netmem_object_alloc_at(netmem_worker worker,
                           netmem_cache cache,
                           netmem_object *objects,
                           uint32_t n,
                           const char *site);

/* Allocates `bytes` bytes of size classes: 0, or -ENOMEM. They hold what an earlier use left there. */
int netmem_sizes_alloc_at(netmem_worker worker,
                          netmem_sizes sizes,
                          size_t bytes,
                          netmem_object *object,
                          const char *site);

/* Frees objects of whatever cache or size classes. Those whose word is good are freed, also when another's is not: then the result is the negative
 * errno of the first that is not, and 0 else. */
int netmem_object_free_at(netmem_worker worker,
                          const netmem_object *objects,
                          uint32_t n,
                          const char *site);

/* As netmem_object_free, of objects that must be this cache's: others are refused (-EXDEV), and stay with the caller. */
int netmem_cache_free_at(netmem_worker worker,
                         netmem_cache cache,
                         const netmem_object *objects,
                         uint32_t n,
                         const char *site);

/* The object's bytes; NULL where the word is not good. */
void *netmem_object_data_at(netmem_worker worker, netmem_object object, const char *site);

/* Bytes that may be used of the object: of size classes what was asked for, rounded up to the class. */
int netmem_object_size_at(netmem_worker worker, netmem_object object, const char *site);

/* Makes objects nobody's, to be given to another thread; as netmem_detach. */
int netmem_object_detach_at(netmem_worker worker,
                            netmem_object *objects,
                            uint32_t n,
                            const char *site);

/* Makes detached objects this worker's; as netmem_attach. */
int netmem_object_attach_at(netmem_worker worker,
                            netmem_object *objects,
                            uint32_t n,
                            const char *site);

/* Allocates up to `n` blocks of 2^order pages of 4096 bytes, order 0 to 10; returns how many, which are fewer only when the memory has no more. They
 * hold what an earlier use left there. */
int netmem_page_alloc_at(netmem_worker worker,
                         uint32_t order,
                         netmem_page *pages,
                         uint32_t n,
                         const char *site);

/* Frees blocks of pages, of whatever order. Those whose word is good are freed, also when another's is not: then the result is the negative errno of the
 * first that is not, and 0 else. */
int netmem_page_free_at(netmem_worker worker,
                        const netmem_page *pages,
                        uint32_t n,
                        const char *site);

/* The block's bytes; NULL where the word is not good. */
void *netmem_page_data_at(netmem_worker worker, netmem_page page, const char *site);

/* Bytes of the block: 4096 << order. */
int netmem_page_size_at(netmem_worker worker, netmem_page page, const char *site);

/* Makes blocks nobody's, to be given to another thread; as netmem_detach. */
int netmem_page_detach_at(netmem_worker worker, netmem_page *pages, uint32_t n, const char *site);

/* Makes detached blocks this worker's; as netmem_attach. */
int netmem_page_attach_at(netmem_worker worker, netmem_page *pages, uint32_t n, const char *site);

/* Opens heads for packets, for all workers of the memory; `config` may be NULL. */
int netmem_heads_open(netmem_worker worker, const netmem_heads_config *config, netmem_heads *heads);

/* Closes heads, of which no packet is out or in a lane any more, and of which no ready pool is open (else -EBUSY). */
int netmem_heads_close(netmem_heads heads);

/* Ends a poll round: heads of packets that this worker freed and another one took go back to that one now, and not when there are enough of them. */
int netmem_heads_end_round(netmem_worker worker,
                           netmem_heads heads);

/* The counters of heads: writes at most `room` and returns how many there are. */
int netmem_heads_counts(netmem_heads heads, netmem_count *counts, size_t room);

/* Allocates up to `n` empty packets: frames of a pool with heads. Returns how many, which are fewer only when the pool has no more frames or
 * the memory none for heads. */
int netmem_packet_alloc_at(netmem_worker worker,
                           netmem_heads heads,
                           netmem_pool pool,
                           netmem_packet *packets,
                           uint32_t n,
                           const char *site);

/* Gives frames heads: from the front, `frames` become as many packets, whose words go to `packets`, another array, and the words of the frames are good
 * no longer. Returns how many. Where there is no memory for a head, the rest stay frames. Where a word is not good nothing is made of the 64 words that it
 * stands among, nor of those behind; where these are the first, the result is the negative errno. */
int netmem_packet_from_frames_at(netmem_worker worker,
                                 netmem_heads heads,
                                 const netmem_frame *frames,
                                 netmem_packet *packets,
                                 uint32_t n,
                                 const char *site);

/* Takes the heads off packets: from the front, `packets` become as many frames, without a copy, whose words go to `frames`, another array, and the words
 * of the packets are good no longer. Returns how many. A packet of several parts, or whose bytes others read too, and one whose word is not good, ends that; where it is the first the result is the
 * negative errno, -EBUSY for the former (netmem_packet_make_sendable makes it one frame). */
int netmem_packet_into_frames_at(netmem_worker worker,
                                 const netmem_packet *packets,
                                 netmem_frame *frames,
                                 uint32_t n,
                                 const char *site);

/* Frees packets of whatever heads, with all their parts. Those whose word is good are freed, also when another's is not: then the result is the
 * negative errno of the first that is not, and 0 else. */
int netmem_packet_free_at(netmem_worker worker,
                          const netmem_packet *packets,
                          uint32_t n,
                          const char *site);

/* As netmem_packet_free, of packets whose heads must be these: others are refused (-EXDEV), and stay with the caller. */
int netmem_heads_free_at(netmem_worker worker,
                         netmem_heads heads,
                         const netmem_packet *packets,
                         uint32_t n,
                         const char *site);

/* Makes packets no worker's, to be given to another thread; as netmem_detach. */
int netmem_packet_detach_at(netmem_worker worker,
                            netmem_packet *packets,
                            uint32_t n,
                            const char *site);

/* Makes detached packets this worker's; as netmem_attach. */
int netmem_packet_attach_at(netmem_worker worker,
                            netmem_packet *packets,
                            uint32_t n,
                            const char *site);

/* Bytes of all parts together. */
int netmem_packet_len_at(netmem_worker worker, netmem_packet packet, const char *site);

/* Says of each part of a packet, first to last, where its bytes are, to be read: writes at most `room` parts and returns how many there are. A packet
 * of one part has all its bytes in that. */
int netmem_packet_parts_at(netmem_worker worker,
                           netmem_packet packet,
                           netmem_part *parts,
                           size_t room,
                           const char *site);

/* The bytes of the first part, to be read; NULL where the word is not good. */
const void *netmem_packet_data_at(netmem_worker worker, netmem_packet packet, const char *site);

/* The bytes of the first part, to be written; NULL where the word is not good, or others may read them (netmem_packet_make_writable copies those). */
void *netmem_packet_write_at(netmem_worker worker,
                             netmem_packet packet,
                             const char *site);

/* Copies the packet's first bytes, of all its parts, to `to`, at most `room`; returns how many. */
int netmem_packet_copy_at(netmem_worker worker,
                          netmem_packet packet,
                          void *to,
                          uint32_t room,
                          const char *site);

/* Ends the data `n` bytes later, in the last part. Returns where those bytes are, to be written: they hold what an earlier use left there. NULL where the
 * word is not good, there is no room, or others may read that part. */
void *netmem_packet_put_at(netmem_worker worker,
                           netmem_packet packet,
                           uint32_t n,
                           const char *site);

/* Begins the data `n` bytes earlier, for a header in front: 0, or -ENOBUFS where the headroom of the first part is smaller. */
int netmem_packet_push_at(netmem_worker worker,
                          netmem_packet packet,
                          uint32_t n,
                          const char *site);

/* Begins the data `n` bytes later, over as many parts as that is: 0, or -ENOBUFS where there is less data. Parts that are empty then stay. */
int netmem_packet_pull_at(netmem_worker worker,
                          netmem_packet packet,
                          uint32_t n,
                          const char *site);

/* Cuts the data to its first `len` bytes: 0, or -ENOBUFS where there are fewer. Parts that are empty then stay. */
int netmem_packet_trim_at(netmem_worker worker,
                          netmem_packet packet,
                          uint32_t len,
                          const char *site);

/* Records the hash of the packet's flow, which stays with the packet, and not with its frame. */
int netmem_packet_set_flow_hash_at(netmem_worker worker,
                                   netmem_packet packet,
                                   uint32_t hash,
                                   const char *site);

/* Writes the hash of the packet's flow to `hash`: 0 where none was recorded. */
int netmem_packet_flow_hash_at(netmem_worker worker,
                               netmem_packet packet,
                               uint32_t *hash,
                               const char *site);

/* Puts the parts of `other` behind those of `packet`, without a copy. The word of `other` is good no longer, and what was recorded of it is forgotten. */
int netmem_packet_append_at(netmem_worker worker,
                            netmem_packet packet,
                            netmem_packet other,
                            const char *site);

/* Puts the parts of `other` in front of those of `packet`, without a copy. The word of `other` is good no longer; what is recorded is that of `other`
 * from then on. */
int netmem_packet_prepend_at(netmem_worker worker,
                             netmem_packet packet,
                             netmem_packet other,
                             const char *site);

/* Cuts a packet after its first `at` bytes; what is behind becomes the packet `rest`, without a copy. Where the cut goes through a part the two share
 * that, and neither writes it. -ENOBUFS where the packet is shorter, -ENOMEM where there is no memory for a head: the packet is as it was then. */
int netmem_packet_split_at(netmem_worker worker,
                           netmem_packet packet,
                           uint32_t at,
                           netmem_packet *rest,
                           const char *site);

/* Makes a second packet over the same bytes, whose word goes to `other`. Neither can be written while the other is there; each pulls and trims for itself. -ENOMEM where there is
 * no memory for heads. */
int netmem_packet_share_at(netmem_worker worker,
                           netmem_packet packet,
                           netmem_packet *other,
                           const char *site);

/* Brings all bytes into one part: behind those of the first, if that can be written and has the room, or else into a frame of `pool`. -ENOMEM where
 * the pool has none, -ENOBUFS where the bytes do not fit into one. */
int netmem_packet_linearize_at(netmem_worker worker,
                               netmem_packet packet,
                               netmem_pool pool,
                               const char *site);

/* Makes all bytes such that they can be written: parts that others may read are copied into frames of `pool`. Returns as netmem_packet_linearize. */
int netmem_packet_make_writable_at(netmem_worker worker,
                                   netmem_packet packet,
                                   netmem_pool pool,
                                   const char *site);

/* Makes the bytes one frame that is the packet's alone, which is what a port takes. Returns 1 where bytes were copied, 0 where that was not needed, and
 * else as netmem_packet_linearize. */
int netmem_packet_make_sendable_at(netmem_worker worker,
                                   netmem_packet packet,
                                   netmem_pool pool,
                                   const char *site);

/* Opens a ready pool: of packets of frames of `pool` and of these heads it has up to `most` ready for each worker of the memory; 0: 50. A pool that is short
 * of frames gets those that are ready, so none is missing elsewhere; one that clears its frames has none ready. */
int netmem_ready_open(netmem_worker worker,
                      netmem_heads heads,
                      netmem_pool pool,
                      uint32_t most,
                      netmem_ready *ready);

/* Closes a ready pool. What it had ready goes back to the pool and the heads; packets that are out stay good, and are freed by netmem_packet_free. */
int netmem_ready_close(netmem_ready ready);

/* Takes up to `n` empty packets, ready ones first; the others are made. Returns how many, which are fewer only when the pool has no more frames or the
 * memory none for heads. */
int netmem_ready_alloc_at(netmem_worker worker,
                          netmem_ready ready,
                          netmem_packet *packets,
                          uint32_t n,
                          const char *site);

/* Frees packets, of which those stay ready that are one frame of the ready pool's pool, theirs alone, as far as there is room; the others go home as by
 * netmem_packet_free. Returns as that does; packets of other heads are refused (-EXDEV), and stay with the caller. */
int netmem_ready_free_at(netmem_worker worker,
                         netmem_ready ready,
                         const netmem_packet *packets,
                         uint32_t n,
                         const char *site);

/* Gives all packets that are ready, with all workers, back to the pool and the heads; returns how many. */
int netmem_ready_drain(netmem_worker worker,
                       netmem_ready ready);

/* The counters of a ready pool: writes at most `room` and returns how many there are. */
int netmem_ready_counts(netmem_ready ready, netmem_count *counts, size_t room);

/* Makes frames such as several can read: from the front, `frames` become as many shared frames, whose words go to `shared`, another array, and the words of the
 * frames are good no longer. Returns how many. Where a word is not good, it and those behind it are as they were; where that is the first one the
 * result is the negative errno. */
int netmem_share_at(netmem_worker worker,
                    const netmem_frame *frames,
                    netmem_shared *shared,
                    uint32_t n,
                    const char *site);

/* Makes one more claim on the same frame, with the same bytes, which each of both pulls and trims for itself: its word goes to `clone`. */
int netmem_shared_clone_at(netmem_worker worker,
                           netmem_shared shared,
                           netmem_shared *clone,
                           const char *site);

/* Gives claims up; the last one on a frame sends it home. Those whose word is good are given up, also when another's is not: then the result is the
 * negative errno of the first that is not, and 0 else. */
int netmem_shared_free_at(netmem_worker worker,
                          const netmem_shared *shared,
                          uint32_t n,
                          const char *site);

/* The bytes, to be read; NULL where the word is not good. */
const void *netmem_shared_data_at(netmem_worker worker, netmem_shared shared, const char *site);

/* Bytes of data of this claim. */
int netmem_shared_len_at(netmem_worker worker, netmem_shared shared, const char *site);

/* Claims on the frame at this moment. */
int netmem_shared_holders_at(netmem_worker worker, netmem_shared shared, const char *site);

/* Begins this claim's data `n` bytes later, and no other claim's: 0, or -ENOBUFS where there is less. */
int netmem_shared_pull_at(netmem_worker worker, netmem_shared shared, uint32_t n, const char *site);

/* Cuts this claim's data to its first `len` bytes, and no other claim's: 0, or -ENOBUFS where there are fewer. */
int netmem_shared_trim_at(netmem_worker worker,
                          netmem_shared shared,
                          uint32_t len,
                          const char *site);

/* Makes the only claim on a frame that frame again, to be written and sent; its word goes to `frame`, and that of the claim is good no longer. -EBUSY
 * where there are other claims: this one is as it was then. */
int netmem_shared_into_frame_at(netmem_worker worker,
                                netmem_shared shared,
                                netmem_frame *frame,
                                const char *site);

/* Gives a shared frame a head: its word is good no longer, that of the packet goes to `packet`. -ENOMEM where the memory has none for a head: the claim
 * is as it was then. */
int netmem_packet_from_shared_at(netmem_worker worker,
                                 netmem_heads heads,
                                 netmem_shared shared,
                                 netmem_packet *packet,
                                 const char *site);

/* Makes shared frames no worker's, to be given to another thread; as netmem_detach. */
int netmem_shared_detach_at(netmem_worker worker,
                            netmem_shared *shared,
                            uint32_t n,
                            const char *site);

/* Makes detached shared frames this worker's; as netmem_attach. */
int netmem_shared_attach_at(netmem_worker worker,
                            netmem_shared *shared,
                            uint32_t n,
                            const char *site);

/* Ends every use that the worker has not given back, and sends the frames, objects, pages and packets home: for what a program has lost. Returns how many.
 * Raw frames are not among them. */
int netmem_worker_reclaim(netmem_worker worker);

/* Opens a port of the worker by what is written behind `--port` of the program netmem ("xdp:eth0", "memif:/run/memif.sock", "packet:eth0",
 * "tap:tap0", "pcap:in=FILE", with "fault:" and "trace:" around them), which receives into frames of `pool`. `config` may be NULL. A port
 * that receives wants frames first: netmem_port_refill. It stays with the worker until netmem_port_close. "memif:PATH,lend=yes" lends frames of the whole
 * memory, also with peer=, and is -EINVAL where no peer can map that: where it was opened without `in_file`, or has 4 GiB or more. */
int netmem_port_open(netmem_worker worker,
                     netmem_pool pool,
                     const char *text,
                     const netmem_port_config *config,
                     netmem_port *port);

/* Receives up to `n` frames; returns how many. */
int netmem_port_rx_at(netmem_worker worker,
                      netmem_port port,
                      netmem_frame *frames,
                      uint32_t n,
                      const char *site);

/* Posts frames for transmission; returns how many. What was taken is the port's: its words are good no longer. The others stay the
 * caller's, and stand behind those in `frames`, in order. Where a word is not good nothing is posted at all from it on, and where it
 * is among the first 64 the result is the negative errno. */
int netmem_port_tx_at(netmem_worker worker,
                      netmem_port port,
                      netmem_frame *frames,
                      uint32_t n,
                      const char *site);

/* Posts empty frames for reception; returns as netmem_port_tx does. */
int netmem_port_fill_at(netmem_worker worker,
                        netmem_port port,
                        netmem_frame *frames,
                        uint32_t n,
                        const char *site);

/* Tops the port up with empty frames of `pool`, to receive into; returns how many. To be called once a round. */
int netmem_port_refill(netmem_worker worker,
                       netmem_port port,
                       netmem_pool pool);

/* Takes back the frames that were sent, and frees them; returns how many. Completions do not come by themselves: to be called once a round. */
int netmem_port_complete(netmem_worker worker,
                         netmem_port port);

/* Wakes the device where it asked for that; to be called once a round, after the other calls. A memif port that is down goes on with its handshake in
 * this call, and at once in netmem_port_arm and netmem_port_disarm: a program that waits until a port is up kicks it until netmem_port_state says 0. */
int netmem_port_kick(netmem_worker worker,
                     netmem_port port);

/* Before the thread sleeps on netmem_port_fd: 1 where there is something already, and it had better not. */
int netmem_port_arm(netmem_worker worker,
                    netmem_port port);

/* After the thread has slept. */
int netmem_port_disarm(netmem_worker worker, netmem_port port);

/* The descriptor that is readable when something comes while the port is armed. It is the port's, and closed with it. -EINVAL where nothing
 * would wake. */
int netmem_port_fd(netmem_worker worker,
                   netmem_port port);

/* Returns 0 where the port carries frames, and -ENETDOWN where not; netmem_last_error says why. The answer is what netmem_port_kick saw last. */
int netmem_port_state(netmem_worker worker,
                      netmem_port port);

/* 1 where nothing will be received any more, since all of a file was (which netmem_port_kick finds out); 0 else. */
int netmem_port_finished(netmem_worker worker,
                         netmem_port port);

/* The port's name, as "xdp:eth0"; good until it is closed. */
int netmem_port_name(netmem_worker worker, netmem_port port, const char **name);

/* A port's counters under the names of `netmem stat ports`: writes at most `room` and returns how many there are. */
int netmem_port_counts(netmem_worker worker,
                       netmem_port port,
                       netmem_count *counts,
                       size_t room);

/* Closes a port. Frames that it had go home, as far as its device is done with them. */
int netmem_port_close(netmem_worker worker, netmem_port port);

/* Receives up to `n` packets: frames with heads. Returns how many. Frames for which the memory has no head wait for a later call, by this or by
 * netmem_port_rx. */
int netmem_port_rx_packets_at(netmem_worker worker,
                              netmem_port port,
                              netmem_heads heads,
                              netmem_packet *packets,
                              uint32_t n,
                              const char *site);

/* Posts packets for transmission, each of which is one frame that is its alone (netmem_packet_make_sendable); returns how many. What was taken is the
 * port's: its words are good no longer, its heads are free. The others stay the caller's, and stand behind those in `packets`, in order. Where a word is
 * not good, or a packet is not one frame (-EBUSY), nothing is posted from it on, and where it is among the first 64 the result is the negative errno. */
int netmem_port_tx_packets_at(netmem_worker worker,
                              netmem_port port,
                              netmem_packet *packets,
                              uint32_t n,
                              const char *site);

/* Sends packets, each with all its parts, from the front, as many as the lane has room for; returns how many. Their words are good no longer: the receiver
 * gets new ones, by netmem_lane_receive_packets. The others stay the caller's, as they are. -EPIPE where the receiver has closed its end. Where a word is not
 * good nothing is sent from it on, and where it is the first the result is the negative errno. Packets come in the order of packets, frames in that of frames. */
int netmem_lane_send_packets_at(netmem_worker worker,
                                netmem_lane lane,
                                const netmem_packet *packets,
                                uint32_t n,
                                const char *site);

/* Receives up to `n` packets, oldest first, and returns how many. These are fewer than wait in the lane only when there is no memory to note them. -EPIPE where
 * none waits and the sender has closed its end. Each packet still has the head that it was sent with; netmem_packet_free gives that back to the heads that it
 * was taken from, and the frames to their pools. */
int netmem_lane_receive_packets_at(netmem_worker worker,
                                   netmem_lane lane,
                                   netmem_packet *packets,
                                   uint32_t n,
                                   const char *site);

/* Counts where a pool's frames are; exact while nobody moves one. Returns 1 where they add up, and 0 where not. */
int netmem_pool_ledger(netmem_pool pool,
                       netmem_ledger *ledger);

/* A pool's counters under the names of `netmem stat pools`: writes at most `room` and returns how many there are. */
int netmem_pool_counts(netmem_pool pool,
                       netmem_count *counts,
                       size_t room);

/* Who holds frames of a pool that were given out while tracing was on, also as packets and shared frames, of which each counts as one, the one with most
 * first: writes at most `room` and returns how many there
 * are. */
int netmem_pool_holders(netmem_pool pool,
                        netmem_holder *holders,
                        size_t room);

/* As netmem_pool_holders, of the objects of a cache; `frames` counts objects. */
int netmem_cache_holders(netmem_cache cache, netmem_holder *holders, size_t room);

/* As netmem_alloc, of frames whose words nothing checks. Raw calls take no place of the program: what they refuse is reported by the call and the word. */
int netmem_raw_alloc(netmem_worker worker,
                     netmem_pool pool,
                     netmem_raw *frames,
                     uint32_t n);

/* Frees frames of netmem_raw_alloc, each of which is given back by this once. A word of 0 is passed over. */
int netmem_raw_free(netmem_worker worker,
                    const netmem_raw *frames,
                    uint32_t n);

/* As netmem_raw_free, of frames that are all this pool's: it costs less, since only the first frame is looked at. The caller promises that each word
 * is a frame of this pool; none is 0.
 * All frames are looked at while netmem_trace(1) is on, where the first is another pool's, and where the pool's cache does not take them all. Then frames
 * of other pools (-EXDEV) and words of 0 (-EBADF) are refused and stay with the caller, and the others are freed. A frame of another pool
 * that is not looked at is given out again as one of this pool's, with this pool's headroom, whether its own size has room for that or not; the ledgers of both
 * pools are wrong from then on, and this pool may give pages back while a frame in them is in use. So memory of others may be overwritten. */
int netmem_raw_pool_free(netmem_worker worker,
                         netmem_pool pool,
                         const netmem_raw *frames,
                         uint32_t n);

/* The data of a raw frame; NULL for a word of 0. */
void *netmem_raw_data(netmem_raw frame);

/* Ends the data of a raw frame `n` bytes later, which changes its word. Returns where those bytes are, or NULL where there is no room. */
void *netmem_raw_put(netmem_raw *frame,
                     uint32_t n);

/* Opens a stock, without an object yet. */
int netmem_stock_open(const netmem_stock_config *config, netmem_stock *stock);

/* Closes a stock; returns how many of its objects were out. */
int netmem_stock_close(netmem_stock stock);

/* Adds objects by their addresses. They are out until they are given back the first time. Nothing is ever read or written there. */
int netmem_stock_add(netmem_stock stock,
                     void *const *objects,
                     uint32_t n);

/* Takes `n` objects: 0, or -ENOBUFS and none where fewer are free. `from` is the place in the program's code that reports are to name, as
 * `__builtin_return_address(0)`, or NULL. */
int netmem_stock_take(netmem_stock stock,
                      void **objects,
                      uint32_t n,
                      const void *from);

/* Gives objects back. Those that are out are free from then on, also when another is refused: then the result is the negative errno of the first
 * that is (-ESTALE: given back twice; -EBADF: not of this stock), and 0 else. `from` is as of netmem_stock_take. */
int netmem_stock_give(netmem_stock stock,
                      void *const *objects,
                      uint32_t n,
                      const void *from);

/* Objects that are free. */
int netmem_stock_count(netmem_stock stock);

/* Counts where a stock's objects are, of which those at the `n` addresses at `cached` lie in caches in front of it. Returns 1 where they add up,
 * and 0 where not; exact while nobody moves one. */
int netmem_stock_ledger(netmem_stock stock,
                        void *const *cached,
                        size_t n,
                        netmem_census *ledger);

/* Where the objects were taken that are out and not `cached`, the place with most first: writes at most `room` and returns how many
 * there are. */
int netmem_stock_holders(netmem_stock stock,
                         void *const *cached,
                         size_t n,
                         netmem_stock_holder *holders,
                         size_t room);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

/* The place of a call. */
#define NETMEM_TEXT_(x) #x
#define NETMEM_TEXT(x) NETMEM_TEXT_(x)
#define NETMEM_SITE __FILE__ ":" NETMEM_TEXT(__LINE__)
#define netmem_alloc(worker, pool, frames, n) netmem_alloc_at((worker), (pool), (frames), (n), NETMEM_SITE)
#define netmem_free(worker, frames, n) netmem_free_at((worker), (frames), (n), NETMEM_SITE)
#define netmem_pool_free(worker, pool, frames, n) netmem_pool_free_at((worker), (pool), (frames), (n), NETMEM_SITE)
#define netmem_spans(worker, frames, n, spans) netmem_spans_at((worker), (frames), (n), (spans), NETMEM_SITE)
#define netmem_data(worker, frame) netmem_data_at((worker), (frame), NETMEM_SITE)
#define netmem_len(worker, frame) netmem_len_at((worker), (frame), NETMEM_SITE)
#define netmem_put(worker, frame, n) netmem_put_at((worker), (frame), (n), NETMEM_SITE)
#define netmem_push(worker, frame, n) netmem_push_at((worker), (frame), (n), NETMEM_SITE)
#define netmem_pull(worker, frame, n) netmem_pull_at((worker), (frame), (n), NETMEM_SITE)
#define netmem_trim(worker, frame, len) netmem_trim_at((worker), (frame), (len), NETMEM_SITE)
#define netmem_detach(worker, frames, n) netmem_detach_at((worker), (frames), (n), NETMEM_SITE)
#define netmem_attach(worker, frames, n) netmem_attach_at((worker), (frames), (n), NETMEM_SITE)
#define netmem_lane_send(worker, lane, frames, n) netmem_lane_send_at((worker), (lane), (frames), (n), NETMEM_SITE)
#define netmem_lane_receive(worker, lane, frames, n) netmem_lane_receive_at((worker), (lane), (frames), (n), NETMEM_SITE)
#define netmem_object_alloc(worker, cache, objects, n) netmem_object_alloc_at((worker), (cache), (objects), (n), NETMEM_SITE)
#define netmem_sizes_alloc(worker, sizes, bytes, object) netmem_sizes_alloc_at((worker), (sizes), (bytes), (object), NETMEM_SITE)
#define netmem_object_free(worker, objects, n) netmem_object_free_at((worker), (objects), (n), NETMEM_SITE)
#define netmem_cache_free(worker, cache, objects, n) netmem_cache_free_at((worker), (cache), (objects), (n), NETMEM_SITE)
#define netmem_object_data(worker, object) netmem_object_data_at((worker), (object), NETMEM_SITE)
#define netmem_object_size(worker, object) netmem_object_size_at((worker), (object), NETMEM_SITE)
#define netmem_object_detach(worker, objects, n) netmem_object_detach_at((worker), (objects), (n), NETMEM_SITE)
#define netmem_object_attach(worker, objects, n) netmem_object_attach_at((worker), (objects), (n), NETMEM_SITE)
#define netmem_page_alloc(worker, order, pages, n) netmem_page_alloc_at((worker), (order), (pages), (n), NETMEM_SITE)
#define netmem_page_free(worker, pages, n) netmem_page_free_at((worker), (pages), (n), NETMEM_SITE)
#define netmem_page_data(worker, page) netmem_page_data_at((worker), (page), NETMEM_SITE)
#define netmem_page_size(worker, page) netmem_page_size_at((worker), (page), NETMEM_SITE)
#define netmem_page_detach(worker, pages, n) netmem_page_detach_at((worker), (pages), (n), NETMEM_SITE)
#define netmem_page_attach(worker, pages, n) netmem_page_attach_at((worker), (pages), (n), NETMEM_SITE)
#define netmem_packet_alloc(worker, heads, pool, packets, n) netmem_packet_alloc_at((worker), (heads), (pool), (packets), (n), NETMEM_SITE)
#define netmem_packet_from_frames(worker, heads, frames, packets, n) netmem_packet_from_frames_at((worker), (heads), (frames), (packets), (n), NETMEM_SITE)
#define netmem_packet_into_frames(worker, packets, frames, n) netmem_packet_into_frames_at((worker), (packets), (frames), (n), NETMEM_SITE)
#define netmem_packet_free(worker, packets, n) netmem_packet_free_at((worker), (packets), (n), NETMEM_SITE)
#define netmem_heads_free(worker, heads, packets, n) netmem_heads_free_at((worker), (heads), (packets), (n), NETMEM_SITE)
#define netmem_packet_detach(worker, packets, n) netmem_packet_detach_at((worker), (packets), (n), NETMEM_SITE)
#define netmem_packet_attach(worker, packets, n) netmem_packet_attach_at((worker), (packets), (n), NETMEM_SITE)
#define netmem_packet_len(worker, packet) netmem_packet_len_at((worker), (packet), NETMEM_SITE)
#define netmem_packet_parts(worker, packet, parts, room) netmem_packet_parts_at((worker), (packet), (parts), (room), NETMEM_SITE)
#define netmem_packet_data(worker, packet) netmem_packet_data_at((worker), (packet), NETMEM_SITE)
#define netmem_packet_write(worker, packet) netmem_packet_write_at((worker), (packet), NETMEM_SITE)
#define netmem_packet_copy(worker, packet, to, room) netmem_packet_copy_at((worker), (packet), (to), (room), NETMEM_SITE)
#define netmem_packet_put(worker, packet, n) netmem_packet_put_at((worker), (packet), (n), NETMEM_SITE)
#define netmem_packet_push(worker, packet, n) netmem_packet_push_at((worker), (packet), (n), NETMEM_SITE)
#define netmem_packet_pull(worker, packet, n) netmem_packet_pull_at((worker), (packet), (n), NETMEM_SITE)
#define netmem_packet_trim(worker, packet, len) netmem_packet_trim_at((worker), (packet), (len), NETMEM_SITE)
#define netmem_packet_set_flow_hash(worker, packet, hash) netmem_packet_set_flow_hash_at((worker), (packet), (hash), NETMEM_SITE)
#define netmem_packet_flow_hash(worker, packet, hash) netmem_packet_flow_hash_at((worker), (packet), (hash), NETMEM_SITE)
#define netmem_packet_append(worker, packet, other) netmem_packet_append_at((worker), (packet), (other), NETMEM_SITE)
#define netmem_packet_prepend(worker, packet, other) netmem_packet_prepend_at((worker), (packet), (other), NETMEM_SITE)
#define netmem_packet_split(worker, packet, at, rest) netmem_packet_split_at((worker), (packet), (at), (rest), NETMEM_SITE)
#define netmem_packet_share(worker, packet, other) netmem_packet_share_at((worker), (packet), (other), NETMEM_SITE)
#define netmem_packet_linearize(worker, packet, pool) netmem_packet_linearize_at((worker), (packet), (pool), NETMEM_SITE)
#define netmem_packet_make_writable(worker, packet, pool) netmem_packet_make_writable_at((worker), (packet), (pool), NETMEM_SITE)
#define netmem_packet_make_sendable(worker, packet, pool) netmem_packet_make_sendable_at((worker), (packet), (pool), NETMEM_SITE)
#define netmem_ready_alloc(worker, ready, packets, n) netmem_ready_alloc_at((worker), (ready), (packets), (n), NETMEM_SITE)
#define netmem_ready_free(worker, ready, packets, n) netmem_ready_free_at((worker), (ready), (packets), (n), NETMEM_SITE)
#define netmem_share(worker, frames, shared, n) netmem_share_at((worker), (frames), (shared), (n), NETMEM_SITE)
#define netmem_shared_clone(worker, shared, clone) netmem_shared_clone_at((worker), (shared), (clone), NETMEM_SITE)
#define netmem_shared_free(worker, shared, n) netmem_shared_free_at((worker), (shared), (n), NETMEM_SITE)
#define netmem_shared_data(worker, shared) netmem_shared_data_at((worker), (shared), NETMEM_SITE)
#define netmem_shared_len(worker, shared) netmem_shared_len_at((worker), (shared), NETMEM_SITE)
#define netmem_shared_holders(worker, shared) netmem_shared_holders_at((worker), (shared), NETMEM_SITE)
#define netmem_shared_pull(worker, shared, n) netmem_shared_pull_at((worker), (shared), (n), NETMEM_SITE)
#define netmem_shared_trim(worker, shared, len) netmem_shared_trim_at((worker), (shared), (len), NETMEM_SITE)
#define netmem_shared_into_frame(worker, shared, frame) netmem_shared_into_frame_at((worker), (shared), (frame), NETMEM_SITE)
#define netmem_packet_from_shared(worker, heads, shared, packet) netmem_packet_from_shared_at((worker), (heads), (shared), (packet), NETMEM_SITE)
#define netmem_shared_detach(worker, shared, n) netmem_shared_detach_at((worker), (shared), (n), NETMEM_SITE)
#define netmem_shared_attach(worker, shared, n) netmem_shared_attach_at((worker), (shared), (n), NETMEM_SITE)
#define netmem_port_rx(worker, port, frames, n) netmem_port_rx_at((worker), (port), (frames), (n), NETMEM_SITE)
#define netmem_port_tx(worker, port, frames, n) netmem_port_tx_at((worker), (port), (frames), (n), NETMEM_SITE)
#define netmem_port_fill(worker, port, frames, n) netmem_port_fill_at((worker), (port), (frames), (n), NETMEM_SITE)
#define netmem_port_rx_packets(worker, port, heads, packets, n) netmem_port_rx_packets_at((worker), (port), (heads), (packets), (n), NETMEM_SITE)
#define netmem_port_tx_packets(worker, port, packets, n) netmem_port_tx_packets_at((worker), (port), (packets), (n), NETMEM_SITE)
#define netmem_lane_send_packets(worker, lane, packets, n) netmem_lane_send_packets_at((worker), (lane), (packets), (n), NETMEM_SITE)
#define netmem_lane_receive_packets(worker, lane, packets, n) netmem_lane_receive_packets_at((worker), (lane), (packets), (n), NETMEM_SITE)

#endif  /* NETMEM_H */
