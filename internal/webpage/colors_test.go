package webpage_test

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The parts of a bar differ for all people, on gray paper, and from their card.
func TestChartColorsDiffer(t *testing.T) {
	t.Parallel()
	sheet := ""
	for _, name := range []string{"base.css", "style.css"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		sheet += string(text)
	}
	for scheme, mode := range []string{"light", "dark"} {
		color := func(name string) rgb {
			found := regexp.MustCompile("--" + name + `: light-dark\(#(\w{6}), #(\w{6})\)`).FindStringSubmatch(sheet)
			require.NotNil(t, found, name)
			return newRGB(t, found[scheme+1])
		}
		names := []string{"bar-dead", "bar-retry", "bar-handled"}
		for n, name := range names {
			assert.Greater(t, contrast(color(name), color("card")), 3.0, "%s %s on its card", mode, name)
			for _, other := range names[:n] {
				assert.Greater(t, contrast(color(name), color(other)), 1.6, "%s %s and %s in gray", mode, name, other)
				for vision, matrix := range visions {
					assert.Greater(t, distance(color(name).seen(matrix), color(other).seen(matrix)), 25.0, "%s %s and %s with %s", mode, name, other, vision)
				}
			}
		}
	}
}

// rgb is a color in linear light.
type rgb [3]float64

func newRGB(t *testing.T, hex string) (c rgb) {
	for n := range c {
		value, err := strconv.ParseUint(hex[2*n:2*n+2], 16, 8)
		require.NoError(t, err)
		if c[n] = float64(value) / 255; c[n] <= 0.04045 {
			c[n] /= 12.92
		} else {
			c[n] = math.Pow((c[n]+0.055)/1.055, 2.4)
		}
	}
	return c
}

func (c rgb) luminance() float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] }

// contrast is the contrast ratio of WCAG.
func contrast(a, b rgb) float64 {
	return (max(a.luminance(), b.luminance()) + 0.05) / (min(a.luminance(), b.luminance()) + 0.05)
}

// visions are the matrices of Machado, Oliveira and Fernandes for complete color blindness.
var visions = map[string][3]rgb{
	"normal vision": {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"deuteranopia":  {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.01182, 0.04294, 0.968881}},
	"protanopia":    {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
}

func (c rgb) seen(matrix [3]rgb) (seen rgb) {
	for n, row := range matrix {
		seen[n] = max(0, row[0]*c[0]+row[1]*c[1]+row[2]*c[2])
	}
	return seen
}

// distance is the distance of two colors in CIELAB (CIE76). Below 10, two areas are hard to
// distinguish.
func distance(a, b rgb) float64 {
	one, other := a.lab(), b.lab()
	return math.Sqrt(math.Pow(one[0]-other[0], 2) + math.Pow(one[1]-other[1], 2) + math.Pow(one[2]-other[2], 2))
}

func (c rgb) lab() [3]float64 {
	f := func(t float64) float64 {
		if t > 0.008856 {
			return math.Cbrt(t)
		}
		return 7.787*t + 16.0/116
	}
	x, y, z := f((0.4124*c[0]+0.3576*c[1]+0.1805*c[2])/0.95047), f(c.luminance()), f((0.0193*c[0]+0.1192*c[1]+0.9505*c[2])/1.08883)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}
