/* Dropout, forward and backward. Whether element i is kept is told by a hash of its number and a key, which every
 * launch takes anew (counter-based, as in Salmon et al. 2011; the mixer is Chris Wellons's lowbias32), so that
 * the backward can ask again instead of reading a mask. */

typedef struct {
    const float *x, *dy;
    float *y, *dx;
    uint8_t *scratch; /* the mask, a byte an element */
    int64_t units;
    float scale;
    uint32_t dropped, key; /* kept where the hash is at least `dropped` */
} argument;

typedef uint32_t uvec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define MIX                                                                                     \
    x ^= x >> 16;                                                                               \
    x *= 0x7feb352du;                                                                           \
    x ^= x >> 15;                                                                               \
    x *= 0x846ca68bu;                                                                           \
    x ^= x >> 16;                                                                               \
    return x;

static inline uint32_t mixed(uint32_t x) { MIX }
static inline uvec mixed_all(uvec x) { MIX }

static inline uint32_t next_key(argument *p) { return p->key = mixed(p->key + 0x9e3779b9u); }

/* Which of the elements from i on are kept: all bits, or none. */
static inline ivec kept_from(const argument *p, int64_t i, uint32_t key)
{
    uvec number;
    for (int l = 0; l < LANES; l++) number[l] = l;
    return mixed_all(number + ((uint32_t)i + key)) >= p->dropped;
}

static inline vec scaled(vec v, ivec kept, float scale) { return (vec)((ivec)(v * scale) & kept); }

typedef int8_t bytes __attribute__((vector_size(LANES), aligned(1), may_alias));

static inline ivec stored(const uint8_t *mask)
{
    return __builtin_convertvector(*(const bytes *)mask, ivec);
}

/* Each whole vector, then what is left: `left` elements of it. */
#define EVERY(body)                                                                             \
    for (int64_t i = 0, left; i < p->units; i += LANES) {                                       \
        left = p->units - i;                                                                    \
        body                                                                                    \
    }

static inline void put(const float *x, float *y, ivec kept, float scale, int64_t left)
{
    if (left >= LANES) store(y, scaled(load(x), kept, scale));
    else store_some(y, scaled(load_some(x, left, 0), kept, scale), left);
}

/* The mask's room is whole vectors. */
static inline void keep(const argument *p, int64_t i, ivec kept)
{
    *(bytes *)(p->scratch + i) = __builtin_convertvector(kept, bytes);
}

/* No mask: both ways ask the hash. */
void dropout_counter(argument *p)
{
    uint32_t key = next_key(p);
    EVERY(put(p->x + i, p->y + i, kept_from(p, i, key), p->scale, left);)
    EVERY(put(p->dy + i, p->dx + i, kept_from(p, i, key), p->scale, left);)
}

/* The forward stores its mask as it goes. */
void dropout_mask(argument *p)
{
    uint32_t key = next_key(p);
    EVERY(ivec kept = kept_from(p, i, key); keep(p, i, kept); put(p->x + i, p->y + i, kept, p->scale, left);)
    EVERY(put(p->dy + i, p->dx + i, stored(p->scratch + i), p->scale, left);)
}

/* The mask first, in a pass of its own. */
void dropout_mask_passes(argument *p)
{
    uint32_t key = next_key(p);
    EVERY(keep(p, i, kept_from(p, i, key)); (void)left;)
    EVERY(put(p->x + i, p->y + i, stored(p->scratch + i), p->scale, left);)
    EVERY(put(p->dy + i, p->dx + i, stored(p->scratch + i), p->scale, left);)
}
