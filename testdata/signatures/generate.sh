#!/bin/sh
# Writes vectors.json beside this script: signatures of the scheme
# "t=<unix seconds>,v1=<hex HMAC-SHA-256 of <t>.<body>>", made by openssl and by
# nothing of this repository. Run it from anywhere; its output never changes.
set -eu
cd "$(dirname "$0")"
tmp=$(mktemp)
trap 'rm -f "$tmp"' EXIT

# mac SECRET TIMESTAMP: the signature of the body in $tmp.
mac() {
	{ printf '%s.' "$2"; cat "$tmp"; } | openssl dgst -sha256 -hmac "$1" -hex | sed 's/^.*= *//'
}

# entry NAME VERDICT SECRET TIMESTAMP HEADER: one vector with the body in $tmp.
# SECRET is what the receiver knows.
separator=''
entry() {
	printf '%s\t{"name": "%s", "verdict": "%s", "secret": "%s", "timestamp": %s,\n\t "header": "%s",\n\t "body_base64": "%s"}' \
		"$separator" "$1" "$2" "$3" "$4" "$5" "$(openssl base64 -A <"$tmp")"
	separator=',
'
}

# valid NAME SECRET TIMESTAMP: the plain case.
valid() { entry "$1" valid "$2" "$3" "t=$3,v1=$(mac "$2" "$3")"; }

secret=whsec_4f1d0c9b8a7e6d5c4b3a29180f0e0d0c
other=whsec_00112233445566778899aabbccddeeff
order='{"event":{"id":"evt_1","type":"order.placed","created_at":"2026-11-20T10:20:30Z","clinic_id":"cl_1","data":{"order":{"id":"or_1"}},"integration_id":"in_1"}}'

{
	printf '[\n'
	printf '%s' "$order" >"$tmp"
	valid order $secret 1591826856
	valid 'nine digits' $secret 946684800
	valid 'secret longer than a hash block' "$secret$secret$secret" 1591826856
	valid 'secret of one byte' k 1591826856
	entry 'upper-case digits' valid $secret 1591826856 "t=1591826856,v1=$(mac $secret 1591826856 | tr a-f A-F)"
	entry 'signature first' valid $secret 1591826856 "v1=$(mac $secret 1591826856),t=1591826856"
	entry 'space after the comma' valid $secret 1591826856 "t=1591826856, v1=$(mac $secret 1591826856)"
	entry 'two signatures, the second ours' valid $secret 1591826856 "t=1591826856,v1=$(mac $other 1591826856),v1=$(mac $secret 1591826856)"
	entry 'another scheme beside' valid $secret 1591826856 "t=1591826856,v0=none,v1=$(mac $secret 1591826856)"
	entry 'leading zero, signed as written' valid $secret 946684800 "t=0946684800,v1=$(mac $secret 0946684800)"
	entry 'another secret' mismatch $secret 1591826856 "t=1591826856,v1=$(mac $other 1591826856)"
	entry 'another timestamp' mismatch $secret 1591826856 "t=1591826856,v1=$(mac $secret 1591826857)"
	entry 'leading zero, signed without' mismatch $secret 946684800 "t=0946684800,v1=$(mac $secret 946684800)"
	changed=$(mac $secret 1591826856)
	printf '%s ' "$order" >"$tmp"
	entry 'a space added to the body' mismatch $secret 1591826856 "t=1591826856,v1=$changed"
	: >"$tmp"
	valid 'empty body' $secret 1591826856
	printf '{"name":"Zo\303\253 \360\237\214\277","note":"line\\nbreak"}\n' >"$tmp"
	valid 'UTF-8 and a final line break' $secret 1591826856
	printf '\000\001\377not JSON' >"$tmp"
	valid 'arbitrary bytes' $secret 1591826856
	printf '\n]\n'
} >vectors.json
