package fold_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/internal/fold"
)

func TestName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"MARTA": "marta", "Renée": "renee", "Rene\u0301e": "renee", "O’Brien": "obrien", "O\u02BCBrien": "obrien", "Ka\u02BBiulani": "kaiulani", "Mary-Ann": "maryann", "Mary Ann ": "maryann",
		"Müller": "muller", "Weiß": "weiss", "Nguyễn": "nguyen", "Łukasz": "lukasz", "Ελένη": "ελενη", "Ｍａｒｔａ": "marta", "Soﬁa": "sofia", "李": "李", " - ": "", "": "",
	} {
		assert.Equal(t, want, fold.Name(name), name)
	}
}

func TestASCII(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "kate@example.com", fold.ASCII("Kate@EXAMPLE.com"))
	assert.NotEqual(t, fold.ASCII("kate@example.com"), fold.ASCII("\u212Aate@example.com"), "the Kelvin sign is not a k")
	assert.Equal(t, "É@x", fold.ASCII("É@X"))
}

func TestLetterFoldsCompatibleForms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"B₁₂": "b12", "CO²": "co2", "¹⁰₉": "109", "Ｏｍｅｇａ－３": "omega-3", "５，０００": "5,000", "ﬁﬂﬀﬃﬄﬆ": "fiflffffifflst",
		"Μαγνήσιος": "μalphagammaνησιοσ", "µ": "μ", "®": "®", "½": "½", "！～": "!~",
	} {
		got := ""
		for _, r := range text {
			got += fold.Letter(r)
		}
		assert.Equal(t, want, got, text)
	}
}
