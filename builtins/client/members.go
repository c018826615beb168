package client

import (
	"bytes"
	"encoding/json"
)

// member is one field of a JSON object.
type member struct {
	key   string
	value json.RawMessage
}

// members gives the fields of an object in their order, repeated ones too; ok is false for anything that
// is not one whole valid object. The library's own reading into structs ignores case and merges
// repeated fields, which a stream's reader must not.
func members(data []byte) ([]member, bool) {
	if !json.Valid(data) {
		return nil, false
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	open, err := dec.Token()
	if err != nil || open != json.Delim('{') {
		return nil, false
	}
	var out []member
	for dec.More() {
		key, err := dec.Token()
		name, ok := key.(string)
		if err != nil || !ok {
			return nil, false
		}
		m := member{key: name}
		if err := dec.Decode(&m.value); err != nil {
			return nil, false
		}
		out = append(out, m)
	}
	return out, true
}
