/* The PTX instructions of our kernels on a CPU, behind shim.h. tests/simulated/launcher.py turns
 *     asm volatile("mma.sync... {%0, ...}, ...;" : "+f"(x), ... : "r"(y), ...);
 * into ptx_run("mma.sync... {%0, ...}, ...;", ptx_inout(x), ..., ptx_in(y), ...);
 * so which instruction it is, of which shape and types, and which operand is which, is read from the text that nvcc
 * compiles. Each does what the PTX ISA (9.0) says: fragments by its tables, shared memory by its descriptors. Sums are
 * truncated, as tensor cores do. Asynchronous work is as late as it may be: sums are NaN until they are waited for, and
 * of shared memory what was written before a proxy fence is seen behind the next barrier. tests/simulated/test_ptx.py compares the fragments with
 * CUTLASS. */
#pragma once
#include <cmath>
#include <cstdlib>
#include <string>

namespace shim {

struct Operand { void *place; uint64_t value; };

static float as_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

[[noreturn]] static void refuse(const std::string &what, const char *text)
{
    static char line[150];
    snprintf(line, sizeof line, "%s: %.90s", what.c_str(), text);
    for (char *c = line; *c; c++)
        if (*c == '%') *c = '$'; /* fail() takes a format */
    fail(line);
}

/* An instruction: its name, split at the dots, and its operands in their order; those in braces, one vector, in
 * turn. A number is an operand too. */
struct Instruction {
    char name[120];
    Operand operands[160];
    int vectors[160], count;

    bool is(const char *what) const { return strncmp(name, what, strlen(what)) == 0; }
    bool has(const char *part) const { return strstr(name, part) != nullptr; }
};

static void parse(Instruction &it, const char *text, const Operand *given, int count)
{
    int length = (int)strcspn(text, " ;"), vector = 0, depth = 0;
    if (length >= (int)sizeof it.name) refuse("too long a name", text);
    memcpy(it.name, text, length), it.name[length] = 0, it.count = 0;
    for (const char *at = text + length; *at && *at != ';'; at++) {
        if (*at == '{') depth++;
        else if (*at == '}') depth--;
        else if (*at == ',') vector += !depth;
        else if (*at == '%' || (*at >= '0' && *at <= '9')) {
            char *end;
            long number = strtol(at + (*at == '%'), &end, 10);
            if (*at == '%' && number >= count) refuse("an operand that is not given", text);
            it.operands[it.count] = *at == '%' ? given[number] : Operand{nullptr, (uint64_t)number};
            it.vectors[it.count++] = vector;
            at = end - 1;
        } else if (*at != ' ') refuse("not understood", text);
    }
}

/* Whether its vectors have these lengths. */
static bool shaped(const Instruction &it, std::initializer_list<int> lengths)
{
    int at = 0, vector = 0;
    for (int length : lengths) {
        for (int i = 0; i < length; i++, at++)
            if (at >= it.count || it.vectors[at] != vector) return false;
        vector++;
    }
    return at == it.count;
}

enum Kind { TF32_BITS, BF16_BITS, F16_BITS };

static Kind kind_of(const Instruction &it, const char *text)
{
    if (it.has(".f32.tf32.tf32")) return TF32_BITS;
    if (it.has(".f32.bf16.bf16")) return BF16_BITS;
    if (it.has(".f32.f16.f16")) return F16_BITS;
    refuse("no such types", text);
}

/* The number in a 32-bit register, or in one of its halves. Of TF32 the last thirteen bits are not looked at. */
static double number(uint32_t word, Kind kind, int half)
{
    if (kind == TF32_BITS) return as_float(word & 0xffffe000);
    uint32_t bits = word >> 16 * half & 0xffff;
    if (kind == BF16_BITS) return as_float(bits << 16);
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double size = exponent == 31 ? (fraction ? NAN : INFINITY)
                  : exponent    ? ldexp(1024 + fraction, exponent - 25)
                                : ldexp(fraction, -24);
    return bits >> 15 ? -size : size;
}

static float truncated(double x)
{
    float near = (float)x;
    return fabs((double)near) > fabs(x) ? nextafterf(near, 0) : near;
}

/* All lanes of the warp are here. */
static void together() { exchange(0xffffffff, 0, current % WARP); }

/* "Matrix Fragments for mma.m16n8k16 with floating point type", "... mma.m16n8k8": of lane and index i of its elements,
 * groupID = lane / 4, threadID_in_group = lane % 4. */
static void mma_sync(const Instruction &it, const char *text)
{
    static uint32_t words[MOST / WARP][WARP][6];
    Kind kind = kind_of(it, text);
    int deep = kind == TF32_BITS ? 8 : 16, lane = current % WARP, warp = current / WARP;
    const char *shape = kind == TF32_BITS ? ".aligned.m16n8k8.row.col.f32" : ".aligned.m16n8k16.row.col.f32";
    if (!it.has(shape) || strcmp(it.name + strlen(it.name) - 4, ".f32") || !shaped(it, {4, 4, 2, 4}))
        refuse("no such shape", text);
    for (int i = 0; i < 6; i++) words[warp][lane][i] = (uint32_t)it.operands[4 + i].value;
    together();
    static double a[16][16], b[16][8];
    for (int l = 0; l < WARP; l++) {
        int group = l / 4, member = l % 4;
        if (kind == TF32_BITS) {
            for (int i = 0; i < 4; i++) /* a0 ... a3 */
                a[i == 0 || i == 2 ? group : group + 8][i < 2 ? member : member + 4] = number(words[warp][l][i], kind, 0);
            for (int i = 0; i < 2; i++) /* b0, b1 */
                b[i == 0 ? member : member + 4][group] = number(words[warp][l][4 + i], kind, 0);
            continue;
        }
        for (int i = 0; i < 8; i++) { /* a0 ... a7 */
            int row = i < 2 || (4 <= i && i < 6) ? group : group + 8, col = member * 2 + (i & 1) + (i >= 4 ? 8 : 0);
            a[row][col] = number(words[warp][l][i / 2], kind, i % 2);
        }
        for (int i = 0; i < 4; i++) /* b0 ... b3 */
            b[member * 2 + (i & 1) + (i >= 2 ? 8 : 0)][group] = number(words[warp][l][4 + i / 2], kind, i % 2);
    }
    for (int i = 0; i < 4; i++) { /* c0 ... c3 */
        int row = i < 2 ? lane / 4 : lane / 4 + 8, col = lane % 4 * 2 + (i & 1);
        double sum = as_float((uint32_t)it.operands[10 + i].value);
        for (int k = 0; k < deep; k++) sum += a[row][k] * b[k][col];
        *(float *)it.operands[i].place = truncated(sum);
    }
    together(); /* nobody's words are overwritten before all have read them */
}

/* Shared memory as it was at a thread's last fence, and what wgmma sees of it; a thread's sums on their way. */
enum { SUMS = 128 };
static char written[1 << 16], proxy[sizeof written];
static struct Pending { float *at[SUMS], sum[SUMS]; bool fenced, under_way, committed; } pending[MOST];

static size_t shared_size() { return __stop_shared_memory - __start_shared_memory; }

static void forget()
{
    memset(written, 0xff, sizeof written);
    memset(proxy, 0xff, sizeof proxy);
    memset(pending, 0, sizeof pending);
}

static void publish() { memcpy(proxy, written, sizeof proxy); }

/* "Matrix Descriptor Format", "Strides": K-major without swizzling. */
static uint32_t described(uint64_t matrix, int row, int byte, const char *text)
{
    if (matrix >> 46) refuse("a swizzle or a base offset", text);
    uint64_t start = (matrix & 0x3fff) << 4, leading = (matrix >> 16 & 0x3fff) << 4, stride = (matrix >> 32 & 0x3fff) << 4;
    uint64_t at = start + row / 8 * stride + row % 8 * 16 + byte / 16 * leading + byte % 16;
    if (at + 4 > shared_size() || at + 4 > sizeof proxy) refuse("a descriptor beyond shared memory", text);
    if (byte % 16 == 0) threads::reads(__start_shared_memory + at, 16); /* a row of a core matrix, told once */
    uint32_t word;
    memcpy(&word, proxy + at, sizeof word);
    return word;
}

/* "Asynchronous Warpgroup Level Matrix Multiply-Accumulate": m64n256k16 and m64n256k8, "Register Fragments" of D. */
static void wgmma(const Instruction &it, const char *text)
{
    Kind kind = kind_of(it, text);
    bool short_type = kind != TF32_BITS;
    if (!it.has(short_type ? ".sync.aligned.m64n256k16.f32" : ".sync.aligned.m64n256k8.f32") || count % 128 ||
        !(short_type ? shaped(it, {128, 1, 1, 1, 1, 1, 1, 1}) : shaped(it, {128, 1, 1, 1, 1, 1})))
        refuse("no such shape", text);
    for (int i = 0; i < it.count - 130; i++)
        if (it.operands[130 + i].value != (i < 3)) refuse("a scale that is not 1, or a transposed operand", text);
    together();
    Pending &mine = pending[current];
    if (!mine.fenced) refuse("its registers are not fenced", text);
    for (int i = 0; i < SUMS; i++) {
        float *place = (float *)it.operands[i].place;
        if (mine.under_way && mine.at[i] != place) refuse("other registers while some are under way", text);
        if (!mine.under_way) mine.at[i] = place, mine.sum[i] = *place;
        *place = NAN;
    }
    mine.under_way = true, mine.committed = false;
    int warp = current % 128 / WARP, lane = current % WARP;
    for (int i = 0; i < SUMS; i++) {
        int row = 16 * warp + lane / 4 + (i / 2 % 2 ? 8 : 0), col = i / 4 * 8 + lane % 4 * 2 + (i & 1);
        double sum = mine.sum[i];
        for (int byte = 0; byte < 32; byte += 4) {
            uint32_t a = described(it.operands[128].value, row, byte, text);
            uint32_t b = described(it.operands[129].value, col, byte, text);
            for (int half = 0; half <= short_type; half++) sum += number(a, kind, half) * number(b, kind, half);
        }
        mine.sum[i] = truncated(sum);
    }
}

static void wait_group()
{
    Pending &mine = pending[current];
    together();
    if (!mine.committed) return; /* nothing to wait for: the sums stay NaN */
    for (int i = 0; i < SUMS; i++) *mine.at[i] = mine.sum[i];
    mine.fenced = mine.under_way = mine.committed = false;
}

static void execute(const Instruction &it, const char *text)
{
    Pending &mine = pending[current];
    if (it.is("mma.sync.")) return mma_sync(it, text);
    if (it.is("wgmma.mma_async.")) return wgmma(it, text);
    if (it.is("cvt.rna.tf32.f32") && shaped(it, {1, 1})) { /* to nearest, ties away from zero */
        *(uint32_t *)it.operands[0].place = ((uint32_t)it.operands[1].value + 0x1000) & 0xffffe000;
    } else if (it.is("fence.proxy.async.shared::cta")) memcpy(written, __start_shared_memory, shared_size());
    else if (it.is("wgmma.fence.sync.aligned")) together(), mine.fenced = true;
    else if (it.is("wgmma.commit_group.sync.aligned")) together(), mine.committed = mine.under_way;
    else if (it.is("wgmma.wait_group.sync.aligned") && it.count == 1 && !it.operands[0].value) wait_group();
    else refuse("nobody does this here", text);
}

static const bool hooked = (at_block = forget, at_barrier = publish, true);

} // namespace shim

template <typename T> shim::Operand ptx_in(T x)
{
    shim::Operand found = {nullptr, 0};
    memcpy(&found.value, &x, sizeof x);
    return found;
}
template <typename T> shim::Operand ptx_inout(T &x) { return {&x, ptx_in(x).value}; }
template <typename T> shim::Operand ptx_out(T &x) { return {&x, 0}; }

template <typename... O> void ptx_run(const char *text, O... operands)
{
    threads::Inside inside;
    shim::Operand given[] = {operands..., shim::Operand()};
    shim::Instruction it;
    shim::parse(it, text, given, sizeof...(O));
    shim::execute(it, text);
}

static inline size_t __cvta_generic_to_shared(const void *x) { return (const char *)x - __start_shared_memory; }
