/*
 * Kernels over buffers, in C99: the hash of key groups. No header of Python or Arrow is needed: callers pass addresses
 * and sizes, and `native.py` calls these functions by ctypes, which releases the interpreter lock meanwhile.
 *
 * - Each function has a twin in `twin.py`, and `tests/core/kernels` holds both to one contract (`contract.py`).
 * - A function returns MK_OK, or an error. It reads nothing outside of the sizes it was given, whatever the buffers say.
 * - Buffers of Arrow may begin at any address: their values are read by memcpy, which compilers make one load of.
 * - Tables that are written once are filled by mk_start, which is called before any other function.
 */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MK_ABI 1 /* is changed with any signature, and compared when the library is loaded */

#define MK_OK 0
#define MK_INVALID (-2) /* an offset or an index is outside of its buffer, or a slot is not in use */

#define FOLD UINT64_C(0x100000001B3)

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
