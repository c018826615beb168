package plan

// What differs between two resolutions, in words.

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Changed names what differs between two Parts texts; nil when nothing does.
func Changed(before, after string) []string {
	var a, b []part
	if json.Unmarshal([]byte(before), &a) != nil || json.Unmarshal([]byte(after), &b) != nil {
		if before == after {
			return nil
		}
		return []string{"what was asked"}
	}
	was := map[string][]part{} // several groups have parts of one name, in the same order
	for _, p := range a {
		was[p.What] = append(was[p.What], p)
	}
	var out []string
	for _, p := range b {
		old := was[p.What]
		if len(old) == 0 {
			out = append(out, p.What+" is new")
			continue
		}
		if old[0].Hash != p.Hash {
			out = append(out, changedWords(old[0], p))
		}
		was[p.What] = old[1:]
	}
	var gone []string
	for w, left := range was {
		for range left {
			gone = append(gone, w+" is gone")
		}
	}
	slices.Sort(gone)
	return append(out, gone...)
}

// changedWords says what of a part changed, as far as is on record.
func changedWords(was, now part) string {
	var x, y any
	if json.Unmarshal(was.Said, &x) == nil && json.Unmarshal(now.Said, &y) == nil {
		what, _, _ := strings.Cut(now.What, " (")
		if diff := differences("", x, y); len(diff) > 0 {
			const most = 6
			if n := len(diff); n > most {
				diff = append(diff[:most], fmt.Sprintf("and %d more", n-most))
			}
			return what + " changed: " + strings.Join(diff, ", ")
		}
	}
	return now.What + " changed"
}

// differences names what differs between two JSON values: "costs.ttft_ms was 0.05 and is 0.06". Members of a list go
// by their names, where they have any.
func differences(at string, was, now any) []string {
	if a, b := inner(was), inner(now); a != nil && b != nil {
		was, now = a, b
	}
	x, isMap := members(was)
	y, also := members(now)
	if !isMap && !also || was != nil && !isMap || now != nil && !also {
		if reflect.DeepEqual(was, now) {
			return nil
		}
		return []string{fmt.Sprintf("%s was %s and is %s", at, said(was), said(now))}
	}
	keys := slices.Collect(maps.Keys(x))
	for k := range y {
		if _, ok := x[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	var out []string
	for _, k := range keys {
		name := k
		if at != "" {
			name = at + "." + k
		}
		a, had := x[k]
		b, has := y[k]
		switch {
		case had && has:
			out = append(out, differences(name, a, b)...)
		case had:
			out = append(out, fmt.Sprintf("%s was %s and is gone", name, said(a)))
		default:
			out = append(out, fmt.Sprintf("%s %s is new", name, said(b)))
		}
	}
	return out
}

// inner is the object that a text holds: parameters of gates and stops are kept as JSON.
func inner(v any) (m map[string]any) {
	if text, ok := v.(string); !ok || json.Unmarshal([]byte(text), &m) != nil {
		return nil
	}
	return m
}

// members are those of an object, or of a list by name or number. The second is false for what has none.
func members(v any) (map[string]any, bool) {
	switch x := v.(type) {
	case map[string]any:
		return x, true
	case []any:
		out := map[string]any{}
		for i, e := range x {
			key := strconv.Itoa(i + 1)
			if m, ok := e.(map[string]any); ok {
				for _, k := range []string{"name", "label"} {
					if name, ok := m[k].(string); ok && out[name] == nil {
						key = name
						break
					}
				}
			}
			out[key] = e
		}
		return out, true
	}
	return nil, false
}

// said is a value in few words.
func said(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "another"
	}
	const most = 60
	if r := []rune(string(b)); len(r) > most {
		return string(r[:most]) + "…"
	}
	return string(b)
}
