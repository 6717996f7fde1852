// Package closestmatch suggests the correct spelling of a misspelled name.
package closestmatch

import (
	"fmt"
	"strings"
	"unicode"
)

// To returns the most likely correct spelling of name among known, or "". A candidate matches
// if it differs from name in few letters, or if it contains the 4 or more letters of name in
// sequence, as page[size] contains "size".
func To(name string, known []string) string {
	best, distance := "", 1+len(name)/3
	for _, candidate := range known {
		if d := Distance(name, candidate); d <= distance {
			best, distance = candidate, d-1
		}
	}
	letters := lettersOf(name)
	for _, candidate := range known {
		if best == "" && len(letters) >= 4 && strings.Contains(lettersOf(candidate), letters) {
			best = candidate
		}
	}
	return best
}

func lettersOf(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// Distance counts the letters to insert, remove, change or swap to turn a into b.
func Distance(a, b string) int {
	if len(a) > 100 || len(b) > 100 {
		return len(a) + len(b)
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}

// Unknown returns a message about an unknown name. It suggests the closest known name, or
// lists up to 24 known names. It omits a longer list.
func Unknown(what, name string, known []string) string {
	if near := To(name, known); near != "" {
		return fmt.Sprintf("there is no %s %q (did you mean %q?)", what, name, near)
	}
	const most = 24
	if len(known) > most {
		return fmt.Sprintf("there is no %s %q", what, name)
	}
	return fmt.Sprintf("there is no %s %q, only %s", what, name, strings.Join(known, ", "))
}
