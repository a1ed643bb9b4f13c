/*
 * Kernels over buffers, in C99: hashes of key groups, and indexes from key to slot. No header of Python or Arrow is
 * needed: callers pass addresses and sizes, and `native.py` calls these functions by ctypes, which releases the
 * interpreter lock meanwhile.
 *
 * - Each function has a twin in `twin.py`, and `tests/core/kernels` holds both to one contract (`contract.py`).
 * - A function returns MK_OK, or an error. It reads nothing outside of the sizes that it was given, whatever is there.
 * - Buffers of Arrow may begin at any address: their values are read by memcpy, which compilers make one load of.
 * - An index belongs to its caller, and is used by one thread at a time. A call that returns an error has changed no
 *   key, only the memory that the index holds and the highest slot that it has used.
 * - Tables that are written once are filled by mk_start, which is called before any other function.
 */

#if defined(__linux__)
#define _DEFAULT_SOURCE /* madvise */
#include <sys/mman.h>
#endif
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MK_ABI 3 /* is changed with any signature, and compared when the library is loaded */

#define MK_OK 0
#define MK_NO_MEMORY (-1)
#define MK_INVALID (-2) /* an offset or an index is outside of its buffer, or a slot is not in use */

#define FOLD UINT64_C(0x100000001B3)

#if defined(__GNUC__) || defined(__clang__)
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define PREFETCH(address) ((void)0)
#endif

int32_t mk_abi(void) {
    return MK_ABI;
}

static uint16_t load16(const uint8_t *at) {
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static uint32_t load32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static uint64_t load64(const uint8_t *at) {
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* Whether `count` values of `width` bytes, from the value `offset` on, are inside of a buffer of `size` bytes. */
static int holds(int64_t size, int64_t width, int64_t offset, int64_t count) {
    return size >= 0 && offset >= 0 && count >= 0 && offset <= size / width && count <= size / width - offset;
}

static int bit_at(const uint8_t *bits, int64_t at) {
    return bits[at >> 3] >> (at & 7) & 1;
}

/* The bytes that the bits `offset` to `offset + count` reach. */
static int64_t bitmap_size(int64_t offset, int64_t count) {
    int64_t end = offset + count;
    return (end >> 3) + ((end & 7) != 0);
}

static int holds_bits(int64_t size, int64_t offset, int64_t count) {
    return offset >= 0 && count >= 0 && count <= INT64_MAX - offset && bitmap_size(offset, count) <= size;
}

/* ---- Hashes of key groups: those of `stable_hash` ---- */

/* The finaliser of splitmix64. */
static inline uint64_t mix(uint64_t value) {
    value = (value ^ (value >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94D049BB133111EB);
    return value ^ (value >> 31);
}

/* An integer of `width` bytes; a negative width is that of signed ones. */
static inline int64_t integer_at(const uint8_t *values, int32_t width, int64_t at) {
    switch (width) {
    case -1: return (int8_t)values[at];
    case -2: return (int16_t)load16(values + 2 * at);
    case -4: return (int32_t)load32(values + 4 * at);
    case 1: return values[at];
    case 2: return load16(values + 2 * at);
    case 4: return load32(values + 4 * at);
    default: return (int64_t)load64(values + 8 * at);
    }
}

static int is_width(int32_t width) {
    int32_t bytes = width < 0 ? -width : width;
    return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
}

#define MIX_ALL(width)                                                             \
    for (int64_t row = 0; row < count; row++) {                                    \
        hashes[row] = mix((uint64_t)integer_at(values, (width), offset + row));    \
    }                                                                              \
    return MK_OK

/* The hashes of integers, each of which 64 bits can hold. */
int32_t mk_hash_integers(const uint8_t *values, int64_t size, int32_t width, int64_t offset, int64_t count,
                         uint64_t *hashes) {
    if (!is_width(width) || !holds(size, width < 0 ? -width : width, offset, count)) {
        return MK_INVALID;
    }
    switch (width) {
    case -1: MIX_ALL(-1);
    case -2: MIX_ALL(-2);
    case -4: MIX_ALL(-4);
    case 1: MIX_ALL(1);
    case 2: MIX_ALL(2);
    case 4: MIX_ALL(4);
    default: MIX_ALL(8);
    }
}

static uint32_t crc_table[8][256];

/* Fills the tables of CRC-32 (zlib's polynomial, reflected) for eight bytes at a time. */
void mk_start(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t sum = byte;
        for (int bit = 0; bit < 8; bit++) {
            sum = (sum >> 1) ^ (sum & 1 ? UINT32_C(0xEDB88320) : 0);
        }
        crc_table[0][byte] = sum;
    }
    for (uint32_t byte = 0; byte < 256; byte++) {
        for (int ahead = 1; ahead < 8; ahead++) {
            uint32_t before = crc_table[ahead - 1][byte];
            crc_table[ahead][byte] = (before >> 8) ^ crc_table[0][before & 255];
        }
    }
}

/* Four bytes as a number, the first of them lowest, on machines of either byte order. */
static inline uint32_t little_endian(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline uint32_t crc32_of(const uint8_t *at, int64_t length) {
    uint32_t sum = UINT32_C(0xFFFFFFFF);
    for (; length >= 8; at += 8, length -= 8) {
        uint32_t low = little_endian(at) ^ sum, high = little_endian(at + 4);
        sum = crc_table[7][low & 255] ^ crc_table[6][low >> 8 & 255] ^ crc_table[5][low >> 16 & 255] ^
              crc_table[4][low >> 24] ^ crc_table[3][high & 255] ^ crc_table[2][high >> 8 & 255] ^
              crc_table[1][high >> 16 & 255] ^ crc_table[0][high >> 24];
    }
    if (length >= 4) {
        uint32_t low = little_endian(at) ^ sum;
        sum = crc_table[3][low & 255] ^ crc_table[2][low >> 8 & 255] ^ crc_table[1][low >> 16 & 255] ^
              crc_table[0][low >> 24];
        at += 4;
        length -= 4;
    }
    for (; length > 0; at++, length--) {
        sum = crc_table[0][(sum ^ *at) & 255] ^ (sum >> 8);
    }
    return ~sum;
}

#define HASH_TEXTS(width)                                                                                     \
    for (int64_t row = offset; row < offset + count; row++) {                                                 \
        int64_t start = integer_at(offsets, (width), row), end = integer_at(offsets, (width), row + 1);       \
        if (start < 0 || end < start || end > size) {                                                         \
            return MK_INVALID;                                                                                \
        }                                                                                                     \
        hashes[row - offset] = mix(crc32_of(bytes + start, end - start) ^ tag);                               \
    }                                                                                                         \
    return MK_OK

/* The hashes of texts, or of bytes: of their CRC-32 and the tag of the type. The width is that of an offset. */
int32_t mk_hash_texts(const uint8_t *offsets, int64_t offsets_size, int32_t width, const uint8_t *bytes, int64_t size,
                      int64_t offset, int64_t count, uint64_t tag, uint64_t *hashes) {
    static const uint8_t none[1] = {0};
    if (count == 0) { /* Arrow may leave out the only offset of an empty array */
        return MK_OK;
    }
    if (count == INT64_MAX || !holds(offsets_size, width == 4 ? 4 : 8, offset, count + 1)) {
        return MK_INVALID;
    }
    if (bytes == NULL) {
        bytes = none;
        size = 0;
    }
    if (width == 4) {
        HASH_TEXTS(-4);
    }
    HASH_TEXTS(-8);
}

/* The hash of each row's value in a dictionary. An index outside of it is allowed where the row is null. */
int32_t mk_hash_encoded(const uint64_t *known, int64_t known_count, const uint8_t *indices, int64_t size, int32_t width,
                        const uint8_t *validity, int64_t validity_size, int64_t offset, int64_t count,
                        uint64_t *hashes) {
    if (!is_width(width) || !holds(size, width < 0 ? -width : width, offset, count) ||
        (validity != NULL && !holds_bits(validity_size, offset, count))) {
        return MK_INVALID;
    }
    for (int64_t row = offset; row < offset + count; row++) {
        int64_t index = integer_at(indices, width, row);
        if (index >= 0 && index < known_count) {
            hashes[row - offset] = known[index];
        } else if (validity != NULL && !bit_at(validity, row)) {
            hashes[row - offset] = 0;
        } else {
            return MK_INVALID;
        }
    }
    return MK_OK;
}

/* Replaces the hashes of nulls. */
int32_t mk_hash_nulls(const uint8_t *validity, int64_t size, int64_t offset, int64_t count, uint64_t null,
                      uint64_t *hashes) {
    if (!holds_bits(size, offset, count)) {
        return MK_INVALID;
    }
    for (int64_t row = 0; row < count;) {
        int64_t at = offset + row;
        if ((at & 7) == 0 && validity[at >> 3] == 255) { /* eight values */
            row += 8;
            continue;
        }
        if (!bit_at(validity, at)) {
            hashes[row] = null;
        }
        row++;
    }
    return MK_OK;
}

/* Folds the hashes of one more field into those of composite keys. */
int32_t mk_hash_fold(const uint64_t *field, int64_t count, uint64_t *hashes) {
    for (int64_t row = 0; row < count; row++) {
        hashes[row] = mix(hashes[row] * FOLD ^ field[row]);
    }
    return MK_OK;
}

/* ---- Memory ---- */

#ifdef MILLSTREAM_KERNELS_TESTED /* counts blocks, and lets an allocation fail */
static int64_t blocks, remaining = -1;

int64_t mk_blocks(void) {
    return blocks;
}

/* All allocations after the next `count` fail; a negative count ends that. */
void mk_fail_after(int64_t count) {
    remaining = count;
}

static int fails(void) {
    return remaining >= 0 && remaining-- == 0 ? (remaining = 0, 1) : 0;
}

static uint64_t kept_bits = ~UINT64_C(0);

/* Keeps only these bits of the hashes of bytes, so that different keys have the same. */
void mk_keep_bits(uint64_t bits) {
    kept_bits = bits;
}

#define COUNT_BLOCKS(change) (blocks += (change))
#else
#define fails() 0
#define kept_bits (~UINT64_C(0))
#define COUNT_BLOCKS(change) ((void)0)
#endif

/* Allocates, or grows a block that is not NULL; NULL when there is no memory, or the size cannot be represented. */
static void *resized(void *block, uint64_t count, size_t width) {
    if (count > (uint64_t)PTRDIFF_MAX / width || fails()) {
        return NULL;
    }
    void *grown = realloc(block, count == 0 ? 1 : (size_t)count * width);
    if (grown != NULL && block == NULL) {
        COUNT_BLOCKS(1);
    }
    return grown;
}

/* Requests large pages for a large block that is read in no order, as NumPy does. */
static void read_in_any_order(void *block, uint64_t size) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (size >= UINT64_C(4) << 20) {
        uintptr_t page = (uintptr_t)2 << 20, end = (uintptr_t)block + (uintptr_t)size;
        uintptr_t from = ((uintptr_t)block + page - 1) / page * page, to = end / page * page;
        (void)madvise((void *)from, to - from, MADV_HUGEPAGE); /* a request: it does not matter whether it is granted */
    }
#else
    (void)block;
    (void)size;
#endif
}

static void released(void *block) {
    if (block != NULL) {
        COUNT_BLOCKS(-1);
        free(block);
    }
}

/* ---- Indexes from key to slot ----
 *
 * A table with open addressing: a key is at its home, which the highest bits of its hash give, or in the places that
 * follow it without a gap. (Keys of one subtask have the lowest bits of their key-group hash in common.) The hash is
 * seeded, so that keys cannot be chosen that share a home. Erasing moves the keys that follow, so no mark is left.
 * Rows are handled in blocks: the homes of a block are prefetched before the first is read, which hides cache misses.
 *
 * There are two kinds. An int64 key has a hash of its own, so equal hashes are equal keys. The bytes of other keys are
 * in an arena, one after the other, and are compared when the hashes are equal; those of removed keys stay until they
 * are half of the arena, which is then copied without them.
 *
 * Freed slots are a list through `values`, the last one first; its end is -1.
 */

#define BLOCK 256 /* rows; with 64 it is 90 M look-ups a second in 1 M keys, with 256 130 M */
#define SMALLEST 16 /* places */
#define LITTLE_DEAD 4096 /* bytes that are not worth copying the others */

typedef struct {
    uint64_t hash;
    int64_t slot; /* -1: the place is empty */
} place_t;

typedef struct {
    place_t *table;
    uint64_t mask; /* places - 1 */
    int shift;     /* 64 - log2(places) */
    uint64_t seed;
    int64_t count; /* keys */
    int64_t bound; /* all slots are below */
    int64_t room;  /* length of values, used and lengths */
    int64_t freed;
    int64_t *values;  /* by slot: the key, or where its bytes start; of a freed one, the slot that was freed before it */
    uint8_t *used;    /* by slot */
    int64_t *lengths; /* by slot: of the bytes; NULL in an index of int64 keys, as the arena is */
    uint8_t *arena;
    int64_t end;  /* of what is in the arena */
    int64_t dead; /* bytes of removed keys in it */
    int64_t arena_room;
    int32_t has_bytes; /* which kind it is */
} index_t;

static place_t *empty_table(uint64_t places) {
    place_t *table = resized(NULL, places, sizeof *table);
    if (table != NULL) {
        read_in_any_order(table, places * sizeof *table);
        for (uint64_t place = 0; place < places; place++) {
            table[place].hash = 0;
            table[place].slot = -1;
        }
    }
    return table;
}

void mk_index_free(index_t *index) {
    if (index != NULL) {
        released(index->table);
        released(index->values);
        released(index->used);
        released(index->lengths);
        released(index->arena);
        released(index);
    }
}

/* NULL when there is no memory. */
index_t *mk_index_new(uint64_t seed, int32_t has_bytes) {
    index_t *index = resized(NULL, 1, sizeof *index);
    if (index == NULL) {
        return NULL;
    }
    memset(index, 0, sizeof *index);
    index->mask = SMALLEST - 1;
    index->shift = 64 - 4;
    index->seed = seed;
    index->freed = -1;
    index->has_bytes = has_bytes;
    index->table = empty_table(SMALLEST);
    if (index->table == NULL) {
        mk_index_free(index);
        return NULL;
    }
    return index;
}

/* Whether a table of so many places can have so many keys: then chains stay short, and there is always a gap. */
static int is_full(int64_t keys, uint64_t mask) {
    return (uint64_t)keys > mask / 8 * 5;
}

static int32_t grow_table(index_t *index) {
    if (index->shift <= 16) {
        return MK_NO_MEMORY;
    }
    uint64_t places = index->mask + 1, mask = places * 2 - 1;
    place_t *old = index->table, *table = empty_table(places * 2);
    if (table == NULL) {
        return MK_NO_MEMORY;
    }
    index->table = table;
    index->mask = mask;
    index->shift--;
    for (uint64_t at = 0; at < places; at++) { /* nearly in the order of the new places */
        if (old[at].slot >= 0) {
            uint64_t place = old[at].hash >> index->shift;
            while (table[place].slot >= 0) {
                place = (place + 1) & mask;
            }
            table[place] = old[at];
        }
    }
    released(old);
    return MK_OK;
}

/* Makes an array by slot longer; without memory it stays as it is. */
static int grown(void **array, int64_t room, size_t width) {
    void *longer = resized(*array, (uint64_t)room, width);
    if (longer == NULL) {
        return 0;
    }
    *array = longer;
    return 1;
}

/* Has places and slots for so many new keys, a block at most. */
static int32_t reserve(index_t *index, int64_t size) {
    while (is_full(index->count + size, index->mask)) {
        int32_t code = grow_table(index);
        if (code != MK_OK) {
            return code;
        }
    }
    if (index->bound > index->room - size) {
        if (index->room > INT64_MAX / 4) {
            return MK_NO_MEMORY;
        }
        int64_t room = index->room * 2 + BLOCK;
        void *values = index->values, *used = index->used, *lengths = index->lengths;
        int done = grown(&values, room, sizeof *index->values);
        index->values = values;
        done = done && grown(&used, room, sizeof *index->used);
        index->used = used;
        done = done && (!index->has_bytes || grown(&lengths, room, sizeof *index->lengths));
        index->lengths = lengths;
        if (!done) {
            return MK_NO_MEMORY;
        }
        index->room = room;
    }
    return MK_OK;
}

/* The slot for a new key, for which there is room. */
static inline int64_t taken(index_t *index, int64_t value) {
    int64_t slot = index->freed;
    if (slot >= 0) {
        index->freed = index->values[slot];
    } else {
        slot = index->bound++;
    }
    index->values[slot] = value;
    index->used[slot] = 1;
    index->count++;
    return slot;
}

static void erase(index_t *index, uint64_t place) {
    place_t *table = index->table;
    int64_t slot = table[place].slot;
    if (index->has_bytes) {
        index->dead += index->lengths[slot];
    }
    index->values[slot] = index->freed;
    index->used[slot] = 0;
    index->freed = slot;
    index->count--;
    uint64_t gap = place, mask = index->mask;
    for (uint64_t next = (gap + 1) & mask; table[next].slot >= 0; next = (next + 1) & mask) {
        uint64_t home = table[next].hash >> index->shift;
        if (((next - home) & mask) >= ((next - gap) & mask)) { /* its home is not behind the gap */
            table[gap] = table[next];
            gap = next;
        }
    }
    table[gap].slot = -1;
}

static inline int is_used(const index_t *index, int64_t slot) {
    return slot >= 0 && slot < index->bound && index->used[slot];
}

/* The slots in use, which are as many as there are keys, ascending. */
void mk_index_used(const index_t *index, int64_t *slots) {
    for (int64_t slot = 0; slot < index->bound; slot++) {
        if (index->used[slot]) {
            *slots++ = slot;
        }
    }
}

int64_t mk_index_count(const index_t *index) {
    return index->count;
}

int64_t mk_index_bound(const index_t *index) {
    return index->bound;
}

/* Bytes of memory. */
int64_t mk_index_size(const index_t *index) {
    size_t slot = sizeof *index->values + sizeof *index->used + (index->has_bytes ? sizeof *index->lengths : 0);
    return (int64_t)(sizeof *index + (size_t)(index->mask + 1) * sizeof *index->table) + index->room * (int64_t)slot +
           index->arena_room;
}

#ifdef MILLSTREAM_KERNELS_TESTED
/* How many places all keys together are behind their homes. */
uint64_t mk_index_distance(const index_t *index) {
    uint64_t sum = 0;
    for (uint64_t place = 0; place <= index->mask; place++) {
        if (index->table[place].slot >= 0) {
            sum += (place - (index->table[place].hash >> index->shift)) & index->mask;
        }
    }
    return sum;
}
#endif

/* ---- Keys of int64 ---- */

/* Different keys have different hashes: mixing is a bijection. */
static inline uint64_t int_hash(const index_t *index, int64_t key) {
    return mix((uint64_t)key ^ index->seed);
}

/* The place of the key of this hash, or the empty one where it would be added. */
static inline uint64_t int_place_of(const index_t *index, uint64_t hash) {
    const place_t *table = index->table;
    uint64_t place = hash >> index->shift;
    while (table[place].slot >= 0 && table[place].hash != hash) {
        place = (place + 1) & index->mask;
    }
    return place;
}

/* Finds the hashes of a block, and prefetches their homes; returns how many there are. */
static inline int64_t int_hashes(const index_t *index, const int64_t *keys, int64_t left, uint64_t *hashes) {
    int64_t size = left < BLOCK ? left : BLOCK;
    for (int64_t at = 0; at < size; at++) {
        hashes[at] = int_hash(index, keys[at]);
        PREFETCH(&index->table[hashes[at] >> index->shift]);
    }
    return size;
}

/* Finds the slots of keys that are at home, -1 where that is empty; returns how many are not, and these in `rest`.
 *
 * Most keys are at home, but not so many that a branch for each could be predicted: this has none. */
static inline int32_t int_at_home(const index_t *index, int64_t size, const uint64_t *hashes, int64_t *slots,
                                  int32_t *rest) {
    int32_t more = 0;
    for (int32_t at = 0; at < (int32_t)size; at++) {
        const place_t *home = &index->table[hashes[at] >> index->shift];
        slots[at] = home->slot;
        rest[more] = at;
        more += (home->hash != hashes[at]) | (home->slot < 0);
    }
    return more;
}

/* The slot of each key, -1 for one that is not there. */
int32_t mk_int_find(const index_t *index, const int64_t *keys, int64_t count, int64_t *slots) {
    uint64_t hashes[BLOCK];
    int32_t rest[BLOCK];
    for (int64_t row = 0; row < count;) {
        int64_t size = int_hashes(index, keys + row, count - row, hashes);
        int32_t more = int_at_home(index, size, hashes, slots + row, rest);
        for (int32_t at = 0; at < more; at++) {
            slots[row + rest[at]] = index->table[int_place_of(index, hashes[rest[at]])].slot;
        }
        row += size;
    }
    return MK_OK;
}

/* The slot of each key, which is added if it is not there; `added` has the rows that added one. */
int32_t mk_int_slots(index_t *index, const int64_t *keys, int64_t count, int64_t *slots, int64_t *added,
                     int64_t *added_count) {
    uint64_t hashes[BLOCK];
    int32_t rest[BLOCK];
    int64_t fresh = 0;
    for (int64_t row = 0; row < count;) {
        int32_t code = reserve(index, count - row < BLOCK ? count - row : BLOCK);
        if (code != MK_OK) {
            while (fresh > 0) { /* in this order, the list of freed slots becomes what it was */
                erase(index, int_place_of(index, int_hash(index, keys[added[--fresh]])));
            }
            return code;
        }
        int64_t size = int_hashes(index, keys + row, count - row, hashes);
        int32_t more = int_at_home(index, size, hashes, slots + row, rest);
        for (int32_t at = 0; at < more; at++) {
            uint64_t hash = hashes[rest[at]];
            place_t *place = &index->table[int_place_of(index, hash)];
            if (place->slot < 0) {
                place->hash = hash;
                place->slot = taken(index, keys[row + rest[at]]);
                added[fresh++] = row + rest[at];
            }
            slots[row + rest[at]] = place->slot;
        }
        row += size;
    }
    *added_count = fresh;
    return MK_OK;
}

/* Removes keys; the slot that each had, -1 for one that was not there (any more). */
int32_t mk_int_remove(index_t *index, const int64_t *keys, int64_t count, int64_t *slots) {
    uint64_t hashes[BLOCK];
    for (int64_t row = 0; row < count;) {
        int64_t size = int_hashes(index, keys + row, count - row, hashes);
        for (int64_t at = 0; at < size; at++) {
            uint64_t place = int_place_of(index, hashes[at]);
            slots[row + at] = index->table[place].slot;
            if (slots[row + at] >= 0) {
                erase(index, place);
            }
        }
        row += size;
    }
    return MK_OK;
}

/* The key of each slot. */
int32_t mk_int_keys(const index_t *index, const int64_t *slots, int64_t count, int64_t *keys) {
    for (int64_t row = 0; row < count; row++) {
        if (!is_used(index, slots[row])) {
            return MK_INVALID;
        }
        keys[row] = index->values[slots[row]];
    }
    return MK_OK;
}

/* ---- Keys of bytes ---- */

/* An array of Arrow: texts or binaries. */
typedef struct {
    const uint8_t *offsets;
    int32_t width; /* of an offset, negative */
    const uint8_t *bytes;
    int64_t first; /* row */
} texts;

static inline const uint8_t *text_at(const texts *keys, int64_t row, int64_t *length) {
    int64_t start = integer_at(keys->offsets, keys->width, keys->first + row);
    *length = integer_at(keys->offsets, keys->width, keys->first + row + 1) - start;
    return keys->bytes + start;
}

/* Checks all of an array before anything is changed. */
static int32_t texts_of(texts *keys, const uint8_t *offsets, int64_t offsets_size, int32_t width, const uint8_t *bytes,
                        int64_t size, int64_t offset, int64_t count) {
    static const uint8_t none[1] = {0};
    keys->offsets = offsets;
    keys->width = width == 4 ? -4 : -8;
    keys->bytes = bytes == NULL ? none : bytes;
    keys->first = offset;
    if (count == 0) {
        return MK_OK;
    }
    if (count < 0 || count == INT64_MAX || !holds(offsets_size, -keys->width, offset, count + 1)) {
        return MK_INVALID;
    }
    int64_t before = integer_at(offsets, keys->width, offset);
    int valid = before >= 0;
    for (int64_t row = offset + 1; row <= offset + count; row++) {
        int64_t end = integer_at(offsets, keys->width, row);
        valid &= end >= before;
        before = end;
    }
    return valid && before <= (bytes == NULL ? 0 : size) ? MK_OK : MK_INVALID;
}

/* A seeded hash, only for the table. */
static inline uint64_t hash_of(const uint8_t *at, int64_t length, uint64_t seed) {
    uint64_t hash = seed ^ (uint64_t)length * UINT64_C(0x9E3779B97F4A7C15);
    for (; length >= 8; at += 8, length -= 8) {
        hash = (hash ^ load64(at)) * UINT64_C(0xBF58476D1CE4E5B9);
        hash ^= hash >> 32;
    }
    uint64_t rest = 0;
    if (length >= 4) { /* the two halves overlap */
        rest = (uint64_t)load32(at) << 32 | load32(at + length - 4);
    } else if (length > 0) {
        rest = (uint64_t)at[0] << 16 | (uint64_t)at[length / 2] << 8 | at[length - 1];
    }
    return mix(hash ^ rest) & kept_bits;
}

static inline int has_key(const index_t *index, int64_t slot, const uint8_t *at, int64_t length) {
    return index->lengths[slot] == length &&
           (length == 0 || memcmp(index->arena + index->values[slot], at, (size_t)length) == 0);
}

/* The place of the key, or the empty one where it would be added. */
static inline uint64_t bytes_place_of(const index_t *index, uint64_t hash, const uint8_t *at, int64_t length) {
    const place_t *table = index->table;
    uint64_t place = hash >> index->shift;
    while (table[place].slot >= 0 && (table[place].hash != hash || !has_key(index, table[place].slot, at, length))) {
        place = (place + 1) & index->mask;
    }
    return place;
}

/* Copies a key to the arena. */
static int32_t bytes_append(index_t *index, const uint8_t *at, int64_t length) {
    if (length > index->arena_room - index->end) {
        if (length > INT64_MAX / 4 || index->arena_room > INT64_MAX / 4) {
            return MK_NO_MEMORY;
        }
        int64_t room = index->arena_room * 2 + length;
        uint8_t *arena = resized(index->arena, (uint64_t)room, 1);
        if (arena == NULL) {
            return MK_NO_MEMORY;
        }
        index->arena = arena;
        index->arena_room = room;
    }
    if (length > 0) {
        memcpy(index->arena + index->end, at, (size_t)length);
        index->end += length;
    }
    return MK_OK;
}

/* Copies what is alive to an arena of its size, when that is less than half. Without memory it stays as it is. */
static void bytes_compact(index_t *index) {
    if (index->dead < LITTLE_DEAD || index->dead <= index->end / 2) {
        return;
    }
    int64_t alive = index->end - index->dead, end = 0;
    uint8_t *arena = resized(NULL, (uint64_t)alive, 1);
    if (arena == NULL) {
        return;
    }
    for (int64_t slot = 0; slot < index->bound; slot++) {
        if (index->used[slot] && index->lengths[slot] > 0) {
            memcpy(arena + end, index->arena + index->values[slot], (size_t)index->lengths[slot]);
            index->values[slot] = end;
            end += index->lengths[slot];
        }
    }
    released(index->arena);
    index->arena = arena;
    index->arena_room = index->end = alive;
    index->dead = 0;
}

/* Finds the hashes of a block and, with three rounds of prefetching, the slots of keys that are the first of their hash
 * (-1: there is none of that hash); returns how many rows the block has. */
static int64_t bytes_homes(const index_t *index, const texts *keys, int64_t row, int64_t count, uint64_t *hashes,
                           int64_t *slots) {
    int64_t size = count - row < BLOCK ? count - row : BLOCK, length;
    for (int64_t at = 0; at < size; at++) {
        const uint8_t *key = text_at(keys, row + at, &length);
        hashes[at] = hash_of(key, length, index->seed);
        PREFETCH(&index->table[hashes[at] >> index->shift]);
    }
    for (int64_t at = 0; at < size; at++) {
        uint64_t place = hashes[at] >> index->shift;
        while (index->table[place].slot >= 0 && index->table[place].hash != hashes[at]) {
            place = (place + 1) & index->mask;
        }
        slots[at] = index->table[place].slot;
        if (slots[at] >= 0) {
            PREFETCH(&index->lengths[slots[at]]);
            PREFETCH(&index->values[slots[at]]);
        }
    }
    for (int64_t at = 0; at < size; at++) {
        if (slots[at] >= 0 && index->lengths[slots[at]] > 0) {
            PREFETCH(index->arena + index->values[slots[at]]);
        }
    }
    return size;
}

/* The slot of each key, -1 for one that is not there. */
int32_t mk_bytes_find(const index_t *index, const uint8_t *offsets, int64_t offsets_size, int32_t width,
                      const uint8_t *bytes, int64_t bytes_size, int64_t offset, int64_t count, int64_t *slots) {
    uint64_t hashes[BLOCK];
    texts keys;
    int32_t code = texts_of(&keys, offsets, offsets_size, width, bytes, bytes_size, offset, count);
    for (int64_t row = 0; code == MK_OK && row < count;) {
        int64_t size = bytes_homes(index, &keys, row, count, hashes, slots + row);
        for (int64_t at = 0; at < size; at++) {
            int64_t length, slot = slots[row + at];
            const uint8_t *key = text_at(&keys, row + at, &length);
            if (slot >= 0 && !has_key(index, slot, key, length)) {
                slots[row + at] = index->table[bytes_place_of(index, hashes[at], key, length)].slot;
            }
        }
        row += size;
    }
    return code;
}

/* Adds a key at its place, for whose slot there is room. */
static int32_t bytes_add(index_t *index, place_t *place, uint64_t hash, const uint8_t *at, int64_t length) {
    int64_t start = index->end;
    int32_t code = bytes_append(index, at, length);
    if (code == MK_OK) {
        place->hash = hash;
        place->slot = taken(index, start);
        index->lengths[place->slot] = length;
    }
    return code;
}

/* The slot of each key, which is added if it is not there; `added` has the rows that added one. */
int32_t mk_bytes_slots(index_t *index, const uint8_t *offsets, int64_t offsets_size, int32_t width,
                       const uint8_t *bytes, int64_t bytes_size, int64_t offset, int64_t count, int64_t *slots,
                       int64_t *added, int64_t *added_count) {
    uint64_t hashes[BLOCK];
    texts keys;
    int64_t fresh = 0, end = index->end, dead = index->dead, length;
    int32_t code = texts_of(&keys, offsets, offsets_size, width, bytes, bytes_size, offset, count);
    for (int64_t row = 0; code == MK_OK && row < count;) {
        code = reserve(index, count - row < BLOCK ? count - row : BLOCK);
        int64_t size = code == MK_OK ? bytes_homes(index, &keys, row, count, hashes, slots + row) : 0;
        for (int64_t at = 0; code == MK_OK && at < size; at++) {
            const uint8_t *key = text_at(&keys, row + at, &length);
            if (slots[row + at] >= 0 && has_key(index, slots[row + at], key, length)) {
                continue;
            }
            place_t *place = &index->table[bytes_place_of(index, hashes[at], key, length)];
            if (place->slot < 0) {
                code = bytes_add(index, place, hashes[at], key, length);
                if (code != MK_OK) {
                    break;
                }
                added[fresh++] = row + at;
            }
            slots[row + at] = place->slot;
        }
        row += size;
    }
    if (code != MK_OK) {
        while (fresh > 0) {
            const uint8_t *key = text_at(&keys, added[--fresh], &length);
            erase(index, bytes_place_of(index, hash_of(key, length, index->seed), key, length));
        }
        index->end = end;
        index->dead = dead;
    }
    *added_count = fresh;
    return code;
}

/* Removes keys; the slot that each had, -1 for one that was not there (any more). */
int32_t mk_bytes_remove(index_t *index, const uint8_t *offsets, int64_t offsets_size, int32_t width,
                        const uint8_t *bytes, int64_t bytes_size, int64_t offset, int64_t count, int64_t *slots) {
    uint64_t hashes[BLOCK];
    texts keys;
    int32_t code = texts_of(&keys, offsets, offsets_size, width, bytes, bytes_size, offset, count);
    for (int64_t row = 0; code == MK_OK && row < count;) {
        int64_t size = bytes_homes(index, &keys, row, count, hashes, slots + row);
        for (int64_t at = 0; at < size; at++) {
            int64_t length;
            const uint8_t *key = text_at(&keys, row + at, &length);
            uint64_t place = bytes_place_of(index, hashes[at], key, length);
            slots[row + at] = index->table[place].slot;
            if (slots[row + at] >= 0) {
                erase(index, place);
            }
        }
        row += size;
    }
    bytes_compact(index);
    return code;
}

/* Where each slot's key begins and ends when they are written one after the other: one offset more than slots. */
int32_t mk_bytes_lengths(const index_t *index, const int64_t *slots, int64_t count, int64_t *offsets) {
    int64_t end = offsets[0] = 0;
    for (int64_t row = 0; row < count; row++) {
        if (!is_used(index, slots[row])) {
            return MK_INVALID;
        }
        if (end > INT64_MAX - index->lengths[slots[row]]) {
            return MK_NO_MEMORY;
        }
        offsets[row + 1] = end += index->lengths[slots[row]];
    }
    return MK_OK;
}

/* Writes the keys one after the other; these slots have been given to mk_bytes_lengths. */
void mk_bytes_keys(const index_t *index, const int64_t *slots, int64_t count, uint8_t *keys) {
    for (int64_t row = 0; row < count; row++) {
        int64_t length = index->lengths[slots[row]];
        if (length > 0) {
            memcpy(keys, index->arena + index->values[slots[row]], (size_t)length);
            keys += length;
        }
    }
}

/* ---- Keys of several columns, or of one with nulls ----
 *
 * The bytes of a key are those of its fields, one after the other: each a 1 and the value, or a 0 for null. A value of
 * variable length has this before it, as four bytes, the lowest first. So equal keys, and no others, are equal bytes.
 * A caller adds the lengths of all columns, sums them up to offsets, and lets each column write where the ones before
 * it have ended.
 */

#define LONGEST UINT32_MAX /* bytes of a value */

static inline int is_valid(const uint8_t *validity, int64_t row) {
    return validity == NULL || bit_at(validity, row);
}

/* Adds the lengths of a column whose values have `width` bytes. */
int32_t mk_key_lengths(const uint8_t *validity, int64_t validity_size, int64_t offset, int64_t count, int64_t width,
                       int64_t *lengths) {
    if (validity != NULL && !holds_bits(validity_size, offset, count)) {
        return MK_INVALID;
    }
    for (int64_t row = 0; row < count; row++) {
        lengths[row] += is_valid(validity, offset + row) ? 1 + width : 1;
    }
    return MK_OK;
}

/* Adds the lengths of a column of texts or binaries. */
int32_t mk_key_text_lengths(const uint8_t *offsets, int64_t offsets_size, int32_t width, const uint8_t *bytes,
                            int64_t size, int64_t offset, int64_t count, const uint8_t *validity,
                            int64_t validity_size, int64_t *lengths) {
    texts values;
    int32_t code = texts_of(&values, offsets, offsets_size, width, bytes, size, offset, count);
    if (code != MK_OK || (validity != NULL && !holds_bits(validity_size, offset, count))) {
        return MK_INVALID;
    }
    for (int64_t row = 0; row < count; row++) {
        int64_t length = 0;
        if (is_valid(validity, offset + row)) {
            (void)text_at(&values, row, &length);
            if (length > LONGEST) {
                return MK_INVALID;
            }
            length += 4;
        }
        lengths[row] += 1 + length;
    }
    return MK_OK;
}

#define WRITE_FIXED(width)                                                                     \
    for (int64_t row = 0; row < count; row++) {                                                \
        int there = is_valid(validity, offset + row);                                          \
        keys[ends[row]++] = (uint8_t)there;                                                    \
        if (there) {                                                                           \
            memcpy(keys + ends[row], values + (offset + row) * (width), (size_t)(width));      \
            ends[row] += (width);                                                              \
        }                                                                                      \
    }                                                                                          \
    return MK_OK

/* Writes a column whose values have `width` bytes. The lengths have been given by mk_key_lengths, which has checked the
 * validity; `ends` is where each key has ended before, and moves on. */
int32_t mk_key_write(const uint8_t *values, int64_t size, int64_t width, const uint8_t *validity, int64_t offset,
                     int64_t count, int64_t *ends, uint8_t *keys) {
    if (width <= 0 || !holds(size, width, offset, count)) {
        return MK_INVALID;
    }
    switch (width) { /* with a constant width, a copy is an instruction or two */
    case 1: WRITE_FIXED(1);
    case 4: WRITE_FIXED(4);
    case 8: WRITE_FIXED(8);
    default: WRITE_FIXED(width);
    }
}

/* Writes a column of texts or binaries, all of which mk_key_text_lengths has checked. */
void mk_key_write_texts(const uint8_t *offsets, int64_t offsets_size, int32_t width, const uint8_t *bytes, int64_t size,
                        int64_t offset, int64_t count, const uint8_t *validity, int64_t *ends, uint8_t *keys) {
    texts values;
    (void)texts_of(&values, offsets, offsets_size, width, bytes, size, offset, count);
    for (int64_t row = 0; row < count; row++) {
        int there = is_valid(validity, offset + row);
        uint8_t *to = keys + ends[row];
        *to++ = (uint8_t)there;
        if (there) {
            int64_t length;
            const uint8_t *at = text_at(&values, row, &length);
            for (int shift = 0; shift < 32; shift += 8) {
                *to++ = (uint8_t)(length >> shift);
            }
            if (length > 0) {
                memcpy(to, at, (size_t)length);
                to += length;
            }
        }
        ends[row] = to - keys;
    }
}
