package fold_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/internal/fold"
)

func TestName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"MARTA": "marta", "Renée": "renee", "Rene\u0301e": "renee", "O’Brien": "obrien", "Mary-Ann": "maryann", "Mary Ann ": "maryann",
		"Müller": "muller", "Weiß": "weiss", "Nguyễn": "nguyen", "Łukasz": "lukasz", "Ελένη": "ελένη", "李": "李", " - ": "", "": "",
	} {
		assert.Equal(t, want, fold.Name(name), name)
	}
}

func TestASCII(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "kate@example.com", fold.ASCII("Kate@EXAMPLE.com"))
	assert.NotEqual(t, fold.ASCII("kate@example.com"), fold.ASCII("\u212Aate@example.com"), "the Kelvin sign is no k")
	assert.Equal(t, "É@x", fold.ASCII("É@X"))
}
