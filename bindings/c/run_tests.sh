#!/usr/bin/env bash
# The C ABI from the outside: what the libraries export, and the C and C++ programs that use all of it,
# built by gcc and clang, linked dynamically and statically, under valgrind and the sanitizers.
#
#     run_tests.sh DIRECTORY      where libazud.so and libazud.a are, such as target/release
#
# clang and valgrind are left out, with a message, where they are not installed.

set -eu -o pipefail

[ $# = 1 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
libraries=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

for library in libazud.so libazud.a; do
    [ -f "$libraries/$library" ] || { echo "missing: $1/$library (make capi builds it)" >&2; exit 2; }
done

# What the static library needs besides itself: rustc --print native-static-libs.
native=(-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc)
dynamic=("-L$libraries" -lazud "-Wl,-rpath,$libraries" -lpthread)
static=("$libraries/libazud.a" "${native[@]}")
includes=(-Iinclude -Ibindings/cpp)
warnings=(-Wall -Wextra -Wpedantic -Werror)
# Whoever includes the headers may be stricter than we are.
strict=(-Wshadow -Wconversion -Wsign-conversion -Wundef)

# Says what it does, and does it.
run() {
    printf '  %s\n' "${*//"$out"/OUT}"
    "$@"
}

fail() {
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}

echo "== exports of libazud.so: azud_* and nothing else, each declared, each tested"
exports=$(nm -D --defined-only "$libraries/libazud.so" | awk '{ sub(/@.*/, "", $3); print $3 }')
[ -n "$exports" ] || fail "libazud.so exports nothing"
for name in $exports; do
    [[ $name == azud_* ]] || fail "libazud.so exports $name"
    for file in include/azud.h bindings/c/test.c; do
        grep -q "\b$name(" "$file" || fail "$file does not name $name"
    done
    grep -q "\b$name(" bindings/cpp/azud.hpp bindings/cpp/test.cpp || fail "bindings/cpp does not name $name"
done
declared=$(grep -oE '\bazud_[a-z_]+\(' include/azud.h | tr -d '(' | sort -u)
for name in $declared; do
    grep -qx "$name" <<<"$exports" || fail "include/azud.h names $name(), which libazud.so does not export"
done

compilers=(gcc)
if command -v clang >/dev/null; then compilers+=(clang); else echo "SKIPPED: clang (not installed)"; fi

for cc in "${compilers[@]}"; do
    case $cc in gcc) cxx=g++ ;; *) cxx=$cc++ ;; esac

    echo "== $cc: the headers alone"
    for standard in c99 c11; do
        run "$cc" -std=$standard "${warnings[@]}" "${strict[@]}" -fsyntax-only -x c include/azud.h
    done
    run "$cxx" -std=c++17 "${warnings[@]}" "${strict[@]}" -Wold-style-cast -fsyntax-only -x c++ include/azud.h
    printf '#include "azud.hpp"\n' >"$out/header.cpp"
    run "$cxx" -std=c++17 "${warnings[@]}" "${strict[@]}" -Wold-style-cast "${includes[@]}" -fsyntax-only "$out/header.cpp"

    echo "== $cc: the example of the header"
    {
        printf '#include "azud.h"\n#include <stdio.h>\nint main(void) {\n'
        sed -n '/^ \* EXAMPLE$/,/^ \* Link/s/^ \*     //p' include/azud.h
        printf 'return 0;\n}\n'
    } >"$out/example.c"
    run "$cc" -std=c11 "${warnings[@]}" "${includes[@]}" "$out/example.c" -o "$out/example" "${dynamic[@]}"
    said=$(run "$out/example" | sort | uniq -c | tr -s ' \n' ' ')
    [[ $said == *" 1 429 Too Many Requests 20 served"* ]] || fail "the example said:$said"

    echo "== $cc: the tests, the library linked dynamically and statically"
    for kind in dynamic static; do
        declare -n linked=$kind
        run "$cc" -std=c11 -O2 -g "${warnings[@]}" "${includes[@]}" bindings/c/test.c -o "$out/test-c-$cc-$kind" "${linked[@]}"
        run "$out/test-c-$cc-$kind"
        run "$cxx" -std=c++17 -O2 -g "${warnings[@]}" "${includes[@]}" bindings/cpp/test.cpp -o "$out/test-cpp-$cc-$kind" "${linked[@]}"
        run "$out/test-cpp-$cc-$kind"
    done

    echo "== $cc: the demo"
    run "$cc" -std=c11 -O2 "${warnings[@]}" "${includes[@]}" bindings/c/demo.c -o "$out/demo" "${dynamic[@]}"
    run "$out/demo" benches/data/access.log >"$out/demo.txt"
    grep -q "distinct clients" "$out/demo.txt" || fail "the demo said: $(cat "$out/demo.txt")"

    echo "== $cc: the tests under AddressSanitizer and UndefinedBehaviorSanitizer"
    sanitize=(-O1 -g -fno-omit-frame-pointer "-fsanitize=address,undefined" -fno-sanitize-recover=all)
    run "$cc" -std=c11 "${sanitize[@]}" "${warnings[@]}" "${includes[@]}" bindings/c/test.c -o "$out/san-c" "${static[@]}"
    run "$out/san-c"
    run "$cxx" -std=c++17 "${sanitize[@]}" "${warnings[@]}" "${includes[@]}" bindings/cpp/test.cpp -o "$out/san-cpp" "${static[@]}"
    run "$out/san-cpp"
done

if command -v valgrind >/dev/null; then
    echo "== the tests under valgrind"
    check=(valgrind --quiet --error-exitcode=9 --leak-check=full --num-callers=40 --fair-sched=try
        --suppressions=bindings/c/valgrind.supp)
    run "${check[@]}" "$out/test-c-gcc-dynamic"
    run "${check[@]}" "$out/test-cpp-gcc-dynamic"
else
    echo "SKIPPED: valgrind (not installed)"
fi

echo "== all C and C++ tests passed"
