/* Results that are dropped. A compiler warns of each line of the first function and of no line of the second. It is never run. */
#include <netmem.h>

static netmem_memory memory;
static netmem_worker worker;
static netmem_pool pool;
static netmem_cache cache;
static netmem_sizes sizes;
static netmem_heads heads;
static netmem_ready ready;
static netmem_lane lane;
static netmem_port port;
static netmem_stock stock;
static netmem_frame frames[4];
static netmem_object objects[4];
static netmem_page pages[4];
static netmem_packet packets[4], more[4];
static netmem_shared shared[4];
static netmem_raw raw[4];
static netmem_offload offload;
static uint64_t time;
static netmem_count counts[64];
static void *words[4];

void needed(void)
{
    netmem_memory_open(NULL, &memory);
    netmem_memory_lend(words, sizeof words, NULL, &memory);
    netmem_worker_open(memory, &worker);
    netmem_pool_open(worker, NULL, &pool);
    netmem_cache_open(worker, NULL, &cache);
    netmem_sizes_open(worker, NULL, &sizes);
    netmem_heads_open(worker, NULL, &heads);
    netmem_ready_open(worker, heads, pool, 0, &ready);
    netmem_lane_open(worker, 0, &lane);
    netmem_port_open(worker, pool, "xdp:eth0", NULL, &port);
    netmem_stock_open(NULL, &stock);
    netmem_alloc(worker, pool, frames, 4);
    netmem_object_alloc(worker, cache, objects, 4);
    netmem_sizes_alloc(worker, sizes, 100, objects);
    netmem_page_alloc(worker, 0, pages, 4);
    netmem_packet_alloc(worker, heads, pool, packets, 4);
    netmem_ready_alloc(worker, ready, packets, 4);
    netmem_raw_alloc(worker, pool, raw, 4);
    netmem_stock_take(stock, words, 4, NULL);
    netmem_port_rx(worker, port, frames, 4);
    netmem_port_rx_packets(worker, port, heads, packets, 4);
    netmem_port_rx_raw(worker, port, raw, 4);
    netmem_lane_receive(worker, lane, frames, 4);
    netmem_lane_receive_packets(worker, lane, packets, 4);
    netmem_lane_receive_raw(worker, lane, raw, 4);
    netmem_port_tx(worker, port, frames, 4);
    netmem_port_tx_packets(worker, port, packets, 4);
    netmem_port_tx_raw(worker, port, raw, 4);
    netmem_port_fill(worker, port, frames, 4);
    netmem_port_fill_raw(worker, port, raw, 4);
    netmem_lane_send(worker, lane, frames, 4);
    netmem_lane_send_packets(worker, lane, packets, 4);
    netmem_lane_send_raw(worker, lane, raw, 4);
    netmem_port_take_unsendable(worker, port, frames, 4);
    netmem_port_take_unsendable_packets(worker, port, packets, 4);
    netmem_port_take_unsendable_raw(worker, port, raw, 4);
    netmem_packet_from_frames(worker, heads, frames, packets, 4);
    netmem_packet_into_frames(worker, packets, frames, 4);
    netmem_packet_split(worker, packets[0], 100, &more[0]);
    netmem_packet_share(worker, packets[0], &more[0]);
    netmem_share(worker, frames, shared, 4);
    netmem_shared_clone(worker, shared[0], &shared[1]);
    netmem_shared_into_frame(worker, shared[0], &frames[0]);
    netmem_packet_from_shared(worker, heads, shared[0], &packets[0]);
    netmem_cut_segments(worker, pool, frames[0], frames + 1, 3);
    netmem_raw_cut_segments(worker, pool, raw[0], raw + 1, 3);
    netmem_lane_arm(worker, lane);
}

/* A correct program knows that these succeed, need not know, or sees it later. */
void not_needed(void)
{
    netmem_free(worker, frames, 4);
    netmem_pool_free(worker, pool, frames, 4);
    netmem_object_free(worker, objects, 4);
    netmem_page_free(worker, pages, 4);
    netmem_packet_free(worker, packets, 4);
    netmem_ready_free(worker, ready, packets, 4);
    netmem_shared_free(worker, shared, 4);
    netmem_raw_free(worker, raw, 4);
    netmem_stock_give(stock, words, 4, NULL);
    netmem_port_refill(worker, port, pool);
    netmem_port_complete(worker, port);
    netmem_port_kick(worker, port);
    netmem_port_arm(worker, port);
    netmem_port_disarm(worker, port);
    netmem_port_keep_offloads(worker, port, 1);
    netmem_put(worker, frames[0], 60);
    netmem_push(worker, frames[0], 4);
    netmem_pull(worker, frames[0], 4);
    netmem_trim(worker, frames[0], 40);
    netmem_set_offload(worker, frames[0], &offload);
    netmem_get_offload(worker, frames[0], &offload);
    netmem_finish_checksum(worker, frames[0]);
    netmem_set_timestamp(worker, frames[0], NETMEM_NO_TIMESTAMP);
    netmem_get_timestamp(worker, frames[0], &time);
    netmem_detach(worker, frames, 4);
    netmem_attach(worker, frames, 4);
    netmem_packet_append(worker, packets[0], packets[1]);
    netmem_packet_linearize(worker, packets[0], pool);
    netmem_packet_make_writable(worker, packets[0], pool);
    netmem_packet_make_sendable(worker, packets[0], pool);
    netmem_raw_from_frames(worker, frames, raw, 4);
    netmem_raw_into_frames(worker, raw, frames, 4);
    netmem_lane_join(worker, lane);
    netmem_lane_disarm(worker, lane);
    netmem_lane_close(worker, lane);
    netmem_port_counts(worker, port, counts, 64);
    netmem_set_policy(NETMEM_ABORT);
    netmem_port_close(worker, port);
    netmem_pool_resize(pool, 1);
    netmem_pool_close(pool, 1000);
    netmem_worker_leave(worker);
    netmem_worker_enter(worker);
    netmem_worker_close(worker);
    netmem_memory_close(memory, 1000);
}
