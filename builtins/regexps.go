package builtins

// Regular expressions in RE2 syntax, for gates that read logs.

import (
	"regexp"

	"go.starlark.net/starlark"

	"flow/starlark/value"
)

func regexpFamily() Family {
	return Family{"Regular expressions", "RE2 syntax; a match is a tuple of the whole and its groups, a group that took no part is None.", []Builtin{
		{
			Name: "re.match", Doc: "The match at the beginning of the text, or None.", Example: `re.match(r"(\d+) tok", "12 tok/s")`,
			Func: func(c *Call) (starlark.Value, error) {
				re, s, err := reArgs(c)
				if err != nil {
					return nil, err
				}
				if m := re.FindStringSubmatchIndex(s); m != nil && m[0] == 0 {
					return reMatch(s, m), nil
				}
				return starlark.None, nil
			},
		}, {
			Name: "re.search", Doc: "The first match anywhere in the text, or None.", Example: `re.search(r"n_ubatch\s*=\s*(\d+)", "n_ubatch = 1024")`,
			Func: func(c *Call) (starlark.Value, error) {
				re, s, err := reArgs(c)
				if err != nil {
					return nil, err
				}
				if m := re.FindStringSubmatchIndex(s); m != nil {
					return reMatch(s, m), nil
				}
				return starlark.None, nil
			},
		}, {
			Name: "re.findall", Doc: "All matches: a list of texts, of the group's texts when the pattern has one group, of tuples when it has several.", Example: `re.findall(r"budget=(\d+)", "budget=4200 budget=4600")`,
			Func: func(c *Call) (starlark.Value, error) {
				re, s, err := reArgs(c)
				if err != nil {
					return nil, err
				}
				out := []starlark.Value{}
				for _, m := range re.FindAllStringSubmatchIndex(s, -1) {
					t := reMatch(s, m)
					switch len(t) {
					case 1:
						out = append(out, t[0])
					case 2:
						out = append(out, t[1])
					default:
						out = append(out, t[1:])
					}
				}
				return starlark.NewList(out), nil
			},
		},
	}}
}

func reArgs(c *Call) (*regexp.Regexp, string, error) {
	var p, s string
	if err := c.Unpack(2,
		value.Param{Name: "pattern", Required: true, Into: pattern(&p), Doc: "RE2 pattern"},
		value.Param{Name: "text", Required: true, Into: value.String(&s), Doc: "where to look"},
	); err != nil {
		return nil, "", err
	}
	return regexp.MustCompile(p), s, nil
}

func reMatch(s string, m []int) starlark.Tuple {
	t := make(starlark.Tuple, 0, len(m)/2)
	for i := 0; i < len(m); i += 2 {
		if m[i] < 0 {
			t = append(t, starlark.None)
			continue
		}
		t = append(t, starlark.String(s[m[i]:m[i+1]]))
	}
	return t
}
