package catalogsync

import "strings"

// minCode is the least length of a typed code in bytes.
const minCode = 3

// The lengths in digits of barcodes: EAN-8, UPC-A, EAN-13 and GTIN-14 are one number with
// different leading zeros, which scanners add and spreadsheets remove.
const (
	minBarcode = 8
	maxBarcode = 14
)

// codeTerms returns the terms that find an SKU or UPC: its text without separators, from each
// of its words on, so that ALR-0012 is found by alr0 and by 0012, and the barcode without
// leading zeros.
func codeTerms(text string) (terms []string) {
	all := words(text)
	code := join(all)
	at := 0
	for _, w := range all {
		terms = append(terms, code[at:min(len(code), at+maxQuery)])
		at += len(w.text)
	}
	return append(terms, bare(code)...)
}

// typedCodes returns the beginnings of codes that a query may mean.
func typedCodes(typed []word) []string {
	code := join(typed)
	if len(code) < minCode {
		return nil
	}
	return append([]string{code}, bare(code)...)
}

// bare returns a barcode without its leading zeros. It returns nothing if the code has none
// or is not a barcode.
func bare(code string) []string {
	digits := strings.TrimLeft(code, "0")
	if len(code) < minBarcode || len(code) > maxBarcode || len(digits) == len(code) || len(digits) < minCode ||
		strings.ContainsFunc(digits, func(r rune) bool { return r < '0' || r > '9' }) {
		return nil
	}
	return []string{digits}
}

// join returns words without the separators between them.
func join(words []word) string {
	var b strings.Builder
	for _, w := range words {
		b.WriteString(w.text)
	}
	return b.String()
}
