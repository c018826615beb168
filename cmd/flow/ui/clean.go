package ui

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxText is how much of one text is shown.
const MaxText = 4 << 10

// Clean is a text as a terminal may have it: what engines, servers and workflows say reaches the screen, and
// must not move its cursor, change its title or fill it. Line ends and tabs stay, other control characters
// become spaces, and what is longer than limit bytes (0 is no limit) is cut.
func Clean(s string, limit int) string {
	if limit > 0 && len(s) > limit {
		for limit > 0 && !utf8.RuneStart(s[limit]) {
			limit--
		}
		s = s[:limit] + "…"
	}
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return ' '
		}
		return r
	}, s)
}
