// For loops over pixels: compiled once for AVX2 machines and once for all others, the loader picks.
// Private to this folder; its users are built with -O3 (CMakeLists.txt).
#pragma once

// Sanitizers and clang 14 do not get on with the picking.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LY_VECTORIZED __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define LY_VECTORIZED
#endif
