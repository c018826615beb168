package engine

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// lookPointer finds an RFC 6901 pointer in a JSON document decoded with UseNumber. "" is the document.
func lookPointer(doc any, pointer string) (any, error) {
	if pointer == "" {
		return doc, nil
	}
	if !strings.HasPrefix(pointer, "/") {
		return nil, fmt.Errorf("got pointer %q, want one that begins with /", pointer)
	}
	at := doc
	for tok := range strings.SplitSeq(pointer[1:], "/") {
		tok = strings.ReplaceAll(strings.ReplaceAll(tok, "~1", "/"), "~0", "~")
		switch v := at.(type) {
		case map[string]any:
			next, ok := v[tok]
			if !ok {
				return nil, fmt.Errorf("no member %q on the way to %s", tok, pointer)
			}
			at = next
		case []any:
			i, err := strconv.Atoi(tok)
			if err != nil || i < 0 || i >= len(v) {
				return nil, fmt.Errorf("no element %q in a list of %d on the way to %s", tok, len(v), pointer)
			}
			at = v[i]
		default:
			return nil, fmt.Errorf("%q is neither object nor list on the way to %s", tok, pointer)
		}
	}
	return at, nil
}

// jsonText is a value as evidence shows it: strings without quotes, the rest as JSON.
func jsonText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// sameText compares an observed value with the wanted one: as numbers where both are ("4.0" is "4"), else
// as text.
func sameText(got, want string) bool {
	if got == want {
		return true
	}
	g, gerr := strconv.ParseFloat(got, 64)
	w, werr := strconv.ParseFloat(want, 64)
	return gerr == nil && werr == nil && g == w
}
