package builtins_test

import (
	"testing"

	"flow/builtins"
)

// Every field of a record that a workflow reads is explained.
func TestRecordFields(t *testing.T) {
	for _, r := range builtins.Records() {
		for _, f := range r.Fields {
			if f.Doc == "" {
				t.Errorf("%s: nothing says what %s is", r.Name, f.Name)
			}
		}
	}
	for name, field := range map[string]string{"result": "verdict", "comparison": "cost_broken", "arm": "findings", "metric": "withheld", "group record": "comparisons"} {
		r, ok := builtins.LookupRecord(name)
		has := false
		for _, f := range r.Fields {
			has = has || f.Name == field
		}
		if !ok || !has {
			t.Errorf("%s: %v, without %s", name, r, field)
		}
	}
}
